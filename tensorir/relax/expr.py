"""The nodes of graph functions: expressions, bindings, blocks of bindings.

An expression gets its `struct_info` when it is constructed. If TVM uses one name both here and in
tensor functions, the class has another name and `tensorir.relax` exports it under TVM's name:
`GraphVar` as `relax.Var`, `GraphCall` as `relax.Call`, `StringValue` as `relax.StringImm`.

Functions are in A-normal form: the parts of an expression are *leaves*, and every other value is
bound to a variable (`tensorir.relax.verify` checks this, `BlockBuilder` ensures it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorir.errors import IRTypeError
from tensorir.nodes.dtype import INT64, DataType
from tensorir.nodes.expr import GlobalVar, PrimExpr
from tensorir.nodes.node import Node, as_attrs, body, definition, label, part, parts, value
from tensorir.nodes.ops import as_expr, const
from tensorir.relax.deferred_array import LARGE, DeferredArray
from tensorir.relax.operator import Operator
from tensorir.relax.relations import common_base
from tensorir.relax.struct_info import (
    OBJECT,
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    as_shape,
)
from tensorir.semantics.conversions import stored


def _operation(name: str, *operands: Any) -> GraphExpr:
    """Return the call of an operator; imported late, because operators depend on this module."""
    call: GraphExpr = Operator.get(name)(*operands)  # type: ignore[operator]
    return call


def _binary(name: str) -> tuple[Callable[[Any, Any], GraphExpr], Callable[[Any, Any], GraphExpr]]:
    """Return the methods of a Python operator, for a graph value on the left and on the right."""
    return (
        lambda self, other: _operation(name, self, other),
        lambda self, other: _operation(name, other, self),
    )


class GraphExpr(Node):
    """A value of a graph function; `struct_info` is its type."""

    __slots__ = ("struct_info",)
    struct_info: StructInfo

    def __array_ufunc__(self, ufunc: Any, *_: Any, **__: Any) -> NoReturn:
        """Reject NumPy's functions, because they treat the expression as a Python object."""
        raise IRTypeError(
            f"numpy.{ufunc.__name__} needs arrays, but this is a value of a graph function; call a "
            "tensor function by R.call_tir, or a library function by R.call_dps_packed"
        )

    def __getitem__(self, index: int) -> TupleGetItem:
        return TupleGetItem(self, index)

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("subtract")
    __mul__, __rmul__ = _binary("multiply")
    __truediv__, __rtruediv__ = _binary("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide")
    __mod__, __rmod__ = _binary("floor_mod")
    __pow__, __rpow__ = _binary("power")
    __matmul__ = _binary("matmul")[0]
    __lt__, __gt__ = _binary("less")[0], _binary("greater")[0]
    __le__, __ge__ = _binary("less_equal")[0], _binary("greater_equal")[0]

    def __neg__(self) -> GraphExpr:
        return _operation("negative", self)

    def astype(self, dtype: str) -> GraphExpr:
        """Return the elements converted to another dtype."""
        return _operation("astype", self, dtype)

    def __iter__(self) -> Iterator[TupleGetItem]:
        if not isinstance(self.struct_info, TupleStructInfo):
            raise IRTypeError(f"only a tuple can be unpacked, but this value is {self.struct_info}")
        return iter([TupleGetItem(self, k) for k in range(len(self.struct_info))])


def tensor_info(x: GraphExpr) -> TensorStructInfo:
    """Return the struct info of a tensor. Raises IRTypeError for other values."""
    info = x.struct_info
    if not isinstance(info, TensorStructInfo):
        raise IRTypeError(f"expected a tensor, got {info}")
    return info


