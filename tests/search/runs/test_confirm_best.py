"""The best few are measured again, in turns, before one is called the fastest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from schedule import Schedule
from search.builder import Builder, BuilderInput, BuilderResult
from search.context import TuneContext
from search.database.records import TuningRecord, Workload
from search.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from search.runs.confirm_best import Confirmation, confirm_best, summary
from tests.search.programs import Matmul


class NumberedArtifacts(Builder):
    """Builds nothing; the artifact of the k-th program is called k."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [BuilderResult(str(k)) for k in range(len(build_inputs))]

    def remove_artifact(self, path: str) -> None:
        self.removed.append(path)


@dataclass
class Clock(Runner):
    """Measures what `seconds(artifact, number of the measurement)` says; None fails."""

    seconds: Callable[[int, int], float | None]
    order: list[int] = field(default_factory=list)

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        (entry,) = runner_inputs
        artifact = int(entry.artifact_path)
        found = self.seconds(artifact, len(self.order))
        self.order.append(artifact)
        failed = RunnerResult(error_msg="it fails")
        return [RunnerFuture.ready(failed if found is None else RunnerResult((found,)))]


def confirmed(runner: Clock, first_times: Sequence[float]) -> list[Confirmation]:
    """Measure as many records again as there are times that the search found."""
    workload = Workload(Matmul)
    trace = Schedule(Matmul).trace
    records = [TuningRecord(trace, workload, (t,)) for t in first_times]
    context = TuneContext(Matmul, target="llvm -num-cores=1")
    return confirm_best(records, NumberedArtifacts(), runner, context)


def test_they_are_measured_in_turns_until_one_is_certain() -> None:
    runner = Clock(lambda artifact, number: 1e-3 + 1e-4 * artifact)
    best, *_ = confirmed(runner, [1e-3] * 3)
    assert runner.order == [0, 1, 2] * 5
    assert best.record.run_secs == (1e-3,) * 5
    assert (best.certainty, best.spread, best.ratio) == (1.0, 0.0, 1.0)


def test_a_lucky_winner_loses_its_place() -> None:
    """The first was measured as 0.8 ms once, but takes 1.2."""
    runner = Clock(lambda artifact, number: (1.2e-3, 1.0e-3)[artifact])
    best, second = confirmed(runner, [0.8e-3, 1.0e-3])
    assert best.median == 1.0e-3
    assert second.ratio == pytest.approx(1.2)
    assert summary([best, second]) == (
        "the best 2 were measured again, interleaved: the fastest takes 1000 us +- 0 us in 5 rounds, "
        "the second 1.200 times as long"
    )
    unsure = replace(best, certainty=0.49)
    assert summary([unsure, replace(second, ratio=1.004)]).endswith(
        "the second 1.004 times as long, which is too close to tell which of the two is faster"
    )


def test_a_machine_that_slows_down_does_not_change_the_order() -> None:
    runner = Clock(lambda artifact, number: (1 + 0.02 * artifact) * (1 + 0.01 * number))
    best, second, third = confirmed(runner, [1.0, 1.0, 1.0])
    assert best.ratio < second.ratio < third.ratio
    assert best.certainty > 0.95


def test_rounds_in_which_the_machine_is_slow_do_not_change_the_order() -> None:
    """Each round is slower or faster by more than the candidates differ."""
    rounds = np.random.default_rng(0).uniform(1, 3, 15)
    runner = Clock(lambda artifact, number: (1.02, 1.0)[artifact] * float(rounds[number // 2]))
    best, second = confirmed(runner, [1.0, 1.1])
    assert best.certainty == 1
    assert second.ratio == pytest.approx(1.02, rel=1e-2)
    assert len(runner.order) == 10


def test_equals_stay_uncertain_after_all_rounds() -> None:
    noise = np.random.default_rng(1).normal(1, 0.05, 30)
    runner = Clock(lambda artifact, number: float(noise[number]))
    best, second = confirmed(runner, [1.0, 1.0])
    assert len(runner.order) == 30
    assert 0.4 < best.certainty < 0.95
    assert best.certainty + second.certainty == pytest.approx(1)


def test_one_that_fails_is_left_out() -> None:
    runner = Clock(lambda artifact, number: None if artifact == 0 else 1.0)
    (left,) = confirmed(runner, [1.0, 2.0])
    assert runner.order[:4] == [0, 1, 1, 1]
    assert left.certainty == 1
    assert summary([]) == "none of the best could be measured again"
