"""A connection to a Dask scheduler, and the machines that measure there."""

from __future__ import annotations

import asyncio
import logging
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from search.distributed.credentials import Credentials
from search.distributed.dask_package import dask_address, dask_distributed
from search.distributed.machine import Machine, this_release
from search.distributed.scheduler import RELEASE
from search.errors import TuningError

logger = logging.getLogger("tensorir.search")

_AGAIN_SECONDS: Final = 2
"""How long to try to reach a scheduler that went away, until the next look."""


class Connection:
    """A Dask client that is there again when the scheduler is.

    It is the client that a user made, as long as that lives, or one made here for the address of a
    scheduler, with `credentials` as for `DaskRunner`. TuningError if no scheduler answers there
    within `connect_sec`, if its credentials are others, if it is of another release (without
    `allow_other_versions`), and for a client whose connection is not TLS.
    """

    def __init__(
        self,
        scheduler: Any,
        credentials: Any = None,
        connect_sec: float = 5.0,
        allow_other_versions: bool = False,
    ) -> None:
        self._patience = connect_sec
        self._any_version = allow_other_versions
        self._unreadable: set[str] = set()
        self._is_ours = isinstance(scheduler, str)
        if self._is_ours:
            self.address = dask_address(scheduler)
            if not isinstance(credentials, Credentials):
                credentials = Credentials.read(credentials)
            self._security, self._place = credentials.security, credentials.place
            self._client = self._new(connect_sec)
            return
        if scheduler.asynchronous:
            raise TuningError(
                "a search waits for answers and cannot do so with an asynchronous Dask client: "
                "give Client(...) without asynchronous=True, or the address of the scheduler"
            )
        self.address = dask_address(str(scheduler.scheduler.address))
        self._security, self._place = scheduler.security, "the Dask client"
        self._client = self._checked(scheduler)

    @property
    def client(self) -> Any:
        """The Dask client, made anew after `close`."""
        if self._client is None:
            self._client = self._new(self._patience)
        return self._client

    def _new(self, seconds: float) -> Any:
        """Return a new client, of a scheduler that was reached: one that never was ends slowly."""
        with ThreadPoolExecutor(1) as pool:  # this thread may have an event loop, in a notebook
            pool.submit(asyncio.run, self._reach(seconds)).result()
        try:
            return self._checked(
                dask_distributed().Client(
                    self.address, timeout=seconds, security=self._security, set_as_default=False
                )
            )
        except OSError as error:
            raise self._unreachable(error) from error

    async def _reach(self, seconds: float) -> None:
        arguments = self._security.get_connection_args("client")
        distributed = dask_distributed()
        try:
            async with asyncio.timeout(seconds):
                comm = await distributed.comm.connect(self.address, seconds, **arguments)
                comm.abort()
        except OSError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: OSError) -> TuningError:
        causes = [error, error.__cause__, error.__context__]
        fatal = dask_distributed().comm.core.FatalCommClosedError
        if isinstance(error, fatal) or any(isinstance(cause, ssl.SSLError) for cause in causes):
            return TuningError(
                f"what answers at {self.address} does not have the credentials of {self._place}: "
                "give the address that `tensorir scheduler` prints, and copy here the file"
            )
        reason = error.__cause__ or str(error) or "what is there is silent"
        return TuningError(
            f"there is no scheduler at {self.address}: {reason}; start one with "
            "`tensorir scheduler`, or give the address that it prints, as in dask://host:8786"
        )

    def _checked(self, client: Any) -> Any:
        """Return a client; TuningError if its scheduler is of another release."""
        there, here = client.get_metadata(RELEASE, None), this_release()
        if there in (None, here) or self._any_version:  # `dask scheduler` says nothing
            return client
        if self._is_ours:
            client.close(timeout=_AGAIN_SECONDS)
        raise TuningError(f"the scheduler at {self.address} {other_release(there)}")

    def is_up(self) -> bool:
        """Say whether the scheduler is there; try to reach it if the client has given it up."""
        if self.client.status == "running":
            return True
        if self.client.status != "closed":
            return False  # it is trying
        try:
            client = self._new(_AGAIN_SECONDS)
        except TuningError:
            return False
        self._client, self._is_ours = client, True
        return True

    def machines(self) -> dict[str, Machine]:
        """Return the machines that measure, by the addresses of their workers.

        Workers that do not describe themselves, or not as one can read, are left out, which is
        said once.
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
        """Let go of a client that was made here."""
        if self._is_ours and self._client is not None:
            self._client.close(timeout=_AGAIN_SECONDS)
            self._client = None


def other_release(there: object) -> str:
    """Return what is wrong with somebody of another release, for the end of a sentence."""
    return (
        f"runs tensorir {there} and this process {this_release()}: install the same version on "
        "both, or allow others by DaskRunner(..., allow_other_versions=True)"
    )
