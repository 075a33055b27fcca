"""A scheduled program as loop nests: what its structure is, and the numbers in it.

Two programs that differ only in decisions about tiles and limits have the same structure and other
numbers. So the numbers of many programs are the columns of one array, and whatever is computed of
nests is computed for all of them at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tensorir.nodes.stmt import ForKind

Numbers = NDArray[np.float64]
"""An array [numbers of a structure, programs]."""


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


@dataclass(frozen=True, slots=True)
class Term:
    """A part of an index that is a quotient or remainder by a constant, times a factor."""

    dim: int
    factor: float
    divisor: int
    is_quotient: bool


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
