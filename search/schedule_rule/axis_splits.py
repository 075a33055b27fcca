"""Rules that split axes of a block: for the groups of a convolution, and to skip neutral terms."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence

from schedule import BlockRV, Schedule, ScheduleError
from schedule.analysis.bindings import is_trivial_binding
from schedule.analysis.reducer import find_reduction
from schedule.primitives.skip_neutral_terms import period_of
from schedule.sref import StmtSRef
from search.schedule_rule.schedule_rule import ScheduleRule
from search.space_generator.tiling_needs import is_elementwise_consumer, needs_multi_level_tiling
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import FloorDiv, FloorMod, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.ops import floordiv, floormod, is_const_int
from tensorir.rewriting.visit import collect_vars, walk


class SeparateGroups(ScheduleRule):
    """Gives a grouped convolution an axis for the groups.

    Before: for o, c: Y[o] += X[o // 8 * 4 + c] * W[o, c]
    After:  for g, o, c: Y[g, o] += X[g * 4 + c] * W[g * 8 + o, c]

    Tiles of later rules are then within a group, and all lanes of a vector of outputs use the same
    element of X. An element-wise consumer gets the same axes.
    """

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the design with an axis for the groups, if there are groups."""
        sref = sch.get_sref(block)
        if sref.parent is not None and needs_multi_level_tiling(sref):
            _split_axes(sch, block, _group_sizes(sref))
        return [sch]


def _group_sizes(block: StmtSRef) -> dict[Var, int]:
    """Return the axes with quotients by constants in the indices of operands, and the constants."""
    extents = {
        axis.var: axis.dom.extent.value
        for axis in block.block.iter_vars
        if axis.iter_type == IterVar.DATA_PAR and axis.dom and isinstance(axis.dom.extent, IntImm)
    }
    found: dict[Var, int] = {}
    for part in walk(block.block.body):
        if (
            isinstance(part, FloorDiv)
            and isinstance(part.a, Var)
            and isinstance(part.b, IntImm)
            and 1 < part.b.value < extents.get(part.a, 0)
        ):
            found.setdefault(part.a, part.b.value)
    return found


class SkipNeutralTerms(ScheduleRule):
    """Skips the terms of a reduction that a periodic condition makes neutral.

    A transposed convolution of stride 2 multiplies zeros between the elements of its input. With
    `skip_neutral_terms`, which halves each loop over the kernel, it computes a quarter of its
    terms. The remaining half depends on the parity of the output's row and column, so these loops
    are split by `transform_block_layout`, `h` into `h // 2` and `h % 2`, if 2 divides them. All
    indices are then sums of axes, and later rules tile an ordinary convolution. An element-wise
    consumer gets the same loops, and the buffer between both the same dimensions.

    Skipped zeros are not multiplied by infinities or NaN. The design without the change is kept,
    too.
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
        _split_axes(sch, block, periods)
        return [sch, plain]


def _split_axes(sch: Schedule, block: BlockRV, periods: Mapping[Var, int]) -> None:
    """Split axes of a block by periods that divide them, and the consumer of the block likewise.

    Reduction axes of one step come first: they become spatial, and only the innermost spatial loop
    may become a vector.
    """
    node = sch.get(block)
    once = [axis.var for axis in node.iter_vars if _reduces_once(axis)]
    axes = [*once, *(axis.var for axis in node.iter_vars if axis.var not in once)]
    divided = {
        axis.var: periods[axis.var]
        for axis in node.iter_vars
        if axis.var in periods and axis.dom is not None
        if is_const_int(axis.dom.extent % periods[axis.var], 0)
    }
    if divided:
        with contextlib.suppress(ScheduleError):
            places = [axis.var for axis in node.iter_vars]
            split = IndexMap(places, _split_map(axes, divided).final_indices)
            sch.transform_block_layout(block, split)
            _split_consumer(sch, block, [dim.min for dim in node.writes[0].region], divided)


def _reduces_once(axis: IterVar) -> bool:
    """Return True for a reduction axis of one step."""
    is_single = axis.dom is not None and is_const_int(axis.dom.extent, 1)
    return is_single and axis.iter_type == IterVar.COMM_REDUCE


def _split_consumer(
    sch: Schedule, block: BlockRV, written: Sequence[PrimExpr], periods: Mapping[Var, int]
) -> None:
    """Split the dimensions of the result, and the axes of an element-wise consumer.

    Tiles of the block are then boxes of the result, so that the consumer can be computed there.
    """
    consumers = sch.get_consumers(block)
    places = [index for index in written if isinstance(index, Var)]
    if len(consumers) != 1 or len(places) < len(written):
        return
    axes = [axis.var for axis in sch.get(consumers[0]).iter_vars]
    if not is_elementwise_consumer(sch.get_sref(consumers[0])) or len(axes) != len(places):
        return
    sch.transform_layout(block, ("write", 0), _split_map(places, periods))
    same = {a: periods[place] for a, place in zip(axes, places, strict=True) if place in periods}
    sch.transform_block_layout(consumers[0], _split_map(axes, same))


def _split_map(places: Sequence[Var], periods: Mapping[Var, int]) -> IndexMap:
    """Return the map from variables to quotients and remainders by the periods of some of them."""
    indices: list[PrimExpr] = []
    for var in places:
        if var in periods:
            indices += [floordiv(var, periods[var]), floormod(var, periods[var])]
        else:
            indices.append(var)
    return IndexMap(list(places), indices)
