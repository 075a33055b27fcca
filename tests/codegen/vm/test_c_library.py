"""Exported libraries: what C calls gives what the virtual machine gives."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codegen
from codegen import CodegenError, LinkError
from codegen.vm.c_library import library_name
from tensorir import IRModule, parse, relax
from tensorir.nodes.expr import GlobalVar
from tensorir.relax.library.loop import call_loop
from tests.codegen.vm.c_model import CModel, Tensor, Workspace, exported, leaves, tensor_of
from tests.codegen.vm.models import module

X = np.arange(6, dtype="float32").reshape(2, 3)
DOCS = Path(__file__).parents[3] / "docs" / "guides" / "ship-a-model.md"


def same(
    mod: IRModule, folder: Path, *calls: Sequence[Any], function: str = "main", **options: Any
) -> CModel:
    """Compare calls with those of the virtual machine, with a workspace and without; return the library."""
    executable = codegen.vm_build(mod, "llvm -opt-level=1", **options)
    vm = codegen.VirtualMachine(executable)
    model = exported(executable, folder)
    workspace = Workspace()
    for inputs in calls:
        expected = leaves(
            vm[function](*(np.copy(x) if isinstance(x, np.ndarray) else x for x in inputs))
        )
        for memory in (workspace, None):
            found = model.call(inputs, len(expected), function, memory)
            for left, right in zip(found, expected, strict=True):
                np.testing.assert_array_equal(left, np.asarray(right))
                assert np.shape(left) == np.shape(right)
    model.free(workspace)
    return model


def test_the_example_of_the_page(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("compiling the example takes a C compiler")
    text = DOCS.read_text()
    blocks = re.findall(r"```(python|c|text)\n(.*?)```", text, re.DOTALL)
    (program,), (example,) = ([code for kind, code in blocks if kind == k] for k in ("python", "c"))
    (expected,) = (code for (before, _), (_, code) in pairwise(blocks) if before == "c")
    exec(program.replace('"libclassifier.so"', repr(str(tmp_path / "libclassifier.so"))), {})
    (tmp_path / "example.c").write_text(example)
    command = ["example.c", "-Wall", "-Wextra", "-Werror", "-L.", "-lclassifier", "-Wl,-rpath,."]
    subprocess.run([compiler, *command, "-o", "example"], cwd=tmp_path, check=True)
    done = subprocess.run(
        [tmp_path / "example"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == expected


def test_the_header_is_cplusplus_too(tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no compiler of C++")
    header = codegen.export(two_sizes(), tmp_path / "model.so", "llvm -opt-level=1")
    command = [compiler, "-Wall", "-Werror", "-fsyntax-only", "-x", "c++", header]
    subprocess.run(command, check=True)


def two_sizes() -> IRModule:
    return module("""
@R.function
def main(x: R.Tensor(("n", 3), "float32"), y: R.Tensor(("2 * m", ), "float32"), z: R.Tensor(("m",), "float32")):
    n, m = T.int64(), T.int64()
    cls = Module
    a = R.call_tir(cls.twice, (x,), R.Tensor((n, 3), "float32"))
    b = R.call_tir(cls.twice, (a,), R.Tensor((n, 3), "float32"))
    return (b, y, (z, a))
""")


def test_sizes_change_from_call_to_call(tmp_path: Path) -> None:
    calls = [
        (np.ones((n, 3), "float32") * n, np.ones(2 * m, "float32"), np.ones(m, "float32"))
        for n, m in ((2, 1), (100, 7), (1, 2), (0, 0))
    ]
    model = same(two_sizes(), tmp_path, *calls)
    assert model.shapes(calls[1], 4) == [(100, 3), (14,), (7,), (100, 3)]
    with pytest.raises(AssertionError, match=r"extent 0 of inputs\[1\] \(y\) has to be \(2 \* m\)"):
        model.call((X, X[0], X[0]), 4)
    with pytest.raises(AssertionError, match=r"inputs\[0\] \(x\) has to be float32 with 2 dim"):
        model.call((X.astype("float64"), X[0], X[0]), 4)


def test_results_may_be_in_memory_of_the_caller(tmp_path: Path) -> None:
    model = same(two_sizes(), tmp_path)
    own = np.zeros((2, 3), "float32")
    model.call((X, X[0, :2], X[0, :1]), 4, given=[own])
    np.testing.assert_array_equal(own, 4 * X)


def test_a_size_that_depends_on_data_becomes_known_in_the_call(tmp_path: Path) -> None:
    mod = module("""
