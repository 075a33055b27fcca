"""Traces that begin alike are replayed from a copy of what their beginnings made."""

from __future__ import annotations

import pytest

import search as ms
from schedule import Schedule
from schedule.random_state import RandomState
from search.space_generator.replays import Replays
from tensorir import workloads

TARGET = "llvm -mcpu=x86-64-v4 -num-cores=1"


@pytest.mark.parametrize(
    "mod",
    [
        workloads.create("GMM", n=16, m=16, k=16),
        workloads.create("T2D", n=1, h=4, w=4, ci=8, co=8, kernel=4, stride=2, padding=1),
    ],
    ids=["no instruction before the first decision changes the program", "some do"],
)
def test_replays_are_those_of_the_traces_alone(mod: object) -> None:
    context = ms.TuneContext(mod, target=TARGET, space_generator="post-order-apply", rand_state=1)
    assert context.mod is not None
    replays, rng = Replays(context.mod), RandomState(1)
    for space in context.points_of(context.generate_design_space()):
        for seed in (2,):
            trace = space.trace_of(space.sample(rng))
            alone = Schedule(context.mod, seed=seed, error_render_level="none")
            trace.apply_to_schedule(alone, remove_postproc=True)
            for _ in range(2):
                together = replays.replay(trace, seed)
                assert together.mod.script() == alone.mod.script()
                assert together.trace.as_json() == alone.trace.as_json()


def test_decisions_are_asked_for_anew_in_each_replay() -> None:
    context = ms.TuneContext(
        workloads.create("GMM", n=16, m=16, k=16),
        target=TARGET,
        space_generator="post-order-apply",
        rand_state=1,
    )
    assert context.mod is not None
    (space, *_) = context.points_of(context.generate_design_space())
    replays = Replays(context.mod)
    drawn = [replays.replay(space.trace, seed, lambda _: lambda *_: None) for seed in (1, 1, 2)]
    first, same, other = (space.decisions_of(sch.trace) for sch in drawn)
    assert first == same
    assert first != other
