"""The inner loops of a block that walk through memory without a gap."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.sref import StmtSRef
from tensorir.arith.coefficients import Coefficients, coefficients
from tensorir.nodes.buffer import BufferRegion
from tensorir.nodes.expr import IntImm, Var


def max_fusible(block: StmtSRef, loops: Sequence[StmtSRef]) -> int:
    """Return how many of the innermost loops could be one loop with the same order of accesses.

    That is the minimum over all accesses: counted from inside, a loop must step over exactly what
    the loop inside it covers, or not move at all.
    """
    realize = block.block_realize
    node = realize.block
    values = {
        axis.var: coefficients(value)
        for axis, value in zip(node.iter_vars, realize.iter_values, strict=True)
    }
    regions = dict.fromkeys((*node.reads, *node.writes))
    return min((_fusible(region, values, loops) for region in regions), default=0)


def _fusible(
    region: BufferRegion, values: dict[Var, Coefficients], loops: Sequence[StmtSRef]
) -> int:
    strides = _strides(region, values)
    count = 0
    expected: int | None = None
    for sref in reversed(loops):
        loop = sref.loop
        stride = strides.get(loop.loop_var, 0)
        if stride != 0:
            if expected is None:
                if stride != 1 and count != 0:
                    break
            elif stride != expected:
                break
            extent = loop.extent
            expected = stride * extent.value if isinstance(extent, IntImm) else -1
        count += 1
    return count


def _strides(region: BufferRegion, values: dict[Var, Coefficients]) -> dict[Var, int]:
    """Return how far each loop variable moves through the buffer, in elements."""
    strides: dict[Var, int] = {}
    size = 1
    for r, extent in zip(reversed(region.region), reversed(region.buffer.shape), strict=True):
        for var, factor in coefficients(r.min).substituted(values).of.items():
            if factor != 0:
                strides.setdefault(var, factor * size)
        size *= extent.value if isinstance(extent, IntImm) else 0
    return strides
