"""Random steps: the program computes the right thing, or a step is refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansor_programs import Program, matmul_relu, softmax
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import Schedule
from search.auto_scheduler import State, StepError

Draw = Callable[[st.SearchStrategy[Any]], Any]

# Extents that lengths do not divide, and one that is smaller than most lengths.
MATMUL = matmul_relu(6, 9, 8)
SOFTMAX = softmax(3, 10)


def drawn_step(draw: Draw, state: State) -> list[Any]:
    """Return a step that could be taken, though it may still be refused."""
    computed = [k for k, stage in enumerate(state.stages) if not stage.is_placeholder]
    index = draw(st.sampled_from(computed))
    stage = state.stages[index]
    count = len(stage.iters)
    loop = draw(st.integers(0, count - 1))
    code = draw(st.sampled_from(["SP", "SP", "FSP", "FU", "RE", "AN", "PR", "CA", "CA", *_ONCE]))
    if code == "SP":
        lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=2))
        return [code, index, loop, 0, lengths, draw(st.integers(0, 1))]
    if code == "FSP":
        splits = [k for k, step in enumerate(state.transform_steps) if step.code == "SP"]
        return [code, index, loop, draw(st.sampled_from(splits or [0])), draw(st.integers(1, 2))]
    if code == "FU":
        return [code, index, list(range(loop, draw(st.integers(loop, count - 1)) + 1))]
    if code == "RE":
        return [code, index, draw(st.permutations(range(count)))]
    if code == "AN":
        return [code, index, loop, draw(st.integers(1, 3))]
    if code == "PR":
        return [code, index, loop, "auto_unroll_max_step$16"]
    if code == "CA":
        target = draw(st.sampled_from(computed))
        return [code, index, target, draw(st.integers(0, len(state.stages[target].iters) - 1))]
    if code == "CHR":
        return [code, draw(st.integers(0, index)), "local", [index]]
    if code == "RF":
        return [code, index, loop, draw(st.integers(-1, 2))]
    return [code, index, "local"] if code == "CHW" else [code, index]


_ONCE = ["CI", "CHR", "CHW", "RF"]


def drawn_state(draw: Draw, program: Program) -> State:
    """Return a state after a few steps; those that it does not take are left out."""
    state = program.dag.init_state()
    for _ in range(draw(st.integers(1, 12))):
        try:
            state = state.then(drawn_step(draw, state))
        except StepError:
            continue
    return state


@given(st.data(), st.sampled_from([MATMUL, SOFTMAX]))
@settings(max_examples=40)
def test_random_steps_keep_the_meaning(data: st.DataObject, program: Program) -> None:
    state = drawn_state(data.draw, program)
    steps = [step.as_json() for step in state.transform_steps]
    assert program.dag.state(steps) == state
    sch, refusal = schedule_or_refusal(program, state)
    if sch is None:
        assert refusal.startswith("step ")
        return
    program.check_results(sch)
    for drawn, bound in zip(state.stages, program.dag.infer_bound(state).stages, strict=True):
        assert [it.name for it in drawn.iters] == [it.name for it in bound.iters]


def schedule_or_refusal(program: Program, state: State) -> tuple[Schedule | None, str]:
    """Return the schedule of a state, or what is said against it."""
    try:
        return program.dag.schedule(state), ""
    except StepError as error:
        return None, str(error)
