"""The advice of an explanation, and the figures behind it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import search as ms
from codegen import Target
from search.database.line_store import LineStore
from search.reports import LogTable, TaskReport, Trial
from search.reports.advice import advice
from search.reports.roofline import Roofline
from search.reports.run_directory import REPORTS, TRIALS
from search.reports.tasks import failures_of

TARGET = "llvm -mcpu=znver3 -num-cores=1"


def trial(number: int, us: float | None = None, **facts: object) -> Trial:
    """A trial that took so many microseconds, or else failed as `facts` say."""
    done = {"stage": "done", "run_secs": (us * 1e-6,)} if us is not None else {"stage": "run"}
    fields = {"task": "main", "workload": "17", "target": TARGET, "batch": number // 8, **done}
    return Trial(number=number, time=100.0 + number, **{**fields, **facts})  # type: ignore[arg-type]


def said(trials: list[Trial], report: TaskReport | None = None) -> dict[str, str]:
    return {what: why for _, what, why in advice(LogTable(trials, [report] if report else []))}


def test_more_trials_where_the_best_still_falls() -> None:
    falls = said([trial(k, 100.0 - k) for k in range(32)])
    assert falls == {
        "more trials, 64 or so in all": "the best still fell by 19% in the second half of the 32 "
        "trials, at last in trial 32"
    }
    flat = said([trial(k, 100.0 + (k != 4)) for k in range(32)])
    assert list(flat.values()) == ["none of the 27 trials after trial 5 was better than that"]
    assert said([trial(k, 100.0 - k) for k in range(4)]) == {}, "too few to tell"


def test_a_wider_space_where_it_ran_dry() -> None:
    report = TaskReport("main", TARGET, "17", time=1e4, trials=32, exhausted=True)
    (why,) = said([trial(k, 100.0 - k) for k in range(32)], report).values()
    assert why.startswith(
        "the search ended after 32 trials because it found no unmeasured candidate"
    )


def test_other_operations_where_the_machine_does_no_more() -> None:
    roof = Roofline(1e6, 1000, "float32", 1e11, 1e11)
    report = TaskReport("main", TARGET, "17", time=1e4, best=10.5e-6, roofline=roof)
    assert said([trial(k, 100.0 - k) for k in range(32)], report) == {
        "fewer operations: another algorithm, or a narrower type; a schedule has little left to "
        "gain": "the best reaches 95% of the peak of the machine, compute-bound"
    }


def test_a_quieter_machine_where_times_vary() -> None:
    report = TaskReport("main", TARGET, "17", time=1e4, best=10e-6, spread=1e-6, rounds=7)
    (why,) = said([trial(0, 10.0)], report).values()
    assert why.startswith("the 7 rounds of the best vary by 10%")
    noisy = [trial(k, run_secs=(1e-6, 2e-6, 3e-6), stage="done") for k in range(4)]
    (why,) = said(noisy).values()
    assert why.startswith("the repeats of a trial vary by 50%")


def test_failures_are_grouped_by_what_they_say_but_for_numbers() -> None:
    trials = [
        trial(0, 1.0),
        trial(1, error="LocalRunner: Timeout of the candidate, 30.0 s"),
        trial(2, error="it raised\nTraceback (most recent call last):\nValueError: 7 is odd"),
        trial(3, error="LocalRunner: Timeout of the candidate, 31.5 s\nafter that"),
        trial(4, stage="build", error="no such instruction"),
    ]
    groups = failures_of(trials)
    assert [(g.ending, g.reason, [t.number for t in g.trials]) for g in groups] == [
        ("RUN_ERROR", "LocalRunner: Timeout of the candidate, 30.0 s", [1, 3]),
        ("RUN_ERROR", "ValueError: 7 is odd", [2]),
        ("BUILD_ERROR", "no such instruction", [4]),
    ]
    assert said(trials) == {
        "a longer limit (LocalRunner(timeout_sec=...)), if a limit ended them": "4 "
        "of 5 trials failed, 2 of them with RUN_ERROR: LocalRunner: Timeout of the candidate, "
        "30.0 s"
    }


def test_a_constraint_where_values_are_bad_or_fail() -> None:
    """Tiles of 1 and 2 take three times the best, and those of 64 fail."""
    times = {1: 30.0, 2: 40.0, 8: 10.0, 16: 12.0, 64: None}
    trials = [
        trial(k, time and time + k % 3, knobs={"tile of i[1]": tile}, decisions=[[1, tile]])
        for k, (tile, time) in enumerate([*times.items()] * 5)
    ]
    found = said(trials)
    failing = 'constraint=lambda d: d["tile of i"][1] != 64'
    assert found[failing] == "all 5 trials with that failed"
    slow = 'constraint=lambda d: d["tile of i"][1] not in (1, 2)'
    assert found[slow].startswith(
        "10 trials with that (40%) took 3.0 times the best or more; tile of i[1] explains 9"
    )
    elsewhere = said([replace(one, decisions=None) for one in trials])
    assert "a space without tile of i[1] in {64}" in elsewhere, "a log of templates"


def test_a_rule_whose_space_is_never_good() -> None:
    slow = [trial(k, 50.0 + k, space=1) for k in range(4)]
    stopped = [trial(k, 20.0, stage="stopped", space=2) for k in range(4, 8)]
    good = [trial(k, 10.0, space=0) for k in range(8, 12)]
    found = said([*good, *slow, *stopped])
    assert found == {
        "the search without the rule that makes design space 1 (`sch_rules=`)": "4 trials went "
        "there; it came to 50 us, and the best is 10 us",
        "the search without the rule that makes design space 2 (`sch_rules=`)": "4 trials went "
        "there; it was stopped each time, and the best is 10 us",
    }


@pytest.mark.parametrize(("sign", "blind"), [(1.0, False), (-1.0, True)])
def test_another_model_where_predictions_say_nothing(sign: float, blind: bool) -> None:
    trials = [trial(k, 10.0 + k % 8 * 10, predicted=-sign * (k % 8)) for k in range(24)]
    found = [what for what in said(trials) if what.startswith("another cost model")]
    assert bool(found) == blind


def test_another_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codegen.target.host.physical_cores", lambda: 4)
    here = "llvm -num-cores=1"
    assert list(said([trial(0, 200.0, target=here)])) == [
        "a target with -num-cores=4, if the program has this machine for itself"
    ]
    assert said([trial(0, 20.0, target=here)]) == {}, "a call is too short to be shared"
    assert said([trial(0, 200.0)]) == {}, "another machine"
    assert Target(TARGET).num_cores == 1


def test_it_is_part_of_the_explanation_of_a_run(tmp_path: Path) -> None:
    for one in (*(trial(k, 100.0 - k) for k in range(8)), trial(8, error="it crashed")):
        LineStore(tmp_path).add(TRIALS, one)
    report = TaskReport("main", TARGET, "17", unscheduled=1e-3, best=93e-6, time=1e4)
    LineStore(tmp_path).add(REPORTS, report)
    found = ms.explain(tmp_path)
    assert found.reports == (report,)
    parts = dict(found.sections())
    assert parts["Before and after"][1][2:5] == ("1000", "", "93")
    assert parts["What failed, and why"][1] == ("RUN_ERROR", "1", "9: ", "it crashed")
    assert list(parts)[-1] == "What to try next"
    assert "more trials, 18 or so in all" in str(found)
    titles = [part["title"] for part in found.as_json()["parts"]]
    assert titles == list(parts)


def test_where_nothing_stands_out_that_is_said(tmp_path: Path) -> None:
    LineStore(tmp_path).add(TRIALS, replace(trial(0, 10.0), decisions=None))
    assert "nothing else  no figure of this log speaks for a change" in str(ms.explain(tmp_path))
