"""The `T` namespace: everything a script may call, usable from Python as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tensorir import expr as e
from tensorir import ops
from tensorir.buffer import Buffer, BufferRegion, Range
from tensorir.dtype import DataType
from tensorir.errors import IRTypeError, IRValueError
from tensorir.expr import IntImm, IterVar, PointerType, PrimExpr, PrimType, StringImm, Var
from tensorir.index_map import IndexMap
from tensorir.intrin import Effect, Op
from tensorir.ops import as_expr, const
from tensorir.script.ranges import range_of
from tensorir.script.records import (
    ArmFrame,
    AxisRecord,
    BlockFrame,
    BlockRecord,
    BufferRecord,
    EvaluateRecord,
    FreshVar,
    FuncAttrRecord,
    IfFrame,
    InitFrame,
    LoopFrame,
    MetaVar,
    RemapRecord,
    ScopeFrame,
    make_buffer,
)
from tensorir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    DeclBuffer,
    ForKind,
    LetStmt,
    Stmt,
    While,
)

# ------------------------------------------------------------------------------------------ loops


def _range_pair(start: Any, stop: Any) -> tuple[PrimExpr, PrimExpr]:
    if stop is None:
        extent = as_expr(start)
        return const(0, extent.dtype), extent
    values = range_of(*ops.match_types(start, stop))
    return values.min, values.extent


def _loop(kind: ForKind) -> Callable[..., LoopFrame]:
    def loop(
        start: Any, stop: Any = None, *, annotations: dict[str, Any] | None = None
    ) -> LoopFrame:
        return LoopFrame([_range_pair(start, stop)], kind, annotations=annotations or {})

    loop.__doc__ = f"Iterate over `[0, start)` or `[start, stop)` with a {kind.name.lower()} loop."
    return loop


serial = _loop(ForKind.SERIAL)
parallel = _loop(ForKind.PARALLEL)
vectorized = _loop(ForKind.VECTORIZED)
unroll = _loop(ForKind.UNROLLED)


def thread_binding(
    start: Any,
    stop: Any = None,
    thread: str | None = None,
    *,
    annotations: dict[str, Any] | None = None,
) -> LoopFrame:
    """Iterate over the threads of a GPU axis."""
    if thread is None and isinstance(stop, str):
        thread, stop = stop, None
    if thread is None:
        raise IRValueError("Thread cannot be None for thread_binding")
    return LoopFrame([_range_pair(start, stop)], ForKind.THREAD_BINDING, thread, annotations or {})


def grid(*extents: Any) -> LoopFrame:
    """Iterate over a box with nested serial loops from 0."""
    return LoopFrame([_range_pair(n, None) for n in extents], is_grid=True)


# ----------------------------------------------------------------------------------------- blocks


def block(name: str = "", no_realize: bool = False) -> BlockFrame:
    """Open a block."""
    return BlockFrame(name, not no_realize)


def init() -> InitFrame:
    """Open the initialisation of a reduction block."""
    return InitFrame()


def where(predicate: Any) -> BlockRecord:
    """Say when an instance of the block runs."""
    if type(predicate) is int and predicate not in (0, 1):
        raise IRValueError(f"T.where takes a bool, got {predicate}")
    return BlockRecord("where", as_expr(bool(predicate) if type(predicate) is int else predicate))


def _regions(regions: tuple[Any, ...]) -> list[BufferRegion]:
    if len(regions) == 1 and isinstance(regions[0], (list, tuple)):
        regions = tuple(regions[0])
    return [as_region(r) for r in regions]


def as_region(value: Any) -> BufferRegion:
    """Return a region, a point of a buffer, or a whole buffer, as a region."""
    if isinstance(value, BufferRegion):
        return value
    if isinstance(value, e.BufferLoad):
        return BufferRegion.from_point(value.buffer, value.indices)
    if isinstance(value, Buffer):
        return BufferRegion.full_region(value)
    raise IRTypeError(f"expected a buffer region, got {type(value).__name__}")


def reads(*regions: Any) -> BlockRecord:
    """Declare what the block may read."""
    return BlockRecord("reads", _regions(regions))


def writes(*regions: Any) -> BlockRecord:
    """Declare what the block may write."""
    return BlockRecord("writes", _regions(regions))


def block_attr(attrs: dict[str, Any]) -> BlockRecord:
    """Annotate the block."""
    return BlockRecord("block_attr", attrs)


def func_attr(attrs: dict[str, Any]) -> FuncAttrRecord:
    """Set attributes of the function."""
    return FuncAttrRecord(attrs)


def _axis(iter_type: int) -> Callable[..., AxisRecord]:
    def axis(dom: Any, binding: Any = None, dtype: str = "int32") -> AxisRecord:
        """Call with a axis."""
        if isinstance(dom, Range):
            low, extent = dom.min, dom.extent
        elif isinstance(dom, (tuple, list)):
            low, extent = _range_pair(*dom)
        else:
            low, extent = _range_pair(dom, None)
        for bound in (low, extent):
            if not bound.dtype.is_int:
                raise IRTypeError(f"the domain of an axis is {bound.dtype}, not a signed integer")
        bound_to = None if binding is None else as_expr(binding)
        return AxisRecord(low, extent, bound_to, iter_type, dtype)

    return axis


class AxisNamespace:
    """`T.axis`: the axes of a block."""

    spatial = S = staticmethod(_axis(IterVar.DATA_PAR))
    reduce = R = staticmethod(_axis(IterVar.COMM_REDUCE))
    scan = staticmethod(_axis(IterVar.ORDERED))
    opaque = staticmethod(_axis(IterVar.OPAQUE))

    @staticmethod
    def remap(kinds: str, bindings: Sequence[Any]) -> RemapRecord:
        """Bind one axis to each loop variable: `S` data-parallel, `R` reduction."""
        for kind in kinds:
            if kind not in "SR":
                raise IRValueError(f"Unknown axis kind: {kind}")
        if len(kinds) != len(bindings):
            raise IRValueError(f"T.axis.remap got {len(kinds)} kinds for {len(bindings)} loops")
        return RemapRecord(kinds, list(bindings))


# ---------------------------------------------------------------------------------------- buffers


def _buffer_options(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
    type: str | None = None,
) -> dict[str, Any]:
    kind = type if type is not None else buffer_type
    if kind not in ("", "default", "auto"):
        raise IRValueError(f"buffer_type is 'default' or 'auto', got {kind!r}")
    return {
        "shape": shape,
        "dtype": str(dtype),
        "data": data,
        "strides": strides,
        "elem_offset": elem_offset,
        "scope": scope,
        "data_alignment": align,
        "offset_factor": offset_factor,
        "buffer_type": kind,
        "axis_separators": axis_separators,
    }


class BufferFactory:
    """`T.Buffer(shape, dtype, ...)` and the older `T.Buffer[shape, dtype]`."""

    def __call__(self, shape: Any, dtype: Any = "float32", **options: Any) -> BufferRecord:
        """Declare a buffer."""
        return BufferRecord("Buffer", None, _buffer_options(shape, dtype, **options))

    def __getitem__(self, key: Any) -> BufferRecord:
        if not isinstance(key, tuple):
            return self(key)
        if len(key) < 2 or not isinstance(key[1], str):
            return self(key)
        return self(*key)


def match_buffer(source: Any, shape: Any = None, *args: Any, **options: Any) -> BufferRecord:
    """Bind a parameter to a buffer, or view a region of one with a layout of its own."""
    if shape is None:
        if isinstance(source, BufferRegion):
            shape = [r.extent for r in source.region]
            options.setdefault("dtype", str(source.buffer.dtype))
        else:
            raise IRValueError("Shape must be specified when binding input param")
    return BufferRecord("match_buffer", source, _buffer_options(shape, *args, **options))


def alloc_buffer(shape: Any, *args: Any, **options: Any) -> BufferRecord:
    """Allocate a buffer for the duration of a block instance."""
    return BufferRecord("alloc_buffer", None, _buffer_options(shape, *args, **options))


def decl_buffer(shape: Any, *args: Any, **options: Any) -> ScopeFrame:
    """View a pointer as a buffer; without `data`, allocate the memory as well."""
    settings = _buffer_options(shape, *args, **options)

    def make(buffer: Buffer, body: Stmt) -> Stmt:
        """Call with a make."""
        declared = DeclBuffer(buffer, body)
        if settings["data"] is not None:
            return declared
        return Allocate(buffer.data, buffer.dtype, buffer.shape, ops.TRUE, declared)

    return ScopeFrame("decl_buffer", make, lambda name: make_buffer(name, **settings))


def allocate(
    extents: Sequence[Any],
    dtype: str,
    scope: str = "global",
    condition: Any = None,
    annotations: dict[str, Any] | None = None,
) -> ScopeFrame:
    """Allocate memory behind a pointer."""
    dims = [as_expr(n) for n in extents]
    holds = ops.TRUE if condition is None else as_expr(condition)

    def make(var: Var, body: Stmt) -> Stmt:
        """Call with a make."""
        return Allocate(var, dtype, dims, holds, body, annotations)

    return ScopeFrame("allocate", make, lambda name: Var(name, pointer(dtype, scope)))


def allocate_const(
    data: Any, dtype: str, extents: Sequence[Any], annotations: dict[str, Any] | None = None
) -> ScopeFrame:
    """Allocate constant memory with the given elements."""
    dims = [as_expr(n) for n in extents]
    sizes = [int(n) for n in dims]  # type: ignore[call-overload]
    array = np.asarray(data, DataType(dtype).to_numpy()).reshape(sizes)

    def make(var: Var, body: Stmt) -> Stmt:
        """Call with a make."""
        return AllocateConst(var, dtype, dims, array, body, annotations)

    return ScopeFrame("allocate_const", make, lambda name: Var(name, pointer(dtype, "global")))


def pointer(dtype: str, scope: str = "global") -> PointerType:
    """Return the type of a pointer to elements of `dtype`."""
    return PointerType(PrimType(str(dtype)), scope)


def handle(
    dtype: Any = None, storage_scope: str = "global", *, is_size_var: bool = False
) -> FreshVar:
    """Return a pointer variable, an opaque one without a dtype."""
    del is_size_var
    return FreshVar("handle" if dtype is None else pointer(str(dtype), storage_scope))


# -------------------------------------------------------------------------------------- statements


def let_stmt(value: Any, type_annotation: Any = None, *, var: Var | None = None) -> ScopeFrame:
    """Bind a variable in what follows."""
    bound = as_expr(value)

    def define(name: str) -> Var:
        """Call with a define."""
        if var is not None:
            return var
        if isinstance(type_annotation, FreshVar):
            return type_annotation.build(name)
        return Var(name, bound.dtype)

    return ScopeFrame("let", lambda v, body: LetStmt(v, bound, body), define)


def attr(node: Any, key: str, value: Any) -> ScopeFrame:
    """Set an attribute in what follows."""
    setting = as_expr(value)
    return ScopeFrame("attr", lambda _, body: AttrStmt(node, key, setting, body))


def assert_(condition: Any, message: Any) -> ScopeFrame:
    """Stop unless a condition holds."""
    holds, text = as_expr(condition), as_expr(message)
    return ScopeFrame("assert", lambda _, body: AssertStmt(holds, text, body))


def while_(condition: Any) -> ScopeFrame:
    """Repeat what follows as long as a condition holds."""
    holds = as_expr(condition)
    return ScopeFrame("while", lambda _, body: While(holds, body))


def if_(condition: Any) -> IfFrame:
    """Choose between the suites of `T.Then()` and `T.Else()`."""
    return IfFrame(as_expr(condition))


def let(var: Var, value: Any, body: Any = None) -> ScopeFrame | PrimExpr:
    """Bind a variable in what follows, or in an expression."""
    return let_stmt(value, var=var) if body is None else let_expr(body, {var: value})


def evaluate(value: Any) -> EvaluateRecord:
    """Evaluate an expression for its effect."""
    return EvaluateRecord(as_expr(value))


def meta_var(value: Any) -> MetaVar:
    """Name a Python value without a let."""
    return MetaVar(value)


# ------------------------------------------------------------------------------------- expressions


def _dtype_caster(dtype: str) -> Callable[..., Any]:
    kind = DataType(dtype)

    def cast(value: Any = None, *, is_size_var: bool = False) -> Any:
        """Call with a cast."""
        if value is None:
            return FreshVar(dtype, is_size_var)
        if isinstance(value, str) and kind.is_floating:
            return const(float(value), kind)
        if isinstance(value, (int, float)):
            return const(value, kind)
        return ops.cast(kind, value)

    cast.__name__ = dtype
    cast.__doc__ = f"Convert to {dtype}; without a value, declare a variable of it."
    cast.dtype = dtype  # type: ignore[attr-defined]
    return cast


def _raw(kind: type[e.BinaryOp]) -> Callable[[Any, Any], PrimExpr]:
    def build(a: Any, b: Any) -> PrimExpr:
        """Call with a build."""
        x, y = as_expr(a), as_expr(b)
        return kind(x, y)

    return build


def let_expr(body: Any, where: dict[Var, Any]) -> PrimExpr:
    """Bind a variable in an expression."""
    assert len(where) == 1, "T.Let binds exactly one variable"
    ((var, value),) = where.items()
    return e.Let(var, as_expr(value), as_expr(body))


def comm_reducer(combiner: Callable[..., Any], identity: Sequence[Any]) -> e.CommReducer:
    """Return a reduction from its combiner and identity elements."""
    values = [as_expr(i) for i in identity]
    lhs = [Var(f"x{k}", v.dtype) for k, v in enumerate(values)]
    rhs = [Var(f"y{k}", v.dtype) for k, v in enumerate(values)]
    result = combiner(*lhs, *rhs)
    parts = list(result) if isinstance(result, (list, tuple)) else [result]
    return e.CommReducer(lhs, rhs, [as_expr(p) for p in parts], values)


def call_intrin(dtype: str, name: str, *args: Any) -> PrimExpr:
    """Call an intrinsic by name with a result type of one's own."""
    return e.Call(dtype, Op.get(name), [as_operand(a) for a in args])


