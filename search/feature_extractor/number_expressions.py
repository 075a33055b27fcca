"""Finding expressions of the numbers of programs in the decisions of their points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_EXACT: Final = 1e-9


class Factors:
    """Products of consecutive factors of tiles, and single numbers.

    `tiles` are the numbers of factors of each tile, 1 for a single number. The entries of a point
    are the factors of all its tiles, concatenated.
    """

    def __init__(self, tiles: Sequence[int]) -> None:
        self._ranges: list[tuple[int, int]] = []
        self.knobs: list[int] = []
        """The index of the tile of each product; -1 for the product 1, which comes first."""
        first = 0
        for knob, size in enumerate(tiles):
            for start in range(size):
                for end in range(start + 1, size + 1):
                    # The product of all factors of a tile is constant.
                    if end - start < size or size == 1:
                        self._ranges.append((first + start, first + end))
                        self.knobs.append(knob)
            first += size
        self.knobs.insert(0, -1)
        pairs = [
            (a, b)
            for b in range(1, len(self.knobs))
            for a in range(1, b)
            if self.knobs[a] != self.knobs[b]
        ]
        self.pairs: NDArray[np.int64] = np.array(pairs, np.int64).reshape(-1, 2)

    def products(self, entries: Array) -> Array:
        """Return an array [products, points], whose first row is 1."""
        rows = [np.ones(entries.shape[1])]
        rows += [entries[start:end].prod(0) for start, end in self._ranges]
        return np.array(rows)


@dataclass(frozen=True, slots=True)
class Expressions:
    """Numbers as `a * first * times + b * second + c` of products; most are a single product."""

    factors: Factors
    places: NDArray[np.int64]
    """The indices of the products `first`, `times` and `second` of each number [3, numbers]."""
    weights: Array
    """The weights `a`, `b` and `c` of each number [3, numbers]."""

    def tiles(self) -> NDArray[np.int64]:
        """Return the tiles of the products `first`, `times` and `second` [3, numbers]; -1 for 1."""
        return np.array(self.factors.knobs)[self.places]

    def at(self, entries: Array) -> Array:
        """Return the numbers [numbers, points] of points with these entries."""
        return self.of(self.factors.products(entries))

    def of(self, products: Array) -> Array:
        """Return the numbers [numbers, points] of points with these products."""
        (first, times, second), (a, b, c) = self.places, self.weights
        result: Array = a[:, None] * products[first]
        two = np.flatnonzero(times)
        result[two] *= products[times[two]]
        more = np.flatnonzero((b != 0) | (c != 0))
        result[more] += b[more, None] * products[second[more]] + c[more, None]
        return result


class Fitting:
    """The expressions that agree with the numbers of all programs that were added.

    `pool` are the entries of the points that programs may come from. `loops` has for each number
    the loop whose step it is, else -1: while that loop has one iteration, the number is arbitrary.
    A step along a part of a tile depends on that tile only, if expressions of that tile fit.
    Extents are the numbers from `first_extent` on.
    """

    def __init__(
        self, factors: Factors, pool: Array, loops: NDArray[np.int64], first_extent: int
    ) -> None:
        self._factors = factors
        self._products = factors.products(pool)
        self._loops = loops
        self._first_extent = first_extent
        self._seen: list[int] = []
        self._columns: list[Array] = []
        self._groups = {int(loop): _EqualNumbers(int(loop)) for loop in np.unique(loops)}
        """Groups of numbers that were equal in all programs and have the same loop."""
        self._group_of: list[int] = loops.tolist()

    @property
    def count(self) -> int:
        """The number of numbers."""
        return len(self._group_of)

    def add(self, numbers: Array, point: int) -> None:
        """Add the numbers of the program of a point of the pool."""
        self._seen.append(point)
        self._columns.append(numbers)
        keys: dict[tuple[int, float], int] = {}
        groups: dict[int, _EqualNumbers] = {}
        for k, (group, value) in enumerate(zip(self._group_of, numbers.tolist(), strict=True)):
            key = keys.setdefault((group, value), len(keys))
            if key not in groups:
                loop = self._groups[group].loop
                matters = loop < 0 or numbers[self._first_extent + loop] > 1
                groups[key] = self._groups[group].after(k, value, point, matters)
            self._group_of[k] = key
        self._groups = groups

    def doubt(self) -> Array | None:
        """Return for each point of the pool the number of groups whose expressions differ there.

        None if no expression fits some group.
        """
        for group in self._groups.values():
            if group.at is None and not self._fit(group):
                return None
        doubt = np.zeros(self._products.shape[1])
        for group in self._groups.values():
            if group.differ is None:
                continue
            if group.loop < 0:
                doubt += group.differ
            else:
                extent = self._groups[self._group_of[self._first_extent + group.loop]]
                assert extent.at is not None
                if extent.differ is None:
                    group.prefer_tiles_of(extent)
                if group.differ is not None:
                    doubt += group.differ & (extent.at[0] > 1)
        return doubt

    def expressions(self) -> Expressions:
        """Return for each number the first expression that fits."""
        fits = [self._groups[group].fits for group in self._group_of]
        places = [each.places[:, 0] for each in fits if each is not None]
        weights = [each.weights[:, 0] for each in fits if each is not None]
        return Expressions(
            self._factors,
            np.array(places, np.int64).reshape(-1, 3).T,
            np.array(weights).reshape(-1, 3).T,
        )

    def _fit(self, group: _EqualNumbers) -> bool:
        """Find all expressions that fit a group in all added programs; False if there is none."""
        seen = np.array(self._columns)
        values = seen[:, group.member]
        cares = np.ones(len(seen), bool)
        if group.loop >= 0:
            cares = seen[:, self._first_extent + group.loop] > 1
        group.is_open = not cares.any()
        if cares.any() and not values[cares].any():
            fits: Expressions | None = _expressions(self._factors, np.zeros(1, np.int64), a=0)
        else:
            fits = _fit_expressions(self._factors, values, cares, self._products[:, self._seen])
        if fits is None:
            return False
        group.take(fits, fits.of(self._products))
        return True


class _EqualNumbers:
    """Numbers that were equal in all added programs, and the expressions that fit them."""

    __slots__ = ("at", "differ", "fits", "is_open", "loop", "member")

    def __init__(self, loop: int) -> None:
        self.member = 0
        """The index of one of the numbers."""
        self.loop = loop
        self.is_open = True
        """True if the numbers were arbitrary in all programs."""
        self.fits: Expressions | None = None
        self.at: Array | None = None
        """The values of the expressions at the points of the pool [expressions, points]; None until
        they are needed."""
        self.differ: NDArray[np.bool_] | None = None
        """True for the points where the values differ; None if they differ nowhere."""

    def take(self, fits: Expressions, at: Array) -> None:
        """Set the fitting expressions and their values."""
        self.fits, self.at = fits, at
        differ = (np.abs(at - at[0]) > _EXACT * np.maximum(1, np.abs(at[0]))).any(0)
        self.differ = differ if differ.any() else None

    def after(self, member: int, value: float, point: int, matters: bool) -> _EqualNumbers:
        """Return the subgroup, with the number `member`, of the numbers equal to `value`."""
        part = _EqualNumbers(self.loop)
        part.member, part.is_open = member, self.is_open
        part.fits, part.at, part.differ = self.fits, self.at, self.differ
        if self.at is None or self.fits is None or not matters:
            return part
        right = np.abs(self.at[:, point] - value) <= _EXACT * max(1.0, abs(value))
        if self.is_open or not right.any():
            part.at = None
        else:
            part.keep(right)
        return part

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Drop the other expressions."""
        assert self.fits is not None
        assert self.at is not None
        if not which.all():
            fits = self.fits
            kept = Expressions(fits.factors, fits.places[:, which], fits.weights[:, which])
            self.take(kept, self.at[which])

    def prefer_tiles_of(self, extent: _EqualNumbers) -> None:
        """Drop expressions of other tiles than those of an extent, unless all are."""
        assert self.fits is not None
        assert extent.fits is not None
        kept: NDArray[np.bool_] = np.all(
            np.isin(self.fits.tiles(), [-1, *extent.fits.tiles()[:, 0]]), axis=0
        )
        if kept.any():
            self.keep(kept)


