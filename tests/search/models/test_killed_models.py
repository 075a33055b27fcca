"""A model whose tuning is killed at random moments is tuned in the end: nothing twice, nothing lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from search.database import JSONDatabase

ROOT = Path(__file__).parents[3]
TRIALS = 12

TUNE = """
import sys, time
import search as ms
from search.measure_callback import MeasureCallback
from search.runner import EvaluatorConfig, LocalRunner
from tests.search.models.network_programs import TARGET, dense_model
from tests.search.programs import split_all

class Slow(MeasureCallback):  # holds the run up, so that it cannot end before it is killed
    def apply_to_trial(self, *told):
        time.sleep(0.1)

ms.tune_model(
    dense_model(), TARGET, sys.argv[1], max_trials_global=int(sys.argv[2]), seed=1,
    space=split_all, cost_model="random", num_trials_per_iter=2, num_confirmed=0,
    runner=LocalRunner(evaluator_config=EvaluatorConfig(1, 1, 1)),
    measure_callbacks=[*MeasureCallback.create(), Slow()],
)
"""


def start(work_dir: Path, trials: int = TRIALS) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", TUNE, str(work_dir), str(trials)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def records_in(work_dir: Path) -> int:
    path = work_dir / "database_tuning_record.json"
    return len(path.read_text().splitlines()) if path.exists() else 0


def kill_after(work_dir: Path, more: int, delay: float, trials: int = TRIALS) -> int:
    """Kill a run some time after so many more records are there; return how many there are then."""
    wanted = records_in(work_dir) + more
    process = start(work_dir, trials)
    while records_in(work_dir) < wanted and process.poll() is None:
        time.sleep(0.005)
    time.sleep(delay)
    process.kill()
    process.communicate()
    return records_in(work_dir)


def assert_nothing_twice_and_nothing_lost(work_dir: Path, trials: int = TRIALS) -> None:
    process = start(work_dir, trials)
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 0, said
    records = JSONDatabase(work_dir=work_dir).get_all_tuning_records()
    assert len(records) == trials
    assert len({(record.workload.shash, record.trace_key) for record in records}) == trials
    assert all(record.is_valid for record in records)
    assert not list(work_dir.glob("unfinished_run*"))


def test_a_run_that_is_killed_at_random_moments_is_finished_by_the_last(tmp_path: Path) -> None:
    moments = random.Random(7)
    seen = [kill_after(tmp_path, moments.randint(1, 3), moments.uniform(0, 0.2)) for _ in range(2)]
    assert seen == sorted(seen)
    assert 0 < seen[0] < TRIALS, "it was killed in its middle"
    before = (tmp_path / "database_tuning_record.json").read_text()
    assert_nothing_twice_and_nothing_lost(tmp_path)
    assert (tmp_path / "database_tuning_record.json").read_text().startswith(before)


def test_ctrl_c_leaves_a_database_that_serves(tmp_path: Path) -> None:
    process = start(tmp_path)
    while records_in(tmp_path) < 3 and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode != 0, said
    assert "KeyboardInterrupt" in said
    records = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()
    assert 3 <= len(records) < TRIALS
    assert_nothing_twice_and_nothing_lost(tmp_path)
