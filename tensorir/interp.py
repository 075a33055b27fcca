"""A slow reference interpreter over NumPy arrays: what programs mean.

Statements and expressions become Python closures once, then run. Every access is checked against
the bounds of its buffer. Loops of every kind run in order; a block's `init` runs when its reduction
axes are at their first values. Arithmetic wraps and rounds as the dtype does. Buffers that a
program allocates start as NaN or a pattern, so that reading before writing shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorir import expr as e
from tensorir import stmt as s
from tensorir.buffer import Buffer, Range
from tensorir.dtype import DataType
from tensorir.errors import IRTypeError, IRValueError, TensorIRError
from tensorir.expr import IntImm, IterVar, PrimExpr, Var
from tensorir.function import IRModule, PrimFunc
from tensorir.interp_bits import is_across_lanes, lane_of_call
from tensorir.interp_lanes import lane_indices, lane_of
from tensorir.ops import is_const_int

Env: TypeAlias = dict[Var, Any]
"""Values of variables; a data variable holds the array of its memory."""
Eval: TypeAlias = Callable[[Env], Any]
Run: TypeAlias = Callable[[Env], None]


class InterpreterError(TensorIRError):
    """A program did something that it must not, such as an access out of bounds."""


def interpret(
    program: PrimFunc | IRModule, *args: NDArray[Any] | float, func_name: str | None = None
) -> None:
    """Run a function on arrays and scalars; outputs are written in place.

    `func_name` chooses the function of a module, by default `main` or the only one.
    Raises TypeError or ValueError naming the parameter for arguments that do not fit, and
    InterpreterError naming buffer, index and bounds for an access out of bounds.
    """
    func = _chosen(program, func_name)
    if len(args) != len(func.params):
        raise IRTypeError(f"the function takes {len(func.params)} arguments, got {len(args)}")
    env: Env = {}
    for param, arg in zip(func.params, args, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            env[param] = param.dtype.to_numpy().type(arg)
        else:
            _bind_buffer(buffer, arg, env)
    compiler = _Compiler(program if isinstance(program, IRModule) else None)
    with np.errstate(all="ignore"):
        compiler.stmt(func.body)(env)


def _chosen(program: PrimFunc | IRModule, name: str | None) -> PrimFunc:
    if isinstance(program, PrimFunc):
        return program
    if name is None:
        name = "main" if "main" in program or len(program) != 1 else next(iter(program))
    return program[name]


def _bind_buffer(buffer: Buffer, arg: Any, env: Env) -> None:
    if not isinstance(arg, np.ndarray):
        raise IRTypeError(f"argument {buffer.name} must be a NumPy array, got {type(arg).__name__}")
    expected = buffer.dtype.to_numpy()
    if arg.dtype != expected:
        raise IRTypeError(f"argument {buffer.name} has dtype {arg.dtype}, expected {expected}")
    if arg.ndim != len(buffer.shape):
        raise IRValueError(
            f"argument {buffer.name} has {arg.ndim} dimension(s), expected {len(buffer.shape)}"
        )
    for dim, (size, extent) in enumerate(zip(arg.shape, buffer.shape, strict=True)):
        if isinstance(extent, Var) and extent not in env:
            env[extent] = size
        elif isinstance(extent, IntImm) and extent.value != size:
            raise IRValueError(
                f"argument {buffer.name} has extent {size} in dimension {dim}, "
                f"expected {extent.value}"
            )
    env[buffer.data] = arg


_ARITHMETIC: Final[dict[type, Callable[[Any, Any], Any]]] = {
    e.Add: lambda a, b: a + b,
    e.Sub: lambda a, b: a - b,
    e.Mul: lambda a, b: a * b,
    e.Min: lambda a, b: min(a, b),
    e.Max: lambda a, b: max(a, b),
}
_COMPARE: Final[dict[type, Callable[[Any, Any], Any]]] = {
    e.EQ: lambda a, b: a == b,
    e.NE: lambda a, b: a != b,
    e.LT: lambda a, b: a < b,
    e.LE: lambda a, b: a <= b,
    e.GT: lambda a, b: a > b,
    e.GE: lambda a, b: a >= b,
}
_NUMPY_NAMES: Final = (
    *("exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "floor", "ceil", "trunc", "fabs"),
    *("tanh", "sin", "cos", "tan", "sinh", "cosh"),
)
_UNARY: Final[dict[str, Callable[[float], float]]] = {
    **{name: getattr(np, name) for name in _NUMPY_NAMES},
    "erf": math.erf,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "exp10": lambda x: np.power(10.0, x),
    "round": np.round,
    "nearbyint": np.round,
}
_BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "pow": np.power,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "shift_left": lambda a, b: a << b,
    "shift_right": lambda a, b: a >> b,
}


class _Compiler:
    """Turns statements and expressions into closures over an environment."""

    def __init__(self, module: IRModule | None) -> None:
        self._module = module
        self._views: dict[Buffer, tuple[Buffer, tuple[Range, ...]]] = {}

    # -------------------------------------------------------------------------------- expressions

    def expr(self, node: PrimExpr) -> Eval:
        """Return a closure that computes the value of an expression."""
        if isinstance(node, Var):
            return lambda env: env[node]
        if isinstance(node, (IntImm, e.FloatImm)):
            if node.dtype.is_int and node.dtype.bits >= 32:
                number = node.value
                return lambda _: number
            value = _typed(node.dtype, node.value)
            return lambda _: value
        if isinstance(node, e.BufferLoad):
            return self._load(node)
        if isinstance(node, (e.And, e.Or)):
            a, b = self.expr(node.a), self.expr(node.b)
            if isinstance(node, e.And):
                return lambda env: bool(a(env)) and bool(b(env))
            return lambda env: bool(a(env)) or bool(b(env))
        if isinstance(node, e.CmpOp):
            a, b, compare = self.expr(node.a), self.expr(node.b), _COMPARE[type(node)]
            return lambda env: compare(a(env), b(env))
        if isinstance(node, e.BinaryOp):
            return self._arithmetic(node)
        if isinstance(node, e.Not):
            inner = self.expr(node.a)
            return lambda env: not inner(env)
        if isinstance(node, e.Cast):
            inner, dtype = self.expr(node.value), node.dtype
            return lambda env: _typed(dtype, inner(env))
        if isinstance(node, e.Select):
            return self._choice(node.condition, node.true_value, node.false_value)
        if isinstance(node, e.Let):
            var, value, body = node.var, self.expr(node.value), self.expr(node.body)
            return lambda env: body({**env, var: value(env)})
        if is_across_lanes(node):
            return self._across_lanes(node, 0)
        if isinstance(node, e.Call):
            return self._call(node)
        if isinstance(node, e.Shuffle) and is_across_lanes(node.vectors[0]):
            lane = node.indices[0]
            assert isinstance(lane, IntImm)
            return self._across_lanes(node.vectors[0], lane.value)
        raise InterpreterError(f"the interpreter has no scalar meaning for `{node}`")

    def _arithmetic(self, node: e.BinaryOp) -> Eval:
        a, b, dtype = self.expr(node.a), self.expr(node.b), node.dtype
        apply = _ARITHMETIC.get(type(node)) or _division(type(node), dtype)
        if dtype.is_int and dtype.bits >= 32:
            return lambda env: _wrapped(dtype, apply(a(env), b(env)))
        return lambda env: _typed(dtype, apply(a(env), b(env)))

    def _choice(self, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> Eval:
        c, t, f = self.expr(condition), self.expr(yes), self.expr(no)
        return lambda env: t(env) if c(env) else f(env)

    def _across_lanes(self, node: PrimExpr, lane: int) -> Eval:
        assert isinstance(node, e.Call)
        needed, compute = lane_of_call(node, lane)
        parts = [self.expr(lane_of(operand, k)) for operand, k in needed]
        return lambda env: compute([part(env) for part in parts])

    def _call(self, node: e.Call) -> Eval:
        if isinstance(node.op, e.GlobalVar):
            raise InterpreterError(f"a call of {node.op.name} is not an expression with a value")
        name, dtype = node.op.short_name, node.dtype
        if name == "if_then_else":
            return self._choice(*node.args)
        if name == "likely":
            return self.expr(node.args[0])
        if name in _UNARY:
            one, arg = _UNARY[name], self.expr(node.args[0])
            return lambda env: _typed(dtype, one(arg(env)))
        if name in _BINARY:
            two = _BINARY[name]
            a, b = self.expr(node.args[0]), self.expr(node.args[1])
            return lambda env: _typed(dtype, two(a(env), b(env)))
        if name == "fma":
            a, b, c = (self.expr(arg) for arg in node.args)
            return lambda env: _typed(dtype, a(env) * b(env) + c(env))
        if name == "isnan":
            arg = self.expr(node.args[0])
            return lambda env: bool(arg(env) != arg(env))
        if name == "bitwise_not":
            arg = self.expr(node.args[0])
            return lambda env: _typed(dtype, ~int(arg(env)))
        if node.args and isinstance(node.args[0], e.StringImm):
            name = f"{name} of {node.args[0].value}"
        raise InterpreterError(f"the interpreter does not know the intrinsic {name}")

    # ------------------------------------------------------------------------------------ accesses

    def _place(
        self, buffer: Buffer, indices: Sequence[PrimExpr], node: Any
    ) -> Callable[[Env], tuple[NDArray[Any], tuple[int, ...]]]:
        """Return a closure that gives the array and the checked position of an access."""
        parts = [self.expr(i) for i in indices]
        view = self._views.get(buffer)
        if view is not None:
            outer, region = view
            starts = [self.expr(r.min) for r in region]
            surplus = len(region) - len(parts)
            data = outer.data

            def through_view(env: Env) -> tuple[NDArray[Any], tuple[int, ...]]:
                inner = [0] * surplus + [int(p(env)) for p in parts]
                position = tuple(int(m(env)) + i for m, i in zip(starts, inner, strict=True))
                array = env[data]
                return array, _checked(outer, array, position, node)

            return through_view
        data = buffer.data

        def direct(env: Env) -> tuple[NDArray[Any], tuple[int, ...]]:
            array = env[data]
            if array.ndim != len(parts) == 1:  # flat access to memory declared with a shape
                array = array.reshape(-1)
            return array, _checked(buffer, array, tuple([int(p(env)) for p in parts]), node)

        return direct

    def _load(self, node: e.BufferLoad) -> Eval:
        place = self._place(node.buffer, node.indices, node)
        integral = node.dtype.is_int and node.dtype.bits >= 32
        is_bfloat16 = node.dtype == "bfloat16"
        predicate = None if node.predicate is None else self.expr(node.predicate)

        def load(env: Env) -> Any:
            if predicate is not None and not predicate(env):
                return 0
            array, position = place(env)
            value = array[position]
            if is_bfloat16:
                return _from_bfloat16(value)
            return int(value) if integral else value

        return load

    # ---------------------------------------------------------------------------------- statements

    def stmt(self, node: s.Stmt) -> Run:
        """Return a closure that runs a statement."""
        if isinstance(node, s.BufferStore):
            return self._store(node)
        if isinstance(node, s.For):
            return self._for(node)
        if isinstance(node, s.SeqStmt):
            parts = [self.stmt(child) for child in node.seq]

            def run_all(env: Env) -> None:
                for part in parts:
                    part(env)

            return run_all
        if isinstance(node, s.BlockRealize):
            return self._block(node)
        if isinstance(node, s.IfThenElse):
            condition, yes = self.expr(node.condition), self.stmt(node.then_case)
            no = None if node.else_case is None else self.stmt(node.else_case)

            def branch(env: Env) -> None:
                if condition(env):
                    yes(env)
                elif no is not None:
                    no(env)

            return branch
        if isinstance(node, s.LetStmt):
            var, value, body = node.var, self.expr(node.value), self.stmt(node.body)
            return lambda env: body({**env, var: value(env)})
        if isinstance(node, s.While):
            condition, body = self.expr(node.condition), self.stmt(node.body)

            def repeat(env: Env) -> None:
                while condition(env):
                    body(env)

            return repeat
        if isinstance(node, s.AssertStmt):
            return self._assert(node)
        if isinstance(node, s.Evaluate):
            return self._evaluate(node)
        if isinstance(node, (s.AttrStmt, s.DeclBuffer)):
            return self.stmt(node.body)
        if isinstance(node, (s.Allocate, s.AllocateConst)):
            return self._allocate(node)
        raise InterpreterError(f"the interpreter does not know {type(node).__name__}")

    def _store(self, node: s.BufferStore) -> Run:
        lanes = max(node.value.dtype.lanes, *(i.dtype.lanes for i in node.indices), 1)
        if lanes > 1:
            return self._store_vector(node, lanes)
        place = self._place(node.buffer, node.indices, node)
        value = self.expr(node.value)
        is_bfloat16 = node.buffer.dtype == "bfloat16"
        predicate = None if node.predicate is None else self.expr(node.predicate)

        def store(env: Env) -> None:
            if predicate is not None and not predicate(env):
                return
            stored = value(env)
            array, position = place(env)
            array[position] = _to_bfloat16(stored) if is_bfloat16 else stored

        return store

    def _store_vector(self, node: s.BufferStore, lanes: int) -> Run:
        """Store lane by lane, once the values of all lanes are known."""
        held = [Var(f"lane{k}", node.value.dtype.with_lanes(1)) for k in range(lanes)]
        values = [self.expr(lane_of(node.value, k)) for k in range(lanes)]
        stores = [
            self._store(
                s.BufferStore(
                    node.buffer,
                    held[k],
                    lane_indices(node.buffer, node.indices, k),
                    None if node.predicate is None else lane_of(node.predicate, k),
                )
            )
            for k in range(lanes)
        ]

        def store(env: Env) -> None:
            inner = {**env, **{var: value(env) for var, value in zip(held, values, strict=True)}}
            for one in stores:
                one(inner)

        return store

    def _for(self, node: s.For) -> Run:
        var, body = node.loop_var, self.stmt(node.body)
        low, extent = self.expr(node.min), self.expr(node.extent)

        def loop(env: Env) -> None:
            start = int(low(env))
            for value in range(start, start + int(extent(env))):
                env[var] = value
                body(env)

        return loop

    def _assert(self, node: s.AssertStmt) -> Run:
        condition, body = self.expr(node.condition), self.stmt(node.body)
        message = str(node.message)

        def check(env: Env) -> None:
            if not condition(env):
                raise InterpreterError(f"assertion failed: {message}")
            body(env)

        return check

    def _evaluate(self, node: s.Evaluate) -> Run:
        value = node.value
        if isinstance(value, e.Call) and isinstance(value.op, e.GlobalVar):
            return self._call_function(value.op.name, value.args)
        if isinstance(value, e.Call) and getattr(value.op, "short_name", "") == "assume":
            return lambda _: None
        if isinstance(value, IntImm):
            return lambda _: None
        run = self.expr(value)

        def evaluate(env: Env) -> None:
            run(env)

        return evaluate

    def _call_function(self, name: str, args: Sequence[PrimExpr]) -> Run:
        if self._module is None:
            raise InterpreterError(f"{name} is called, but the function is in no module")
        func = self._module[name]
        values = [self.expr(a) for a in args]
        body = self.stmt(func.body)

        def call(env: Env) -> None:
            inner: Env = {}
            for param, value in zip(func.params, values, strict=True):
                buffer = func.buffer_map.get(param)
                if buffer is None:
                    inner[param] = value(env)
                else:
                    _bind_buffer(buffer, value(env), inner)
            body(inner)

        return call

    def _allocate(self, node: s.Allocate | s.AllocateConst) -> Run:
        var, body, dtype = node.buffer_var, self.stmt(node.body), node.dtype
        if isinstance(node, s.AllocateConst):
            data = node.data
            return lambda env: body({**env, var: data})
        extents = [self.expr(n) for n in node.extents]
        return lambda env: body({**env, var: _fresh([int(n(env)) for n in extents], dtype)})

    def _block(self, node: s.BlockRealize) -> Run:
        block = node.block
        axes = [
            (axis.var, self.expr(value))
            for axis, value in zip(block.iter_vars, node.iter_values, strict=True)
        ]
        predicate = None if is_const_int(node.predicate, 1) else self.expr(node.predicate)
        for view in block.match_buffers:
            self._views[view.buffer] = (view.source.buffer, view.source.region)
        allocated = [
            (b.data, [self.expr(n) for n in b.shape], b.dtype) for b in block.alloc_buffers
        ]
        init = None if block.init is None else self.stmt(block.init)
        firsts = [
            (axis.var, self.expr(axis.dom.min))
            for axis in block.iter_vars
            if axis.iter_type == IterVar.COMM_REDUCE and axis.dom is not None
        ]
        body = self.stmt(block.body)

        def run(env: Env) -> None:
            if predicate is not None and not predicate(env):
                return
            values = [(var, int(value(env))) for var, value in axes]
            env.update(values)
            for data, shape, dtype in allocated:
                env[data] = _fresh([int(n(env)) for n in shape], dtype)
            if init is not None and all(env[var] == first(env) for var, first in firsts):
                init(env)
            body(env)

        return run


def _division(kind: type, dtype: DataType) -> Callable[[Any, Any], Any]:
    if kind is e.Div and dtype.is_floating:
        return lambda a, b: np.divide(a, b)
    if kind is e.FloorDiv:
        return lambda a, b: a // b
    if kind is e.FloorMod:
        return lambda a, b: a % b
    if kind is e.Div:
        return lambda a, b: int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b))
    return lambda a, b: int(math.copysign(1, a)) * (abs(a) % abs(b))


def _wrapped(dtype: DataType, value: int) -> int:
    half = 1 << (dtype.bits - 1)
    return value if -half <= value < half else (value + half) % (2 * half) - half


def _typed(dtype: DataType, value: Any) -> Any:
    """Return a number rounded or wrapped to a dtype."""
    if dtype.is_bool:
        return bool(value)
    if dtype.is_int and dtype.bits >= 32:
        return _wrapped(dtype, int(value))
    if dtype.is_integral:
        kind = dtype.to_numpy().type
        return (
            kind(int(value) & ((1 << dtype.bits) - 1))
            if dtype.is_uint
            else np.array(int(value)).astype(kind)[()]
        )
    if dtype.is_float:
        return dtype.to_numpy().type(value)
    if dtype == "bfloat16":
        return _from_bfloat16(_to_bfloat16(value))
    raise InterpreterError(f"the interpreter computes no {dtype}")


def _to_bfloat16(value: Any) -> np.uint16:
    """Return the bits of a number rounded to bfloat16, ties to even."""
    bits = int(np.float32(value).view(np.uint32))
    if math.isnan(value):
        return np.uint16((bits >> 16) | 0x40)
    return np.uint16((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)


def _from_bfloat16(bits: Any) -> np.float32:
    return np.uint32(int(bits) << 16).view(np.float32)


def _fresh(shape: list[int], dtype: DataType) -> NDArray[Any]:
    """Return memory whose contents nobody has written."""
    kind = dtype.to_numpy()
    if dtype.is_float:
        return np.full(shape, np.nan, kind)
    if dtype == "bfloat16":
        return np.full(shape, _to_bfloat16(math.nan), kind)
    return np.full(shape, 1 if dtype.is_bool else 77, kind)


def _checked(
    buffer: Buffer, array: NDArray[Any], position: tuple[int, ...], node: Any
) -> tuple[int, ...]:
    for dim, (index, size) in enumerate(zip(position, array.shape, strict=True)):
        if not 0 <= index < size:
            raise InterpreterError(
                f"access to {buffer.name} out of bounds: index {index} of dimension {dim} is not "
                f"in [0, {size}), in `{node}`"
            )
    return position


def random_arguments(func: PrimFunc, seed: int = 0) -> list[NDArray[Any]]:
    """Return arrays of the shapes and dtypes that a function takes, filled at random.

    Floats lie in [1, 2), integers in [1, 8). Raises IRValueError for a shape that is not constant.
    """
    rng = np.random.default_rng(seed)
    arrays: list[NDArray[Any]] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None or not all(isinstance(n, IntImm) for n in buffer.shape):
            raise IRValueError(f"parameter {param.name} is no buffer of constant shape")
        shape = [int(n) for n in buffer.shape]  # type: ignore[call-overload]
        kind = buffer.dtype.to_numpy()
        values = rng.uniform(1, 2, shape) if buffer.dtype.is_float else rng.integers(1, 8, shape)
        arrays.append(np.asarray(values).astype(kind))
    return arrays


__all__ = ["InterpreterError", "interpret", "random_arguments"]
