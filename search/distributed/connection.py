"""A connection to a Dask scheduler, and the machines that measure there."""

from __future__ import annotations

import contextlib
from typing import Any, Final

from search.distributed.dask_package import dask_distributed
from search.distributed.machine import Machine
from search.errors import TuningError

_AGAIN_SECONDS: Final = 2
"""How long to try to reach a scheduler that went away, until the next look."""


class Connection:
    """A Dask client that is there again when the scheduler is.

    It is the client that a user made, as long as that lives, or one made here for an address.
    TuningError if there is no scheduler at the address.
    """

    def __init__(
        self,
        client: Any = None,
        address: str = "",
        security: Any = None,
        connect_sec: float = 10.0,
    ) -> None:
        if client is not None and client.asynchronous:
            raise TuningError(
                "a search waits for answers and cannot do so with an asynchronous Dask client: "
                "give Client(...) without asynchronous=True, or the address of the scheduler"
            )
        self.address = address or str(client.scheduler.address)
        self._security = security if client is None else client.security
        self._is_ours = client is None
        self._patience = connect_sec
        self._client = self._new(connect_sec) if client is None else client

    @property
    def client(self) -> Any:
        """The Dask client, made anew after `close`."""
        if self._client is None:
            self._client = self._new(self._patience)
        return self._client

    def _new(self, seconds: float) -> Any:
        distributed = dask_distributed()
        try:
            return distributed.Client(
                self.address, timeout=seconds, security=self._security, set_as_default=False
            )
        except (OSError, ValueError, TypeError) as error:
            raise TuningError(
                f"there is no Dask scheduler at {self.address}: {error}; start one with "
                "`tensorir scheduler`, or give the address that it prints, with dask:// for tcp://"
            ) from error

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

        Workers that do not describe themselves, or not as one can read, are left out.
        """
        found: dict[str, Machine] = {}
        for address, worker in self.client.scheduler_info(n_workers=-1)["workers"].items():
            with contextlib.suppress(TuningError):
                if worker.get("status") == "running":
                    found[address] = Machine.from_json(worker.get("tensorir"))
        return found

    def close(self) -> None:
        """Let go of a client that was made here."""
        if self._is_ours and self._client is not None:
            self._client.close(timeout=_AGAIN_SECONDS)
            self._client = None
