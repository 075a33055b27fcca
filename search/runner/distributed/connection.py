"""A connection to a Dask scheduler, and the machines that measure there."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import platform
import socket
import ssl
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final

from codegen import Target
from codegen.kept_files import lowering_digest
from codegen.target import host
from codegen.target.presets import KNOWN_FEATURES
from search.errors import TuningError
from search.runner.distributed.credentials import Credentials, package
from search.runner.distributed.messages import read_object
from tensorir.version import __version__


@dataclass(frozen=True)
class Machine:
    """A machine that measures: its hardware, its release, and the options of its worker."""

    host: str
    """Its name in the network."""
    system: str
    """The operating system as in `sys.platform`."""
    architecture: str
    cpu: str
    """The CPU model by LLVM's name."""
    identity: str
    """The CPU model as the system names it, which may distinguish models with one name in LLVM."""
    features: tuple[str, ...]
    """The features of the CPU under LLVM's names."""
    cores: int
    caches: tuple[int, int, int]
    """The bytes of the data caches as one core sees them; 0 where unknown."""
    measuring: int = 1
    """The number of cores that measure, each independently."""
    at_once: int = 2
    """The number of trials that it accepts at once: some are built while others are measured."""
    release: str = ""
    """The value of `this_release()` on that machine."""

    @staticmethod
    def this(measuring: int = 1, at_once: int = 2) -> Machine:
        """Return the machine of this process, or a simulated machine from the environment."""
        caches = host.cache_sizes()
        return Machine(
            socket.gethostname(),
            sys.platform,
            host.machine(),
            host.cpu_name(),
            host.cpu_identity() or platform.processor(),
            tuple(sorted(host.cpu_features())),
            host.physical_cores(),
            (caches.l1, caches.l2, caches.l3),
            measuring,
            at_once,
            this_release(),
        )

    @cached_property
    def kind(self) -> str:
        """A name for machines with comparable times: CPU model, features, caches."""
        known = KNOWN_FEATURES.get(self.architecture, frozenset(self.features))
        features = sorted(known.intersection(self.features))  # a newer system may list more
        same = [self.system, self.architecture, self.identity, features, self.caches]
        return f"{self.cpu}-{hashlib.sha256(json.dumps(same).encode()).hexdigest()[:6]}"

    @property
    def resource(self) -> str:
        """The Dask resource by which trials find machines of the same kind and release."""
        return f"machine {self.kind} with tensorir {self.release}"

    def why_not(self, target: Target) -> str | None:
        """Return the reason why candidates for a target cannot be measured here, None if they can.

        A target without a CPU model means the machine of the calling process.
        """
        if target.gpu is not None:
            return "it measures on its CPU only; measure for a GPU by LocalRunner on its machine"
        if target.architecture != self.architecture:
            return f"it is {self.architecture}"
        if "mcpu" not in target.to_dict() and self.kind != Machine.this().kind:
            return (
                f"the target has no CPU model and therefore means this machine "
                f"({Machine.this().kind}); add one, as in -mcpu={self.cpu}"
            )
        missing = sorted(target.required_features - set(self.features))
        if missing:
            return f"its CPU has no {', '.join(missing)}"
        if (target.num_cores or 1) > self.cores:
            return f"it has {self.cores} core{'s' * (self.cores != 1)}"
        return None

    def as_json(self) -> dict[str, Any]:
        """Return plain data that `from_json` reads."""
        return asdict(self)

    @staticmethod
    def from_json(obj: Any) -> Machine:
        """Return the machine that `as_json` described; TuningError names the field at fault."""
        return read_object("description of a machine", Machine, obj)

    def __str__(self) -> str:
        caches = "/".join(_bytes(size) for size in self.caches if size) or "unknown"
        return (
            f"{self.host}: {self.kind}, {self.architecture}, {self.cores} "
            f"core{'s' * (self.cores != 1)}, caches {caches}; measures on {self.measuring}"
        )


def describe_machines(machines: Mapping[str, Machine]) -> str:
    """Return a sentence that lists machines, given by their addresses."""
    if not machines:
        return "no machine is connected: start `tensorir worker` on one"
    kinds: dict[str, list[str]] = {}
    for machine in machines.values():
        kinds.setdefault(machine.kind, []).append(machine.host)
    texts = [
        f"{len(hosts)} of {kind} ({_list_some(hosts)})" for kind, hosts in sorted(kinds.items())
    ]
    return f"there are {', '.join(texts)}"


def this_release() -> str:
    """Return the version of tensorir in this process: release and state of the lowering."""
    return f"{__version__} (lowering {lowering_digest()})"


def _list_some(names: Sequence[str], most: int = 4) -> str:
    different = sorted(set(names))
    more = f" and {len(different) - most} more" if len(different) > most else ""
    return ", ".join(different[:most]) + more


def _bytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


logger = logging.getLogger("tensorir.search")

_AGAIN_SECONDS: Final = 2
"""The time limit of one attempt to reach a scheduler that is gone."""


class Connection:
    """A Dask client, which is created again after `close` or when a scheduler is back.

    Raises TuningError if no scheduler answers at `address` within `connect_sec`, or if it has other
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

    Dask's address is returned unchanged. Raises TuningError for any other text.
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
