"""The layouts of a buffer in which a loop nest reads it front to back, or nearly so."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schedule.analysis.bindings import loop_domain
from schedule.sref import StmtSRef, loops_above
from tensorir.arith import Analyzer, detect_iter_map
from tensorir.arith.iter_term import IterSumExpr
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import Block, Stmt
from tensorir.rewriting.visit import collect_vars, pre_order_visit, substitute


@dataclass(frozen=True, slots=True)
class _Piece:
    """`variable // lower_factor % extent * scale`."""

    variable: Var
    lower_factor: int
    extent: int
    scale: int

    def digit(self, position: PrimExpr) -> PrimExpr:
        """Return the value of the piece at a position."""
        return position // self.scale % self.extent


def last_read(blocks: Iterable[StmtSRef], buffer: Buffer) -> tuple[StmtSRef, BufferLoad] | None:
    """Return the last load of a buffer in some blocks, with the block; None without one.

    The root block does not count, nor do loads in blocks inside another for that.
    """
    found: tuple[StmtSRef, BufferLoad] | None = None
    for sref in blocks:
        if sref.parent is not None and read_index(sref, buffer) is not None:
            for load in _loads(sref.block.body):
                if load.buffer is buffer:
                    found = (sref, load)
    return found


def read_index(block: StmtSRef, buffer: Buffer) -> int | None:
    """Return the index of a buffer among the regions that a block reads, None for none."""
    reads = (region.buffer for region in block.block.reads)
    return next((k for k, read in enumerate(reads) if read is buffer), None)


def _loads(body: Stmt) -> list[BufferLoad]:
    """Return the loads in a block's body, those in blocks inside it left out."""
    loads: list[BufferLoad] = []

    def visit(node: Node) -> bool:
        if isinstance(node, BufferLoad):
            loads.append(node)
        return not isinstance(node, Block)

    pre_order_visit(body, visit)
    return loads


def suggested_layout(block: StmtSRef, load: BufferLoad) -> IndexMap | None:
    """Return the map under which a load in a block follows the order of the loops around it.

    The position of an element, row by row, is taken apart into the pieces of loop variables that
    make it up; these become the dimensions, in the order of the loops. A weight `B[k, n]` of a
    tiled matmul gets the layout `(k // k1, n // n1, k % k1, n % n1)`, say. None where the position
    is no such sum, or the loops do not visit every element.
    """
    shape = fixed_shape(load.buffer)
    if shape is None:
        return None
    indices, analyzer = _places(load.buffer)
    position = _flat(_by_loops(block, load), shape)
    pieces = _covering(block, position, math.prod(shape))
    if not pieces:
        return None
    depth = _depths(block)
    order = sorted(pieces, key=lambda piece: (depth[piece.variable], -piece.lower_factor))
    flat = _flat(list(indices), shape)
    return IndexMap(indices, [analyzer.simplify(piece.digit(flat)) for piece in order])


def suggested_layout_of_windows(block: StmtSRef, load: BufferLoad) -> IndexMap | None:
    """Return a map under which a load follows the loops as far as whole dimensions do.

    A dimension of which the loops visit each index in pieces is taken apart into these. Any other,
    the rows `h + kh` of an image that is convolved, say, stays whole and has the place of the
    innermost loop that its index depends on. An image `X[c, h + kh, w + kw]` gets the layout
    `(c // c1, h, w, c % c1)` where `c % c1` is the innermost loop. None where the shape is not
    fixed.
    """
    shape = fixed_shape(load.buffer)
    if shape is None:
        return None
    depth = _depths(block)
    indices, analyzer = _places(load.buffer)
    parts: list[tuple[int, PrimExpr]] = []
    for index, position, extent in zip(indices, _by_loops(block, load), shape, strict=True):
        pieces = _covering(block, position, extent)
        if pieces is None:
            deepest = max((depth.get(var, -1) for var in collect_vars(position)), default=-1)
            parts.append((deepest, index))
            continue
        for piece in pieces:
            parts.append((depth[piece.variable], analyzer.simplify(piece.digit(index))))
    parts.sort(key=lambda part: part[0])
    return IndexMap(indices, [digit for _, digit in parts])


def fixed_shape(buffer: Buffer) -> list[int] | None:
    """Return the extents of a buffer; None if one is not constant or 0, or it has strides."""
    shape = [n.value for n in buffer.shape if isinstance(n, IntImm) and n.value]
    return None if len(shape) != len(buffer.shape) or buffer.strides else shape


def _places(buffer: Buffer) -> tuple[list[Var], Analyzer]:
    """Return variables for the indices of a buffer, and what knows their ranges."""
    indices = [Var(f"i{k}", n.dtype) for k, n in enumerate(buffer.shape)]
    analyzer = Analyzer()
    for index, length in zip(indices, buffer.shape, strict=True):
        analyzer.bind(index, Range(length))
    return indices, analyzer


def _by_loops(block: StmtSRef, load: BufferLoad) -> list[PrimExpr]:
    """Return the indices of a load in a block in terms of the loops around it."""
    realize = block.block_realize
    axes = (axis.var for axis in realize.block.iter_vars)
    bindings = dict(zip(axes, realize.iter_values, strict=True))
    return [substitute(index, bindings) for index in load.indices]


def _depths(block: StmtSRef) -> dict[Var, int]:
    return {sref.loop.loop_var: k for k, sref in enumerate(loops_above(block))}


def _covering(block: StmtSRef, position: PrimExpr, extent: int) -> list[_Piece] | None:
    """Return the pieces of loop variables that give each position below an extent, or None."""
    domain = loop_domain(loops_above(block))
    found = detect_iter_map([position], domain, block.block_realize.predicate)
    pieces = _pieces(found.indices[0]) if found.indices else None
    if pieces is None or math.prod(piece.extent for piece in pieces) != extent:
        return None
    return pieces


def _flat(indices: Sequence[PrimExpr], shape: Sequence[int]) -> PrimExpr:
    """Return the position of an element in memory, in elements."""
    position: PrimExpr = const(0, indices[0].dtype) if indices else const(0, "int32")
    for index, extent in zip(indices, shape, strict=True):
        position = position * extent + index
    return position


def _pieces(position: IterSumExpr) -> list[_Piece] | None:
    """Return the pieces of loop variables that a position consists of, slowest first.

    None unless each counts the positions that all after it cover together.
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
    """Return the terms of a sum, those that stand for sums themselves taken apart.

    None unless all of their factors are constant.
    """
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
