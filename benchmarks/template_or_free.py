"""The same programs by a template and without one: what is searched, how long, how good.

    python -m benchmarks.template_or_free [--trials 64] [--out FOLDER]

A matrix product and a convolution, on one core. A template that a person wrote is tuned at random,
by XGBTuner and by the search of this package (`TemplateSpace`); the rules make their design spaces
themselves. For each the table says how large the space is, after how many trials and seconds the
kernel was within 10 % of the best of all, and how fast it became. The folder given by --out
receives a picture of the searches.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import search as ms
from schedule import Schedule
from search import autotvm
from search.compat.auto_scheduler import sketches
from search.space_generator import SpaceGenerator
from tensorir import workloads
from tensorir.function import PrimFunc

TARGET: Final = "llvm -num-cores=1"
NEAR: Final = 0.9


def product() -> PrimFunc:
    """Return the product of two matrices of 512 x 512."""
    return workloads.create("GMM", b=1, n=512, m=512, k=512)


def convolution() -> PrimFunc:
    """Return a convolution of ResNet-18: 56 x 56, 64 channels, 3 x 3."""
    return workloads.create("C2D", n=1, h=56, w=56, ci=64, co=64, kernel=3, stride=1, padding=1)


@autotvm.template("benchmarks/product")
def tiled_product() -> Schedule:
    """Two levels of tiles, a vector inside, and unrolled rows."""
    sch = Schedule(product())
    _, y, x, k = sch.get_loops(sch.get_block("Z"))
    return tiled(sch, y, x, k, [])


@autotvm.template("benchmarks/convolution")
def tiled_convolution() -> Schedule:
    """Pixels of a row and channels in tiles, channels in vectors."""
    sch = Schedule(convolution())
    _, h, w, c, rh, rw, rc = sch.get_loops(sch.get_block("conv2d_nhwc"))
    return tiled(sch, w, c, rc, [rh, rw], [h])


def tiled(
    sch: Schedule, y: Any, x: Any, k: Any, reductions: Sequence[Any], outside: Sequence[Any] = ()
) -> Schedule:
    """Schedule a sum over k at (y, x): tiles of both, the reduction between, vectors along x."""
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=3)
    cfg.define_split("tile_x", x, num_outputs=3, filter=lambda e: 8 <= e.size[-1] <= 64)
    cfg.define_split("tile_k", k, num_outputs=2)
    cfg.define_knob("unroll", [0, 1])
    y0, y1, y2 = cfg["tile_y"].apply(sch, y)
    x0, x1, x2 = cfg["tile_x"].apply(sch, x)
    k0, k1 = cfg["tile_k"].apply(sch, k)
    sch.reorder(*outside, y0, x0, *reductions, k0, y1, x1, k1, y2, x2)
    sch.vectorize(x2)
    if cfg["unroll"].val:
        sch.unroll(y2)
    return sch


@dataclass
class Search:
    """One search: after how many seconds it had which speed, a point a trial."""

    program: str
    how: str
    space: float
    seconds: list[float]
    speeds: list[float]

    def reached(self, speed: float) -> tuple[str, str]:
        """Return trials and seconds until a speed, dashes if it was not reached."""
        for trial, (seconds, found) in enumerate(zip(self.seconds, self.speeds, strict=True), 1):
            if found >= speed:
                return str(trial), f"{seconds:.1f}"
        return "-", "-"


def by_tuner(name: str, make: Callable[..., Any], task: autotvm.Task, trials: int) -> Search:
    """Tune a template by one of its tuners."""
    monitor = autotvm.callback.Monitor()
    option = autotvm.measure_option(
        autotvm.LocalBuilder(), autotvm.LocalRunner(number=1, repeat=3, min_repeat_ms=20)
    )
    began = time.time()
    make(task, seed=1).tune(trials, option, callbacks=[monitor])
    seconds = [stamp - began for stamp in monitor.trial_timestamps()]
    return Search(task.name, name, len(task.config_space), seconds, monitor.trial_scores())


def by_search(
    name: str, program: PrimFunc, task: autotvm.Task, space: SpaceGenerator | None, trials: int
) -> Search:
    """Tune a program by `tune_tir`, in the space of a template or in that of the rules."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.time()
        ms.tune_tir(
            task.mod if space is not None else program,
            TARGET,
            ms.TuneConfig(trials, trials),
            folder,
            space=space,
            seed=1,
        )
        found = sorted(ms.load_run(folder).trials, key=lambda trial: trial.time)
    speeds = [0.0 if t.seconds is None else task.flop / t.seconds for t in found]
    size = float(len(task.config_space))
    if space is None:
        designs = range(len(sketches(program, TARGET)))
        free = [
            autotvm.task_of_space(program, TARGET, "post-order-apply", index=k) for k in designs
        ]
        size = float(sum(design.config_space.range_length for design in free))
    return Search(task.name, name, size, [t.time - began for t in found], speeds)


def searches(program: PrimFunc, task: autotvm.Task, trials: int) -> list[Search]:
    """Search for one program in each way."""
    return [
        by_tuner("template, random", autotvm.tuner.RandomTuner, task, trials),
        by_tuner("template, XGBTuner", autotvm.tuner.XGBTuner, task, trials),
        by_search("template, tune_tir", program, task, autotvm.TemplateSpace(task), trials),
        by_search("no template, tune_tir", program, task, None, trials),
    ]


def table(found: Sequence[Search]) -> str:
    """Return the searches for one program as rows."""
    best = max(max(search.speeds) for search in found)
    rows = []
    for search in found:
        trials, seconds = search.reached(NEAR * best)
        rows.append(
            f"| {search.program.partition('/')[2]} | {search.how} | {search.space:.2g} "
            f"| {trials} | {seconds} | {search.seconds[-1]:.1f} | {max(search.speeds) / 1e9:.1f} |"
        )
    return "\n".join(rows)


def draw(programs: Sequence[Sequence[Search]], folder: Path) -> None:
    """Write a picture of the speed that each search had after so many seconds."""
    import matplotlib.pyplot as plt  # noqa: PLC0415 - only where a picture is asked for

    figure, axes = plt.subplots(1, len(programs), figsize=(6 * len(programs), 4), squeeze=False)
    for axis, found in zip(axes[0], programs, strict=True):
        for search in found:
            best = list(itertools.accumulate(search.speeds, max))
            axis.step(search.seconds, [s / 1e9 for s in best], where="post", label=search.how)
        axis.set_title(found[0].program.partition("/")[2])
        axis.set_xlabel("seconds")
        axis.set_ylabel("best so far (GFLOPS)")
        axis.grid(alpha=0.3)
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(folder / "template_or_free.png", dpi=120)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    logging.getLogger("tensorir.search").setLevel(logging.WARNING)
    found = []
    sys.stdout.write(
        "| program | way | configurations | trials to 90 % | seconds to 90 % | seconds | GFLOPS |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
    )
    for name, program in (("product", product()), ("convolution", convolution())):
        task = autotvm.task.create(f"benchmarks/{name}", (), TARGET)
        found.append(searches(program, task, options.trials))
        sys.stdout.write(table(found[-1]) + "\n")
        sys.stdout.flush()
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        draw(found, options.out)


if __name__ == "__main__":
    main()
