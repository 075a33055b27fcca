"""Expression nodes.

The classes here are *raw* constructors: they do not simplify, and check only that operand dtypes
agree. The *smart* constructors in `tensorir.nodes.ops` match dtypes and fold constants; Python
operators on expressions (`tensorir.nodes.operators`) are smart. The base class `PrimExpr`, the
variables and the constants are defined in `tensorir.nodes.leaves`, and may be imported from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import BOOL, HANDLE, INT32, DataType
from tensorir.nodes.leaves import FloatImm as FloatImm
from tensorir.nodes.leaves import IntImm as IntImm
from tensorir.nodes.leaves import PointerType as PointerType
from tensorir.nodes.leaves import PrimExpr as PrimExpr
from tensorir.nodes.leaves import PrimType as PrimType
from tensorir.nodes.leaves import SizeVar as SizeVar
from tensorir.nodes.leaves import StringImm as StringImm
from tensorir.nodes.leaves import TupleType as TupleType
from tensorir.nodes.leaves import Type as Type
from tensorir.nodes.leaves import Var as Var
from tensorir.nodes.leaves import integer_limits as integer_limits
from tensorir.nodes.node import Node, body, buffer, definition, definitions, part, parts
from tensorir.nodes.operators import EqualOp as EqualOp
from tensorir.nodes.operators import ExprLike as ExprLike
from tensorir.nodes.operators import Operators
from tensorir.nodes.operators import smart as smart

if TYPE_CHECKING:
    from tensorir.nodes.buffer import Buffer, Range
    from tensorir.nodes.intrin import Op


# ------------------------------------------------------------------------------------- operators


class BinaryOp(PrimExpr):
    """Two operands of one dtype."""

    fields = ("dtype", part("a"), part("b"))
    __slots__ = fields[1:]
    symbol: ClassVar[str]

    def __init__(self, a: PrimExpr, b: PrimExpr) -> None:
        if a.dtype is not b.dtype:
            raise IRTypeError(f"mismatched types in {type(self).__name__}: {a.dtype} vs {b.dtype}")
        self.a = a
        self.b = b
        self.dtype = a.dtype


class Add(BinaryOp):
    """Sum."""

    __slots__ = ()
    symbol = "+"


class Sub(BinaryOp):
    """Difference."""

    __slots__ = ()
    symbol = "-"


class Mul(BinaryOp):
    """Product."""

    __slots__ = ()
    symbol = "*"


class Div(BinaryOp):
    """Quotient rounded toward zero for integers, ordinary division for floats."""

    __slots__ = ()
    symbol = "/"


class Mod(BinaryOp):
    """Remainder of `Div`; it has the sign of `a`."""

    __slots__ = ()
    symbol = "truncmod"


class FloorDiv(BinaryOp):
    """Quotient rounded toward minus infinity."""

    __slots__ = ()
    symbol = "//"


class FloorMod(BinaryOp):
    """Remainder of `FloorDiv`; it has the sign of `b`."""

    __slots__ = ()
    symbol = "%"


class Min(BinaryOp):
    """The smaller operand."""

    __slots__ = ()
    symbol = "min"


class Max(BinaryOp):
    """The larger operand."""

    __slots__ = ()
    symbol = "max"


class CmpOp(BinaryOp):
    """A comparison; the result is bool with the operands' lanes."""

    __slots__ = ()

    def __init__(self, a: PrimExpr, b: PrimExpr) -> None:
        super().__init__(a, b)
        self.dtype = BOOL if a.dtype.lanes == 1 else BOOL.with_lanes(a.dtype.lanes)


class EQ(CmpOp):
    """Equal."""

    __slots__ = ()
    symbol = "=="


class NE(CmpOp):
    """Not equal."""

    __slots__ = ()
    symbol = "!="


class LT(CmpOp):
    """Less."""

    __slots__ = ()
    symbol = "<"


class LE(CmpOp):
    """Less or equal."""

    __slots__ = ()
    symbol = "<="


class GT(CmpOp):
    """Greater."""

    __slots__ = ()
    symbol = ">"


class GE(CmpOp):
    """Greater or equal."""

    __slots__ = ()
    symbol = ">="


class LogicalOp(BinaryOp):
    """A connective of two bools."""

    __slots__ = ()

    def __init__(self, a: PrimExpr, b: PrimExpr) -> None:
        if not a.dtype.is_bool or not b.dtype.is_bool:
            raise IRTypeError(
                f"{type(self).__name__} takes bool operands, got {a.dtype} and {b.dtype}"
            )
        super().__init__(a, b)


class And(LogicalOp):
    """Both."""

    __slots__ = ()
    symbol = "and"


class Or(LogicalOp):
    """At least one."""

    __slots__ = ()
    symbol = "or"


ARITHMETIC: Final = (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max)
COMPARISONS: Final = (EQ, NE, LT, LE, GT, GE)
BINARY_OPS: Final = (*ARITHMETIC, *COMPARISONS, And, Or)


