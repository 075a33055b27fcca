"""Tuning a model as a whole: budgets, what is left out, what is kept, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codegen
import search as ms
import tensorir
from schedule import Schedule
from search.database import JSONDatabase, MemoryDatabase
from search.errors import TuningError
from search.runner import RunnerFuture, RunnerInput
from tensorir import IRModule
from tests.search.made_up_runs import ScriptFiles, TimesOfScripts
from tests.search.models.network_programs import (
    TARGET,
    WEIGHTS,
    X,
    dense_model,
    in_numpy,
    symbolic_model,
    unbound_dense_model,
)
from tests.search.programs import split_all


def options(measured: dict[str, Any]) -> dict[str, Any]:
    return {**measured, "cost_model": "random", "space": split_all, "num_confirmed": 0, "seed": 1}


def run(executable: codegen.Executable) -> np.ndarray:
    return np.asarray(codegen.VirtualMachine(executable)["main"](X))


def tuned(executable: codegen.Executable) -> list[str]:
    functions = executable.mod.prim_funcs().items()
    names = (name for name, func in functions if func.attrs.get("tir.is_scheduled"))
    return sorted({name.partition("_")[0] for name in names})


def test_all_kernels_of_a_model_are_tuned_and_built(
    measured: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mod = dense_model()
    database = ms.tune_model(mod, TARGET, tmp_path, max_trials_global=6, **options(measured))
    said = capsys.readouterr().err
    assert 'Function "small" is not tuned' not in said
    assert "The tuned model computes the same results as the untuned one" in said
    assert re.search(
        r"A call of the tuned model takes [\d.]+ \w+, its tuned kernels alone [\d.]+ \w+", said
    )
    rows = {
        line.split("|")[1].strip(): line.split("|") for line in said.splitlines() if "|" in line
    }
    assert {name: row[3].strip() for name, row in rows.items()} == {
        "Name": "Weight",
        "wide": "2",
        "narrow": "1",
    }
    assert rows["Name"][7].strip() == "Gain (us)"
    assert len(database) == 6
    executable = codegen.vm_build(mod, TARGET, database=database, default_schedules=False)
    assert tuned(executable) == ["narrow", "wide"]
    np.testing.assert_allclose(run(executable), in_numpy(X), rtol=1e-4)
    again = JSONDatabase(work_dir=tmp_path)
    assert tuned(codegen.vm_build(mod, TARGET, database=again, default_schedules=False)) == [
        "narrow",
        "wide",
    ]


def fails_on_wide(sch: Schedule) -> None:
    if sch.get(sch.get_loops(sch.get_block("C"))[1]).extent.value == 32:
        raise ZeroDivisionError("a rule of somebody")
    split_all(sch)


def test_a_task_that_fails_is_left_out_by_name_and_the_others_go_on(
    measured: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {**options(measured), "space": fails_on_wide, "check": False}
    database = ms.tune_model(dense_model(), TARGET, tmp_path, max_trials_global=4, **told)
    said = capsys.readouterr().err
    assert 'Task #0 "wide" is left out: ZeroDivisionError: a rule of somebody' in said
    assert len(database) == 4
    assert tuned(
        codegen.vm_build(dense_model(), TARGET, database=database, default_schedules=False)
    ) == ["narrow"]
    log = tmp_path / "logs" / "tvm.meta_schedule.logging.task_0_wide.log"
    assert "in fails_on_wide" in log.read_text(), "the traceback is in the log of the task"


def fails(sch: Schedule) -> None:
    raise ZeroDivisionError("a rule of somebody")


def test_a_run_of_which_all_tasks_fail_says_so(measured: dict[str, Any], tmp_path: Path) -> None:
    told = {**options(measured), "space": fails}
    with pytest.raises(TuningError, match='no task could be tuned; the first one, "wide", failed'):
        ms.tune_model(dense_model(), TARGET, tmp_path, max_trials_global=4, **told)


def test_a_run_that_measures_nothing_says_so(
    measured: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = ms.tune_model(dense_model(), TARGET, tmp_path, max_seconds=1e-9, **options(measured))
    assert not len(database)
    said = capsys.readouterr()
    assert "Nothing was measured in the given time" in said.out + said.err


def test_seconds_bound_a_run(measured: dict[str, Any], tmp_path: Path) -> None:
    """Not by trials: of 2 ** 27 points of the design space some are measured."""
    database = ms.tune_model(
        dense_model(), TARGET, tmp_path, max_seconds=1.0, check=False, **options(measured)
    )
    assert 0 < len(database) < 500
    assert not list(tmp_path.glob("unfinished_run*"))


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (
            {},
            r"missing budget: pass max_trials_global \(20 for each kernel, for example\), max_seconds",
        ),
        (
            {"max_trials_global": 1},
            "max_trials_global is 1, and the model has 2 kernels to tune: give at least one trial "
            r"to each, better 20 \(40 in all\)",
        ),
        ({"max_seconds": -1}, "max_seconds is a number of seconds above 0"),
        (
            {"max_trials_global": 9, "op_names": ["conv"]},
            r"no kernel name contains one of \['conv'\]; the kernels are wide, narrow, small",
        ),
        ({"max_trials_global": 9, "op_names": "wide"}, "op_names is a list of parts of names"),
        ({"max_trials_global": 9, "op_names": [3]}, r"op_names is a list of parts .* got \[3\]"),
        ({"max_trials_global": 9, "op_names": 3}, "op_names is a list of parts of names, got 3"),
        ({"max_trials_global": "9"}, "max_trials_global is an int of at least 0, got '9'"),
        ({"max_trials_global": 9, "params": [1]}, "params has arrays by the names .* got list"),
        ({"max_trials_global": 9, "sizes": 3}, "sizes has numbers by the names .* got int"),
        ({"max_trials_global": 9, "op_names": ["small"]}, "the model has no kernel to tune"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(
    told: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(TuningError, match=message):
        ms.tune_model(dense_model(), TARGET, **{"work_dir": tmp_path / "never", **told})
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("wish", ["initial_schedules", "constraint", "input_data"])
def test_what_is_wished_of_a_kernel_that_there_is_not_is_named(tmp_path: Path, wish: str) -> None:
    told: Any = {wish: {"conv": lambda decisions: True}}
    with pytest.raises(
        ms.TuningError, match=rf"{wish} names 'conv', which is not a function to tune"
    ):
        ms.tune_model(dense_model(), TARGET, tmp_path, max_trials_global=9, **told)


def test_op_names_choose_tasks(measured: dict[str, Any], tmp_path: Path) -> None:
    told = {**options(measured), "op_names": ["narr"], "check": False}
    database = ms.tune_model(dense_model(), TARGET, tmp_path, max_trials_global=2, **told)
    assert len({record.workload for record in database.get_all_tuning_records()}) == 1


class Corrupting(MemoryDatabase):
    """Gives builds a schedule of one function that computes something else, while it is there."""

    def schedules_of(self, functions: Any, target: codegen.Target) -> dict[str, Any]:
        found = super().schedules_of(functions, target)
        if "wide" in found:
            text = IRModule({"wide": found["wide"]}).script()
            found["wide"] = tensorir.parse(text.replace("T.float32(0.0)", "T.float32(1.0)"))["wide"]
        return found


def test_a_schedule_that_changes_results_is_named_and_left_out(
    measured: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = Corrupting()
    told = {**options(measured), "database": database}
    ms.tune_model(dense_model(), TARGET, tmp_path, max_trials_global=4, **told)
    said = capsys.readouterr().err
    assert 'The schedule of function "wide" is refused: with it the model computes other' in said
    assert "other results, result 0 of main is wrong in" in said
    executable = codegen.vm_build(dense_model(), TARGET, database=database, default_schedules=False)
    assert tuned(executable) == ["narrow"]
    np.testing.assert_allclose(run(executable), in_numpy(X), rtol=1e-4)


def test_the_names_that_tvm_has(measured: dict[str, Any], tmp_path: Path) -> None:
    mod, params = unbound_dense_model(), WEIGHTS
    integration = ms.relax_integration
    tasks = integration.extract_tasks(mod, TARGET, params)
    assert [task.task_name for task in tasks] == ["wide", "narrow", "small"]
    database = ms.tune_relax(mod, params, TARGET, tmp_path, 2, **options(measured))
    executable = integration.compile_relax(database, mod, TARGET, params)
    assert tuned(executable) == ["narrow", "wide"]
    np.testing.assert_allclose(run(executable), in_numpy(X), rtol=1e-4)


def test_a_kernel_with_a_symbolic_size_is_tuned_for_numbers(
    measured: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A later build finds the records, and its kernel dispatches on the number of rows."""
    mod = symbolic_model()
    told = {**options(measured), "sizes": {"n": [32, 64]}}
    ms.tune_model(mod, TARGET, tmp_path, max_trials_global=4, **told)
    said = capsys.readouterr().err
    assert "dense_n_32" in said
    assert "dense_n_64" in said
    assert "The tuned model computes the same results as the untuned one" in said
    database = JSONDatabase(work_dir=tmp_path)
    executable = codegen.vm_build(mod, TARGET, database=database, default_schedules=False)
    assert tuned(executable) == ["dense"]
    assert "if n <= T.int64(32):" in executable.mod["dense"].script()
    main = codegen.VirtualMachine(executable)["main"]
    for rows in (1, 31, 33, 65):
        x, w = np.random.default_rng(rows).random((2, max(rows, 16), 16), np.float32)
        result = main(x[:rows], w[:16]).numpy()
        np.testing.assert_allclose(result, np.maximum(x[:rows] @ w[:16], 0), rtol=1e-4)


