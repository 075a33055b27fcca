"""The eight numbers that a log says of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from codegen import Target
from codegen.target import as_target
from search.context import with_num_cores
from search.errors import TuningError

_CACHE_LINE = 64


@dataclass(frozen=True, init=False)
class HardwareParams:
    """The numbers of the machine that the search goes by, in the order of a log.

    `num_cores` goes to the target, if that does not say it: it bounds threads and shapes design
    spaces. The others are kept for logs and have no effect: the width of vectors and the cache line
    are known from the target (`-vector-width` states another), and the last five are of GPUs.
    Sizes are in bytes. Numbers that are not given are those of a CPU: the cores that the target
    says, else those of this machine, 64 bytes, 64 bytes, and zeros.
    """

    num_cores: int
    vector_unit_bytes: int
    cache_line_bytes: int
    max_shared_memory_per_block: int
    max_local_memory_per_block: int
    max_threads_per_block: int
    max_vthread_extent: int
    warp_size: int

    def __init__(
        self,
        num_cores: int | None = None,
        vector_unit_bytes: int | None = None,
        cache_line_bytes: int | None = None,
        max_shared_memory_per_block: int | None = None,
        max_local_memory_per_block: int | None = None,
        max_threads_per_block: int | None = None,
        max_vthread_extent: int | None = None,
        warp_size: int | None = None,
        target: str | Target | None = None,
    ) -> None:
        if num_cores is None:
            num_cores = with_num_cores(as_target(target)).num_cores
        numbers = {
            "num_cores": num_cores,
            "vector_unit_bytes": _CACHE_LINE if vector_unit_bytes is None else vector_unit_bytes,
            "cache_line_bytes": _CACHE_LINE if cache_line_bytes is None else cache_line_bytes,
            "max_shared_memory_per_block": max_shared_memory_per_block or 0,
            "max_local_memory_per_block": max_local_memory_per_block or 0,
            "max_threads_per_block": max_threads_per_block or 0,
            "max_vthread_extent": max_vthread_extent or 0,
            "warp_size": warp_size or 0,
        }
        for name, number in numbers.items():
            if type(number) is not int:
                raise TuningError(f"{name} is an integer, got {number!r}")
            object.__setattr__(self, name, number)
        if self.num_cores < 1:
            raise TuningError(
                f"num_cores is at least 1, got {num_cores}; leave it out for the cores of the "
                "target or of this machine"
            )

    def as_numbers(self) -> list[int]:
        """Return the eight numbers in the order of a log."""
        return list(astuple(self))

    @staticmethod
    def from_numbers(numbers: Sequence[Any]) -> HardwareParams:
        """Return the parameters that eight numbers of a log stand for; TuningError for others."""
        if not isinstance(numbers, (list, tuple)) or len(numbers) != 8:
            raise TuningError(f"a machine is described by 8 numbers, got {numbers!r}")
        return HardwareParams(*numbers)
