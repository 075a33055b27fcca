"""The bytes of tensors of symbolic shape: a number of times what the sizes make of it.

Tensors of shapes (n, 64) and (n, 256) have 256 and 1024 bytes for each n, so that they are packed
like tensors of so many bytes, in units of n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tensorir.memory.alignment import ALIGNMENT
from tensorir.nodes import ops
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import IntImm, Mul, PrimExpr, Var
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.rewriting.visit import collect_vars

Unit: TypeAlias = tuple[tuple[str, tuple[Var, ...]], ...]
"""The identity of a unit: its factors as text, and the variables of the names."""


@dataclass(frozen=True, slots=True)
class TensorBytes:
    """`count` times the product of `factors`, which are extents that are not known."""

    count: int
    factors: tuple[PrimExpr, ...]

    @staticmethod
    def of(info: TensorStructInfo) -> TensorBytes | None:
        """Return the bytes of a tensor, None where shape or dtype are not known."""
        if info.shape is None or info.dtype is None:
            return None
        count = info.dtype.nbytes
        factors: list[PrimExpr] = []
        waiting = list(info.shape)
        while waiting:
            extent = waiting.pop()
            if isinstance(extent, IntImm):
                count *= extent.value
            elif isinstance(extent, Mul):
                waiting += [extent.a, extent.b]
            else:
                factors.append(extent)
        factors.sort(key=str)
        return TensorBytes(count, tuple(factors))

    @property
    def unit(self) -> Unit:
        """The unit; empty for bytes that are a number."""
        return tuple((str(n), tuple(collect_vars(n))) for n in self.factors)


def scaled(count: int, factors: Sequence[PrimExpr]) -> PrimExpr:
    """Return `count` times the product of some extents."""
    total: PrimExpr = ops.const(1, INT64)
    for factor in factors:
        total = ops.mul(total, factor)
    return ops.mul(total, ops.const(count, INT64))


def rounded_up(value: PrimExpr, more: int) -> PrimExpr:
    """Return the least multiple of the alignment from a value on, and so many units more."""
    unit = ops.const(ALIGNMENT, INT64)
    units = ops.floordiv(ops.add(value, ops.const(ALIGNMENT - 1, INT64)), unit)
    return ops.mul(ops.add(units, ops.const(more, INT64)), unit)