def as_operand(value: Any) -> PrimExpr:
    """Return an argument of a call; a region is loaded, a string becomes an immediate."""
    if isinstance(value, str):
        return StringImm(value)
    return as_expr(value)


def _named_call(name: str, *, dtype_first: bool) -> Callable[..., PrimExpr]:
    op = Op.get(name)

    def call(*args: Any, dtype: Any = None) -> PrimExpr:
        """Call with a call."""
        if dtype_first:
            if dtype is None:
                dtype, *rest = args
            else:
                rest = list(args)
            return e.Call(str(dtype), op, [as_operand(a) for a in rest])
        if op.result == "given" or op.arity is None:
            result = "handle" if op.result == "handle" else str(dtype or op.result)
            return e.Call(
                "int32" if result == "given" else result, op, [as_operand(a) for a in args]
            )
        return ops.intrinsic(name, *[as_operand(a) for a in args])

    call.__name__ = name
    call.__doc__ = f"Call the intrinsic {name}."
    return call


def absolute(x: Any, dtype: Any = None) -> PrimExpr:
    """Return the absolute value."""
    del dtype
    value = as_expr(x)
    if isinstance(value, (IntImm, e.FloatImm)):
        return const(abs(value.value), value.dtype)
    if value.dtype.is_uint:
        return value
    if value.dtype.is_int:
        zero = const(0, value.dtype)
        return e.Select(e.GE(value, zero), value, e.Sub(zero, value))
    return ops.intrinsic("fabs", value)


