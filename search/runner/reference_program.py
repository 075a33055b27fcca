"""The program whose results are expected of all candidates, in an order that runs in bearable time.

It is the unscheduled program, but a large reduction is not left in an order that misses the caches
in every step: its last data-parallel loop goes innermost, where LLVM makes vectors of it. Each
element is still computed by the same operations in the same order, so the results are the same to
the last bit. Beside it is the same program in float64, which tells how far off the results are, and
one that stops where an index that is read from an array is outside of what it indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from schedule import BlockRV, Schedule, ScheduleError
from schedule.analysis.bindings import loop_iter_type
from search.runner.argument_values import Requirements, choice_of
from search.runner.flops import estimate_tir_flops
from tensorir.errors import IRTypeError
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import FLOAT64, DataType
from tensorir.nodes.expr import (
    BufferLoad,
    Call,
    Cast,
    FloatImm,
    IterVar,
    PointerType,
    PrimExpr,
    PrimType,
    StringImm,
    Var,
)
from tensorir.nodes.intrin import Op
from tensorir.nodes.ops import cast, if_then_else
from tensorir.rewriting.fresh_copy import FreshCopy, renew_defs
from tensorir.rewriting.visit import Rewriter, children

_FOLLOWING: Final = ("same", "matched")
"""Intrinsics whose result has the type of their arguments."""

EXACT: Final = "exact"
"""The name of the function in float64."""
CHECKED: Final = "checked"
"""The name of the function that checks its indices."""
_LARGE: Final = 1e8
"""Operations from which on a program is brought into a faster order: a tenth of a second or so."""


def in_float64(func: PrimFunc) -> PrimFunc | None:
    """Return a copy of a function in which all floats, those of its parameters too, are float64.

    That is what it would give if rounding did not matter.

    None if there is nothing to widen, or something that looks at the bits of a float or calls a
    function for one type of float.
    """
    if not any(buffer.dtype.is_floating for buffer in func.buffer_map.values()):
        return None
    try:
        return _InFloat64()(func)
    except IRTypeError:
        return None


def _widened(dtype: DataType) -> DataType:
    return FLOAT64.with_lanes(dtype.lanes) if dtype.is_floating else dtype


class _InFloat64(FreshCopy):
    """Copies a program; IRTypeError where floats of one type are needed."""

    def define(self, var: Var) -> Var:
        if not var.dtype.is_floating:
            same: Var = super().define(var)
            return same
        new = self._values[var] = Var(var.name, _widened(var.dtype))
        return new

    def define_buffer(self, buffer: Buffer) -> Buffer:
        if buffer.dtype.is_floating and buffer.data not in self._values:
            pointer = PointerType(PrimType(_widened(buffer.dtype)), buffer.scope())
            self._values[buffer.data] = Var(buffer.data.name, pointer)
        new = super().define_buffer(buffer)
        if buffer.dtype.is_floating:
            new = self._buffers[buffer] = new.with_(dtype=_widened(buffer.dtype))
        return new

    def rewrite_FloatImm(self, node: FloatImm) -> PrimExpr:  # noqa: N802
        return FloatImm(FLOAT64, node.value)

    def rewrite_Cast(self, node: Cast) -> PrimExpr:  # noqa: N802
        value, dtype = self(node.value), _widened(node.dtype)
        return value if value.dtype is dtype else Cast(dtype, value)

    def rewrite_Call(self, node: Call) -> PrimExpr:  # noqa: N802
        args = self.each(node.args)
        if not any(arg.dtype.is_floating for arg in (node, *node.args)):
            return Call(node.dtype, node.op, args)
        if not isinstance(node.op, Op) or node.op.result not in (*_FOLLOWING, "bool"):
            raise IRTypeError(f"{node.op} is for one type of float")
        return Call(_widened(node.dtype), node.op, args)


def with_checked_indices(func: PrimFunc) -> PrimFunc | None:
    """Return a copy of a function that fails where an index that is data is outside.

    Its loops are all serial. None if it has no such index.
    """
    copy = renew_defs(func)
    checker = _Checker(copy)
    body = checker(copy.body)
    return copy.with_body(body) if checker.found else None


class _Checker(Rewriter):
    """Puts assertions around the statements that read or write at indices that are data.

    Indices that follow from loops alone are known to be inside when a program is built. Those that
    are data are not: made up or given by a user, they may reach memory that belongs to nobody.
    """

    def __init__(self, func: PrimFunc) -> None:
        self._program = Requirements(func)
        self.found = False

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        serial = s.For(node.loop_var, node.min, node.extent, s.ForKind.SERIAL, self(node.body))
        return self._checked(serial, node.min, node.extent)

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        inside = [*self._inside(node, lambda condition: condition)]
        return self._checked(node, *node.indices, node.value, own=inside)

    def rewrite_Evaluate(self, node: s.Evaluate) -> s.Stmt:  # noqa: N802
        return self._checked(node, node.value)

    def rewrite_LetStmt(self, node: s.LetStmt) -> s.Stmt:  # noqa: N802
        return self._checked(self.generic(node), node.value)

    def rewrite_IfThenElse(self, node: s.IfThenElse) -> s.Stmt:  # noqa: N802
        return self._checked(self.generic(node), node.condition)

    def _checked(
        self, node: s.Stmt, *exprs: PrimExpr, own: list[tuple[PrimExpr, str]] | None = None
    ) -> s.Stmt:
        checks = [check for x in exprs for check in self._checks(x, lambda c: c)] + (own or [])
        for condition, text in reversed(checks):
            self.found = True
            node = s.AssertStmt(condition, StringImm(text), node)
        return node

    def _checks(
        self, expr: PrimExpr, under: Callable[[PrimExpr], PrimExpr]
    ) -> Iterator[tuple[PrimExpr, str]]:
        """Yield the conditions for all loads in an expression, those in indices first.

        `under` makes a condition one that holds where the expression is not computed.
        """
        chosen = choice_of(expr) if isinstance(expr, e.Call) else None
        if chosen is not None:
            condition, if_true, if_false = chosen
            yes = e.IntImm("bool", 1)
            yield from self._checks(condition, under)
            yield from self._checks(if_true, lambda c: under(if_then_else(condition, c, yes)))
            yield from self._checks(if_false, lambda c: under(if_then_else(condition, yes, c)))
            return
        if isinstance(expr, e.Let):
            var, value = expr.var, expr.value
            yield from self._checks(value, under)
            yield from self._checks(expr.body, lambda c: under(e.Let(var, value, c)))
            return
        for part in children(expr):
            if isinstance(part, PrimExpr):
                yield from self._checks(part, under)
        if isinstance(expr, BufferLoad):
            yield from self._inside(expr, under)

    def _inside(
        self, access: BufferLoad | s.BufferStore, under: Callable[[PrimExpr], PrimExpr]
    ) -> Iterator[tuple[PrimExpr, str]]:
        for axis, (index, extent) in enumerate(
            zip(access.indices, access.buffer.shape, strict=True)
        ):
            names = [buffer.name for buffer in self._program.arguments_in(index)]
            if names and index.dtype.lanes == 1:
                low = e.LE(e.IntImm(index.dtype, 0), index)
                high = e.LT(index, cast(index.dtype, extent))
                what = "written" if isinstance(access, s.BufferStore) else "read"
                remedy = ", ".join(f'"{name}": ...' for name in names)
                yield (
                    under(e.And(low, high)),
                    f"{access.buffer.name} is {what} outside of its {extent} places along axis "
                    f"{axis}, at {index}; give arrays that stay inside with "
                    f"input_data={{{remedy}}}",
                )


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
