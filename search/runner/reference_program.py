"""The program that computes the expected results of all candidates, in a reasonably fast order.

It is the unscheduled program, except that the last data-parallel loop of a large reduction is moved
innermost, where LLVM vectorises it: the original order would miss the caches in every step. Each
element is still computed by the same operations in the same order, so the results are identical.
Two variants accompany it: the program in float64, which shows the rounding errors, and a program
that stops at an index that is read from an array and is out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from codegen import Target
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
"""The kinds of intrinsics whose result has the type of their arguments."""

EXACT: Final = "exact"
"""The name of the function in float64."""
CHECKED: Final = "checked"
"""The name of the function with checked indices."""
_LARGE: Final = 1e8
"""The number of operations, about a tenth of a second, above which a program is reordered."""


def reference_target(target: Target) -> Target:
    """Return the target of the reference program: the CPU of this machine, if `target` is a GPU."""
    return target if target.gpu is None else Target.host()


def in_float64(func: PrimFunc) -> PrimFunc | None:
    """Return a copy of a function in which all floats, even of parameters, are float64.

    None for a function without floats, and for a function that reads the bits of a float or calls
    a function for one type of float.
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
    """Copies a program; IRTypeError for a call that needs one type of float."""

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
    """Return a serial copy of a function that fails if an index from an array is out of bounds.

    None if no index comes from an array.
    """
    copy = renew_defs(func)
    checker = _Checker(copy)
    body = checker(copy.body)
    return copy.with_body(body) if checker.found else None


class _Checker(Rewriter):
    """Puts assertions around the statements with indices that come from arrays.

    Indices that consist of loop variables are checked when a program is built. An index from an
    array, random or given by a user, may be outside of any memory of this process.
    """

    def __init__(self, func: PrimFunc) -> None:
        self._program = Requirements(func)
        self.found = False

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        serial = s.For(node.loop_var, node.min, node.extent, s.ForKind.SERIAL, self(node.body))
        return self._checked(serial, node.min, node.extent)

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        inside = [*self._check_in_bounds(node, lambda condition: condition)]
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
        """Yield the conditions for all loads in an expression, inner loads first.

        `under` guards a condition: it holds if the expression is not computed.
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
            yield from self._check_in_bounds(expr, under)

    def _check_in_bounds(
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
                    f"{access.buffer.name} is {what} out of bounds along axis {axis} of extent "
                    f"{extent}, at {index}; give arrays with valid indices by "
                    f"input_data={{{remedy}}}",
                )


def reference_program(mod: IRModule, large: float = _LARGE) -> IRModule:
    """Return a module with the results of `mod`, a module of one function, and its variants.

    Programs with fewer operations than `large` keep their order. If the function can be computed in
    float64, the function `EXACT` does this. If it has indices from arrays, the function `CHECKED`
    raises AssertionFailedError for an index out of bounds.
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
                continue  # this nest keeps its order
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
