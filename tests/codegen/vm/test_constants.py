"""Constants: small ones in a block, large ones where they are."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import codegen
from codegen.vm.constants import LARGE
from tensorir import IRModule, parse

SHAPE = (64, 64)
WEIGHTS = np.random.default_rng(0).integers(0, 9, SHAPE).astype("float32")
assert WEIGHTS.nbytes >= LARGE


def model(rows: int = 64, weights: int = 2) -> IRModule:
    """Return a model that adds weights of (rows, 64), then a row, to its argument."""
    info = f"R.Tensor(({rows}, 64), 'float32')"
    names = [f"w{k}" for k in range(weights)]
    lines = [
        f"        v{k + 1} = R.call_tir(cls.add, (v{k}, w{k}), {info})" for k in range(weights)
    ]
    text = f"""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def add(A: T.Buffer(({rows}, 64), "float32"), B: T.Buffer(({rows}, 64), "float32"),
            C: T.Buffer(({rows}, 64), "float32")):
        for i, j in T.grid({rows}, 64):
            with T.block("add"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + B[vi, vj]

    @T.prim_func(private=True)
    def add_row(A: T.Buffer(({rows}, 64), "float32"), B: T.Buffer((64,), "float32"),
                C: T.Buffer(({rows}, 64), "float32")):
        for i, j in T.grid({rows}, 64):
            with T.block("add_row"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + B[vj]

    @R.function
    def main(v0: {info}, row: R.Tensor((64,), 'float32'), {", ".join(f"{n}: {info}" for n in names)}):
        cls = Module
{chr(10).join(lines)}
        y = R.call_tir(cls.add_row, (v{weights}, row), {info})
        return y
"""
    mod = parse(text)
    assert isinstance(mod, IRModule)
    return mod


ROW = np.arange(64, dtype="float32")
X = np.ones(SHAPE, "float32")
PARAMS = {"w0": WEIGHTS, "w1": 2 * WEIGHTS, "row": ROW}
EXPECTED = X + 3 * WEIGHTS + ROW


@pytest.fixture(scope="module")
def executable() -> codegen.Executable:
    return codegen.vm_build(model(), "llvm", params=PARAMS)


def test_large_constants_are_not_copied_and_small_ones_are_in_a_block(
    executable: codegen.Executable,
) -> None:
    constants = executable.constants
    assert len(constants.arrays) == 2
    assert any(np.shares_memory(array, WEIGHTS) for array in constants.arrays)
    assert constants.block.nbytes == 64 + ROW.nbytes  # distances, and the row
    np.testing.assert_array_equal(codegen.VirtualMachine(executable)["main"](X), EXPECTED)


def test_they_go_with_a_pickled_executable(executable: codegen.Executable) -> None:
    again = pickle.loads(pickle.dumps(executable))
    np.testing.assert_array_equal(codegen.VirtualMachine(again)["main"](X), EXPECTED)


def test_they_go_with_a_library(executable: codegen.Executable, tmp_path: Path) -> None:
    path = tmp_path / "model.so"
    executable.export_library(path)
    loaded = codegen.VirtualMachine(codegen.load_module(path))
    np.testing.assert_array_equal(loaded["main"](X), EXPECTED)


def test_a_library_function_gets_a_large_constant() -> None:
    seen = []

    def record(w: codegen.NDArray, out: codegen.NDArray) -> None:
        seen.append(np.shares_memory(w, WEIGHTS))
        out[...] = w

    codegen.register_func("tests.constants.record", record, override=True)
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(w: R.Tensor((64, 64), "float32")):
        y = R.call_dps_packed("tests.constants.record", (w,), R.Tensor((64, 64), "float32"))
        z = R.call_dps_packed("tests.constants.record", (w,), R.Tensor((64, 64), "float32"))
        return (y, z)
""")
    assert isinstance(mod, IRModule)
    main = codegen.VirtualMachine(codegen.vm_build(mod, "llvm", params={"w": WEIGHTS}))["main"]
    for result in main():
        np.testing.assert_array_equal(result, WEIGHTS)
    assert seen == [True, True]
