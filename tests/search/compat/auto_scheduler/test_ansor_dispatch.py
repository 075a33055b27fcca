"""Logs as databases, the best schedules of tasks, and builds that take them."""

import json
import logging

import numpy as np
import pytest

import codegen
import search
from codegen import Target
from schedule import Schedule, Trace
from search import TuningError
from search.compat.auto_scheduler import (
    ApplyHistoryBest,
    ApplyHistoryBestOrSample,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    SearchTask,
    load_records,
    to_database,
)
from search.history.sample_on_miss import SampleOnMiss
from tests.search.compat.auto_scheduler.workloads import (
    LINE,
    measured,
    task_of,
    tiled,
    write,
)

CPU = Target("llvm -num-cores=4")
ELSEWHERE = LINE.replace("demo_mm", "elsewhere")
OTHER_EXTENTS = LINE.replace("64, 32, 96]", "64, 32, 95]")
"""A line whose steps were made for another workload than it says."""


@pytest.fixture
def task():
    return task_of("demo_mm", 64, 32, 96)


@pytest.fixture
def log(tmp_path, task):
    """Four rows at a time take 5 ms, eight 3 ms; a large task took 20 ms."""
    return write(
        tmp_path / "log.json",
        measured(task, "C", 4, 0.005),
        measured(task, "C", 8, 0.003),
        measured(task_of("demo_mm", 256, 32, 96), "C", 16, 0.02),
        measured(task, "C", 16, 1e-9, error=MeasureErrorNo.RUN_TIMEOUT),
    )


def lines(tmp_path, *texts):
    path = tmp_path / "lines.json"
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def lanes(sch):
    """Return the extent of the inner loop over rows."""
    return sch.get(sch.get_loops(sch.get_block("C"))[1]).extent.value


