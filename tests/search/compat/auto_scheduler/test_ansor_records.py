"""The lines of a log in Ansor's format: written, read, refused, compared."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen import Target
from search import TuningError
from search.compat.auto_scheduler import (
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    RecordReader,
    compatible_factor,
    distill_record_file,
    dump_record_to_string,
    load_best_record,
    load_record_from_string,
    load_records,
    recover_measure_input,
    save_records,
)
from search.compat.auto_scheduler.__main__ import main
from search.database.record_files import LineError
from tests.search.compat.auto_scheduler.workloads import LINE, measured, task_of, tiled, write


def changed(**fields):
    return json.dumps({**json.loads(LINE), **fields})


# ------------------------------------------------------------------------------------------- lines


def test_a_line_of_ansor_is_read_and_written_as_it_was():
    inp, result = load_record_from_string(LINE)
    assert inp.task.workload_key == '["demo_mm", 64, 32, 96]'
    assert inp.task.target == Target("llvm -num-cores=4")
    assert inp.task.hardware_params.as_numbers() == [4, 64, 64, 0, 0, 0, 0, 0]
    assert [row[0] for row in inp.rows] == ["SP", "SP", "SP", "RE", "FU", "AN", "PR", "AN"]
    assert result == MeasureResult((0.00012,), MeasureErrorNo.NO_ERROR, "", 0.4, 1712345678)
    assert dump_record_to_string(inp, result) == LINE


def test_failures_are_written_with_their_number_and_bound_but_without_text():
    task = task_of("demo_mm", 8, 8, 8)
    inp = MeasureInput(task, tiled(task, "C", 4))
    failed = MeasureResult.now((), MeasureErrorNo.COMPILE_HOST, "x" * 1000, 0.5)
    assert len(failed.error_msg) == 512
    line = dump_record_to_string(inp, failed)
    assert json.loads(line)["r"][:3] == [[1e10], 2, 0.5]
    assert load_record_from_string(line).result.mean_cost == math.inf
    ended = MeasureResult((1e10,), MeasureErrorNo.RUN_TIMEOUT, "", 0.5, 7, slower_than=0.05)
    line = dump_record_to_string(inp, ended)
    assert json.loads(line)["slower_than"] == 0.05
    assert load_record_from_string(line).result == ended
    steps_of_ansor = dump_record_to_string(load_record_from_string(LINE).input, ended)
    assert list(json.loads(steps_of_ansor)) == ["i", "r", "v"], "Ansor refuses other fields"


@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_old_lines_end_early(length):
    fields = json.loads(LINE)
    fields["i"][0] = fields["i"][0][:length]
    inp, _ = load_record_from_string(json.dumps({**fields, "v": "v0.2"}))
    assert inp.task.target_host == ""
    assert inp.task.task_input_names == ()
    linked = LINE.replace("-keys=cpu", "-keys=cpu -link-params=0 -mcpu=skylake-avx512 -runtime=c")
    target = load_record_from_string(linked).input.task.target
    assert target == Target("llvm -keys=cpu -mcpu=skylake-avx512 -num-cores=4")
    assert json.loads(dump_record_to_string(*load_record_from_string(LINE)))["v"] == "v0.6"


def test_equal_steps_with_other_layouts_are_other_programs(tmp_path):
    """The failure of the second is none of the first, which was measured before."""
    first = json.loads(LINE)
    second = json.loads(LINE)
    second["i"][0][4] = 2
    second["r"][:2] = [[1e10], 6]
    log = tmp_path / "log.json"
    log.write_text("\n".join(map(json.dumps, (first, second))))
    best, _ = load_best_record(log)
    assert best.task.layout_rewrite_option == 1


def test_a_state_is_recovered_as_a_schedule():
    """A log can be read without its workloads; recovering a state needs them."""
    of_steps, _ = load_record_from_string(LINE)
    recovered = recover_measure_input(of_steps, rebuild_state=True)
    assert recovered.rows == of_steps.rows
    assert "T.parallel" in recovered.state.mod.script()
    unknown, _ = load_record_from_string(LINE.replace("demo_mm", "elsewhere"))
    assert str(unknown.task) == "elsewhere(64, 32, 96)"
    with pytest.raises(TuningError, match="unknown workload 'elsewhere'"):
        recover_measure_input(unknown)
    program = LINE.replace("demo_mm", "demo_add").replace(", 32, 96]", "]")
    with pytest.raises(TuningError, match=r"demo_add\(64\) is a program; steps of Ansor apply to"):
        load_record_from_string(program).input.schedule()


def with_task(*row):
    return changed(i=[list(row), [[], []]])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (LINE[:200], "it is no JSON"),
        ('{"input": [], "version": 0.2}', "it is a line of AutoTVM"),
        (changed(v="v0.7"), "unknown log version 'v0.7'; expected v0.6"),
        ('{"v": "v0.6"}', "the field 'i' is missing"),
        (changed(i=[["[]", "llvm"], [[], []]]), "a workload key is JSON of"),
        (with_task('["a"]'), "missing 1 required positional argument: 'target'"),
        (with_task('["a"]', "kuda"), "unknown target 'kuda'"),
        (with_task('["a"]', 3), "its target 3 is no text"),
        (with_task('["a"]', "llvm", [1, 2]), "8 numbers"),
        (with_task('["a"]', "llvm", [0] * 8), "num_cores is an int of at least 1"),
        (with_task('["a"]', "llvm", [1] * 8, "", 7), "layout_rewrite_option is one of"),
        (changed(i=[["[\"a\"]", "llvm"], [[], [[3]]]]), "its steps are not lists that begin"),
        (changed(r=[[], 0, 1, 1]), "it has no costs"),
        (changed(r=[[1e-6, 0.0], 0, 1, 1]), "seconds above 0"),
        (changed(r=[[1], 99, 1, 1]), "99 is not a valid MeasureErrorNo"),
        (changed(r=[["fast"], 0, 1, 1]), "could not convert"),
        (changed(slower_than="long"), "could not convert"),
    ],
)  # fmt: skip
def test_malformed_lines_are_refused(line, message):
    with pytest.raises(LineError, match=message):
        load_record_from_string(line)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_damaged_line_is_refused_or_a_record(data):
    """Some text of a line is replaced by other JSON, or missing."""
    start = data.draw(st.integers(0, len(LINE)))
    end = data.draw(st.integers(start, len(LINE)))
    other = data.draw(
        st.sampled_from(["", "null", "[]", "{}", '"', "-1", "1e400", "[[", '""', ","])
    )
    try:
        inp, result = load_record_from_string(LINE[:start] + other + LINE[end:])
    except LineError:
        return
    assert load_record_from_string(dump_record_to_string(inp, result)).result == result


# -------------------------------------------------------------------------------------------- files


def test_a_part_of_a_log_is_read(tmp_path):
    path = tmp_path / "log.json"
    task = task_of("demo_mm", 8, 8, 8)
    write(path, *(measured(task, "C", 4, cost) for cost in (4.0, 3.0, 2.0, 1.0)))
    reader = RecordReader(path)
    costs = lambda *a: [result.costs[0] for result in reader.read_lines(*a)[1]]  # noqa: E731
    assert costs() == [4.0, 3.0, 2.0, 1.0]
    assert costs(2, 1) == [3.0, 2.0]
    assert costs(-1, 3) == [1.0]
    assert len(list(reader)) == len(list(reader)) == 4
    with pytest.raises(TuningError, match="got 1 inputs but 0 results"):
        save_records(path, [load_record_from_string(LINE)[0]], [])


# --------------------------------------------------------------------------------------- compatible


@pytest.mark.parametrize(
    ("wanted", "recorded", "factor"),
    [
        ('["f", [8, 3, 224, 224]]', '["f", [1, 3, 112, 112]]', 32),
        ('["f", 8, 3, 224, 224]', '["f", 1, 3, 112, 112]', 32),
        ('["f", 64]', '["f", 64]', 1),
        ('["f", 64]', '["f", 48]', None),
        ('["f", 48]', '["f", 96]', None),
        ('["f", 64]', '["g", 64]', None),
        ('["f", 64, 1]', '["f", 64]', None),
        ('["f", [64], 1]', '["f", [64, 1]]', None),
        ('["f", 64, 0]', '["f", 32, 0]', 2),
        ('["f", 64, 1]', '["f", 32, 0]', None),
        ('["f", 64, "float32"]', '["f", 32, "float16"]', None),
        ('["f", 64, true]', '["f", 32, 1]', None),
        ('["f", ["TENSOR", [4, 4], "int8"]]', '["f", ["TENSOR", [2, 4], "int8"]]', 2),
    ],
)
def test_how_much_more_work_a_workload_is(wanted, recorded, factor):
    assert compatible_factor(wanted, recorded) == factor


# ------------------------------------------------------------------------------------------ the best


@pytest.fixture
def log(tmp_path):
    """Two workloads: 64 rows in 4 ms, 256 rows in 20 ms; and a failure."""
    small, large = task_of("demo_mm", 64, 64, 64), task_of("demo_mm", 256, 64, 64)
    return write(
        tmp_path / "log.json",
        measured(small, "C", 4, 0.005),
        measured(small, "C", 8, 0.003, 0.005),
        measured(large, "C", 4, 0.02),
        measured(small, "C", 16, 1e-9, error=MeasureErrorNo.RUN_TIMEOUT),
    )


def best_cost(log, key, **options):
    inp, result = load_best_record(log, key, **options)
    return None if inp is None else (inp.task.args[0], result.mean_cost)


def test_the_best_record_of_a_log(log):
    assert best_cost(log, '["demo_mm", 64, 64, 64]') == (64, 0.004)
    assert best_cost(log, '["demo_mm", 256, 64, 64]') == (256, 0.02)
    assert best_cost(log, None) == (64, 0.004)
    assert best_cost(log, '["demo_mm", 64, 64, 64]', target="llvm -num-cores=99") == (64, 0.004)
    assert load_best_record(log, '["demo_mm", 512, 64, 64]') == (None, None)


def test_the_best_of_compatible_records_is_that_of_the_least_time_expected(log):
    """4 ms times 4 are expected of the small one, which is less than the 20 ms of the own."""
    key = '["demo_mm", 256, 64, 64]'
    assert best_cost(log, key, include_compatible=True) == (64, 0.004)
    assert best_cost(log, '["demo_mm", 128, 64, 64]', include_compatible=True) == (64, 0.004)
    assert best_cost(log, '["demo_mm", 96, 64, 64]', include_compatible=True) is None


def test_a_log_is_distilled(log, tmp_path, capsys):
    out = tmp_path / "best.json"
    assert distill_record_file(log, out) == 2
    assert [result.costs for _, result in load_records(out)] == [(0.003, 0.005), (0.02,)]
    faster = write(tmp_path / "more.json", measured(task_of("demo_mm", 256, 64, 64), "C", 2, 0.01))
    assert distill_record_file(faster, out) == 2, "existing records compete"
    assert [result.costs for _, result in load_records(out)] == [(0.003, 0.005), (0.01,)]
    main(["--mode", "distill", "-i", str(log)])
    assert capsys.readouterr().out == f"{log}.best.json has 2 record(s)\n"
    assert len(list(load_records(f"{log}.best.json"))) == 2
    with pytest.raises(SystemExit):
        main(["--mode", "distill", "-i", "missing.json"])
    assert "No such file or directory: 'missing.json'" in capsys.readouterr().err
