"""Finding the expression of a number in the factors and numbers that a point decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_EXACT: Final = 1e-9


class Factors:
    """Products of neighbouring factors of tiles, and single numbers.

    `tiles` are the numbers of factors, 1 for a single number; the entries of a point are those of
    all tiles one after the other.
    """

    def __init__(self, tiles: Sequence[int]) -> None:
        self._ranges: list[tuple[int, int]] = []
        self.sites: list[int] = []
        """The tile or number that each product is of; -1 for the product 1, which comes first."""
        first = 0
        for site, size in enumerate(tiles):
            for start in range(size):
                for end in range(start + 1, size + 1):
                    # The product of all factors is the same for all points.
                    if end - start < size or size == 1:
                        self._ranges.append((first + start, first + end))
                        self.sites.append(site)
            first += size
        self.sites.insert(0, -1)
        pairs = [
            (a, b)
            for b in range(1, len(self.sites))
            for a in range(1, b)
            if self.sites[a] != self.sites[b]
        ]
        self.pairs: NDArray[np.int64] = np.array(pairs, np.int64).reshape(-1, 2)

    def products(self, entries: Array) -> Array:
        """Return an array [products, points], whose first row is 1."""
        rows = [np.ones(entries.shape[1])]
        rows += [entries[start:end].prod(0) for start, end in self._ranges]
        return np.array(rows)


@dataclass(frozen=True, slots=True)
class Expressions:
    """Numbers as `a * first * times + b * second + c` of products; most are one product only."""

    factors: Factors
    places: NDArray[np.int64]
    """The products `first`, `times` and `second` of each number [3, numbers]."""
    weights: Array
    """The weights `a`, `b` and `c` of each number [3, numbers]."""

    def at(self, entries: Array) -> Array:
        """Return the numbers [numbers, points] where points decide these entries."""
        return self.of(self.factors.products(entries))

    def of(self, products: Array) -> Array:
        """Return the numbers [numbers, points] where points have these products."""
        (first, times, second), (a, b, c) = self.places, self.weights
        result: Array = a[:, None] * products[first]
        two = np.flatnonzero(times)
        result[two] *= products[times[two]]
        more = np.flatnonzero((b != 0) | (c != 0))
        result[more] += b[more, None] * products[second[more]] + c[more, None]
        return result


def fitting(
    factors: Factors,
    numbers: Array,
    entries: Array,
    pool: Array,
    loops: NDArray[np.int64],
    first_extent: int,
) -> tuple[Expressions | None, Array]:
    """Return expressions for numbers seen where points decided `entries`.

    `loops` says for each number with which loop it moves, -1 if with none: while that loop has one
    iteration, any number will do. Extents stand at `first_extent` and after. The second result is
    for each point of the pool how many numbers it would decide: those for which expressions that
    fit so far differ there. The first is None if for some number nothing fits.
    """
    probed, pooled = factors.products(entries), factors.products(pool)
    count = len(numbers)
    found = Expressions(factors, np.zeros((3, count), np.int64), np.zeros((3, count)))
    doubt = np.zeros(pool.shape[1])
    extents: dict[int, Array] = {}
    known: dict[bytes, tuple[Expressions, Array]] = {}
    for k in range(count):
        loop = int(loops[k])
        if loop < 0:
            cares, matters = np.ones(numbers.shape[1], bool), None
        else:
            cares, matters = numbers[first_extent + loop] > 1, extents[loop] > 1
        values = numbers[k]
        if cares.any() and not values[cares].any():
            continue
        key = values.tobytes() + (b"" if loop < 0 else loop.to_bytes(4))
        if key not in known:
            fits = _fitting(factors, values, cares, probed)
            if fits is None:
                return None, doubt
            at = fits.of(pooled)
            differ = (np.abs(at - at[0]) > _EXACT * np.maximum(1, np.abs(at[0]))).any(0)
            if matters is not None:
                differ &= matters
            doubt += differ
            known[key] = fits, at[0]
        fits, at_first = known[key]
        if k >= first_extent and loop < 0:
            extents[k - first_extent] = at_first
        found.places[:, k], found.weights[:, k] = fits.places[:, 0], fits.weights[:, 0]
    return found, doubt


def _fitting(
    factors: Factors, values: Array, cares: NDArray[np.bool_], probed: Array
) -> Expressions | None:
    """Return the simplest sort of expressions that some of fit, all that fit."""
    values, probed = values[cares], probed[:, cares]
    single = np.arange(len(probed))
    if not len(values):
        # Nothing is known of it: whether it matters decides if that is a doubt.
        return _expressions(factors, single)
    tolerance = _EXACT * max(1.0, float(np.abs(values).max()))
    for one, two in ((single, 0 * single), factors.pairs.T):
        products = probed[one] * probed[two]
        a = _ratio(values, products)
        fits = np.flatnonzero((np.abs(a[:, None] * products - values) <= tolerance).all(1))
        if len(fits):
            return _expressions(factors, one[fits], two[fits], a=a[fits])
    return _sum(factors, values, probed, tolerance) if len(factors.pairs) else None


def _expressions(
    factors: Factors,
    first: NDArray[np.int64],
    times: NDArray[np.int64] | int = 0,
    second: NDArray[np.int64] | int = 0,
    a: Array | float = 1,
    b: Array | float = 0,
    c: Array | float = 0,
) -> Expressions:
    zero = np.zeros(len(first))
    places = np.array([first, times + 0 * first, second + 0 * first])
    return Expressions(factors, places, np.array([a + zero, b + zero, c + zero]))


def _ratio(values: Array, products: Array) -> Array:
    """Return the factor of each product, judged where the product is largest."""
    at = products.argmax(1)
    largest = products[np.arange(len(products)), at]
    return np.asarray(values[at] / np.where(largest == 0, 1, largest))


def _sum(factors: Factors, values: Array, probed: Array, tolerance: float) -> Expressions | None:
    """Return the windows over two tiles that fit: sums of two products and a constant."""
    one, two = factors.pairs.T
    one = np.concatenate([np.zeros(len(probed), np.int64), one])
    two = np.concatenate([np.arange(len(probed)), two])
    basis = np.stack([probed[one], probed[two], np.ones((len(one), len(values)))], axis=2)
    basis[one == 0, :, 0] = 0
    weights = np.linalg.pinv(basis) @ values
    off = np.abs(np.einsum("kpc,kc->kp", basis, weights) - values)
    fits = np.flatnonzero((off <= 1e3 * tolerance).all(1))
    # Windows move by whole elements.
    whole = np.abs(weights[fits] - np.round(weights[fits])).max(1, initial=0) < 1e-6
    fits = fits[whole]
    if not len(fits):
        return None
    a, b, c = np.round(weights[fits]).T
    return _expressions(factors, one[fits], 0, two[fits], a, b, c)
