"""The description of a machine that measures, and the targets that it supports."""

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
        """Return a text if candidates for a target cannot be measured here.

        A target without a CPU model means the machine of the calling process.
        """
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


def described(machines: Mapping[str, Machine]) -> str:
    """Return a sentence that lists machines, given by their addresses."""
    if not machines:
        return "no machine is connected: start `tensorir worker` on one"
    kinds: dict[str, list[str]] = {}
    for machine in machines.values():
        kinds.setdefault(machine.kind, []).append(machine.host)
    texts = [f"{len(hosts)} of {kind} ({_some(hosts)})" for kind, hosts in sorted(kinds.items())]
    return f"there are {', '.join(texts)}"


def this_release() -> str:
    """Return the version of tensorir in this process: release and state of the lowering."""
    return f"{__version__} (lowering {lowering_digest()})"


def _some(names: Sequence[str], most: int = 4) -> str:
    different = sorted(set(names))
    more = f" and {len(different) - most} more" if len(different) > most else ""
    return ", ".join(different[:most]) + more


def _bytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
