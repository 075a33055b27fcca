"""The choice of the individuals of a population to measure next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from search.search_strategy.individual import Individual


def choose_batch(
    pool: Sequence[Individual],
    wanted: int,
    exploration: float,
    accept: Callable[[Individual], bool],
    measured: Collection[int] = (),
) -> list[Individual]:
    """Return up to `wanted` individuals, in the order in which they should be measured.

    The next one always has the largest upper confidence bound, `mean + exploration * std`. Each
    choice reduces the deviation of the others, by the fraction of decisions that they have in
    common with it, so that a batch does not consist of near copies (as in GP-BUCB: Desautels,
    Krause and Burdick, JMLR 2014). Individuals with the features of a chosen or a `measured` one
    (`Individual.twins`) come last, because nearly all of them have the same machine code. `accept`
    is called with each choice and may refuse it.
    """
    mean = np.array([x.mean for x in pool])
    std = np.array([x.std for x in pool])
    codes = _codes(pool)
    likeness = np.zeros(len(pool))
    twins = np.array([x.twins for x in pool], np.int64)
    is_new = ~np.isin(twins, [number for number in measured if number])
    free = np.ones(len(pool), np.bool_)
    chosen: list[Individual] = []
    while len(chosen) < wanted and free.any():
        bound = mean + exploration * std * (1 - likeness)
        open_ = free & is_new
        place = int(np.where(open_ if open_.any() else free, bound, -np.inf).argmax())
        free[place] = False
        if accept(pool[place]):
            chosen.append(pool[place])
            likeness = np.maximum(likeness, _likeness(codes, place))
            is_new &= (twins != twins[place]) | (twins == 0)
    return chosen


def _codes(pool: Sequence[Individual]) -> NDArray[np.int64]:
    """Return a row for each individual: its space, and a number for each decision.

    Missing entries, and all entries of an individual without a space, have a number of this row.
    """
    width = max((len(x.decisions) for x in pool if x.decisions is not None), default=0)
    codes = np.empty((len(pool), 1 + width), np.int64)
    codes[:] = -1 - np.arange(len(pool))[:, None]
    numbers: dict[object, int] = {}
    for row, individual in zip(codes, pool, strict=True):
        if individual.space is not None and individual.decisions is not None:
            row[0] = individual.space.index
            known = [numbers.setdefault(d, len(numbers)) for d in individual.decisions]
            row[1 : 1 + len(known)] = known
    return codes


def _likeness(codes: NDArray[np.int64], place: int) -> NDArray[np.float64]:
    """Return for each row the fraction of decisions that are equal to those of one row."""
    same = (codes == codes[place])[:, 1:]
    if not same.shape[1]:
        return np.zeros(len(codes))
    present = max(1, int((codes[place, 1:] >= 0).sum()))
    return np.where(codes[:, 0] == codes[place, 0], same.sum(1) / present, 0.0)
