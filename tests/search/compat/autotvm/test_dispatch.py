"""The context that answers a template, and fallback configurations."""

from __future__ import annotations

import logging

import pytest

import codegen
from codegen import Target
from schedule import Schedule
from search import autotvm
from search.compat.autotvm import (
    ApplyConfig,
    ApplyHistoryBest,
    ConfigEntity,
    DispatchContext,
    FallbackConfigEntity,
    FallbackContext,
    KnobError,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    SplitEntity,
    TemplateError,
)
from search.compat.autotvm.dispatch import GLOBAL_SCOPE
from tests.search.compat.autotvm.templates import TUTORIAL, matmul, product

ARGS = (16, 24, 32, "float32")
HERE = Target("llvm -mcpu=skylake-avx512")
THERE = Target("llvm -mcpu=core-avx2")
ARM = Target("llvm -device=arm_cpu -keys=arm_cpu,cpu -mtriple=aarch64-linux-gnu")


def tile(size):
    return ConfigEntity(
        0, None, {"tile_y": SplitEntity([-1, size]), "tile_x": SplitEntity([-1, 1])}
    )


def record(size, cost, *, target=HERE, args=ARGS, error=MeasureErrorNo.NO_ERROR):
    inp = MeasureInput(target, autotvm.Task(TUTORIAL, args), tile(size))
    return inp, MeasureResult((cost,), error, 0.1, 0.0)


def answer(target=HERE, args=ARGS):
    return DispatchContext.current.query(target, (TUTORIAL, *args))


def size_of(config):
    return config["tile_y"].size[-1]


def test_the_lowest_mean_cost_counts():
    records = [
        record(2, 3.0),
        record(4, 1.0),
        record(8, 1.0),
        record(16, 0.1, error=MeasureErrorNo.RUN_TIMEOUT),
        record(1, 0.5, args=(8, 8, 8, "float32")),
    ]
    with autotvm.apply_history_best(records):
        assert size_of(answer()) == 4
        assert size_of(answer(args=(8, 8, 8, "float32"))) == 1


def test_several_sources_are_merged(tmp_path):
    path = tmp_path / "some.log"
    autotvm.record.append_to_file(path, [record(2, 2.0)])
    history = ApplyHistoryBest([str(path), [record(4, 1.0)], record(8, 3.0)])
    with history:
        assert size_of(answer()) == 4
    with path.open() as file, ApplyHistoryBest(file):
        assert size_of(answer()) == 2
    history.load(record(16, 0.5))
    with history:
        assert size_of(answer()) == 16
    with pytest.raises(TemplateError, match=r"a log is a path, an open file or records, got int"):
        ApplyHistoryBest(3)


def test_a_log_of_another_cpu_serves_with_a_notice(caplog):
    with caplog.at_level(logging.INFO, "autotvm"), ApplyHistoryBest([record(4, 1.0, target=THERE)]):
        assert size_of(answer()) == 4
        assert size_of(answer()) == 4
    (message,) = [r.getMessage() for r in caplog.records]
    assert (
        "for llvm -keys=cpu -mcpu=skylake-avx512 was measured for llvm -keys=cpu -mcpu=cor"
        in message
    )


def test_keys_are_asked_in_order():
    with ApplyHistoryBest([record(4, 0.1), record(8, 1.0, target=ARM)]):
        assert size_of(answer(ARM)) == 8
        assert size_of(answer(THERE)) == 4


def test_history_needs_a_target():
    with (
        ApplyHistoryBest([record(4, 1.0)]),
        pytest.raises(TemplateError, match=r"within .with codeg"),
    ):
        matmul(*ARGS)


def test_what_is_not_known_is_asked_outside():
    inner, outer = ApplyHistoryBest([record(4, 1.0)]), ApplyHistoryBest([record(2, 1.0)])
    other = (8, 8, 8, "float32")
    outer.load([record(8, 1.0, args=other)])
    with outer:
        with inner:
            assert size_of(answer()) == 4
            assert size_of(answer(args=other)) == 8
        assert size_of(answer()) == 2
        with inner, inner:
            assert size_of(answer(args=other)) == 8
        assert DispatchContext.current is outer
    assert isinstance(DispatchContext.current, FallbackContext)


