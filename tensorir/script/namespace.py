"""The `T` namespace: the functions that a tensor function may call; they also work in Python."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import FunctionType, MethodType, NoneType
from typing import Any, Final

from tensorir.errors import IRTypeError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes import expr as e
from tensorir.nodes import ops
from tensorir.nodes.buffer import Range
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import FloatImm, IntImm, IterVar, StringImm
from tensorir.nodes.intrin import Op
from tensorir.nodes.ops import as_expr
from tensorir.nodes.stmt import Evaluate
from tensorir.script import calls, declarations, frames
from tensorir.script.declarations import DtypeForm, HandleForm, dtype_text
from tensorir.script.records import ArmFrame, FreshVar, IfFrame, InitFrame, MetaVar

_SCALARS: Final = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
    "float64", "bfloat16", "e4m3_float8", "e5m2_float8", "bool",
)  # fmt: skip
_SHORT: Final = {
    **{f"{kind[0]}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "bf16": "bfloat16",
}
_NAMED: Final[dict[str, tuple[type, str]]] = {
    "str": (str, "a string"),
    "dict": (dict, "a dict of names and values"),
    "None": (NoneType, "None"),
}


def _table() -> dict[str, Any]:
    entries: dict[str, Any] = {name: calls.named_call(name) for name in Op.names()}
    entries.update({scalar: DtypeForm(scalar) for scalar in _SCALARS})
    entries.update({kind.__name__: calls.raw(kind) for kind in e.BINARY_OPS})
    packed, cpacked = entries["tvm_call_packed"], entries["tvm_call_cpacked"]
    handle, let_stmt, block = HandleForm(), frames.let_stmt, frames.block
    entries.update(
        serial=frames.serial, parallel=frames.parallel, vectorized=frames.vectorized,
        unroll=frames.unroll, thread_binding=frames.thread_binding, grid=frames.grid,
        launch_thread=frames.launch_thread, env_thread=frames.env_thread,
        init=InitFrame, where=frames.where, reads=frames.reads, writes=frames.writes,
        func_attr=frames.func_attr, attr=frames.attr, meta_var=MetaVar,
        evaluate=lambda value: Evaluate(as_expr(value)),
        block=block, sblock=block, block_attr=frames.block_attr, sblock_attr=frames.block_attr,
        axis=frames.AxisNamespace(), Assert=frames.assert_, While=frames.while_,
        If=lambda condition: IfFrame(as_expr(condition)),
        Then=lambda: ArmFrame(True), Else=lambda: ArmFrame(False),
        LetStmt=let_stmt, Bind=let_stmt, bind=let_stmt, let=frames.LetForm(), Let=calls.let_expr,
        Buffer=declarations.BufferFactory(), buffer_decl=declarations.BufferFactory(),
        match_buffer=declarations.match_buffer, alloc_buffer=declarations.alloc_buffer,
        decl_buffer=declarations.decl_buffer, alloc_local=declarations.alloc_local,
        allocate=declarations.allocate, allocate_const=declarations.allocate_const,
        sblock_alloc_buffer=declarations.alloc_buffer, boolean=entries["bool"],
        handle=handle, Ptr=handle, ptr=handle, buffer_var=handle, Tuple=declarations.tuple_type,
        var=lambda dtype="int32": FreshVar(dtype_text(dtype)),
        target=lambda description, host=None: description,
        IntImm=IntImm, FloatImm=FloatImm, StringImm=StringImm, llvm_lookup_intrinsic_id=str,
        Not=lambda a: e.Not(as_expr(a)),
        Cast=lambda dtype, x: e.Cast(dtype_text(dtype), as_expr(x)),
        cast=lambda x, dtype: ops.cast(dtype_text(dtype), x),
        Select=lambda c, a, b: e.Select(as_expr(c), *ops.match_types(a, b)),
        if_then_else=lambda c, a, b, dtype=None: ops.if_then_else(c, a, b),
        Ramp=lambda b, s, n: e.Ramp(as_expr(b), as_expr(s), n),
        Broadcast=lambda v, n: e.Broadcast(as_expr(v), n),
        Shuffle=lambda vs, ix: e.Shuffle([as_expr(v) for v in vs], [as_expr(i) for i in ix]),
        BufferLoad=lambda b, ix, p=None: e.BufferLoad(b, [as_expr(i) for i in ix], p),
        Call=lambda dtype, op, args: e.Call(
            dtype, Op.get(op) if isinstance(op, str) else op, [calls.as_operand(a) for a in args]
        ),
        min=ops.min_, max=ops.max_, floordiv=ops.floordiv, floormod=ops.floormod, div=ops.div,
        truncdiv=ops.truncdiv, truncmod=ops.truncmod, ceildiv=ops.ceildiv,
        indexdiv=ops.indexdiv, indexmod=ops.indexmod, min_value=ops.min_value,
        max_value=ops.max_value, infinity=ops.infinity, abs=calls.absolute, fabs=calls.absolute,
        all=calls.all_, any=calls.any_, address_of=calls.address_of,
        comm_reducer=calls.comm_reducer, call_intrin=calls.call_intrin,
        shift_left=ops.shift_left, shift_right=ops.shift_right,
        bitwise_and=ops.bitwise_and, bitwise_or=ops.bitwise_or, bitwise_xor=ops.bitwise_xor,
        bitwise_not=ops.bitwise_not, index_map=IndexMap.from_func, Range=Range,
        call_packed=packed, call_cpacked=cpacked,
        iter_var=lambda v, dom, kind, tag="": IterVar(dom, v, int(kind), tag),
    )  # fmt: skip
    entries["ramp"], entries["broadcast"] = entries["Ramp"], entries["Broadcast"]
    entries.update({short: DtypeForm(dtype) for short, dtype in _SHORT.items()})
    return entries


def _dtype_form(name: str) -> DtypeForm | None:
    """Return `T.<dtype>` for dtypes outside the table, such as vectors."""
    try:
        return DtypeForm(DataType(name))
    except ValueError:
        return None


class Namespace:
    """A set of names that scripts read as attributes."""

    def __init__(
        self,
        name: str,
        entries: dict[str, Any],
        missing: Callable[[str], Any] = lambda _: None,
        more: Callable[[], Iterable[str]] = tuple,
        advice: str = "",
    ) -> None:
        """Build from a table.

        `missing` looks up names that are not in the table, and `more` returns those of them that
        `dir` lists. `advice` is
        appended to the error for an unknown name without similar names.
        """
        self._name = name
        self._missing = missing
        self._more = more
        self._advice = advice
        self.__dict__.update(entries)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = self._missing(name)
        if found is None:
            close = difflib.get_close_matches(name, dir(self), 1)
            hint = f"; did you mean {self._name}.{close[0]}?" if close else self._advice
            raise AttributeError(f"unknown name {self._name}.{name}{hint}")
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        return sorted({*(n for n in self.__dict__ if not n.startswith("_")), *self._more()})

    def __repr__(self) -> str:
        return f"<namespace {self._name}>"


def add_names(namespace: Namespace, **entries: Any) -> None:
    """Add names to a namespace."""
    vars(namespace).update(entries)


def check_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Raise IRTypeError if a parameter for strings or dicts gets another argument.

    The functions check their numbers and expressions themselves. A wrong string or dict would be
    stored, and fail only when the program is printed or built.
    """
    plain = function.__func__ if type(function) is MethodType else function
    if type(plain) is not FunctionType or not plain.__module__.startswith("tensorir."):
        return
    expected = _expected(plain)
    if not expected:
        return
    first = int(type(function) is MethodType)
    for name, (position, types, words) in expected.items():
        place = position - first
        if 0 <= place < len(args):
            value = args[place]
        elif name in kwargs:
            value = kwargs[name]
        else:
            continue
        if not isinstance(value, types):
            raise IRTypeError(f"`{name}` is {words}, got {type(value).__name__}")


@cache
def _expected(function: FunctionType) -> dict[str, tuple[int, tuple[type, ...], str]]:
    """Return the parameters for strings or dicts: position, types, and a description."""
    found: dict[str, tuple[int, tuple[type, ...], str]] = {}
    for place, parameter in enumerate(inspect.signature(function).parameters.values()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        parts = [part.partition("[")[0].strip() for part in str(parameter.annotation).split("|")]
        if all(part in _NAMED for part in parts):
            types, words = zip(*(_NAMED[part] for part in parts), strict=True)
            place = place if parameter.kind is not parameter.KEYWORD_ONLY else -1
            found[parameter.name] = (place, types, " or ".join(words))
    return found


T: Any = Namespace("T", _table(), _dtype_form)
I: Any = Namespace("I", {})  # noqa: E741
