"""A schedule to be measured, and its program without the blocks that change layouts of weights.

Such a block runs once when a model is deployed, not in every call, so it is neither timed nor a
feature for a cost model: the measured function takes the weight in its new layout. The block can
be extracted as a separate function.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tensorir.function import IRModule
from tensorir.memory.layout_rewrite import (
    layout_rewrites,
    layout_rewrites_alone,
    without_layout_rewrites,
)

if TYPE_CHECKING:
    from schedule import Schedule
    from search.arg_info import ArgInfo
    from search.space_generator.design_space import Decisions


def without_layout_rewrite(mod: IRModule) -> IRModule:
    """Return `mod` without blocks that carry the annotation `meta_schedule.layout_rewrite_preproc`.

    The parameter that such a block reads gets the layout of the buffer that it writes. Blocks that
    `layout_rewrites` does not list stay. Returns `mod` itself if it has none of these blocks.
    """
    functions = {
        name: without_layout_rewrites(func, rewrites)
        for name, func in mod.prim_funcs().items()
        if (rewrites := layout_rewrites(func))
    }
    return IRModule({**mod.functions, **functions}, mod.attrs) if functions else mod


def with_separate_layout_rewrite(mod: IRModule) -> IRModule:
    """Return `without_layout_rewrite(mod)` with functions that convert weights to the new layouts.

    The function for parameter k is called `rewritten_parameter(k)`; its arguments are the weight in
    the original layout and the result. Returns `mod` itself if no layout changes.
    """
    alone = {}
    for func in mod.prim_funcs().values():
        for rewrite in layout_rewrites(func):
            name = rewritten_parameter(rewrite.position)
            pack = layout_rewrites_alone(func, [rewrite])
            alone[name] = pack.with_attr("global_symbol", name)
    if not alone:
        return mod
    measured = without_layout_rewrite(mod)
    return IRModule({**measured.functions, **alone}, measured.attrs)


def rewritten_parameter(position: int) -> str:
    """Return the name of the function that rewrites the layout of a parameter."""
    return f"layout_rewrite_{position}"


class MeasureCandidate:
    """A complete schedule (postprocessed) and the arguments that its program takes.

    `args_info` defaults to the arguments of the program; reading it raises TuningError for
    parameters that are numbers or have symbolic shapes. The schedule must not change once it is a
    candidate. `space_index` and `decisions` are the point of a design space, None if unknown.
    `predicted` is the score of the cost model, None without one.
    """

    def __init__(
        self,
        sch: Schedule,
        args_info: Sequence[ArgInfo] | None = None,
        *,
        space_index: int | None = None,
        decisions: Decisions | None = None,
        predicted: float | None = None,
    ) -> None:
        self.sch = sch
        if args_info is not None:
            self.args_info = list(args_info)
        self.space_index = space_index
        self.decisions = decisions
        self.predicted = predicted

    @cached_property
    def args_info(self) -> list[ArgInfo]:
        """The descriptions of the arguments of the measured program."""
        from search.arg_info import ArgInfo  # noqa: PLC0415  it imports this module

        return ArgInfo.from_entry_func(self.measured_mod, remove_preproc=False)

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


def describe_candidates(candidates: Sequence[MeasureCandidate]) -> str:
    """Return a text on candidates for an error: their number, and the trace of each."""
    traces = "\n".join(f"# candidate {k}\n{c.sch.trace}" for k, c in enumerate(candidates))
    return f"{len(candidates)} candidate(s)\n{traces}"
