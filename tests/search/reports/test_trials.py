"""Trials and tasks: each leaves a line, and a run is read back as a table."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import search as ms
from search.database import Kind
from search.database.line_store import LineStore
from search.reports import RunTable, TaskReport, Trial
from search.reports.run_directory import REPORTS, TASKS, TRIALS, add_tasks, listed_tasks
from tests.search.made_up_runs import TARGET, ScriptFiles, TimesOfScripts, task

FIRST = Trial(
    task="matmul",
    workload="17",
    target="llvm -keys=cpu -num-cores=1",
    batch=0,
    number=0,
    stage="done",
    build_secs=0.5,
    measure_secs=1.5,
    run_secs=(2e-6, 4e-6),
    predicted=0.75,
    time=1002.0,
    space=1,
    decisions=[[4, 8], 2],
)
CONV = TaskReport("conv", "llvm", "17", 3.0)
DENSE = TaskReport("dense", "llvm", "18")
BROKEN = replace(
    FIRST, number=1, stage="build", error="no such\nfile", run_secs=(), predicted=None, time=1004.0
)
STOPPED = replace(FIRST, number=2, stage="stopped", run_secs=(1e-6,), space=None, time=1005.0)
BEST = replace(FIRST, number=3, batch=1, run_secs=(1e-6, 2e-6), time=1007.0)
OTHER = replace(FIRST, task="conv", workload="18", number=0, run_secs=(9.0,), time=1010.0)


def test_a_run_is_read_back(tmp_path: Path) -> None:
    log = LineStore(tmp_path / "new")
    for trial in (FIRST, BROKEN, STOPPED, BEST, OTHER):
        log.add(TRIALS, trial)
    run = ms.load_run(tmp_path / "new")
    assert run.trials == [FIRST, BROKEN, STOPPED, BEST, OTHER]
    assert len(run) == 5
    assert run.tasks == ["matmul", "conv"]
    assert run.of_task("conv").trials == [OTHER]


def test_the_array_has_a_row_for_each_trial() -> None:
    table = RunTable([FIRST, BROKEN, STOPPED, BEST, OTHER]).array
    assert list(table["stage"]) == ["done", "build", "stopped", "done", "done"]
    assert list(table["error"]) == ["", "no such", "", "", ""]
    assert list(table["space"]) == [1, 1, -1, 1, 1]
    np.testing.assert_allclose(table["run_secs"], [3e-6, np.nan, 1e-6, 1.5e-6, 9.0])
    np.testing.assert_allclose(table["predicted"], [0.75, np.nan, 0.75, 0.75, 0.75])
    np.testing.assert_allclose(table["elapsed"], [2, 4, 5, 7, 10])
    np.testing.assert_allclose(table["best_so_far"], [3e-6, 3e-6, 3e-6, 1.5e-6, 9.0])
    assert table[table["stage"] == "done"]["number"].tolist() == [0, 3, 0]


def test_no_trial_is_the_best_before_one_is_measured() -> None:
    assert math.isnan(RunTable([STOPPED]).array["best_so_far"][0]), "its time is a lower bound"
    assert RunTable([]).array.shape == (0,)


def test_labels_do_not_depend_on_the_order_of_tasks() -> None:
    trials = [replace(FIRST, workload="9"), replace(FIRST, workload="8"), OTHER]
    first, second = RunTable(trials), RunTable(trials[::-1])
    assert first.tasks == ["matmul (program 2)", "matmul", "conv"]
    assert second.tasks == first.tasks[::-1]
    assert second.of_task("matmul").trials == [trials[1]]


def test_the_winner_is_the_trial_that_a_report_names() -> None:
    trials = [FIRST, BROKEN, STOPPED, BEST]
    report = TaskReport("matmul", FIRST.target, "17", best=3e-6, rounds=5, winner=0, time=2000.0)
    for reports, place in (([], 3), ([report], 0), ([replace(report, rounds=0)], 3)):
        table = RunTable(trials, reports)
        assert table.winner() == table.rows[place]
    assert RunTable(trials, [replace(report, winner=None)]).winner() is None


def test_a_table_is_summed_up_by_task() -> None:
    table = RunTable([FIRST, BROKEN, STOPPED, BEST, OTHER])
    assert str(table).splitlines()[1].split() == [
        "matmul", "4", "2", "1", "1", "1.5000", "2.0", "6.0",
    ]  # fmt: skip
    page = RunTable([replace(FIRST, task="a<b")])._repr_html_()
    assert "<td>a&lt;b</td>" in page


def test_scores_of_any_number_type_are_kept(tmp_path: Path) -> None:
    log = LineStore(tmp_path)
    log.add(TRIALS, replace(FIRST, predicted=np.float32(0.5)))  # type: ignore[arg-type]
    log.add(TRIALS, replace(FIRST, predicted=-math.inf))
    assert [trial.predicted for trial in ms.load_run(tmp_path).trials] == [0.5, None]


def line_of(entry: Trial | TaskReport, **change: object) -> str:
    return json.dumps({**entry.as_json(), **change})


@pytest.mark.parametrize(
    ("kind", "line", "message"),
    [
        (TRIALS, line_of(FIRST, stage="tested"), "field stage cannot be 'tested'"),
        (TRIALS, line_of(FIRST, run_secs=[-1.0]), "field run_secs cannot be [-1.0]"),
        (TRIALS, line_of(FIRST, number=True), "field number cannot be True"),
        (TRIALS, line_of(FIRST, space="two"), "field space cannot be 'two'"),
        (TASKS, "{}", "field task is missing"),
        (TASKS, '{"task": "a", "workload": "1", "target": 3}', "field target cannot be 3"),
        (TASKS, line_of(CONV, weight=-1), "field weight cannot be -1"),
        (REPORTS, line_of(CONV, task=3), "field task cannot be 3"),
        (REPORTS, line_of(CONV, best=-1.0), "field best cannot be -1.0"),
        (REPORTS, line_of(CONV, at_least=1), "field at_least cannot be 1"),
        (REPORTS, line_of(CONV, trials=None), "field trials cannot be None"),
        (REPORTS, line_of(CONV, roofline=[1]), "a Roofline is an object, got [1]"),
        (REPORTS, line_of(CONV, roofline={"flop": 1}), "field size is missing"),
    ],
)
def test_a_line_that_is_no_entry_is_left_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: Kind[Any], line: str, message: str
) -> None:
    good = FIRST if kind is TRIALS else CONV
    store = LineStore(tmp_path)
    store.add(kind, good)
    path = tmp_path / kind.file
    with path.open("a") as file:
        file.write(f"{line}\n")
    assert store.latest(kind) == [good]
    assert caplog.messages == [f"{path}: left out 1 line(s): line 2: {message}"]


def test_a_later_version_may_have_more_fields_but_not_less(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fields = FIRST.as_json()
    (tmp_path / TRIALS.file).write_text(json.dumps({**fields, "joules": 3}) + "\n")
    assert ms.load_run(tmp_path).trials == [FIRST]
    del fields["stage"]
    (tmp_path / TRIALS.file).write_text(json.dumps(fields) + "\n")
    assert ms.load_run(tmp_path).trials == []
    assert "line 1: field stage is missing" in caplog.text


# ------------------------------------------------------------------------------- the tasks of a run


def test_tasks_are_read_back_and_written_once(tmp_path: Path) -> None:
    add_tasks(LineStore(tmp_path), [CONV, DENSE])
    add_tasks(LineStore(tmp_path), [DENSE])
    assert listed_tasks(LineStore(tmp_path)) == [CONV, DENSE]
    assert len((tmp_path / TASKS.file).read_text().splitlines()) == 2


def test_the_last_weight_holds(tmp_path: Path) -> None:
    reader = LineStore(tmp_path)
    add_tasks(LineStore(tmp_path), [CONV])
    assert listed_tasks(reader) == [CONV]
    again = TaskReport("conv", "llvm", "17", 5.0)
    add_tasks(LineStore(tmp_path), [again])
    assert listed_tasks(reader) == [again], "what was added since the last time is read, too"


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
    listed = listed_tasks(LineStore(tmp_path / "run"))
    assert [(one.task, one.weight) for one in listed] == [("first", 2.0), ("second", 7.0)]
    assert {one.workload for one in listed} == {
        trial.workload for trial in ms.load_run(tmp_path / "run").trials
    }
    assert all(one.target.startswith(TARGET.split()[0]) for one in listed)
