"""A product of matrices, alone and with what models put around it; and records of the former."""

from __future__ import annotations

import numpy as np

import codegen
from codegen import Target
from schedule import Schedule
from search.arg_info import ArgInfo
from search.database import Database, TuningRecord
from search.runner.arguments import random_arrays
from tensorir import T, relax
from tensorir.function import IRModule

TARGET = Target("llvm -num-cores=1")


@T.prim_func
def matmul(
    A: T.Buffer((16, 16), "float32"),
    B: T.Buffer((16, 16), "float32"),
    C: T.Buffer((16, 16), "float32"),
):
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func(private=True)
def product(
    x: T.Buffer((16, 16), "float32"),
    w: T.Buffer((16, 16), "float32"),
    y: T.Buffer((16, 16), "float32"),
):
    T.func_attr({"tir.noalias": True, "op_pattern": 4})
    for m, n, r in T.grid(16, 16, 16):
        with T.block("matrix_multiply"):
            vm, vn, vr = T.axis.remap("SSR", [m, n, r])
            with T.init():
                y[vm, vn] = T.float32(0)
            y[vm, vn] = y[vm, vn] + x[vm, vr] * w[vr, vn]


@T.prim_func
def adds_one(x: T.Buffer((16, 16), "float32"), y: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] + T.float32(1)


@T.prim_func
def dense(
    x: T.Buffer((16, 16), "float32"),
    w: T.Buffer((16, 16), "float32"),
    b: T.Buffer((16,), "float32"),
    out: T.Buffer((16, 16), "float32"),
):
    y = T.alloc_buffer((16, 16))
    z = T.alloc_buffer((16, 16))
    for i, j, k in T.grid(16, 16, 16):
        with T.block("y"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                y[vi, vj] = T.float32(0)
            y[vi, vj] = y[vi, vj] + x[vi, vk] * w[vk, vj]
    for i, j in T.grid(16, 16):
        with T.block("bias"):
            vi, vj = T.axis.remap("SS", [i, j])
            z[vi, vj] = y[vi, vj] + b[vj]
    for i, j in T.grid(16, 16):
        with T.block("relu"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.max(z[vi, vj], T.float32(0))


def graph_function() -> relax.Function:
    """Return a graph function that returns what it is given."""
    x = relax.Var("x", relax.TensorStructInfo((16, 16), "float32"))
    return relax.Function([x], relax.SeqExpr([], x))


def tiled(cached: bool) -> Schedule:
    """Schedule `matmul` as the search does, with or without a cache of the tile of results."""
    sch = Schedule(IRModule({"main": matmul}))
    block, root = sch.get_block("C"), sch.get_block("root")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, n=2, decision=[4, 4]))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, n=2, decision=[2, 8]))
    k0, k1 = sch.split(k, sch.sample_perfect_tile(k, n=2, decision=[4, 4]))
    sch.reorder(i0, j0, k0, k1, i1, j1)
    sch.get_consumers(block)
    if cached:
        copy = sch.cache_write(block, 0, "global")
        sch.reverse_compute_at(copy, j0, preserve_unit_loops=True)
    sch.annotate(root, "meta_schedule.vectorize", 64)
    sch.enter_postproc()
    sch.vectorize(j1)
    sch.decompose_reduction(block, k0)
    return sch


def commit(database: Database, sch: Schedule, mod: IRModule, seconds: float = 1e-6) -> TuningRecord:
    """Commit a schedule of a program as a record."""
    workload = database.commit_workload(mod)
    info = ArgInfo.from_entry_func(sch.mod)
    record = TuningRecord(sch.trace, workload, [seconds], TARGET, info)
    database.commit_tuning_record(record)
    return record


def assert_same_results(scheduled: IRModule, program: IRModule) -> None:
    """Compare what the functions of two modules compute from the same random arrays."""
    for name, func in program.prim_funcs().items():
        results = []
        for version in (scheduled.prim_funcs()[name], func):
            data = codegen.compile_object(version.with_attr("global_symbol", "main"), TARGET)
            arrays = random_arrays(ArgInfo.from_prim_func(func), seed=0)
            codegen.Module.from_object(data)(*arrays)
            results.append(arrays)
        for got, wanted in zip(*results, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
