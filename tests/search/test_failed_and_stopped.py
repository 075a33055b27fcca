"""What is kept and said of trials that have no time: those that fail and those that are ended."""

from __future__ import annotations

from pathlib import Path

import pytest

import search as ms
from search.cost_model import CostModel
from search.database import JSONDatabase
from search.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from tests.search.programs import Matmul, split_j
from tests.search.test_tune_calls import PRETENDED, TARGET


class Results(Runner):
    """Answers what it is told to, in turn."""

    def __init__(self, *results: RunnerResult) -> None:
        self.results = list(results)

    def run(self, runner_inputs: list[RunnerInput]) -> list[RunnerFuture]:
        return [RunnerFuture.ready(self.results.pop(0)) for _ in runner_inputs]


def tuned(folder: Path, *results: RunnerResult, **parts: object) -> object:
    config = ms.TuneConfig(len(results), num_confirmed=0)
    arguments = {**PRETENDED, "runner": Results(*results), **parts}
    return ms.tune_tir(Matmul, TARGET, config, folder, space=split_j, **arguments)


def test_a_run_without_a_result_says_what_most_trials_ended_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, crash = RunnerResult(error_msg="Wrong result"), RunnerResult(error_msg="a\nCrash")
    assert tuned(tmp_path, crash, wrong, crash) is None
    last = [line for line in capsys.readouterr().err.splitlines() if "WARNING" in line][-1]
    assert last.endswith(
        'Task #0 "main" has no schedule: all of its 3 trials failed, 2 of them with: Crash'
    )


def test_the_bound_of_a_trial_that_was_ended_is_no_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow, ended = RunnerResult((2e-3,)), RunnerResult((1e-3,), stopped=True)
    assert tuned(tmp_path, slow, ended) is not None
    database = JSONDatabase(work_dir=tmp_path)
    first, second = database.get_all_tuning_records()
    assert list(second.run_secs or ()) == [1e-3, 1e10]
    assert not second.is_valid
    assert (first.bound_seconds, second.bound_seconds) == (None, 1e-3)
    (best,) = database.get_top_k(first.workload, 2)
    assert best.trace_key == first.trace_key
    assert "the best so far takes 2000.00 us" in capsys.readouterr().err


def test_a_cost_model_learns_a_bound_as_a_bound(tmp_path: Path) -> None:
    class Learned(CostModel):
        def __init__(self) -> None:
            self.seen: list[RunnerResult] = []

        def knows(self, *_: object) -> bool:
            return False

        def load(self, path: object) -> None: ...

        def save(self, path: object) -> None: ...

        def update(self, _: object, __: object, results: list[RunnerResult]) -> None:
            self.seen += results

        def predict(self, _: object, candidates: list[object]) -> list[float]:
            return [0.0] * len(candidates)

    tuned(tmp_path, RunnerResult((2e-3,)), RunnerResult((1e-3,), stopped=True))
    model = Learned()
    tuned(tmp_path, RunnerResult((3e-3,)), cost_model=model)
    assert [(r.run_secs, r.stopped) for r in model.seen[:2]] == [((2e-3,), False), ((1e-3,), True)]
