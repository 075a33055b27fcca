"""Solving affine index maps for their iterators."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.arith.iter_term import IterMark, IterSplitExpr, IterSumExpr
from tensorir.arith.linear import Linear
from tensorir.arith.linearize import Linearizer
from tensorir.arith.size import size_expr
from tensorir.errors import IRValueError
from tensorir.nodes.expr import GE, LT, PrimExpr, Var
from tensorir.nodes.ops import FALSE, add, floordiv, floormod, logical_or, mul, sub


def inverse_affine_iter_map(
    iter_map: Sequence[IterSumExpr], outputs: Sequence[PrimExpr], linearizer: Linearizer
) -> dict[Var, PrimExpr]:
    """Return the value of each iterator for given indices of an injective map.

    The values are propagated from the indices back to the iterators; every piece of an iterator
    adds its contribution. Raises IRValueError for a piece whose scale is not 1 or -1.
    """
    return inverse_with_padding(iter_map, outputs, linearizer)[0]


def inverse_with_padding(
    iter_map: Sequence[IterSumExpr], outputs: Sequence[PrimExpr], linearizer: Linearizer
) -> tuple[dict[Var, PrimExpr], PrimExpr]:
    """Return the inverse, and the condition for index values that no values of the iterators
    produce.

    `outputs` are assumed to be in the ranges of the map's indices; iterators that were padded for a
    division do not reach all of them.
    """
    solver = _Solver(linearizer)
    for value, output in zip(iter_map, outputs, strict=True):
        if not value.args:
            continue
        (split,) = value.args
        if split.scale not in (1, -1):
            raise IRValueError(f"an index with scale {split.scale} has no inverse")
        base = linearizer.write(value.base, output.dtype)
        shifted = sub(output, base) if split.scale == 1 else sub(base, output)
        solver.contribute(split, shifted)
    return solver.solve(), solver.padding


class _Solver:
    def __init__(self, linearizer: Linearizer) -> None:
        self._linearizer = linearizer
        self._values: dict[IterMark, PrimExpr] = {}
        self.padding: PrimExpr = FALSE
        """The condition that some iterator would be out of its range."""

    def contribute(self, split: IterSplitExpr, value: PrimExpr) -> None:
        """Add `value` times the lower factor of `split` to the value of its source iterator."""
        part = mul(value, size_expr(split.lower_factor, value.dtype))
        known = self._values.get(split.source)
        self._values[split.source] = part if known is None else add(known, part)

    def solve(self) -> dict[Var, PrimExpr]:
        """Propagate from fused iterators to their terms until only variables are left."""
        found: dict[Var, PrimExpr] = {}
        while self._values:
            mark = max(self._values, key=lambda m: m.depth)
            value = self._values.pop(mark)
            if mark.padded:
                self._add_padding_condition(GE(value, size_expr(mark.extent, value.dtype)))
            if mark.missing:
                self._add_padding_condition(LT(value, size_expr(mark.missing, value.dtype)))
            if isinstance(mark.source, IterSumExpr):
                self._unfuse(mark.source, value)
                continue
            offset = mark.offset or Linear({}, 0)
            found[mark.source] = add(value, self._linearizer.write(offset, value.dtype))
        return found

    def _add_padding_condition(self, condition: PrimExpr) -> None:
        self.padding = logical_or(self.padding, condition)

    def _unfuse(self, fused: IterSumExpr, value: PrimExpr) -> None:
        value = sub(value, self._linearizer.write(fused.base, value.dtype))
        for position, split in enumerate(fused.args):
            part = floordiv(value, size_expr(split.scale, value.dtype))
            if position:
                part = floormod(part, size_expr(split.extent, value.dtype))
            self.contribute(split, part)
