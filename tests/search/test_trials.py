"""Trials: every one leaves a line, and a run is read back as a table."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import search as ms
from search import DatabaseError
from search.trials import RunTable, Trial
from search.trials.run_directory import TRIALS_FILE, TrialLog

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
BROKEN = replace(
    FIRST, number=1, stage="build", error="no such\nfile", run_secs=(), predicted=None, time=1004.0
)
STOPPED = replace(FIRST, number=2, stage="stopped", run_secs=(1e-6,), space=None, time=1005.0)
BEST = replace(FIRST, number=3, batch=1, run_secs=(1e-6, 2e-6), time=1007.0)
OTHER = replace(FIRST, task="conv", workload="18", number=0, run_secs=(9.0,), time=1010.0)


def test_a_run_is_read_back(tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "new")
    for trial in (FIRST, BROKEN, STOPPED, BEST, OTHER):
        log.append(trial)
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


def test_a_table_is_summed_up_by_task() -> None:
    table = RunTable([FIRST, BROKEN, STOPPED, BEST, OTHER])
    assert str(table).splitlines()[1].split() == [
        "matmul", "4", "2", "1", "1", "1.5000", "2.0", "6.0",
    ]  # fmt: skip
    page = RunTable([replace(FIRST, task="a<b")])._repr_html_()
    assert "<td>a&lt;b</td>" in page


def test_a_frame_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    table = RunTable([FIRST, BROKEN])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="needs pandas"):
        table.frame()

    class DataFrame(dict):  # type: ignore[type-arg]
        def __init__(self, rows: list[dict[str, object]], columns: list[str]) -> None:
            super().__init__({name: [row[name] for row in rows] for name in columns})

    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=DataFrame))
    frame = table.frame()
    assert frame["error"] == [None, "no such\nfile"], "in full"
    assert frame["elapsed"].tolist() == [2.0, 4.0]


def test_scores_of_any_number_type_are_kept(tmp_path: Path) -> None:
    log = TrialLog(tmp_path)
    log.append(replace(FIRST, predicted=np.float32(0.5)))  # type: ignore[arg-type]
    log.append(replace(FIRST, predicted=-math.inf))
    assert [trial.predicted for trial in ms.load_run(tmp_path).trials] == [0.5, None]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stage": "tested"}, "field stage cannot be 'tested'"),
        ({"run_secs": [-1.0]}, "field run_secs cannot be [-1.0]"),
        ({"number": True}, "field number cannot be True"),
        ({"space": "two"}, "field space cannot be 'two'"),
    ],
)
def test_a_line_that_is_no_trial_is_left_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: dict[str, object], message: str
) -> None:
    TrialLog(tmp_path).append(FIRST)
    path = tmp_path / TRIALS_FILE
    with path.open("a") as file:
        file.write(json.dumps({**FIRST.as_json(), **change}) + "\n")
    assert ms.load_run(tmp_path).trials == [FIRST]
    assert caplog.messages == [f"{path}: left out 1 line(s): line 2: {message}"]


def test_a_later_version_may_have_more_fields_but_not_less(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fields = FIRST.as_json()
    (tmp_path / TRIALS_FILE).write_text(json.dumps({**fields, "joules": 3}) + "\n")
    assert ms.load_run(tmp_path).trials == [FIRST]
    del fields["stage"]
    (tmp_path / TRIALS_FILE).write_text(json.dumps(fields) + "\n")
    assert ms.load_run(tmp_path).trials == []
    assert "line 1: field stage is missing" in caplog.text


def test_a_directory_without_trials_is_said(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="no run left trials in"):
        ms.load_run(tmp_path)


def test_a_trial_cut_by_a_kill_is_dropped(tmp_path: Path) -> None:
    TrialLog(tmp_path).append(FIRST)
    path = tmp_path / TRIALS_FILE
    path.write_bytes(path.read_bytes() + b'{"task": "mat')
    TrialLog(tmp_path).append(BEST)
    assert ms.load_run(tmp_path).trials == [FIRST, BEST]
