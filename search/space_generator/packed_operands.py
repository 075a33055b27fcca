"""Operands of a reduction that are worth a copy, and the layout in which a nest reads it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from schedule.sref import StmtSRef, loops_above
from tensorir.arith import Analyzer
from tensorir.arith.coefficients import Coefficients, coefficients
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import Block, BufferStore
from tensorir.rewriting.visit import collect_vars, walk

_READ_AGAIN: Final = 8
"""How often elements must be read for a copy, which reads and writes each once, to pay."""


@dataclass(frozen=True, slots=True)
class Packable:
    """An operand of a reduction."""

    read: int
    """Its index among the regions that the block reads."""
    axes: IndexMap | None
    """The map from the block's axes to the indices of a copy of what is read only; None where the
    copy has the indices of the operand."""
    apart: tuple[int, int] | None
    """A dimension, and by how many elements of it lanes are apart, if that is more than one."""
    nbytes: int
    """The size of the copy of all that is read."""


def packable_operands(block: StmtSRef, least_bytes: int) -> list[Packable]:
    """Return the operands of a sum of products that vectors are loaded of, and are read again.

    Vectors lie along the last index of the result. An operand that does not move along it is one
    element for all lanes, which any layout serves. One that takes fewer than `least_bytes` stays in
    the first cache as it is. All axes and shapes must be constant.
    """
    node = block.block
    store = node.body
    if node.init is None or not isinstance(store, BufferStore) or not store.indices:
        return []
    extents = _axis_extents(node)
    lane = store.indices[-1]
    if extents is None or not isinstance(lane, Var) or extents.get(lane, 1) == 1:
        return []
    loads = [part for part in walk(store.value) if isinstance(part, BufferLoad)]
    operands = {load.buffer: load for load in loads if load.buffer is not store.buffer}
    if len(operands) < 2 or len(operands) < len(loads) - 1:
        return []
    found = []
    for k, region in enumerate(node.reads):
        load = operands.get(region.buffer)
        if load is None or region.buffer.strides:
            continue
        used = set().union(*map(collect_vars, load.indices))
        again = math.prod(
            extents[axis.var]
            for axis in node.iter_vars
            if axis.var not in used and axis.iter_type == IterVar.DATA_PAR
        )
        if lane not in used or not used <= extents.keys() or again < _READ_AGAIN:
            continue
        operand = _operand(k, node, load, lane, extents)
        if operand is not None and operand.nbytes >= least_bytes:
            found.append(operand)
    return found


def _axis_extents(block: Block) -> dict[Var, int] | None:
    extents = {}
    for axis in block.iter_vars:
        if axis.dom is None or not isinstance(axis.dom.extent, IntImm):
            return None
        extents[axis.var] = axis.dom.extent.value
    return extents


def _operand(
    read: int, block: Block, load: BufferLoad, lane: Var, extents: dict[Var, int]
) -> Packable | None:
    """Return a load as an operand to pack; None where a copy is no better.

    Where each index depends on an axis of its own, the copy has what is read and nothing between
    it, with the axis of the vectors last. Where windows overlap, elements that several of them
    share are copied once, and what is gained is that lanes lie together that were apart.
    """
    used = [collect_vars(index) for index in load.indices]
    axes = [axis for of_index in used for axis in of_index]
    size = load.buffer.dtype.nbytes
    if len(set(axes)) == len(axes) == len(load.indices):
        nbytes = math.prod(extents[axis] for axis in axes) * size
        if axes[-1] is lane and load.indices[-1] is lane:
            return Packable(read, None, None, nbytes)
        order = [axis for axis in axes if axis is not lane] + [lane]
        return Packable(read, IndexMap([axis.var for axis in block.iter_vars], order), None, nbytes)
    dims = [dim for dim, of_index in enumerate(used) if lane in of_index]
    steps = [coefficients(load.indices[dim]).step(lane) for dim in dims]
    shape = [n.value for n in load.buffer.shape if isinstance(n, IntImm)]
    if len(dims) > 1 or steps[0] is None or steps[0] < 2 or len(shape) < len(load.indices):
        return None
    return Packable(read, None, (dims[0], steps[0]), math.prod(shape) * size)


@dataclass(frozen=True, slots=True)
class Digit:
    """A part of an index: `index % whole // step`, where `whole` is the step of a slower digit.

    `whole` is None for the slowest digit of an index.
    """

    dim: int
    step: int
    whole: int | None
    depth: int
    """The place of the loop that moves it, from outside; -1 where none does."""


@dataclass(frozen=True, slots=True)
class PanelLayout:
    """The digits of a layout, slowest first."""

    digits: tuple[Digit, ...]
    index_map: IndexMap


def panel_layout(block: StmtSRef, load: BufferLoad) -> PanelLayout | None:
    """Return the layout that follows the loops around a block; None for a shape that is not fixed.

    Each index is taken apart into the digits that the loops count: loops over panels of 16 columns
    and over a column of each make `j // 16` and `j % 16`. They become the dimensions, in the order
    of the loops. Digits that follow one another stay together. Where a tile does not divide its
    loop, the last panel is as long as the others; nobody reads what is beyond the end. An index
    that loops reach in several ways, a row `h + kh` of an image, stays whole at the place of the
    innermost.
    """
    shape = [n.value for n in load.buffer.shape if isinstance(n, IntImm)]
    if len(shape) < len(load.buffer.shape) or load.buffer.strides or 0 in shape:
        return None
    loops = [sref.loop for sref in loops_above(block)]
    depth = {loop.loop_var: k for k, loop in enumerate(loops)}
    analyzer = Analyzer()
    for loop in loops:
        analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
    realize = block.block_realize
    values = {
        axis.var: coefficients(value)
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
    }
    has_tails = not is_const_int(realize.predicate, 1)
    digits: list[Digit] = []
    for dim, index in enumerate(load.indices):
        position = coefficients(index).substituted(values)
        terms = [_Term.of(term, step, depth, analyzer) for term, step in _terms(position)]
        terms = [term for term in terms if term.extent != 1]
        steps = None if position.constant else _steps(terms, has_tails=has_tails)
        if steps is None:
            steps = [(max((term.depth for term in terms), default=-1), 1)]
        elif not steps or steps[-1][1] != 1:
            steps = [*steps, (-1, 1)]
        whole: int | None = None
        for place, step in steps:
            digits.append(Digit(dim, step, whole, place))
            whole = step
    digits.sort(key=lambda digit: (digit.depth, digit.dim))
    joined = digits[:1]
    for digit in digits[1:]:
        last = joined[-1]
        if last.dim == digit.dim and last.step == digit.whole:
            joined[-1] = Digit(digit.dim, digit.step, last.whole, digit.depth)
        else:
            joined.append(digit)
    return PanelLayout(tuple(joined), _index_map(load, joined))


@dataclass(frozen=True, slots=True)
class _Term:
    """A loop, or a quotient or remainder of a fused one, that moves an index."""

    step: int
    depth: int
    extent: int | None
    """The number of its values from 0 on; None if it has others."""

    @staticmethod
    def of(term: PrimExpr, step: int, depth: dict[Var, int], analyzer: Analyzer) -> _Term:
        place = max((depth.get(var, -1) for var in collect_vars(term)), default=-1)
        bound = analyzer.const_int_bound(term)
        starts = bound.min_value == 0
        return _Term(step, place, bound.max_value + 1 if starts else None)


def _terms(position: Coefficients) -> list[tuple[PrimExpr, int]]:
    return [(term, step) for term, step in (*position.of.items(), *position.parts) if step]


def _steps(terms: Sequence[_Term], *, has_tails: bool) -> list[tuple[int, int]] | None:
    """Return the places of the loops that an index counts and their steps, slowest first.

    None unless each step is what the loops inside cover, up to a tail.
    """
    moving = sorted(terms, key=lambda term: (-term.step, term.depth))
    covered = inner = 1
    for term in reversed(moving):
        if term.step < 0 or term.extent is None:
            return None
        beyond = covered - term.step
        if beyond > 0 and not (has_tails and beyond < inner):
            return None
        covered = (term.extent - 1) * term.step + min(covered, term.step)
        inner = term.step
    steps: list[tuple[int, int]] = []
    for k, term in enumerate(moving):
        if steps and steps[-1][1] % term.step != 0:
            # Panels of blocks that they do not divide: a block is a panel.
            return [*steps, (max(inside.depth for inside in moving[k:]), 1)]
        steps.append((term.depth, term.step))
    return steps


def _index_map(load: BufferLoad, digits: Sequence[Digit]) -> IndexMap:
    indices = [Var(f"i{k}", n.dtype) for k, n in enumerate(load.buffer.shape)]
    analyzer = Analyzer()
    rest: list[PrimExpr] = list(indices)
    for index, extent in zip(indices, load.buffer.shape, strict=True):
        analyzer.bind(index, Range(extent))
    final: dict[Digit, PrimExpr] = {}
    for digit in sorted(digits, key=lambda digit: -digit.step):
        value = rest[digit.dim]
        final[digit] = analyzer.simplify(value // digit.step)
        rest[digit.dim] = value % digit.step
    return IndexMap(indices, [final[digit] for digit in digits])
