"""Detecting that index expressions are independent pieces of a box of iterators.

For given indices over iterators, the detection finds out if each index is a piece of the iteration
space that the other indices do not use, and how many values it takes. The method rewrites each
index to pieces of iterators, fuses sums if the scale of each term is the extent of all terms below
it, and checks that the pieces of every iterator fit together. Extents, divisors and factors may be
symbolic: expressions without iterators, which are positive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tensorir.arith.analyzer import Analyzer
from tensorir.arith.coefficients import coefficients
from tensorir.arith.iter_independence import IterMapLevel
from tensorir.arith.iter_reading import Bounds, IterReader
from tensorir.arith.iter_term import (
    IterSumExpr,
    IterWriter,
    NoIterMapError,
    widest,
)
from tensorir.nodes.dtype import INT32, DataType
from tensorir.nodes.expr import Add, IntImm, Mul, PrimExpr, Var
from tensorir.nodes.index_arithmetic import holds_indices
from tensorir.nodes.ops import TRUE, as_expr, const, is_const_int


@dataclass(slots=True)
class IterMapResult:
    """The result of a detection; `indices` is empty if it failed, and `errors` has the reasons."""

    indices: tuple[IterSumExpr, ...] = ()
    errors: list[str] = field(default_factory=list)


def detect_iter_map(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Bounds],
    predicate: PrimExpr | bool = TRUE,
    check_level: IterMapLevel | str = IterMapLevel.SURJECTIVE,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> IterMapResult:
    """Rewrite indices as pieces of the iterators in `input_iters`.

    Each index of the result is a sum of at most one piece and a base. Only points where `predicate`
    holds are considered. Iterators of one value are omitted if `simplify_trivial_iterators`. Raises
    IRValueError for an unknown name of a level.
    """
    options = IterMapLevel.of(check_level), simplify_trivial_iterators
    predicate = as_expr(predicate)
    if analyzer is not None:
        return _detect(indices, input_iters, predicate, *options, analyzer)
    key = _cache_key(indices, input_iters, predicate, *options)
    known = _CACHE.get(key)
    if known is None:
        known = _detect(indices, input_iters, predicate, *options, None)
        _cache_result(key, known)
    return IterMapResult(known.indices, list(known.errors))


def _detect(
    indices: Sequence[PrimExpr],
    domain: Mapping[Var, Bounds],
    predicate: PrimExpr,
    level: IterMapLevel,
    simplify_trivial: bool,
    analyzer: Analyzer | None,
) -> IterMapResult:
    reader = IterReader(domain, level, simplify_trivial, analyzer)
    try:
        reader.constrain(predicate)
        found = reader.independent(indices)
    except NoIterMapError as error:
        return IterMapResult(errors=[str(error)])
    return IterMapResult(found)


_CACHE: Final[dict[tuple[object, ...], IterMapResult]] = {}
"""Cached results of detections that depend only on the indices.

