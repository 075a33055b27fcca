"""The file of an unfinished run: which trials it made, and that no other run takes it for its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import search as ms
from schedule import Schedule
from search.runs.run_journal import RunJournal, plan_of
from search.search_strategy import EvolutionarySearch
from tests.search.compatible_programs import product
from tests.search.made_up_runs import task as made_task
from tests.search.programs import split_j

PLAN = {"trials": 8}


def tiles_of(size: int) -> Callable[[Schedule], None]:
    def tiled(sch: Schedule) -> None:
        i, *_ = sch.get_loops("C")
        j, *_ = sch.split(i, [None, size])
        sch.split(j, sch.sample_perfect_tile(j, n=2))

    return tiled


@pytest.mark.parametrize(
    ("change", "before"),
    [
        ({"target": "llvm -num-cores=2"}, {}),
        ({"space": split_j}, {}),
        ({"space": tiles_of(4)}, {"space": tiles_of(2)}),
        ({"seed": 2}, {}),
        ({"strategy": "replay-trace"}, {}),
        ({"strategy": EvolutionarySearch(eps_greedy=0.5)}, {}),
        ({"program": product(32, 64, 32)}, {}),
    ],
)
def test_other_tasks_have_another_plan(change: dict[str, Any], before: dict[str, Any]) -> None:
    """Functions count by what they do, not by their names."""
    config = ms.TuneConfig(8)

    def plan(options: dict[str, Any]) -> dict[str, Any]:
        made = made_task(**options)
        return plan_of([made], [made.generate_design_space()], config, None)

    assert plan(change) == plan(change)
    assert plan(change) != plan(before)


def test_a_journal_knows_what_an_interrupted_run_did(tmp_path: Path) -> None:
    journal = RunJournal(tmp_path)
    assert journal.begin(PLAN, 2) == [0, 0]
    for task in (0, 1, 1):
        journal.note_trial(task)
    assert journal.begin({"trials": 9}, 2) == [0, 0], "another plan"
    assert journal.begin(PLAN, 2) == [1, 2]
    assert journal.others() == [{"trials": 9}]
    journal.end()
    assert journal.begin(PLAN, 2) == [0, 0], "it has ended"


def test_a_run_beside_the_same_run_has_nothing_to_resume(tmp_path: Path) -> None:
    running, beside = RunJournal(tmp_path), RunJournal(tmp_path)
    running.begin(PLAN, 1)
    running.note_trial(0)
    assert beside.begin(PLAN, 1) == [0]
    beside.note_trial(0)
    beside.end()
    running.note_trial(0)
    running.close()
    assert beside.begin(PLAN, 1) == [2], "the first was interrupted, and only its trials count"
    beside.end()
    assert not list(tmp_path.iterdir())


def test_a_journal_that_was_cut_short_counts_what_is_whole(tmp_path: Path) -> None:
    journal = RunJournal(tmp_path)
    journal.begin(PLAN, 12)
    for task in (0, 10, 10):
        journal.note_trial(task)
    journal.close()
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        counts = journal.begin(PLAN, 12)
        journal.note_trial(11)
        journal.close()
        lines = whole[:length].split(b"\n")[1:]
        assert counts == [lines.count(b"[%d]" % task) for task in range(12)]
        assert journal.begin(PLAN, 12)[11] == 1
        journal.close()