class GraphVar(GraphExpr):
    """A variable of a graph function, identified by the object, not by its name."""

    fields = ("struct_info", label("name"))
    is_variable = True
    describes = True
    __slots__ = fields[1:]

    def __init__(self, name: str, struct_info: StructInfo | None = None) -> None:
        if struct_info is not None and not isinstance(struct_info, StructInfo):
            raise IRTypeError(
                f"the type of the variable {name} must be a struct info such as "
                f'R.Tensor((1, 4), "float32"), got {struct_info!r}'
            )
        self.name = name
        self.struct_info = OBJECT if struct_info is None else struct_info

    @property
    def name_hint(self) -> str:
        """The name, under TVM's field name."""
        return self.name

    def __call__(self, *args: GraphExpr) -> GraphCall:
        """Return the call of the function that the variable refers to.

        Raises IRTypeError for a variable of another type.
        """
        if not isinstance(self.struct_info, (FuncStructInfo, ObjectStructInfo)):
            raise IRTypeError(f"{self.name} is {self.struct_info}, not a function")
        return GraphCall(self, args)

    def with_struct_info(self, struct_info: StructInfo) -> GraphVar:
        """Return a fresh variable of the same kind and name."""
        return type(self)(self.name, struct_info)


class DataflowVar(GraphVar):
    """A variable that is local to its dataflow block."""

    __slots__ = ()


class ExternFunc(GraphExpr):
    """A library function, identified by its registered name."""

    fields = ("symbol",)
    __slots__ = fields

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol
        self.struct_info = FuncStructInfo.opaque_func()


class Constant(GraphExpr):
    """An array that is part of the program.

    The array is kept without a copy, as a read-only view; a `DeferredArray` is computed on access.
    `dtype` names types that NumPy lacks (`bfloat16` is stored as `uint16`).
    """

    fields = ("struct_info", "data")
    __slots__ = ("source",)

    def __init__(self, data: ArrayLike | DeferredArray, dtype: str | None = None) -> None:
        self.source: NDArray[Any] | DeferredArray
        """The array, or a deferred array.

        The shape and size of both are known without reading them.
        """
        if isinstance(data, DeferredArray):
            self.source = data
        else:
            array = np.ascontiguousarray(data).reshape(np.shape(data))
            self.source = array.view(np.ndarray)
            self.source.flags.writeable = False
        held = self.source.dtype
        kind = DataType(str(held) if dtype is None else dtype)
        if kind.to_numpy() != held:
            raise IRTypeError(
                f"a constant of {kind} must be an array of {kind.to_numpy()}, got {held}"
            )
        self.struct_info = TensorStructInfo(self.source.shape, kind)

    @staticmethod
    def made_by(
        make: Callable[[], NDArray[Any]], shape: Sequence[int], dtype: DataType
    ) -> Constant:
        """Return a constant whose elements a function computes, with the same result each time.

        Large constants are computed whenever they are read, and not kept.
        """
        later = DeferredArray(make, shape, dtype.to_numpy())
        return Constant(later if later.nbytes >= LARGE else later.read(), dtype)

    @property
    def data(self) -> NDArray[Any]:
        """The array, read-only."""
        held = self.source
        return held.read() if isinstance(held, DeferredArray) else held

    def reshaped(self, shape: Sequence[int]) -> Constant:
        """Return the same elements in another shape, without a copy."""
        source = self.source
        if not isinstance(source, DeferredArray):
            return Constant(source.reshape(shape), self._dtype())
        return Constant.made_by(lambda: source.read().reshape(shape), shape, self._dtype())

    def transposed(self, axes: Sequence[int]) -> Constant:
        """Return the elements with the axes in another order."""
        shape = [self.source.shape[axis] for axis in axes]
        return Constant.made_by(lambda: self.data.transpose(axes), shape, self._dtype())

    def _dtype(self) -> DataType:
        info = self.struct_info
        assert isinstance(info, TensorStructInfo)
        assert info.dtype is not None
        return info.dtype

    def __reduce__(self) -> tuple[type[Constant], tuple[NDArray[Any], DataType]]:
        """Pickle through the constructor, because unpickled arrays could be written to."""
        return (Constant, (self.data, self._dtype()))


