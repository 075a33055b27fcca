"""Templates that several tests use."""

from __future__ import annotations

from schedule import Schedule
from search import autotvm
from tensorir import te


def product(n, depth, m, dtype):
    a = te.placeholder((n, depth), name="A", dtype=dtype)
    b = te.placeholder((depth, m), name="B", dtype=dtype)
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return Schedule(te.create_prim_func([a, b, c]))


TUTORIAL = "test/matmul"
DEMO = "demo/matmul"


@autotvm.template(TUTORIAL)
def matmul(n, depth, m, dtype):
    """The template of the tutorial."""
    sch = product(n, depth, m, dtype)
    y, x, k = sch.get_loops(sch.get_block("C"))
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(sch, y)
    xo, xi = cfg["tile_x"].apply(sch, x)
    sch.reorder(yo, xo, k, yi, xi)
    return sch


@autotvm.template(DEMO)
def all_knobs(n, depth, m, dtype):
    """A template with a knob of each kind; its log lines are those of AutoTVM for this name."""
    sch = product(n, depth, m, dtype)
    y, x, k = sch.get_loops(sch.get_block("C"))
    cfg = autotvm.get_config()
    ty = cfg.define_split("tile_y", y, num_outputs=2)
    tx = cfg.define_split("tile_x", x, num_outputs=2, filter=lambda e: True)
    cfg.define_reorder("order", [ty[1], k, tx[1]], "all")
    cfg.define_annotate("ann", [ty[1], k, tx[1]], "try_unroll_vec")
    cfg.define_knob("unroll_k", [1, 2, 4, 8])
    yo, yi = cfg["tile_y"].apply(sch, y)
    xo, xi = cfg["tile_x"].apply(sch, x)
    sch.reorder(yo, xo, yi, k, xi)
    cfg["ann"].apply(sch, [yi, k, xi])
    inner = cfg["order"].apply(sch, [yi, k, xi])
    sch.annotate(inner[0], "pragma_auto_unroll_max_step", cfg["unroll_k"].apply(sch))
    return sch
