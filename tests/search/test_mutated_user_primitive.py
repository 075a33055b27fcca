"""Traces with primitives from outside the package are mutated like all others."""

from __future__ import annotations

from schedule import Schedule, primitive
from schedule.instruction import LoopArg
from schedule.random_state import RandomState
from schedule.state import ScheduleState
from search.mutator import MutateTileSize
from tests.search.programs import Matmul


@primitive("NoteLoop")
def note_loop(state: ScheduleState, loop: LoopArg, text: str) -> None:
    """Annotate a loop with a text."""
    old = loop.loop
    state.replace(loop, old.with_(annotations={**old.annotations, "note": text}))


def test_mutated_traces_keep_them():
    sch = Schedule(Matmul, seed=3)
    i, _, _ = sch.get_loops(sch.get_block("C"))
    outer, _ = sch.split(i, sch.sample_perfect_tile(i, 2, decision=[4, 32]))
    sch.note_loop(outer, "outer")
    mutator = MutateTileSize()
    mutated = mutator.apply(sch.trace, RandomState(5))
    assert mutated is not None
    assert mutated.as_json() != sch.trace.as_json()
    replayed = Schedule(Matmul)
    mutated.apply_to_schedule(replayed, remove_postproc=False)
    assert 'annotations={"note": "outer"}' in replayed.mod.script()
