"""Whether pieces of iterators are independent and complete."""

from __future__ import annotations

from collections.abc import Iterable

from tensorir.arith.iter_expr import (
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    NotAffineError,
)
from tensorir.arith.iter_fuse import FusedSum
from tensorir.arith.iter_padding import Padding
from tensorir.arith.iter_rewrite import IterRewriter
from tensorir.arith.scalar import Scalar, ScalarMath

Uses = dict[IterMark, list[IterSplitExpr]]


def check_independent(
    sums: Iterable[IterSumExpr], rewriter: IterRewriter, level: IterMapLevel
) -> Uses:
    """Check that the pieces in `sums` do not share anything, and return them by iterator.

    Bijective: the pieces of each iterator make it up exactly, all of the domain is used, and so is
    every constrained sum. Otherwise pieces may be left out if the sizes divide.
    Raises NotAffineError.
    """
    uses = collect_pieces(sums)
    math = rewriter.math
    exact = level is IterMapLevel.BIJECTIVE
    for mark, pieces in uses.items():
        first = pieces[0]
        if (
            len(pieces) == 1
            and first.extent is mark.extent
            and type(first.lower_factor) is int
            and first.lower_factor == 1
            and rewriter.padder.of(mark) is None
        ):
            continue
        reached = _reached(pieces, exact, math)
        padding = rewriter.padder.of(mark)
        if padding is None:
            fits = math.equal(reached, mark.extent) if exact else math.divides(reached, mark.extent)
            if not fits:
                raise NotAffineError("the pieces of an iterator do not make up its extent", mark)
        elif level is IterMapLevel.SURJECTIVE:
            _check_padded(padding, mark, pieces, reached, math)
    if exact:
        _check_complete(rewriter, uses)
    return uses


def collect_pieces(sums: Iterable[IterSumExpr]) -> Uses:
    """Return the pieces used of each iterator, also of those inside fused ones."""
    uses: Uses = {}
    pending = [split for value in sums for split in value.args]
    while pending:
        inner: list[IterSplitExpr] = []
        for split in pending:
            mark = split.source
            known = uses.get(mark)
            if known is not None:
                known.append(split)
                continue
            uses[mark] = [split]
            if isinstance(mark.source, IterSumExpr):
                inner.extend(mark.source.args)
        pending = inner
    return uses


def ignored_bounds(rewriter: IterRewriter, uses: Uses) -> list[FusedSum]:
    """Return the constrained sums of which parts are used, but not the whole."""
    return [
        group
        for group in rewriter.fuser.groups
        if group.mark not in uses and any(_touches(s.source, uses) for s in group.flat)
    ]


def _touches(mark: IterMark, uses: Uses) -> bool:
    if mark in uses:
        return True
    source = mark.source
    return isinstance(source, IterSumExpr) and any(_touches(s.source, uses) for s in source.args)


def _reached(pieces: list[IterSplitExpr], exact: bool, math: ScalarMath) -> Scalar:
    """Return the product of the pieces' extents and of the gaps between them."""
    reached: Scalar = 1
    left = list(pieces)
    while left:
        piece = _next(left, reached, math)
        if piece is None and not exact:
            piece = _next_after_gap(left, reached, math)
        if piece is None:
            raise NotAffineError("pieces of an iterator overlap or leave a gap", pieces[0].source)
        left.remove(piece)
        reached = math.tidy(piece.lower_factor * piece.extent)
    return reached


def _next(pieces: list[IterSplitExpr], reached: Scalar, math: ScalarMath) -> IterSplitExpr | None:
    found: IterSplitExpr | None = None
    for piece in pieces:
        if math.equal(piece.lower_factor, reached):
            if type(piece.extent) is int and piece.extent == 1:
                return piece
            found = found or piece
    return found


def _next_after_gap(
    pieces: list[IterSplitExpr], reached: Scalar, math: ScalarMath
) -> IterSplitExpr | None:
    found: IterSplitExpr | None = None
    for piece in pieces:
        if math.divides(reached, piece.lower_factor) and (
            found is None or math.divides(piece.lower_factor, found.lower_factor)
        ):
            found = piece
    return found


def _check_padded(
    padding: Padding, mark: IterMark, pieces: list[IterSplitExpr], reached: Scalar, math: ScalarMath
) -> None:
    """Check that pieces of a padded iterator take all their values outside the padding too."""
    if not math.equal(reached, mark.extent):
        if not math.divides(reached, mark.extent) or math.less(padding.mark.extent, reached):
            raise NotAffineError("pieces of a padded iterator need values that do not occur", mark)
        return
    if len(pieces) != 1:
        raise NotAffineError("a padded iterator is divided completely", mark)
    lower = pieces[0].lower_factor
    after = mark.extent - padding.left - padding.mark.extent
    if math.at_least(padding.left, lower) or math.at_least(after, lower):
        raise NotAffineError("a piece of a padded iterator needs values that do not occur", mark)


def _check_complete(rewriter: IterRewriter, uses: Uses) -> None:
    for var, values in rewriter.domain.items():
        if rewriter.math.equal(values.extent, 1) or _is_unit(values.extent):
            continue
        split = rewriter.iterator(var)
        if split is None or split.source not in uses:
            raise NotAffineError("an iterator is not used", var)
    for group in rewriter.fuser.groups:
        if group.mark not in uses:
            raise NotAffineError("a predicate constrains iterators that no index has together")


def _is_unit(extent: object) -> bool:
    return getattr(extent, "value", None) == 1
