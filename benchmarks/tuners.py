"""How many trials tuners of templates need, on a space that was measured once.

    python -m benchmarks.tuners record tutorial tutorial.log   (`orders` takes minutes)
    python -m benchmarks.tuners replay tutorial tutorial.log

`record` measures all configurations of a 512 x 512 x 512 matmul in one core: `tutorial` has the two
tiles of the tutorial, `orders` also an order of the inner loops and how they run. `replay` lets
each tuner choose from the log, with several seeds, and prints how many trials it takes to come
within 5 % of the best of all, and what it had found after a quarter of them.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Final

from schedule import Schedule
from search import autotvm
from tensorir import te

SIZE: Final = 512
NEAR: Final = 0.95
TARGET: Final = "llvm -num-cores=1"


def product() -> Schedule:
    """Return C = A * B, unscheduled."""
    a = te.placeholder((SIZE, SIZE), name="A")
    b = te.placeholder((SIZE, SIZE), name="B")
    k = te.reduce_axis((0, SIZE), name="k")
    c = te.compute((SIZE, SIZE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return Schedule(te.create_prim_func([a, b, c]))


@autotvm.template("benchmarks/tutorial")
def tutorial() -> Schedule:
    """The matmul of the tutorial: 100 configurations."""
    sch = product()
    y, x, k = sch.get_loops(sch.get_block("C"))
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(sch, y)
    xo, xi = cfg["tile_x"].apply(sch, x)
    sch.reorder(yo, xo, k, yi, xi)
    return sch


@autotvm.template("benchmarks/orders")
def orders() -> Schedule:
    """The same with two orders of the loops inside, and what is vectorized or unrolled: 600."""
    sch = product()
    y, x, k = sch.get_loops(sch.get_block("C"))
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    cfg.define_reorder("order", [k, y], "all")
    cfg.define_annotate(
        "ann", [y, x], "candidate", candidate=[["none", "none"], ["none", "vec"], ["unroll", "vec"]]
    )
    yo, yi = cfg["tile_y"].apply(sch, y)
    xo, xi = cfg["tile_x"].apply(sch, x)
    sch.reorder(yo, xo, k, yi, xi)
    cfg["order"].apply(sch, [k, yi])
    cfg["ann"].apply(sch, [yi, xi], max_unroll=64)
    return sch


TUNERS: Final[dict[str, Callable[..., Any]]] = {
    "grid": lambda task, seed: autotvm.tuner.GridSearchTuner(task),
    "random": autotvm.tuner.RandomTuner,
    "ga": partial(autotvm.tuner.GATuner, pop_size=16),
    "droplet": autotvm.tuner.DropletTuner,
    "xgb": autotvm.tuner.XGBTuner,
    "xgb knob": partial(autotvm.tuner.XGBTuner, feature_type="knob"),
    "xgb stores": partial(autotvm.tuner.XGBTuner, feature_type="per_store"),
    "evolution": autotvm.tuner.EvolutionTuner,
}


def record(task: autotvm.Task, path: str) -> None:
    """Measure all configurations of a task and append them to a log."""
    option = autotvm.measure_option(
        autotvm.LocalBuilder(), autotvm.LocalRunner(number=1, repeat=3, min_repeat_ms=20)
    )
    count = len(task.space)
    autotvm.tuner.RandomTuner(task, seed=1).tune(
        count,
        option,
        callbacks=[autotvm.callback.log_to_file(path), autotvm.callback.progress_bar(count)],
    )


def replay(task: autotvm.Task, path: str, seeds: Sequence[int], names: Sequence[str]) -> None:
    """Print how many trials each tuner needs on what a log has."""
    records = list(autotvm.record.load_from_file(path))
    known = {inp.config.index: result for inp, result in records}
    speeds = [0.0 if r.error_no else task.flop / r.mean_cost for _, r in records]  # type: ignore[operator]
    best, count = max(speeds), len(task.space)
    near = sum(speed >= NEAR * best for speed in speeds)
    sys.stdout.write(
        f"{count} configurations, {len(records)} measured, {sum(s > 0 for s in speeds)} to the "
        f"end; best {best / 1e9:.2f} GFLOPS, {near} within {1 - NEAR:.0%} of it\n"
        f"{'tuner':12} {'trials to 95 %, by seed':36} median   of all  at 1/4  seconds\n"
    )
    for name in names:
        needed, quarter, began = [], [], time.perf_counter()
        for seed in seeds:
            monitor = autotvm.callback.Monitor()
            tuner = TUNERS[name](task, seed=seed)
            tuner.tune(
                count, autotvm.measured_by(lambda inp: known[inp.config.index]), callbacks=[monitor]
            )
            curve = list(accumulate(monitor.trial_scores(), max))
            reached = [k for k, speed in enumerate(curve, 1) if speed >= NEAR * best]
            needed.append(min(reached, default=count))
            quarter.append(curve[min(count // 4, len(curve)) - 1] / best)
        median = statistics.median(needed)
        seconds = (time.perf_counter() - began) / len(seeds)
        sys.stdout.write(
            f"{name:12} {needed!s:36} {median:6.0f}  {median / count:6.1%}  "
            f"{statistics.median(quarter):6.1%}  {seconds:6.1f}\n"
        )
        sys.stdout.flush()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["record", "replay"])
    parser.add_argument("template", choices=["tutorial", "orders"])
    parser.add_argument("log")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tuners", nargs="+", choices=TUNERS, default=list(TUNERS))
    options = parser.parse_args()
    logging.getLogger("tensorir.search").setLevel(logging.WARNING)
    task = autotvm.task.create(f"benchmarks/{options.template}", (), TARGET)
    if options.what == "record":
        record(task, options.log)
    else:
        replay(task, options.log, range(1, options.seeds + 1), options.tuners)


if __name__ == "__main__":
    main()
