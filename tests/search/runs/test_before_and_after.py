"""Before and after: what a search reports of its tasks, in its process and from its directory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import search as ms
from schedule import Schedule
from search.database.line_store import LineStore
from search.reports import RunReport, RunTable, TaskReport
from search.reports.roofline import (
    Roofline,
    functions_of_reals,
    roofline,
    touched_bytes,
)
from search.reports.run_directory import TRIALS, add_tasks
from search.runner import RunnerResult
from tensorir import IRModule, parse, workloads
from tests.search.made_up_runs import TARGET, ScriptFiles, TimesOfScripts
from tests.search.programs import Matmul, adds_one, split_all, split_j
from tests.search.reports.test_trials import BEST, BROKEN, FIRST, OTHER, STOPPED

ROOF = Roofline(flop=2e6, size=1000, dtype="float32", peak_flops=1e11, bandwidth=1e9)

REPORT = TaskReport(
    task="main",
    target=TARGET,
    unscheduled=1.2e-3,
    first=60e-6,
    best=40e-6,
    spread=0.5e-6,
    rounds=5,
    roofline=ROOF,
    trials=64,
    failed=2,
    stopped=9,
    seconds=12.34,
    time=2000.0,
)


def microseconds(*times: float) -> RunnerResult:
    return RunnerResult(tuple(t * 1e-6 for t in times))


# ------------------------------------------------------------------------------------- what it says


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (
            replace(REPORT, spread=30e-6),
            "+- 30 us in 5 rounds, a busy machine: measure again when it is quiet\n",
        ),
        (replace(REPORT, unscheduled=0.3, at_least=True), "unscheduled     more than 300 ms"),
        (
            replace(REPORT, unscheduled=0.3, at_least=True),
            "40 us             more than 7500 times as fast as unscheduled",
        ),
        (
            TaskReport("main", TARGET, trials=3, failed=3),
            "cores=1\nbest    none  no trial has succeeded\ntrials  3     3 failed",
        ),
    ],
)
def test_what_is_not_known_is_not_said(report: TaskReport, said: str) -> None:
    assert said in str(report)
    assert not REPORT.is_noisy


def test_a_notebook_shows_a_table_whose_texts_are_escaped() -> None:
    page = replace(REPORT, task="a<b")._repr_html_()
    assert page.startswith("<table><thead><tr><th>a&lt;b</th>")
    assert "<td>best</td><td>40 us</td>" in page


def test_it_is_plain_data() -> None:
    data = json.loads(json.dumps(REPORT.as_json()))
    assert (data["gain"], data["share"]) == pytest.approx((30, 0.5))
    assert data["roofline"]["bound"] == "compute"
    assert TaskReport.from_json(data) == REPORT
    assert TaskReport.from_json({**data, "joules": 3}) == REPORT, "a later version may have more"
    del data["winner"], data["ended"]
    assert TaskReport.from_json(data) == REPORT, "an earlier one had less"


def test_several_tasks_are_a_table_with_their_sum() -> None:
    report = RunReport([REPORT, replace(REPORT, task="other", weight=3.0, roofline=None)])
    *_, last = report.cells()
    assert last == (
        "all, by weight", "", "4800", "240", "160", "", "30", "", "", "128", "4", "24.7", "",
    )  # fmt: skip
    assert report.best == pytest.approx(160e-6)
    assert report.in_a_sentence() == (
        "the best take 160 us; unscheduled they take 4.8 ms, 30 times as long"
    )
    assert report["other"].weight == 3.0
    assert report[:1].tasks == (REPORT,)
    assert [one["task"] for one in report.as_json()["tasks"]] == ["main", "other"]
    with pytest.raises(KeyError, match="no task is called 'conv'; there are"):
        _ = report["conv"]
    unknown = RunReport([REPORT, TaskReport("other", TARGET)])
    assert unknown.best is None, "the sum is not known"
    assert unknown.in_a_sentence() == "1 of 2 have no schedule"


# ------------------------------------------------------------------------------------- of a search


def test_the_schedule_that_a_search_returns_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Trials take 100 us and more, the best again 90, and the unscheduled program 900."""
    builder = ScriptFiles(tmp_path / "artifacts")
    times = {k: 100 + k for k in range(8)}
    failed = RunnerResult(error_msg="it fails")
    runner = TimesOfScripts(
        lambda k: failed if k == 3 else microseconds(times.get(k, 90)),
        unscheduled=microseconds(900),
    )
    config = ms.TuneConfig(8, num_trials_per_iter=4, num_confirmed=1)
    best = ms.tune_tir(
        Matmul,
        TARGET,
        config,
        tmp_path,
        space=split_all,
        builder=builder,
        runner=runner,
        cost_model="random",
        seed=1,
    )
    assert isinstance(best, Schedule)
    report = best.report
    assert report.unscheduled == pytest.approx(900e-6)
    assert report.first == pytest.approx(90e-6), "as the best, beside which it was measured again"
    assert (report.winner, report.ended) == (0, "done")
    assert (report.best, report.spread, report.rounds) == pytest.approx((90e-6, 0, 5))
    assert (report.trials, report.failed, report.stopped) == (8, 1, 0)
    assert report.gain == pytest.approx(10)
    assert report.roofline is None, "a made-up runner does not measure on this machine"
    assert report.seconds
    assert ms.load_run(tmp_path).report["main"] == report
    assert "the best takes 90 us; unscheduled it takes 900 us" in capsys.readouterr().err
    assert type(best.copy()) is Schedule, "what is done to a copy was not measured"
    again = ms.tune_tir(Matmul, TARGET, ms.TuneConfig(0), tmp_path)
    assert again is not None
    assert again.report.best == pytest.approx(90e-6), "found without a search"


