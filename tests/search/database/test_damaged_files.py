"""Databases and logs are data: whatever is in them, reading runs nothing and names what is wrong."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import search as ms
from search import auto_scheduler, autotvm
from search.database import RECORDS, WORKLOADS, JSONDatabase
from search.database.best_records import with_schedules
from search.database.line_store import LineStore
from search.reports.run_directory import TRIALS
from search.runs.run_journal import RunJournal
from tensorir.errors import TensorIRError
from tests.search.database.made_records import TARGET, commit
from tests.search.database.test_killed_writers import log_line
from tests.search.programs import Matmul
from tests.search.reports.test_trials import FIRST

DEEP = "[" * 100_000
VALUES = [None, True, -1, 1.5, 10**400, "x", [], {}, [[]], {"kind": "llvm"}, "__import__('os')"]


def ansor_line(number: int) -> str:
    """Return a line of Ansor that ended `number` seconds after 1970."""
    about = ['["mm", 0]', "llvm -keys=cpu -num-cores=1", [1, 64, 64, 0, 0, 0, 0, 0], "", 0, []]
    steps = [["PR", 0, 0, f"auto_unroll_max_step${number}"]]
    return json.dumps({"i": [about, [[], steps]], "r": [[0.5], 0, 0.2, number], "v": "v0.6"})


def use_database(folder: Path) -> None:
    """Read a database to the end: its programs, its traces, its schedules."""
    database = JSONDatabase(work_dir=folder)
    for record in database.get_all_tuning_records():
        list(with_schedules([record]))
    ms.find_schedule(database, Matmul, TARGET)


def read_autotvm(path: Path) -> None:
    list(autotvm.record.load_from_file(path))


def read_ansor(path: Path) -> None:
    auto_scheduler.to_database(path)


READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "workloads": (WORKLOADS.file, use_database),
    "records": (RECORDS.file, use_database),
    "trials": (TRIALS.file, ms.load_run),
    "autotvm": ("autotvm.log", read_autotvm),
    "ansor": ("ansor.log", read_ansor),
}


def written(folder: Path) -> None:
    commit(JSONDatabase(work_dir=folder), (8, 4), 1e-6)
    LineStore(folder).add(TRIALS, FIRST)
    (folder / "autotvm.log").write_text(log_line(1) + "\n")
    (folder / "ansor.log").write_text(ansor_line(1) + "\n")


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container in a value, with each of its keys."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])


def damaged(line: str, rng: random.Random) -> str:
    """Return a line in which something was changed: a byte, a part of it, or a value."""
    kind = rng.randrange(5)
    place = rng.randrange(len(line))
    if kind == 0:
        return line[:place] + chr(rng.randrange(32, 127)) + line[place + 1 :]
    if kind == 1:
        end = rng.randrange(place, len(line))
        return line[:place] + line[end:]
    if kind == 2:
        return line[:place] + rng.choice([DEEP, "9" * 5000, "\x00", "\ud7ff", "NaN"]) + line[place:]
    value = json.loads(line)
    container, key = rng.choice(list(places(value)))
    if kind == 3:
        container[key] = rng.choice(VALUES)
    else:
        del container[key]
    return json.dumps(value)


@pytest.mark.parametrize("name", READERS)
def test_damaged_lines_cost_themselves(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A line is damaged in many ways; the one behind it is read all the same, or is good for it."""
    written(tmp_path)
    file, read = READERS[name]
    path = tmp_path / file
    line = path.read_text().rstrip("\n")
    rng = random.Random(1)
    named = 0
    for _ in range(40):
        caplog.clear()
        path.write_text(f"{line}\n{damaged(line, rng)}\n{line}\n")
        read(path.parent if file.endswith("json") else path)
        named += any(str(path) in m and ("line 2" in m or ":2: " in m) for m in caplog.messages)
    assert named > 12


def test_a_file_of_nothing_but_damage_is_read(tmp_path: Path) -> None:
    written(tmp_path)
    rng = random.Random(2)
    for name, (file, read) in READERS.items():
        path = tmp_path / file
        whole = path.read_bytes()
        for _ in range(15):
            noise = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 200)))
            path.write_bytes(whole[:1] + noise)
            try:
                read(path.parent if file.endswith("json") else path)
            except TensorIRError as error:
                assert str(path) in str(error), name  # noqa: PT017 - most are read
        path.write_bytes(whole)


def test_programs_and_traces_are_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    code = f"open({str(mark)!r}, 'w')"
    script = Matmul.script().replace("T.float32(0.0)", f"T.float32({code} and 0.0)")
    evil = [
        script,
        f"{code}\n{Matmul.script()}",
        Matmul.script().replace("@T.prim_func", f"@[T.prim_func, {code}][0]"),
        Matmul.script().replace('"float32")', f"{code})", 1),
    ]
    written(tmp_path)
    with (tmp_path / WORKLOADS.file).open("a") as file:
        for text in evil:
            file.write(json.dumps(["1", base64.b64encode(text.encode()).decode()]) + "\n")
    path = tmp_path / RECORDS.file
    index, (trace, *rest) = json.loads(path.read_text())
    for text in (code, f"__import__('os').system('touch {mark}')"):
        for place in range(len(trace[0])):
            other = json.loads(json.dumps(trace))
            other[0][place][2] = [text] * max(1, len(other[0][place][2]))
            with path.open("a") as file:
                file.write(json.dumps([index, [other, *rest]]) + "\n")
    use_database(tmp_path)
    assert not mark.exists()


def test_a_journal_of_anything_is_begun_anew(tmp_path: Path) -> None:
    journal = RunJournal(tmp_path)
    journal.begin({"trials": 8}, 1)
    journal.note_trial(0)
    journal.close()
    (path,) = tmp_path.iterdir()
    whole = path.read_text()
    rng = random.Random(3)
    for _ in range(40):
        path.write_text(damaged(whole.split("\n")[0], rng) + "\n[0]\n", errors="replace")
        (count,) = journal.begin({"trials": 8}, 1)
        assert count in (0, 1)
        journal.begin({"trials": 9}, 1)
        journal.others()
        journal.end()
        journal.begin({"trials": 8}, 1)
        journal.end()
