"""Parallel loops on an OpenMP runtime."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import codegen
import tensorir
from codegen.errors import AssertionFailedError
from codegen.runtime import openmp

ROWS = """
@T.prim_func
def f(A: T.Buffer((37, 100), "float32"), B: T.Buffer((37,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in T.parallel(37):
        data = T.allocate([1], "float32", "global")
        acc = T.Buffer((1,), "float32", data=data)
        acc[0] = T.float32(0)
        for j in range(100):
            acc[0] = acc[0] + A[i, j]
        B[i] = acc[0]
"""


@pytest.mark.parametrize(
    "target", ["llvm", "llvm -num-cores=1", "llvm -num-cores=2", "llvm -num-cores=64"]
)
def test_iterations_are_shared_and_all_run(target: str) -> None:
    a = np.random.default_rng(0).integers(0, 9, (37, 100)).astype(np.float32)
    b = np.zeros(37, np.float32)
    module = codegen.build(tensorir.parse(ROWS), target)
    module["f"](a, b)
    assert np.array_equal(b, a.sum(axis=1))
    uses_runtime = "GOMP_parallel" in module.inspect_llvm()
    assert uses_runtime == (target != "llvm -num-cores=1")


def test_runs_serially_without_a_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openmp, "runtime", lambda: None)
    a = np.ones((37, 100), np.float32)
    b = np.zeros(37, np.float32)
    codegen.build(tensorir.parse(ROWS))["f"](a, b)
    assert b.tolist() == [100.0] * 37


def test_a_runtime_is_found() -> None:
    assert openmp.runtime() is not None


def test_the_number_of_cores_bounds_the_threads() -> None:
    f = tensorir.parse(
        """
@T.prim_func
def f(A: T.Buffer((64,), "int32")):
    for i in T.parallel(64):
        A[i] = T.call_extern("int32", "omp_get_num_threads")
"""
    )
    codegen.register_extern("omp_get_num_threads", openmp.symbol_addresses()["omp_get_num_threads"])
    for cores in (2, 3):
        a = np.zeros(64, np.int32)
        codegen.build(f, f"llvm -num-cores={cores}")["f"](a)
        assert set(a.tolist()) == {cores}


def test_an_assertion_in_one_thread_is_raised() -> None:
    f = tensorir.parse(
        """
@T.prim_func
def f(A: T.Buffer((64,), "int32")):
    for i in T.parallel(64):
        assert A[i] >= 0, "negative element"
        A[i] = A[i] * 2
"""
    )
    module = codegen.build(f, "llvm -num-cores=2")
    a = np.arange(64, dtype=np.int32)
    module["f"](a)
    assert a[63] == 126
    a[50] = -1
    with pytest.raises(AssertionFailedError, match="negative element"):
        module["f"](a)


def test_calls_from_several_python_threads() -> None:
    module = codegen.build(tensorir.parse(ROWS), "llvm -num-cores=2")
    a = np.ones((37, 100), np.float32)
    outputs = [np.zeros(37, np.float32) for _ in range(4)]
    threads = [threading.Thread(target=module["f"], args=(a, b)) for b in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(b.tolist() == [100.0] * 37 for b in outputs)
