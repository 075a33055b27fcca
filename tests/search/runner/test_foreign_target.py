"""A search for a machine that this one cannot stand in for ends before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import search as ms
from codegen import Target
from codegen.target import host
from schedule import Schedule
from search import autotvm
from search.errors import TuningError
from search.runner import LocalRunner, Runner, RunnerFuture, RunnerInput, RunnerResult
from tensorir import parse

FOREIGN = "aarch64" if host.machine() == "x86_64" else "x86_64"
TARGET = f"llvm -mtriple={FOREIGN}-linux-gnu -num-cores=1"
PROGRAM = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)
""")


def tune(work_dir: Path, **options: object) -> object:
    return ms.tune_module(PROGRAM, TARGET, str(work_dir), max_trials_global=2, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("runner", ["local", "instance"])
def test_a_target_of_another_machine_is_refused(tmp_path: Path, runner: str) -> None:
    made = LocalRunner() if runner == "instance" else runner
    words = rf"cannot be measured on this machine: the code is for {FOREIGN}.* pass a runner"
    with pytest.raises(TuningError, match=words):
        tune(tmp_path / "work", runner=made)
    assert not (tmp_path / "work").exists()


class Elsewhere(Runner):
    """Says how long candidates took on a machine that is not this one."""

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Return made-up times."""
        return [RunnerFuture.ready(RunnerResult(run_secs=(1.0,))) for _ in runner_inputs]


def test_a_runner_of_the_user_measures_for_any_target(tmp_path: Path) -> None:
    assert tune(tmp_path, runner=Elsewhere()) is not None


def test_measuring_functions_of_the_user_may_reach_any_machine() -> None:
    assert LocalRunner(f_run_evaluator=lambda *_: [1.0]).why_not(Target(TARGET)) is None
    assert LocalRunner().why_not(Target(TARGET)) is not None
    assert LocalRunner().why_not(Target("llvm")) is None


def test_templates_for_another_machine_are_refused() -> None:
    autotvm.template("test/foreign", lambda: Schedule(PROGRAM))
    task = autotvm.task.create("test/foreign", (), TARGET)
    option = autotvm.measure_option("local", "local")
    with pytest.raises(TuningError, match=rf"cannot be measured on this .* is for {FOREIGN}"):
        autotvm.tuner.GridSearchTuner(task).tune(1, option)
