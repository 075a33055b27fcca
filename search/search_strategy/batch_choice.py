"""The choice of the individuals of a population that are measured next."""

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
    """Return up to `wanted` individuals, the one that is to be measured first at the front.

    The next one is always that with the greatest upper confidence bound, `mean + exploration *
    std`. What is chosen will tell about its like: the deviation of each other individual shrinks
    by the share of decisions that it has in common with a chosen one, so that a batch is not made
    of near copies (the idea of GP-BUCB: Desautels, Krause and Burdick, JMLR 2014). Those
    that the model cannot tell from a chosen one, or from one in `measured` (`Individual.twins`),
    come when there are no others: nearly all have the same machine code. `accept` is asked about
    one individual after the other and may refuse it.
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

    Individuals of no space have a number of their own everywhere, and so has what a row lacks.
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
    """Return for each row which share of its decisions it has in common with one of them."""
    same = (codes == codes[place])[:, 1:]
    if not same.shape[1]:
        return np.zeros(len(codes))
    present = max(1, int((codes[place, 1:] >= 0).sum()))
    return np.where(codes[:, 0] == codes[place, 0], same.sum(1) / present, 0.0)
