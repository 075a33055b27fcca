"""Sampling tiles whose inner part is a multiple of something."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.errors import ArgumentError
from schedule.instruction import LoopArg, Numbers, Sampled, primitive
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

    Raises ValueError for fewer than 1 part, or a position or factor that cannot be.
    """
    if not 0 <= partition_pos <= n or innerpart_factor < 1:
        raise ArgumentError(
            "sample_partitioned_tile",
            "partition_pos",
            f"is position {partition_pos} among {n} parts with factor {innerpart_factor}; "
            "the position is in [0, n] and the factor at least 1",
        )
    extent = loop.loop.extent
    if not isinstance(extent, IntImm) or extent.value % innerpart_factor:
        count = n if decision is None else len(decision)
        tile = [-1] + [1] * (count - 1)
    elif decision is None:
        tile = partitioned_tile(rng, extent.value, n, partition_pos, innerpart_factor)
    else:
        tile = repair_partitioned_tile(extent.value, decision, partition_pos, innerpart_factor)
    return Sampled(tile, tuple(tile))
