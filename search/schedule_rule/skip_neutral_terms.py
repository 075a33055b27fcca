"""Reductions that run for the terms alone that count."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence

from schedule import BlockRV, Schedule, ScheduleError
from schedule.analysis.bindings import is_trivial_binding
from schedule.analysis.neutral_terms import period_of
from schedule.analysis.reducer import find_reduction
from search.analysis.tiling_needs import is_elementwise_consumer
from search.schedule_rule.schedule_rule import ScheduleRule
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import FloorMod, IterVar, PrimExpr, Var
from tensorir.nodes.ops import floordiv, floormod, is_const_int
from tensorir.rewriting.visit import collect_vars, walk


class SkipNeutralTerms(ScheduleRule):
    """Runs reductions only for terms that a periodic condition does not make neutral.

    A transposed convolution of stride 2, which multiplies zeros between the elements of its input,
    runs for a quarter of its terms: `skip_neutral_terms` takes half of each loop over the kernel.
    Which half depends on whether the output's row and column are even, so the loops over those
    are split by `transform_block_layout`, `h` to `h // 2` and `h % 2`, where 2 divides them. All
    indices are sums of axes then, and what follows tiles an ordinary convolution. An element-wise
    consumer gets the same loops, and the buffer between both the same dimensions.

    Zeros times infinities or NaN are left out like other zeros. There is also the design before.
    """

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the design with shorter reduction loops, if there is one, and the one before."""
        sref = sch.get_sref(block)
        has_remainder = any(isinstance(node, FloorMod) for node in walk(sref.block.body))
        if sref.block.init is None or not has_remainder or not is_trivial_binding(sref):
            return [sch]
        plain = sch.copy()
        periods: dict[Var, int] = {}
        for place, axis in enumerate(sref.block.iter_vars):
            if axis.iter_type != IterVar.COMM_REDUCE:
                continue
            with contextlib.suppress(ScheduleError):
                period = period_of(axis.var, find_reduction(sch.get_sref(block)))
                if period is not None:
                    sch.skip_neutral_terms(sch.get_loops(block)[place])
                    for var in collect_vars(period.remainder):
                        periods[var] = math.lcm(periods.get(var, 1), period.modulus)
        if not periods:
            return [plain]
        _split(sch, block, periods)
        return [sch, plain]


def _split(sch: Schedule, block: BlockRV, periods: Mapping[Var, int]) -> None:
    """Split the axes of a block by periods that divide them, and what follows it likewise."""
    node = sch.get(block)
    axes = [axis.var for axis in node.iter_vars]
    divided = {
        axis.var: periods[axis.var]
        for axis in node.iter_vars
        if axis.var in periods and _divides(periods[axis.var], axis)
    }
    if not divided:
        return
    with contextlib.suppress(ScheduleError):
        sch.transform_block_layout(block, _parted(axes, divided))
        _split_consumer(sch, block, [dim.min for dim in node.writes[0].region], divided)


def _divides(period: int, axis: IterVar) -> bool:
    return axis.dom is not None and is_const_int(axis.dom.extent % period, 0)


def _split_consumer(
    sch: Schedule, block: BlockRV, written: Sequence[PrimExpr], periods: Mapping[Var, int]
) -> None:
    """Split the dimensions of the result, and the axes of an element-wise consumer.

    Tiles of the block are boxes of these dimensions, so that the consumer can be computed there.
    """
    consumers = sch.get_consumers(block)
    places = [index for index in written if isinstance(index, Var)]
    if len(consumers) != 1 or len(places) < len(written):
        return
    axes = [axis.var for axis in sch.get(consumers[0]).iter_vars]
    if not is_elementwise_consumer(sch.get_sref(consumers[0])) or len(axes) != len(places):
        return
    sch.transform_layout(block, ("write", 0), _parted(places, periods))
    same = {a: periods[place] for a, place in zip(axes, places, strict=True) if place in periods}
    sch.transform_block_layout(consumers[0], _parted(axes, same))


def _parted(places: Sequence[Var], periods: Mapping[Var, int]) -> IndexMap:
    """Return the map to quotients and remainders by the periods of some of the variables."""
    indices: list[PrimExpr] = []
    for var in places:
        if var in periods:
            indices += [floordiv(var, periods[var]), floormod(var, periods[var])]
        else:
            indices.append(var)
    return IndexMap(list(places), indices)