@R.function
def main(x: R.Tensor("float32", ndim=2)):
    n, m = T.int64(), T.int64()
    cls = Module
    y = R.match_cast(x, R.Tensor((n, m), "float32"))
    z = R.match_cast(y, R.Tensor((n, 3), "float32"))
    a = R.call_tir(cls.twice, (z,), R.Tensor((n, 3), "float32"))
    return (a, y)
""")
    model = same(mod, tmp_path, (X,), (X[:1],))
    assert model.shapes((X,), 2) == [(-1, 3), (-1, -1)]
    with pytest.raises(AssertionError, match="extent 1 of z in the value of z has to be 3"):
        model.call((X.T.copy(),), 2)
    with pytest.raises(AssertionError, match=r"outputs\[0\].data has to be NULL"):
        model.call((X,), 2, given=[X])


def test_branches_and_calls_of_graph_functions(tmp_path: Path) -> None:
    mod = module("""
@R.function(private=True)
def down(c: R.Tensor((), "int32"), x: R.Tensor(("n", 3), "float32")) -> R.Tensor("float32", ndim=2):
    n = T.int64()
    cls = Module
    if c:
        d = R.call_tir(cls.decrement, (c,), R.Tensor((), "int32"))
        a = R.call_tir(cls.twice, (x,), R.Tensor((n, 3), "float32"))
        r = cls.down(d, a)
    else:
        r = x
    return r

@R.function
def main(c: R.Tensor((), "int32"), x: R.Tensor(("n", 3), "float32")):
    cls = Module
    y = cls.down(c, x)
    return (y, x)
""")
    model = same(mod, tmp_path, *((np.array(k, "int32"), X) for k in (0, 1, 5, 20)))
    assert model.shapes((np.array(1, "int32"), X), 2) == [(-1, -1), (2, 3)]


def test_loops_carry_and_stack(tmp_path: Path) -> None:
    mod = module("""
@R.function(private=True)
def step(k: R.Tensor((), "int64"), x: R.Tensor(("n", 3), "float32")):
    n = T.int64()
    cls = Module
    y = R.call_tir(cls.twice, (x,), R.Tensor((n, 3), "float32"))
    return (R.const(True, "bool"), y, x)
""")
    n = relax.Var("trips", relax.TensorStructInfo((), "int64"))
    x = relax.Var("x", relax.TensorStructInfo((2, 3), "float32"))
    builder = relax.BlockBuilder(mod)
    with builder.function("main", [n, x]):
        call = call_loop(
            GlobalVar("step"),
            [x],
            out_sinfo=[x.struct_info, relax.TensorStructInfo(dtype="float32", ndim=3)],
            trips=n,
            scans=[x.struct_info],  # type: ignore[list-item]
        )
        builder.emit_func_output(builder.emit(call))
    model = same(builder.get(), tmp_path, *((np.array(k), X) for k in (3, 0, 9, 1)))
    assert model.shapes((np.array(3), X), 2) == [(2, 3), (-1, -1, -1)]


def test_shapes_and_numbers_are_tensors_of_c(tmp_path: Path) -> None:
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), s: R.Shape(["n", "m"]), k: R.Prim("int64")):
        n, m = T.int64(), T.int64()
        return (R.shape([n * m, 2]), x, k, R.prim_value(n + m))
""")
    assert isinstance(mod, IRModule)
    model = exported(codegen.vm_build(mod, "llvm"), tmp_path)
    shape, x, k, total = model.call((X, (2, 7), np.array(5)), 4)
    assert shape == (14, 2)
    np.testing.assert_array_equal(x, X)
    assert (int(k), int(total)) == (5, 9)


