"""Random steps: the program computes the right thing, or a step is refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from search.compat.auto_scheduler import StepError
from search.compat.auto_scheduler.stages import State
from search.compat.auto_scheduler.steps import take
from tests.search.compat.auto_scheduler.ansor_programs import Program, matmul_relu, softmax

Draw = Callable[[st.SearchStrategy[Any]], Any]

# Extents that lengths do not divide, and one that is smaller than most lengths.
MATMUL = matmul_relu(6, 9, 8)
SOFTMAX = softmax(3, 10)


def drawn_step(draw: Draw, state: State) -> list[Any]:
    """Return a step that could be taken, though it may still be refused."""
    computed = [k for k, stage in enumerate(state.stages) if not stage.is_input]
    index = draw(st.sampled_from(computed))
    stage = state.stages[index]
    count = len(stage.loops)
    loop = draw(st.integers(0, count - 1))
    code = draw(st.sampled_from(["SP", "SP", "FSP", "FU", "RE", "AN", "PR", "CA", "CA", *_ONCE]))
    if code == "SP":
        lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=2))
        return [code, index, loop, 0, lengths, draw(st.integers(0, 1))]
    if code == "FSP":
        splits = [k for k, step in enumerate(state.steps) if step[0] == "SP"]
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
        return [code, index, target, draw(st.integers(0, len(state.stages[target].loops) - 1))]
    if code == "CHR":
        return [code, draw(st.integers(0, index)), "local", [index]]
    if code == "RF":
        return [code, index, loop, draw(st.integers(-1, 2))]
    return [code, index, "local"] if code == "CHW" else [code, index]


_ONCE = ["CI", "CHR", "CHW", "RF"]


def drawn_steps(draw: Draw, program: Program) -> list[list[Any]]:
    """Return a few steps; those that the state does not take are left out."""
    steps: list[list[Any]] = []
    for _ in range(draw(st.integers(1, 12))):
        state = program.dag.state()
        for row in steps:
            take(state, row)
        row = drawn_step(draw, state)
        with suppress(StepError):
            take(state, row)
            steps.append(row)
    return steps


@given(st.data(), st.sampled_from([MATMUL, SOFTMAX]))
@settings(max_examples=40)
def test_random_steps_keep_the_meaning(data: st.DataObject, program: Program) -> None:
    steps = drawn_steps(data.draw, program)
    with suppress(StepError):
        program.check_results(program.dag.schedule(steps))
