"""The program whose results are expected of all candidates, in an order that runs in bearable time.

It is the unscheduled program, but a large reduction is not left in an order that misses the caches
in every step: its last data-parallel loop goes innermost, where LLVM makes vectors of it. Each
element is still computed by the same operations in the same order, so the results are the same to
the last bit. Beside it is the same program in float64, which tells how far off the results are, and
one that stops where an index that is read from an array is outside of what it indexes.
"""

from __future__ import annotations

from typing import Final

from schedule import BlockRV, Schedule, ScheduleError
from schedule.analysis.bindings import loop_iter_type
from search.measuring.flops import estimate_tir_flops
from search.runner.checked_program import with_checked_indices
from search.runner.float64_program import in_float64
from tensorir.function import IRModule
from tensorir.nodes.expr import IterVar

EXACT: Final = "exact"
"""The name of the function in float64."""
CHECKED: Final = "checked"
"""The name of the function that checks its indices."""
_LARGE: Final = 1e8
"""Operations from which on a program is brought into a faster order: a tenth of a second or so."""


def reference_program(mod: IRModule, large: float = _LARGE) -> IRModule:
    """Return a program that computes what `mod`, a program of one function, does.

    It is left in its order if it has fewer operations than `large`. If the function can be computed
    in float64, the program also has a function `EXACT` that does; if there are indices that it
    reads from arrays, a function `CHECKED` that raises AssertionFailedError for one outside.
    """
    (func,) = mod.prim_funcs().values()
    checked = with_checked_indices(func)
    if estimate_tir_flops(mod) >= large:
        mod = _in_faster_order(mod)
    (func,) = mod.prim_funcs().values()
    beside = {EXACT: in_float64(func), CHECKED: checked}
    made = {n: f.with_attr("global_symbol", n) for n, f in beside.items() if f is not None}
    return IRModule({**mod.functions, **made}, mod.attrs) if made else mod


def _in_faster_order(mod: IRModule) -> IRModule:
    sch = Schedule(mod)
    for name in mod.prim_funcs():
        for block in sch.get_child_blocks(sch.get_block("root", name)):
            try:
                _move_data_parallel_loop_inside(sch, block)
            except ScheduleError:
                continue  # this nest stays as it is
    return sch.mod


def _move_data_parallel_loop_inside(sch: Schedule, block: BlockRV) -> None:
    loops = sch.get_loops(block)
    kinds = [loop_iter_type(sch.state, sch.get_sref(loop)) for loop in loops]
    if IterVar.COMM_REDUCE not in kinds or IterVar.DATA_PAR not in kinds:
        return
    first = kinds.index(IterVar.COMM_REDUCE)
    if set(kinds[first:]) != {IterVar.COMM_REDUCE} or first == 0:
        return
    sch.reorder(*loops[first:], loops[first - 1])
    sch.decompose_reduction(block, loops[first])