def test_without_measuring_at_the_end_the_unscheduled_program_is_not_measured(
    tmp_path: Path,
) -> None:
    runner = TimesOfScripts(lambda k: microseconds(100 + k))
    parts = {"builder": ScriptFiles(tmp_path / "artifacts"), "runner": runner}
    config = ms.TuneConfig(8, num_trials_per_iter=4, num_confirmed=0)
    best = ms.tune_tir(
        Matmul, TARGET, config, tmp_path, space=split_j, cost_model="random", **parts
    )
    assert best is not None
    assert (best.report.unscheduled, best.report.rounds) == (None, 0)
    assert best.report.trials == len(runner.log) == 5
    assert best.report.exhausted, "the space has five candidates"


def test_a_database_has_the_report_of_the_search_that_wrote_to_it(tmp_path: Path) -> None:
    both = IRModule({"matmul": Matmul["main"], "add": adds_one})
    database = ms.tune_module(
        both,
        TARGET,
        tmp_path,
        4,
        num_trials_per_iter=2,
        special_space={"matmul": split_j},
        builder=ScriptFiles(tmp_path / "artifacts"),
        runner=TimesOfScripts(),
        cost_model="random",
        num_confirmed=0,
    )
    assert database.report is not None
    assert [one.task for one in database.report] == ["add", "matmul"]
    assert database.report.trials == len(ms.load_run(tmp_path)) <= 4


def test_a_directory_of_a_run_without_an_end_says_what_its_trials_do(tmp_path: Path) -> None:
    matmul, conv = RunTable([FIRST, BROKEN, STOPPED, BEST, OTHER]).report
    assert (matmul.first, matmul.best) == pytest.approx((3e-6, 1.5e-6))
    assert (matmul.trials, matmul.failed, matmul.stopped) == (4, 1, 1)
    assert (conv.task, conv.best, conv.unscheduled) == ("conv", 9.0, None)


def test_tasks_of_a_run_without_an_end_have_their_weights(tmp_path: Path) -> None:
    LineStore(tmp_path).add(TRIALS, FIRST)
    add_tasks(LineStore(tmp_path), [TaskReport(FIRST.task, FIRST.target, FIRST.workload, 7.0)])
    (report,) = ms.load_run(tmp_path).report
    assert (report.weight, report.best, report.trials) == (7.0, pytest.approx(3e-6), 1)