def address_of(load: Any, dtype: Any = None) -> PrimExpr:
    """Return the address of a buffer's element."""
    del dtype
    return e.Call("handle", Op.get("address_of"), [as_expr(load)])


def all_(*conditions: Any) -> PrimExpr:
    """Return the conjunction of conditions."""
    if not conditions:
        raise IRValueError("T.all takes at least one condition")
    result = as_expr(conditions[0])
    for condition in conditions[1:]:
        result = ops.logical_and(result, condition)
    return result


def any_(*conditions: Any) -> PrimExpr:
    """Return the disjunction of conditions."""
    if not conditions:
        raise IRValueError("T.any takes at least one condition")
    result = as_expr(conditions[0])
    for condition in conditions[1:]:
        result = ops.logical_or(result, condition)
    return result


_DTYPE_FIRST: Final = [
    "reinterpret",
    "call_extern",
    "call_pure_extern",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
    "vectorlow",
    "vectorhigh",
    "vectorcombine",
    "type_annotation",
    "large_uint_imm",
]
_SCALARS: Final = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "e4m3_float8",
    "e5m2_float8",
]
_RAW_OPERATORS: Final = (
    e.Add, e.Sub, e.Mul, e.Div, e.Mod, e.FloorDiv, e.FloorMod, e.Min, e.Max,
    e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE, e.And, e.Or,
)  # fmt: skip


