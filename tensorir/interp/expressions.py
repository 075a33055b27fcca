"""Expressions as Python closures over an environment.

A scalar is a value in the representation of `tensorir.semantics`, a vector is the tuple of its
lanes. Index arithmetic uses integers of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tensorir.errors import IRTypeError
from tensorir.interp.accesses import AccessCompiler, Eval
from tensorir.interp.arguments import Env
from tensorir.interp.library_call import library_call
from tensorir.interp.machine_instructions import machine_instruction
from tensorir.interp.memory import InterpreterError, Memory, read, write
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import BOOL, DataType
from tensorir.nodes.expr import Call, IntImm, PrimExpr, Var
from tensorir.nodes.index_arithmetic import is_index_arithmetic
from tensorir.nodes.intrin import Op
from tensorir.semantics import (
    DIVISIONS,
    EXACT,
    conversion,
    operation,
    reinterpreted,
    rounding,
)
from tensorir.semantics import wrapping as wrapping_to

_MASK: Final = Var("lanes_taken")
"""The mask of the lanes that are evaluated, inside the right operand of `And` and `Or`."""


class ExpressionCompiler(AccessCompiler):
    """Turns expressions into closures; tracks the variables that hold run-time values."""

    def __init__(self, values: set[Var]) -> None:
        super().__init__()
        self.values = values
        """Variables whose arithmetic wraps around."""
        self._is_index: dict[PrimExpr, bool] = {}

    def call_function(self, name: str, args: Sequence[PrimExpr]) -> Eval:
        """Return a closure that calls a function of the module."""
        raise InterpreterError(f"{name} is called, but the program has no module with functions")

    def expr(self, node: PrimExpr) -> Eval:
        """Return a closure that computes the value of an expression."""
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise InterpreterError(f"unknown to the interpreter: {type(node).__name__} `{node}`")
        return handler(self, node)

    def is_index(self, node: PrimExpr) -> bool:
        """Return True if an expression is index arithmetic in its context."""
        return is_index_arithmetic(node, self.values, self._is_index)

    def bind(self, var: Var, value: PrimExpr) -> None:
        """Bind `var` to `value`."""
        if not self.is_index(value):
            self.values.add(var)

    def stored(self, node: PrimExpr) -> Eval:
        """Return a closure for a value that is narrowed to its dtype, as in memory."""
        value = self.expr(node)
        if not (node.dtype.is_int and self.is_index(node)):
            return value
        wrap = wrapping_to(node.dtype.element)
        return self.lanewise(wrap, node.dtype.lanes, [value])

    def lanewise(
        self, fn: Callable[..., Any], lanes: int, parts: Sequence[Eval], may_fail: bool = False
    ) -> Eval:
        """Return a closure that applies a function of scalars to operands, lane by lane.

        Operations that may fail are skipped for masked lanes.
        """
        if lanes == 1:
            if len(parts) == 1:
                (a,) = parts
                return lambda env: fn(a(env))
            if len(parts) == 2:
                a, b = parts
                return lambda env: fn(a(env), b(env))
            return lambda env: fn(*[part(env) for part in parts])
        if not may_fail:
            return lambda env: tuple(map(fn, *[part(env) for part in parts]))

        def masked(env: Env) -> tuple[Any, ...]:
            rows = zip(*[part(env) for part in parts], strict=True)
            taken = _mask_of_lanes(env, lanes)
            if taken is None:
                return tuple(fn(*row) for row in rows)
            return tuple(fn(*row) if on else 0 for row, on in zip(rows, taken, strict=True))

        return masked


def _mask_of_lanes(env: Env, lanes: int) -> Sequence[bool] | None:
    """Return the mask of `lanes` lanes; None if all are evaluated."""
    mask = env.get(_MASK)
    return mask if mask is not None and len(mask) == lanes else None


def _evaluate_lanes(env: Env, lanes: Sequence[bool], run: Eval) -> Any:
    """Evaluate with only the given lanes, a subset of the active lanes."""
    outer = env.get(_MASK)
    if outer is not None and len(outer) == len(lanes):
        lanes = [a and b for a, b in zip(outer, lanes, strict=True)]
    env[_MASK] = lanes
    try:
        return run(env)
    finally:
        env[_MASK] = outer


def _both_masks(a: Sequence[bool] | None, b: Sequence[bool] | None) -> Sequence[bool] | None:
    if a is None or b is None:
        return a or b
    return [x and y for x, y in zip(a, b, strict=True)]


# ------------------------------------------------------------------------------------------ nodes


def _var(c: ExpressionCompiler, node: Var) -> Eval:
    def value(env: Env) -> Any:
        try:
            return env[node]
        except KeyError:
            raise InterpreterError(f"variable {node.name} has no value here") from None

    return value


def _int_imm(c: ExpressionCompiler, node: IntImm) -> Eval:
    number = bool(node.value) if node.dtype.is_bool else node.value
    return lambda env: number


def _float_imm(c: ExpressionCompiler, node: e.FloatImm) -> Eval:
    number = rounding(node.dtype)(node.value)
    return lambda env: number


def _binary(c: ExpressionCompiler, node: e.BinaryOp) -> Eval:
    kind, dtype = type(node), node.a.dtype
    integral = dtype.is_integral
    is_index = integral and c.is_index(node)
    if is_index and kind in EXACT:
        apply: Callable[..., Any] = EXACT[kind]
    else:
        apply = operation(kind, dtype.element)
    operand = c.expr if is_index else c.stored
    may_fail = integral and kind in DIVISIONS
    if may_fail:
        apply = _named_division(apply, node)
    return c.lanewise(apply, dtype.lanes, [operand(node.a), operand(node.b)], may_fail)


def _named_division(apply: Callable[..., Any], node: PrimExpr) -> Callable[..., Any]:
    def divide(a: int, b: int) -> int:
        if b == 0:
            raise InterpreterError(f"division by zero in `{node}`")
        return apply(a, b)  # type: ignore[no-any-return]

    return divide


def _logical(c: ExpressionCompiler, node: e.LogicalOp) -> Eval:
    a, b, decided = c.expr(node.a), c.expr(node.b), type(node) is e.Or
    if node.dtype.lanes == 1:
        if decided:
            return lambda env: a(env) or b(env)
        return lambda env: a(env) and b(env)
    apply = operation(type(node), BOOL)

    def lane_by_lane(env: Env) -> tuple[bool, ...]:
        left = a(env)
        open_lanes = [value is not decided for value in left]
        right = _evaluate_lanes(env, open_lanes, b) if any(open_lanes) else left
        return tuple(map(apply, left, right))

    return lane_by_lane


def _not(c: ExpressionCompiler, node: e.Not) -> Eval:
    return c.lanewise(operation(e.Not, BOOL), node.dtype.lanes, [c.expr(node.a)])


def _cast(c: ExpressionCompiler, node: e.Cast) -> Eval:
    convert = conversion(node.value.dtype.element, node.dtype.element)
    return c.lanewise(convert, node.dtype.lanes, [c.expr(node.value)])


def _select(c: ExpressionCompiler, node: e.Select) -> Eval:
    parts = [c.expr(part) for part in (node.condition, node.true_value, node.false_value)]
    if node.condition.dtype.lanes == node.dtype.lanes:
        return c.lanewise(operation(e.Select, BOOL), node.dtype.lanes, parts)
    condition, yes, no = parts

    def whole(env: Env) -> Any:
        test, a, b = condition(env), yes(env), no(env)
        return a if test else b

    return whole


def _let(c: ExpressionCompiler, node: e.Let) -> Eval:
    var, value = node.var, c.expr(node.value)
    c.bind(var, node.value)
    body = c.expr(node.body)

    def bound(env: Env) -> Any:
        env[var] = value(env)
        return body(env)

    return bound


def _ramp(c: ExpressionCompiler, node: e.Ramp) -> Eval:
    base, stride, lanes = c.expr(node.base), c.expr(node.stride), range(node.lanes)
    wrap = (lambda v: v) if c.is_index(node) else wrapping_to(node.dtype.element)

    def spread(env: Env) -> tuple[int, ...]:
        first, step = base(env), stride(env)
        return tuple(wrap(first + k * step) for k in lanes)

    return spread


def _broadcast(c: ExpressionCompiler, node: e.Broadcast) -> Eval:
    value, lanes = c.expr(node.value), node.lanes
    return lambda env: (value(env),) * lanes


def _shuffle(c: ExpressionCompiler, node: e.Shuffle) -> Eval:
    vectors = [c.expr(v) for v in node.vectors]
    widths = [v.dtype.lanes for v in node.vectors]
    picks = []
    for index in node.indices:
        if not isinstance(index, IntImm) or not 0 <= index.value < sum(widths):
            raise InterpreterError(f"the lanes that a Shuffle picks must be constants: `{node}`")
        picks.append(index.value)

    def pick(env: Env) -> Any:
        lanes: list[Any] = []
        for vector, width in zip(vectors, widths, strict=True):
            value = vector(env)
            lanes.extend(value if width > 1 else [value])
        return lanes[picks[0]] if len(picks) == 1 else tuple(lanes[k] for k in picks)

    return pick


def _load(c: ExpressionCompiler, node: e.BufferLoad) -> Eval:
    dtype, width = node.buffer.dtype.element, node.buffer.dtype.lanes
    predicate = None if node.predicate is None else c.expr(node.predicate)
    zero: Any = False if dtype.is_bool else 0 if dtype.is_integral else 0.0
    if node.indices and node.indices[-1].dtype.lanes > 1:
        find, lanes = c.places(node.buffer, node.indices, node), node.indices[-1].dtype.lanes

        def load_vector(env: Env) -> tuple[Any, ...]:
            taken = _both_masks(
                _mask_of_lanes(env, lanes), None if predicate is None else predicate(env)
            )
            values: list[Any] = []
            for place in find(env, taken):
                if place is None:
                    values.extend([zero] * width)
                else:
                    memory, position = place
                    values.extend(_lanes_at(memory, position, dtype, width))
            return tuple(values)

        return load_vector
    locate, parts = c.locate(node.buffer, node), [c.expr(i) for i in node.indices]

    def load(env: Env) -> Any:
        if predicate is not None and not predicate(env):
            return zero if width == 1 else (zero,) * width
        memory, position = locate(env, [part(env) for part in parts])
        if width == 1:
            return read(memory, position, dtype)
        return tuple(_lanes_at(memory, position, dtype, width))

    return load


def _lanes_at(memory: Memory, cell: int, dtype: DataType, width: int) -> Iterator[Any]:
    return (read(memory, cell + k * memory.step, dtype) for k in range(width))


def store(c: ExpressionCompiler, node: Any) -> Callable[[Env], None]:
    """Return a closure that runs a `BufferStore`; all lanes are computed before any is written."""
    dtype, width = node.buffer.dtype.element, node.buffer.dtype.lanes
    value = c.stored(node.value)
    predicate = None if node.predicate is None else c.expr(node.predicate)
    if node.indices and node.indices[-1].dtype.lanes > 1:
        find = c.places(node.buffer, node.indices, node)

        def store_vector(env: Env) -> None:
            values = value(env)
            places = find(env, None if predicate is None else predicate(env))
            for lane, place in enumerate(places):
                if place is not None:
                    memory, position = place
                    for k in range(width):
                        write(memory, position + k * memory.step, values[lane * width + k], dtype)

        return store_vector
    locate, parts = c.locate(node.buffer, node), [c.expr(i) for i in node.indices]

    def run(env: Env) -> None:
        if predicate is not None and not predicate(env):
            return
        stored = value(env)
        memory, position = locate(env, [part(env) for part in parts])
        if width == 1:
            write(memory, position, stored, dtype)
            return
        for k, lane in enumerate(stored):
            write(memory, position + k * memory.step, lane, dtype)

    return run


# ------------------------------------------------------------------------------------------ calls


def _call(c: ExpressionCompiler, node: Call) -> Eval:
    if isinstance(node.op, e.GlobalVar):
        return c.call_function(node.op.name, node.args)
    name = node.op.short_name
    special = _CALLS.get(name)
    if special is not None:
        return special(c, node)
    instruction = machine_instruction(node)
    if instruction is not None:
        operands, apply = instruction
        vectors = [c.expr(operand) for operand in operands]
        return lambda env: apply(*[vector(env) for vector in vectors])
    return _intrinsic(c, node, name)


def _intrinsic(c: ExpressionCompiler, node: Call, name: str) -> Eval:
    try:
        apply = operation(name, node.args[0].dtype.element)
    except (IRTypeError, IndexError):
        if node.args and isinstance(node.args[0], e.StringImm):
            name = f"{name} of {node.args[0].value}"
        elif node.args:
            name = f"{name} of {node.args[0].dtype}"
        raise InterpreterError(f"unknown to the interpreter: the intrinsic {name}") from None
    lanes = max(node.dtype.lanes, *(arg.dtype.lanes for arg in node.args))
    parts = [
        c.stored(arg if arg.dtype.lanes == lanes else e.Broadcast(arg, lanes)) for arg in node.args
    ]
    return c.lanewise(apply, lanes, parts)


def _if_then_else(c: ExpressionCompiler, node: Call) -> Eval:
    condition, yes, no = (c.expr(arg) for arg in node.args)
    if node.args[0].dtype.lanes > 1:
        raise InterpreterError(f"T.if_then_else needs a scalar condition: `{node}`")
    return lambda env: yes(env) if condition(env) else no(env)


def _likely(c: ExpressionCompiler, node: Call) -> Eval:
    return c.expr(node.args[0])


def _assume(c: ExpressionCompiler, node: Call) -> Eval:
    condition, text = c.expr(node.args[0]), str(node.args[0])

    def check(env: Env) -> bool:
        if not condition(env):
            raise InterpreterError(f"a T.assume does not hold: {text}")
        return True

    return check


def _undef(c: ExpressionCompiler, node: Call) -> Eval:
    return lambda env: 77


def _reinterpret(c: ExpressionCompiler, node: Call) -> Eval:
    value, source, target = c.expr(node.args[0]), node.args[0].dtype, node.dtype
    if source.is_handle or target.is_handle:
        raise InterpreterError(f"the interpreter cannot convert pointers to numbers: `{node}`")
    one, many = source.lanes == 1, target.lanes > 1

    def change(env: Env) -> Any:
        found = value(env)
        result = reinterpreted([found] if one else found, source.element, target.element)
        return tuple(result) if many else result[0]

    return change


def _large_uint(c: ExpressionCompiler, node: Call) -> Eval:
    low, high, wrap = c.expr(node.args[0]), c.expr(node.args[1]), wrapping_to(node.dtype)
    return lambda env: wrap(high(env) << 32 | low(env))


def _vector_part(c: ExpressionCompiler, node: Call) -> Eval:
    parts, lanes = [c.expr(arg) for arg in node.args], node.dtype.lanes
    keep = slice(-lanes, None) if node.op is Op.get("vectorhigh") else slice(lanes)

    def part(env: Env) -> Any:
        joined = tuple(value for one in parts for value in one(env))[keep]
        return joined[0] if lanes == 1 else joined

    return part


def _address_of(c: ExpressionCompiler, node: Call) -> Eval:
    load = node.args[0]
    if not isinstance(load, e.BufferLoad):
        raise InterpreterError(f"T.address_of needs an element of a buffer: `{node}`")
    locate, parts = c.locate(load.buffer, node), [c.expr(i) for i in load.indices]

    def address(env: Env) -> Memory:
        memory, position = locate(env, [part(env) for part in parts])
        return memory.at(position)

    return address


def _access_pointer(c: ExpressionCompiler, node: Call) -> Eval:
    kind, data, offset = (
        node.args[0].dtype.element.to_numpy(),
        c.expr(node.args[1]),
        c.expr(node.args[2]),
    )
    return lambda env: data(env).of(kind).after(offset(env))


def _is_null(c: ExpressionCompiler, node: Call) -> Eval:
    pointer = c.expr(node.args[0])
    return lambda env: pointer(env) is None


def _sync(c: ExpressionCompiler, node: Call) -> Eval:
    """Wait for nobody: outside of a launch, threads run one after the other."""
    return lambda env: 0


def _warp_shuffle(c: ExpressionCompiler, node: Call) -> Eval:
    raise InterpreterError(
        f"a warp shuffle is interpreted in a launch only, as the value of a variable: "
        f"`x: T.{node.dtype} = {node}`"
    )


_CALLS: Final[dict[str, Callable[[ExpressionCompiler, Call], Eval]]] = {
    "if_then_else": _if_then_else,
    "tvm_call_packed": library_call,
    "likely": _likely,
    "assume": _assume,
    "undef": _undef,
    "reinterpret": _reinterpret,
    "large_uint_imm": _large_uint,
    "vectorlow": _vector_part,
    "vectorhigh": _vector_part,
    "vectorcombine": _vector_part,
    "address_of": _address_of,
    "tvm_access_ptr": _access_pointer,
    "isnullptr": _is_null,
    "tvm_storage_sync": _sync,
    **dict.fromkeys(
        ("tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down"), _warp_shuffle
    ),
}
"""Calls that do not apply an operation to values lane by lane."""

_HANDLERS: Final[dict[type, Callable[[ExpressionCompiler, Any], Eval]]] = {
    Var: _var,
    e.SizeVar: _var,
    IntImm: _int_imm,
    e.FloatImm: _float_imm,
    e.BufferLoad: _load,
    **dict.fromkeys((*e.ARITHMETIC, *e.COMPARISONS), _binary),
    e.And: _logical,
    e.Or: _logical,
    e.Not: _not,
    e.Cast: _cast,
    e.Select: _select,
    e.Let: _let,
    e.Ramp: _ramp,
    e.Broadcast: _broadcast,
    e.Shuffle: _shuffle,
    Call: _call,
}
