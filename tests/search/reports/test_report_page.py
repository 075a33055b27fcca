"""The page of a search, read by an HTML parser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

import search as ms
from search import DatabaseError, TuningError
from search.database.line_store import LineStore
from search.reports.page import page
from search.reports.page.markup import Markup, element, table
from search.reports.report import TaskReport
from search.reports.run_directory import REPORTS, TASKS, TRIALS, add_tasks
from tests.search.reports.searches_for_pages import (
    TARGET,
    TRIAL,
    Parsed,
    trials,
    write,
    write_search,
)

ASSETS = Path(page.__file__).parent / "assets"
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working directory of a search with a database."""
    return write_search(tmp_path_factory.mktemp("search") / "tune_matmul")


@pytest.fixture(scope="module")
def matmul(searched: Path) -> Parsed:
    """Its report."""
    return Parsed(ms.report(searched).path.read_text())


def test_a_report_says_what_was_found(matmul: Parsed) -> None:
    summary = matmul.text("summary")
    assert "best time3 us" in summary
    assert "trials20" in summary
    assert "statefinished" in summary
    heading, row = matmul.table("Tasks, most expensive first")
    assert dict(zip(heading, row, strict=True))["weight"] == "3"
    assert row[0] == "matmul"
    assert row[3] == "3"


def test_the_winner_is_shown_by_the_explorer(matmul: Parsed) -> None:
    assert matmul.text("winners") == "matmul"
    text = json.loads(matmul.text("data"))["winners"]["0"]
    shown = json.loads(zlib.decompress(base64.b64decode(text)))
    assert shown["target"] == TARGET
    assert shown["steps"][0]["text"] == 'b0 = sch.get_block(name="C", func_name="main")'
    programs = [shown["programs"][shown["shown"][step]] for step in (0, -1)]
    lines = [[line.strip() for line, _ in program["lines"]] for program in programs]
    assert "for i, j, k in T.grid(32, 32, 32):" in lines[0]
    assert any(line.startswith("for i_0, j_0, k_0") for line in lines[1])
    assert programs[1]["seconds"] == pytest.approx(3e-6)
    assert programs[1]["machine"]["asm"]
    assert programs[0]["cycles"] is None, "only the winner has an estimate"
    assert programs[1]["cycles"] > 0


def test_decisions_are_named_and_ordered_by_what_they_explain(matmul: Parsed) -> None:
    heading, *rows = matmul.table("What matters in matmul")
    assert heading[:3] == ["column", "values", "explains"]
    assert {row[0] for row in rows} <= {
        f"tile of loop {k} of C[{j}]" for k in range(3) for j in range(3)
    }
    shares = [-1 if row[2] == "too few trials" else int(row[2].partition("%")[0]) for row in rows]
    assert shares == sorted(shares, reverse=True)
    columns = json.loads(matmul.text("data"))["tasks"][0]["columns"]
    assert columns[: len(rows)] == [row[0] for row in rows]


def test_the_data_of_the_charts_is_that_of_the_trials(tmp_path: Path) -> None:
    write(tmp_path, trials(30))
    data = json.loads(Parsed(ms.report(tmp_path).path.read_text()).text("data"))
    run = ms.load_run(tmp_path)
    rows = data["rows"]
    assert [data["stages"][stage] for stage in rows["stage"]] == [one.stage for one in run.trials]
    decided = [[k for tile in one.decisions or () for k in tile] for one in run.trials]
    assert [sorted(one) for one in rows["decisions"]] == [sorted(one) for one in decided]
    assert rows["time"][0] == pytest.approx(1e6 * run.trials[0].run_secs[0], rel=1e-5)
    assert rows["time"][7] is None, "it failed"
    assert rows["best"] == pytest.approx(1e6 * run.array["best_so_far"], rel=1e-5)
    assert rows["at"][:2] == [0.75, 1.25], "from the start of the first trial"


def test_whatever_is_in_the_files_is_text(tmp_path: Path) -> None:
    write(
        tmp_path,
        iter(
            [
                replace(TRIAL, task=EVIL),
                replace(TRIAL, task=EVIL, stage="build", run_secs=(), error=EVIL),
                replace(TRIAL, task="\ud800", decisions=[EVIL, {"a": "</script>"}, None]),
            ]
        ),
    )
    add_tasks(LineStore(tmp_path), [TaskReport(EVIL, EVIL, "17", 1.0)])
    page = ms.report(tmp_path).path.read_text()
    parsed = Parsed(page)
    assert page.count("<script") == 3, "those of the page, and no other"
    assert not [tag for tag, _ in parsed.attributes if tag == "img"]
    assert EVIL in parsed.text("failed")
    assert json.loads(parsed.text("data"))["tasks"][0]["label"] == f"{EVIL} on {EVIL}"


