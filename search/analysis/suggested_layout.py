"""The layout of a buffer in which a loop nest reads it front to back."""

from __future__ import annotations

import math
from dataclasses import dataclass

from schedule.analysis.bindings import loop_domain
from schedule.sref import StmtSRef, loops_above
from tensorir.arith import Analyzer, detect_iter_map
from tensorir.arith.iter_term import IterSumExpr
from tensorir.buffer import Buffer, Range
from tensorir.expr import BufferLoad, IntImm, PrimExpr, Var
from tensorir.index_map import IndexMap
from tensorir.ops import const
from tensorir.visit import substitute


@dataclass(frozen=True, slots=True)
class _Piece:
    """`variable // lower_factor % extent * scale`."""

    variable: Var
    lower_factor: int
    extent: int
    scale: int


def suggested_layout(block: StmtSRef, load: BufferLoad) -> IndexMap | None:
    """Return the map under which a load in a block follows the order of the loops around it.

    The position of an element, row by row, is taken apart into the pieces of loop variables that
    make it up; these become the dimensions, in the order of the loops. A weight `B[k, n]` of a
    tiled matmul gets the layout `(k // k1, n // n1, k % k1, n % n1)`, say. None where the position
    is no such sum, or the loops do not visit every element.
    """
    buffer = load.buffer
    shape = [n.value for n in buffer.shape if isinstance(n, IntImm)]
    if len(shape) != len(buffer.shape) or buffer.strides:
        return None
    realize = block.block_realize
    axes = (axis.var for axis in realize.block.iter_vars)
    bindings = dict(zip(axes, realize.iter_values, strict=True))
    loops = loops_above(block)
    position = _flat([substitute(index, bindings) for index in load.indices], shape)
    found = detect_iter_map([position], loop_domain(loops), realize.predicate)
    pieces = _pieces(found.indices[0]) if found.indices else None
    if not pieces or math.prod(piece.extent for piece in pieces) != math.prod(shape):
        return None
    depth = {sref.loop.loop_var: k for k, sref in enumerate(loops)}
    order = sorted(
        range(len(pieces)),
        key=lambda k: (depth[pieces[k].variable], -pieces[k].lower_factor),
    )
    return _split_and_permute(buffer, shape, [piece.extent for piece in pieces], order)


def _flat(indices: list[PrimExpr], shape: list[int]) -> PrimExpr:
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


def _split_and_permute(
    buffer: Buffer, shape: list[int], extents: list[int], order: list[int]
) -> IndexMap:
    """Return the map that splits a position by `extents` and puts the parts into `order`."""
    dtypes = [n.dtype for n in buffer.shape]
    indices = [Var(f"i{k}", dtype) for k, dtype in enumerate(dtypes)]
    analyzer = Analyzer()
    for index, length in zip(indices, buffer.shape, strict=True):
        analyzer.bind(index, Range(length))
    rest = _flat(list(indices), shape)
    parts: list[PrimExpr] = []
    for extent in reversed(extents):
        parts.append(analyzer.simplify(rest % extent))
        rest = rest // extent
    parts.reverse()
    return IndexMap(indices, [parts[k] for k in order])
