"""A schedule to be measured."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from search.measuring.remove_layout_rewrite import without_layout_rewrite

if TYPE_CHECKING:
    from schedule import Schedule
    from search.arg_info import ArgInfo
    from search.spaces.design_space import Decisions
    from tensorir.function import IRModule


class MeasureCandidate:
    """A complete schedule (postprocessed) and the arguments that its program takes.

    The schedule is not changed any more once it is a candidate. `space_index` and `decisions` say
    which point of which design space it is; both are None where it is none of them or that is not
    known. `predicted` is the score that the cost model gave it, None without one.
    """

    def __init__(
        self,
        sch: Schedule,
        args_info: Sequence[ArgInfo],
        *,
        space_index: int | None = None,
        decisions: Decisions | None = None,
        predicted: float | None = None,
    ) -> None:
        self.sch = sch
        self.args_info = list(args_info)
        self.space_index = space_index
        self.decisions = decisions
        self.predicted = predicted

    @property
    def mod(self) -> IRModule:
        """The scheduled program."""
        return self.sch.mod

    @cached_property
    def measured_mod(self) -> IRModule:
        """The program that is timed: without the blocks that rewrite the layout of weights."""
        return without_layout_rewrite(self.sch.mod)

    def __repr__(self) -> str:
        return f"MeasureCandidate({len(self.sch.trace.insts)} instructions)"


def described(candidates: Sequence[MeasureCandidate]) -> str:
    """Return a text on candidates for an error: their number, and the trace of each."""
    traces = "\n".join(f"# candidate {k}\n{c.sch.trace}" for k, c in enumerate(candidates))
    return f"{len(candidates)} candidate(s)\n{traces}"