class Not(PrimExpr):
    """Negation of a bool."""

    fields = ("dtype", part("a"))
    __slots__ = fields[1:]

    def __init__(self, a: PrimExpr) -> None:
        if not a.dtype.is_bool:
            raise IRTypeError(f"Not takes a bool operand, got {a.dtype}")
        self.a = a
        self.dtype = a.dtype


class Cast(PrimExpr):
    """A value converted to another type with the same lanes."""

    fields = ("dtype", part("value"))
    __slots__ = fields[1:]

    def __init__(self, dtype: str, value: PrimExpr) -> None:
        self.dtype = DataType(dtype)
        if self.dtype.lanes != value.dtype.lanes:
            raise IRTypeError(f"Cast cannot change lanes: {value.dtype} to {self.dtype}")
        self.value = value


class Select(PrimExpr):
    """`true_value` if `condition` holds, else `false_value`; both may be evaluated."""

    fields = ("dtype", part("condition"), part("true_value"), part("false_value"))
    __slots__ = fields[1:]

    def __init__(self, condition: PrimExpr, true_value: PrimExpr, false_value: PrimExpr) -> None:
        if not condition.dtype.is_bool:
            raise IRTypeError(f"Select takes a bool condition, got {condition.dtype}")
        if true_value.dtype is not false_value.dtype:
            raise IRTypeError(
                f"mismatched types in Select: {true_value.dtype} vs {false_value.dtype}"
            )
        if condition.dtype.lanes not in (1, true_value.dtype.lanes):
            raise IRTypeError(
                f"Select condition has {condition.dtype.lanes} lanes, "
                f"its values have {true_value.dtype.lanes}"
            )
        self.condition = condition
        self.true_value = true_value
        self.false_value = false_value
        self.dtype = true_value.dtype


# --------------------------------------------------------------------------------------- vectors


class Ramp(PrimExpr):
    """The vector `base, base + stride, ..., base + (lanes - 1) * stride`."""

    fields = ("dtype", part("base"), part("stride"), "lanes")
    __slots__ = fields[1:]

    def __init__(self, base: PrimExpr, stride: PrimExpr, lanes: int) -> None:
        lanes = int(lanes)
        if base.dtype.lanes != 1 or stride.dtype.lanes != 1 or lanes < 2:
            raise IRTypeError(
                f"Ramp takes scalar base and stride and at least 2 lanes, "
                f"got {base.dtype}, {stride.dtype} and {lanes}"
            )
        if stride.dtype is not base.dtype:
            stride = smart["cast"](base.dtype, stride)
        self.base = base
        self.stride = stride
        self.lanes = lanes
        self.dtype = base.dtype.with_lanes(lanes)


class Broadcast(PrimExpr):
    """A scalar repeated in every lane."""

    fields = ("dtype", part("value"), "lanes")
    __slots__ = fields[1:]

    def __init__(self, value: PrimExpr, lanes: int) -> None:
        lanes = int(lanes)
        if value.dtype.lanes != 1 or lanes < 2:
            raise IRTypeError(
                f"Broadcast takes a scalar and at least 2 lanes, got {value.dtype} and {lanes}"
            )
        self.value = value
        self.lanes = lanes
        self.dtype = value.dtype.with_lanes(lanes)


class Shuffle(PrimExpr):
    """Lanes picked by constant `indices` from the concatenation of `vectors`."""

    fields = ("dtype", parts("vectors"), parts("indices"))
    __slots__ = fields[1:]

    def __init__(self, vectors: Sequence[PrimExpr], indices: Sequence[PrimExpr]) -> None:
        self.vectors = tuple(vectors)
        self.indices = tuple(indices)
        if not self.vectors or not self.indices:
            raise IRValueError("Shuffle takes at least one vector and one index")
        element = self.vectors[0].dtype.element
        if any(v.dtype.element is not element for v in self.vectors):
            raise IRTypeError("Shuffle takes vectors of one element type")
        self.dtype = element.with_lanes(len(self.indices))


# ------------------------------------------------------------------------- bindings, loads, calls


class Let(PrimExpr):
    """`body`, in which `var` has the value of `value`."""

    fields = ("dtype", definition("var"), part("value"), body("body"))
    __slots__ = fields[1:]

    def __init__(self, var: Var, value: PrimExpr, body: PrimExpr) -> None:
        if var.dtype is not value.dtype:
            raise IRTypeError(f"Let binds {var.name}: {var.dtype} to a value of {value.dtype}")
        self.var = var
        self.value = value
        self.body = body
        self.dtype = body.dtype


