"""Struct infos from annotations of graph functions, such as `R.Tensor((1, "n"), "float32")`."""

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
from tensorir.rewriting.visit import rewrite, walk
from tensorir.script.declarations import DtypeForm, dtype_text
from tensorir.script.records import BufferRecord


class QuotedSize(Var):
    """A size in quotes, a variable whose name is the quoted text.

    The reader of the function replaces it by an expression.
    """

    __slots__ = ()


def unquoted(info: StructInfo, size_of: Callable[[str], PrimExpr]) -> StructInfo:
    """Return a struct info with sizes in quotes replaced by the results of `size_of`."""
    return rewrite(info, {QuotedSize: lambda node: size_of(node.name)})


def quoted_sizes(node: Node) -> list[str]:
    """Return the texts of the sizes in quotes inside a node."""
    return [part.name for part in walk(node) if type(part) is QuotedSize]


def struct_info_of(annotation: Any) -> StructInfo:
    """Return the struct info of an annotation. Raises IRTypeError for another value.

    `R.Tensor` without parentheses is a tensor of unknown shape and dtype.
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
    """Describe an array in memory; the shape of `R.Tensor("float32")` is unknown."""
    del vdevice
    if isinstance(shape, str) and dtype is None:
        shape, dtype = None, shape
    if shape is not None and not isinstance(shape, (tuple, list)):
        raise IRTypeError(f"the shape of a tensor must be a tuple of sizes, not {shape!r}")
    return TensorStructInfo(
        None if shape is None else sizes(shape), dtype_text(dtype) if dtype else None, ndim
    )


def shape(values: Any = None, ndim: int = UNKNOWN_NDIM) -> ShapeStructInfo:
    """Describe a shape as a value."""
    return ShapeStructInfo(None if values is None else sizes(values), ndim)


def prim(dtype: Any = None, value: Any = None) -> PrimStructInfo:
    """Describe a scalar that is passed to tensor functions as a scalar."""
    if value is not None:
        (known,) = sizes([value])
        return PrimStructInfo(PrimValue(known).value)
    if dtype is None:
        raise IRTypeError('R.Prim needs a dtype or a value: R.Prim("int64"), R.Prim(value="n")')
    return PrimStructInfo(dtype_text(dtype))


def tuple_of(*fields: Any) -> TupleStructInfo:
    """Describe several values as one."""
    if len(fields) == 1 and isinstance(fields[0], (list, tuple)):
        fields = tuple(fields[0])
    return TupleStructInfo(struct_info_of(field) for field in fields)


def function(params: Any = None, ret: Any = None, purity: bool | None = None) -> FuncStructInfo:
    """Describe a function; without `params`, it accepts any arguments."""
    result = OBJECT if ret is None else struct_info_of(ret)
    if params is None:
        return FuncStructInfo.opaque_func(ret=result, purity=bool(purity))
    given = params if isinstance(params, (tuple, list)) else [params]
    return FuncStructInfo([struct_info_of(p) for p in given], result, purity is not False)


def object_() -> StructInfo:
    """Describe any value."""
    return OBJECT


def sizes(values: Iterable[Any]) -> Sequence[PrimExpr | int]:
    """Return the sizes of a shape; sizes in quotes become `QuotedSize`s."""
    return [QuotedSize(v.strip(), INT64) if isinstance(v, str) else v for v in values]
