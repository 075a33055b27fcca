"""A scheduled program as loop nests: a structure, and an array of numbers.

Programs that differ only in tile sizes and limits have the same structure. The numbers of such
programs are the columns of one array, and features are computed for all columns at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from copy import copy
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tensorir.nodes.stmt import ForKind

Numbers = NDArray[np.float64]
"""An array [numbers of a structure, programs]."""

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Drives(IntEnum):
    """The kind of the block axes that are bound to a loop."""

    SPATIAL = 0
    REDUCTION = 1
    OTHER = 2


class Work(IntEnum):
    """The sorts of operations in a stored value."""

    ARITHMETIC = 0
    """Additions, multiplications, minima, maxima."""
    DIVISION = 1
    FUNCTION = 2
    """Mathematical functions and other calls."""
    CHOICE = 3
    """Comparisons, logic, selections."""


@dataclass(frozen=True, slots=True)
class BufferShape:
    """A buffer that a program accesses."""

    item_bytes: int
    dims: int
    is_argument: bool
    is_packed: bool
    """True if `RewritePanels` will lay it out in the order of reading."""
    is_free: bool
    """True for a weight, which `RewriteLayout` will lay out in the order of reading."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term of an index: a quotient or remainder by a constant, times a factor."""

    dim: int
    factor: float
    divisor: int
    is_quotient: bool

    def completes(self, other: Term) -> bool:
        """Return True if this is a quotient and `other` a remainder by the same divisor."""
        return self.is_quotient and not other.is_quotient and self.divisor == other.divisor


@dataclass(frozen=True, slots=True)
class AccessShape:
    """An access of a store.

    Its steps are numbers [dims and terms, loops of the store]. The step of a dimension along a loop
    is the change of its index without the terms; the step of a term is the change of its dividend.
    """

    buffer: int
    terms: tuple[Term, ...]
    steps: int
    """The position of the first step among the numbers."""


@dataclass(frozen=True, slots=True)
class StoreShape:
    """A store with the loops around it and its accesses.

    The first access is the store itself. A load of the stored element is not an access, but sets
    `updates`. Loops are numbers in the program, outermost first.
    """

    loops: tuple[int, ...]
    single: tuple[bool, ...]
    """True for each loop whose body is one statement."""
    accesses: tuple[AccessShape, ...]
    work: tuple[int, ...]
    """The number of operations of each sort in `Work` for one element."""
    updates: bool
    is_reordered: bool
    """True for a reduction that the compiler may reorder, which is not a sum of floats."""
    is_init: bool
    results: int
    """The number of values that are updated together, as a tuple."""
    intrinsic_from: int
    """The index of the first loop of an intrinsic; the number of loops if there is none."""

    def kept(self, left_out: Set[int]) -> list[int]:
        """Return the indices of the loops that are not `left_out`."""
        return [k for k, loop in enumerate(self.loops) if loop not in left_out]

    def with_loops(self, kept: Sequence[int]) -> StoreShape:
        """Return the store with some of its loops; the steps of accesses keep their positions."""
        if len(kept) == len(self.loops):
            return self
        return replace(
            self,
            loops=tuple([self.loops[k] for k in kept]),
            single=tuple([self.single[k] for k in kept]),
            intrinsic_from=sum(1 for k in kept if k < self.intrinsic_from),
        )


@dataclass(frozen=True, slots=True)
class ProgramShape:
    """The structure of a scheduled program.

    The numbers of a program are, in this order: the four limits (`LIMITS`), the extents of all
    loops, the shapes of all buffers, the steps of all accesses.
    """

    kinds: tuple[ForKind, ...]
    """The kinds of all loops."""
    drives: tuple[Drives, ...]
    """The kind of the axes that are bound to each loop, in all blocks below it."""
    buffers: tuple[BufferShape, ...]
    stores: tuple[StoreShape, ...]
    count: int
    """The number of numbers."""

    @property
    def loop_of_number(self) -> NDArray[np.int64]:
        """The loop whose step each number is; -1 for other numbers."""
        loops = np.full(self.count, -1)
        for store in self.stores:
            for access in store.accesses:
                rows = self.buffers[access.buffer].dims + len(access.terms)
                end = access.steps + rows * len(store.loops)
                loops[access.steps : end] = np.tile(store.loops, rows)
        return loops