PRODUCTS = """
@R.function
def main(
    x: R.Tensor((4, {n}), "float32"),
    w: R.Tensor(({n}, 64), "float32"),
    v: R.Tensor((64, 64), "float32"),
) -> R.Tensor((4, 64), "float32"):
    with R.dataflow():
        y = R.matmul(x, w)
        z = R.matmul(y, v)
        R.output(z)
    return z
"""


class SeenFacts(TimesOfScripts):
    """Notes the positions of cold arguments for each shape of the first argument."""

    def __init__(self) -> None:
        super().__init__()
        self.cold: dict[tuple[int, ...], tuple[int, ...]] = {}

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        for entry in runner_inputs:
            assert entry.facts is not None
            self.cold[entry.args_info[0].shape] = entry.facts.cold
        return super().run(runner_inputs)


@pytest.mark.parametrize(
    ("n", "seconds", "cold"),
    [
        (128, None, {(4, 128): (), (4, 64): ()}),
        (1 << 16, None, {(4, 1 << 16): (1,), (4, 64): (1,)}),
        (1 << 16, 3.0, {(4, 1 << 16): (1,)}),
    ],
    ids=["weights in the cache", "more weights", "time for one kernel"],
)
def test_kernels_are_timed_with_weights_as_a_call_finds_them(
    tmp_path: Path, n: int, seconds: float | None, cold: dict[Any, Any]
) -> None:
    weights = {"w": np.ones((n, 64), np.float32), "v": np.ones((64, 64), np.float32)}
    runner = SeenFacts()
    ms.tune_model(
        tensorir.parse(PRODUCTS.format(n=n)),
        "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake -num-cores=1",
        tmp_path,
        params=weights,
        max_trials_global=2,
        max_seconds=seconds,
        num_confirmed=0,
        cost_model="random",
        check=False,
        builder=ScriptFiles(tmp_path / "built"),
        runner=runner,
    )
    assert runner.cold == cold
