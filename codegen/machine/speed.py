"""The measured figures of a machine."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any, Final

_SLACK: Final = 1.2
"""The tolerated factor by which a larger memory may seem faster, on a busy machine."""
MOST_FORK: Final = 5e-5
"""The maximum seconds of an empty parallel loop; on a busy machine a thread of it waits longer."""
_LIMITS: Final = {
    "clock": (2e8, 1e10),
    "fma_units": (0.1, 16.0),
    "fma_latency": (0.9, 24.0),
    "loads": (0.1, 16.0),
    "forward_cycles": (0.0, 100.0),
}


@dataclass(frozen=True, slots=True)
class MachineSpeed:
    """The measured speed of one core of this machine with the vectors of a target.

    `print` shows it as a table.
    """

    vector_bits: int
    clock: float
    """Cycles per second."""
    fma_rate: float
    """Vector multiply-adds per second; on a CPU without them, pairs of a product and an
    addition.
    """
    fma_seconds: float
    """Seconds from one update of an accumulator to the next."""
    forward_seconds: float
    """Seconds from one update of a sum in memory to the next."""
    read: tuple[float, float, float, float]
    """Bytes per second that are read in order from each of three caches and from memory."""
    page_seconds: tuple[float, float]
    """The additional seconds of a load from another page that misses the first TLB, and that misses
    the second TLB."""
    fork_seconds: float
    """The seconds of an empty parallel loop on all cores of this machine with running threads; 0 on
    a single core, without an OpenMP runtime, or if other programs used the cores."""

    @property
    def peak_flops(self) -> float:
        """The peak float32 operations per second, by multiply-adds."""
        return 2 * self.fma_rate * self.vector_bits / 32

    @property
    def fma_units(self) -> float:
        """The multiply-adds of a vector that start each cycle."""
        return self.fma_rate / self.clock

    @property
    def fma_latency(self) -> float:
        """The cycles from one update of an accumulator to the next."""
        return self.fma_seconds * self.clock

    @property
    def loads(self) -> float:
        """The loads of a vector that start each cycle."""
        return self.read[0] / (self.vector_bits / 8) / self.clock

    @property
    def forward_cycles(self) -> float:
        """Cycles from one update of a sum in memory to the next."""
        return self.forward_seconds * self.clock

    @property
    def page_cycles(self) -> tuple[float, float]:
        """`page_seconds` in cycles."""
        first, second = self.page_seconds
        return first * self.clock, second * self.clock

    def line_cycles(self, line: int = 64) -> tuple[float, float, float, float]:
        """Return the cycles for a line of `line` bytes from each cache and from memory."""
        l1, l2, l3, memory = (line / rate * self.clock for rate in self.read)
        return l1, l2, l3, memory

    def implausible(self) -> str | None:
        """Return a sentence about an implausible figure; None if all are plausible."""
        for name, (low, high) in _LIMITS.items():
            value = getattr(self, name)
            if not low <= value <= high:
                return f"{name} was measured as {value:.3g}, which is not from {low} to {high}"
        for near, far in pairwise(self.read):
            if not 0 < far <= near * _SLACK:
                return f"a larger memory was read at {far:.3g} bytes/s, a smaller one at {near:.3g}"
        if not all(0 <= cycles <= 1000 for cycles in self.page_cycles):
            return f"loads from other pages took {self.page_cycles} cycles more"
        if not 0 <= self.fork_seconds <= MOST_FORK:
            return f"an empty parallel loop took {self.fork_seconds:.3g} s"
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return asdict(self)

    @staticmethod
    def from_dict(data: Any) -> MachineSpeed:
        """Return the figures that `to_dict` gave; ValueError for anything else."""
        kinds = {
            f.name: {"read": 4, "page_seconds": 2}.get(f.name, 0) for f in fields(MachineSpeed)
        }
        if not isinstance(data, dict) or data.keys() != kinds.keys():
            raise ValueError("the data are not figures of a machine")
        values: dict[str, Any] = {}
        for name, count in kinds.items():
            value = data[name]
            numbers = value if count else [value]
            right = isinstance(numbers, (list, tuple)) and len(numbers) == max(1, count)
            if not right or not all(type(x) in (int, float) for x in numbers):
                raise ValueError(f"{name} of a machine is not {value!r}")
            values[name] = tuple(map(float, numbers)) if count else value
        return MachineSpeed(**values)

    def __str__(self) -> str:
        lanes = self.vector_bits // 32
        rows = [
            ("clock", f"{self.clock / 1e9:.2f} GHz"),
            (
                "multiply-adds",
                f"{self.peak_flops / 1e9:.1f} GFLOPS: {self.fma_units:.2f} vectors of {lanes} "
                f"float32 per cycle, {self.fma_latency:.1f} cycles each",
            ),
            (
                "sums in memory",
                f"{self.forward_cycles:.1f} cycles from one update to the next",
            ),
        ]
        names = ("first cache", "second cache", "third cache", "memory")
        for name, rate, cycles in zip(names, self.read, self.line_cycles(), strict=True):
            rows.append((name, f"{rate / 1e9:.1f} GB/s in order, {cycles:.1f} cycles per line"))
        near, far = self.page_cycles
        rows.append(("other pages", f"{near:.1f} additional cycles, {far:.1f} for very many pages"))
        if self.fork_seconds > 0:
            rows.append(("parallel loops", f"{self.fork_seconds * 1e6:.2f} us to begin and end"))
        return "\n".join(f"{name:16}{text}" for name, text in rows)
