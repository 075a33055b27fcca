"""Writers that are killed at any moment lose the record that they were writing, and no other."""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from search.cost_model.measurements import Measurements, SavedModel
from search.database import JSONDatabase, KeyedDatabase, SQLDatabase
from search.lines import append_lines
from search.runs.run_journal import RunJournal
from tests.search.database.made_records import commit

Write = Callable[[Path, int], None]


def log_line(number: int, task: int = 0) -> str:
    """Return a line of AutoTVM that ended `number` seconds after 1970."""
    config = {"index": 1, "code_hash": None, "entity": [["tile_y", "sp", [-1, number]]]}
    fields = {
        "input": ["llvm -keys=cpu -num-cores=1", "mm", [task, 16, "float32"], {}],
        "config": config,
        "result": [[0.5 + number], 0, 0.2, number],
        "version": 0.2,
        "tvm_version": "0.19.0",
    }
    return json.dumps(fields)


class Writer:
    """A process that writes one number after the other until it is killed."""

    def __init__(self, write: Write, path: Path, first: int) -> None:
        self._reports, report = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            try:
                number = first
                while True:
                    write(path, number)
                    os.write(report, struct.pack("q", number))
                    number += 1
            except BaseException:  # noqa: BLE001  the process ends in any case
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(report)

    def kill(self) -> list[int]:
        """Return what it had written."""
        os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        assert os.WIFSIGNALED(status), "it ended by itself"
        with os.fdopen(self._reports, "rb") as pipe:
            return [number for (number,) in struct.iter_unpack("q", pipe.read())]


def killed(write: Write, path: Path, rounds: int = 6, spread: float = 0.03) -> list[int]:
    """Let two write at a time, kill one after another at random; return what they had written."""
    rng = random.Random(1)
    written: list[int] = []
    starts = iter(range(10**6, 10**9, 10**6))
    writers = [Writer(write, path, next(starts)) for _ in range(2)]
    for _ in range(rounds):
        time.sleep(rng.uniform(0.0, spread))
        place = rng.randrange(2)
        written += writers[place].kill()
        writers[place] = Writer(write, path, next(starts))
    time.sleep(2 * spread)
    for writer in writers:
        written += writer.kill()
    assert written
    return written


def assert_only_the_last_are_lost(written: list[int], found: list[int]) -> None:
    assert set(written) <= set(found)
    assert len(found) == len(set(found))
    assert len(set(found) - set(written)) <= 8, "what a writer had no time to report"


def append_long_line(path: Path, number: int) -> None:
    """Append a line that takes the system a while: one that is longer than a page."""
    append_lines(path, [json.dumps([number, "x" * 20_000])])


@pytest.mark.parametrize("kind", [JSONDatabase, SQLDatabase])
def test_databases(tmp_path: Path, kind: type[KeyedDatabase]) -> None:
    opened: list[KeyedDatabase] = []

    def write(path: Path, number: int) -> None:
        if not opened:
            opened.append(kind(work_dir=path))  # type: ignore[call-arg]
        commit(opened[0], (8, 4), float(number))

    written = killed(write, tmp_path, spread=0.2)
    records = kind(work_dir=tmp_path).get_all_tuning_records()  # type: ignore[call-arg]
    assert_only_the_last_are_lost(written, [int(record.mean_seconds) for record in records])
    assert {len(record.trace.insts) for record in records} == {6}


def test_lines(tmp_path: Path) -> None:
    """Trials, the logs of AutoTVM and those of Ansor are written in this way."""
    path = tmp_path / "log"
    written = killed(append_long_line, path)
    numbers = []
    for line in path.read_text().splitlines():
        try:
            number, text = json.loads(line)
        except json.JSONDecodeError:
            continue
        assert text == "x" * 20_000
        numbers.append(number)
    assert_only_the_last_are_lost(written, numbers)


def test_the_journal_of_a_run(tmp_path: Path) -> None:
    """One run at a time: each goes on where the one before was killed."""
    journals: list[RunJournal] = []

    def write(path: Path, number: int) -> None:
        if not journals:
            journals.append(RunJournal(path))
            journals[0].begin({"trials": 8}, 1)
        journals[0].note_trial(0)

    rng = random.Random(2)
    written = 0
    for attempt in range(4):
        writer = Writer(write, tmp_path, 0)
        time.sleep(rng.uniform(0.0, 0.02))
        written += len(writer.kill())
        journal = RunJournal(tmp_path)
        (noted,) = journal.begin({"trials": 8}, 1)
        assert written <= noted <= written + attempt + 1
        journal.close()
    assert written


def test_a_saved_model_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "model.xgb"

    def write(path: Path, number: int) -> None:
        SavedModel(Measurements(), {}, [bytes([number % 256]) * 1000], "none").write(path)

    write(path, 0)
    for _ in range(4):
        writer = Writer(write, path, 1)
        time.sleep(0.02)
        writer.kill()
        (booster,) = SavedModel.read(path, "none").boosters
        assert len(set(booster)) == 1
        assert len(booster) == 1000
