"""Reductions that run for the terms alone that count."""

from __future__ import annotations

import contextlib
import math

from schedule import BlockRV, Schedule, ScheduleError
from schedule.analysis.bindings import is_trivial_binding
from schedule.analysis.reducer import find_reduction
from schedule.primitives.skip_neutral_terms import period_of
from search.schedule_rule.schedule_rule import ScheduleRule
from search.schedule_rule.split_axes import split_axes
from tensorir.nodes.expr import FloorMod, IterVar, Var
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
        split_axes(sch, block, periods)
        return [sch, plain]
