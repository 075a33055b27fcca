"""The design spaces of a program, to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search.context import TuneContext
from search.errors import TuningError
from search.spaces.design_space import DesignSpace

if TYPE_CHECKING:
    from codegen import Target
    from search.space_generator.space_generator import SpaceArg
    from tensorir.function import IRModule, PrimFunc


def design_spaces(
    mod: IRModule | PrimFunc,
    target: str | Target,
    space: SpaceArg = "post-order-apply",
    seed: int = 1,
) -> list[DesignSpace]:
    """Return the design spaces that a search of a program has, each with its points.

    `space` is what `tune_tir` takes; `seed` determines the decisions of the traces.
    TuningError for a module of several functions.
    """
    context = TuneContext(mod, target=target, space_generator=space, rand_state=seed)
    if context.mod is None:
        raise TuningError("design_spaces takes a program")
    schedules = context.generate_design_space()
    return [DesignSpace.of(sch, index, context.mod) for index, sch in enumerate(schedules)]
