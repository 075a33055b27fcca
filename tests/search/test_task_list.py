"""The tasks of a working directory: each run adds its own, and the last weight holds."""

from __future__ import annotations

from pathlib import Path

import pytest

import search as ms
from search.trials.task_list import TASKS_FILE, ListedTask, TaskList
from tests.search.made_up_runs import TARGET, ScriptFiles, TimesOfScripts, task

CONV = ListedTask("conv", "17", "llvm", 3.0)
DENSE = ListedTask("dense", "18", "llvm")


def test_tasks_are_read_back_and_written_once(tmp_path: Path) -> None:
    TaskList(tmp_path).add([CONV, DENSE])
    TaskList(tmp_path).add([DENSE])
    assert TaskList(tmp_path).read() == [CONV, DENSE]
    assert len((tmp_path / TASKS_FILE).read_text().splitlines()) == 2


def test_the_last_weight_holds(tmp_path: Path) -> None:
    reader = TaskList(tmp_path)
    TaskList(tmp_path).add([CONV])
    assert reader.read() == [CONV]
    again = ListedTask("conv", "17", "llvm", 5.0)
    TaskList(tmp_path).add([again])
    assert reader.read() == [again], "what was added since the last time is read, too"


def test_a_run_lists_its_tasks_before_its_trials(tmp_path: Path) -> None:
    runner = TimesOfScripts()
    ms.tune_tasks(
        tasks=[task("first"), task("second", seed=2)],
        task_weights=[2.0, 7.0],
        work_dir=tmp_path / "run",
        max_trials_global=2,
        num_trials_per_iter=1,
        builder=ScriptFiles(tmp_path / "built"),
        runner=runner,
        cost_model="random",
        num_confirmed=0,
    )
    listed = TaskList(tmp_path / "run").read()
    assert [(one.task, one.weight) for one in listed] == [("first", 2.0), ("second", 7.0)]
    assert {one.workload for one in listed} == {
        trial.workload for trial in ms.load_run(tmp_path / "run").trials
    }
    assert all(one.target.startswith(TARGET.split()[0]) for one in listed)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{}", "field task is a text, got None"),
        (
            '{"task": "a", "workload": "1", "target": 3, "weight": 1}',
            "field target is a text, got 3",
        ),
        (
            '{"task": "a", "workload": "1", "target": "llvm", "weight": -1}',
            "field weight is a number of at least 0, got -1",
        ),
    ],
)
def test_a_line_that_is_no_task_is_left_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: str, message: str
) -> None:
    TaskList(tmp_path).add([CONV])
    with (tmp_path / TASKS_FILE).open("a") as file:
        file.write(f"{line}\n")
    assert TaskList(tmp_path).read() == [CONV]
    assert f"{TASKS_FILE}: left out 1 line(s): line 2: {message}" in caplog.text
