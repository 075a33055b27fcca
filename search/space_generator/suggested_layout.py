"""The layouts of a buffer in which a loop nest reads it exactly or nearly in memory order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schedule.analysis.bindings import loop_domain
from schedule.sref import StmtSRef, loops_above
from tensorir.arith import Analyzer, detect_iter_map
from tensorir.arith.iter_term import IterSumExpr
from tensorir.indices.accesses import Bindings
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import const, is_const_int
from tensorir.nodes.stmt import Block, Stmt
from tensorir.rewriting.visit import collect_vars, pre_order_visit, substitute


def last_read(blocks: Iterable[StmtSRef], buffer: Buffer) -> tuple[StmtSRef, BufferLoad] | None:
    """Return the last load of a buffer in some blocks, with its block; None without loads.

    The root block is ignored, and a load counts for the innermost block around it only.
    """
    found: tuple[StmtSRef, BufferLoad] | None = None
    for sref in blocks:
        if sref.parent is not None and read_index(sref, buffer) is not None:
            for load in _loads(sref.block.body):
                if load.buffer is buffer:
                    found = (sref, load)
    return found


def read_index(block: StmtSRef, buffer: Buffer) -> int | None:
    """Return the index of a buffer among the regions that a block reads; None if it is not read."""
    reads = (region.buffer for region in block.block.reads)
    return next((k for k, read in enumerate(reads) if read is buffer), None)


def _loads(body: Stmt) -> list[BufferLoad]:
    """Return the loads in a block's body, without those in nested blocks."""
    loads: list[BufferLoad] = []

    def visit(node: Node) -> bool:
        if isinstance(node, BufferLoad):
            loads.append(node)
        return not isinstance(node, Block)

    pre_order_visit(body, visit)
    return loads


def _index_vars(buffer: Buffer) -> tuple[list[Var], Analyzer]:
    """Return variables for the indices of a buffer, and an analyzer with their ranges."""
    indices = [Var(f"i{k}", n.dtype) for k, n in enumerate(buffer.shape)]
    analyzer = Analyzer()
    for index, length in zip(indices, buffer.shape, strict=True):
        analyzer.bind(index, Range(length))
    return indices, analyzer


def _fixed_shape(buffer: Buffer) -> list[int] | None:
    """Return the extents of a buffer; None if one is not constant or 0, or it has strides."""
    shape = [n.value for n in buffer.shape if isinstance(n, IntImm) and n.value]
    return None if len(shape) != len(buffer.shape) or buffer.strides else shape


def _depths(block: StmtSRef) -> dict[Var, int]:
    return {sref.loop.loop_var: k for k, sref in enumerate(loops_above(block))}


# -------------------------------------------------------------------------- whole arrays as one row


@dataclass(frozen=True, slots=True)
class _Piece:
    """The part `variable // lower_factor % extent * scale` of a flat position."""

    variable: Var
    lower_factor: int
    extent: int
    scale: int


