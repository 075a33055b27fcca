"""The lines of a log: written, read, and refused."""

from __future__ import annotations

import json
import logging

import pytest

from codegen import Target
from search import autotvm
from search.compat.autotvm import MeasureErrorNo, MeasureInput, MeasureResult, SlowerThan
from search.compat.autotvm.record import (
    LineError,
    append_to_file,
    decode,
    encode,
    load_from_file,
    pick_best,
)
from tests.search.compat.autotvm import templates
from tests.search.compat.autotvm.templates import DEMO, TUTORIAL

LINE = (
    '{"input": ["llvm -keys=cpu -mcpu=core-avx2", "demo/matmul", [256, 384, 128, "float32"], {}], '
    '"config": {"index": 28193, "code_hash": null, "entity": [["tile_y", "sp", [-1, 32]], '
    '["tile_x", "sp", [-1, 16]], ["order", "re", [0, 2, 1]], ["ann", "an", ["none", "unroll", '
    '"vec"]], ["unroll_k", "ot", 8]]}, "result": [[0.0004125], 0, 0.81, 1712345678.25], '
    '"version": 0.2, "tvm_version": "0.19.0"}'
)
"""A line as TVM 0.19 writes it."""


def record(index, cost, *, size=64, error=0):
    task = autotvm.task.create(TUTORIAL, (size, 16, 16, "float32"), "llvm")
    result = MeasureResult((cost,), error, 0.5, 1.0)
    return MeasureInput(task.target, task, task.config_space.get(index)), result


def indices(path):
    return [inp.config.index for inp, _ in load_from_file(path)]


def test_a_line_of_autotvm_is_read():
    inp, result = decode(LINE)
    assert inp.target == Target("llvm -keys=cpu -mcpu=core-avx2")
    assert inp.task.workload == (DEMO, 256, 384, 128, "float32")
    assert result == MeasureResult((0.0004125,), MeasureErrorNo.NO_ERROR, 0.81, 1712345678.25)
    assert inp.config.cost == 0.0004125
    task = autotvm.task.create(DEMO, inp.task.args, inp.target)
    assert task.config_space.index_of(inp.config.entity_map) == inp.config.index == 28193
    assert round(task.flop / result.mean_cost / 1e9, 1) == 61.0


def test_a_line_is_written_as_it_was_read():
    inp, result = decode(LINE)
    again = json.loads(encode(inp, result))
    assert again.pop("tvm_version")
    wanted = json.loads(LINE)
    del wanted["tvm_version"]
    assert again == wanted


def test_what_a_run_takes_at_least_is_kept():
    inp, _ = record(3, 1.0)
    bound = MeasureResult.failed(MeasureErrorNo.RUN_TIMEOUT, SlowerThan(0.05))
    row = json.loads(encode(inp, bound))
    assert row["result"][:2] == [[1e9], MeasureErrorNo.RUN_TIMEOUT], "which AutoTVM reads"
    assert row["slower_than"] == 0.05
    again, result = decode(json.dumps(row))
    assert result == bound
    assert (result.mean_cost, result.slower_than) == (float("inf"), 0.05)
    assert again.config.cost == 1e9
    del row["slower_than"]
    assert decode(json.dumps(row))[1].slower_than is None


def test_a_log_of_a_template_that_is_not_here_is_read():
    inp, _ = decode(LINE.replace("demo/matmul", "elsewhere/conv2d"))
    with pytest.raises(autotvm.TemplateError, match=r"unknown template 'elsewhere/conv2d'"):
        _ = inp.task.func
    assert inp.task.workload[0] == "elsewhere/conv2d"
    assert inp.task.known_space is None


def test_a_template_may_be_registered_after_its_log_was_read(monkeypatch):
    monkeypatch.setattr("search.compat.autotvm.task.TASK_TABLE", {})
    inp, _ = decode(LINE)
    assert inp.task.known_space is None
    autotvm.template(DEMO, templates.all_knobs.__wrapped__)
    assert inp.task.space.get(28193).entity_map == inp.config.entity_map


def test_an_old_option_of_targets_is_understood():
    inp, _ = decode(LINE.replace("-mcpu=core-avx2", "-target=x86_64-linux-gnu"))
    assert inp.target.mtriple == "x86_64-linux-gnu"


def changed(**fields):
    return json.dumps({**json.loads(LINE), **fields})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (LINE[:200], "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        ("3", "it is no JSON object"),
        (changed(version=0.3), "log version 0.3; expected 0.2"),
        ('{"i": [], "v": "v0.6"}', "it is a line of Ansor"),
        ("{}", "log version None"),
        ('{"version": 0.2}', "lacks the field 'input'"),
        (changed(input=["llvm"]), "not enough values"),
        (changed(input=["kuda", "a", [], {}]), "kuda"),
        (changed(input=["llvm", 3, [], {}]), "name of its template is 3"),
        (changed(input=["llvm", "a", [{}], {}]), "argument 0 of a task is a dict"),
        (changed(result=[[], 0, 1, 1]), "no costs"),
        (changed(result=[[0.0], 0, 1, 1]), "costs are \\[0.0\\]; they are seconds above 0"),
        (changed(result=[["fast"], 0, 1, 1]), "could not convert"),
        (changed(result=[[1], 99, 1, 1]), "99 is not a valid MeasureErrorNo"),
        (changed(result=[3, 0, 1, 1]), "not iterable"),
        (changed(config={"index": 1}), "is not a configuration"),
        (changed(config=None), "is not a configuration"),
    ],
)
def test_what_is_no_record(line, message):
    with pytest.raises(LineError, match=message):
        decode(line)


def test_nothing_but_json():
    with pytest.raises(autotvm.TemplateError, match=r"only 'json' is supported"):
        decode(LINE, protocol="pickle")


def test_lines_that_are_left_out(tmp_path, caplog):
    path = tmp_path / "some.log"
    old = '{"v": 0.1, "i": [], "r": []}'
    path.write_text("\n".join([LINE, "", "# note", "nonsense", old, LINE, LINE[:90]]))
    with caplog.at_level(logging.WARNING, "autotvm"):
        assert indices(path) == [28193, 28193]
    refused, outdated = [r.getMessage() for r in caplog.records]
    assert f"{path}: left out 2 line(s): line 4: it is no JSON" in refused
    assert "; line 7: it is no JSON" in refused
    assert outdated == f"{path}: left out 1 line(s) of log format 0.1"


def test_a_torn_line_does_not_swallow_the_next(tmp_path):
    path = tmp_path / "some.log"
    append_to_file(path, [record(1, 1.0), record(2, 1.0)])
    path.write_bytes(path.read_bytes()[:-30])
    append_to_file(path, [record(3, 1.0)])
    assert indices(path) == [1, 3]


def test_best_of_each_task(tmp_path):
    log, best = tmp_path / "all.log", tmp_path / "best.log"
    append_to_file(
        log,
        [
            record(1, 3.0),
            record(2, 9.0),
            record(2, 2.0),
            record(3, 0.1, error=MeasureErrorNo.RUN_TIMEOUT),
            record(4, 1.0, size=32),
            record(5, 0.1, error=MeasureErrorNo.RUN_TIMEOUT, size=128),
        ],
    )
    assert pick_best(log, best) == 2
    assert [(inp.config.index, res.mean_cost) for inp, res in load_from_file(best)] == [
        (2, 2.0),
        (4, 1.0),
    ]
    more = tmp_path / "more.log"
    append_to_file(more, [record(5, 1.0), record(6, 5.0, size=32)])
    pick_best(more, best)
    assert indices(best) == [5, 4]
