"""What schedules, traces, records, databases, targets and tasks look like: a line, and a table."""

from __future__ import annotations

from pathlib import Path

import pytest

import search as ms
from codegen import Target
from schedule import Schedule
from search.database import (
    JSONDatabase,
    MemoryDatabase,
    ScheduleFnDatabase,
    TuningRecord,
    UnionDatabase,
)
from search.task_scheduler import TaskState
from tensorir import IRModule
from tests.search.programs import Matmul, adds_one, split_j

TARGET = Target("llvm -num-cores=1")


def tuned(database: ms.Database) -> TuningRecord:
    """Commit a record that took 20 us, one that failed, and one that was stopped after 30."""
    workload = database.commit_workload(Matmul)
    trace = split_j(Schedule(Matmul, seed=1)).trace
    for seconds in ((20e-6,), (1e10,), (30e-6, 1e10)):
        database.commit_tuning_record(TuningRecord(trace, workload, seconds, TARGET))
    return TuningRecord(trace, workload, (20e-6,), TARGET)


def test_a_schedule_and_its_trace() -> None:
    sch = Schedule(Matmul, seed=1)
    assert repr(sch) == "<Schedule of main: 0 instructions, 0 decisions>"
    split_j(sch)
    assert repr(sch) == "<Schedule of main: 6 instructions, 1 decision>"
    assert repr(sch.trace) == "<Trace of 6 instructions, 1 decision>"
    assert "def apply_trace(sch" in str(sch.trace), "its text is what print shows"
    page = sch._repr_html_()
    assert "<summary>&lt;Schedule of main: 6 instructions, 1 decision&gt;</summary>" in page


def test_a_record_and_its_workload() -> None:
    record = tuned(MemoryDatabase())
    name = str(record.workload)
    assert name.startswith("main #")
    assert repr(record.workload) == f"<Workload {name}>"
    assert repr(record) == f"<TuningRecord of {name}: 20 us, {TARGET}>"
    page = record._repr_html_()
    assert "<td>time</td><td>20 us</td>" in page
    assert "sample_perfect_tile" in page, "its trace"


@pytest.mark.parametrize(
    ("seconds", "outcome"),
    [(None, "not measured"), ((1e10,), "failed"), ((3e-3, 1e10), "more than 3 ms")],
)
def test_a_record_without_a_time(seconds: tuple[float, ...] | None, outcome: str) -> None:
    record = tuned(MemoryDatabase())
    other = TuningRecord(record.trace, record.workload, seconds, TARGET)
    assert f": {outcome}, llvm" in repr(other)


def test_a_database_shows_the_best_of_each_program(tmp_path: Path) -> None:
    assert repr(MemoryDatabase()) == "<MemoryDatabase of 0 records: a database in memory>"
    union = UnionDatabase(MemoryDatabase(), MemoryDatabase())
    assert repr(union).count("MemoryDatabase of 0 records") == 2
    assert union._repr_html_().count("<table") == 2
    assert "it stores no records" in repr(ScheduleFnDatabase(lambda sch: False))
    database = JSONDatabase(work_dir=tmp_path)
    name = str(tuned(database).workload)
    assert repr(database) == f"<JSONDatabase of 3 records: {database.path_tuning_record}>"
    assert database.contents()[1:] == [(name, str(TARGET), "3", "1", "none")], "all are one trace"
    page = database._repr_html_()
    assert page.startswith("<p>&lt;JSONDatabase of 3 records")
    assert f"<td>{name}</td>" in page


def test_of_many_programs_the_first_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("search.database.database._LISTED_PROGRAMS", 1)
    database = MemoryDatabase()
    tuned(database)
    added = database.commit_workload(IRModule({"main": adds_one}))
    trace = Schedule(added.mod).trace
    database.commit_tuning_record(TuningRecord(trace, added, (1e-6,), TARGET))
    assert database.contents()[-1][0] == "and 1 more"
    monkeypatch.setattr("search.database.database._TOO_MANY", 1)
    assert database.contents()[1:] == [("", "", "4", "", "too many to look at")]


def test_a_target_is_a_table_of_its_options() -> None:
    page = Target("llvm -mcpu=znver3 -num-cores=4")._repr_html_()
    for name, value in (("kind", "llvm"), ("mcpu", "znver3"), ("num-cores", "4"), ("keys", "cpu")):
        assert f"<td>{name}</td><td>{value}</td>" in page


def test_tasks() -> None:
    context = ms.TuneContext(
        Matmul, target=TARGET, space_generator=split_j, search_strategy="evolutionary"
    )
    line = f'<TuneContext "main" for {TARGET}: ScheduleFn, EvolutionarySearch>'
    assert repr(context) == line
    assert repr(ms.TuneContext(task_name="none")) == '<TuneContext "none" for None>'
    assert context._repr_html_().startswith("<p>&lt;TuneContext &quot;main&quot;")
    assert repr(TaskState(context)) == '<TaskState "main": 0 trials, nothing measured>'
    known = TaskState(context, known_ms=0.25, trials_before=3)
    assert repr(known) == '<TaskState "main": 3 trials, 250 us>'
    (task,) = ms.extract_tasks(Matmul, TARGET)
    assert repr(task) == f"<ExtractedTask main x 1 for {TARGET}>"
    assert "prim_func" in task._repr_html_()
