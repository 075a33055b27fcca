"""Whether one program is another one with longer loops.

Two products of matrices, or a convolution of one image and of eight: what is a good schedule of the
shorter one is a good start for the longer one, and takes about as much longer as there are more
iterations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Final

from search.database.module_equality import IgnoreLengthsEquality, unnamed
from tensorir.buffer import Buffer, BufferRegion
from tensorir.equal import structural_equal
from tensorir.expr import BufferLoad, IntImm, IterVar, PrimExpr, Var
from tensorir.function import IRModule, PrimFunc
from tensorir.node import Node
from tensorir.stmt import Block, BufferStore, For
from tensorir.visit import collect_vars, walk

_BUT_FOR_LENGTHS: Final = IgnoreLengthsEquality()

_Pair = tuple[int, int]
"""A constant of the recorded program, and what stands for it in the other one."""


def compatible_factor(recorded: IRModule, mod: IRModule) -> float | None:
    """Return how many times as many iterations `mod` has as a recorded program with its structure.

    Both are modules of one function. None if they differ in more than lengths, or by less than a
    whole factor: each axis of a block and each dimension of a parameter is a multiple of the
    recorded one. No length is

    - a window: an axis of a reduction that an index adds to an axis of the result, as in
      `x[h * 2 + r]`; nor are the numbers of such an index, a stride or a dilation;
    - a number that differs from the recorded one otherwise than a length does: the bound of a
      padding `i < 29` may become `i < 57` where a length of 28 becomes 56, and that alone.

    What is read through a window is longer than the axis by what the window reaches, so that its
    length need not be a multiple.
    """
    theirs, ours = unnamed(recorded), unnamed(mod)
    if not _BUT_FOR_LENGTHS.equal(theirs, ours):
        return None
    (a,), (b,) = theirs.prim_funcs().values(), ours.prim_funcs().values()
    return _Correspondence(a, b).factor()


class _Correspondence:
    """Two functions of the same structure, node by node."""

    def __init__(self, recorded: PrimFunc, func: PrimFunc) -> None:
        self._functions = (recorded, func)
        self._nodes = list(zip(walk(recorded.body), walk(func.body), strict=True))
        self._kinds = {a.var: a.iter_type for a, _ in self._nodes if isinstance(a, IterVar)}
        self._windows: set[Var] = set()
        self._slid: set[tuple[Buffer, int]] = set()
        """Dimensions that are read through a window."""
        self._fixed: list[tuple[PrimExpr, PrimExpr]] = []
        """Indices with windows."""
        for a, b in self._nodes:
            for buffer, place, index, other in _read_indices(a, b):
                windows = self._windows_in(index)
                if windows:
                    self._windows.update(windows)
                    self._slid.add((buffer, place))
                    self._fixed.append((index, other))

    def factor(self) -> float | None:
        """Return the ratio of iterations, None for programs that are not compatible."""
        if not self._same_notes() or any(a != b for a, b in self._fixed_pairs()):
            return None
        lengths = set(self._lengths())
        if any(b % a for a, b in lengths if a):
            return None
        longer = [(a, b) for a, b in lengths if a != b]
        if not all(_follows(pair, longer) for pair in {*self._constants(), *self._inner_shapes()}):
            return None
        before, after = self._iterations()
        return after / before if before else 1.0

    def _windows_in(self, index: PrimExpr) -> list[Var]:
        """Return the axes of a reduction that an index adds to one of the result."""
        axes = [var for var in collect_vars(index) if var in self._kinds]
        reduced = [var for var in axes if self._kinds[var] == IterVar.COMM_REDUCE]
        return reduced if len(reduced) < len(axes) else []

    def _same_notes(self) -> bool:
        """Say whether attributes and annotations are the same."""
        a, b = self._functions
        return structural_equal(dict(a.attrs), dict(b.attrs)) and all(
            structural_equal(dict(x.annotations), dict(y.annotations))
            for x, y in self._nodes
            if isinstance(x, (For, Block)) and isinstance(y, (For, Block)) and x.annotations
        )

    def _fixed_pairs(self) -> Iterator[_Pair]:
        """Yield what must be the same: lengths of windows, and the numbers beside them."""
        for a, b in self._fixed:
            yield from _numbers(zip(walk(a), walk(b), strict=True))
        yield from self._axes(True)

    def _lengths(self) -> Iterator[_Pair]:
        """Yield what must be multiples: the axes of blocks, and the dimensions of parameters."""
        yield from self._axes(False)
        a, b = self._functions
        for x, y in zip(a.params, b.params, strict=True):
            if x in a.buffer_map:
                yield from self._dimensions(a.buffer_map[x], b.buffer_map[y])

    def _axes(self, windows: bool) -> Iterator[_Pair]:
        """Yield the lengths of the axes that are windows, or of those that may be longer."""
        beside = self._along_slid()
        for a, b in self._nodes:
            if isinstance(a, IterVar) and isinstance(b, IterVar):
                is_window = a.var in self._windows
                if is_window is windows and (is_window or a.var not in beside):
                    yield from _extents(a, b)

    def _along_slid(self) -> set[Var]:
        """Return the axes that write along dimensions which are read through a window."""
        return {
            index
            for a, _ in self._nodes
            if isinstance(a, BufferStore)
            for place, index in enumerate(a.indices)
            if isinstance(index, Var) and (a.buffer, place) in self._slid
        }

    def _inner_shapes(self) -> Iterator[_Pair]:
        for a, b in self._nodes:
            if isinstance(a, Block) and isinstance(b, Block):
                for x, y in zip(a.alloc_buffers, b.alloc_buffers, strict=True):
                    yield from self._dimensions(x, y)

    def _dimensions(self, a: Buffer, b: Buffer) -> Iterator[_Pair]:
        for place, pair in enumerate(zip(a.shape, b.shape, strict=True)):
            if (a, place) not in self._slid:
                yield from _numbers([pair])

    def _constants(self) -> Iterator[_Pair]:
        return _numbers(self._nodes)

    def _iterations(self) -> tuple[int, int]:
        """Return how often the blocks run in all."""
        before = after = 0
        for a, b in self._nodes:
            if isinstance(a, Block) and isinstance(b, Block) and a.iter_vars:
                axes = zip(a.iter_vars, b.iter_vars, strict=True)
                pairs = [pair for x, y in axes for pair in _extents(x, y)]
                before += prod(x for x, _ in pairs)
                after += prod(y for _, y in pairs)
        return before, after


def _read_indices(a: Node, b: Node) -> Iterator[tuple[Buffer, int, PrimExpr, PrimExpr]]:
    """Yield each index of what is read, with its dimension, and what stands for it in `b`."""
    indices: Sequence[tuple[PrimExpr, PrimExpr]] = ()
    if isinstance(a, BufferLoad) and isinstance(b, BufferLoad):
        indices = list(zip(a.indices, b.indices, strict=True))
    elif isinstance(a, BufferRegion) and isinstance(b, BufferRegion):
        indices = [(x.min, y.min) for x, y in zip(a.region, b.region, strict=True)]
    else:
        return
    for place, (x, y) in enumerate(indices):
        yield a.buffer, place, x, y


def _extents(a: IterVar, b: IterVar) -> Iterator[_Pair]:
    if a.dom is not None and b.dom is not None:
        yield from _numbers([(a.dom.extent, b.dom.extent)])


def _numbers(pairs: Iterable[tuple[Node, Node]]) -> Iterator[_Pair]:
    for a, b in pairs:
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            yield a.value, b.value


def _follows(pair: _Pair, longer: Sequence[_Pair]) -> bool:
    """Say whether two numbers are the same, or as far from a length as each other.

    A distance of the length itself or more would explain any number.
    """
    a, b = pair
    return a == b or any(a - x == b - y and abs(a - x) < x for x, y in longer)