def test_a_context_is_left_when_its_body_raises():
    with pytest.raises(ZeroDivisionError), ApplyConfig(tile(2)):
        _ = 1 // 0
    assert isinstance(DispatchContext.current, FallbackContext)


def test_what_was_updated_counts_before_logs():
    with ApplyHistoryBest([record(4, 1.0)]) as history:
        history.update(HERE, (TUTORIAL, *ARGS), tile(16))
        assert size_of(answer()) == 16
        assert answer().cost == 0
    context = ApplyConfig(tile(1))
    with context:
        assert size_of(answer()) == 1
        assert context.workload == (TUTORIAL, *ARGS)
        context.update(HERE, (TUTORIAL,), tile(8))
        assert size_of(answer()) == 8


def test_the_deployed_schedule_is_the_one_that_was_measured():
    with autotvm.apply_history_best([record(4, 1.0)]), Target("llvm"):
        sch = matmul(*ARGS)
        codegen.build(sch.mod)
    assert [int(sch.get(loop).extent.value) for loop in sch.get_loops(sch.get_block("C"))] == [
        4,
        32,
        24,
        4,
        1,
    ]


# -------------------------------------------------------------------------------- where nothing is


def test_a_fallback_is_made_once_and_warned_of_once(caplog):
    context = FallbackContext()
    with caplog.at_level(logging.WARNING, "autotvm"), context:
        first = answer()
        assert answer() is first
        assert first.is_fallback
        context.clear_cache(HERE, (TUTORIAL, *ARGS))
        assert answer() is not first
        context.update(HERE, (TUTORIAL, *ARGS), tile(8))
        assert size_of(answer()) == 8
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith(f"no configuration of {(TUTORIAL, *ARGS)} for {HERE} was found: the ")


def test_silence(caplog, monkeypatch):
    monkeypatch.setattr(GLOBAL_SCOPE, "silent", True)
    with caplog.at_level(logging.WARNING, "autotvm"), FallbackContext():
        answer()
    assert not caplog.records


def fallback(**lengths):
    cfg = FallbackConfigEntity()
    for name, length in lengths.items():
        cfg.define_split(name, length, num_outputs=3)
    return cfg


@pytest.mark.parametrize(
    ("length", "limits", "sizes"),
    [(128, [-1, 8, 4], [4, 8, 4]), (49, [-1, 8, 4], [7, 7, 1]), (6, [-1, -1, 4], [1, 2, 3])],
)
def test_fallback_splits(length, limits, sizes):
    cfg = fallback(tile=length)
    cfg.fallback_split("tile", limits)
    assert cfg["tile"].size == sizes
    assert cfg.space_map["tile"][0].size == [-1, 1, 1]


def test_fallback_splits_that_cannot_be():
    cfg = fallback(tile=49)
    with pytest.raises(KnobError, match=r"no divisor of 49 is at most 0"):
        cfg.fallback_split("tile", [-1, 1, 0])
    with pytest.raises(
        KnobError, match=r"num_outputs=3.*needs a split into 2 parts, one for each limit"
    ):
        cfg.fallback_split("tile", [-1, 1])
    with pytest.raises(
        KnobError, match=r"unknown knob 'tiles'; the configuration has tile; did you mean 'tile'"
    ):
        cfg.fallback_split("tiles", [-1, 1, 1])


def test_a_template_sets_better_values_where_nothing_is_known(monkeypatch):
    monkeypatch.setattr("search.compat.autotvm.task.TASK_TABLE", dict(autotvm.TASK_TABLE))

    @autotvm.template("test/fallback")
    def template(n):
        sch = product(n, n, n, "float32")
        y, _x, _k = sch.get_loops(sch.get_block("C"))
        cfg = autotvm.get_config()
        cfg.define_split("tile", y, num_outputs=2)
        if cfg.is_fallback:
            cfg.fallback_split("tile", [-1, 8])
        cfg["tile"].apply(sch, y)
        return sch

    monkeypatch.setattr(GLOBAL_SCOPE, "silent", True)
    for _ in range(2):
        sch = template(16)
        assert isinstance(sch, Schedule)
        assert list(sch.trace.decisions.values()) == [(2, 8)]
