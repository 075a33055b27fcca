"""Schedules that were found for kernels whose arguments may have any layout.

The search measures these without the blocks that bring arguments into the layout in which they are
read (`layout_free_buffers`). In a graph the argument may come in that layout.
"""

from __future__ import annotations

from collections.abc import Collection

from schedule import Schedule
from tensorir.function import IRModule, PrimFunc
from tensorir.indices.index_map import IndexMap
from tensorir.memory.layout_rewrite import LAYOUT_FREE_BUFFERS, layout_rewrites
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import Block, BufferStore
from tensorir.rewriting.visit import walk


def with_free_layouts(func: PrimFunc, positions: Collection[int]) -> PrimFunc:
    """Return a kernel that says of parameters that they may have any layout."""
    stated = func.attrs.get(LAYOUT_FREE_BUFFERS, ())
    free = {k.value if isinstance(k, IntImm) else k for k in stated}
    return func.with_attr(LAYOUT_FREE_BUFFERS, tuple(sorted(free.union(positions))))


def read_in_place(func: PrimFunc, positions: Collection[int]) -> PrimFunc:
    """Return a scheduled kernel that reads parameters itself, not a copy in another layout.

    Before: X_global[i // 8, k, i % 8] = X[i, k]  for all, once;  ... X_global[i // 8, k, i % 8] ...
    After:  ... X[i, k] ...

    The blocks that copy carry `meta_schedule.layout_rewrite_preproc`. ScheduleError if one is not
    what the postprocessor RewriteLayout makes.
    """
    sch = Schedule(IRModule({"main": func}))
    for rewrite in layout_rewrites(func):
        if rewrite.position in positions:
            (copy,) = (node for node in walk(rewrite.nest) if isinstance(node, Block))
            assert isinstance(copy.body, BufferStore)
            axes = [axis.var for axis in copy.iter_vars]
            layout = IndexMap(axes, copy.body.indices)
            block = sch.get_block(copy.name_hint, "main")
            back = layout.inverse(rewrite.weight.shape)
            sch.transform_layout(block, ("write", 0), back)
            sch.compute_inline(block)
    return sch.mod.prim_func("main")
