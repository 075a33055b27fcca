"""A primitive that lives outside the package works like those inside."""

from __future__ import annotations

import json

from schedule import InstructionKind, Schedule, Trace, primitive
from schedule.instruction import LoopArg, Number, Sampled
from schedule.random_state import RandomState
from schedule.state import ScheduleState
from tensorir import For, assert_structural_equal, parse

PROGRAM = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
"""


@primitive("MarkHot")
def mark_hot(state, loop: LoopArg, weight: int = 1) -> None:
    """Annotate a loop as hot."""
    old = loop.loop
    state.replace(loop, old.with_(annotations={**old.annotations, "hot": weight}))


def test_user_defined_primitive_prints_and_replays():
    func = parse(PROGRAM)
    sch = Schedule(func)
    (loop,) = sch.get_loops(sch.get_block("B"))
    sch.mark_hot(loop, weight=3)
    assert 'T.serial(8, annotations={"hot": 3})' in sch.mod.script()
    assert sch.trace.as_python()[-1] == "sch.mark_hot(loop=l1, weight=3)"
    stored = json.dumps(sch.trace.as_json())
    again = Schedule(func)
    Trace.from_json(json.loads(stored)).apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)
    assert InstructionKind.get("MarkHot").summary == "Annotate a loop as hot."


@primitive("SampleDivisor", pure=True)
def sample_divisor(
    state: ScheduleState, loop: LoopArg, *, rng: RandomState, decision: int | None = None
) -> Number:
    """Choose a divisor of a loop's extent."""
    extent = int(loop.loop.extent)
    divisors = [d for d in range(1, extent + 1) if extent % d == 0]
    if decision not in divisors:
        decision = divisors[rng.uniform_int(0, len(divisors))]
    return Sampled(decision, decision)


def test_user_defined_sampling_is_decided_anew():
    func = parse(PROGRAM)
    sch = Schedule(func, seed=1)
    (loop,) = sch.get_loops(sch.get_block("B"))
    sch.split(loop, [None, sch.sample_divisor(loop, decision=2)])
    assert "v2 = sch.sample_divisor(loop=l1, decision=2)" in sch.trace.as_python()
    assert sch.trace.as_json()[1] == [[2, 2]]
    sampling = sch.trace.insts[2]
    mutated = Schedule(func)
    sch.trace.with_decision(sampling, 8, False).apply_to_schedule(mutated, remove_postproc=False)
    assert [int(lp.extent) for lp in loops_of(mutated)] == [1, 8]
    drawn = set()
    for _ in range(30):
        fresh = Schedule(func, seed=sch.fork_seed())
        sch.trace.apply_to_schedule(
            fresh, False, decision_provider=lambda inst, inputs, attrs, decision: None
        )
        drawn.add(fresh.trace.decisions[fresh.trace.insts[2]])
    assert drawn == {1, 2, 4, 8}


def loops_of(sch: Schedule) -> list[For]:
    return [sch.get(loop) for loop in sch.get_loops(sch.get_block("B"))]
