"""Sampling tiles whose inner part is a multiple of something."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.errors import ArgumentError
from schedule.instruction import LoopArg, Numbers, Sampled, primitive
from schedule.primitives.sample import check_parts, constant_extent
from schedule.random_state import RandomState
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from schedule.tile_domain import InferredTileDomain, PartitionedTileDomain


def partitioned_tile_domain(
    state: ScheduleState,
    loop: StmtSRef,
    n: int,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
) -> PartitionedTileDomain | InferredTileDomain:
    """Return the tiles of a loop; ArgumentError for a factor that cannot be, or no iterations."""
    extent = constant_extent("sample_partitioned_tile", loop)
    if innerpart_factor < 1:
        reason = f"is {innerpart_factor}; a factor must be at least 1"
        raise ArgumentError("sample_partitioned_tile", "innerpart_factor", reason)
    if extent is None or extent % innerpart_factor:
        return InferredTileDomain(n)
    return PartitionedTileDomain(extent, n, partition_pos, innerpart_factor)


@primitive("SamplePartitionedTile", pure=True, domain=partitioned_tile_domain)
def sample_partitioned_tile(
    state: ScheduleState,
    loop: LoopArg,
    n: int,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
    *,
    domain: PartitionedTileDomain | InferredTileDomain,
    rng: RandomState,
    decision: Sequence[int] | None = None,
) -> Numbers:
    """Choose `n` factors of a loop's extent, the inner ones a multiple of `innerpart_factor`.

    The product of the factors from `partition_pos` on is that multiple. The decision is the list of
    factors; one that does not fit is repaired. For an extent that is not constant, or no multiple
    of `innerpart_factor`, the first factor is -1 and the others are 1.

    Raises ArgumentError unless there are 1 to 64 parts (those of the decision, if there is one) and
    the position and the factor can be; also for a loop without iterations.
    """
    count = check_parts("sample_partitioned_tile", n, decision)
    last = count if innerpart_factor == 1 else count - 1
    if not 0 <= partition_pos <= last:
        reason = f"is {partition_pos}; with {count} parts and this factor it must be in [0, {last}]"
        raise ArgumentError("sample_partitioned_tile", "partition_pos", reason)
    tile = domain.decide(rng, decision)
    assert isinstance(tile, tuple)
    return Sampled(list(tile), tile)
