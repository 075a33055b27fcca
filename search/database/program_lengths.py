"""The lengths in a program, and the check that another program differs only in longer loops.

Examples are two products of matrices, or a convolution of one image and of eight. A good schedule
of the shorter program is a good start for the longer one, whose time grows about as the number of
iterations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from math import prod
from typing import Any, Final

from search.database.module_equality import IgnoreLengthsEquality, unnamed
from tensorir.arith import Analyzer
from tensorir.comparison.equal import structural_equal
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import Block, BufferStore, For
from tensorir.rewriting.visit import children, collect_vars, walk

_BUT_FOR_LENGTHS: Final = IgnoreLengthsEquality()


def compatible_factor(recorded: IRModule, mod: IRModule) -> float | None:
    """Return the ratio of the iterations of `mod` to those of a recorded program.

    Both are modules of one function. None if they differ in more than lengths, or if an axis of a
    block or a dimension of a parameter is not a multiple of the recorded one. These integers are
    not lengths:

    - a window, which is an axis of a reduction that an index adds to an axis of the result, as in
      `x[h * 2 + r]`, and the numbers of such an index (stride and dilation) must be equal;
    - any other integer must be equal, or change by as much as a length: the bound of a padding
      `i < 29` may become `i < 57` if a length of 28 becomes 56.

    A dimension that is read through a window exceeds the axis by the extent of the window, so it
    need not be a multiple.
    """
    if not _BUT_FOR_LENGTHS.equal(unnamed(recorded), unnamed(mod)):
        return None
    return ProgramLengths.of(mod).factor(ProgramLengths.of(recorded))


class _Role(Enum):
    """The relation of an integer of a program to that of a compatible one."""

    FIXED = auto()
    """The integer is the same."""
    LENGTH = auto()
    """The integer is a multiple."""
    FOLLOWS = auto()
    """The integer is the same, or has the same distance from a length."""
    FREE = auto()
    """The integer is free: other lengths determine a dimension that is read through a window."""


@dataclass(frozen=True)
class ProgramLengths:
    """The integers of a program in its order, and their roles."""

    numbers: tuple[int, ...]
    roles: tuple[_Role, ...]
    notes: tuple[Mapping[str, Any], ...]
    """Attributes and annotations, which are equal in compatible programs."""
    iterations: int
    """The total number of executions of blocks."""

    @staticmethod
    def of(mod: IRModule) -> ProgramLengths:
        """Return the lengths of a module of one function."""
        (func,) = unnamed(mod).prim_funcs().values()
        listing = _Listing(func)
        numbers, roles = zip(*listing.found, strict=True) if listing.found else ((), ())
        return ProgramLengths(numbers, roles, tuple(listing.notes), listing.iterations)

    def factor(self, recorded: ProgramLengths) -> float | None:
        """Return the ratio of iterations to those of a recorded program with the same structure.

        None if the programs are not compatible; see `compatible_factor`.
        """
        if len(recorded.numbers) != len(self.numbers):
            return None
        longer: set[tuple[int, int]] = set()
        following: set[tuple[int, int]] = set()
        for a, b, role in zip(recorded.numbers, self.numbers, recorded.roles, strict=True):
            if a == b or role is _Role.FREE:
                continue
            if role is _Role.FIXED or (role is _Role.LENGTH and (a == 0 or b % a)):
                return None
            (longer if role is _Role.LENGTH else following).add((a, b))
        if not all(_same_distance(pair, longer) for pair in following):
            return None
        if not structural_equal(recorded.notes, self.notes):
            return None
        return self.iterations / recorded.iterations if recorded.iterations else 1.0


def _same_distance(pair: tuple[int, int], longer: set[tuple[int, int]]) -> bool:
    """True if two numbers have the same distance from a recorded and a new length.

    A distance of the length or more is rejected, as it would fit any number.
    """
    a, b = pair
    return any(a - x == b - y and abs(a - x) < x for x, y in longer)


class _Listing:
    """Lists the integers of a function."""

    def __init__(self, func: PrimFunc) -> None:
        self.found: list[tuple[int, _Role]] = []
        self.notes: list[Mapping[str, Any]] = [func.attrs]
        self.iterations = 0
        self._windows = _WindowedAxes(func)
        for param in func.params:
            if param in func.buffer_map:
                self._shape(func.buffer_map[param], _Role.LENGTH)
        self._body(func.body)

    def _body(self, body: Node) -> None:
        stack = [(body, _Role.FOLLOWS)]
        while stack:
            node, role = stack.pop()
            if isinstance(node, IntImm):
                self.found.append((node.value, role))
                continue
            if isinstance(node, (For, Block)):
                self.notes.append(node.annotations)
            if isinstance(node, Block):
                self._block(node)
            elif isinstance(node, IterVar):
                role = self._windows.role_of(node.var)
            stack.extend((part, self._role_in(part, node, role)) for part in children(node)[::-1])

    def _role_in(self, part: Node, node: Node, role: _Role) -> _Role:
        """Return the role of the numbers in a part of a node; an index with a window fixes them."""
        reads = isinstance(node, (BufferLoad, BufferRegion))
        return _Role.FIXED if reads and self._windows.of(part) else role

    def _block(self, block: Block) -> None:
        for buffer in block.alloc_buffers:
            self._shape(buffer, _Role.FOLLOWS)
        lengths = [axis.dom.extent for axis in block.iter_vars if axis.dom is not None]
        if lengths:
            self.iterations += prod(n.value for n in lengths if isinstance(n, IntImm))

    def _shape(self, buffer: Buffer, role: _Role) -> None:
        for place, length in enumerate(buffer.shape):
            if isinstance(length, IntImm):
                is_slid = (buffer, place) in self._windows.dimensions
                self.found.append((length.value, _Role.FREE if is_slid else role))


class _WindowedAxes:
    """The dimensions and axes of a function that are read through windows."""

    def __init__(self, func: PrimFunc) -> None:
        nodes = list(walk(func.body))
        self._kinds = {axis.var: axis.iter_type for axis in nodes if isinstance(axis, IterVar)}
        self._analyzer = Analyzer()
        for axis in nodes:
            if isinstance(axis, IterVar) and axis.dom and axis.iter_type == IterVar.DATA_PAR:
                self._analyzer.bind(axis.var, axis.dom)
        self._axes: set[Var] = set()
        self.dimensions: set[tuple[Buffer, int]] = set()
        """The dimensions that an index with a window reads."""
        for node in nodes:
            if isinstance(node, (BufferLoad, BufferRegion)):
                for place, index in enumerate(children(node)[: len(node.buffer.shape)]):
                    windows = self.of(index)
                    if windows:
                        self._axes.update(windows)
                        self.dimensions.add((node.buffer, place))
        self._along = {
            index
            for node in nodes
            if isinstance(node, BufferStore)
            for place, index in enumerate(node.indices)
            if isinstance(index, Var) and (node.buffer, place) in self.dimensions
        }

    def of(self, index: Node) -> list[Var]:
        """Return the axes of a reduction that an index adds to an axis of the result.

        A term that is always 0, such as that of the only group of a convolution, is ignored.
        """
        start = index.min if isinstance(index, Range) else index
        if not isinstance(start, PrimExpr) or not self._reduction_axes_in(start):
            return []
        return self._reduction_axes_in(self._analyzer.simplify(start))

    def role_of(self, axis: Var) -> _Role:
        """Return the role of the length of an axis of a block."""
        if axis in self._axes:
            return _Role.FIXED
        return _Role.FOLLOWS if axis in self._along else _Role.LENGTH

    def _reduction_axes_in(self, index: PrimExpr) -> list[Var]:
        """Return the reduction axes in an index that also has other axes."""
        axes = [var for var in collect_vars(index) if var in self._kinds]
        reduced = [var for var in axes if self._kinds[var] == IterVar.COMM_REDUCE]
        return reduced if len(reduced) < len(axes) else []
