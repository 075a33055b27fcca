"""The program whose results are expected of all candidates, in an order that runs in bearable time.

It is the unscheduled program, but a large reduction is not left in an order that misses the caches
in every step: its last data-parallel loop goes innermost, where LLVM makes vectors of it. Each
element is still computed by the same operations in the same order, so the results are the same to
the last bit. Beside it is the same program in float64, which tells how far off the results are.
"""

from __future__ import annotations

from typing import Final

from schedule import BlockRV, Schedule, ScheduleError
from schedule.analysis.bindings import loop_iter_type
from search.flops import estimate_tir_flops
from search.runner.float64_program import in_float64
from tensorir.expr import IterVar
from tensorir.function import IRModule

EXACT: Final = "exact"
"""The name of the function in float64."""
_LARGE: Final = 1e8
"""Operations from which on a program is brought into a faster order: a tenth of a second or so."""


def reference_program(mod: IRModule, large: float = _LARGE) -> IRModule:
    """Return a program that computes what `mod`, a program of one function, does.

    It is left in its order if it has fewer operations than `large`. If the function can be computed
    in float64, the program also has a function `EXACT` that does.
    """
    if estimate_tir_flops(mod) >= large:
        mod = _in_faster_order(mod)
    (func,) = mod.prim_funcs().values()
    exact = in_float64(func)
    if exact is None:
        return mod
    return IRModule({**mod.functions, EXACT: exact.with_attr("global_symbol", EXACT)}, mod.attrs)


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
