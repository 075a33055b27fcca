"""Measuring this machine in about half a second, and keeping the figures.

Every figure is the minimum of many short, interleaved measurements, because other work on a machine
only adds time. Loops run for 50 to 100 microseconds each.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import logging
import math
import mmap
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from codegen.emit.optimize import object_code
from codegen.errors import CodegenError
from codegen.kept_files import cache_folder
from codegen.machine.kernels import (
    CHAIN,
    NAMES,
    PAGE,
    PAGE_STEP,
    STREAM,
    SUMS,
    kernels,
    multiply_adds,
    symbol,
)
from codegen.machine.speed import MOST_FORK, MachineSpeed
from codegen.runtime.host_features import prepare_host, why_not_here
from codegen.runtime.jit import load_own
from codegen.runtime.openmp import runtime, symbol_addresses
from codegen.target import Target, as_target, host
from tensorir.replaced_file import replaced_file

_ROUNDS: Final = 40
_CYCLES: Final = 200_000
"""The approximate number of cycles of one run of a loop."""
_FORKS: Final = 50
"""The number of successive parallel loops: before the first the threads may be asleep."""
_FEW_PAGES: Final = 8
"""A number of pages that the first TLB of every processor holds."""
_MOST_BYTES: Final = 256 << 20
"""The maximum size of the memory that is read; larger caches are treated as this size."""
_LEAST_BYTES: Final = 16 << 10
_AT_ONCE: Final = 4 << 20
"""The bytes of memory that are read at a time."""
_LEAST_ROUNDS: Final = 3
_MOST_READ: Final = 1 << 30
"""The number of bytes after which the measurement of a bandwidth stops, after any number of
rounds.
"""
_LONGER: Final = 25
"""The factor for a loop's length on several cores, whose starts differ by tens of microseconds."""


@lru_cache(maxsize=4)
def _machine_code(target: Target) -> bytes:
    return object_code(kernels(target), target, False)


class Loops:
    """The loops of `kernels` as machine code, with `size` bytes to run on."""

    def __init__(self, target: Target, size: int) -> None:
        prepare_host(target.required_features)
        self._code = load_own(_machine_code(target), [symbol(name) for name in NAMES])
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        self._functions = {name: kind(self._code[symbol(name)]) for name in NAMES}
        self._runtime = symbol_addresses()["GOMP_parallel"]
        try:
            self._memory = mmap.mmap(-1, size)
        except OSError as error:
            raise CodegenError(
                f"the measurement needs {size >> 20} MiB of memory, which the system refused: "
                f"{error.strerror}"
            ) from error
        for at in range(0, size, PAGE):
            self._memory[at] = 0  # all pages that were never written to share one page of zeros
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def seconds(self, name: str, count: int, limit: int = 0, start: int = 0) -> float:
        """Run a loop once on the bytes from `start` on; return its time."""
        function = self._functions[name]
        address = self._runtime if name == "fork" else self._address + start
        before = time.perf_counter_ns()
        function(address, count, limit)
        return (time.perf_counter_ns() - before) * 1e-9


