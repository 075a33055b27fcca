"""A machine that measures, as it describes itself, and the targets that it measures for."""

from __future__ import annotations

import hashlib
import json
import platform
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from codegen import Target
from codegen.lowering_digest import lowering_digest
from codegen.target import host
from codegen.target.presets import KNOWN_FEATURES
from search.runner.distributed.messages import read_object
from tensorir.version import __version__


@dataclass(frozen=True)
class Machine:
    """A machine that measures: what it has, and how it was started."""

    host: str
    """Its name in the network."""
    system: str
    """What Python calls the operating system, as in `linux`."""
    architecture: str
    cpu: str
    """The CPU model by LLVM's name."""
    identity: str
    """What the system says of the CPU model: a letter of it may tell two apart for LLVM alike."""
    features: tuple[str, ...]
    """The features of the CPU under LLVM's names."""
    cores: int
    caches: tuple[int, int, int]
    """The bytes of the data caches as one core sees them; 0 where unknown."""
    measuring: int = 1
    """The cores on which it measures, each for itself."""
    at_once: int = 2
    """The trials that it takes at once: some are built while others are measured."""
    release: str = ""
    """What `this_release` returns there."""

    @staticmethod
    def this(measuring: int = 1, at_once: int = 2) -> Machine:
        """Return the machine of this process, or the one that the environment makes up."""
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
        """A name that two machines share whose times may be compared: model, features, caches."""
        known = KNOWN_FEATURES.get(self.architecture, frozenset(self.features))
        features = sorted(known.intersection(self.features))  # a new system may tell of more
        same = [self.system, self.architecture, self.identity, features, self.caches]
        return f"{self.cpu}-{hashlib.sha256(json.dumps(same).encode()).hexdigest()[:6]}"

    @property
    def resource(self) -> str:
        """The Dask resource by which trials find machines of the same kind and release."""
        return f"machine {self.kind} with tensorir {self.release}"

    def why_not(self, target: Target) -> str | None:
        """Return why candidates for a target are not measured here, None if they are.

        A target without a CPU model is the machine of the process that asks.
        """
        if target.architecture != self.architecture:
            return f"it is {self.architecture}"
        if "mcpu" not in target.to_dict() and self.kind != Machine.this().kind:
            return (
                f"the target names no CPU model and is therefore this machine "
                f"({Machine.this().kind}); name one, as in -mcpu={self.cpu}"
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


def described(machines: Mapping[str, Machine]) -> str:
    """Return a sentence on machines, which have addresses for keys."""
    if not machines:
        return "there is no machine that measures: start `tensorir worker` on one"
    kinds: dict[str, list[str]] = {}
    for machine in machines.values():
        kinds.setdefault(machine.kind, []).append(machine.host)
    texts = [f"{len(hosts)} of {kind} ({_some(hosts)})" for kind, hosts in sorted(kinds.items())]
    return f"there are {', '.join(texts)}"


def this_release() -> str:
    """Return what of tensorir this process runs: the release, and the state of the lowering."""
    return f"{__version__} (lowering {lowering_digest()})"


def _some(names: Sequence[str], most: int = 4) -> str:
    different = sorted(set(names))
    more = f" and {len(different) - most} more" if len(different) > most else ""
    return ", ".join(different[:most]) + more


def _bytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