LIMITS = ("parallel", "vectorize", "unroll", "registers")
"""The limits for postprocessing in a program; -1 for a missing limit."""
PARALLEL, VECTORIZE, UNROLL, REGISTERS = range(4)
FIRST_EXTENT = len(LIMITS)


def nests(
    program: ProgramShape, numbers: Numbers, *, leave_out_unit_loops: bool = False
) -> list[Nest]:
    """Return the nests of all stores, with allocated buffers shrunk to their live regions.

    With `leave_out_unit_loops` the nests lack loops that change no column, such as most loops over
    a batch of one image: a third of the loops of a convolution.
    """
    unit = _unit_loops(program, numbers) if leave_out_unit_loops else frozenset()
    found = [Nest(program, store, numbers, unit) for store in program.stores]
    live: dict[int, Array] = {}
    for nest in found:
        for buffer, span in zip(nest.buffers, nest.spans(), strict=True):
            if not program.buffers[buffer].is_argument:
                live[buffer] = np.maximum(live.get(buffer, 1.0), span)
    for nest in found:
        nest.shapes = [live.get(b, s) for b, s in zip(nest.buffers, nest.shapes, strict=True)]
    return found


def _unit_loops(program: ProgramShape, numbers: Numbers) -> frozenset[int]:
    """Return the loops that have one iteration in all programs, and that no choice depends on.

    Choices depend on the innermost loop of a store (its vector), on the outermost one (the pragma
    of unrolling), on loops that end the fusion to a parallel loop, because they are not spatial or
    have several statements in their bodies, and on the number of loops over a panel.
    """
    extents = numbers[FIRST_EXTENT : FIRST_EXTENT + len(program.kinds)]
    unit = set(np.flatnonzero((extents == 1).all(1)).tolist())
    for store in program.stores:
        if program.buffers[store.accesses[0].buffer].is_packed:
            unit.difference_update(store.loops)
        unit.difference_update((store.loops[0], store.loops[-1]))
        unit.difference_update(
            loop for loop, single in zip(store.loops, store.single, strict=True) if not single
        )
    return frozenset(
        loop
        for loop in unit
        if program.kinds[loop] is ForKind.SERIAL and program.drives[loop] is Drives.SPATIAL
    )


