"""Built models that later processes take from the disk."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import codegen
from codegen.kept_files import CACHE, kept_files
from codegen.vm import Executable
from search.database import MemoryDatabase
from tensorir import IRModule, parse, relax, te
from tensorir.relax.declaration import operator
from tensorir.relax.operator import Operator
from tensorir.transform import PassContext

# `codegen.vm.build` is hidden by the function of that name.
module_here = importlib.import_module("codegen.vm.build")
WEIGHTS = np.arange(12 * 1024, dtype="float32").reshape(12, 1024)


def network(weights: np.ndarray = WEIGHTS, name: str = "x") -> IRModule:
    """Return relu(x @ weights) + 1 for x [4, 12]."""
    builder = relax.BlockBuilder()
    x = relax.Var(name, relax.TensorStructInfo((4, 12), "float32"))
    with builder.function("main", [x]):
        product = builder.emit(relax.op.matmul(x, relax.const(weights)))
        builder.emit_func_output(
            builder.emit(relax.op.add(relax.op.nn.relu(product), relax.const(1.0, "float32")))
        )
    return builder.get()


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """Keep models in a folder, and count those that are built."""
    monkeypatch.setenv(CACHE, str(tmp_path))
    kept_files.cache_clear()
    made: list[str] = []
    compile_lowered = module_here.compile_lowered

    def counted(*args: object, **options: object) -> Executable:
        made.append("built")
        built: Executable = compile_lowered(*args, **options)
        return built

    monkeypatch.setattr(module_here, "compile_lowered", counted)
    yield made
    kept_files.cache_clear()


def result(built: Executable) -> np.ndarray:
    x = np.linspace(-1, 1, 48, dtype="float32").reshape(4, 12)
    return np.array(codegen.VirtualMachine(built, codegen.cpu())["main"](x))


def test_a_model_is_built_once(builds: list[str]) -> None:
    first = codegen.vm_build(network(), "llvm")
    again = codegen.vm_build(network(), "llvm")
    assert builds == ["built"]
    np.testing.assert_array_equal(result(again), result(first))
    assert again.stats() == first.stats()
    # Its programs are made again when somebody asks.
    assert again.mod.script() == first.mod.script()
    assert again.module.inspect_llvm() == first.module.inspect_llvm()
    assert len(builds) == 2


def test_what_changes_the_result_is_part_of_the_key(
    builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    codegen.vm_build(network(), "llvm")
    codegen.vm_build(network(WEIGHTS + 1), "llvm")
    codegen.vm_build(network(name="y"), "llvm")
    codegen.vm_build(network(), "llvm -num-cores=1")
    codegen.vm_build(network(), "llvm", guard_pages=True)
    assert len(builds) == 5
    monkeypatch.setattr("codegen.vm.kept_models.sources_stamp", lambda: "another release")
    codegen.vm_build(network(), "llvm")
    assert len(builds) == 6


def test_records_and_settings_of_passes_build_anew(builds: list[str]) -> None:
    codegen.vm_build(network(), "llvm")
    with PassContext(disabled_pass=["FuseOps"]):
        codegen.vm_build(network(), "llvm")
    codegen.vm_build(network(), "llvm", database=MemoryDatabase())
    with MemoryDatabase():
        codegen.vm_build(network(), "llvm")
    codegen.vm_build(network(), "llvm", default_schedules=False)
    assert len(builds) == 5


def test_a_damaged_file_is_made_again(builds: list[str], tmp_path: Path) -> None:
    codegen.vm_build(network(), "llvm")
    (file,) = (tmp_path / "models").iterdir()
    for content in (b"", file.read_bytes()[:-1], file.read_bytes()[:100]):
        file.unlink()
        file.write_bytes(content)
        built = codegen.vm_build(network(), "llvm")
        assert np.isfinite(result(built)).all()
    assert len(builds) == 4


def test_a_folder_that_cannot_be_made_is_said_once(
    builds: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "models").write_text("a file in the way")
    (tmp_path / "schedules").mkdir(mode=0o700)
    with caplog.at_level(logging.WARNING, "tensorir.codegen"):
        codegen.vm_build(network(), "llvm")
        codegen.vm_build(network(WEIGHTS + 1), "llvm")
    (record,) = caplog.records
    assert "No file is kept in" in record.getMessage()
    assert len(builds) == 2


def test_0_keeps_nothing(
    builds: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(CACHE, "0")
    kept_files.cache_clear()
    codegen.vm_build(network(), "llvm")
    codegen.vm_build(network(), "llvm")
    assert len(builds) == 2
    assert not [*tmp_path.iterdir()]


def test_a_model_with_an_operator_of_the_user_is_built_each_time(builds: list[str]) -> None:
    @operator("test.scaled")
    def scaled(x: te.Tensor) -> te.Tensor:
        return te.compute(x.shape, lambda i: x[i] * 2)

    try:
        mod = parse(
            """
@R.function
def main(x: R.Tensor((64,), "float32")):
    return R.test.scaled(x)
"""
        )
        for _ in range(2):
            built = codegen.vm_build(mod, "llvm")
            main = codegen.VirtualMachine(built, codegen.cpu())["main"]
            assert main(np.ones(64, "float32"))[0] == 2
    finally:
        del Operator.table["relax.test.scaled"]
    assert len(builds) == 2


COUNTER = parse(
    """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1024,), "float32"), total: R.Tensor((1024,), "float32")):
        R.func_attr({"updates": ["total"], "state": (R.const(zeros, "float32"),)})
        with R.dataflow():
            after = R.add(total, x)
            R.output(after)
        return (after, (after,))
""",
    {"zeros": np.zeros(1024, "float32")},
)


def test_each_machine_has_a_state_of_its_own(builds: list[str]) -> None:
    one = np.ones(1024, "float32")
    for _ in range(2):
        built = codegen.vm_build(COUNTER, "llvm")
        for _ in range(2):
            function = codegen.VirtualMachine(built, codegen.cpu()).function("main")
            assert function(one)[0] == 1
            assert function(one)[0] == 2
            assert function.state["total"][0] == 2
    assert len(builds) == 1
