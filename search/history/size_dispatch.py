"""One function from several schedules of a function with symbolic sizes, chosen in each call.

    Before: def f(A: (n, 64), ...): ...
    After:  def f(A: (n, 64), ...):
                if n <= 16: ...  # the schedule of n = 16
                else: ...        # the schedule of n = 128

Each schedule is right for every size (`any_size`), so the conditions concern speed only. In a
function that chooses between programs by its sizes, each case has schedules of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from codegen import Target, lower
from codegen.errors import LoweringError
from schedule import Schedule, ScheduleError
from search.history.adapted_replay import ReplayError
from search.history.any_size import schedule_for_any_size
from search.history.symbolic_sizes import case_of, size_choice, takes_first, with_case
from search.postproc.rewrite_layout import rewrite_layout
from tensorir.comparison.equal import structural_equal
from tensorir.function import IRModule, PrimFunc
from tensorir.indices.index_map import IndexMap
from tensorir.memory.layout_rewrite import LayoutRewrite, layout_rewrites
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import Var
from tensorir.nodes.ops import all_of, const
from tensorir.nodes.stmt import BlockRealize, IfThenElse, SeqStmt, Stmt, sequence
from tensorir.rewriting.fresh_copy import FreshCopy

logger = logging.getLogger("tensorir.search")

Variants: TypeAlias = Sequence[tuple[Mapping[Var, int], Schedule]]
"""Schedules of static programs (`with_sizes`) with their sizes, smallest first."""


def check_lowering(func: PrimFunc, target: Target | None) -> None:
    """Raise LoweringError for a schedule that a GPU cannot run: its memory has constant sizes."""
    if target is not None and target.gpu is not None:
        lower(func, target)


def dispatch_on_sizes(
    mod: IRModule, variants: Variants, target: Target | None = None
) -> PrimFunc | None:
    """Return a function with symbolic sizes that runs one of several schedules.

    It is the schedule of the first sizes that are at least those of the call, or the last schedule.
    Weights of free layout have one layout, that of the largest sizes. A schedule that does not
    apply to symbolic sizes, or that a GPU as `target` cannot run then, is left out; None if none
    applies, to a case of a choice by sizes too.
    """
    program = mod.prim_func("main")
    layouts: dict[Buffer, IndexMap] = {}
    found: list[tuple[Mapping[Var, int], Schedule]] = []
    for sizes, static in reversed(variants):
        try:
            case = IRModule({"main": case_of(program, sizes)}, mod.attrs)
            sch = schedule_for_any_size(case, static, layouts)
            check_lowering(sch.mod.prim_func("main"), target)
            found.insert(0, (sizes, sch))
        except (ReplayError, LoweringError) as error:
            logger.debug("The schedule of %s does not fit all sizes: %s", sizes, error)
    functions = [(sizes, _with_layouts(sch, layouts)) for sizes, sch in found]
    kept = functions[-1:]
    for sizes, func in functions[-2::-1]:
        if _packed(func) == _packed(kept[0][1]) and not structural_equal(func, kept[0][1]):
            kept.insert(0, (sizes, func))
    return _joined(program, kept) if kept else None


def _with_layouts(sch: Schedule, layouts: Mapping[Buffer, IndexMap]) -> PrimFunc:
    """Return the function of a schedule with layouts of weights that it has not chosen itself."""
    packed = _packed(sch.mod.prim_func("main"))
    for weight, index_map in layouts.items():
        if weight not in packed:
            try:
                rewrite_layout(sch, "main", weight, index_map)
            except ScheduleError as error:
                logger.debug("A schedule does not use the layout of another one: %s", error)
    return sch.mod.prim_func("main")


def _packed(func: PrimFunc) -> set[Buffer]:
    return {rewrite.weight for rewrite in layout_rewrites(func)}


def _joined(
    program: PrimFunc, functions: Sequence[tuple[Mapping[Var, int], PrimFunc]]
) -> PrimFunc | None:
    """Return a function with the bodies of others, which have the same parameters and layouts.

    None if a case of a choice of the program has no function.
    """
    last = functions[-1][1]
    if len(functions) == 1 and size_choice(program) is None:
        return last
    assert isinstance(last.body, BlockRealize)
    shared = layout_rewrites(last)
    chosen = _chosen(program, functions, shared)
    if chosen is None:
        return None
    root = last.body.block.with_(
        body=sequence([*(rewrite.nest for rewrite in shared), chosen]),
        alloc_buffers=[rewrite.packed for rewrite in shared],
        annotations={},
    )
    return last.with_body(BlockRealize((), last.body.predicate, root))


def _chosen(
    program: PrimFunc,
    functions: Sequence[tuple[Mapping[Var, int], PrimFunc]],
    shared: Sequence[LayoutRewrite],
) -> Stmt | None:
    """Return the choice between the bodies of functions, None if one of a case is missing."""
    choice = size_choice(program)
    if choice is not None:
        cases = [
            _chosen(
                with_case(program, choice, is_first),
                [(s, func) for s, func in functions if takes_first(choice, s) == is_first],
                shared,
            )
            for is_first in (True, False)
        ]
        first, second = cases
        if first is None or second is None:
            return None
        return IfThenElse(choice.condition, first, second)
    if not functions:
        return None
    sizes, last = functions[-1]
    chosen = _body(last, layout_rewrites(last), shared)
    for sizes_below, func in functions[-2::-1]:
        varying = [var for var in sizes if any(other[var] != sizes[var] for other, _ in functions)]
        fits = all_of([var <= const(sizes_below[var], var.dtype) for var in varying])
        chosen = IfThenElse(fits, _body(func, layout_rewrites(func), shared), chosen)
    return chosen


def _body(
    func: PrimFunc, rewrites: Sequence[LayoutRewrite], shared: Sequence[LayoutRewrite]
) -> Stmt:
    """Return a fresh copy of the body of a function, with the packed weights of another one."""
    assert isinstance(func.body, BlockRealize)
    root = func.body.block
    nests = {rewrite.nest for rewrite in rewrites}
    packed = {own.packed: other.packed for own, other in zip(rewrites, shared, strict=True)}
    rest = root.body.seq if isinstance(root.body, SeqStmt) else (root.body,)
    block = root.with_(
        body=sequence([stmt for stmt in rest if stmt not in nests]),
        alloc_buffers=[buffer for buffer in root.alloc_buffers if buffer not in packed],
    )
    body: Stmt = FreshCopy(buffers=packed)(BlockRealize((), func.body.predicate, block))
    return body