@dataclass(frozen=True, slots=True)
class _Probe:
    """A loop, its arguments, and the number of measured operations in it."""

    name: str
    count: int
    limit: int
    does: int

    @staticmethod
    def of_loop(name: str, does: int, cycles: int) -> _Probe:
        """A loop with `does` operations in an iteration of about `cycles` cycles."""
        count = max(1, _CYCLES // cycles)
        return _Probe(name, count, count, count * does)

    @staticmethod
    def of_bytes(size: int) -> _Probe:
        """Reading `size` bytes in order, several times."""
        count = max(2, _CYCLES * 16 // size)
        return _Probe("stream", count, size, count * size)

    @staticmethod
    def of_pages(pages: int) -> _Probe:
        """Loads from a number of pages, one after another, several times."""
        count = max(2, _CYCLES // 4 // pages)
        return _Probe("pages", count, pages * PAGE_STEP, count * pages)

    def run(self, loops: Loops) -> float:
        """Return the seconds per operation."""
        return loops.seconds(self.name, self.count, self.limit) / self.does

    def run_at_once(self, cores: Sequence[Loops], rounds: int, factor: int = _LONGER) -> float:
        """Return the seconds per operation on each of several cores that run at the same time.

        It is the minimum of several rounds; the time of a round is that of the slowest core. On
        several cores, loops are `factor` times longer.
        """
        if len(cores) == 1:
            return min(self.run(cores[0]) for _ in range(rounds))
        longer = replace(self, count=self.count * factor, does=self.does * factor)
        begin = threading.Barrier(len(cores))

        def run(loops: Loops) -> list[float]:
            times = []
            for _ in range(max(_LEAST_ROUNDS, rounds // factor)):
                begin.wait()
                times.append(longer.run(loops))
            return times

        with ThreadPoolExecutor(len(cores)) as threads:
            times = list(threads.map(run, cores))
        slowest: list[float] = list(map(max, zip(*times, strict=True)))
        return min(slowest)


def measure(target: Target) -> MachineSpeed:
    """Measure one core of this machine with the vectors of a target.

    Raises CodegenError if code for the target cannot run here.
    """
    _check(target)
    caches = target.caches
    near = _size_between(caches.l1, caches.l2)
    middle = _size_between(caches.l2, caches.l3)
    least, most = target.core.tlb
    most_pages = max(2 * most, 1024)
    size = min(_MOST_BYTES, max(_power(4 * caches.l3), _power(most_pages * PAGE_STEP)))
    loops = Loops(target, size)
    probes = {
        "clock": _Probe.of_loop("clock", CHAIN, CHAIN),
        "latency": _Probe.of_loop("latency", CHAIN, 4 * CHAIN),
        "peak": _Probe.of_loop("peak", multiply_adds(target), multiply_adds(target)),
        "forward": _Probe.of_loop("forward", SUMS, 10 * SUMS),
        "l1": _Probe.of_bytes(max(STREAM * target.vector_bits // 8, caches.l1 // 4)),
        "l2": _Probe.of_bytes(near),
        "l3": _Probe.of_bytes(middle),
        "few": _Probe.of_pages(_FEW_PAGES),
        "many": _Probe.of_pages(min(4 * least, caches.l1 // 64)),
        "most": _Probe.of_pages(most_pages),
    }
    cores = _sharing_cores()
    if cores > 1:
        probes["fork"] = _Probe("fork", _FORKS, cores, _FORKS)
    memory = _read_memory(loops, size)
    times = dict.fromkeys(probes, math.inf)
    for _ in range(_ROUNDS):
        for name, probe in probes.items():
            times[name] = min(times[name], probe.run(loops))
    fork = times.get("fork", 0.0)
    return MachineSpeed(
        vector_bits=target.vector_bits,
        clock=1 / times["clock"],
        fma_rate=1 / times["peak"],
        fma_seconds=times["latency"],
        forward_seconds=times["forward"],
        read=(1 / times["l1"], 1 / times["l2"], 1 / times["l3"], memory),
        page_seconds=(
            max(0.0, times["many"] - times["few"]),
            # Their cache lines are loaded from the second cache.
            max(0.0, times["most"] - times["few"] - 64 * (times["l2"] - times["l1"])),
        ),
        fork_seconds=fork if fork <= MOST_FORK else 0.0,
    )


def peak_flops(target: str | Mapping[str, Any] | Target | None = None, cores: int = 1) -> float:
    """Return the float32 operations per second of several cores together, by multiply-adds only.

    It is measured now, unlike `machine_speed(...).peak_flops`, which is cached for one core: on
    many machines the clock is lower if several cores are busy. Raises CodegenError if code for the
    target cannot run here.
    """
    chosen = as_target(target)
    _check(chosen)
    probe = _Probe.of_loop("peak", multiply_adds(chosen), multiply_adds(chosen))
    loops = [Loops(chosen, _LEAST_BYTES) for _ in range(cores)]
    return 2 * chosen.vector_lanes(32) * cores / probe.run_at_once(loops, _ROUNDS)


def read_bandwidth(
    size: int, target: str | Mapping[str, Any] | Target | None = None, cores: int = 1
) -> float:
    """Return the bytes per second at which cores repeatedly read `size` bytes in total, in order.

    It is measured now; each of several cores reads its part at the same time. Raises CodegenError
    if code for the target cannot run here.
    """
    chosen = as_target(target)
    _check(chosen)
    step = STREAM * chosen.vector_bits // 8
    whole = max(1, round(size / cores / step)) * step
    loops = [Loops(chosen, whole) for _ in range(cores)]
    probe = _Probe.of_bytes(whole)
    enough = _MOST_READ // (probe.does * cores)
    rounds = max(_LEAST_ROUNDS, min(_ROUNDS // 2, enough))
    factor = max(1, _LONGER * _Probe.of_bytes(_LEAST_BYTES).does // probe.does)
    return cores / probe.run_at_once(loops, rounds, factor)


def _check(target: Target) -> None:
    reason = why_not_here(target)
    if reason is not None:
        raise CodegenError(f"the speed of {target} cannot be measured: {reason}")


def _sharing_cores() -> int:
    """Return how many cores share a parallel loop on this machine."""
    return 1 if runtime() is None else host.physical_cores()


def _power(size: float) -> int:
    """Return the power of two nearest to a number of bytes."""
    return max(_LEAST_BYTES, 1 << round(math.log2(size)))


def _size_between(inner: int, outer: int) -> int:
    """Return a size that exceeds one cache and fits into the next one, as far as possible."""
    return _power(min(max(math.sqrt(inner * outer), 2 * inner), outer / 2))


def _read_memory(loops: Loops, size: int) -> float:
    """Return the bytes per second that are read from memory, in parts that are not cached.

    Only the first pass over a part reads it from memory.
    """
    part = min(_AT_ONCE, size)
    best = math.inf
    for _ in range(3):
        for start in range(0, size, part):
            best = min(best, loops.seconds("stream", 1, part, start))
    return part / best


# -------------------------------------------------------------------------------- kept measurements
#
# Measured figures of a machine, kept in the user's cache directory.
#
# Each file is JSON: the figures and the machine. It is replaced atomically, so that processes need
# no lock; an unreadable file, or a file of another machine, is ignored.


logger = logging.getLogger("tensorir.codegen")

_FORMAT: Final = 2
"""The format version; raise it when figures change their meaning or their measurement."""


def machine_key(target: Target) -> dict[str, Any]:
    """Return the properties that the figures of this machine depend on.

    Its CPU model, not the microcode.
    """
    caches = target.caches
    return {
        "format": _FORMAT,
        "cpu": host.cpu_identity(),
        "caches": [caches.l1, caches.l2, caches.l3],
        "vector_bits": target.vector_bits,
        "vector_registers": target.vector_registers,
        "fma": "fma" in target.features,
        "cores": host.physical_cores(),
    }


def kept_speed(target: Target) -> MachineSpeed | None:
    """Return the stored speed of this machine with the vectors of a target, None without one."""
    path = _path(target)
    if path is None:
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data.get("machine") != machine_key(target):
            return None
        speed = MachineSpeed.from_dict(data.get("speed"))
    except (OSError, ValueError):
        return None
    return speed if speed.implausible() is None else None


def keep_speed(target: Target, speed: MachineSpeed) -> None:
    """Store measured figures; if that fails, the next process measures again."""
    path = _path(target)
    if path is None:
        return
    data = {"machine": machine_key(target), "speed": speed.to_dict()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(path) as file:
            file.write(json.dumps(data, indent=1).encode())
    except OSError as error:
        logger.info("the measured speed of this machine is not stored: %s", error)


def _path(target: Target) -> Path | None:
    """Return the file for this machine and the vectors of a target; None without a directory."""
    folder = cache_folder()
    if folder is None:
        return None
    text = json.dumps(machine_key(target), sort_keys=True)
    name = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return folder / f"machine-{name}.json"
