"""Tunes programs, and times what comes of it, with the version of this project on PYTHONPATH."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serve import digest, inputs, serve, trial_seconds

import codegen
import search as ms
from tensorir import parse

_run: Callable[[], float]


def tune(
    program: str,
    trials: int,
    seed: int,
    folder: str,
    shapes: list[list[int]],
    target: str = "llvm -num-cores=1",
    **_: Any,
) -> dict[str, Any]:
    """Leave the best kernel and its trace in `folder`, and make it the one that `run` times."""
    work_dir, library = Path(folder) / "work", Path(folder) / "kernel.so"
    start = time.perf_counter()
    best = ms.tune_tir(
        mod=parse(program),
        target=target,
        config=ms.TuneConfig(max_trials_global=trials, num_trials_per_iter=64),
        work_dir=work_dir,
        seed=seed,
    )
    seconds = time.perf_counter() - start
    if best is None:
        raise RuntimeError("no trial succeeded")
    best.trace.save(Path(folder) / "trace.json")
    module = codegen.build(best.mod, target)
    module.export_library(library)
    arguments = [codegen.array(array) for array in inputs(shapes)]
    module["main"](*arguments)
    evaluator = module.time_evaluator("main", number=1, repeat=1, min_repeat_ms=10)
    global _run
    _run = lambda: float(evaluator(*arguments).results[0])  # noqa: E731
    return {
        "seconds": seconds,
        "trial_seconds": trial_seconds(work_dir, trials),
        "digest": digest(arguments[-1]),
    }


def run() -> dict[str, Any]:
    """Return the seconds of a call, the mean of as many as take 10 ms."""
    return {"seconds": _run()}


serve("tensorir", {"tune": tune, "run": run})
