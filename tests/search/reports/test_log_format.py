"""A log format of a user's own, in one class: the general functions explain, tabulate and draw it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from matplotlib import pyplot as plt

import search
from search import autotvm
from search.database.line_store import LineStore
from search.errors import DatabaseError, TuningError
from search.reports import Log, LogFormat, RunTable, Trial
from search.reports.run_directory import TRIALS
from tests.search.compat.auto_scheduler.workloads import LINE as STEPS_LINE
from tests.search.compat.autotvm.test_record import LINE as TEMPLATE_LINE
from tests.search.reports.test_trials import BEST, BROKEN, FIRST, STOPPED

SWEEP = """\
#tiles of a matmul
tile\tlanes\tseconds
8\tnarrow\t4e-6
8\twide\t3e-6
16\tnarrow\t2e-6
16\twide\tcrashed
32\tnarrow\t5e-6
32\twide\t1e-6
"""


class Sweep(LogFormat):
    """Sweeps over tiles: a line for each, with its seconds or what went wrong."""

    def recognises(self, path):
        return path.suffix == ".sweep"

    def read(self, path):
        rows = [line.split("\t") for line in path.read_text().splitlines()[2:]]
        return Log([self.trial(number, *row) for number, row in enumerate(rows)])

    def trial(self, number, tile, lanes, seconds):
        failed = seconds == "crashed"
        return Trial(
            task="matmul",
            workload="",
            target="llvm",
            batch=0,
            number=number,
            stage="run" if failed else "done",
            run_secs=() if failed else (float(seconds),),
            time=100.0 + number,
            knobs={"tile": int(tile), "lanes": lanes},
            flop=1e3,
        )


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "today.sweep"
    path.write_text(SWEEP)
    return path


def test_it_is_a_table(log):
    table = search.explain(log).table()
    assert table.tasks == ["matmul"]
    assert table.knobs == ("tile", "lanes")
    assert table.errors() == {"NO_ERROR": 5, "RUN_ERROR": 1}
    best = table.best()
    assert (best["tile"], best["lanes"], best["cost"]) == (32, "wide", 1e-6)
    assert best["gflops"] == pytest.approx(1.0)
    assert [row["best_so_far"] for row in table] == [4e-6, 3e-6, 2e-6, 2e-6, 2e-6, 1e-6]
    assert table.group_by("tile").best == (3e-6, 2e-6, 1e-6)
    assert str(table.turning_point("tile")) == "16 -> 32: 2.00 times as fast"


def test_it_is_explained(log):
    found = search.explain(log)
    assert "6 measurements of 1 task, 1970-01-01 00:01:40 UTC" in found.heading
    parts = dict(found.sections())
    assert parts["Best of each task"][1] == (
        "matmul", "6", "1", "1.00", "1.00", "6", "tile=32, lanes=wide",
    )  # fmt: skip
    assert parts["How measurements ended"][2] == ("RUN_ERROR", "1", "17%", "it failed while it ran")
    assert "What matters in matmul" in str(found)
    assert "<td>tile=32, lanes=wide</td>" in found._repr_html_()


def test_it_is_drawn(log):
    found = search.explain(log)
    assert [ax.get_title() for ax in found.plot() if ax.get_visible()] == [
        "progress", "how measurements ended", "time spent", "tile", "lanes",
    ]  # fmt: skip
    (line,) = search.plot.best_so_far({"sweep": found.table()}).lines
    assert list(line.get_ydata()) == pytest.approx([4, 3, 2, 2, 2, 1])
    tile, lanes = search.plot.cost_by_decision(found.table())[:2]
    assert (tile.get_title(), lanes.get_title()) == ("tile", "lanes")
    assert [label.get_text() for label in tile.get_xticklabels()] == ["8", "16", "32"]
    assert search.plot.where_time_went(found.table()).get_xlabel() == "time (s)"


def test_two_of_them_are_compared(log, tmp_path):
    other = tmp_path / "yesterday.sweep"
    other.write_text(SWEEP.replace("e-6", "e-5"))
    found = search.compare(log, other)
    assert found.summary()[1][:4] == ("matmul", "5", "1.00", "10.00")
    assert found.rank_correlation("matmul") == pytest.approx(1.0)


def test_every_log_is_explained(tmp_path):
    (tmp_path / "matmul.log").write_text(TEMPLATE_LINE)
    (tmp_path / "ansor.json").write_text(f"# by hand\n{STEPS_LINE}\n")
    for trial in (FIRST, BROKEN, STOPPED, BEST):
        LineStore(tmp_path / "run").add(TRIALS, trial)
    fields = {
        name: [field.name for field in search.explain(tmp_path / name).fields]
        for name in ("matmul.log", "ansor.json", "run")
    }
    assert fields["matmul.log"][0] == "input[0]"
    assert fields["ansor.json"][0] == "i[0][0]"
    assert fields["run"] == list(FIRST.as_json())
    same = autotvm.explain_log(tmp_path / "matmul.log")
    assert str(search.explain(tmp_path / "matmul.log")) == str(same)


def test_pictures_of_runs_are_those_of_any_log(tmp_path):
    (tmp_path / "matmul.log").write_text(f"{TEMPLATE_LINE}\n{TEMPLATE_LINE.replace('412', '312')}")
    table = autotvm.records_to_table(tmp_path / "matmul.log")
    runs = {"templates": table, "a run": RunTable([FIRST, BEST])}
    assert len(search.plot.best_so_far(runs, against="seconds").lines) == 2
    stages = [label.get_text() for label in search.plot.where_time_went(table).get_yticklabels()]
    assert stages == ["build and measure", "search and wait"]


def test_what_is_no_log_is_said(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello\n" + json.dumps({"a": 1}))
    with pytest.raises(TuningError, match=r"notes\.txt has no known format of logs; .* Sweep"):
        search.explain(path)
    (tmp_path / "empty.sweep").write_text("")
    with pytest.raises(TuningError, match=r"there are no trials in .*empty\.sweep"):
        search.explain(tmp_path / "empty.sweep")
    with pytest.raises(OSError, match="nowhere"):
        search.explain(tmp_path / "nowhere")
    with pytest.raises(DatabaseError, match="no run left trials"):
        search.explain(tmp_path)


def test_a_format_that_is_defined_later_is_asked_first(log):
    class Beforehand(Sweep):
        def recognises(self, path):
            return path.name == log.name

        def read(self, path: Path) -> Log:
            return Log(super().read(path).trials[:1])

    try:
        assert len(search.explain(log).table()) == 1
    finally:
        LogFormat.known.remove(Beforehand)
