"""Tunes programs, and times what comes of it, with the version of this project on PYTHONPATH."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from serve import digest, inputs, serve_timers, trial_seconds

import codegen
import search as ms
from tensorir import parse


def prepare(
    program: str,
    trials: int,
    seed: int,
    folder: str,
    shapes: list[list[int]],
    target: str = "llvm -num-cores=1",
    **_: Any,
) -> Any:
    """Tune a program; leave the best kernel and its trace in `folder`."""
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

    def timer(least: float) -> float:
        evaluator = module.time_evaluator("main", number=1, repeat=1, min_repeat_ms=1e3 * least)
        return float(evaluator(*arguments).results[0])

    answer = {
        "seconds": seconds,
        "trial_seconds": trial_seconds(work_dir, trials),
        "digest": digest(arguments[-1]),
    }
    return answer, {"main": timer}


serve_timers("tensorir", prepare)
