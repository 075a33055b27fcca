"""Kernels are measured once, in turns, and the times are kept."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from codegen import Target
from search.builder import Builder, BuilderInput, BuilderResult
from search.models.graph_tuner import KernelTimes
from search.models.graph_tuner.kernel_times import KERNEL_TIMES
from search.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from tensorir import IRModule, PrimFunc, parse
from tests.search.models.graph_tuner.graphs import KERNELS, TARGET

MOD = parse(f"@I.ir_module\nclass Module:{KERNELS}")
assert isinstance(MOD, IRModule)
DENSE, RELU, HALVES = (MOD.prim_func(name) for name in ("dense", "relu", "halves"))


class NamingBuilder(Builder):
    """Returns as the path the name of the first parameter; fails for those named S."""

    def __init__(self) -> None:
        self.built: list[str] = []
        self.removed: list[str] = []

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        names = [first(entry.mod.prim_func("main")) for entry in build_inputs]
        self.built += names
        return [
            BuilderResult(error_msg="no") if name == "S" else BuilderResult(name) for name in names
        ]

    def remove_artifact(self, path: str) -> None:
        self.removed.append(path)


class ScriptedRunner(Runner):
    """Returns times in the order in which they were given, None for a failure."""

    def __init__(self, **seconds: list[float | None]) -> None:
        self.seconds = seconds
        self.ran: list[str] = []

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        return [RunnerFuture.ready(self.result(entry.artifact_path)) for entry in runner_inputs]

    def result(self, name: str) -> RunnerResult:
        self.ran.append(name)
        times = self.seconds[name]
        found = times.pop(0) if len(times) > 1 else times[0]
        return RunnerResult(error_msg="no") if found is None else RunnerResult((found, found * 2))


def first(func: PrimFunc) -> str:
    return func.buffer_map[func.params[0]].name


def test_kernels_are_measured_in_turns_and_the_least_time_counts() -> None:
    builder, runner = NamingBuilder(), ScriptedRunner(X=[3, 1, 2], A=[5])
    times = KernelTimes(Target(TARGET), builder, runner)
    assert times([DENSE, RELU]) == [1, 5]
    assert runner.ran == ["X", "A"] * 5
    assert sorted(builder.removed) == ["A", "X"]


def test_a_kernel_is_measured_once_whatever_it_is_called() -> None:
    builder = NamingBuilder()
    times = KernelTimes(Target(TARGET), builder, ScriptedRunner(X=[1], A=[2]))
    assert times([DENSE, DENSE.with_attr("global_symbol", "other")]) == [1, 1]
    assert times([RELU, DENSE]) == [2, 1]
    assert builder.built == ["X", "A"]


def test_what_does_not_build_or_run_takes_forever(caplog: pytest.LogCaptureFixture) -> None:
    runner = ScriptedRunner(X=[1, None], A=[2])
    times = KernelTimes(Target(TARGET), NamingBuilder(), runner)
    with caplog.at_level(logging.INFO, "tensorir.search"):
        assert times([HALVES, DENSE, RELU]) == [math.inf, math.inf, 2]
    assert [record.message for record in caplog.records[-2:]] == [
        "A program is not measured, it does not build: no",
        "A program failed and is not measured again: no",
    ]
    assert runner.ran == ["X", "A", "X", "A", "A", "A", "A"]


def test_times_are_kept_in_a_file_and_failures_are_not(tmp_path: Path) -> None:
    runner = ScriptedRunner(X=[None], A=[2])
    KernelTimes(Target(TARGET), NamingBuilder(), runner, tmp_path)([DENSE, RELU])
    builder = NamingBuilder()
    again = KernelTimes(Target(TARGET), builder, ScriptedRunner(X=[1]), tmp_path)
    assert again([RELU, DENSE]) == [2, 1]
    assert builder.built == ["X"]
    lines = (tmp_path / KERNEL_TIMES.file).read_text().splitlines()
    assert [json.loads(line)[1] for line in lines] == [2, 1]


def test_times_count_for_their_target_only(tmp_path: Path) -> None:
    KernelTimes(Target(TARGET), NamingBuilder(), ScriptedRunner(A=[2]), tmp_path)([RELU])
    other = Target("llvm -num-cores=2")
    assert KernelTimes(other, NamingBuilder(), ScriptedRunner(A=[3]), tmp_path)([RELU]) == [3]


@pytest.mark.parametrize("wrong", ['"soon"', "-1", "NaN", "Infinity", "null"])
def test_a_line_that_is_no_time_is_named_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: str
) -> None:
    (tmp_path / KERNEL_TIMES.file).write_text(f'["abc", 1.0]\n["abc", {wrong}]\n')
    times = KernelTimes(Target(TARGET), NamingBuilder(), ScriptedRunner(A=[2]), tmp_path)
    assert "kernel_times.json: left out 1 line(s): line 2: expected [key, seconds]" in caplog.text
    assert times([RELU]) == [2]


def test_a_part_that_was_given_stays_open() -> None:
    closed: list[str] = []

    class Closing(ScriptedRunner):
        def close(self) -> None:
            closed.append("runner")

    KernelTimes(Target(TARGET), "local", Closing()).close()
    assert closed == []
