"""Templates, and fake results for them: tuners run without building a program."""

from __future__ import annotations

import math

from search import autotvm
from search.compat.autotvm import MeasureErrorNo, MeasureInput, MeasureResult, measured_by
from tests.search.compat.autotvm.templates import TUTORIAL, product

ARGS = (128, 128, 128, "float32")


@autotvm.template("test/two_filtered_tiles")
def filtered(n):
    sch = product(n, 8, n, "float32")
    y, x, _ = sch.get_loops(sch.get_block("C"))
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    cfg.multi_filter(lambda e: 32 <= e["tile_y"].size[1] * e["tile_x"].size[1] < 1024)
    cfg["tile_y"].apply(sch, y)
    cfg["tile_x"].apply(sch, x)
    return sch


@autotvm.template("test/four_tiles")
def four_tiles(n):
    sch = product(n, n, n, "float32")
    cfg = autotvm.get_config()
    for name, loop in zip("yxk", sch.get_loops(sch.get_block("C")), strict=True):
        cfg.define_split(name, loop, num_outputs=4)
        cfg[name].apply(sch, loop)
    return sch


@autotvm.template("test/refuses_odd_tiles")
def refuses(n):
    sch = product(n, n, n, "float32")
    cfg = autotvm.get_config()
    cfg.define_split("tile", n, num_outputs=2)
    if cfg["tile"].size[1] == 1:
        cfg.raise_error("a tile of one")
    if cfg["tile"].size[1] == 4:
        raise ZeroDivisionError("of its own")
    return sch


def tutorial_task():
    return autotvm.task.create(TUTORIAL, ARGS, "llvm -num-cores=1")


def bowl(inp: MeasureInput) -> MeasureResult:
    """Return a time that is lowest, 1 ms, for tiles of 16 x 32, and rises from there."""
    y, x = (math.log2(entity._value[1]) for entity in inp.config.entity_map.values())
    cost = 1e-3 * (1 + 0.3 * (y - 4) ** 2 + 0.2 * (x - 5) ** 2)
    return MeasureResult((cost,), MeasureErrorNo.NO_ERROR, 0.01, 1000.0 + inp.config.index)


def failing(_: MeasureInput) -> MeasureResult:
    return MeasureResult(("it broke",), MeasureErrorNo.RUNTIME_DEVICE, 0.01, 1000.0)


def bowl_costs(task):
    return {k: bowl(MeasureInput(None, task, task.space.get(k))).mean_cost for k in range(64)}


def best_index(task) -> int:
    costs = bowl_costs(task)
    return min(costs, key=costs.__getitem__)


def tuned(tuner, n_trial, results=bowl, **kwargs):
    """Tune on fake results; return the measured indices in order."""
    indices = []

    def note(_, inputs, __):
        indices.extend(inp.config.index for inp in inputs)

    callbacks = [note, *kwargs.pop("callbacks", [])]
    tuner.tune(n_trial, measured_by(results), callbacks=callbacks, **kwargs)
    return indices
