"""Finding the remainders in a linear combination again.

`x - 6 * (x // 6)` is `x % 6`, `x // 2 - 3 * (x // 6)` is `x % 6 // 2`, and `(x + 1) // 2 - x // 2`
is `x % 2`. A sum in which such groups are found is shorter to print, and its bounds are tight.
"""

from __future__ import annotations

from typing import TypeAlias

from tensorir.arith.context import Remainder
from tensorir.arith.linear import Linear, Quotient, Term

Piece: TypeAlias = Term | Remainder
Pieces: TypeAlias = list[tuple[int, Piece]]


def pieces(linear: Linear) -> Pieces:
    """Return `linear` without its constant as coefficients and pieces, in order of appearance."""
    if linear.parts is not None:
        return linear.parts  # type: ignore[no-any-return]
    left = dict(linear.terms)
    order = {term: k for k, term in enumerate(linear.terms)}
    found: list[tuple[int, int, Piece]] = []
    quotients = [t for t in linear.terms if type(t) is Quotient]
    for quotient in sorted(quotients, key=lambda q: -q.divisor):
        if quotient in left:
            _extract(quotient, left, order, found)
    for quotient in quotients:
        if quotient.divisor == 2 and quotient in left:
            _extract_half(quotient, left, order, found)
    found.extend((order[t], c, t) for t, c in left.items())
    found.sort(key=lambda item: item[0])
    linear.parts = [(c, piece) for _, c, piece in found]
    return linear.parts  # type: ignore[no-any-return]


def _extract(
    quotient: Quotient,
    left: dict[Term, int],
    order: dict[Term, int],
    found: list[tuple[int, int, Piece]],
) -> None:
    """Take the remainder that ends in `quotient` out of `left`, if there is one."""
    modulus, weight = quotient.divisor, left[quotient]
    carriers: list[tuple[int, dict[Term, int], int]] = []
    for other in left:
        if (
            type(other) is Quotient
            and other is not quotient
            and modulus % other.divisor == 0
            and other.index.key == quotient.index.key
        ):
            carriers.append((other.divisor, {other: 1}, 0))
    carriers.sort(key=lambda c: -c[0])
    carriers.append((1, quotient.index.terms, quotient.index.const))
    for divisor, terms, const in carriers:
        ratio = modulus // divisor
        if weight % ratio or const:
            continue
        scale = -weight // ratio
        if any(left.get(t, 0) != c * scale for t, c in terms.items()):
            continue
        position = min(order[t] for t in terms)
        for t in terms:
            del left[t]
        del left[quotient]
        found.append((position, scale, Remainder(quotient.index, modulus, divisor)))
        return


def _extract_half(
    above: Quotient,
    left: dict[Term, int],
    order: dict[Term, int],
    found: list[tuple[int, int, Piece]],
) -> None:
    """Take `(x + 1) // 2 - x // 2` out of `left`, if `above` is the first part of that."""
    if above.index.const != 1:
        return
    index = above.index.plus_const(-1)
    for below in left:
        if type(below) is Quotient and below.divisor == 2 and below.index.key == index.key:
            weight = left[above]
            if left[below] != -weight:
                return
            position = min(order[above], order[below])
            del left[above]
            del left[below]
            found.append((position, weight, Remainder(index, 2, 1)))
            return
