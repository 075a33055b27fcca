"""The order of struct infos: containment, and the least upper bound of two.

Extents are compared by the integer analysis. If its answer is "unknown", a check at run time
decides.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from enum import IntEnum

from tensorir.arith import Analyzer
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.relax.struct_info import (
    OBJECT,
    UNKNOWN_NDIM,
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tensorir.rewriting.visit import collect_vars


class Fits(IntEnum):
    """The relation of two struct infos; YES if the first describes every value of the second."""

    NO = 0
    """The two describe no common value."""
    UNKNOWN = 1
    """The answer is known only at run time."""
    YES = 2


def fits(base: StructInfo, value: StructInfo, analyzer: Analyzer | None = None) -> Fits:
    """Return YES if `base` describes all values that `value` describes, or another `Fits`."""
    analyzer = Analyzer() if analyzer is None else analyzer
    if isinstance(base, ObjectStructInfo):
        return Fits.YES
    if isinstance(value, ObjectStructInfo):
        return Fits.UNKNOWN
    if isinstance(base, TensorStructInfo) and isinstance(value, TensorStructInfo):
        return _tensor_fits(base, value, analyzer)
    if isinstance(base, TupleStructInfo) and isinstance(value, TupleStructInfo):
        if len(base) != len(value):
            return Fits.NO
        return _combine_answers(
            fits(b, v, analyzer) for b, v in zip(base.elements, value.elements, strict=True)
        )
    if isinstance(base, ShapeStructInfo) and isinstance(value, ShapeStructInfo):
        rank = _known_fits(base.ndim, value.ndim, UNKNOWN_NDIM)
        return min(rank, _shape_fits(base.values, value.values, analyzer))
    if isinstance(base, PrimStructInfo) and isinstance(value, PrimStructInfo):
        if base.dtype != value.dtype:
            return Fits.NO
        if base.value is None:
            return Fits.YES
        return (
            Fits.UNKNOWN if value.value is None else _same_extent(base.value, value.value, analyzer)
        )
    if isinstance(base, FuncStructInfo) and isinstance(value, FuncStructInfo):
        return _func_fits(base, value, analyzer)
    return Fits.NO


def is_base_of(base: StructInfo, value: StructInfo) -> bool:
    """Return True if `base` provably describes all values that `value` describes."""
    return fits(base, value) is Fits.YES


def common_base(a: StructInfo, b: StructInfo) -> StructInfo:
    """Return the least struct info that contains both."""
    analyzer = Analyzer()
    if isinstance(a, TensorStructInfo) and isinstance(b, TensorStructInfo):
        dtype = a.dtype if a.dtype == b.dtype else None
        if a.shape is not None and _shape_fits(a.shape, b.shape, analyzer) is Fits.YES:
            return TensorStructInfo(a.shape, dtype)
        return TensorStructInfo(None, dtype, a.ndim if a.ndim == b.ndim else UNKNOWN_NDIM)
    if isinstance(a, TupleStructInfo) and isinstance(b, TupleStructInfo) and len(a) == len(b):
        return TupleStructInfo(
            common_base(x, y) for x, y in zip(a.elements, b.elements, strict=True)
        )
    if isinstance(a, ShapeStructInfo) and isinstance(b, ShapeStructInfo):
        if a.values is not None and _shape_fits(a.values, b.values, analyzer) is Fits.YES:
            return a
        return ShapeStructInfo(ndim=a.ndim if a.ndim == b.ndim else UNKNOWN_NDIM)
    if isinstance(a, PrimStructInfo) and isinstance(b, PrimStructInfo) and a.dtype == b.dtype:
        return a if fits(a, b, analyzer) is Fits.YES else PrimStructInfo(a.dtype)
    if isinstance(a, FuncStructInfo) and isinstance(b, FuncStructInfo):
        if fits(a, b, analyzer) is Fits.YES:
            return a
        return FuncStructInfo(None, common_base(a.ret, b.ret), a.purity and b.purity)
    return OBJECT


def known_by(info: StructInfo, sizes: Container[Var]) -> StructInfo:
    """Return a struct info that contains only these symbolic sizes.

    Parts with others become unknown.
    """
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(known_by(element, sizes) for element in info.elements)
    if all(var in sizes for var in collect_vars(info)):
        return info
    if isinstance(info, TensorStructInfo):
        return TensorStructInfo(None, info.dtype, info.ndim)
    if isinstance(info, ShapeStructInfo):
        return ShapeStructInfo(ndim=info.ndim)
    if isinstance(info, PrimStructInfo):
        return PrimStructInfo(info.dtype)
    assert isinstance(info, FuncStructInfo)
    return FuncStructInfo.opaque_func(ret=known_by(info.ret, sizes), purity=info.purity)


def _combine_answers(answers: Iterable[Fits]) -> Fits:
    return min(answers, default=Fits.YES)


def _tensor_fits(base: TensorStructInfo, value: TensorStructInfo, analyzer: Analyzer) -> Fits:
    return min(
        _known_fits(base.dtype, value.dtype, None),
        _known_fits(base.ndim, value.ndim, UNKNOWN_NDIM),
        _shape_fits(base.shape, value.shape, analyzer),
    )


def _known_fits(base: object, value: object, unknown: object) -> Fits:
    if base in (unknown, value):
        return Fits.YES
    return Fits.UNKNOWN if value == unknown else Fits.NO


def _shape_fits(
    base: tuple[PrimExpr, ...] | None, value: tuple[PrimExpr, ...] | None, analyzer: Analyzer
) -> Fits:
    if base is None:
        return Fits.YES
    if value is None:
        return Fits.UNKNOWN
    if len(base) != len(value):
        return Fits.NO
    return _combine_answers(_same_extent(b, v, analyzer) for b, v in zip(base, value, strict=True))


def _same_extent(a: PrimExpr, b: PrimExpr, analyzer: Analyzer) -> Fits:
    if analyzer.can_prove_equal(a, b):
        return Fits.YES
    return Fits.NO if analyzer.can_prove(a != b) else Fits.UNKNOWN


def _func_fits(base: FuncStructInfo, value: FuncStructInfo, analyzer: Analyzer) -> Fits:
    if base.purity and not value.purity:
        return Fits.NO
    result = fits(base.ret, value.ret, analyzer)
    if base.params is None:
        return result
    if value.params is None:
        return min(result, Fits.UNKNOWN)
    if len(base.params) != len(value.params):
        return Fits.NO
    pairs = zip(base.params, value.params, strict=True)
    return min(result, *(fits(v, b, analyzer) for b, v in pairs))