class Nest:
    """A store of all programs of a structure: arrays [loops, programs], [dims, loops, programs].

    The loops `left_out` have one iteration in all programs.
    """

    def __init__(
        self,
        program: ProgramShape,
        store: StoreShape,
        numbers: Numbers,
        left_out: Set[int] = frozenset(),
    ) -> None:
        kept, loops = store.kept(left_out), len(store.loops)
        self.store = store = store.with_loops(kept)
        self.count = numbers.shape[1]
        self.extents: Array = numbers[[FIRST_EXTENT + loop for loop in store.loops]]
        self.limits = numbers[:FIRST_EXTENT]
        self.drives = [program.drives[loop] for loop in store.loops]
        self.kinds = [program.kinds[loop] for loop in store.loops]
        self.item_bytes = [program.buffers[a.buffer].item_bytes for a in store.accesses]
        self.packed = [program.buffers[a.buffer].is_packed for a in store.accesses]
        """For each access, `is_packed` of its buffer."""
        self.free = [program.buffers[a.buffer].is_free for a in store.accesses]
        """For each access, `is_free` of its buffer."""
        self.shapes: list[Array] = []
        """For each access, the shape of its buffer, or of the live region of an allocated one."""
        self.steps: list[Array] = []
        """For each access, the change of each index along each loop."""
        self.averages: list[Array] = []
        """For each access, the average stride along each loop, in elements."""
        self.strides: list[Array] = []
        """The average strides, but at most 1 along a loop that permutes the elements of a range."""
        self.direct: list[Array] = []
        """The strides without quotients and remainders."""
        self.moves: list[Array] = []
        """Like `direct`, but neither 0 nor 1 if a quotient or remainder changes."""
        moving = self.extents > 1
        for access in store.accesses:
            first = FIRST_EXTENT + len(program.kinds)
            first += sum(b.dims for b in program.buffers[: access.buffer])
            dims = program.buffers[access.buffer].dims
            shape = numbers[first : first + dims]
            rows = dims + len(access.terms)
            steps = numbers[access.steps : access.steps + rows * loops]
            steps = steps.reshape(rows, loops, self.count)[:, kept] * moving
            self.shapes.append(shape)
            direct = averages = strides = moves = _strides(steps[:dims], shape)
            if access.terms:
                divided = np.zeros(moving.shape, bool)
                on_average = steps[:dims].copy()
                for term, inside in zip(access.terms, steps[dims:], strict=True):
                    moved = term.factor * _mean_change(inside, self.extents, term)
                    steps[term.dim] += moved
                    # Where a loop changes the quotient, the remainder returns to its value.
                    for other, same in zip(access.terms, steps[dims:], strict=True):
                        if other.completes(term) and np.array_equal(same, inside):
                            moved = np.where(_mean_change(same, self.extents, other) != 0, 0, moved)
                    on_average[term.dim] += moved
                    divided |= inside != 0
                steps = steps[:dims]
                averages = _strides(on_average, shape)
                # A loop that accesses each element of a range once permutes them.
                permutes = divided & (_reach(steps, self.extents, shape) <= self.extents)
                strides = np.where(permutes, np.minimum(averages, 1), averages)
                moves = np.where(divided, np.maximum(direct, _SOMEHOW), direct)
            self.steps.append(np.abs(steps))
            self.averages.append(averages)
            self.strides.append(strides)
            self.direct.append(direct)
            self.moves.append(moves)

        self.buffers = [access.buffer for access in store.accesses]
        same = [s for s in program.stores if s.loops[:1] == store.loops[:1] and s.updates]
        self.unroll: Array = np.maximum(self.limits[UNROLL] if same else 0.0, np.zeros(self.count))
        """The unroll limit, in statements; the pragma is set for reductions only."""

    @property
    def structure(self) -> Hashable:
        """A key that is equal for nests whose arrays can be joined."""
        store = self.store
        own = (store.single, store.work, store.updates, store.is_reordered, store.is_init)
        of_store = (*own, store.results, store.intrinsic_from, *self.kinds, *self.drives)
        return of_store, *self.item_bytes, *self.packed, *self.free, *map(len, self.shapes)

    @staticmethod
    def joined(nests: Sequence[Nest]) -> Nest:
        """Return nests of one structure as one nest of all their programs."""
        result = copy(nests[0])
        if len(nests) > 1:
            result.count = sum(nest.count for nest in nests)
            for name in ("extents", "limits", "unroll"):
                setattr(result, name, np.concatenate([getattr(n, name) for n in nests], -1))
            for name in ("shapes", "steps", "averages", "strides", "direct", "moves"):
                accesses = zip(*(getattr(nest, name) for nest in nests), strict=True)
                setattr(result, name, [np.concatenate(parts, -1) for parts in accesses])
        return result

    def spans(self) -> list[Array]:
        """Return for each access the extents of the box of its accessed elements."""
        reach = self.extents - 1
        return [
            np.minimum(1 + (steps * reach).sum(1), shape)
            for steps, shape in zip(self.steps, self.shapes, strict=True)
        ]

    @property
    def loops(self) -> range:
        """The indices of the loops."""
        return range(len(self.store.loops))


_SOMEHOW: Final = 1.5


def _strides(steps: Array, shape: Array) -> Array:
    size = np.ones(steps.shape[-1])
    total = np.zeros(steps.shape[1:])
    for dim in reversed(range(len(steps))):
        total += steps[dim] * size
        size = size * shape[dim]
    return np.abs(total)


def _reach(steps: Array, extents: Array, shape: Array) -> Array:
    """Return for each loop alone the number of elements from the first to the last access."""
    size = np.ones(steps.shape[-1])
    total = np.ones(steps.shape[1:])
    for dim in reversed(range(len(steps))):
        total += np.minimum(np.abs(steps[dim]) * (extents - 1), shape[dim] - 1) * size
        size = size * shape[dim]
    return total


def _mean_change(steps: Array, extents: Array, term: Term) -> Array:
    """Return the mean change of a quotient or remainder along loops.

    It is 0 for a loop that stays within one quotient.
    """
    steps = np.abs(steps)
    if term.is_quotient:
        return np.where(steps * extents <= term.divisor, 0, steps / term.divisor)
    return np.where(steps % term.divisor == 0, 0, steps)
