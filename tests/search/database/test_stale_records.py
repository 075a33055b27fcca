"""A record whose trace does not apply any more costs itself only, with a warning that names it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import search as ms
from search import autotvm
from search.cost_model import XGBModel
from search.database import RECORDS, JSONDatabase, SQLDatabase
from search.database.keyed_database import SQL_FILE
from search.loop import tune_run
from search.reports.run_directory import TRIALS
from search.run import Run
from search.runs.next_batch import learn_from_records
from tests.search.made_up_runs import TARGET, ScriptFiles, TimesOfScripts, task
from tests.search.programs import Matmul

CONFIRMED = ms.TuneConfig(8, num_trials_per_iter=4)


def run(folder: Path, seed: int = 1, **parts: Any) -> Run:
    config = replace(
        CONFIRMED,
        builder=ScriptFiles(folder / "artifacts"),
        runner=TimesOfScripts(),
        **parts,
    )
    with Run.open([task(seed=seed)], [1.0], folder, config) as opened:
        tune_run(opened)
    return opened


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a run."""
    folder = tmp_path_factory.mktemp("finished")
    run(folder, cost_model="random")
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """Return a copy of the directory of a run."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def renamed(trace: Any) -> None:
    """Let the trace ask for a block that the program does not have."""
    trace[0][0][2][0] = "D"


def of_an_unknown_kind(trace: Any) -> None:
    trace[0][1][0] = "GetLoopsInOneGo"


def with_an_argument_too_many(trace: Any) -> None:
    trace[0][0][2].append("main")


def with_an_argument_of_another_type(trace: Any) -> None:
    trace[0][0][2][0] = 7


def with_another_count_of_loops(trace: Any) -> None:
    trace[0][1][3].append("l99")


def with_a_decision_that_does_not_fit(trace: Any) -> None:
    trace[1][0][1] = [7, 1, 1, 1, 1]


def with_half_of_an_instruction(trace: Any) -> None:
    del trace[0][1][2:]


DAMAGES = [
    renamed,
    of_an_unknown_kind,
    with_an_argument_too_many,
    with_an_argument_of_another_type,
    with_another_count_of_loops,
    with_a_decision_that_does_not_fit,
    with_half_of_an_instruction,
]


def damage(folder: Path, change: Any, seconds: float = 1e-9) -> int:
    """Change the trace of the third record, and let it be the fastest; return its line."""
    path = folder / RECORDS.file
    lines = path.read_text().splitlines()
    index, (trace, _, target, args) = json.loads(lines[2])
    change(trace)
    lines[2] = json.dumps([index, [trace, [seconds], target, args]])
    path.write_text("\n".join(lines) + "\n")
    return 3


@pytest.mark.parametrize("change", DAMAGES)
def test_a_stale_record_is_passed_over(folder: Path, change: Any) -> None:
    line = damage(folder, change)
    database = JSONDatabase(work_dir=folder)
    assert ms.compile_tir(database, Matmul, TARGET) is not None
    assert [finding.number for finding in database.validate()] == [line - 1]


@pytest.mark.parametrize("change", [renamed, of_an_unknown_kind])
def test_a_run_goes_on_beside_a_stale_record(
    folder: Path, capsys: pytest.CaptureFixture[str], change: Any
) -> None:
    line = damage(folder, change)
    capsys.readouterr()
    made = run(folder, seed=2, cost_model="random")
    shown = capsys.readouterr().err
    assert (
        shown.count(
            "left out 1 record(s) whose traces do not apply any more: "
            f"{folder / RECORDS.file}:{line}: "
        )
        == 1
    )
    assert sum(task.trials for task in made.scheduler.tasks) == 8
    (winner,) = [task.winner for task in made.scheduler.tasks]
    assert "65536.0000" not in shown, "the speed that the stale one would have"
    assert winner is not None, "the stale one is the fastest as it says, and is not measured"
    later = JSONDatabase(work_dir=folder)
    best = ms.compile_tir(later, Matmul, TARGET)
    assert best is not None
    assert str(best.trace) == str(winner.record.trace)


def test_a_model_learns_from_the_others(folder: Path) -> None:
    records = JSONDatabase(work_dir=folder).get_all_tuning_records()
    damage(folder, of_an_unknown_kind)
    model = XGBModel(num_tuning_cores=1)
    count = learn_from_records(model, JSONDatabase(work_dir=folder), task())
    assert model.data_size == len({record.trace_key for record in records}) - 1
    assert count == len(records) - 1


@pytest.mark.parametrize("change", [renamed, with_half_of_an_instruction])
def test_a_run_with_a_stale_record_is_explained(
    folder: Path, caplog: pytest.LogCaptureFixture, change: Any
) -> None:
    line = damage(folder, change, seconds=1e-3)
    explained = autotvm.explain_log(folder)
    assert "8 measurements of 1 task" in str(explained)
    assert len(caplog.messages) <= 1, "one that applies to the program tells nothing of itself"
    assert all(f"{RECORDS.file}:{line}: " in message for message in caplog.messages)


def test_a_run_in_an_sql_database_is_explained(tmp_path: Path) -> None:
    run(tmp_path / "json", cost_model="random")
    run(tmp_path / "sql", database="sql", cost_model="random")
    tables = [autotvm.explain_log(tmp_path / kind).table() for kind in ("json", "sql")]
    assert [list(table.knobs) for table in tables] == [list(tables[0].knobs)] * 2
    assert tables[0].knobs
    for file in (SQL_FILE, TRIALS.file):
        with pytest.raises(ms.TuningError, match=f"explain its directory {tmp_path / 'sql'}"):
            autotvm.explain_log(tmp_path / "sql" / file)
    assert [row["gflops"] for row in tables[1]] == [row["gflops"] for row in tables[0]]


def test_a_stale_row_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, database="sql", cost_model="random")
    connection = sqlite3.connect(tmp_path / SQL_FILE)
    with connection:
        connection.execute("UPDATE trace SET text = replace(text, 'GetBlock', 'GetBrick')")
        connection.execute("UPDATE record SET run_secs = '[-1]' WHERE id = 2")
    connection.close()
    caplog.clear()
    assert "8 measurements" in str(autotvm.explain_log(tmp_path))
    assert caplog.messages[0].startswith(
        f"{tmp_path / SQL_FILE}: left out 1 row(s): record 2: field 1 (run_secs) is a list"
    )
    # Of the 8 trials, one has no record any more.
    assert caplog.messages[1].startswith(
        "left out 7 record(s) whose traces do not apply any more: "
        f"{tmp_path / SQL_FILE}: record 1: field 0 (trace): "
    )
    left = SQLDatabase(work_dir=tmp_path).query_schedule(Matmul, TARGET)
    assert left is not None
    assert not left.trace.insts, "that of the unscheduled program replays"


def test_however_many_are_stale_the_one_that_applies_is_found(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = folder / RECORDS.file
    index, (trace, _, target, args) = json.loads(path.read_text().splitlines()[0])
    renamed(trace)
    with path.open("a") as file:
        for k in range(20):
            trace[1][0][1] = [k + 1, 1, 1]
            file.write(json.dumps([index, [trace, [1e-9], target, args]]) + "\n")
    database = JSONDatabase(work_dir=folder)
    assert ms.compile_tir(database, Matmul, TARGET) is not None
    (message,) = caplog.messages
    assert message.startswith("left out 20 record(s) whose traces do not apply any more: ")
    assert "; and 15 more; tune" in message
