"""Executables: what they say of themselves, libraries on the disk, other processes."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import codegen
from codegen.errors import CodegenError, LinkError
from codegen.vm.program import Description
from tests.codegen.vm.models import module

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
    with pytest.raises(LinkError, match="format 0 of graph functions, this release reads 3"):
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
        CodegenError, match=r"cannot carry Python functions.*tests.export \(main: a"
    ):
        executable.export_library(tmp_path / "model.so")


def _run(vm_or_executable: codegen.Executable, x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    result: np.ndarray = codegen.VirtualMachine(vm_or_executable)["main"](x)[0]  # type: ignore[type-arg]
    return result


def test_executables_travel_to_worker_processes(executable: codegen.Executable) -> None:
    np.testing.assert_array_equal(_run(pickle.loads(pickle.dumps(executable)), X), 2 * X)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(_run, (executable, X)), 2 * X)
