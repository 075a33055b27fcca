"""Stores and the loops around them, for all programs of a structure at once."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from search.feature_extractor.nests import (
    FIRST_EXTENT,
    UNROLL,
    Numbers,
    ProgramShape,
    StoreShape,
    Term,
)

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def nests(program: ProgramShape, numbers: Numbers) -> list[Nest]:
    """Return the nests of all stores, with allocations shrunk to their live regions."""
    found = [Nest(program, store, numbers) for store in program.stores]
    live: dict[int, Array] = {}
    for nest in found:
        for buffer, span in zip(nest.buffers, nest.spans(), strict=True):
            if not program.buffers[buffer].is_argument:
                live[buffer] = np.maximum(live.get(buffer, 1.0), span)
    for nest in found:
        nest.shapes = [live.get(b, s) for b, s in zip(nest.buffers, nest.shapes, strict=True)]
    return found


class Nest:
    """One store of all programs: arrays [loops, programs] and [dims, loops, programs]."""

    def __init__(self, program: ProgramShape, store: StoreShape, numbers: Numbers) -> None:
        self.store = store
        self.count = numbers.shape[1]
        self.extents: Array = numbers[[FIRST_EXTENT + loop for loop in store.loops]]
        self.limits = numbers[:FIRST_EXTENT]
        self.drives = [program.drives[loop] for loop in store.loops]
        self.kinds = [program.kinds[loop] for loop in store.loops]
        self.item_bytes = [program.buffers[a.buffer].item_bytes for a in store.accesses]
        self.packed = [program.buffers[a.buffer].is_packed for a in store.accesses]
        """True for each access of a buffer whose elements lie in the order of its readers."""
        self.shapes: list[Array] = []
        """The extents of the buffer of each access; of an allocated one, of its live region."""
        self.steps: list[Array] = []
        """The distance by which a step of a loop moves each index, for each access."""
        self.strides: list[Array] = []
        """The elements of memory by which a step of a loop moves each access."""
        self.direct: list[Array] = []
        """The same as far as indices are sums over loops: no quotients and remainders."""
        self.moves: list[Array] = []
        """The same, not 0 and not 1 where quotients and remainders move an access."""
        loops = len(store.loops)
        moving = self.extents > 1
        for access in store.accesses:
            first = FIRST_EXTENT + len(program.kinds)
            first += sum(b.dims for b in program.buffers[: access.buffer])
            dims = program.buffers[access.buffer].dims
            shape = numbers[first : first + dims]
            rows = dims + len(access.terms)
            steps = numbers[access.steps : access.steps + rows * loops]
            steps = steps.reshape(rows, loops, self.count) * moving
            direct = _strides(steps[:dims], shape)
            divided = np.zeros((loops, self.count), bool)
            for term, inside in zip(access.terms, steps[dims:], strict=True):
                steps[term.dim] += term.factor * _divided(inside, self.extents, term)
                divided |= inside != 0
            steps = steps[:dims]
            self.shapes.append(shape)
            self.steps.append(np.abs(steps))
            self.strides.append(_strides(steps, shape))
            self.direct.append(direct)
            self.moves.append(np.where(divided, np.maximum(direct, _SOMEHOW), direct))

        self.buffers = [access.buffer for access in store.accesses]
        same = [s for s in program.stores if s.loops[:1] == store.loops[:1] and s.updates]
        self.unroll: Array = np.maximum(self.limits[UNROLL] if same else 0.0, np.zeros(self.count))
        """The most statements that loops may be written out to; the pragma is for reductions."""

    def spans(self) -> list[Array]:
        """Return for each access the extents of the box that it touches in all iterations."""
        reach = self.extents - 1
        return [
            np.minimum(1 + (steps * reach).sum(1), shape)
            for steps, shape in zip(self.steps, self.shapes, strict=True)
        ]

    @property
    def loops(self) -> range:
        """The places of the loops."""
        return range(len(self.store.loops))


_SOMEHOW: Final = 1.5


def _strides(steps: Array, shape: Array) -> Array:
    size = np.ones(steps.shape[-1])
    total = np.zeros(steps.shape[1:])
    for dim in reversed(range(len(steps))):
        total += steps[dim] * size
        size = size * shape[dim]
    return np.abs(total)


def _divided(steps: Array, extents: Array, term: Term) -> Array:
    """Return how far steps of loops move a quotient or remainder, on average.

    A loop that stays within one quotient does not move it.
    """
    steps = np.abs(steps)
    if term.is_quotient:
        return np.where(steps * extents <= term.divisor, 0, steps / term.divisor)
    return np.where(steps % term.divisor == 0, 0, steps)