def test_trials_after_a_report_count_too() -> None:
    known = replace(REPORT, task="matmul", target=FIRST.target, workload="17", time=1006.0)
    earlier = RunTable([FIRST, BROKEN, STOPPED], [known]).report
    assert list(earlier) == [known]
    (later,) = RunTable([FIRST, BROKEN, STOPPED, BEST], [known]).report
    assert (later.best, later.spread, later.trials) == (pytest.approx(1.5e-6), None, 4)
    assert (later.unscheduled, later.roofline) == (known.unscheduled, ROOF), "do not change"
    known = replace(known, best=1e-6)
    (later,) = RunTable([FIRST, BROKEN, STOPPED, BEST], [known]).report
    assert (later.best, later.rounds, later.trials) == (1e-6, 5, 4), "still the best"


# ------------------------------------------------------------------------------------ the roofline


def test_the_roofline_is_the_larger_of_two_times() -> None:
    assert (ROOF.bound, ROOF.least_seconds) == ("compute", 20e-6)
    reads = replace(ROOF, size=100_000, cores=4)
    assert (reads.bound, reads.least_seconds) == ("memory", 100e-6)
    assert reads.in_words(200e-6) == (
        "of the peak of 4 cores of this machine: 0.5 of 1 GB/s, memory-bound"
    )
    assert "compute-bound; above the peak: the program omits operations, or" in ROOF.in_words(10e-6)


@pytest.mark.parametrize(
    ("parameters", "body", "count"),
    [
        (
            "table: T.Buffer((1000, 8)), at: T.Buffer((4,), 'int64'), found: T.Buffer((4, 8))",
            "for i, j in T.grid(4, 8): found[i, j] = table[at[i], j]",
            4 * 8 * 4 + 4 * 8 + 4 * 8 * 4,
        ),
        (
            "A: T.Buffer((10,)), B: T.Buffer((2,))",
            "T.evaluate(T.call_extern('int32', 'f', A.data))\n    B[0] = T.float32(1)",
            40 + 4,
        ),
        ("n: T.int32, A: T.Buffer((100,))", "for i in range(n): A[i] = T.float32(1)", None),
    ],
    ids=["no more than is touched", "the whole of what has its address taken", "unknown sizes"],
)
def test_each_argument_counts_once(parameters: str, body: str, count: int | None) -> None:
    func = parse(f"@T.prim_func\ndef main({parameters}):\n    {body}\n")
    assert touched_bytes(func) == count
    assert touched_bytes(Matmul["main"]) == 3 * 32 * 32 * 4


def test_functions_that_count_no_operations_are_named() -> None:
    softmax = workloads.create("SFM", m=8, n=8)
    assert functions_of_reals(softmax) == ["exp"]
    words = replace(ROOF, functions="exp, tanh").in_words(200e-6)
    assert words.endswith("compute-bound; exp, tanh not counted")


def test_a_target_of_another_machine_has_no_roofline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("search.reports.roofline.known_speed", lambda target: None)
    assert roofline(Matmul, ms.TuneContext(Matmul, target=TARGET).target) is None


def test_half_as_many_float64_fit_a_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("search.reports.roofline.known_speed", lambda target: "known")
    monkeypatch.setattr("search.reports.roofline.peak_flops", lambda target, cores: 8e9)
    monkeypatch.setattr(
        "search.reports.roofline.read_bandwidth", lambda size, *_: asked.append(size) or 1e9
    )
    wide = parse("""
    @T.prim_func
    def main(A: T.Buffer((8,), "float64")):
        for i in range(8):
            with T.block("A"):
                vi = T.axis.spatial(8, i)
                A[vi] = A[vi] * A[vi]
    """)
    found = roofline(IRModule({"main": wide}), ms.TuneContext(Matmul, target=TARGET).target)
    assert found == Roofline(8.0, 64, "float64", 4e9, 1e9)
    assert asked == [64]
