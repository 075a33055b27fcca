"""Schedules of a program by the trace of one with the same structure and shorter loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search.dispatch.adapted_replay import AdaptedReplay, postprocess_like, schedule_of, space_for
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk

if TYPE_CHECKING:
    from codegen import Target
    from schedule import Schedule, Trace
    from tensorir.function import IRModule


def schedule_by_compatible(
    mod: IRModule, trace: Trace, recorded: IRModule, target: Target
) -> Schedule:
    """Return a schedule of `mod` after a trace that was recorded on a compatible program.

    Both are modules of one function; see `compatible_factor`. Tiles keep their inner parts. If the
    trace was postprocessed, the postprocessors for `target` end the schedule.

    Raises ReplayError where an instruction does not apply, or a postprocessor rejects the result.
    """
    (name,) = mod.functions
    names = dict(zip(_block_names(recorded), _block_names(mod), strict=True))
    sch = schedule_of(mod)
    AdaptedReplay(sch, name, lambda block: names.get(block, block)).apply(trace)
    postprocess_like(trace, sch, space_for(mod, target))
    return sch


def _block_names(mod: IRModule) -> list[str]:
    """Return the names of the blocks of a program in its order."""
    (func,) = mod.prim_funcs().values()
    return [node.name_hint for node in walk(func.body) if isinstance(node, Block)]
