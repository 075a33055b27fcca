"""Arithmetic, comparisons, logic and vectors.

`tensorir.semantics` defines the operations. A product and the sum that uses it carry LLVM's
`contract` flag, so that they may become one fused operation, unless the function forbids it. No
other operation carries the flag, so fusion does not cross stores, bindings or conversions. Floats
are never reassociated, and no fast-math assumptions are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from codegen.emit.context import FunctionEmitter, emits
from codegen.emit.convert import float32_to_half, half_to_float32, half_to_float32_lanes
from codegen.emit.index import linear_lanes, ramp, resize
from codegen.emit.integer import divide
from codegen.emit.lanes import Formula
from codegen.emit.llvm_text import float_text, integer_text, is_half, register_type
from codegen.emit.parallel import define_counter
from tensorir.arith.const_interval import exact_interval
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import FLOAT32, INT32, DataType
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.index_arithmetic import is_index_arithmetic
from tensorir.nodes.intrin import Op
from tensorir.rewriting.visit import walk
from tensorir.semantics.purity import is_pure

_INTEGER: Final[dict[type, str]] = {e.Add: "add", e.Sub: "sub", e.Mul: "mul"}
_FLOAT: Final[dict[type, str]] = {e.Add: "fadd", e.Sub: "fsub", e.Mul: "fmul", e.Div: "fdiv"}
_SUMS: Final = frozenset({e.Add, e.Sub})
_SIGNED_TEST: Final[dict[type, str]] = {
    e.EQ: "eq", e.NE: "ne", e.LT: "slt", e.LE: "sle", e.GT: "sgt", e.GE: "sge",
}  # fmt: skip
_FLOAT_TEST: Final[dict[type, str]] = {
    e.EQ: "oeq", e.NE: "une", e.LT: "olt", e.LE: "ole", e.GT: "ogt", e.GE: "oge",
}  # fmt: skip


@emits(e.IntImm)
def _int_imm(f: FunctionEmitter, node: e.IntImm) -> str:
    return integer_text(node.dtype, node.value)


@emits(e.FloatImm)
def _float_imm(f: FunctionEmitter, node: e.FloatImm) -> str:
    register_type(node.dtype)
    return float_text(node.dtype, node.value)


@emits(e.StringImm)
def _string_imm(f: FunctionEmitter, node: e.StringImm) -> str:
    return f.module.text.constant_bytes(node.value.encode() + b"\0")


@emits(e.Var, e.SizeVar)
def _var(f: FunctionEmitter, node: e.Var) -> str:
    value = f.values.get(node)
    if value is None:
        f.fail(f"variable {node.name} is used where it is not defined")
    return value


@emits(*e.ARITHMETIC)
def _arithmetic(f: FunctionEmitter, node: e.BinaryOp) -> str:
    dtype, kind = node.dtype, type(node)
    if not dtype.is_integral:
        return _float_arithmetic(f, node)
    name = _INTEGER.get(kind)
    if name is not None:
        left = f.expr(node.a)
        return f.op(f"{name} {register_type(dtype)} {left}, {f.expr(node.b)}")
    if dtype.bits == 32 and _may_need_more_bits(f, node):
        # Operands may need more bits for some buffer sizes; the result is truncated for its use.
        return resize(f, f.index(node), f.index_dtype.with_lanes(dtype.lanes), dtype)
    left, right = f.expr(node.a), f.expr(node.b)
    if kind is e.Min or kind is e.Max:
        sign = "s" if dtype.is_int else "u"
        return f.math_intrinsic(sign + ("min" if kind is e.Min else "max"), dtype, left, right)
    a, b = exact_interval(node.a, f.ranges), exact_interval(node.b, f.ranges)
    return divide(f, kind, dtype, left, right, a, b)


def _float_arithmetic(f: FunctionEmitter, node: e.BinaryOp) -> str:
    dtype, kind = node.dtype, type(node)
    if kind is e.Mod:
        return f.expr(e.Call(dtype, Op.get("fmod"), (node.a, node.b)))
    if is_half(dtype):
        single = FLOAT32.with_lanes(dtype.lanes)
        left, right = (half_to_float32(f, f.expr(side), dtype) for side in (node.a, node.b))
        return float32_to_half(f, _emit_float_operation(f, kind, single, left, right), dtype)
    if f.contracts and kind in _SUMS and (type(node.a) is e.Mul or type(node.b) is e.Mul):
        left, right = _emit_contractible(f, node.a), _emit_contractible(f, node.b)
        return f.op(f"{_FLOAT[kind]} contract {register_type(dtype)} {left}, {right}")
    left = f.expr(node.a)
    return _emit_float_operation(f, kind, dtype, left, f.expr(node.b))


def _emit_contractible(f: FunctionEmitter, node: PrimExpr) -> str:
    """Write an operand of a sum; a product is marked so that it may be fused with the sum."""
    if type(node) is not e.Mul:
        return f.expr(node)
    left = f.expr(node.a)
    return f.op(f"fmul contract {register_type(node.dtype)} {left}, {f.expr(node.b)}")


def _emit_float_operation(f: FunctionEmitter, node: type, dtype: DataType, a: str, b: str) -> str:
    """Write the arithmetic node class `node` on two floats of 32 or 64 bits."""
    name = _FLOAT.get(node)
    if name is not None:
        return f.op(f"{name} {register_type(dtype)} {a}, {b}")
    w = Formula(f, dtype.bits, dtype.lanes)
    x, y = w.value(a), w.value(b)
    if node is e.Min or node is e.Max:
        return w.select(x < y if node is e.Min else x > y, x, y).text
    quotient = w.intrinsic("floor", x / y)
    return (quotient if node is e.FloorDiv else x - quotient * y).text


@emits(*e.COMPARISONS)
def _compare(f: FunctionEmitter, node: e.CmpOp) -> str:
    dtype = node.a.dtype
    if dtype.is_integral:
        return _compare_integers(f, node, dtype)
    left, right = f.expr(node.a), f.expr(node.b)
    if dtype.is_handle:
        return f.op(f"icmp {_unsigned_predicate(_SIGNED_TEST[type(node)])} ptr {left}, {right}")
    if is_half(dtype):
        left, right = half_to_float32(f, left, dtype), half_to_float32(f, right, dtype)
        dtype = FLOAT32.with_lanes(dtype.lanes)
    return f.op(f"fcmp {_FLOAT_TEST[type(node)]} {register_type(dtype)} {left}, {right}")


def _compare_integers(f: FunctionEmitter, node: e.CmpOp, dtype: DataType) -> str:
    test = _SIGNED_TEST[type(node)]
    # Predicates over loop variables compare in the width of the induction variables.
    is_wide = dtype.lanes == 1 and dtype.is_int and dtype.bits >= 32 and _is_exact(f, node)
    if dtype.lanes > 1 and dtype.bits == 32 and _may_need_more_bits(f, node):
        spaced = _compare_spaced(f, node, test)
        if spaced is not None:
            return spaced
        is_wide = True
    if is_wide:
        left, right = f.index(node.a), f.index(node.b)
        kind = register_type(f.index_dtype.with_lanes(dtype.lanes))
        return f.op(f"icmp {test} {kind} {left}, {right}")
    if dtype.is_uint:
        test = _unsigned_predicate(test)
    left = f.expr(node.a)
    return f.op(f"icmp {test} {register_type(dtype)} {left}, {f.expr(node.b)}")


def _compare_spaced(f: FunctionEmitter, node: e.CmpOp, test: str) -> str | None:
    """Compare evenly spaced lanes: `a + k * s < b + k * t` if `k * (s - t) < b - a`.

    One difference, clamped to the range of the lanes, is compared with all of them. None if
    the lanes are not evenly spaced.
    """
    left, right = linear_lanes(f, node.a), linear_lanes(f, node.b)
    if left is None or right is None:
        return None
    lanes, step = node.dtype.lanes, left[1] - right[1]
    reach = step * (lanes - 1)
    if abs(reach) >= 1 << 30:
        return None
    first = f.index(left[0])
    space = f.op(f"sub nsw {f.index_type} {f.index(right[0])}, {first}")
    space = f.math_intrinsic("smax", f.index_dtype, space, str(min(0, reach) - 1))
    space = f.math_intrinsic("smin", f.index_dtype, space, str(max(0, reach) + 1))
    limit = f.splat(resize(f, space, f.index_dtype, INT32), "i32", lanes)
    steps = ", ".join(f"i32 {k * step}" for k in range(lanes))
    return f.op(f"icmp {test} <{lanes} x i32> <{steps}>, {limit}")


def _may_need_more_bits(f: FunctionEmitter, node: e.BinaryOp) -> bool:
    """Return True if the operands are indices that may exceed 32 bits for some buffer sizes.

    Scalars return False: they are computed in the index type anyway.
    """
    return is_index_arithmetic(node, f.value_variables) and (
        node.a.dtype.lanes == 1
        or any(exact_interval(side, f.ranges) is None for side in (node.a, node.b))
    )


def _is_exact(f: FunctionEmitter, node: e.CmpOp) -> bool:
    """Return True if no compared operand wraps; an index that is compared with a value may."""
    return is_index_arithmetic(node, f.value_variables) or all(
        exact_interval(side, f.ranges) is not None for side in (node.a, node.b)
    )


def _unsigned_predicate(test: str) -> str:
    return test.replace("s", "u") if test[0] == "s" else test


def may_not_run(node: PrimExpr) -> bool:
    """Return True if evaluating `node` without need could fault, have a side effect or be slow."""
    return not is_pure(node) or any(
        isinstance(part, e.Call)
        and isinstance(part.op, Op)
        and part.op.short_name.startswith("call_")
        for part in walk(node)
    )


@emits(e.And, e.Or)
def _logical(f: FunctionEmitter, node: e.LogicalOp) -> str:
    left = f.expr(node.a)
    is_and = type(node) is e.And
    name, kind, lanes = "and" if is_and else "or", register_type(node.dtype), node.dtype.lanes
    if not may_not_run(node.b):
        return f.op(f"{name} {kind} {left}, {f.expr(node.b)}")
    if lanes > 1:
        undecided = left if is_and else f.op(f"xor {kind} {left}, splat (i1 true)")
        right = f.masked(undecided, lanes, node.b)
        # Unlike `and`, a select ignores undefined right operands in lanes that the left operand
        # decides.
        ends = (
            f"{kind} {right}, {kind} zeroinitializer"
            if is_and
            else (f"{kind} splat (i1 true), {kind} {right}")
        )
        return f.op(f"select {kind} {left}, {ends}")
    if is_and:
        return f.emit_select(left, "i1", lambda: f.expr(node.b), "false")
    return f.emit_select(left, "i1", "true", lambda: f.expr(node.b))


@emits(e.Not)
def _not(f: FunctionEmitter, node: e.Not) -> str:
    ones = f.splat("true", "i1", node.dtype.lanes)
    return f.op(f"xor {register_type(node.dtype)} {f.expr(node.a)}, {ones}")


@emits(e.Select)
def _select(f: FunctionEmitter, node: e.Select) -> str:
    condition, kind = f.expr(node.condition), register_type(node.dtype)
    yes, no = f.expr(node.true_value), f.expr(node.false_value)
    mask = register_type(node.condition.dtype)
    return f.op(f"select {mask} {condition}, {kind} {yes}, {kind} {no}")


@emits(e.Let)
def _let(f: FunctionEmitter, node: e.Let) -> str:
    bind(f, node.var, node.value)
    return f.expr(node.body)


def bind(f: FunctionEmitter, var: e.Var, value: PrimExpr) -> None:
    """Use `value` for `var` in the code that is emitted from here on."""
    if var in f.values:
        # Another copy of the expression binds the variable again, so values computed from it are
        # stale.
        f.index_values.clear()
    dtype = value.dtype
    if dtype.is_integral and dtype.lanes == 1 and not dtype.is_bool:
        interval = exact_interval(value, f.ranges)
        is_index = is_index_arithmetic(value, f.value_variables)
        if not is_index:
            f.value_variables.add(var)
        fits = is_index if interval is None else f.fits_index(interval)
        if fits and dtype.bits >= 32:
            define_counter(f, var, f.index(value), interval)
            return
        if interval is not None:
            f.ranges[var] = interval
    f.values[var] = f.expr(value)


@emits(e.Ramp)
def _ramp(f: FunctionEmitter, node: e.Ramp) -> str:
    base, first = _split_constant(node.base)
    step = node.stride
    stride = str(step.value) if type(step) is e.IntImm else f.expr(step)
    return ramp(f, node.dtype.element, f.expr(base), stride, node.lanes, first)


def _split_constant(node: e.PrimExpr) -> tuple[e.PrimExpr, int]:
    """Split a sum into the part without constants and the sum of the constants.

    So vectors of one loop that start at different constants share the part that the loop changes.
    """
    if type(node) is e.Add or type(node) is e.Sub:
        if type(node.b) is e.IntImm:
            rest, constant = _split_constant(node.a)
            return rest, constant + (node.b.value if type(node) is e.Add else -node.b.value)
        if type(node) is e.Add and type(node.a) is e.IntImm:
            rest, constant = _split_constant(node.b)
            return rest, constant + node.a.value
    return node, 0


@emits(e.Broadcast)
def _broadcast(f: FunctionEmitter, node: e.Broadcast) -> str:
    value = node.value
    if type(value) is e.Cast and value.dtype is FLOAT32 and is_half(value.value.dtype):
        # Broadcasting an element of memory is one load; a converted scalar would need more
        # instructions.
        return half_to_float32_lanes(f, f.expr(value.value), value.value.dtype, node.lanes)
    return f.splat(f.expr(value), register_type(value.dtype), node.lanes)


@emits(e.Shuffle)
def _shuffle(f: FunctionEmitter, node: e.Shuffle) -> str:
    homes = [(number, k) for number, v in enumerate(node.vectors) for k in range(v.dtype.lanes)]
    picks = []
    for index in node.indices:
        if type(index) is not e.IntImm or not 0 <= index.value < len(homes):
            f.fail(f"a Shuffle picks lanes 0 to {len(homes) - 1} by constants, not by {index}")
        picks.append(homes[index.value])
    vectors = [(f.expr(v), v.dtype.lanes) for v in node.vectors]
    used = sorted({number for number, _ in picks})
    element = register_type(node.dtype.element)
    if len(picks) > 1 and all(vectors[number][1] > 1 for number in used):
        return _pick_lanes(f, element, vectors, picks, used).move(f, element).value
    value = "poison"
    for position, (number, lane) in enumerate(picks):
        picked, lanes = vectors[number]
        if lanes > 1:
            picked = f.pure(f"extractelement <{lanes} x {element}> {picked}, i64 {lane}")
        if len(picks) == 1:
            return picked
        one = f"{element} {picked}, i64 {position}"
        value = f.pure(f"insertelement <{len(picks)} x {element}> {value}, {one}")
    return value


@dataclass(frozen=True, slots=True)
class _Partial:
    """A vector with some lanes of a result, and the target positions; None for unused lanes."""

    value: str
    length: int
    places: list[int | None]

    def move(self, f: FunctionEmitter, element: str) -> _Partial:
        """Return the vector with its lanes at their target positions."""
        count = len(self.places)
        if all(place in (k, None) for k, place in enumerate(self.places)) and self.length == count:
            return self
        kind = f"<{self.length} x {element}>"
        value = f.shuffle(kind, self.value, "poison", self.places)
        there = [None if place is None else k for k, place in enumerate(self.places)]
        return _Partial(value, count, there)


def _pick_lanes(
    f: FunctionEmitter,
    element: str,
    vectors: list[tuple[str, int]],
    picks: list[tuple[int, int]],
    used: list[int],
) -> _Partial:
    """Write the lanes of `picks`, as (vector, lane), that come from the vectors `used`.

    A shuffle has two operands of one type: more vectors are joined in pairs.
    """
    if len(used) == 1:
        places = [lane if number == used[0] else None for number, lane in picks]
        return _Partial(*vectors[used[0]], places)
    middle = len(used) // 2
    left = _pick_lanes(f, element, vectors, picks, used[:middle])
    right = _pick_lanes(f, element, vectors, picks, used[middle:])
    if left.length != right.length:
        left, right = left.move(f, element), right.move(f, element)
    both = [
        a if b is None else left.length + b for a, b in zip(left.places, right.places, strict=True)
    ]
    value = f.shuffle(f"<{left.length} x {element}>", left.value, right.value, both)
    there = [None if place is None else k for k, place in enumerate(both)]
    return _Partial(value, len(picks), there)