def test_an_assertion_of_a_kernel_has_its_message(tmp_path: Path) -> None:
    mod = module("""
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    cls = Module
    a = R.call_tir(cls.checked, (x,), R.Tensor((2, 3), "float32"))
    return a
""")
    model = same(mod, tmp_path, (X,))
    with pytest.raises(AssertionError, match="values are small"):
        model.call((X + 1000,), 1)
    assert [model.message(k) for k in (0, -1, 5)] == ["success", "memory ran out", "unknown status"]


def test_calls_without_arrays_are_refused(tmp_path: Path) -> None:
    mod = module("""
@R.function
def main(x: R.Tensor(("n", 3), "float32")):
    return x
""")
    model = exported(codegen.vm_build(mod, "llvm"), tmp_path)
    array = (Tensor * 1)(tensor_of(X))
    for inputs, outputs in ((None, array), (array, None)):
        for name, more in (("main", (None,)), ("main_shapes", ())):
            status = getattr(model.library, f"{model.name}_{name}")(inputs, outputs, *more)
            assert model.message(status) == "inputs or outputs is NULL"


def test_names_of_libraries_are_names_of_c() -> None:
    paths = ("libmodel.so", "out/my-model.1.so", "lib.so", "lib3.so")
    assert [library_name(path) for path in paths] == ["model", "my_model", "lib", "model_3"]


def test_a_workspace_is_of_one_function(tmp_path: Path) -> None:
    mod = module("""
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    return x

@R.function
def other(x: R.Tensor((2, 3), "float32")):
    return (x, x)
""")
    model = exported(codegen.vm_build(mod, "llvm"), tmp_path)
    workspace = Workspace()
    model.call((X,), 1, workspace=workspace)
    with pytest.raises(AssertionError, match="the workspace belongs to another function"):
        model.call((X,), 2, "other", workspace)
    model.free(workspace)
    model.call((X,), 2, "other", workspace)
    model.free(workspace)


def test_two_libraries_in_one_process_have_their_own_weights(tmp_path: Path) -> None:
    mod = module("""
@R.function
def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((2, 3), "float32")):
    cls = Module
    a = R.call_tir(cls.add, (x, w), R.Tensor((2, 3), "float32"))
    return a
""")
    models = []
    for k in (1, 2):
        executable = codegen.vm_build(mod, "llvm", params={"w": X * k})
        models.append(exported(executable, tmp_path, f"model{k}"))
    for k, model in enumerate(models, 1):
        np.testing.assert_array_equal(model.call((X,), 1)[0], X * (1 + k))


def test_what_cannot_be_exported_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((8,), "float32")):
        a = R.sort(x)
        b = R.nonzero(a)
        c = R.call_dps_packed("tests.own", (a,), R.Tensor((8,), "float32"))
        return (b, c)
""")
    assert isinstance(mod, IRModule)
    monkeypatch.setattr(sys.modules["codegen.vm.build"], "vm_build", None)
    names = r"sort \(in main\), nonzero \(in main\), tests\.own \(in main\); compute them outside"
    with pytest.raises(CodegenError, match=names):
        codegen.export(mod, tmp_path / "model.so")
    with pytest.raises(LinkError, match=r"directory .* does not exist"):
        codegen.export(two_sizes(), tmp_path / "none" / "model.so")
    assert not list(tmp_path.iterdir())


def test_threads_call_at_the_same_time(tmp_path: Path) -> None:
    model = same(two_sizes(), tmp_path)

    def calls(n: int) -> None:
        workspace = Workspace()
        x, y, z = np.full((n, 3), n, "float32"), np.ones(2, "float32"), np.ones(1, "float32")
        for _ in range(100):
            np.testing.assert_array_equal(model.call((x, y, z), 4, workspace=workspace)[0], 4 * x)
        model.free(workspace)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(calls, range(500, 508))) == [None] * 8
