"""Tunes and times programs with apache-tvm, of 0.19 or a later release."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import tvm
from serve import digest, inputs, serve_timers, trial_seconds
from tvm_text import parse

try:
    from tvm.s_tir import meta_schedule as ms
except ImportError:
    from tvm import meta_schedule as ms

_BUILD_LIMIT = 300.0
"""Seconds for a candidate. The default of 30 loses all of them on a machine that is busy."""


def prepare(
    program: str,
    trials: int,
    seed: int,
    folder: str,
    shapes: list[list[int]],
    mcpu: str | None = None,
    **_: Any,
) -> Any:
    """Tune a program; return the timer of the best kernel."""
    # Without a processor's name code would be for the oldest one.
    cpu = mcpu or tvm.target.codegen.llvm_get_system_cpu()
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": 1})
    work_dir = Path(folder) / "work"
    func = parse(program)
    start = time.perf_counter()
    database = ms.tune_tir(
        func,
        target,
        str(work_dir),
        trials,
        num_trials_per_iter=64,
        builder=ms.builder.LocalBuilder(timeout_sec=_BUILD_LIMIT),
        seed=seed,
    )
    best = ms.tir_integration.compile_tir(database, func, target)
    seconds = time.perf_counter() - start
    if best is None:
        raise RuntimeError("no trial succeeded")
    library = (tvm.compile if hasattr(tvm, "compile") else tvm.build)(best.mod, target)
    device = tvm.cpu()
    to_device = tvm.runtime.tensor if hasattr(tvm.runtime, "tensor") else tvm.nd.array
    arguments = [to_device(array, device) for array in inputs(shapes)]
    library["main"](*arguments)

    def timer(least: float) -> float:
        evaluator = getattr(library, "mod", library).time_evaluator(
            "main", device, number=1, repeat=1, min_repeat_ms=round(1e3 * least)
        )
        return float(evaluator(*arguments).results[0])

    answer = {
        "seconds": seconds,
        "trial_seconds": trial_seconds(work_dir, trials),
        "digest": digest(arguments[-1].numpy()),
    }
    return answer, {"main": timer}


serve_timers(f"tvm {tvm.__version__}", prepare)
