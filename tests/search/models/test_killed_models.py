"""A model whose tuning is killed at random moments is tuned in the end: nothing twice, nothing lost."""

from __future__ import annotations

import random
import signal
import sys
import time
from pathlib import Path

from search.database import JSONDatabase
from tests import forked

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


def start(work_dir: Path) -> forked.Forked:
    """Start a run, whose output is in a file next to its folder."""
    with work_dir.with_suffix(".log").open("w") as said:
        return forked.Forked(
            [sys.executable, "-c", TUNE, str(work_dir), str(TRIALS)],
            cwd=ROOT,
            stdout=said,
            stderr=said,
        )


def records_in(work_dir: Path) -> int:
    path = work_dir / "database_tuning_record.json"
    return len(path.read_text().splitlines()) if path.exists() else 0


def end_after(work_dir: Path, more: int, by: signal.Signals, delay: float = 0.0) -> tuple[int, str]:
    """End a run by a signal after more records; return the number of records, and its output."""
    wanted = records_in(work_dir) + more
    process = start(work_dir)
    while records_in(work_dir) < wanted and process.poll() is None:
        time.sleep(0.005)
    time.sleep(delay)
    process.send_signal(by)
    assert process.wait(240) != 0
    return records_in(work_dir), work_dir.with_suffix(".log").read_text()


def test_a_run_that_is_killed_and_interrupted_is_finished_by_the_last(tmp_path: Path) -> None:
    moments = random.Random(7)
    killed, _ = end_after(tmp_path, 1, signal.SIGKILL, moments.uniform(0, 0.2))
    before = (tmp_path / "database_tuning_record.json").read_text()
    interrupted, said = end_after(tmp_path, 1, signal.SIGINT)
    assert 0 < killed < interrupted < TRIALS
    assert "KeyboardInterrupt" in said
    assert len(JSONDatabase(work_dir=tmp_path).get_all_tuning_records()) == interrupted
    assert start(tmp_path).wait(240) == 0, tmp_path.with_suffix(".log").read_text()
    assert (tmp_path / "database_tuning_record.json").read_text().startswith(before)
    records = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()
    assert len(records) == TRIALS
    assert len({(record.workload.shash, record.trace_key) for record in records}) == TRIALS
    assert all(record.is_valid for record in records)
    assert not list(tmp_path.glob("unfinished_run*"))
