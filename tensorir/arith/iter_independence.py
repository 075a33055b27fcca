"""Whether pieces of iterators fit together, so that the indices they are in are independent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorir.arith.iter_fuse import Group
from tensorir.arith.iter_term import IterMark, IterSplitExpr, IterSumExpr, NoIterMapError
from tensorir.arith.size import Size, at_most, ceil_div, size_rank


def check_pieces_fit(
    found: Iterable[IterSumExpr], groups: Sequence[Group], strict: bool
) -> set[IterMark]:
    """Return the iterators that occur in indices; NoIterMapError unless their pieces fit together.

    With `strict` the pieces must make up every iterator, else parts may be unused.
    """
    uses: dict[IterMark, list[IterSplitExpr]] = {}
    for value in found:
        for split in value.args:
            uses.setdefault(split.source, []).append(split)
    depths = max((m.depth for m in uses), default=0)
    for depth in range(depths, -1, -1):
        for mark in [m for m in uses if m.depth == depth]:
            _check_mark(mark, uses[mark], strict)
            if isinstance(mark.source, IterSumExpr):
                for split in mark.source.args:
                    uses.setdefault(split.source, []).append(split)
    for group in groups:
        if not group.met and any(s.source in uses for s in group.terms):
            raise NoIterMapError("a predicate constrains iterators that no index has together")
    return set(uses)


def _check_mark(mark: IterMark, splits: list[IterSplitExpr], strict: bool) -> None:
    reached: Size = 1
    for split in sorted(splits, key=_position) if len(splits) > 1 else splits:
        gap = split.lower_factor != reached
        if gap and (strict or split.lower_factor % reached != 0):
            raise NoIterMapError("the pieces of an iterator overlap or leave a gap")
        reached = split.lower_factor * split.extent
    if mark.padded_extent != mark.extent or mark.missing:
        present = mark.extent - mark.missing
        fits = at_most(reached, present) or (len(splits) == 1 and _takes_all(splits[0], mark))
    elif strict:
        fits = reached == mark.extent
    else:
        fits = mark.extent % reached == 0
    if not fits:
        raise NoIterMapError("the pieces of an iterator do not make up its extent")


def _takes_all(split: IterSplitExpr, mark: IterMark) -> bool:
    """Say whether the only piece of a padded iterator takes each of its values."""
    if not at_most(mark.missing + 1, split.lower_factor):
        return False
    return at_most(split.extent, ceil_div(mark.extent, split.lower_factor))


def _position(split: IterSplitExpr) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return a key that sorts the pieces of an iterator from the innermost to the outermost."""
    return size_rank(split.lower_factor), size_rank(split.extent)