def _table() -> dict[str, Any]:
    entries: dict[str, Any] = {
        name: _named_call(name, dtype_first=name in _DTYPE_FIRST)
        for name in Op.names()
        if Op.get(name).effect is not Effect.ARGUMENT or name == "tvm_access_ptr"
    }
    for scalar in _SCALARS:
        entries[scalar] = _dtype_caster(scalar)
        for lanes in (2, 4, 8, 16, 32, 64):
            entries[f"{scalar}x{lanes}"] = _dtype_caster(f"{scalar}x{lanes}")
    entries["bool"] = entries["boolean"] = _dtype_caster("bool")
    for kind in _RAW_OPERATORS:
        entries[kind.__name__] = _raw(kind)
    entries.update(
        serial=serial, parallel=parallel, vectorized=vectorized, unroll=unroll, grid=grid,
        thread_binding=thread_binding, block=block, sblock=block, init=init, where=where,
        reads=reads, writes=writes, block_attr=block_attr, sblock_attr=block_attr,
        func_attr=func_attr, axis=AxisNamespace(), Buffer=BufferFactory(),
        buffer_decl=BufferFactory(), match_buffer=match_buffer, alloc_buffer=alloc_buffer,
        sblock_alloc_buffer=alloc_buffer, decl_buffer=decl_buffer, allocate=allocate,
        allocate_const=allocate_const, handle=handle, LetStmt=let_stmt, attr=attr,
        Assert=assert_, While=while_, evaluate=evaluate, meta_var=meta_var, Let=let_expr,
        If=if_, Then=lambda: ArmFrame(True), Else=lambda: ArmFrame(False), let=let,
        target=lambda description, host=None: description,
        Not=lambda a: e.Not(as_expr(a)),
        Cast=lambda dtype, x: e.Cast(str(dtype), as_expr(x)),
        cast=lambda x, dtype: ops.cast(str(dtype), x),
        Select=lambda c, a, b: e.Select(as_expr(c), *ops.match_types(a, b)),
        if_then_else=lambda c, a, b, dtype=None: ops.if_then_else(c, a, b),
        Ramp=lambda b, s, n: e.Ramp(as_expr(b), as_expr(s), n),
        Broadcast=lambda v, n: e.Broadcast(as_expr(v), n),
        Shuffle=lambda vs, ix: e.Shuffle([as_expr(v) for v in vs], [as_expr(i) for i in ix]),
        BufferLoad=lambda b, ix, p=None: e.BufferLoad(b, [as_expr(i) for i in ix], p),
        Call=lambda dtype, op, args: e.Call(
            dtype, Op.get(op) if isinstance(op, str) else op, [as_operand(a) for a in args]
        ),
        min=ops.min_, max=ops.max_, floordiv=ops.floordiv, floormod=ops.floormod, div=ops.div,
        truncdiv=ops.truncdiv, truncmod=ops.truncmod, ceildiv=ops.ceildiv,
        indexdiv=ops.indexdiv, indexmod=ops.indexmod, min_value=ops.min_value,
        max_value=ops.max_value, infinity=ops.infinity, abs=absolute, fabs=absolute,
        all=all_, any=any_, address_of=address_of, comm_reducer=comm_reducer,
        call_intrin=call_intrin, shift_left=ops.shift_left, shift_right=ops.shift_right,
        bitwise_and=ops.bitwise_and, bitwise_or=ops.bitwise_or, bitwise_xor=ops.bitwise_xor,
        bitwise_not=ops.bitwise_not, index_map=IndexMap.from_func, Range=Range,
        call_packed=entries["tvm_call_packed"], call_cpacked=entries["tvm_call_cpacked"],
        var=lambda dtype="int32": FreshVar(dtype), Ptr=handle, ptr=handle, buffer_var=handle,
        iter_var=lambda v, dom, kind, tag="": IterVar(dom, v, int(kind), tag),
    )  # fmt: skip
    entries["ramp"], entries["broadcast"] = entries["Ramp"], entries["Broadcast"]
    return entries


class Namespace:
    """Names that scripts reach as attributes."""

    def __init__(self, name: str, entries: dict[str, Any]) -> None:
        self._name = name
        self._entries = entries

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_entries"][name]
        except KeyError:
            raise AttributeError(
                f"there is nothing called {self.__dict__.get('_name', '')}.{name}"
            ) from None

    def __dir__(self) -> list[str]:
        return sorted(self._entries)

    def add(self, **entries: Any) -> None:
        """Add names."""
        self._entries.update(entries)

    def __repr__(self) -> str:
        return f"<namespace {self._name}>"


T: Any = Namespace("T", _table())
I: Any = Namespace("I", {})  # noqa: E741