Independent checks of many primitives detect the same maps, and most primitives change neither
bindings nor loop ranges.
"""
_CACHE_LIMIT: Final = 64
"""The maximum number of cached results; they keep old programs in memory."""


def _cache_key(
    indices: Iterable[PrimExpr], domain: Mapping[Var, Bounds], *options: object
) -> tuple[object, ...]:
    key: list[object] = [*indices, *options]
    for var, values in domain.items():
        key += var, values.min, values.extent
    return tuple(key)


def _cache_result(key: tuple[object, ...], found: IterMapResult) -> None:
    if len(_CACHE) >= _CACHE_LIMIT:
        _CACHE.clear()
    _CACHE[key] = found


def iter_map_simplify(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Bounds],
    predicate: PrimExpr | bool = TRUE,
    check_level: IterMapLevel | str = IterMapLevel.SURJECTIVE,
    analyzer: Analyzer | None = None,
    simplify_trivial_iterators: bool = True,
) -> tuple[PrimExpr, ...]:
    """Return indices in the form of their pieces; unchanged if detection fails.

    If detection fails under the predicate, it is repeated without it, except at the bijective
    level.
    """
    if all(type(i) in _TRIVIAL for i in indices) and not simplify_trivial_iterators:
        return tuple(indices)
    check_level = IterMapLevel.of(check_level)
    options = check_level, simplify_trivial_iterators
    predicate = as_expr(predicate)
    conditions = [predicate]
    if check_level is not IterMapLevel.BIJECTIVE:
        if is_const_int(predicate, 1):
            plain = _detect_plain_sums(indices, input_iters, not simplify_trivial_iterators)
            if plain is not None:
                return plain
        else:
            conditions.append(TRUE)
    for condition in conditions:
        result = detect_iter_map(indices, input_iters, condition, *options, analyzer)
        if result.indices:
            # The piece of a variable with several values is written as that variable.
            written = tuple(
                [
                    i
                    if type(i) is Var and s.args
                    else normalize_iter_map_to_expr(s, i.dtype, analyzer)
                    for s, i in zip(result.indices, indices, strict=True)
                ]
            )
            if analyzer is None:
                # The next analysis of the program will need these results.
                _cache_result(_cache_key(written, input_iters, condition, *options), result)
            return written
    return tuple(indices)


def _detect_plain_sums(
    indices: Sequence[PrimExpr], domain: Mapping[Var, Bounds], keep_unit: bool
) -> tuple[PrimExpr, ...] | None:
    """Return the result of detection for sums such as `i * 32 + j * 4 + k`, else None.

    Each variable counts from 0 to a constant and occurs once, and each scale is the product of the
    extents below it. Nearly all bindings of a scheduled program have this form: seven of them take
    5 us here and 27 us by detection, for each split of a loop around them.
    """
    seen: set[Var] = set()
    result: list[PrimExpr] = []
    for index in indices:
        scales: Mapping[Var, int] = {index: 1} if type(index) is Var else {}
        if not scales:
            total = coefficients(index)
            if total.parts or total.constant:
                return None
            scales = total.of
        terms: list[tuple[int, int, Var]] = []
        for var, scale in scales.items():
            values = domain.get(var)
            if values is None or var in seen or var.dtype is not index.dtype:
                return None
            seen.add(var)
            low, extent = values.min, values.extent
            if type(extent) is not IntImm or type(low) is not IntImm or low.value:
                return None
            if keep_unit or extent.value != 1:
                terms.append((scale, extent.value, var))
        written = index if terms and type(index) is Var else _mixed_radix_sum(terms, index.dtype)
        if written is None:
            return None
        result.append(written)
    return tuple(result)


def _mixed_radix_sum(terms: list[tuple[int, int, Var]], dtype: DataType) -> PrimExpr | None:
    """Return a sum of scaled variables, the outermost first; None if the scales leave gaps.

    Among variables with equal scales the last is the innermost, but a variable of one value
    precedes it.
    """
    terms.reverse()
    terms.sort(key=lambda term: (term[0], term[1] != 1))
    expected = 1
    for scale, extent, _ in terms:
        if scale != expected:
            return None
        expected = scale * extent
    result: PrimExpr | None = None
    for scale, _, var in reversed(terms):
        term = var if scale == 1 else Mul(var, const(scale, dtype))
        result = term if result is None else Add(result, term)
    return const(0, dtype) if result is None else result


def normalize_to_iter_sum(
    index: PrimExpr, input_iters: Mapping[Var, Bounds], analyzer: Analyzer | None = None
) -> IterSumExpr:
    """Return an index as a sum of pieces of iterators, largest scales first.

    Scales may be symbolic, and of either sign. All other parts, with their iterators, are in the
    base. The function does not check that the pieces fit together.
    """
    return IterReader(input_iters, IterMapLevel.NO_CHECK, True, analyzer).normalized(index)


def normalize_iter_map_to_expr(
    value: IterSumExpr, dtype: DataType | str = INT32, analyzer: Analyzer | None = None
) -> PrimExpr:
    """Return a sum of pieces as an expression.

    A value that was narrowed to a dtype in which its parts might wrap is summed before the cast.
    """
    wide = dtype = DataType(dtype)
    if not holds_indices(dtype):
        for split in value.args:
            wide = widest(split.source, wide)
    written = IterWriter(analyzer, wide).sum(value)
    return written if written.dtype is dtype else written.astype(dtype)


_TRIVIAL: Final = frozenset({Var, IntImm})
