"""The check that pieces of iterators fit together, so that their indices are independent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import IntEnum

from tensorir.arith.iter_term import (
    Group,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    NoIterMapError,
    PieceKey,
)
from tensorir.arith.size import Size, at_most, ceil_div, size_rank
from tensorir.errors import IRValueError


class IterMapLevel(IntEnum):
    """The strictness with which the pieces of an iterator must fit."""

    BIJECTIVE = 0
    """Every value of every iterator appears exactly once."""
    SURJECTIVE = 1
    """The indices are independent; parts of an iterator may be unused."""
    INJECTIVE = 2
    """Every value of every iterator appears, and iterators may be padded."""
    NO_CHECK = 3
    """Nothing is checked, and iterators may be padded."""

    @classmethod
    def of(cls, level: IterMapLevel | str) -> IterMapLevel:
        """Return the level with a name, or the level itself.

        Raises IRValueError for an unknown name.
        """
        if isinstance(level, cls):
            return level
        names = {one.name.replace("_", "").lower(): one for one in cls}
        found = names.get(str(level).replace("_", "").lower())
        if found is None:
            raise IRValueError(f"unknown level {level!r}; expected one of {', '.join(names)}")
        return found


def check_pieces_fit(
    found: Iterable[IterSumExpr], groups: Sequence[Group], level: IterMapLevel
) -> Collection[IterMark]:
    """Return the iterators in indices. Raises NoIterMapError unless their pieces fit together.

    Each of `groups` must be contained in one index, or share no variable with any index. Otherwise
    the values of one iterator depend on another, which only the injective level allows.
    """
    uses: dict[IterMark, list[IterSplitExpr]] = {}
    for value in found:
        _record_splits(value.args, uses)
    # An iterator is nested deeper than its sources, so all its pieces are recorded when it is
    # visited.
    for depth in range(max([mark.depth for mark in uses], default=0), -1, -1):
        marks = [mark for mark in uses if mark.depth == depth]
        if level is IterMapLevel.SURJECTIVE and depth and len(marks) > 1:
            _shift_remainders(marks, uses)
        for mark in marks:
            splits = uses[mark]
            if not splits:
                continue
            reached = mark.extent
            if len(splits) > 1 or mark.missing or not splits[0].is_whole:
                reached = _check_mark(mark, splits, level)
            if depth:
                _record_splits(_used_pieces(mark, reached, level), uses)
    if level is IterMapLevel.INJECTIVE or not groups:
        return uses
    met = {group for mark in uses for group in _with_inner_groups(mark.groups)}
    for group in groups:
        if group not in met and any(m in uses for s in group.terms for m in _variables(s.source)):
            raise NoIterMapError("a predicate constrains iterators that no index has together")
    return uses


def _record_splits(
    splits: Iterable[IterSplitExpr], uses: dict[IterMark, list[IterSplitExpr]]
) -> None:
    for split in splits:
        known = uses.get(split.source)
        if known is None:
            uses[split.source] = [split]
        else:
            known.append(split)


def _used_pieces(mark: IterMark, reached: Size, level: IterMapLevel) -> tuple[IterSplitExpr, ...]:
    """Return the pieces of an iterator that the indices use.

    After `reached` values the pieces repeat, so any `reached` values of the single padded piece are
    enough.
    """
    args: tuple[IterSplitExpr, ...] = mark.source.args  # type: ignore[union-attr]
    if level is not IterMapLevel.SURJECTIVE or len(args) != 1 or mark.groups:
        return args
    (piece,) = args
    repeats = piece.extent % reached == 0 or piece.reaches_top
    if not repeats or at_most(mark.extent, reached):
        return args
    return (IterSplitExpr(piece.source, piece.lower_factor, reached, piece.scale),)


def _shift_remainders(marks: Iterable[IterMark], uses: dict[IterMark, list[IterSplitExpr]]) -> None:
    """Treat `(x + a) % n` as `(x + b) % n` if the remainder then complements `(x + b) // n`.

    If one of the remainders takes all its values for each value of the quotient, so does the other.
    """
    by_piece: dict[PieceKey, list[IterMark]] = {}
    for mark in marks:
        args = mark.source.args  # type: ignore[union-attr]
        if len(args) == 1 and not mark.groups:
            by_piece.setdefault(args[0].key, []).append(mark)
    for siblings in by_piece.values():
        for mark in siblings if len(siblings) > 1 else ():
            if len(uses[mark]) != 1 or uses[mark][0].lower_factor != 1:
                continue
            split = uses[mark][0]
            for other in siblings:
                if (
                    other is not mark
                    and uses[other]
                    and all(s.lower_factor % split.extent == 0 for s in uses[other])
                ):
                    uses[other].append(IterSplitExpr(other, 1, split.extent, 1))
                    uses[mark] = []
                    break


def _with_inner_groups(groups: Iterable[Group]) -> Iterator[Group]:
    for group in groups:
        yield group
        yield from _with_inner_groups(group.inner)


def _variables(mark: IterMark) -> Iterator[IterMark]:
    """Yield the iterators of the variables in an iterator."""
    if isinstance(mark.source, IterSumExpr):
        for split in mark.source.args:
            yield from _variables(split.source)
    else:
        yield mark


def _check_mark(mark: IterMark, splits: list[IterSplitExpr], level: IterMapLevel) -> Size:
    """Return the number of values of an iterator's pieces.

    Raises NoIterMapError if they do not fit.
    """
    reached: Size = 1
    for split in sorted(splits, key=_position) if len(splits) > 1 else splits:
        skips = level is IterMapLevel.SURJECTIVE and split.lower_factor % reached == 0
        if split.lower_factor != reached and not skips:
            raise NoIterMapError("the pieces of an iterator overlap or leave a gap")
        reached = split.lower_factor * split.extent
        if reached == 0:
            raise NoIterMapError("a piece of an iterator is empty")
    if level is IterMapLevel.INJECTIVE:
        fits = at_most(mark.extent, reached) or _rounds_up(mark, splits)
    elif level is IterMapLevel.BIJECTIVE:
        fits = reached == mark.extent
    else:
        fits = not mark.padded and not mark.missing and mark.extent % reached == 0
        fits = fits or at_most(reached, mark.extent - mark.missing)
        fits = fits or (len(splits) == 1 and _takes_all_values(splits[0], mark))
    if not fits:
        raise NoIterMapError("the pieces of an iterator do not make up its extent")
    return reached


def _rounds_up(mark: IterMark, splits: Sequence[IterSplitExpr]) -> bool:
    """Return True if the outermost piece provably has the extent of a quotient rounded up.

    This is a separate proof because the general one does not find `ceil(n / d) * d >= n`.
    """
    outermost = max(splits, key=_position)
    return outermost.extent == ceil_div(mark.extent, outermost.lower_factor)


def _takes_all_values(split: IterSplitExpr, mark: IterMark) -> bool:
    """Return True if the only piece of a padded iterator takes each of its values."""
    if not at_most(mark.missing + 1, split.lower_factor):
        return False
    return at_most(split.extent, ceil_div(mark.extent, split.lower_factor))


def _position(split: IterSplitExpr) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return a key that sorts the pieces of an iterator from the innermost to the outermost."""
    return size_rank(split.lower_factor), size_rank(split.extent)