def suggested_layout(block: StmtSRef, load: BufferLoad) -> IndexMap | None:
    """Return the map under which a load in a block follows the order of the loops around it.

    The flat row-major position of an element is split into its pieces of loop variables. They
    become the dimensions, in the order of the loops: a weight `B[k, n]` of a tiled matmul gets the
    layout `(k // k1, n // n1, k % k1, n % n1)`. None for a position without such pieces, or if the
    loops do not visit every element.
    """
    shape = _fixed_shape(load.buffer)
    if shape is None:
        return None
    realize = block.block_realize
    axes = (axis.var for axis in realize.block.iter_vars)
    bindings = dict(zip(axes, realize.iter_values, strict=True))
    position = _flat([substitute(index, bindings) for index in load.indices], shape)
    found = detect_iter_map([position], loop_domain(loops_above(block)), realize.predicate)
    pieces = _pieces(found.indices[0]) if found.indices else None
    if not pieces or math.prod(piece.extent for piece in pieces) != math.prod(shape):
        return None
    depth = _depths(block)
    order = sorted(pieces, key=lambda piece: (depth[piece.variable], -piece.lower_factor))
    indices, analyzer = _index_vars(load.buffer)
    flat = _flat(indices, shape)
    return IndexMap(indices, [analyzer.simplify(flat // p.scale % p.extent) for p in order])


def _flat(indices: Sequence[PrimExpr], shape: Sequence[int]) -> PrimExpr:
    """Return the row-major position of an element, in elements."""
    position: PrimExpr = const(0, indices[0].dtype) if indices else const(0, "int32")
    for index, extent in zip(indices, shape, strict=True):
        position = position * extent + index
    return position


def _pieces(position: IterSumExpr) -> list[_Piece] | None:
    """Return the pieces of loop variables that make up a position, slowest first.

    None unless the step of each piece equals the extent of all faster pieces together.
    """
    pieces = _of_variables(position, 1)
    if pieces is None:
        return None
    pieces.sort(key=lambda piece: -piece.scale)
    covered = 1
    for piece in reversed(pieces):
        if piece.scale != covered:
            return None
        covered *= piece.extent
    return pieces


def _of_variables(total: IterSumExpr, scale: int) -> list[_Piece] | None:
    """Return the terms of a sum, with nested sums expanded; None if a factor is not constant."""
    terms: list[_Piece] = []
    for term in total.args:
        mark, lower, extent, step = term.source, term.lower_factor, term.extent, term.scale
        if not (isinstance(lower, int) and isinstance(extent, int) and isinstance(step, int)):
            return None
        if isinstance(mark.source, Var):
            terms.append(_Piece(mark.source, lower, extent, step * scale))
            continue
        if lower != 1 or extent != mark.extent:
            return None
        inner = _of_variables(mark.source, step * scale)
        if inner is None:
            return None
        terms += inner
    return terms


# ------------------------------------------------------------------------------ index by index


@dataclass(frozen=True, slots=True)
class Digit:
    """The part `index % whole // step` of an index; `whole` is the step of the next slower digit.

    `whole` is None for the slowest digit of an index.
    """

    dim: int
    step: int
    whole: int | None
    depth: int
    """The position of the loop that moves the digit, 0 for the outermost; -1 for a constant."""


@dataclass(frozen=True, slots=True)
class PanelLayout:
    """A layout, given by its digits, slowest first, and as a map of indices."""

    digits: tuple[Digit, ...]
    index_map: IndexMap


def panel_layout(block: StmtSRef, load: BufferLoad) -> PanelLayout | None:
    """Return the layout that follows the loops around a block; None for a shape that is not fixed.

    Each index is split into the digits that the loops count: a loop over panels of 16 columns and
    a loop over the columns of a panel give `j // 16` and `j % 16`. The digits become the
    dimensions, in the order of the loops; consecutive digits of an index are joined. If a tile does
    not divide its loop, the last panel is padded, and the padding is never read. An index that
    depends on loops in any other way, a row `h + kh` of an image for example, stays whole, at the
    position of its innermost loop.
    """
    if _fixed_shape(load.buffer) is None:
        return None
    loops = [sref.loop for sref in loops_above(block)]
    depth = _depths(block)
    analyzer = Analyzer()
    for loop in loops:
        analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
    realize = block.block_realize
    bindings = Bindings.of(realize)
    has_tails = not is_const_int(realize.predicate, 1)
    digits: list[Digit] = []
    for dim, index in enumerate(load.indices):
        position = bindings.read(index)
        parts = [(term, step) for term, step in (*position.of.items(), *position.parts) if step]
        terms = [_Term.of(term, step, depth, analyzer) for term, step in parts]
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
    merged_digits = digits[:1]
    for digit in digits[1:]:
        last = merged_digits[-1]
        if last.dim == digit.dim and last.step == digit.whole:
            merged_digits[-1] = Digit(digit.dim, digit.step, last.whole, digit.depth)
        else:
            merged_digits.append(digit)
    return PanelLayout(tuple(merged_digits), _index_map(load, merged_digits))


@dataclass(frozen=True, slots=True)
class _Term:
    """A term of an index: a loop variable, or a quotient or remainder of a fused loop."""

    step: int
    depth: int
    extent: int | None
    """The number of its values if they start at 0, else None."""

    @staticmethod
    def of(term: PrimExpr, step: int, depth: dict[Var, int], analyzer: Analyzer) -> _Term:
        place = max((depth.get(var, -1) for var in collect_vars(term)), default=-1)
        bound = analyzer.const_int_bound(term)
        starts = bound.min_value == 0
        return _Term(step, place, bound.max_value + 1 if starts else None)


def _steps(terms: Sequence[_Term], *, has_tails: bool) -> list[tuple[int, int]] | None:
    """Return the depths and the steps of the loops that count an index, slowest first.

    None unless each step equals the range of the faster terms, up to a tail.
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
            # The panel does not divide the block around it: the block becomes the panel.
            return [*steps, (max(inside.depth for inside in moving[k:]), 1)]
        steps.append((term.depth, term.step))
    return steps


def _index_map(load: BufferLoad, digits: Sequence[Digit]) -> IndexMap:
    indices, analyzer = _index_vars(load.buffer)
    rest: list[PrimExpr] = list(indices)
    final: dict[Digit, PrimExpr] = {}
    for digit in sorted(digits, key=lambda digit: -digit.step):
        value = rest[digit.dim]
        final[digit] = analyzer.simplify(value // digit.step)
        rest[digit.dim] = value % digit.step
    return IndexMap(indices, [final[digit] for digit in digits])
