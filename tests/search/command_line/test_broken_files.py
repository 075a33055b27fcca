"""Files that something has damaged: what is whole of them is used, and the rest is named."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from search.command_line.main import main

RECORDS = Path("tuned/database_tuning_record.json")
TRIALS = Path("tuned/tuning_trials.json")


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main([*arguments, "--json"]) == 0, capsys.readouterr().err
    report: dict[str, object] = json.loads(capsys.readouterr().out)
    return report


@pytest.fixture
def damaged(folder: Path) -> int:
    """The number of the best record, whose trace is no text any more."""
    lines = RECORDS.read_bytes().splitlines(True)
    times = [json.loads(line)[1][1][0] for line in lines]
    best = times.index(min(times))
    lines[best] = lines[best].replace(b'"GetBlock"', b'"Get\xffBlock"')
    RECORDS.write_bytes(b"".join(lines))
    return best


def test_a_trace_that_is_no_text_is_passed_over(
    damaged: int, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    before = told(capsys, "db", "convert", "tuned", "whole.sqlite")
    assert (before["records"], before["added"]) == (4, 3)
    place = f"{RECORDS}:{damaged + 1}"
    assert f"{place}: field 0 (trace) is not UTF-8" in caplog.text
    for arguments in (["db", "list"], ["db", "best"], ["show"], ["explain"]):
        assert main([*arguments, "tuned"]) == 0, capsys.readouterr().err
    assert main(["run", "matmul.py", "--work-dir", "tuned", "--repeat", "0"]) == 0
    assert main(["db", "convert", "tuned", "tuned.log", "--log"]) == 0
    capsys.readouterr()
    assert main(["db", "validate", "tuned"]) == 1
    assert f"{place}: field 0 (trace) is not UTF-8" in capsys.readouterr().out


def test_a_database_without_its_settings_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told(capsys, "db", "convert", "tuned", "tuned.sqlite")
    with sqlite3.connect("tuned.sqlite") as connection:
        connection.execute("DELETE FROM setting")
    connection.close()
    assert main(["db", "list", "tuned.sqlite"]) == 1
    assert "tuned.sqlite: it has tables of another application" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("field", "value"),
    [("run_secs", [0.0]), ("decisions", [2.5]), ("decisions", ["x", []]), ("batch", 10**20)],
)
def test_a_trial_that_cannot_be_is_explained_with_the_others(
    field: str, value: object, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = TRIALS.read_text().splitlines(True)
    TRIALS.write_text(json.dumps({**json.loads(first), field: value}) + "\n" + "".join(others))
    assert told(capsys, "explain", "tuned")["kind"] == "log"
