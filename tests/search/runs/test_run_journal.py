"""The file of an unfinished run: which trials it made, and that no other run takes it for its own."""

from __future__ import annotations

from pathlib import Path

from search.runs.run_journal import RunJournal

PLAN = {"trials": 8}


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
