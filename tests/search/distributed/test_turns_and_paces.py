"""Who computes beside whom on a machine, and which machines may be compared."""

from __future__ import annotations

import threading

from search.distributed.paces import Paces
from search.distributed.turns import Turns


def test_who_is_alone_waits_for_the_others_and_nobody_begins_before_it() -> None:
    turns, log = Turns(), []
    inside, go_on, waiting = threading.Event(), threading.Event(), threading.Event()

    def build() -> None:
        with turns.beside_others():
            inside.set()
            go_on.wait(5)
            log.append("first build")

    def measure() -> None:
        waiting.set()
        with turns.alone():
            log.append("measured")

    def build_later() -> None:
        with turns.beside_others():
            log.append("second build")

    threads = [threading.Thread(target=build)]
    threads[0].start()
    assert inside.wait(5)
    threads.append(threading.Thread(target=measure))
    threads[1].start()
    while turns._wanting_to_be_alone == 0:
        assert waiting.wait(5)
    threads.append(threading.Thread(target=build_later))
    threads[2].start()
    go_on.set()
    for thread in threads:
        thread.join(5)
    assert log == ["first build", "measured", "second build"]


def test_builds_go_on_beside_each_other() -> None:
    turns = Turns()
    with turns.beside_others(), turns.beside_others():
        pass
    with turns.alone():
        pass


def test_a_pace_that_is_not_the_usual_one_is_seen() -> None:
    paces = Paces()
    assert [paces.note("a", s) for s in (1.0, 1.1, 0.9, 1.0)] == ["fine"] * 4
    assert paces.note("a", 1.5) == "drifted"
    assert paces.note("a", 0.6) == "drifted"
    assert paces.note("a", None) == "fine"


def test_what_stays_slower_is_the_usual_pace_after_a_while() -> None:
    """A machine that throttles for good is measured by its new pace."""
    paces = Paces()
    for step in range(8):
        paces.note("a", 1 + step / 100)
    verdicts = [paces.note("a", 1.5 + step / 100) for step in range(12)]
    assert verdicts[0] == "drifted"
    assert verdicts[-1] == "fine"


def test_a_machine_that_is_slower_than_the_fastest_is_seen() -> None:
    paces = Paces()
    assert paces.note("a", 1.0) == "fine"
    assert paces.note("b", 1.1) == "fine"
    assert paces.note("c", 1.6) == "slow"
    assert paces.ratio("c") == 1.6
    assert not paces.is_slow("b")
    assert not paces.is_slow("one that has told nothing")
