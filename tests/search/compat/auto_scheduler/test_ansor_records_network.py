"""The tasks of a network, and a network that is built with the best of their log."""

import logging

import numpy as np
import pytest

import codegen
import tensorir
from codegen import Target
from search import TuningError
from search.compat.auto_scheduler import ApplyHistoryBest, extract_tasks
from tests.search.compat.auto_scheduler.workloads import measured, write

CPU = Target("llvm -num-cores=4")

NETWORK = tensorir.parse(
    """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def dense(A: T.Buffer((16, 16)), W: T.Buffer((16, 16)), C: T.Buffer((16, 16))):
        for i, j, k in T.grid(16, 16, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]

    @T.prim_func(private=True)
    def same(X: T.Buffer((16, 16)), Y: T.Buffer((16, 16)), Z: T.Buffer((16, 16))):
        for i, j, k in T.grid(16, 16, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Z[vi, vj] = T.float32(0)
                Z[vi, vj] = Z[vi, vj] + X[vi, vk] * Y[vk, vj]

    @T.prim_func(private=True)
    def relu(A: T.Buffer((16, 16)), C: T.Buffer((16, 16))):
        for i, j in T.grid(16, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(A[vi, vj], T.float32(0))

    @T.prim_func(private=True)
    def total(a: T.handle, C: T.Buffer((1,))):
        n = T.int64()
        A = T.match_buffer(a, (n,))
        for i in range(n):
            with T.block("C"):
                vi = T.axis.reduce(n, i)
                with T.init():
                    C[0] = T.float32(0)
                C[0] = C[0] + A[vi]

    @R.function
    def main(x: R.Tensor((16, 16), "float32"), w: R.Tensor((16, 16), "float32")):
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.dense, (x, w), out_sinfo=R.Tensor((16, 16), "float32"))
            b = R.call_tir(cls.relu, (a,), out_sinfo=R.Tensor((16, 16), "float32"))
            c = R.call_tir(cls.same, (b, w), out_sinfo=R.Tensor((16, 16), "float32"))
            d = R.call_tir(cls.dense, (c, w), out_sinfo=R.Tensor((16, 16), "float32"))
            R.output(d)
        return d
"""
)


def test_tasks_are_those_of_a_module():
    with pytest.raises(TuningError, match="tasks are extracted from an IRModule, got Function"):
        extract_tasks(NETWORK["main"], CPU)


def test_simple_tasks_are_taken_on_request():
    tasks, weights = extract_tasks(NETWORK, CPU, include_simple_tasks=True)
    assert dict(zip(map(str, tasks), weights, strict=True)) == {"dense": 3, "relu": 1}


def test_a_network_is_built_with_the_best_of_a_log(tmp_path, caplog):
    (task,), _ = extract_tasks(NETWORK, CPU)
    log = write(tmp_path / "log.json", measured(task, "C", 4, 0.1))
    with caplog.at_level(logging.DEBUG), ApplyHistoryBest(log), CPU:
        tuned = codegen.vm_build(NETWORK, CPU)
    assert 'Function "dense": the schedule recorded for it, with 1e+05 us' in caplog.text
    assert 'Function "same": the schedule recorded for it' in caplog.text
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((16, 16)).astype("float32") for _ in range(2))
    want = np.maximum(x @ w, 0) @ w @ w
    found = codegen.VirtualMachine(tuned)["main"](x, w)
    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-4, atol=1e-3)
