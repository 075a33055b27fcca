"""The loops of a nest that are to run in parallel, and those that are to be a vector.

The choice is made with arrays for many nests at once: postprocessing asks for one nest, features
for all candidates of a design.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Marks(NamedTuple):
    """The loops that are chosen [loops, nests]."""

    chosen: Mask
    iterations: Array
    """The iterations of the loops that were looked at [nests]; 1 where there are none to mark."""


def parallel_loops(
    extents: Array,
    free: Sequence[bool],
    single: Sequence[bool],
    limit: Array,
    marked: Sequence[int] = (),
) -> Marks:
    """Return the outer loops to fuse; the one that exceeds the limit [nests] is included.

    Only `free` loops may be, and below one whose body is not a `single` statement none is. Those at
    the places `marked` are parallel already.
    """
    chosen = np.zeros(extents.shape, bool)
    alive, product = limit > 0, np.ones(extents.shape[1])
    for place in range(len(extents)):
        if place in marked:
            chosen[place] = True
            continue
        if not free[place]:
            break
        chosen[place] = alive
        product = np.where(alive, product * extents[place], product)
        alive = alive & (product <= limit)
        if not single[place] or not alive.any():
            break
    return Marks(chosen, product)


def vector_loops(
    extents: Array, free: Sequence[bool], fusible: Mask, limit: Array, marked: Sequence[int] = ()
) -> Marks:
    """Return the inner loops to fuse; the one that exceeds the limit [nests] is left out.

    Only `free` loops may be. Those at the places `marked` are vectors already.
    """
    chosen = np.zeros(extents.shape, bool)
    alive, product = limit >= 0, np.ones(extents.shape[1])
    for place in reversed(range(len(extents))):
        if place in marked:
            chosen[place] = True
            continue
        if not free[place]:
            break
        alive = alive & fusible[place]
        product = np.where(alive, product * extents[place], product)
        alive = alive & (product <= limit)
        if not alive.any():
            break
        chosen[place] = alive
    return Marks(chosen, product)


def fusible_loops(strides: Array, extents: Array) -> Mask:
    """Return for each loop whether it and those inside could be one loop in the order of memory.

    Each access must do that, whose steps are in `strides` [accesses, loops, nests]: counted from
    inside, a loop must step over exactly what the loop inside it covers, or not move it at all. The
    innermost may take steps of any length; where it does not move an access, the next takes 1.
    """
    innermost = len(extents) - 1
    alive = np.ones((len(strides), extents.shape[1]), bool)
    expected = np.ones(alive.shape)
    result = np.zeros(extents.shape, bool)
    for place in reversed(range(len(extents) if len(strides) else 0)):
        stride = strides[:, place]
        still = stride == 0
        if place < innermost:
            alive &= still | (stride == expected)
        expected = np.where(still, expected, stride * extents[place])
        result[place] = alive.all(0)
        if not result[place].any():
            break
    return result
