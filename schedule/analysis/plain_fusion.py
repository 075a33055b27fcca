"""Fusing the loops around blocks whose axes plainly count through them.

Nearly all fused loops are of this kind. The result is what substituting the loop variables and
simplifying the bindings gives, without the analysis that the general way needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorir.arith.mixed_radix import mixed_radix
from tensorir.expr import Add, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Var
from tensorir.ops import is_const_int
from tensorir.stmt import BlockRealize, For, SeqStmt, Stmt, sequence


class PlainFusion:
    """Loops of constant extents, outermost first, that become one loop over `fused`.

    With `keep_unit` other loops of extent 1 stay visible in the bindings.
    """

    def __init__(self, loops: Sequence[For], fused: Var, keep_unit: bool) -> None:
        self._fused = fused
        self._keep_unit = keep_unit
        self._pieces: dict[Var, _Piece] = {}
        inner = 1
        for loop in reversed(loops):
            assert type(loop.extent) is IntImm
            self._pieces[loop.loop_var] = _Piece(inner, loop.extent.value, 1)
            inner *= loop.extent.value
        self._extent = inner

    def body(self, stmt: Stmt, loops: Mapping[Var, For]) -> Stmt | None:
        """Return the body of the innermost loop with the bindings that its blocks get.

        `loops` are those around it. None unless there are only loops of constant ranges and blocks
        whose bindings are plain to see.
        """
        if type(stmt) is For:
            if type(stmt.extent) is not IntImm or type(stmt.min) is not IntImm:
                return None
            body = self.body(stmt.body, {**loops, stmt.loop_var: stmt})
            if body is None:
                return None
            return For(
                stmt.loop_var,
                stmt.min,
                stmt.extent,
                stmt.kind,
                body,
                stmt.thread_binding,
                stmt.annotations,
            )
        if type(stmt) is SeqStmt:
            parts = [self.body(part, loops) for part in stmt.seq]
            return None if any(part is None for part in parts) else sequence(parts)
        if type(stmt) is not BlockRealize or not stmt.block.iter_vars:
            return None
        if not is_const_int(stmt.predicate, 1):
            return None
        values = self._values(stmt.iter_values, loops)
        return None if values is None else BlockRealize(values, stmt.predicate, stmt.block)

    def _values(
        self, bindings: Sequence[PrimExpr], loops: Mapping[Var, For]
    ) -> list[PrimExpr] | None:
        found = mixed_radix(bindings, loops, self._keep_unit)
        if found is None:
            return None
        values: list[PrimExpr] = []
        for binding, digits in zip(bindings, found, strict=True):
            if binding.dtype is not self._fused.dtype:
                return None
            terms: list[tuple[Var, int] | _Piece] = []
            before: _Piece | None = None
            for var, scale in digits:
                piece = self._pieces.get(var)
                if piece is None:
                    terms.append((var, scale))
                    continue
                if piece.extent == 1:
                    continue
                piece = _Piece(piece.inner, piece.extent, scale)
                if before is not None and before.inner == piece.inner * piece.extent:
                    if terms.pop() is not before:
                        # Loops of one value stand between two pieces that are one.
                        return None
                    piece = _Piece(piece.inner, before.extent * piece.extent, scale)
                terms.append(piece)
                before = piece
            values.append(self._written(terms, binding))
        return values

    def _written(self, terms: Sequence[tuple[Var, int] | _Piece], binding: PrimExpr) -> PrimExpr:
        dtype = self._fused.dtype
        result: PrimExpr | None = None
        for found in terms:
            if isinstance(found, _Piece):
                term, scale = self._piece(found), found.scale
            else:
                term, scale = found
            if scale != 1:
                term = Mul(term, IntImm(dtype, scale))
            result = term if result is None else Add(result, term)
        return IntImm(dtype, 0) if result is None else result

    def _piece(self, piece: _Piece) -> PrimExpr:
        dtype = self._fused.dtype
        value: PrimExpr = self._fused
        end = piece.inner * piece.extent
        if end < self._extent:
            value = FloorMod(value, IntImm(dtype, end))
        return value if piece.inner == 1 else FloorDiv(value, IntImm(dtype, piece.inner))


@dataclass(slots=True)
class _Piece:
    """The term `(fused // inner) % extent * scale`."""

    inner: int
    extent: int
    scale: int
