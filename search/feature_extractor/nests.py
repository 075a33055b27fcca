"""A scheduled program as loop nests: what its structure is, and the numbers in it.

Two programs that differ only in decisions about tiles and limits have the same structure and other
numbers. So the numbers of many programs are the columns of one array, and whatever is computed of
nests is computed for all of them at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass, field
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
    """The kind of block axes that a loop drives."""

    SPATIAL = 0
    REDUCTION = 1
    OTHER = 2


class Work(IntEnum):
    """The sorts of operations that a stored value takes."""

    ARITHMETIC = 0
    """Additions, multiplications, minima, maxima."""
    DIVISION = 1
    FUNCTION = 2
    """Mathematical functions, and calls that nothing is known of."""
    CHOICE = 3
    """Comparisons, logic, selections."""


@dataclass(frozen=True, slots=True)
class BufferShape:
    """A buffer that a program accesses."""

    item_bytes: int
    dims: int
    is_argument: bool
    is_packed: bool
    """True if its elements are to lie in the order in which they are read."""
    is_free: bool
    """True for a weight, which is brought into the layout in which it is read (`RewriteLayout`)."""


@dataclass(frozen=True, slots=True)
class Term:
    """A part of an index that is a quotient or remainder by a constant, times a factor."""

    dim: int
    factor: float
    divisor: int
    is_quotient: bool

    def completes(self, other: Term) -> bool:
        """Return True if this is the quotient to a remainder, if both divide the same."""
        return self.is_quotient and not other.is_quotient and self.divisor == other.divisor


@dataclass(frozen=True, slots=True)
class AccessShape:
    """An access of a store; its steps are numbers [dims and terms, loops of the store].

    The steps of a dimension are how far a step of each loop moves its index, apart from the terms;
    those of a term are how far one moves what is divided.
    """

    buffer: int
    terms: tuple[Term, ...]
    steps: int
    """The place of the first step among the numbers."""


@dataclass(frozen=True, slots=True)
class StoreShape:
    """A store, the loops around it and what it accesses.

    The first access is the store. A load of the very element that is stored is none: it is
    `updates`. Loops are outermost first, by number in the program.
    """

    loops: tuple[int, ...]
    single: tuple[bool, ...]
    """True for each loop whose body is one statement."""
    accesses: tuple[AccessShape, ...]
    work: tuple[int, ...]
    """The number of operations of each sort of `Work` for one element."""
    updates: bool
    is_reordered: bool
    """True if it is a reduction whose order the compiler may change: not a sum of floats."""
    is_init: bool
    results: int
    """The values that are updated together, those of a tuple."""
    intrinsic_from: int
    """The first of the loops that an intrinsic takes over; the number of loops if none."""


@dataclass(frozen=True, slots=True)
class ProgramShape:
    """The structure of a scheduled program.

    The numbers of a program are, in this order: the four limits (`LIMITS`), the extents of all
    loops, the shapes of all buffers, the steps of all accesses.
    """

    kinds: tuple[ForKind, ...]
    """The kinds of all loops."""
    drives: tuple[Drives, ...]
    """The kind of axes that each loop drives, in all blocks below it together."""
    buffers: tuple[BufferShape, ...]
    stores: tuple[StoreShape, ...]
    names: tuple[str, ...] = field(compare=False)
    """The names of the numbers, for messages."""

    @property
    def loop_of_number(self) -> NDArray[np.int64]:
        """The loop that each number describes while that loop runs; -1 for other numbers."""
        loops = np.full(len(self.names), -1)
        for store in self.stores:
            for access in store.accesses:
                rows = self.buffers[access.buffer].dims + len(access.terms)
                end = access.steps + rows * len(store.loops)
                loops[access.steps : end] = np.tile(store.loops, rows)
        return loops


LIMITS = ("parallel", "vectorize", "unroll", "registers")
"""The limits that the program sets to postprocessing; -1 where it sets none."""
PARALLEL, VECTORIZE, UNROLL, REGISTERS = range(4)
FIRST_EXTENT = len(LIMITS)


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
        self.free = [program.buffers[a.buffer].is_free for a in store.accesses]
        """True for each access of a weight whose layout follows its readers in the end."""
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
            on_average = steps[:dims].copy()
            for term, inside in zip(access.terms, steps[dims:], strict=True):
                moved = term.factor * _divided(inside, self.extents, term)
                steps[term.dim] += moved
                # Where a loop moves the quotient, the remainder comes back to where it was.
                for other, same in zip(access.terms, steps[dims:], strict=True):
                    if other.completes(term) and np.array_equal(same, inside):
                        moved = np.where(_divided(same, self.extents, other) != 0, 0, moved)
                on_average[term.dim] += moved
                divided |= inside != 0
            steps = steps[:dims]
            self.shapes.append(shape)
            self.steps.append(np.abs(steps))
            strides = _strides(on_average, shape)
            # A loop that reaches each element of a stretch once does so in some order.
            permutes = divided & (_reach(steps, self.extents, shape) <= self.extents)
            self.strides.append(np.where(permutes, np.minimum(strides, 1), strides))
            self.direct.append(direct)
            self.moves.append(np.where(divided, np.maximum(direct, _SOMEHOW), direct))

        self.buffers = [access.buffer for access in store.accesses]
        same = [s for s in program.stores if s.loops[:1] == store.loops[:1] and s.updates]
        self.unroll: Array = np.maximum(self.limits[UNROLL] if same else 0.0, np.zeros(self.count))
        """The most statements that loops may be written out to; the pragma is for reductions."""

    @property
    def structure(self) -> Hashable:
        """What nests have in common whose arrays can be joined."""
        store = self.store
        own = (store.single, store.work, store.updates, store.is_reordered, store.is_init)
        of_store = (*own, store.results, store.intrinsic_from, *self.kinds, *self.drives)
        return of_store, *self.item_bytes, *self.packed, *self.free, *map(len, self.shapes)

    @staticmethod
    def joined(nests: Sequence[Nest]) -> Nest:
        """Return nests of one structure as one, for the programs of all of them in order."""
        result = copy(nests[0])
        if len(nests) > 1:
            result.count = sum(nest.count for nest in nests)
            for name in ("extents", "limits", "unroll"):
                setattr(result, name, np.concatenate([getattr(n, name) for n in nests], -1))
            for name in ("shapes", "steps", "strides", "direct", "moves"):
                accesses = zip(*(getattr(nest, name) for nest in nests), strict=True)
                setattr(result, name, [np.concatenate(parts, -1) for parts in accesses])
        return result

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


def _reach(steps: Array, extents: Array, shape: Array) -> Array:
    """Return the elements of memory from the first that each loop alone touches to the last."""
    size = np.ones(steps.shape[-1])
    total = np.ones(steps.shape[1:])
    for dim in reversed(range(len(steps))):
        total += np.minimum(np.abs(steps[dim]) * (extents - 1), shape[dim] - 1) * size
        size = size * shape[dim]
    return total


def _divided(steps: Array, extents: Array, term: Term) -> Array:
    """Return how far steps of loops move a quotient or remainder, on average.

    A loop that stays within one quotient does not move it.
    """
    steps = np.abs(steps)
    if term.is_quotient:
        return np.where(steps * extents <= term.divisor, 0, steps / term.divisor)
    return np.where(steps % term.divisor == 0, 0, steps)
