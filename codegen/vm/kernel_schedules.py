"""The kernels of a module with graph functions, as their schedules are looked up."""

from __future__ import annotations

from codegen.history import with_history
from codegen.target import Target
from tensorir import transform
from tensorir.function import IRModule, PrimFunc


def as_looked_up(mod: IRModule) -> IRModule:
    """Return a module with its tensor functions as `vm_build` asks for their schedules.

    Left out is what no graph function reaches. Graph functions are simplified, so that it is known
    which arguments are constants; the functions that take those are told that they may have any
    layout. A search that is to answer a build tunes the functions of this module. One without graph
    functions stays as it is.
    """
    return _told(only_reached(mod)) if mod.graph_funcs() else mod


def only_reached(mod: IRModule) -> IRModule:
    """Return a module with its graph functions and what they reach, by which alone it is called."""
    functions = {
        name: func.without_attr("global_symbol")
        if isinstance(func, PrimFunc) and "global_symbol" in func.attrs
        else func
        for name, func in mod.functions.items()
    }
    graphs = list(mod.graph_funcs())
    return transform.DeadCodeElimination(graphs)(IRModule(functions, mod.attrs))


def with_schedules(mod: IRModule, target: Target) -> IRModule:
    """Return a module with the schedules that are known of its functions.

    They are looked up as functions whose constants may have any layout. Where none is found, the
    functions stay as they are.
    """
    asked = _told(mod)
    scheduled = with_history(asked, target)
    assert isinstance(scheduled, IRModule)
    return mod if scheduled is asked else scheduled


def _told(mod: IRModule) -> IRModule:
    told = transform.AttachAttrLayoutFreeBuffers(constants_only=True)
    return told(transform.simplify_graph(mod))
