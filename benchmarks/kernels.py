"""Tune workloads, keep the kernels, and compare kernels of two versions of the code.

    python -m benchmarks.kernels tune out/after MM128 C2D SFM --seeds 1 2
    python -m benchmarks.kernels compare out/before out/after

`tune` prints how long tuning took and the best kernel's time, and writes each kernel to a folder as
a shared library beside its trace. `compare` loads the libraries of two folders and runs those of
one workload and seed alternately in one process, because the speed of a shared machine drifts more
between two runs than two versions differ.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import codegen
import search as ms
from benchmarks.matmul import TARGET, MyModule
from tensorir import workloads
from tensorir.function import IRModule
from tensorir.interp import random_arguments

ROUNDS = 15


def program(name: str) -> IRModule:
    """Return a workload by its name in `tensorir.workloads`; MM128 is the README's matmul."""
    if name == "MM128":
        return MyModule
    func = workloads.create(name)
    return IRModule(
        {"main": func.with_attr("global_symbol", "main").with_attr("tir.noalias", True)}
    )


def tune(names: Sequence[str], seeds: Sequence[int], trials: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for name in names:
            with tempfile.TemporaryDirectory() as work_dir:
                start = time.perf_counter()
                best = ms.tune_tir(
                    mod=program(name),
                    target=TARGET,
                    config=ms.TuneConfig(max_trials_global=trials, num_trials_per_iter=64),
                    work_dir=work_dir,
                    seed=seed,
                )
                took = time.perf_counter() - start
            if best is None:
                print(f"{name}-{seed}: no trial succeeded")
                continue
            path = folder / f"{name}-{seed}"
            best.trace.save(path.with_suffix(".json"))
            library = codegen.build(best.mod, TARGET)
            library.export_library(path.with_suffix(".so"))
            path.with_suffix(".seconds").write_text(json.dumps(took))
            kernel = statistics.median(_times(library, _arguments(name), rounds=5))
            print(f"{name}-{seed}: {took:.1f} s of tuning, {kernel * 1e6:.1f} us", flush=True)


def compare(before: Path, after: Path) -> None:
    """Print for each kernel of both folders its times in them, and the geometric means."""
    by_name: dict[str, list[tuple[float, float]]] = {}
    for path in sorted(before.glob("*.so")):
        other = after / path.name
        if not other.exists():
            continue
        name = path.stem.rpartition("-")[0]
        arguments = _arguments(name)
        sides = [codegen.load_module(side) for side in (path, other)]
        times: list[list[float]] = [[], []]
        for _ in range(ROUNDS):
            for side, found in zip(sides, times, strict=True):
                found += _times(side, arguments, rounds=1)
        a, b = (statistics.median(found) for found in times)
        tuning = [json.loads(p.with_suffix(".seconds").read_text()) for p in (path, other)]
        by_name.setdefault(name, []).append((b / a, tuning[1] / tuning[0]))
        print(
            f"{path.stem:10} {a * 1e6:9.1f} us -> {b * 1e6:9.1f} us ({b / a:.3f}), "
            f"tuning {tuning[0]:.1f} s -> {tuning[1]:.1f} s",
            flush=True,
        )
    for name, ratios in by_name.items():
        kernels, tunings = zip(*ratios, strict=True)
        print(
            f"{name:10} time {statistics.geometric_mean(kernels):.3f}, "
            f"tuning {statistics.geometric_mean(tunings):.3f} of before"
        )


def _arguments(name: str) -> list[object]:
    return [codegen.array(a) for a in random_arguments(program(name)["main"], 0)]


def _times(library: codegen.Module, arguments: Sequence[object], rounds: int) -> list[float]:
    evaluator = library.time_evaluator("main", number=1, repeat=rounds, min_repeat_ms=10)
    return [float(seconds) for seconds in evaluator(*arguments).results]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    tuning = commands.add_parser("tune", help="tune workloads and keep the kernels")
    tuning.add_argument("folder", type=Path)
    tuning.add_argument("names", nargs="*", default=["MM128", "C2D", "SFM"])
    tuning.add_argument("--seeds", type=int, nargs="+", default=[1])
    tuning.add_argument("--trials", type=int, default=64)
    comparing = commands.add_parser("compare", help="run kernels of two folders alternately")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "tune":
        tune(options.names, options.seeds, options.trials, options.folder)
    else:
        compare(options.before, options.after)


if __name__ == "__main__":
    main()
