"""Records that functions of the `T` namespace return in place of IR.

A call such as `T.grid(4, 4)` or `T.reads(A[0:4])` returns a record; the statement around the call
builds the IR.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tensorir.errors import IRTypeError
from tensorir.nodes.buffer import Buffer, decl_buffer
from tensorir.nodes.expr import BufferLoad, IterVar, PrimExpr, SizeVar, Type, Var
from tensorir.nodes.ops import as_expr, const
from tensorir.nodes.stmt import ForKind


@dataclass(slots=True)
class LoopFrame:
    """`for` over one range, or over several from 0 for `T.grid`."""

    ranges: list[tuple[PrimExpr, PrimExpr]]
    """Minimum and extent of each loop."""
    kind: ForKind = ForKind.SERIAL
    thread: str = ""
    annotations: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class BlockFrame:
    """`with T.block(name)`."""

    name: str
    realize: bool


@dataclass(slots=True)
class InitFrame:
    """`with T.init()`: the initialisation of a reduction block."""


@dataclass(slots=True)
class AxisRecord:
    """`v = T.axis.spatial(dom, binding)`."""

    low: PrimExpr
    extent: PrimExpr
    binding: PrimExpr | None
    iter_type: int
    dtype: str


@dataclass(slots=True)
class RemapRecord:
    """`vi, vj = T.axis.remap("SR", [i, j])`."""

    kinds: str
    bindings: list[Any]


@dataclass(slots=True)
class BlockRecord:
    """A statement about the enclosing block: `reads`, `writes`, `where` or `block_attr`."""

    what: str
    value: Any


@dataclass(slots=True)
class FuncAttrRecord:
    """`T.func_attr({...})`."""

    attrs: dict[str, Any]


@dataclass(slots=True)
class BufferRecord:
    """A buffer that a statement declares, such as `T.match_buffer` or `T.alloc_buffer`."""

    what: str
    source: Any
    options: dict[str, Any]

    def build(self, name: str) -> Buffer:
        """Return the buffer under the name that it is assigned to."""
        return make_buffer(name, **self.options)


def make_buffer(
    name: str, *, shape: Any, strides: Any = None, elem_offset: Any = None, **options: Any
) -> Buffer:
    """Return a buffer; a stride that is a string becomes a new variable of that name.

    An offset that is the Python number 0 gets the default dtype of offsets.
    """
    dims = list(shape) if isinstance(shape, (list, tuple)) else [shape]
    first = dims[0] if dims else None
    dtype = first.dtype if isinstance(first, PrimExpr) else "int32"
    known = [Var(s, dtype) if isinstance(s, str) else s for s in strides or ()]
    if type(elem_offset) is int and elem_offset == 0:
        elem_offset = const(0, dtype if dims else "int64")
    return decl_buffer(dims, strides=known, elem_offset=elem_offset, name=name, **options)


@dataclass(slots=True)
class FreshVar:
    """`n = T.int32()`: a variable that gets its name from the assignment."""

    annotation: str | Type
    is_size: bool = False

    def build(self, name: str) -> Any:
        """Return the variable."""
        return SizeVar(name, self.annotation) if self.is_size else Var(name, self.annotation)


@dataclass(slots=True)
class FreshThread(FreshVar):
    """`tx = T.env_thread("threadIdx.x")`: the index of a thread."""

    tag: str = ""

    def build(self, name: str) -> Any:
        """Return the index, which `T.launch_thread` gives its extent."""
        return IterVar(None, Var(name, self.annotation), IterVar.THREAD_INDEX, self.tag)


@dataclass(slots=True)
class LetType:
    """`T.let[...]` as an annotation: the type of a variable with a constant value."""

    annotation: Any = None


@dataclass(slots=True)
class IfFrame:
    """`with T.If(condition)`, with `T.Then()` and `T.Else()` inside."""

    condition: PrimExpr


@dataclass(slots=True)
class ArmFrame:
    """`with T.Then()` or `with T.Else()`."""

    is_then: bool


@dataclass(slots=True)
class ScopeFrame:
    """A statement around the statements after it: let, attr, assert, allocate, while, if."""

    make: Callable[..., Any]
    """Builds the statement from the object that the frame defines and the body."""
    define: Callable[[str], Any] | None = None
    """Builds the object that `as` (or an assignment) names."""


class Alias:
    """An object under a name whose value is computed by `read`, such as a scalar in a buffer."""

    __slots__ = ()

    def read(self) -> Any:
        """Return the value of the name in an expression."""
        raise NotImplementedError

    def as_expr(self) -> PrimExpr:
        """Return the value as an expression. Raises IRTypeError for another value."""
        return as_expr(self.read())


@dataclass(slots=True)
class MetaVar(Alias):
    """A Python value under a name, without a `let`."""

    value: Any

    def read(self) -> Any:
        """Return the value."""
        return self.value


@dataclass(slots=True)
class Scalar(Alias):
    """`x: T.int32`: memory for one value; an assignment is a store."""

    buffer: Buffer

    def read(self) -> Any:
        """Return the load of the value."""
        return BufferLoad(self.buffer, [const(0)])


def attributes(attrs: Any) -> dict[str, Any]:
    """Return attributes; {} for None. Raises IRTypeError for values such as types and functions."""
    if attrs is None:
        return {}
    if not isinstance(attrs, dict) or not all(isinstance(key, str) for key in attrs):
        raise IRTypeError(f"attributes must be a dict of names and values, not {attrs!r}")
    values = list(attrs.values())
    for value in values:
        if isinstance(value, dict):
            attributes(value)
        elif isinstance(value, (list, tuple)):
            values.extend(value)
        elif callable(value) or type(value).__module__.startswith("tensorir.script"):
            raise IRTypeError(f"an attribute must be a value, not {value!r}")
    return attrs