@pytest.mark.parametrize("field", ["task", "target"])
def test_a_damaged_name_or_target_costs_nothing_else(tmp_path: Path, field: str) -> None:
    write(tmp_path, [*trials(20), replace(TRIAL, **{field: "llvm -mcpu='\0\x1b"})])
    page = ms.report(tmp_path).path.read_text()
    assert "\0" not in page
    assert "llvm -mcpu=&#x27;\ufffd\ufffd" in page


def test_a_browser_may_run_the_scripts_of_the_page_and_load_nothing(matmul: Parsed) -> None:
    (policy,) = (a["content"] or "" for tag, a in matmul.attributes if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src" not in policy
    theme = (ASSETS / "theme.js").read_bytes()
    assert base64.b64encode(hashlib.sha256(theme).digest()).decode() in policy
    outside = [a for _, a in matmul.attributes if "src" in a or (a.get("href") or "#")[0] != "#"]
    assert not outside


def test_what_is_seen_can_be_heard(matmul: Parsed) -> None:
    assert len(matmul.captions) == len(matmul.tables), "each table has a caption"
    headings = [a for tag, a in matmul.attributes if tag == "th"]
    assert all(a.get("scope") in ("row", "col") for a in headings)
    ids = [a["id"] for _, a in matmul.attributes if "id" in a]
    assert len(ids) == len(set(ids))
    named = [a["aria-labelledby"] for tag, a in matmul.attributes if tag == "section"]
    assert set(named) <= set(ids)
    scrolled = [a for tag, a in matmul.attributes if tag == "pre"]
    assert all(a["tabindex"] == "0" and a["aria-label"] for a in scrolled)


def test_failures_are_told_once_for_each_reason_and_what_to_try_next(tmp_path: Path) -> None:
    write(tmp_path, trials(40))
    failed = Parsed(ms.report(tmp_path).path.read_text()).text("failed")
    assert "4 trials, CHECK_ERROR: Wrong result, argument 1 (C)" in failed
    assert "Numbers of the trials in matmul: 7, 17, 27, 37" in failed
    assert "BUILD_ERROR" not in failed
    write(tmp_path / "all", (replace(one, stage="build", run_secs=()) for one in trials(9)))
    steps = Parsed(ms.report(tmp_path / "all").path.read_text()).text("steps")
    assert "matmul" in steps
    assert "9 of 9 trials failed" in steps


def test_what_a_run_has_reported_stands_in_the_table_of_tasks(tmp_path: Path) -> None:
    write(tmp_path, trials(10))
    last = ms.load_run(tmp_path).trials[-1].time
    report = TaskReport(
        "matmul", TARGET, "17", weight=2.0, unscheduled=1e-3, best=2e-6, spread=1e-7, time=last + 1
    )
    LineStore(tmp_path).add(REPORTS, report)
    parsed = Parsed(ms.report(tmp_path).path.read_text())
    heading, row = parsed.table("Tasks, most expensive first")
    cells = dict(zip(heading, row, strict=True))
    assert (cells["weight"], cells["unscheduled (us)"]) == ("2", "1000")
    assert (cells["best (us)"], cells["+- (us)"]) == ("2", "0.1"), "as it was measured again"
    LineStore(tmp_path).add(TRIALS, replace(TRIAL, number=10, run_secs=(1e-6,), time=last + 2))
    again = Parsed(ms.report(tmp_path).path.read_text()).text("summary")
    assert "best time1 us" in again, "the report is older than the last trial"


def test_machines_are_told_apart_where_there_are_several(tmp_path: Path) -> None:
    machines = ["red", "blue", "red", None]
    write(tmp_path, (replace(TRIAL, machine=machine) for machine in machines))
    parsed = Parsed(ms.report(tmp_path).path.read_text())
    assert [row[:2] for row in parsed.table("Where trials were measured")[1:]] == [
        ["red", "2"],
        ["blue", "1"],
        ["this one", "1"],
    ]
    assert json.loads(parsed.text("data"))["rows"]["machine"] == machines


def test_tasks_are_ordered_by_what_they_take_of_a_call(tmp_path: Path) -> None:
    write(tmp_path, trials(10, "seldom"), trials(10, "often", seed=2))
    add_tasks(
        LineStore(tmp_path),
        [
            TaskReport("seldom", TARGET, "17", 1.0),
            TaskReport("often", TARGET, "17", 24.0),
            TaskReport("late", TARGET, "18", 2.0),
        ],
    )
    parsed = Parsed(ms.report(tmp_path).path.read_text())
    heading, *rows = parsed.table("Tasks, most expensive first")
    assert [(row[0], row[1]) for row in rows] == [
        ("often", "24"),
        ("seldom", "1"),
        ("late", "2"),
        ("all, by weight", ""),
    ]
    share = heading.index("share of a call")
    assert float(rows[0][share].removesuffix("%")) > 90
    assert rows[2][heading.index("trials")] == "0"
    assert json.loads(parsed.text("data"))["tasks"][1]["rank"] == 0, "it is the one shown first"


def test_equal_names_of_other_programs_and_targets_are_told_apart(tmp_path: Path) -> None:
    other = "llvm -keys=cpu -num-cores=2"
    write(
        tmp_path,
        iter([TRIAL, replace(TRIAL, target=other), replace(TRIAL, workload="18"), TRIAL]),
    )
    tasks = json.loads(Parsed(ms.report(tmp_path).path.read_text()).text("data"))["tasks"]
    assert [task["label"] for task in tasks] == [
        f"matmul on {TARGET}",
        f"matmul on {other}",
        f"matmul on {TARGET} (program 2)",
    ]


def test_a_run_without_predictions_or_a_database_has_a_report(tmp_path: Path) -> None:
    write(tmp_path, iter([replace(TRIAL, predicted=None, decisions=None, space=None)]))
    parsed = Parsed(ms.report(tmp_path, tmp_path / "there.html").path.read_text())
    assert "There is no database with the programs" in parsed.text("winners")
    assert json.loads(parsed.text("data"))["rows"]["score"] == [None]
    assert not (tmp_path / "report.html").exists()


def test_lines_that_are_broken_are_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, trials(3))
    (tmp_path / TASKS.file).write_text("[]\n")
    with (tmp_path / TRIALS.file).open("a") as file:
        file.write('{"task": 3}\n')
    LineStore(tmp_path).add(TRIALS, TRIAL)
    (tmp_path / "database_workload.json").write_text("no database")
    (tmp_path / "database_tuning_record.json").write_text("no database")
    summary = Parsed(ms.report(tmp_path).path.read_text()).text("summary")
    assert "trials4" in summary
    assert f"1 line could not be read in {TRIALS.file}." in summary
    assert "is not a file of records" in summary
    assert "line 4" in caplog.text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there are no trials in .*: give the work_dir of a search"),
        ("", "there are no trials in"),
        ("no trials", "is not a file of records"),
    ],
)
def test_a_directory_without_trials_has_no_report(
    tmp_path: Path, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / TRIALS.file).write_text(content)
    with pytest.raises(DatabaseError, match=message):
        ms.report(tmp_path)
    assert not (tmp_path / "report.html").exists()
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseError, match="file is not a directory: it is a file; give"):
        ms.report(tmp_path / "file")