def product(library, name="main", n=64, m=32, k=96):
    rng = np.random.default_rng(0)
    a, b = rng.random((n, k), "float32"), rng.random((k, m), "float32")
    c = np.zeros((n, m), "float32")
    library[name](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


# ----------------------------------------------------------------------------------- as a database


def test_a_log_is_a_database(log, task):
    database = to_database(log)
    assert len(database) == 4
    found = search.find_schedule(database, task.mod, CPU)
    assert found.how == "exact"
    assert lanes(found.schedule) == 8
    assert [info.as_json()[2] for info in found.record.args_info] == [[64, 96], [96, 32], [64, 32]]
    assert list(database.validate()) == []


def test_steps_of_ansor_become_records(tmp_path, task):
    database = to_database(lines(tmp_path, LINE))
    (record,) = database.get_all_tuning_records()
    assert record.run_secs == (0.00012,)
    assert record.target == CPU
    text = record.schedule().mod.script()
    assert "in T.parallel(4, " in text
    assert "in T.vectorized(8)" in text
    product(codegen.build(record.schedule().mod, CPU))


def test_records_that_do_not_replay_are_skipped(tmp_path, caplog):
    log = lines(tmp_path, ELSEWHERE, "# by hand", LINE, OTHER_EXTENTS)
    with caplog.at_level(logging.WARNING):
        assert len(to_database(log)) == 1
    (message,) = caplog.messages
    assert message.startswith(f"{log}: left out 2 line(s): line 1: unknown workload 'elsewhere'")
    assert "line 4: step 2 (SP, stage 2): it splits a loop of 96 iterations" in message
    assert len(to_database(log, n_lines=1)) == 0
    with pytest.raises(TuningError, match="n_lines is at least 0, or None for all records, got -1"):
        to_database(log, n_lines=-1)


# ------------------------------------------------------------------------------- the best of a task


def test_the_best_of_a_task_is_applied(log, task):
    sch, args = task.apply_best(log)
    assert lanes(sch) == 8
    assert [(a.name, str(a.shape)) for a in args] == [
        ("A", "(64, 96)"),
        ("B", "(96, 32)"),
        ("C", "(64, 32)"),
    ]
    product(codegen.build(sch.mod, task.target))
    with pytest.raises(TuningError, match="leave out layout_rewrite_option"):
        task.apply_best(log, layout_rewrite_option=0)


def test_the_best_of_a_task_is_printed_as_python(log, task):
    text = task.print_best(log)
    sch = Schedule(task.mod)
    Trace.from_python(text).apply_to_schedule(sch, remove_postproc=False)
    assert lanes(sch) == 8
    assert "define" in task.print_best(log, "source")
    with pytest.raises(TuningError, match="is 'schedule' or 'source', got 'cuda'"):
        task.print_best(log, "cuda")


def test_a_record_that_does_not_apply_gives_way_to_the_next(log, task, caplog):
    """The fastest record names an unknown block."""
    trace = tiled(task, "C", 2).trace.as_json()
    trace[0][0][2][0] = "no_such_block"
    inp = MeasureInput(task, Trace.from_json(trace))
    write(log, (inp, MeasureResult((1e-9,), 0, "", 0.0, 1)))
    with caplog.at_level(logging.WARNING):
        assert lanes(task.apply_best(log)[0]) == 8
    assert "left out 1 line(s): line 5: " in caplog.text
    assert "no_such_block" in caplog.text


def test_a_task_without_a_record(log, tmp_path, task):
    failed = write(tmp_path / "failed.json", measured(task, "C", 4, 1.0, error=2))
    for other, path in ((task_of("demo_mm", 48, 32, 96), log), (task, failed)):
        with pytest.raises(TuningError, match=r"has no valid record of .* that applies; tune the"):
            other.apply_best(path)
    with pytest.raises(FileNotFoundError):
        task.apply_best(tmp_path / "missing.json")


def test_a_task_is_served_by_a_compatible_one(log):
    """128 rows are twice 64, whose best splits off eight."""
    twice = task_of("demo_mm", 128, 32, 96)
    with pytest.raises(TuningError, match="a smaller workload by include_compatible=True"):
        twice.apply_best(log)
    sch, _ = twice.apply_best(log, include_compatible=True)
    assert lanes(sch) == 8
    product(codegen.build(sch.mod, CPU), n=128)
    assert ApplyHistoryBest(log).find(twice.mod, CPU) is None
    found = ApplyHistoryBest(log, include_compatible=True).find(twice.mod, CPU)
    assert (found.how, found.factor) == ("compatible", 2)


@pytest.mark.parametrize(("option", "in_program", "at_build"), [(0, 0, 0), (1, 1, 0), (2, 1, 1)])
def test_steps_of_ansor_are_replayed_with_their_layouts(tmp_path, option, in_program, at_build):
    line = json.loads(LINE.replace("demo_mm", "demo_packed_mm"))
    line["i"][0][4] = option
    (tmp_path / "log.json").write_text(json.dumps(line))
    task = SearchTask("demo_packed_mm", (64, 32, 96), target=CPU)
    sch, _ = task.apply_best(tmp_path / "log.json")
    text = sch.mod.script()
    assert ("B_global = T.alloc_buffer((2, 24, 2, 4, 8))" in text) == in_program
    assert ("meta_schedule.layout_rewrite_preproc" in text) == at_build
    assert ("for ax0 in T.parallel(96):" in text) == (in_program and not at_build)
    product(codegen.build(sch.mod, CPU))


# ---------------------------------------------------------------------------------------- in builds


def source(mod):
    return codegen.build(mod, CPU).get_source()


def test_a_build_takes_the_best_of_a_log(log, task):
    plain = source(task.mod)
    with ApplyHistoryBest(log):
        library = codegen.build(task.mod, CPU)
    assert library.get_source() == source(task.apply_best(log)[0].mod) != plain
    product(library)
    assert source(task.mod) == plain, "outside of it"


def test_records_and_several_logs_are_taken(log, tmp_path, task):
    faster = write(tmp_path / "faster.json", measured(task, "C", 2, 0.001))
    (record,) = load_records(faster)
    for records in ([log, faster], [log, [record]], [[faster], log], record, [log, record]):
        found = ApplyHistoryBest(records).find(task.mod, CPU)
        assert lanes(found.schedule) == 2
    with log.open() as file:
        assert lanes(ApplyHistoryBest(file).find(task.mod, CPU).schedule) == 8
    assert lanes(ApplyHistoryBest(load_records(log)).find(task.mod, CPU).schedule) == 8
    assert lanes(ApplyHistoryBest(log, n_lines=1).find(task.mod, CPU).schedule) == 4
    for nothing in (3, [3], [(1, 2)]):
        with pytest.raises(TuningError, match="a log is a path or records"):
            ApplyHistoryBest(nothing)


def test_a_log_of_another_cpu_serves_and_says_so(log, task, caplog):
    other = "llvm -keys=cpu -mcpu=haswell -num-cores=4"
    found = ApplyHistoryBest(log).find(task.mod, other)
    assert lanes(found.schedule) == 8
    assert caplog.messages == [
        'Function "main": its schedule was found for llvm -keys=cpu -num-cores=4, as there is no '
        f"record for {Target(other)}; it computes the same there, and may be slower than one that "
        "is tuned for that"
    ]
    assert search.find_schedule(to_database(log), task.mod, other) is None


def test_a_record_for_the_target_comes_before_faster_ones_for_others(log, tmp_path):
    other = task_of("demo_mm", 64, 32, 96, target="llvm -num-cores=2")
    slower = write(tmp_path / "slower.json", measured(other, "C", 2, 1.0))
    history = ApplyHistoryBest([log, slower])
    assert lanes(history.find(other.mod, "llvm -num-cores=2").schedule) == 2
    assert lanes(history.find(other.mod, CPU).schedule) == 8


def test_what_no_log_has_is_sampled():
    unknown = task_of("demo_mm", 16, 16, 16).mod
    assert ApplyHistoryBestOrSample(None).find(unknown, CPU).how == "sampled"


@pytest.mark.parametrize("simple", [False, True])
def test_what_has_no_reduction_is_sampled_on_request(monkeypatch, simple):
    asked = []
    monkeypatch.setattr(SampleOnMiss, "sample", lambda self, *_: asked.append(self))
    history = ApplyHistoryBestOrSample(None, simple, "model.json", num_measure=3)
    assert history.find(task_of("demo_add", 64).mod, CPU) is None
    assert asked == [SampleOnMiss("model.json", 3)] * simple


def test_unknown_workloads_and_wrong_arguments_are_skipped(tmp_path, task, caplog):
    other = LINE.replace("64, 32, 96]", "64]")
    log = lines(tmp_path, *[ELSEWHERE] * 3, other, LINE)
    with caplog.at_level(logging.WARNING):
        assert ApplyHistoryBest(log).find(task.mod, CPU).how == "exact"
    assert caplog.text.count("unknown workload 'elsewhere'") == 1
    assert "line 4: the workload 'demo_mm' raised TypeError" in caplog.text
