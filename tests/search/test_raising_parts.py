"""A part of one's own that raises is named, with what it was given."""

from __future__ import annotations

from pathlib import Path

import pytest

import search as ms
from schedule import BlockRV, Schedule, Trace
from schedule.random_state import RandomState
from search.cost_model import RandomModel
from search.measure_callback import MeasureCallback
from search.mutator import Mutator
from search.postproc import Postproc
from search.runner import RunnerResult
from search.schedule_rule import ScheduleRule
from search.space_generator import PostOrderApply, ScheduleFn
from search.task_scheduler import TaskScheduler
from tests.search.programs import Matmul, split_j
from tests.search.task_scheduler.test_task_schedulers import tune


class BadRule(ScheduleRule):
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        raise KeyError("rule")


class BadPostproc(Postproc):
    def apply(self, sch: Schedule) -> bool:
        raise ZeroDivisionError("postproc")


class BadMutator(Mutator):
    def apply(self, trace: Trace, rand_state: RandomState) -> Trace | None:
        raise IndexError("mutator")


class BadModel(RandomModel):
    def predict(self, context, candidates):
        raise OverflowError("model")

    @property
    def trained(self) -> bool:
        return True


class TrainedModel(RandomModel):
    @property
    def trained(self) -> bool:
        return True


class BadCallback(MeasureCallback):
    def apply_to_trial(self, *_: object) -> None:
        raise LookupError("trial")


def raised_by(
    generator: ms.SpaceGenerator, model: ms.CostModel | None = None, strategy: str = "evolutionary"
) -> str:
    context = ms.TuneContext(
        Matmul,
        target="llvm -num-cores=1",
        space_generator=generator,
        search_strategy=strategy,
        rand_state=1,
    )

    def search() -> None:
        context.pre_tuning(8, 4, cost_model=model)
        context.generate_measure_candidates()

    with pytest.raises(ms.TuningError) as caught:
        search()
    assert caught.value.__cause__ is not None
    return str(caught.value)


def test_a_rule_that_raises_is_named_with_its_block() -> None:
    said = raised_by(PostOrderApply(sch_rules=[BadRule()], postprocs=[], mutator_probs={}))
    assert said.startswith("BadRule() raised KeyError: 'rule'\nIts input was block 'root' of\n")
    assert 'sch.get_block(name="C"' in said


@pytest.mark.parametrize("strategy", ["evolutionary", "replay-trace", "replay-func"])
def test_a_postprocessor_that_raises_is_named_with_its_schedule(strategy: str) -> None:
    space = ScheduleFn(split_j, postprocs=[BadPostproc()], mutator_probs={})
    said = raised_by(space, strategy=strategy)
    assert said.startswith("BadPostproc() raised ZeroDivisionError: postproc\n")
    assert "sch.sample_perfect_tile(" in said


def test_a_mutator_that_raises_is_named_with_its_trace() -> None:
    space = ScheduleFn(split_j, postprocs=[], mutator_probs={BadMutator(): 1.0})
    said = raised_by(space, TrainedModel(seed=1))
    assert said.startswith("BadMutator() raised IndexError: mutator\nIts input was the trace\n")
    assert "sch.sample_perfect_tile(" in said


def test_a_cost_model_that_raises_is_named_with_the_candidates() -> None:
    said = raised_by(ScheduleFn(split_j, postprocs=[], mutator_probs={}), BadModel(seed=1))
    assert said.startswith("BadModel() raised OverflowError: model\nIts input was 5 candidate(s)\n")
    assert said.count("sch.sample_perfect_tile(") == 5


def test_a_callback_that_raises_is_named_with_its_candidate(tmp_path: Path) -> None:
    context = ms.TuneContext(
        Matmul,
        target="llvm -num-cores=1",
        space_generator=split_j,
        search_strategy="replay-trace",
        rand_state=1,
    )
    with pytest.raises(ms.TuningError) as caught:
        tune(
            tmp_path,
            TaskScheduler.create("gradient"),
            [context],
            lambda _: RunnerResult(run_secs=(1e-3,)),
            4,
            [BadCallback()],
        )
    said = str(caught.value)
    assert said.startswith(
        "BadCallback() raised LookupError: trial\nIts input was 1 candidate(s)\n"
    )
    assert "sch.sample_perfect_tile(" in said
