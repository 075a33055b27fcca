"""The times of kernels; each is built and measured once."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

from codegen import Target
from search.arg_info import ArgInfo
from search.builder import Builder
from search.database.line_store import LineStore
from search.database.store import Kind
from search.database.target_key import target_key
from search.errors import DatabaseError, TuningError
from search.lines import is_number
from search.runner import EvaluatorConfig, Runner, RunnerInput, RunnerResult
from search.runner.arguments import ProgramFacts
from search.runs.measuring import built_inputs, interleaved_rounds
from tensorir.function import IRModule, PrimFunc

logger = logging.getLogger("tensorir.search")

Measure: TypeAlias = Callable[[Sequence[PrimFunc]], Sequence[float]]
"""Returns the seconds per call of kernels; infinity if a kernel does not build or run.

Blocks that rewrite the layout of weights do not count."""

_ROUNDS: Final = 5
_SLICES: Final = 10
_SLICE_MS: Final = 1
"""The slices of a round and their milliseconds: so short that some run without interruption."""


class KernelTimes:
    """Measures kernels with the builder and the runner of a search; a `Measure`.

    All kernels of a call are built in parallel and measured interleaved (A B C A B C ...), so that
    conditions are equal; the minimum time counts. Results are kept in memory and, with a
    `work_dir`, in its file `kernel_times.json`: a line `[key, seconds]` for each kernel, where the
    key is a digest of the target and the text of the kernel. Failures are kept in memory only.
    """

    def __init__(
        self,
        target: Target,
        builder: str | Builder = "local",
        runner: str | Runner = "local",
        work_dir: str | Path | None = None,
    ) -> None:
        self._target = target
        self._builder = Builder.create(builder)
        short = {"evaluator_config": EvaluatorConfig(1, _SLICES, _SLICE_MS)}
        self._runner = Runner.create(runner, **(short if runner == "local" else {}))
        self._own = [
            part
            for part, given in ((self._builder, builder), (self._runner, runner))
            if part is not given
        ]
        self._seconds: dict[str, float] = {}
        self._store = None if work_dir is None else LineStore(work_dir)
        self._read()

    def __call__(self, kernels: Sequence[PrimFunc]) -> list[float]:
        """Return seconds per call; new kernels are measured now."""
        keys = [self._key(kernel) for kernel in kernels]
        pairs = zip(keys, kernels, strict=True)
        new = {key: kernel for key, kernel in pairs if key not in self._seconds}
        if new:
            found = self._measure(list(new.values()))
            self._store_times(dict(zip(new, found, strict=True)))
        return [self._seconds[key] for key in keys]

    def close(self) -> None:
        """Close the builder and the runner if they were created here."""
        for part in self._own:
            part.close()

    def _key(self, kernel: PrimFunc) -> str:
        text = f"{target_key(self._target)}\n{_as_main(kernel).script()}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def _measure(self, kernels: Sequence[PrimFunc]) -> list[float]:
        logger.info("Layouts: %d kernels are built and measured", len(kernels))
        kind = self._target.kind
        programs = [
            (mod, RunnerInput("", kind, ArgInfo.from_entry_func(mod), facts=ProgramFacts.of(mod)))
            for mod in map(_as_main, kernels)
        ]
        rounds: dict[int, list[RunnerResult]] = {}
        with built_inputs(self._builder, self._target, programs) as entries:
            for rounds in islice(interleaved_rounds(self._runner, entries), _ROUNDS):  # noqa: B007
                pass
        return [
            min((min(r.run_secs or ()) for r in rounds.get(place, ())), default=math.inf)
            for place in range(len(kernels))
        ]

    def _store_times(self, found: dict[str, float]) -> None:
        self._seconds.update(found)
        if self._store is not None:
            self._store.add(KERNEL_TIMES, *(one for one in found.items() if one[1] < math.inf))
            self._read()

    def _read(self) -> None:
        """Read the times that this process or another one wrote."""
        for key, seconds in () if self._store is None else self._store.latest(KERNEL_TIMES):
            self._seconds.setdefault(key, seconds)


def _kernel_time(row: Any) -> tuple[str, float]:
    if not isinstance(row, list) or len(row) != 2 or not is_number(row[1]) or row[1] < 0:
        raise DatabaseError(f"expected [key, seconds], got {row!r:.60}")
    return str(row[0]), float(row[1])


KERNEL_TIMES: Final = Kind("kernel_times.json", _kernel_time, list, b"[")


def measured_seconds(measure: Measure, kernels: Sequence[PrimFunc]) -> list[float]:
    """Return the times of kernels by a `Measure`; TuningError if it returns anything else."""
    seconds = [float(s) for s in measure(kernels)]
    if len(seconds) != len(kernels) or not all(s >= 0 for s in seconds):
        raise TuningError(
            f"a measure returns a time for each kernel, infinity for a failure; got {seconds} for "
            f"{len(kernels)} kernels"
        )
    return seconds


def _as_main(kernel: PrimFunc) -> IRModule:
    return IRModule({"main": kernel.with_attr("global_symbol", "main")})