class ShapeExpr(GraphExpr):
    """A shape as a value; `values` are int64 expressions."""

    fields = (parts("values"),)
    __slots__ = fields

    def __init__(self, values: Iterable[PrimExpr | int]) -> None:
        self.values = as_shape(values)
        self.struct_info = ShapeStructInfo(self.values)


class PrimValue(GraphExpr):
    """A scalar argument of a tensor function; a Python int is an int64."""

    fields = (part("value"),)
    __slots__ = fields

    def __init__(self, value: PrimExpr | int | float | bool) -> None:
        self.value = const(value, INT64) if type(value) is int else as_expr(value)
        self.struct_info = PrimStructInfo(self.value)


class StringValue(GraphExpr):
    """A string."""

    fields = ("value",)
    __slots__ = fields

    def __init__(self, value: str) -> None:
        self.value = value
        self.struct_info = OBJECT


class DataTypeValue(GraphExpr):
    """A dtype as a value."""

    fields = ("value",)
    __slots__ = fields

    def __init__(self, value: str) -> None:
        self.value = DataType(value)
        self.struct_info = OBJECT


class Tuple(GraphExpr):
    """Several values as one."""

    fields = (parts("elements"),)
    __slots__ = fields

    def __init__(self, elements: Iterable[GraphExpr]) -> None:
        self.elements = tuple(elements)
        self.struct_info = TupleStructInfo(f.struct_info for f in self.elements)

    def __len__(self) -> int:
        return len(self.elements)


class TupleGetItem(GraphExpr):
    """A field of a tuple, counted from 0. Raises IndexError beyond the last."""

    fields = (part("tuple_value"), "index")
    __slots__ = fields

    def __init__(self, tuple_value: GraphExpr, index: int) -> None:
        kind = tuple_value.struct_info
        if not isinstance(kind, TupleStructInfo):
            raise IRTypeError(f"only a tuple has fields, but this value is {kind}")
        if not 0 <= index < len(kind):
            raise IndexError(f"field {index} is out of range for a tuple of {len(kind)} field(s)")
        self.tuple_value = tuple_value
        self.index = index
        self.struct_info = kind.elements[index]


Callee: TypeAlias = "Operator | GlobalVar | ExternFunc | GraphVar"


class GraphCall(GraphExpr):
    """A call of an operator, of a function of the module, of a library function, or of a value.

    `sinfo_args` are struct infos that the call states (for example the outputs of `call_tir`).
    Without `struct_info` it is inferred; a call of a function of the module must state it, because
    the name does not refer to its function (`BlockBuilder` and the parser fill it in).
    """

    fields = (
        value("op", walked=True),
        parts("args"),
        value("attrs"),
        parts("sinfo_args"),
        part("struct_info", walked=False),
    )
    __slots__ = fields[:-1]

    def __init__(
        self,
        op: Callee,
        args: Sequence[GraphExpr | GlobalVar],
        attrs: Mapping[str, Any] | None = None,
        sinfo_args: Sequence[StructInfo] = (),
        struct_info: StructInfo | None = None,
    ) -> None:
        self.op = op
        self.args = tuple(args)
        self.attrs = as_attrs(attrs)
        self.sinfo_args = tuple(sinfo_args)
        self.struct_info = self._infer() if struct_info is None else struct_info

    @staticmethod
    def rebuilt(
        op: Callee,
        args: Sequence[GraphExpr | GlobalVar],
        attrs: Mapping[str, Any],
        sinfo_args: Sequence[StructInfo],
        struct_info: StructInfo,
    ) -> GraphCall:
        """Build a call from changed parts.

        The struct info of an operator's result is inferred again. For other callees it is the
        `struct_info` of the original call.
        """
        stated = None if isinstance(op, Operator) else struct_info
        return GraphCall(op, args, attrs, sinfo_args, stated)

    def _infer(self) -> StructInfo:
        if isinstance(self.op, Operator):
            return self.op.infer(self.args, self.attrs, self.sinfo_args)  # type: ignore[arg-type]
        if self.sinfo_args:
            return self.sinfo_args[0]
        if isinstance(self.op, GraphVar) and isinstance(self.op.struct_info, FuncStructInfo):
            return self.op.struct_info.ret
        return OBJECT


