"""The choice of parallel and vector loops of a nest.

It works on arrays of many nests: a postprocessor passes one nest, a feature extractor the nests of
all candidates of a design space.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Marks(NamedTuple):
    """The chosen loops of nests."""

    chosen: Mask
    """[loops, nests]"""
    iterations: Array
    """The iterations of all loops that were considered [nests]; 1 if no loop can be chosen."""


def parallel_loops(
    extents: Array,
    free: Sequence[bool],
    single: Sequence[bool],
    limit: Array,
    marked: Sequence[int] = (),
) -> Marks:
    """Return the outer loops to fuse, up to the loop that exceeds the limit, included [nests].

    Only `free` loops are chosen, and no loop below one whose body is not a `single` statement. The
    loops at the places `marked` are already parallel.
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
    """Return the inner loops to fuse, without the loop that exceeds the limit [nests].

    Only `free` loops are chosen. The loops at the places `marked` are already vectors.
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
    """Return for each loop True if it and all inner loops can be one loop through memory.

    `strides` are those of all accesses [accesses, loops, nests]. For each access, the stride of a
    loop must equal the range of the inner loops, or be 0. The innermost loop may have any stride;
    if it is 0, the next stride must be 1.
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
