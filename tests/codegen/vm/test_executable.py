"""Executables: saved, loaded, profiled."""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import codegen
from codegen.errors import CodegenError, ExecutionError, LinkError
from codegen.vm import profile
from codegen.vm.program import Description
from tensorir import IRModule, parse
from tensorir.errors import IRTypeError, IRValueError
from tensorir.script.display import preformatted
from tests.codegen.vm.models import module

# ----------------- Executables: what they say of themselves, libraries on the disk, other processes

X = np.arange(6, dtype="float32").reshape(2, 3)
W = X * 0.5
MODEL = module("""
@R.function
def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((2, 3), "float32")):
    cls = Module
    a = R.call_tir(cls.add, (x, w), R.Tensor((2, 3), "float32"))
    b = R.call_tir(cls.add, (a, w), R.Tensor((2, 3), "float32"))
    return (b, a)

@R.function
def rows(x: R.Tensor(("n", 3), "float32")):
    n = T.int64()
    cls = Module
    a = R.call_tir(cls.twice, (x,), R.Tensor((n, 3), "float32"))
    return a
""")


@pytest.fixture(scope="module")
def executable() -> codegen.Executable:
    return codegen.vm_build(MODEL, "llvm", params={"w": W})


def test_descriptions_survive_json(executable: codegen.Executable) -> None:
    description = executable.description
    assert Description.from_json(description.to_json()) == description
    with pytest.raises(LinkError, match="format 0 of graph functions, this release reads 4"):
        Description.from_json('{"version": 0}')


def test_stats_and_text(executable: codegen.Executable) -> None:
    assert "main      machine code  1     0" in executable.stats()
    assert "constants: 64 bytes" in executable.stats()
    assert executable.as_text() == "main(x):\n    run main\nrows(x):\n    run rows"


def test_the_lowered_module_is_kept(executable: codegen.Executable) -> None:
    assert "R.builtin.alloc_tensor" in executable.mod.script()


def test_a_library_runs_in_a_new_process(executable: codegen.Executable, tmp_path: Path) -> None:
    path = tmp_path / "model.so"
    executable.export_library(path)
    loaded = codegen.load_module(path)
    assert loaded.c_header() == executable.c_header()
    with pytest.raises(IRValueError, match=r"called by codegen.VirtualMachine\(module\)"):
        loaded["model"]
    code = f"""
import numpy as np, codegen
vm = codegen.VirtualMachine(codegen.load_module({str(path)!r}), codegen.cpu())
x = np.arange(6, dtype="float32").reshape(2, 3)
b, a = vm["main"](x)
np.testing.assert_array_equal(b, 2 * x)
np.testing.assert_array_equal(vm["rows"](x[:1]), 2 * x[:1])
assert vm.module.time_evaluator("main", codegen.cpu(), number=5)(x).mean > 0
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_loaded_library_has_no_program_to_profile(
    executable: codegen.Executable, tmp_path: Path
) -> None:
    executable.export_library(tmp_path / "model.so")
    vm = codegen.VirtualMachine(codegen.load_module(tmp_path / "model.so"))
    with pytest.raises(CodegenError, match="loaded from machine code, its module is gone"):
        vm.profile("main", X)


def test_a_module_of_tensor_functions_is_no_executable() -> None:
    lib = codegen.build(MODEL["add"], "llvm")  # type: ignore[arg-type]
    with pytest.raises(CodegenError, match="holds tensor functions only"):
        codegen.VirtualMachine(lib)


def test_python_functions_cannot_be_exported(tmp_path: Path) -> None:
    executable = codegen.vm_build(
        module("""
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    a = R.call_dps_packed("tests.export", (x,), R.Tensor((2, 3), "float32"))
    return a
"""),
        "llvm",
    )
    with pytest.raises(
        CodegenError, match=r"cannot contain Python functions.*tests.export \(in main: a"
    ):
        executable.export_library(tmp_path / "model.so")


def _run(vm_or_executable: codegen.Executable, x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    result: np.ndarray = codegen.VirtualMachine(vm_or_executable)["main"](x)[0]  # type: ignore[type-arg]
    return result


def test_executables_travel_to_worker_processes(executable: codegen.Executable) -> None:
    np.testing.assert_array_equal(_run(pickle.loads(pickle.dumps(executable)), X), 2 * X)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(_run, (executable, X)), 2 * X)


# ----------------------------------------------- Reports of where the time goes, and calls in parts


@pytest.fixture(scope="module")
def vm() -> codegen.VirtualMachine:
    codegen.register_func("tests.profile", lambda x, out: np.negative(x, out=out), override=True)
    mod = module("""
@R.function
def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
    cls = Module
    a = R.call_tir(cls.add, (x, y), R.Tensor((2, 3), "float32"))
    b = R.call_tir(cls.add, (a, y), R.Tensor((2, 3), "float32"))
    return b

@R.function
def mixed(x: R.Tensor((2, 3), "float32")):
    cls = Module
    a = cls.main(x, x)
    b = R.call_dps_packed("tests.profile", (a,), R.Tensor((2, 3), "float32"))
    return b