class If(GraphExpr):
    """The value of one of two branches; `cond` is a bool or integer scalar tensor."""

    fields = (part("cond"), body("true_branch"), body("false_branch"))
    __slots__ = fields

    def __init__(self, cond: GraphExpr, true_branch: SeqExpr, false_branch: SeqExpr) -> None:
        self.cond = cond
        self.true_branch = true_branch
        self.false_branch = false_branch
        self.struct_info = common_base(true_branch.struct_info, false_branch.struct_info)


class VarBinding(Node):
    """`var = value`."""

    fields = (part("value"), definition("var"))
    __slots__ = fields

    def __init__(self, var: GraphVar, value: GraphExpr) -> None:
        self.var = var
        self.value = value


class MatchCast(Node):
    """`var = R.match_cast(value, struct_info)`, checked at run time.

    It defines new variables in the shape.
    """

    fields = (part("value"), part("struct_info", defines=True), definition("var"))
    __slots__ = fields

    def __init__(self, var: GraphVar, value: GraphExpr, struct_info: StructInfo) -> None:
        self.var = var
        self.value = value
        self.struct_info = struct_info


Binding: TypeAlias = VarBinding | MatchCast


class BindingBlock(Node):
    """Bindings in order."""

    fields = (parts("bindings"),)
    __slots__ = fields

    def __init__(self, bindings: Iterable[Binding]) -> None:
        self.bindings = tuple(bindings)


class DataflowBlock(BindingBlock):
    """Bindings without effects and control flow; variables other than DataflowVars are outputs."""

    __slots__ = ()


class SeqExpr(GraphExpr):
    """Blocks of bindings and their result: the body of a function or branch."""

    fields = (parts("blocks"), part("body"))
    __slots__ = fields

    def __init__(self, blocks: Iterable[BindingBlock], body: GraphExpr) -> None:
        self.blocks = tuple(blocks)
        self.body = body
        self.struct_info = body.struct_info

    @staticmethod
    def rebuilt(blocks: Iterable[BindingBlock], body: GraphExpr) -> SeqExpr:
        """Build a sequence without empty blocks; adjacent blocks of one kind are merged."""
        merged: list[BindingBlock] = []
        for block in blocks:
            if merged and type(merged[-1]) is type(block):
                merged[-1] = type(block)([*merged[-1].bindings, *block.bindings])
            elif block.bindings:
                merged.append(block)
        return SeqExpr(merged, body)

    @property
    def bindings(self) -> list[Binding]:
        """The bindings of all blocks, in order."""
        return [binding for block in self.blocks for binding in block.bindings]


LEAVES: Final = (
    GraphVar, Constant, ShapeExpr, PrimValue, StringValue, DataTypeValue, ExternFunc,
)  # fmt: skip
"""The classes that a part of a value may have in A-normal form, besides tuples of them."""


def _numbers(texts: NDArray[Any]) -> NDArray[Any]:
    """Return numbers from a script's text, with "nan" and "inf"; IRTypeError for other text."""
    try:
        return texts.astype(np.float64)
    except ValueError as problem:
        raise IRTypeError(f"expected numbers, got text: {problem}") from None


def const_of(value: ArrayLike, dtype: str | None = None) -> Constant:
    """Return the constant that `R.const` returns.

    Without a dtype, Python ints are int32, floats float32, bools bool, and NumPy's 64-bit defaults
    are narrowed to 32 bits; other arrays keep their dtype. With a dtype, numbers are converted as
    in `tensorir.semantics.conversions.stored`.
    """
    array = np.asarray(value)
    if array.dtype.kind == "U" and dtype is not None:
        array = _numbers(array)
    if dtype is not None:
        return Constant(stored(array, DataType(dtype)), dtype)
    narrow = {"int64": "int32", "float64": "float32"}.get(str(array.dtype))
    return Constant(array if narrow is None else array.astype(narrow))
