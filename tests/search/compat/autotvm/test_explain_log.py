"""Reports on a log: its table, its explanation, its picture, and the comparison of two logs."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest

import search as ms
from search import autotvm
from search.compat.autotvm import (
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    TemplateError,
)
from search.compat.autotvm.record import append_to_file
from search.errors import DatabaseError, TuningError
from search.reports.resources import Resources, resources_of
from tensorir import parse
from tests.search.compat.autotvm.templates import DEMO, TUTORIAL
from tests.search.compat.autotvm.test_record import LINE
from tests.search.made_up_runs import ScriptFiles, TimesOfScripts
from tests.search.programs import Matmul, split_all


def record(index, cost, *, args=(64, 16, 16, "float32"), error=0, time=100.0, target="llvm"):
    task = autotvm.task.create(TUTORIAL, args, target)
    result = MeasureResult((cost,), error, 0.5, time)
    return MeasureInput(task.target, task, task.config_space.get(index)), result


ENDED = "How measurements ended"


def made_up_log(path, target="llvm", factor=1.0):
    """Write a log of every configuration of a task; wider inner tiles are faster, up to 8."""
    records = []
    for index in range(35):
        width = 2 ** (index // 7)
        cost = factor * {1: 8e-6, 2: 7e-6, 4: 6e-6, 8: 2e-6, 16: 5e-6}[width] * (1 + index % 7 / 50)
        error = MeasureErrorNo.RUN_TIMEOUT if index == 12 else 0
        records.append(record(index, cost, error=error, time=100.0 + index, target=target))
    append_to_file(path, records)


# -------------------------------------------------------------------------------------- resources


def test_a_box_does_not_exceed_its_buffer():
    func = parse("""
    @T.prim_func
    def copied(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i_0, i_1 in T.grid(1, 10):
            with T.block("B"):
                v_i = T.axis.spatial(8, i_0 * 10 + i_1)
                T.where(i_0 * 10 + i_1 < 8)
                B[v_i] = A[v_i]
    """)
    assert resources_of(func).tile_bytes == 64


def test_a_program_without_blocks_takes_nothing():
    func = parse("""
    @T.prim_func
    def nothing(A: T.Buffer((8,), "float32")):
        T.evaluate(0)
    """)
    assert resources_of(func) == Resources()


# ------------------------------------------------------------------------------------------ tables


def test_a_row_for_each_line(tmp_path):
    path = tmp_path / "matmul.log"
    append_to_file(path, [record(9, 2e-6), record(3, 1e-6, error=2, time=101.5)])
    first, second = autotvm.records_to_table(path)
    task = autotvm.task.create(TUTORIAL, (64, 16, 16, "float32"), "llvm")
    assert first == {
        "task": f"{TUTORIAL}(64, 16, 16, 'float32')",
        "target": str(task.target),
        "index": 9,
        "tile_y[0]": 16,
        "tile_y[1]": 4,
        "tile_x[0]": 8,
        "tile_x[1]": 2,
        "parallel_extent": 1,
        "vector_lanes": 1,
        "unrolled_extent": 1,
        "tile_bytes": 4 * (4 * 2 + 4 * 16 + 16 * 2),
        "inner_tile_bytes": 4 * (4 * 2 + 4 + 2),
        "cost": 2e-6,
        "slower_than": None,
        "gflops": task.flop / 2e-6 / 1e9,
        "error": "NO_ERROR",
        "build_seconds": None,
        "run_seconds": None,
        "all_cost": 0.5,
        "time": 100.0,
        "best_so_far": 2e-6,
        "elapsed": 0.0,
    }
    assert (second["cost"], second["gflops"], second["error"]) == (None, None, "COMPILE_HOST")
    assert (second["best_so_far"], second["elapsed"]) == (2e-6, 1.5)
    table = autotvm.records_to_table(path)
    assert table.column("tile_x[1]").tolist() == [2.0, 1.0]
    assert np.isnan(table.column("cost")).tolist() == [False, True]
    with pytest.raises(TuningError, match=r"no column 'tile_z'; known are \['task'"):
        table.column("tile_z")


def test_a_template_that_is_not_here_leaves_gaps(tmp_path):
    path = tmp_path / "elsewhere.log"
    path.write_text(LINE.replace("28193", "28194"))
    fields = {name: text for name, _, text in autotvm.explain_log(path).fields}
    assert "here it has 28193" in fields["config.index"]
    path.write_text(LINE.replace(DEMO, "elsewhere/matmul"))
    table = autotvm.records_to_table(path)
    assert (table[0]["tile_y[0]"], table[0]["tile_y[1]"]) == (None, 32)
    assert (table[0]["gflops"], table[0]["tile_bytes"]) == (None, None)
    assert table.resources == ()
    assert "not registered here" in str(autotvm.explain_log(path))


def test_the_curve_of_a_column_and_where_it_bends(tmp_path):
    made_up_log(tmp_path / "matmul.log")
    table = autotvm.records_to_table(tmp_path / "matmul.log")
    curve = table.group_by("tile_x[1]")
    assert curve.values == (1, 2, 4, 8, 16)
    assert np.allclose(curve.best, [8e-6, 7e-6, 6e-6, 2e-6, 5e-6])
    assert np.allclose(curve.median, np.array([8.48, 7.35, 6.36, 2.12, 5.3]) * 1e-6)
    assert curve.counts == (7, 6, 7, 7, 7)
    turn = table.turning_point("tile_x[1]")
    assert (turn.before, turn.after) == (4, 8)
    assert math.isclose(turn.factor, 3.0)
    assert str(turn) == "4 -> 8: 3.00 times as fast"
    assert str(table.turning_point("tile_x[1]", rise=True)) == "8 -> 16: 2.50 times as slow"


def test_what_matters_explains_the_costs_and_what_does_not_does_not(tmp_path):
    made_up_log(tmp_path / "matmul.log")
    table = autotvm.records_to_table(tmp_path / "matmul.log")
    assert table.group_by("tile_x[1]").explained.low > 0.9
    flat = table.group_by("tile_y[1]")
    assert flat.explained.share < 0.05
    assert not flat.matters
    assert flat.cells()[3:] == ("", "", ""), "nothing is said of its best value and its turns"


def test_a_flat_curve_has_no_turning_point(tmp_path):
    path = tmp_path / "flat.log"
    append_to_file(path, [record(index, 1e-6) for index in range(4)])
    assert autotvm.records_to_table(path).turning_point("tile_y[1]") is None


def test_costs_of_different_tasks_are_not_mixed(tmp_path):
    path = tmp_path / "two.log"
    append_to_file(path, [record(0, 1e-6), record(0, 9e-6, args=(16, 16, 16, "float32"))])
    table = autotvm.records_to_table(path)
    assert table.tasks == [f"{TUTORIAL}({n}, 16, 16, 'float32')" for n in (64, 16)]
    with pytest.raises(TuningError, match="choose one of"):
        table.group_by("tile_y[1]")
    assert table.of_task(1).group_by("tile_y[1]").best == (9e-6,)
    with pytest.raises(TuningError, match="there is no task 'conv2d'"):
        table.of_task("conv2d")
    with pytest.raises(TuningError, match="there is no task 2; the log has 2"):
        table.of_task(2)


# ------------------------------------------------------------------------------------ explanations


def test_a_line_of_one_that_was_ended_early_says_so(tmp_path):
    path = tmp_path / "demo.log"
    line = json.loads(LINE)
    line["result"][:2] = [[1e9], 7]
    del line["tvm_version"], line["config"]["code_hash"]
    path.write_text(json.dumps({**line, "slower_than": 0.05}))
    fields = {name: (value, text) for name, value, text in autotvm.explain_log(path).fields}
    assert fields["slower_than"] == (
        "0.05",
        "seconds that a run takes at least: it was ended early",
    )
    assert fields["result[1]"][1].startswith(
        "RUN_TIMEOUT: it was stopped as soon as it was certain"
    )
    assert fields["tvm_version"][0] == ""


def test_the_parts_of_an_explanation(tmp_path):
    path = tmp_path / "matmul.log"
    made_up_log(path)
    with path.open("a") as file:
        file.write('{"input": ["llvm", ')
    found = autotvm.explain_log(path)
    assert found.heading.endswith(
        "35 measurements of 1 task, 1970-01-01 00:01:40 UTC to "
        "1970-01-01 00:02:14 UTC; 1 line(s) are not records"
    )
    parts = dict(found.sections())
    task = f"{TUTORIAL}(64, 16, 16, 'float32')"
    assert parts["Best of each task"][1][:3] == (task, "35", "1")
    assert parts["Best of each task"][1][5:] == (
        "22",
        "tile_y=[64, 1], tile_x=[2, 8]",
    )
    assert parts[ENDED][1:] == [
        ("NO_ERROR", "34", "97%", "it was built and measured"),
        (
            "RUN_TIMEOUT",
            "1",
            "3%",
            "running took longer than the runner allows",
        ),
    ]
    assert parts[f"What matters in {task}"][1][0] in ("tile_x[0]", "tile_x[1]")
    assert parts["Where time went"][1:] == [
        ("building and running", "17.5", "0.500"),
        ("of it for what failed or was stopped", "0.5", ""),
        ("from the first end to the last", "34.0", ""),
    ]
    assert parts["Progress: the best (us) after a share of the measurements"][1] == (
        task, "8.00", "7.00", "6.00", "2.00", "after 22",
    )  # fmt: skip
    text, page = str(found), found._repr_html_()
    for title, rows in parts.items():
        assert title in text
        assert page.count("</tr>") >= len(rows)
    assert found.table().tasks == [task]


def test_a_log_in_which_everything_failed(tmp_path):
    path = tmp_path / "failed.log"
    append_to_file(path, [record(k, 1e9, error=2) for k in range(3)])
    found = autotvm.explain_log(path)
    assert "after an error there are no costs" in str(found)
    assert found.plot()[0].texts[0].get_text() == "nothing was measured"


def test_a_template_that_has_other_arguments_by_now(tmp_path, caplog):
    path = tmp_path / "demo.log"
    path.write_text(f"{LINE}\n{LINE.replace('256, 384, 128, ', '256, 384, ')}\n")
    known, unknown = autotvm.explain_log(path).table()
    assert known["gflops"] == pytest.approx(61.0, abs=0.1)
    assert known["tile_y[0]"] == 8
    assert unknown["gflops"] is None
    assert unknown["tile_y[0]"] is None
    assert caplog.text.count("The design space of a task from a log is unknown") == 1


def test_a_knob_with_the_name_of_another_column(tmp_path):
    path = tmp_path / "demo.log"
    path.write_text(LINE.replace("unroll_k", "cost"))
    (row,) = autotvm.explain_log(path).table()
    assert row["cost"] == 0.0004125
    assert row["cost (knob)"] == 8


def test_programs_are_made_of_as_many_as_wanted(tmp_path):
    path = tmp_path / "matmul.log"
    made_up_log(path)
    known = [row["parallel_extent"] is not None for row in autotvm.records_to_table(path, 7)]
    assert known == [k % 5 == 0 for k in range(35)]


def test_what_is_no_log(tmp_path):
    path = tmp_path / "no.log"
    path.write_text("hello\n")
    with pytest.raises(TemplateError, match=r"no line of .*no\.log is a record"):
        autotvm.explain_log(path)
    with pytest.raises(OSError, match="nowhere"):
        autotvm.explain_log(tmp_path / "nowhere.log")
    with pytest.raises(DatabaseError, match="no run left trials"):
        autotvm.explain_log(tmp_path)
    with pytest.raises(TypeError, match=r"expected str, bytes or os\.PathLike object, not int"):
        list(autotvm.record.load_from_file(0))


def test_the_picture_has_a_panel_for_what_varied(tmp_path):
    path = tmp_path / "matmul.log"
    made_up_log(path)
    axes = autotvm.explain_log(path).plot()
    titles = [ax.get_title() for ax in axes if ax.get_visible()]
    assert titles == [
        "progress", "how measurements ended", "time spent",
        "tile_y[0]", "tile_y[1]", "tile_x[0]", "tile_x[1]", "tile_bytes", "inner_tile_bytes",
    ]  # fmt: skip
    _, best, dot = axes[titles.index("tile_x[1]")].lines
    assert np.allclose(best.get_ydata(), [8, 7, 6, 2, 5])
    assert np.allclose(dot.get_xydata(), [[8.0, 2.0]]), "the value after the largest drop"
    (legend,) = [ax.get_legend() for ax in axes[3:] if ax.get_legend() is not None]
    assert [text.get_text() for text in legend.get_texts()] == [
        "median", "best", "after the largest drop",
    ]  # fmt: skip


def test_explanations_need_no_matplotlib(tmp_path, monkeypatch):
    path = tmp_path / "matmul.log"
    append_to_file(path, [record(0, 1e-6)])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = autotvm.explain_log(path)
    assert "1.00" in str(found)


# -------------------------------------------------------------------------------------------- runs


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    ms.tune_tir(
        Matmul,
        "llvm -num-cores=1",
        ms.TuneConfig(6, num_trials_per_iter=3, num_confirmed=0),
        folder,
        space=split_all,
        builder=ScriptFiles(folder / "artifacts"),
        runner=TimesOfScripts(
            lambda k: ms.runner.RunnerResult(error_msg="bad luck") if k == 2 else None
        ),
        cost_model="none",
        seed=1,
    )
    return folder


def test_a_run_is_a_table_too(work_dir):
    table = autotvm.records_to_table(work_dir)
    run = ms.load_run(work_dir)
    assert [row["cost"] for row in table] == [trial.seconds for trial in run]
    assert {row["build_seconds"] for row in table} == {2.0}
    assert table.errors() == {"NO_ERROR": len(run) - 1, "RUN_ERROR": 1}
    names = [site.name for site in ms.design_spaces(Matmul, "llvm", split_all)[0].knobs]
    assert {name.partition("[")[0] for name in table.knobs} == set(names)
    measured = [row for row in table if row["cost"] is not None]
    assert all(row["tile_bytes"] > 0 and row["gflops"] > 0 for row in measured)


def test_a_run_is_explained(work_dir):
    found = autotvm.explain_log(work_dir)
    run = ms.load_run(work_dir)
    best = min(trial.seconds for trial in run if trial.seconds)
    fields = {field.name: field for field in found.fields}
    assert list(fields) == list(run[0].as_json())
    assert f"the mean is {best * 1e6:.1f} us" in fields["run_secs"].meaning
    rows = dict(found.sections())["Where time went"]
    assert rows[1] == ("building", f"{2.0 * len(run):.1f}", "2.000")


def test_a_run_without_its_database_has_numbers_for_names(work_dir, tmp_path):
    (tmp_path / "tuning_trials.json").write_text((work_dir / "tuning_trials.json").read_text())
    table = autotvm.records_to_table(tmp_path)
    assert table.knobs[0].startswith("decision 0")
    assert table.resources == ()


# -------------------------------------------------------------------------------------- comparisons


def test_two_targets_side_by_side(tmp_path):
    made_up_log(tmp_path / "a.log")
    made_up_log(tmp_path / "b.log", target="llvm -mcpu=core-avx2", factor=3.0)
    found = autotvm.compare(tmp_path / "a.log", tmp_path / "b.log")
    (task,) = found.tasks
    assert len(found) == 34
    assert math.isclose(found.rank_correlation(task), 1.0)
    assert found.summary()[1] == (task, "34", "2.00", "6.00", "3.00", "1.00", "1.00 times the best")
    x, y = found.plot().lines[0].get_data()
    assert np.allclose(y, 3 * x)


def test_the_best_of_one_need_not_be_that_of_the_other():
    a = [record(k, cost) for k, cost in enumerate([1e-6, 2e-6, 3e-6])]
    b = [record(k, cost) for k, cost in enumerate([6e-6, 5e-6, 4e-6])]
    found = autotvm.compare(a, b)
    assert math.isclose(found.rank_correlation(found.tasks[0]), -1.0)
    assert found.summary()[1][-1] == "1.50 times the best"


def test_of_a_configuration_that_was_measured_twice_the_best_counts():
    found = autotvm.compare([record(0, 3e-6), record(0, 2e-6)], [record(0, 4e-6)])
    assert found.costs().tolist() == [[2e-6, 4e-6]]
    assert math.isnan(found.rank_correlation(found.tasks[0]))


def test_logs_that_share_nothing():
    found = autotvm.compare([record(0, 1e-6)], [record(1, 1e-6)])
    assert len(found) == 0
    assert found.tasks == []
    assert found.plot().texts[0].get_text() == "the logs share no configuration"