def test_tasks_are_chosen_by_name(searched: Path, tmp_path: Path) -> None:
    written = ms.report(searched, tmp_path / "one.html", tasks=["matmul"])
    assert Parsed(written.path.read_text()).text("winners") == "matmul"
    with pytest.raises(TuningError, match=r"unknown task 'matmull' in .*did you mean 'matmul'"):
        ms.report(searched, tmp_path / "two.html", tasks=["matmull"])


def test_a_notebook_shows_a_report_that_may_do_nothing_there(
    searched: Path, tmp_path: Path
) -> None:
    written = ms.report(searched, tmp_path / "a<b.html")
    assert str(written) == str(tmp_path / "a<b.html")
    shown = written._repr_html_()
    assert '<iframe sandbox="allow-scripts"' in shown
    assert "a&lt;b.html" in shown
    written.path.unlink()
    assert "iframe" not in written._repr_html_()


def test_of_very_many_trials_those_that_were_the_best_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "MOST_TRIALS", 20)
    write(tmp_path, trials(100))
    data = json.loads(Parsed(ms.report(tmp_path).path.read_text()).text("data"))
    times = [one.seconds for one in ms.load_run(tmp_path).trials]
    improved = [
        k for k, t in enumerate(times) if t and t < min((s for s in times[:k] if s), default=1.0)
    ]
    assert set(improved) <= set(data["rows"]["number"])
    assert len(data["rows"]["number"]) <= 20 + len(improved)


def test_the_charts_are_drawn_by_the_library_that_is_named() -> None:
    first = (ASSETS / "uPlot.iife.min.js").read_text().partition("\n")[0]
    (version,) = re.findall(r"\(v([\d.]+)\)", first)
    assert f"uPlot {version}," in (ASSETS / "README.md").read_text()
    assert "Permission is hereby granted" in (ASSETS / "uPlot.LICENSE").read_text()


def test_text_is_escaped_and_markup_is_not() -> None:
    assert element("p", "a<b", Markup("<br>"), 3, None, id_='"') == '<p id="&quot;">a&lt;b<br>3</p>'
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert element("select", disabled=True, hidden=False) == "<select disabled></select>"
    made = table(["<", "n"], [["&", "1"]], caption="<i>", numbers=[1])
    assert '<th scope="row">&amp;</th><td class="number">1</td>' in made
