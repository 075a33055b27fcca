"""Axes of a block, and dimensions of what it writes, split into quotients and remainders."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from schedule import BlockRV, Schedule, ScheduleError
from search.space_generator.tiling_needs import is_elementwise_consumer
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import IterVar, PrimExpr, Var
from tensorir.nodes.ops import floordiv, floormod, is_const_int


def split_axes(sch: Schedule, block: BlockRV, periods: Mapping[Var, int]) -> None:
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