""")
    return codegen.VirtualMachine(codegen.vm_build(mod, "llvm"), codegen.cpu(), profile=True)


def test_every_kernel_of_machine_code_has_a_row(vm: codegen.VirtualMachine) -> None:
    report = vm.profile("main", X, X)
    shapes = "float32[2, 3], float32[2, 3], float32[2, 3]"
    assert [(r.name, r.kind, r.arguments, r.count) for r in report.rows] == [
        ("add", "kernel", shapes, 1),
        ("add", "kernel", shapes, 1),
    ]
    assert all(r.binding.startswith("main: ") for r in report.rows)
    assert len({r.binding for r in report.rows}) == 2
    assert all(r.us > 0 for r in report.rows)
    assert sum(r.percent for r in report.rows) <= 100


def test_library_calls_and_graph_functions_have_rows(vm: codegen.VirtualMachine) -> None:
    report = vm.profile("mixed", X)
    rows = [(r.name, r.kind) for r in report.rows]
    assert ("tests.profile", "library") in rows
    assert rows.count(("add", "kernel")) == 2
    np.testing.assert_array_equal(vm["mixed"](X), -3 * X)


def test_the_time_of_recording_is_in_no_row_and_not_in_the_total(
    vm: codegen.VirtualMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(profile, "time", clock)
    monkeypatch.setattr(profile, "_value_text", clock.spend)
    report = vm.profile("mixed", X)
    assert {row.arguments for row in report.rows if row.kind == "library"} == {"slow, slow"}
    assert sum(row.us for row in report.rows) <= report.total_us < 1e6 * Clock.LONG


class Clock:
    """Counts a second for each look at it; describing a value takes long."""

    LONG = 1000

    def __init__(self) -> None:
        self.now = 0

    def perf_counter(self) -> int:
        self.now += 1
        return self.now

    def spend(self, _: object) -> str:
        self.now += self.LONG
        return "slow"


def test_reports_are_tables_csv_and_json(vm: codegen.VirtualMachine) -> None:
    report = vm.profile("main", X, X)
    assert report.table().splitlines()[0].split() == [
        "name", "kind", "binding", "arguments", "operators", "count", "us", "percent"
    ]  # fmt: skip
    assert str(report) == report.table()
    *_, between, total = report.table().splitlines()
    assert between.startswith("between calls")
    assert total.startswith("main: ")
    shares = [float(line.split()[-1]) for line in report.table().splitlines()[1:-1]]
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert len(list(csv.DictReader(io.StringIO(report.csv())))) == 2
    assert [row["name"] for row in json.loads(report.json())["calls"]] == ["add", "add"]
    assert report._repr_html_() == preformatted(report.table())
    assert "monospace; white-space: pre;" in report._repr_html_()


def test_a_kernel_is_shown_with_the_operators_that_were_fused_into_it() -> None:
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((8, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.add(a, a)
            y = R.nn.relu(b)
            R.output(y)
        return y
""")
    assert isinstance(mod, IRModule)
    vm = codegen.VirtualMachine(codegen.vm_build(mod, "llvm"))
    x, w = np.ones((8, 4), "float32"), np.eye(4, dtype="float32")
    np.testing.assert_array_equal(vm["main"](x, w), 2 * x)
    (row,) = vm.profile("main", x, w).rows
    assert row.operators == "matmul + add + relu"
    assert "matmul + add + relu" in vm.profile("main", x, w).table()


def test_long_names_are_shortened_in_tables_only(vm: codegen.VirtualMachine) -> None:
    report = vm.profile("main", X, X)
    (row, *_) = report.rows
    long = "first " + "add + " * 40 + "last"
    report = replace(report, rows=(replace(row, operators=long),))
    _, line, *_ = report.table().splitlines()
    assert len(line) < 200
    assert "first add" in line
    assert "add + last" in line
    assert long in report.csv()
    assert json.loads(report.json())["calls"][0]["operators"] == long


def test_calls_in_parts(vm: codegen.VirtualMachine) -> None:
    with pytest.raises(ExecutionError, match="main has no arguments yet; call set_input first"):
        vm.invoke_stateful("main")
    vm.set_input("main", X, y=X + 1)
    with pytest.raises(ExecutionError, match="main has no result yet"):
        vm.get_outputs("main")
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main"), X + 2 * (X + 1))


def test_calls_can_be_saved(vm: codegen.VirtualMachine) -> None:
    vm.save_function("main", "saved", X, y=X)
    np.testing.assert_array_equal(vm["saved"](), 3 * X)
    np.testing.assert_array_equal(vm.invoke_closure(vm["main"], X, X), 3 * X)
    vm.save_function("main", "silent", X, X, include_return=False)
    assert vm["silent"]() is None
    with pytest.raises(IRValueError, match="'mixed' is a function of the module"):
        vm.save_function("main", "mixed", X, X)
    with pytest.raises(
        IRTypeError, match=r"takes 2 argument\(s\) \(x, y\), got 1 by position.*; missing: y"
    ):
        vm.save_function("main", "short", X)
    with pytest.warns(UserWarning, match="main has no parameter z: ignored"):
        vm.save_function("main", "more", X, X, z=X)
