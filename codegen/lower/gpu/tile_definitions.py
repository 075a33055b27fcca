"""The comparison of an instruction of tensor cores with the loops that stand for it.

Analyses and the interpreter read the loops, hardware runs the instruction.
"""

from __future__ import annotations

from collections.abc import Sequence

from codegen.lower.thread_axes import tensor_core_of
from tensorir.arith import Analyzer
from tensorir.comparison.equal import expr_deep_equal, structural_equal
from tensorir.memory.storage_scopes import is_fragment, scope_of
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import BufferLoad, PrimExpr, Var
from tensorir.nodes.ops import add, is_const_int, mul
from tensorir.rewriting.visit import children, substitute


def is_defined_by(node: s.AttrStmt, definition: s.AttrStmt) -> bool:
    """Return True if the body of an instruction is its definition, for the tiles of its operands.

    `node` is flat: a tile has the index of its first element and the distance of its rows. The
    definition has a buffer of two dimensions for each tile, and its operands in the same order.
    """
    compared = _Comparison(_tiles(node), _tiles(definition))
    return compared.loops(node.body, definition.body)


def _tiles(node: s.AttrStmt) -> list[tuple[BufferLoad, PrimExpr]]:
    call = tensor_core_of(node)
    assert call is not None
    firsts, rows = call.args[1::2], call.args[2::2]
    return [(x, row) for x, row in zip(firsts, rows, strict=True) if isinstance(x, BufferLoad)]


class _Comparison:
    """Compares a flat body with a definition, whose variables it maps."""

    def __init__(
        self,
        tiles: Sequence[tuple[BufferLoad, PrimExpr]],
        defined: Sequence[tuple[BufferLoad, PrimExpr]],
    ) -> None:
        self._tiles = {own.buffer: tile for tile, (own, _) in zip(tiles, defined, strict=True)}
        self._variables: dict[Var, PrimExpr] = {}
        self._analyzer = Analyzer()

    def loops(self, node: s.Stmt, defined: s.Stmt) -> bool:
        """Return True for the same loops around the same store."""
        while isinstance(defined, s.For):
            if not isinstance(node, s.For) or node.kind is not s.ForKind.SERIAL:
                return False
            if not (is_const_int(node.min, 0) and expr_deep_equal(node.extent, defined.extent)):
                return False
            self._variables[defined.loop_var] = node.loop_var
            self._analyzer.bind(node.loop_var, Range(node.min, node.extent))
            node, defined = node.body, defined.body
        assert isinstance(defined, s.BufferStore)
        return (
            isinstance(node, s.BufferStore)
            and self._same_element(node.buffer, node.indices, defined.buffer, defined.indices)
            and self._same_value(node.value, defined.value)
        )

    def _same_value(self, node: PrimExpr, defined: PrimExpr) -> bool:
        if type(node) is not type(defined) or node.dtype != defined.dtype:
            return False
        if isinstance(node, BufferLoad) and isinstance(defined, BufferLoad):
            return self._same_element(node.buffer, node.indices, defined.buffer, defined.indices)
        parts = children(node), children(defined)
        if not parts[0] or len(parts[0]) != len(parts[1]):
            return structural_equal(node, defined)
        pairs = zip(*parts, strict=True)
        return all(
            isinstance(a, PrimExpr) and isinstance(b, PrimExpr) and self._same_value(a, b)
            for a, b in pairs
        )

    def _same_element(
        self,
        buffer: Buffer,
        indices: Sequence[PrimExpr],
        defined: Buffer,
        places: Sequence[PrimExpr],
    ) -> bool:
        """Return True if a flat index is that of an element of a tile, in memory of its kind."""
        first, row = self._tiles[defined]
        is_kind = scope_of(buffer.data) == scope_of(defined.data) or not (
            is_fragment(buffer.data) or is_fragment(defined.data)
        )
        if buffer.data is not first.buffer.data or buffer.dtype != defined.dtype or not is_kind:
            return False
        below, beside = (substitute(place, self._variables) for place in places)
        start, (index,) = first.indices[0], indices
        steps = add(mul(below.astype(start.dtype), row.astype(start.dtype)), beside)
        return self._analyzer.can_prove_equal(index, add(start, steps))
