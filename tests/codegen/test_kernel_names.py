"""A function of a program may have any name: it is not the C function of that name."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from graph_modules import module_of

import codegen
from codegen.errors import CodegenError, LinkError
from tensorir import parse

NAMES = ["memcpy", "memset", "floor", "trunc", "fmod", "fmodf", "free", "aligned_alloc", "malloc",
         "GOMP_parallel", "omp_get_num_threads", "main", "a.b", "a b", "llvm.sqrt.f32", "é",
         "parallel1.body", "tensorir.kernel.f", "__tensorir_constants"]  # fmt: skip

ALL_OF_C = """
@T.prim_func
def f(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32"), n: T.int32):
    T.func_attr({"global_symbol": "NAME", "tir.noalias": True})
    S = T.alloc_buffer((n,), "float32")
    Z = T.allocate_const([1.5, 2.5], "float32", [2])
    C = T.Buffer((2,), "float32", data=Z)
    for i in T.parallel(n):
        S[i] = T.fmod(T.floor(A[i]), T.float32(3)) + T.trunc(A[i]) + T.atan2(A[i], C[i % 2])
    T.evaluate(T.call_extern("handle", "memcpy", B.data, S.data, T.Cast("int64", n) * T.int64(4)))
"""


def expected(a: np.ndarray) -> np.ndarray:
    constants = np.where(np.arange(len(a)) % 2, 2.5, 1.5)
    return np.fmod(np.floor(a), 3) + np.trunc(a) + np.arctan2(a, constants)


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_of_any_name_calls_what_is_called_so_in_c(name: str) -> None:
    module = codegen.build(parse(ALL_OF_C.replace("NAME", name)))
    a, b = np.linspace(-9, 9, 4096, dtype="float32"), np.zeros(4096, "float32")
    module.get_function(name)(a, b, 4096)
    np.testing.assert_allclose(b, expected(a), rtol=1e-5)
    again = codegen.Module.from_object(module.object_code)
    again[name](a, np.zeros(4096, "float32"), 4096)
    assert list(again) == [name]


@pytest.mark.parametrize("name", NAMES)
def test_a_library_is_called_by_the_names_of_the_program(name: str, tmp_path: Path) -> None:
    module = codegen.build(parse(ALL_OF_C.replace("NAME", name)))
    if name.isascii():
        assert f"tensorir.kernel.{name}" in module.inspect_llvm()
    module.export_library(tmp_path / "lib.so")
    loaded = codegen.load_module(tmp_path / "lib.so")
    a, b = np.linspace(-9, 9, 4096, dtype="float32"), np.zeros(4096, "float32")
    loaded.get_function(name)(a, b, 4096)
    np.testing.assert_allclose(b, expected(a), rtol=1e-5)


def test_a_library_does_not_define_functions_of_c(tmp_path: Path) -> None:
    """A program that links it goes on to call those of the C library."""
    functions = {
        name: parse(COPY.replace("NAME", name)) for name in ("free", "floor", "double", "copy")
    }
    module = codegen.build(functions)
    module.export_library(tmp_path / "lib.so")
    library = ctypes.CDLL(str(tmp_path / "lib.so"))
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", tmp_path / "lib.so"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert {"copy", "tensorir.kernel.free"} <= set(symbols)
    assert not {"free", "floor", "double"} & set(symbols)
    a, b = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    assert library.copy(ctypes.c_void_p(a.ctypes.data), ctypes.c_void_p(b.ctypes.data)) == 0
    assert b.tolist() == a.tolist()
    header = module.c_header()
    assert "int32_t copy(const float* A" in header
    assert "free" not in header
    (tmp_path / "lib.h").write_text(header)
    compiler = shutil.which("cc")
    assert compiler is not None
    subprocess.run([compiler, "-Wall", "-Werror", "-fsyntax-only", tmp_path / "lib.h"], check=True)


COPY = """
@T.prim_func
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "NAME"})
    for i in range(4):
        B[i] = A[i]
"""


def test_functions_of_one_name_for_c_cannot_be_in_a_library(tmp_path: Path) -> None:
    module = codegen.build({name: parse(COPY.replace("NAME", "copy")) for name in ("one", "two")})
    a, b = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    module["two"](a, b)
    assert b.tolist() == a.tolist()
    with pytest.raises(
        LinkError, match=r"'one' and 'two' have the same global_symbol, copy, .*another"
    ):
        module.export_library(tmp_path / "lib.so")


def test_an_extern_is_the_c_function_beside_a_kernel_of_its_name() -> None:
    mod = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def abs(A: T.Buffer((1,), "int32")):
        A[0] = 77

    @T.prim_func
    def main(A: T.Buffer((1,), "int32"), B: T.Buffer((1,), "int32")):
        T.func_attr({"global_symbol": "main"})
        B[0] = T.call_extern("int32", "abs", A[0])
""")
    a, b = np.array([-5], "int32"), np.zeros(1, "int32")
    codegen.build(mod)["main"](a, b)
    assert (a.tolist(), b.tolist()) == ([-5], [5])


@pytest.mark.parametrize("name", ["tensorir.kernel.f", "a b", ""])
def test_an_extern_has_a_name_of_c(name: str) -> None:
    with pytest.raises(CodegenError, match=r"takes the name of a C function, which '.*' cannot be"):
        codegen.build(
            parse(f"""
@T.prim_func
def f(A: T.Buffer((1,), "int32")):
    A[0] = T.call_extern("int32", "{name}")
""")
        )


def test_a_model_has_kernels_and_functions_of_any_name(tmp_path: Path) -> None:
    mod = module_of("""
    @T.prim_func(private=True)
    def memcpy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i] * T.float32(3)

    @R.function
    def free(x: R.Tensor((4,), "float32")):
        cls = Module
        y = R.call_tir(cls.memcpy, (x,), out_sinfo=R.Tensor((4,), "float32"))
        return (x, y)
    """)
    executable = codegen.vm_build(mod, "llvm")
    x = np.arange(4, dtype="float32")
    copy, thrice = codegen.VirtualMachine(executable)["free"](x)
    assert copy.tolist() == x.tolist()
    assert thrice.tolist() == (x * 3).tolist()
    executable.export_library(tmp_path / "model.so")
    loaded = codegen.VirtualMachine(codegen.load_module(tmp_path / "model.so"))
    assert loaded["free"](x)[1].tolist() == (x * 3).tolist()
