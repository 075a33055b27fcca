"""Sampling tiles whose inner part is a multiple of something."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.errors import ArgumentError
from schedule.instruction import LoopArg, Numbers, Sampled, primitive
from schedule.primitives.sample import checked_parts
from schedule.random_state import RandomState
from schedule.sampling import partitioned_tile, repair_partitioned_tile
from schedule.state import ScheduleState
from tensorir.expr import IntImm


@primitive("SamplePartitionedTile", pure=True)
def sample_partitioned_tile(
    state: ScheduleState,
    loop: LoopArg,
    n: int,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
    *,
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
    method = "sample_partitioned_tile"
    count = checked_parts(method, loop, n, decision)
    if innerpart_factor < 1:
        reason = f"is {innerpart_factor}; a factor is at least 1"
        raise ArgumentError(method, "innerpart_factor", reason)
    last = count if innerpart_factor == 1 else count - 1
    if not 0 <= partition_pos <= last:
        reason = f"is {partition_pos}; with {count} parts and this factor it is in [0, {last}]"
        raise ArgumentError(method, "partition_pos", reason)
    extent = loop.loop.extent
    if not isinstance(extent, IntImm) or extent.value % innerpart_factor:
        tile = [-1] + [1] * (count - 1)
    elif decision is None:
        tile = partitioned_tile(rng, extent.value, n, partition_pos, innerpart_factor)
    else:
        tile = repair_partitioned_tile(extent.value, decision, partition_pos, innerpart_factor)
    return Sampled(tile, tuple(tile))
