"""Struct infos read from the annotations of a graph function: `R.Tensor((1, "n"), "float32")`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tensorir.errors import IRTypeError
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.relax.expr import PrimValue
from tensorir.relax.struct_info import (
    OBJECT,
    UNKNOWN_NDIM,
    VOID,
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tensorir.rewriting.visit import Rewriter, walk
from tensorir.script.declarations import DtypeForm, dtype_text
from tensorir.script.records import BufferRecord


class QuotedSize(Var):
    """A size in quotes, until the function that it stands in gives it a meaning.

    Its name is the text, which may be an expression.
    """

    __slots__ = ()


class _Unquoted(Rewriter):
    """Puts what `size_of` returns for a text in the place of each size in quotes."""

    def __init__(self, size_of: Callable[[str], PrimExpr]) -> None:
        self._size_of = size_of

    def rewrite_QuotedSize(self, node: QuotedSize) -> PrimExpr:  # noqa: N802
        """Return the size that a text in quotes stands for."""
        return self._size_of(node.name)


def unquoted(info: StructInfo, size_of: Callable[[str], PrimExpr]) -> StructInfo:
    """Return a struct info with what `size_of` returns in the place of sizes in quotes."""
    return _Unquoted(size_of)(info)


def quoted_sizes(node: Node) -> list[str]:
    """Return the texts of the sizes in quotes that are left in something."""
    return [part.name for part in walk(node) if type(part) is QuotedSize]


def struct_info_of(annotation: Any) -> StructInfo:
    """Return the struct info of an annotation; IRTypeError if it is none.

    `R.Tensor` alone, without parentheses, is a tensor of which nothing else is known.
    """
    if isinstance(annotation, StructInfo):
        return annotation
    if annotation is None:
        return VOID
    if any(annotation is form for form in (tensor, tuple_of, shape, object_, function)):
        known: StructInfo = annotation()
        return known
    if isinstance(annotation, DtypeForm):
        return PrimStructInfo(annotation.dtype)
    what = "a buffer" if isinstance(annotation, BufferRecord) else repr(annotation)
    raise IRTypeError(
        "a value of a graph function must be annotated by R.Tensor, R.Tuple, R.Shape, R.Prim, "
        f"R.Callable or R.Object, not by {what}"
    )


def tensor(
    shape: Any = None, dtype: Any = None, vdevice: Any = None, ndim: int = UNKNOWN_NDIM
) -> TensorStructInfo:
    """Describe an array in memory; `R.Tensor("float32")` is one of unknown shape."""
    del vdevice
    if isinstance(shape, str) and dtype is None:
        shape, dtype = None, shape
    if shape is not None and not isinstance(shape, (tuple, list)):
        raise IRTypeError(f"the shape of a tensor must be a tuple of sizes, not {shape!r}")
    return TensorStructInfo(
        None if shape is None else sizes(shape), dtype_text(dtype) if dtype else None, ndim
    )


def shape(values: Any = None, ndim: int = UNKNOWN_NDIM) -> ShapeStructInfo:
    """Describe a shape that is a value."""
    return ShapeStructInfo(None if values is None else sizes(values), ndim)


def prim(dtype: Any = None, value: Any = None) -> PrimStructInfo:
    """Describe a scalar that tensor functions know as such."""
    if value is not None:
        (known,) = sizes([value])
        return PrimStructInfo(PrimValue(known).value)
    if dtype is None:
        raise IRTypeError('R.Prim takes a dtype or a value: R.Prim("int64"), R.Prim(value="n")')
    return PrimStructInfo(dtype_text(dtype))


def tuple_of(*fields: Any) -> TupleStructInfo:
    """Describe several values as one."""
    if len(fields) == 1 and isinstance(fields[0], (list, tuple)):
        fields = tuple(fields[0])
    return TupleStructInfo(struct_info_of(field) for field in fields)


def function(params: Any = None, ret: Any = None, purity: bool | None = None) -> FuncStructInfo:
    """Describe a function; without parameters one that takes anything."""
    result = OBJECT if ret is None else struct_info_of(ret)
    if params is None:
        return FuncStructInfo.opaque_func(ret=result, purity=bool(purity))
    given = params if isinstance(params, (tuple, list)) else [params]
    return FuncStructInfo([struct_info_of(p) for p in given], result, purity is not False)


def object_() -> StructInfo:
    """Describe anything."""
    return OBJECT


def sizes(values: Iterable[Any]) -> Sequence[PrimExpr | int]:
    """Return the sizes of a shape; those in quotes are `QuotedSize`s."""
    return [QuotedSize(v.strip(), INT64) if isinstance(v, str) else v for v in values]