def _fit_expressions(
    factors: Factors, values: Array, cares: NDArray[np.bool_], probed: Array
) -> Expressions | None:
    """Return all fitting expressions of the simplest sort that has any."""
    values, probed = values[cares], probed[:, cares]
    single = np.arange(len(probed))
    if not len(values):
        # The values were arbitrary, so that all expressions fit.
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
    """Return the factor of each product, computed where the product is largest."""
    at = products.argmax(1)
    largest = products[np.arange(len(products)), at]
    return np.asarray(values[at] / np.where(largest == 0, 1, largest))


def _sum(factors: Factors, values: Array, probed: Array, tolerance: float) -> Expressions | None:
    """Return the fitting windows over two tiles: sums of two products and a constant."""
    one, two = factors.pairs.T
    one = np.concatenate([np.zeros(len(probed), np.int64), one])
    two = np.concatenate([np.arange(len(probed)), two])
    basis = np.stack([probed[one], probed[two], np.ones((len(one), len(values)))], axis=2)
    basis[one == 0, :, 0] = 0
    weights = np.linalg.pinv(basis) @ values
    off = np.abs(np.einsum("kpc,kc->kp", basis, weights) - values)
    fits = np.flatnonzero((off <= 1e3 * tolerance).all(1))
    # The strides of windows are integers.
    whole = np.abs(weights[fits] - np.round(weights[fits])).max(1, initial=0) < 1e-6
    fits = fits[whole]
    if not len(fits):
        return None
    a, b, c = np.round(weights[fits]).T
    return _expressions(factors, one[fits], 0, two[fits], a, b, c)
