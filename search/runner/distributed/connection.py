"""A connection to a Dask scheduler, and the machines that measure there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from search.errors import TuningError
from search.runner.distributed.credentials import Credentials, package
from search.runner.distributed.machine import Machine

logger = logging.getLogger("tensorir.search")

_AGAIN_SECONDS: Final = 2
"""The time limit of one attempt to reach a scheduler that is gone."""


class Connection:
    """A Dask client, which is created again after `close` or when a scheduler is back.

    TuningError if no scheduler answers at `address` within `connect_sec`, or if it has other
    credentials.
    """

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        connect_sec: float = 5.0,
    ) -> None:
        self.address = dask_address(address)
        self._credentials = credentials
        self._patience = connect_sec
        self._unreadable: set[str] = set()
        self._client = self._new(connect_sec)

    @property
    def client(self) -> Any:
        """The Dask client, created again after `close`."""
        if self._client is None:
            self._client = self._new(self._patience)
        return self._client

    def _new(self, seconds: float) -> Any:
        """Return a new client. First check for the scheduler: a client without one never ends."""
        security = self._credentials.security
        try:
            with ThreadPoolExecutor(1) as pool:  # this thread may have an event loop
                pool.submit(asyncio.run, _reach(self.address, security, seconds)).result()
            return package("distributed").Client(
                self.address, timeout=seconds, security=security, set_as_default=False
            )
        except (OSError, ValueError) as error:  # tornado: a ValueError if a handshake is cut off
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> TuningError:
        if isinstance(error.__cause__, ssl.SSLError):
            return TuningError(
                f"the process at {self.address} does not have the credentials of "
                f"{self._credentials.place}: use the address that `tensorir scheduler` prints, and "
                "copy its credentials file here"
            )
        reason = str(error.__cause__ or "") or str(error) or "nothing answers"
        return TuningError(
            f"no scheduler answers at {self.address}: {reason}; start one with "
            "`tensorir scheduler`, or use the address that it prints, as in dask://host:8786"
        )

    @property
    def is_connected(self) -> bool:
        """True if the client has a connection."""
        return self._client is not None and str(self._client.status) == "running"

    def is_up(self) -> bool:
        """Return True if the client is connected as before; if not, try to connect a new one.

        A client that lost its scheduler is replaced: its attempts to reconnect may end in a state
        that it never leaves.
        """
        lost = self._client is not None and not self.is_connected
        if lost:
            self.close()
        if self._client is None:
            try:
                self._client = self._new(_AGAIN_SECONDS)
            except TuningError:
                return False
        return not lost

    def machines(self) -> dict[str, Machine]:
        """Return the machines that measure, by the addresses of their workers.

        Workers without a readable description are left out, with a warning.
        """
        found: dict[str, Machine] = {}
        for address, worker in self.client.scheduler_info(n_workers=-1)["workers"].items():
            try:
                if worker.get("status") == "running":
                    found[address] = Machine.from_json(worker.get("tensorir"))
            except TuningError as error:
                if address not in self._unreadable:
                    logger.warning("The worker at %s is left out: %s", address, error)
                self._unreadable.add(address)
        return found

    def close(self) -> None:
        """Close the client."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(OSError, ValueError):  # the errors of its last connection
                client.close(timeout=_AGAIN_SECONDS)


async def _reach(address: str, security: Any, seconds: float) -> None:
    """Connect to a scheduler and disconnect; OSError if that fails or takes too long."""
    arguments = security.get_connection_args("client")
    async with asyncio.timeout(seconds):
        comm = await package("distributed").comm.connect(address, seconds, **arguments)
        comm.abort()


def dask_address(text: str) -> str:
    """Return Dask's address of the scheduler at `dask://host:port`.

    Dask's address is returned unchanged. TuningError for any other text.
    """
    scheme, _, place = text.partition("://")
    try:
        host, port = package("distributed").comm.parse_host_port(place)
        if scheme in ("dask", "tls") and host and port:
            return f"tls://{place}"
    except ValueError:
        pass
    plain = "connections are always encrypted; " * (scheme == "tcp")
    raise TuningError(
        f"invalid address of a scheduler {text!r}: {plain}use the address that "
        "`tensorir scheduler` prints, as in dask://host:8786"
    )
