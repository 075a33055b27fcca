"""The kernels of a module with graph functions: how their schedules are looked up, or made."""

from __future__ import annotations

from collections.abc import Mapping

from codegen.errors import CodegenError
from codegen.history import can_be_scheduled, is_small, with_history
from codegen.schedules import Schedules, default_schedules
from codegen.target import Target
from tensorir import transform
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.stmt import For, ForKind
from tensorir.relax.call_graph import reached
from tensorir.relax.function import graph_functions
from tensorir.rewriting.visit import statements
from tensorir.transform.decompose_ops import has_operators


def as_looked_up(mod: IRModule) -> IRModule:
    """Return a module with its tensor functions as `vm_build` asks for their schedules.

    Graph functions are as `as_kernels` makes them, so that it is known which arguments are
    constants; the functions that take those are told that they may have any layout. A search that
    is to answer a build tunes the functions of this module. One without graph functions stays as it
    is.
    """
    return _told(as_kernels(mod)) if mod.graph_funcs() else mod


def as_kernels(mod: IRModule) -> IRModule:
    """Return a module whose graph functions call tensor functions only, and those.

    A module with operators goes through `transform.default_pipeline`, another one is simplified.
    What no graph function reaches is left out.
    """
    reached = _only_reached(mod)
    if any(map(has_operators, graph_functions(reached).values())):
        return transform.default_pipeline()(reached)
    return transform.simplify_graph(reached)


def _only_reached(mod: IRModule) -> IRModule:
    """Return a module with its graph functions and what they reach, all called by them alone."""
    functions = {
        name: func.without_attr("global_symbol")
        if isinstance(func, PrimFunc) and "global_symbol" in func.attrs
        else func
        for name, func in mod.functions.items()
    }
    found = set(reached(functions, mod.graph_funcs()))
    return IRModule({name: f for name, f in functions.items() if name in found}, mod.attrs)


def with_schedules(
    mod: IRModule,
    target: Target,
    database: Schedules | None = None,
    *,
    make_missing: bool = True,
) -> IRModule:
    """Return a module that `as_kernels` made with schedules of its functions.

    They are those that `database` has, without one those of the current history; with
    `make_missing` the default schedules of other functions that take longer than a few
    microseconds and that nobody has scheduled by hand. Functions are looked up as ones whose
    constants may have any layout. Where nothing is found, they stay as they are.

    CodegenError for a database that knows no schedules.
    """
    if database is not None and not isinstance(database, Schedules):
        raise CodegenError(
            f"database has schedules of kernels, got {type(database).__name__}; open the directory "
            "of a search by search.database.JSONDatabase(work_dir=...)"
        )
    asked = _told(mod)
    scheduled = asked
    if database is not None:
        functions = {n: f for n, f in asked.prim_funcs().items() if can_be_scheduled(f)}
        scheduled = _with(asked, database.schedules_of(functions, target))
    else:
        known = with_history(asked, target)
        assert isinstance(known, IRModule)
        scheduled = known
    if make_missing:
        missing = {n: f for n, f in scheduled.prim_funcs().items() if _is_left_to_us(f)}
        if missing:
            scheduled = _with(scheduled, default_schedules().schedules_of(missing, target))
    return mod if scheduled is asked else scheduled


def _told(mod: IRModule) -> IRModule:
    return transform.AttachAttrLayoutFreeBuffers(constants_only=True)(mod)


def _with(mod: IRModule, found: Mapping[str, PrimFunc]) -> IRModule:
    return IRModule({**mod.functions, **found}, mod.attrs) if found else mod


def _is_left_to_us(func: PrimFunc) -> bool:
    """Say whether a function is as it was made, and runs long enough to matter."""
    if not can_be_scheduled(func):
        return False
    loops = [node for node in statements(func.body) if isinstance(node, For)]
    if any(loop.kind != ForKind.SERIAL or loop.annotations for loop in loops):
        return False
    return not is_small(func)