class BufferLoad(PrimExpr):
    """An element of a buffer, or a vector of elements if the last index is a vector."""

    fields = ("dtype", buffer("buffer"), parts("indices"), part("predicate", optional=True))
    __slots__ = fields[1:]

    def __init__(
        self, buffer: Buffer, indices: Sequence[PrimExpr], predicate: PrimExpr | None = None
    ) -> None:
        self.buffer = buffer
        self.indices = tuple(indices)
        self.predicate = predicate
        lanes = check_access(buffer, self.indices, predicate)
        self.dtype = buffer.dtype if lanes == 1 else buffer.dtype.with_lanes(lanes)


def check_access(buffer: Buffer, indices: tuple[PrimExpr, ...], predicate: PrimExpr | None) -> int:
    """Return the number of elements of one access.

    Raises IRValueError for a wrong number of indices, IRTypeError for an index that is not an
    integer, a vector index before the last, or a predicate with another number of lanes.
    """
    if len(indices) != len(buffer.shape):
        raise IRValueError(
            f"buffer {buffer.name} has {len(buffer.shape)} dimension(s) "
            f"but is accessed with {len(indices)} index(es)"
        )
    if not indices:
        return 1
    for index in indices:
        if not index.dtype.is_integral:
            raise IRTypeError(f"an index of buffer {buffer.name} is {index.dtype}, not an integer")
    for index in indices[:-1]:
        if index.dtype.lanes != 1:
            raise IRTypeError(f"only the last index of buffer {buffer.name} may be a vector")
    lanes = indices[-1].dtype.lanes
    if predicate is not None and (not predicate.dtype.is_bool or predicate.dtype.lanes != lanes):
        raise IRTypeError(
            f"predicate of an access to {buffer.name} is {predicate.dtype}, not {lanes} bool lanes"
        )
    return lanes * buffer.dtype.lanes


class GlobalVar(PrimExpr):
    """The name of a function in a module; compared by name."""

    fields = ("name",)
    __slots__ = fields

    def __init__(self, name: str) -> None:
        self.name = name
        self.dtype = HANDLE

    @property
    def name_hint(self) -> str:
        """The name, under TVM's field name."""
        return self.name


class Call(PrimExpr):
    """A call of an intrinsic (`op` is an `Op`) or of a function of the module (`op` is a
    `GlobalVar`).

    An argument may also be a string, a type, or a `BufferLoad` that is passed by address.
    """

    fields = ("dtype", "op", parts("args"))
    __slots__ = fields[1:]

    def __init__(self, dtype: str, op: Op | GlobalVar, args: Sequence[PrimExpr]) -> None:
        self.dtype = DataType(dtype)
        self.op = op
        self.args = tuple(args)


# ------------------------------------------------------------------------------------- reductions


class IterVar(Operators, Node):
    """An axis: a variable, its domain and its iteration type."""

    DATA_PAR: ClassVar[int] = 0
    THREAD_INDEX: ClassVar[int] = 1
    COMM_REDUCE: ClassVar[int] = 2
    ORDERED: ClassVar[int] = 3
    OPAQUE: ClassVar[int] = 4

    fields = (part("dom", optional=True), definition("var"), "iter_type", "thread_tag")
    __slots__ = fields

    def __init__(
        self, dom: Range | None, var: Var | str, iter_type: int, thread_tag: str = ""
    ) -> None:
        if isinstance(var, str):
            var = Var(var, dom.extent.dtype if dom is not None else INT32)
        self.dom = dom
        self.var = var
        self.iter_type = iter_type
        self.thread_tag = thread_tag


class CommReducer(Node):
    """An associative, commutative combination of tuples of values, with its identity element."""

    fields = (
        definitions("lhs"),
        definitions("rhs"),
        parts("result"),
        parts("identity_element"),
    )
    __slots__ = fields

    def __init__(
        self,
        lhs: Sequence[Var],
        rhs: Sequence[Var],
        result: Sequence[PrimExpr],
        identity_element: Sequence[PrimExpr],
    ) -> None:
        self.lhs = tuple(lhs)
        self.rhs = tuple(rhs)
        self.result = tuple(result)
        self.identity_element = tuple(identity_element)
        if not len(self.lhs) == len(self.rhs) == len(self.result) == len(self.identity_element):
            raise IRValueError(
                "CommReducer takes equal numbers of lhs, rhs, results and identities"
            )


class Reduce(PrimExpr):
    """A reduction in a tensor expression; never part of a finished function."""

    fields = (
        "dtype",
        part("combiner"),
        parts("source"),
        parts("axis"),
        part("condition"),
        "value_index",
        parts("init"),
    )
    __slots__ = fields[1:]

    def __init__(
        self,
        combiner: CommReducer,
        source: Sequence[PrimExpr],
        axis: Sequence[IterVar],
        condition: PrimExpr,
        value_index: int = 0,
        init: Sequence[PrimExpr] = (),
    ) -> None:
        self.combiner = combiner
        self.source = tuple(source)
        self.axis = tuple(axis)
        self.condition = condition
        self.value_index = value_index
        self.init = tuple(init)
        self.dtype = self.source[value_index].dtype
