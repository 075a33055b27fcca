"""Killed processes: the worker in the middle of a measurement, and the whole tuning process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import search as ms
from search.builder import LocalBuilder
from search.database import JSONDatabase
from search.runner import LocalRunner
from tests.search.programs import MARK, Matmul, dies_at_the_third, split_all

ROOT = Path(__file__).parents[2]

TUNE = """
import os, signal, sys
import search as ms
from tests.search.programs import Matmul, split_all
from search.measure_callback import MeasureCallback
from tests.search.test_tune_calls import PRETENDED

class KillAt(MeasureCallback):
    def __init__(self, trial):
        self.trial = trial

    def apply_to_trial(self, scheduler, task_id, *_):
        if len(scheduler.tasks[task_id].latency_ms) + 1 == self.trial:
            os.kill(os.getpid(), signal.SIGKILL)

work_dir, kill_at = sys.argv[1], int(sys.argv[2])
ms.tune_tir(
    Matmul, "llvm -num-cores=1", ms.TuneConfig(6, num_trials_per_iter=3, num_confirmed=0),
    work_dir, space=split_all, **PRETENDED,
    measure_callbacks=[*MeasureCallback.create("default"), KillAt(kill_at)],
)
"""


def test_a_killed_runner_costs_one_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, str(tmp_path / "calls"))
    runner = LocalRunner(f_run_evaluator=dies_at_the_third)
    best = ms.tune_tir(
        Matmul,
        "llvm -num-cores=1",
        ms.TuneConfig(4, num_trials_per_iter=4, num_confirmed=0),
        tmp_path,
        space=split_all,
        cost_model="random",
        builder=LocalBuilder(max_workers=1),
        runner=runner,
    )
    runner.close()
    assert best is not None
    records = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()
    assert [record.is_valid for record in records] == [True, True, False, True]
    log = tmp_path / "logs" / "tvm.meta_schedule.logging.task_0_main.log"
    assert "the worker process was ended by SIGKILL" in log.read_text()


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    def run(kill_at: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", TUNE, str(tmp_path), str(kill_at)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    killed = run(kill_at=4)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = (tmp_path / "database_tuning_record.json").read_text()
    assert len(before.splitlines()) == 4, "the fourth was written before the kill"

    resumed = run(kill_at=0)
    assert resumed.returncode == 0, resumed.stderr
    assert "Resuming after 4 of 6 trials" in resumed.stderr
    after = (tmp_path / "database_tuning_record.json").read_text()
    assert after.startswith(before)
    records = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()
    assert len(records) == 6
    assert len({str(record.trace.as_json()) for record in records}) == 6
