"""The explorer of a run: the points of its design spaces, and the schedules that it opens."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import search as ms
from search.errors import DatabaseError
from search.explorer.points import points_of
from search.reports.trial import Trial
from tests.search.reports.searches_for_pages import TRIAL, trials, write, write_search


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working directory of a search of 20 trials with a database."""
    return write_search(tmp_path_factory.mktemp("search") / "matmul")


def tried(*rows: tuple[float | None, dict[str, Any]]) -> list[Trial]:
    """Trials with a time in microseconds, None for a failed one, and decisions by name."""
    return [
        replace(
            TRIAL,
            stage="check" if us is None else "done",
            run_secs=() if us is None else (us * 1e-6,),
            predicted=None,
            knobs=knobs,
        )
        for us, knobs in rows
    ]


def test_an_axis_for_the_time_and_for_each_decision_that_varied() -> None:
    found = points_of(
        tried(
            (3.0, {"tile": 16, "location": "root", "unroll": 64}),
            (5.0, {"tile": 2, "location": 5, "unroll": 64}),
            (None, {"tile": 2, "location": "inline", "unroll": 64}),
        )
    )
    assert found == {
        "axes": [
            {"name": "time (us)", "low": 3.0, "high": 5.0, "log": False, "at": [3.0, 5.0, None]},
            {"name": "tile", "ticks": ["2", "16"], "at": [1, 0, 0]},
            {"name": "location", "ticks": ["5", "inline", "root"], "at": [2, 0, 1]},
        ],
        "same": [["unroll", "64"]],
    }


def test_a_few_long_times_do_not_stretch_the_axis() -> None:
    times = [(10.0 + k, {}) for k in range(20)]
    (axis,) = points_of(tried(*times, (9000.0, {})))["axes"]
    assert (axis["low"], axis["high"], axis["log"]) == (10.0, 1.25 * 28.0, False)
    (axis,) = points_of(tried(*((2.0**k, {}) for k in range(8))))["axes"]
    assert axis["log"]


def test_many_values_make_a_continuous_axis() -> None:
    axes = points_of(tried(*((1.0, {"n": k + 1}) for k in range(50))))["axes"]
    assert axes[1] == {"name": "n", "low": 1, "high": 50, "log": True, "at": list(range(1, 51))}


def test_the_trials_of_a_space_are_ordered_by_time(searched: Path) -> None:
    run = ms.explore(searched)
    assert repr(run) == "<RunExplorer of 20 trials of 1 task>"
    (task,) = run.data()["tasks"]
    (space,) = task["spaces"]
    assert (task["label"], task["winner"]) == ("matmul", None)
    assert space["label"] == "design space 0: 20 tried, best 3 us"
    names = [axis["name"] for axis in space["axes"]]
    assert names[:2] == ["time (us)", "predicted score"]
    assert all(re.fullmatch(r"tile of loop \d of C\[\d\]", name) for name in names[2:])
    assert space["axes"][0]["at"] == sorted(space["axes"][0]["at"])
    assert space["number"][:3] == [0, 3, 6]
    for place, tile in zip(space["place"], space["axes"][2]["at"], strict=True):
        loop, part = map(int, re.findall(r"\d", names[2]))
        decisions = run.run.trials[place].decisions or []
        assert int(space["axes"][2]["ticks"][tile]) == decisions[loop][part]


def test_tasks_and_spaces_are_told_apart(tmp_path: Path) -> None:
    first = (replace(one, space=one.number % 2) for one in trials(20, "conv"))
    write(tmp_path, first, trials(20, "dense", seed=2))
    data = ms.explore(tmp_path).data()
    spaces = {one["label"]: [len(s["number"]) for s in one["spaces"]] for one in data["tasks"]}
    assert spaces == {"conv": [10, 10], "dense": [20]}
    (dense,) = next(one["spaces"] for one in data["tasks"] if one["label"] == "dense")
    assert dense["stage"][-2:] == ["check", "check"], "failed trials come last"


def test_a_trial_is_opened(searched: Path) -> None:
    run = ms.explore(searched, database=searched)
    assert run.respond({"do": "view", "step": 0})["error"] == "no trial is open; open one first"
    answer = run.respond({"do": "open", "task": 0, "place": 6})
    trial = run.run.trials[6]
    decided = [step["decision"]["value"] for step in answer["data"]["steps"] if step["decision"]]
    assert decided == trial.decisions
    assert answer["data"]["programs"][-1]["seconds"] == trial.seconds
    changed = run.respond({"do": "decide", "step": 2, "decision": [1, 1, 32]})
    assert changed["data"]["steps"][2]["decision"]["value"] == [1, 1, 32]
    assert run.respond({"do": "details", "step": 0})["details"]["machine"]["asm"]


def test_trials_without_a_schedule(tmp_path: Path) -> None:
    write(tmp_path, trials(10))
    run = ms.explore(tmp_path)
    failed = run.respond({"do": "open", "task": 0, "place": 7})["error"]
    assert re.match("trial 7 of matmul has no record .* it failed in check; open another", failed)
    assert "its program is unknown" in run.respond({"do": "open", "task": 0, "place": 0})["error"]
    with pytest.raises(DatabaseError, match="no run left trials in"):
        ms.explore(tmp_path / "nowhere")


def test_a_page_has_the_points_and_the_fastest_schedules(searched: Path, tmp_path: Path) -> None:
    path = ms.explore(searched).save(tmp_path / "x.html")
    text = path.read_text()
    assert "https://" not in text
    data = unpacked(re.findall(r'id="data">([^<]*)<', text)[0])
    assert list(data["schedules"]) == ["0/0", "0/3", "0/6", "0/9", "0/12", "0/15"]
    shown = unpacked(data["schedules"]["0/3"])
    assert shown["programs"][shown["shown"][-1]]["machine"]["asm"]


def test_a_page_of_a_thousand_trials_is_small(tmp_path: Path) -> None:
    write(tmp_path, wide(1000))
    assert ms.explore(tmp_path).save(tmp_path / "x.html").stat().st_size < 400_000


def wide(count: int) -> Iterator[Trial]:
    """Trials of 30 decisions."""
    for trial in trials(count):
        tiles = [[trial.number * k % 7, k, trial.number % (k + 2)] for k in range(10)]
        yield replace(trial, decisions=tiles)


def unpacked(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))
