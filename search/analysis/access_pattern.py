"""The places a block reads relative to those it writes, and how much of them is read again."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from schedule.sref import StmtSRef
from tensorir.nodes.buffer import BufferRegion
from tensorir.nodes.expr import Add, IntImm, IterVar, PrimExpr, Sub, Var
from tensorir.nodes.ops import is_const_int
from tensorir.rewriting.visit import collect_vars


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """The relation of the dimensions of a read region to those of a written one.

    A read dimension follows a written one if it has its index, perhaps shifted by a constant; a
    read dimension at a constant index follows none.
    """

    surjective: bool
    """Every written dimension is followed."""
    injective: bool
    """None is followed twice."""
    ordered: bool
    """They are followed in their order."""
    no_const_read: bool
    no_shift_read: bool


def access_pattern(read: BufferRegion, write: BufferRegion) -> AccessPattern | None:
    """Return the pattern, None where the regions are not points of the described kind."""
    if not all(isinstance(dim.extent, IntImm) for dim in write.region):
        return None
    written = [dim.min for dim in write.region if isinstance(dim.min, Var)]
    return _followed(read, written) if len(written) == len(write.region) else None


def _followed(read: BufferRegion, written: Sequence[Var]) -> AccessPattern | None:
    """Return the relation of a read region to dimensions that are written at variables."""
    if not all(isinstance(dim.extent, IntImm) for dim in read.region):
        return None
    dimension = {var: k for k, var in enumerate(written)}
    followed: list[int] = []
    no_const = no_shift = True
    for r in read.region:
        if isinstance(r.min, IntImm):
            no_const = False
            continue
        var, shifted = _shifted_var(r.min)
        if var is None or var not in dimension:
            return None
        no_shift = no_shift and not shifted
        followed.append(dimension[var])
    counts = [followed.count(k) for k in range(len(written))]
    return AccessPattern(
        surjective=all(count >= 1 for count in counts),
        injective=all(count <= 1 for count in counts),
        ordered=all(a <= b for a, b in itertools.pairwise(followed)),
        no_const_read=no_const,
        no_shift_read=no_shift,
    )


def is_elementwise_consumer(block: StmtSRef) -> bool:
    """Say whether a block writes one buffer and reads all others in the same order of dimensions.

    Such a block (a copy, a bias, an activation) can take the place of a write cache. What it writes
    at `2 * i + j` it may read in two dimensions, at `[i, j]`.
    """
    node = block.block
    if len(node.writes) != 1:
        return False
    written = [var for dim in node.writes[0].region for var in collect_vars(dim.min)]
    patterns = [_followed(read, written) for read in node.reads]
    return all(p is not None and p.injective and p.ordered for p in patterns)


def has_data_reuse(block: StmtSRef) -> bool:
    """Say whether a read of the block leaves out a spatial axis, so that tiling makes it cheaper.

    Only reads of constant extent of distinct buffers count, and axes of extent 1 do not.
    """
    node = block.block
    if len({read.buffer for read in node.reads}) != len(node.reads):
        return False
    axes = {
        axis.var
        for axis in node.iter_vars
        if axis.iter_type == IterVar.DATA_PAR
        and not (axis.dom is not None and is_const_int(axis.dom.extent, 1))
    }
    written = {write.buffer for write in node.writes}
    unused = 0
    for read in node.reads:
        if read.buffer in written:
            continue
        if not all(isinstance(r.extent, IntImm) for r in read.region):
            return False
        used = {var for r in read.region for var in collect_vars(r.min)}
        unused += len(axes - used)
    return unused > 0


def _shifted_var(index: PrimExpr) -> tuple[Var | None, bool]:
    """Return the variable of `var`, `var + constant` or `var - constant`, and if it is shifted."""
    if isinstance(index, Var):
        return index, False
    if isinstance(index, (Add, Sub)) and isinstance(index.a, Var) and isinstance(index.b, IntImm):
        return index.a, True
    if isinstance(index, Add) and isinstance(index.b, Var) and isinstance(index.a, IntImm):
        return index.b, True
    return None, False
