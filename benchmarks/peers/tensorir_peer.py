"""Tunes programs with the version of this project that PYTHONPATH names."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from serve import serve, trial_seconds

import codegen
import search as ms
from tensorir import parse

TARGET = "llvm -num-cores=1"


def tune(program: str, trials: int, seed: int, folder: str, **_: Any) -> dict[str, Any]:
    """Leave the best kernel and its trace in `folder`, for the suite to run."""
    work_dir, library = Path(folder) / "work", Path(folder) / "kernel.so"
    start = time.perf_counter()
    best = ms.tune_tir(
        mod=parse(program),
        target=TARGET,
        config=ms.TuneConfig(max_trials_global=trials, num_trials_per_iter=64),
        work_dir=work_dir,
        seed=seed,
    )
    seconds = time.perf_counter() - start
    if best is None:
        raise RuntimeError("no trial succeeded")
    best.trace.save(Path(folder) / "trace.json")
    codegen.build(best.mod, TARGET).export_library(library)
    measured = trial_seconds(work_dir, trials)
    return {"seconds": seconds, "trial_seconds": measured, "library": str(library)}


serve("tensorir", {"tune": tune})
