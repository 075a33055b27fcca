"""Programs as they are measured: without the blocks that bring weights into another layout.

Such a block runs once when a model is deployed, not in every call, so it is neither timed nor
described to a cost model: the function then takes the weight in its new layout. It can be had as a
function of its own.
"""

from __future__ import annotations

from tensorir.function import IRModule
from tensorir.memory.layout_rewrite import (
    layout_rewrites,
    layout_rewrites_alone,
    without_layout_rewrites,
)


def without_layout_rewrite(mod: IRModule) -> IRModule:
    """Return `mod` without blocks that carry the annotation `meta_schedule.layout_rewrite_preproc`.

    The parameter that such a block reads gets the layout of the buffer that it writes. What
    `layout_rewrites` does not list stays. Returns `mod` itself if there is nothing to do.
    """
    functions = {
        name: without_layout_rewrites(func, rewrites)
        for name, func in mod.prim_funcs().items()
        if (rewrites := layout_rewrites(func))
    }
    return IRModule({**mod.functions, **functions}, mod.attrs) if functions else mod


def with_separate_layout_rewrite(mod: IRModule) -> IRModule:
    """Return `without_layout_rewrite(mod)` with functions that bring weights into the new layouts.

    The one for parameter number k of the program is called `rewritten_parameter(k)`; it takes the
    weight as the program was given it and an array for the result. Returns `mod` itself if there is
    nothing to do.
    """
    alone = {}
    for func in mod.prim_funcs().values():
        for rewrite in layout_rewrites(func):
            name = rewritten_parameter(rewrite.position)
            pack = layout_rewrites_alone(func, [rewrite])
            alone[name] = pack.with_attr("global_symbol", name)
    if not alone:
        return mod
    measured = without_layout_rewrite(mod)
    return IRModule({**measured.functions, **alone}, measured.attrs)


def rewritten_parameter(position: int) -> str:
    """Return the name of the function that rewrites the layout of a parameter."""
    return f"layout_rewrite_{position}"
