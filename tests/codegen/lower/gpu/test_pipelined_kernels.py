"""Software pipelines on a GPU: products in lock step, their faults, and asynchronous copies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import codegen
from codegen.devices.compile import compile_for_gpu
from codegen.devices.ptxas import assemble, ptxas_path
from codegen.lower.thread_axes import is_barrier
from codegen.target import Target
from schedule import Schedule
from tensorir import parse, te
from tensorir.function import PrimFunc
from tensorir.interp import InterpreterError, interpret
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import FloorMod, IntImm
from tensorir.nodes.ops import const, floormod
from tensorir.rewriting.visit import rewrite, statements, walk

N = 16


def product(
    stages: list[int],
    order: list[int],
    n: int = N,
    tile: int = 8,
    depth: int = 4,
    dtype: str = "float32",
    vector: int = 2,
) -> PrimFunc:
    """A matrix product whose tiles are staged in shared memory: two copies, then the sums."""
    a, b = (te.placeholder((n, n), dtype, name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    block = sch.get_block("C")
    result = sch.cache_write(block, 0, "local")
    operands = [sch.cache_read(block, x, "shared") for x in (0, 1)]
    i, j, k = sch.get_loops(block)
    threads = tile // 2
    (i0, i1, i2), (j0, j1, j2) = (sch.split(x, [None, threads, 2]) for x in (i, j))
    k0, k1 = sch.split(k, [None, depth])
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    axes = ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
    for loop, axis in zip((i0, j0, i1, j1), axes, strict=True):
        sch.bind(loop, axis)
    sch.reverse_compute_at(result, j1)
    for operand in operands:
        sch.compute_at(operand, k0)
        fused = sch.fuse(*sch.get_loops(operand)[-2:])
        _, y, x, lanes = sch.split(fused, [None, threads, threads, vector])
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
        sch.vectorize(lanes)
    sch.annotate(k0, "software_pipeline_stage", stages)
    sch.annotate(k0, "software_pipeline_order", order)
    sch.annotate(k0, "software_pipeline_async_stages", [0])
    sch.decompose_reduction(block, k0)
    return sch.mod.prim_func("main")


def run(func: PrimFunc) -> float:
    """The largest error of a product."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (2, N, N)).astype(np.float32)
    c = np.zeros((N, N), np.float32)
    interpret(func, a, b, c)
    return float(np.abs(c - a @ b).max())


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "cuda -arch=sm_70", "opencl"])
@pytest.mark.parametrize(
    ("stages", "order"),
    [([0, 0, 1], [0, 1, 2]), ([0, 0, 2], [0, 1, 2]), ([0, 1, 2], [1, 2, 0])],
)
def test_products(stages: list[int], order: list[int], target: str) -> None:
    lowered = codegen.lower(product(stages, order), target)
    assert run(lowered) == 0
    assert (s.ASYNC_WAIT in lowered.script()) == (target == "cuda -arch=sm_80")


def test_one_barrier_an_iteration_where_two_versions_alternate() -> None:
    lowered = codegen.lower(product([0, 0, 1], [0, 1, 2]), "opencl")
    (loop,) = (n for n in walk(lowered.body) if isinstance(n, s.For) and n.loop_var.name == "k_0")
    assert sum(map(is_barrier, statements(loop))) == 1


ROWS = """
@T.prim_func
def main(a: T.handle, B: T.Buffer((8,)), n: T.int32):
    T.func_attr({"tir.noalias": True})
    A = T.match_buffer(a, (n, 8))
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("I"):
                vt = T.axis.spatial(8, t)
                B[vt] = 0.0
        for i in T.serial(n, annotations={"software_pipeline_stage": [0, %d], "software_pipeline_order": %s, "software_pipeline_async_stages": [0]}):
            with T.block():
                S = T.alloc_buffer((8,), scope="shared")
                for t in T.thread_binding(8, thread="threadIdx.x"):
                    with T.block("S"):
                        vi, vt = T.axis.remap("SS", [i, t])
                        S[vt] = A[vi, vt]
                for t in T.thread_binding(8, thread="threadIdx.x"):
                    with T.block("B"):
                        vi, vt = T.axis.remap("RS", [i, t])
                        B[vt] = B[vt] * 2.0 + S[7 - vt]
"""


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
@pytest.mark.parametrize("late", [1, 3])
def test_an_unknown_number_of_iterations(late: int, order: list[int]) -> None:
    lowered = codegen.lower(parse(ROWS % (late, order)), "cuda")
    for n in range(6):
        a = np.random.default_rng(n).integers(-5, 5, (n, 8)).astype(np.float32)
        result, expected = np.ones(8, np.float32), np.zeros(8, np.float32)
        interpret(lowered, a, result, n)
        for row in a:
            expected = expected * 2 + row[::-1]
        np.testing.assert_array_equal(result, expected)


# ------------------------------------------------------------------------------------------- faults


def each_with(func: PrimFunc, kind: type, change: Any) -> Iterator[PrimFunc]:
    """The function with one node after another changed."""
    count = sum(change(n) is not None for n in walk(func.body) if isinstance(n, kind))
    for chosen in range(count):
        left = [chosen]

        def changed(node: Any, left: list[int] = left) -> Any:
            new = change(node)
            if new is None:
                return None
            left[0] -= 1
            return new if left[0] == -1 else None

        yield func.with_body(rewrite(func.body, {kind: changed}))


def without_wait(node: s.AttrStmt) -> s.Stmt | None:
    return node.body if node.attr_key == s.ASYNC_WAIT else None


def with_longer_wait(node: s.AttrStmt) -> s.Stmt | None:
    if node.attr_key != s.ASYNC_WAIT:
        return None
    return node.changed(value=const(int(node.value) + 1))  # type: ignore[call-overload]


def without_barrier(node: s.Evaluate) -> s.Stmt | None:
    return s.Evaluate(const(0)) if is_barrier(node) else None


@pytest.mark.parametrize("stages", [[0, 0, 1], [0, 0, 2]])
def test_faults_are_found(stages: list[int]) -> None:
    lowered = codegen.lower(product(stages, [0, 1, 2]), "cuda")
    found: Counter[str] = Counter()
    for kind, change in (
        (s.AttrStmt, without_wait),
        (s.AttrStmt, with_longer_wait),
        (s.Evaluate, without_barrier),
    ):
        for fault in each_with(lowered, kind, change):
            with pytest.raises(InterpreterError):
                run(fault)
            found[change.__name__] += 1
    assert found["without_wait"] == stages[2] + 1
    assert len(found) == 3


def test_too_few_versions_are_found() -> None:
    """All versions are one: the second number of each remainder."""

    def fewer(node: FloorMod) -> Any:
        is_version = isinstance(node.b, IntImm) and node.b.value == 3
        return floormod(node.a, const(2, node.dtype)) if is_version else None

    func = product([0, 0, 2], [0, 1, 2])
    after = codegen.lower(func, "cuda", until="place_barriers")
    assert run(after) == 0
    with pytest.raises(InterpreterError):
        run(after.with_body(rewrite(after.body, {FloorMod: fewer})))


def test_a_read_before_the_wait_says_what_is_missing() -> None:
    lowered = codegen.lower(product([0, 0, 1], [0, 1, 2]), "cuda")
    fault = next(each_with(lowered, s.AttrStmt, without_wait))
    with pytest.raises(
        InterpreterError, match=r"shared buffer A_shared.* is read before it is wri"
    ):
        run(fault)


# ----------------------------------------------------------------------------------- machine code


@pytest.mark.skipif(ptxas_path() is None, reason="needs the extra cuda")
@pytest.mark.parametrize(
    ("arch", "dtype", "vector", "nbytes"),
    [("sm_80", "float32", 4, 16), ("sm_90a", "float16", 4, 8), ("sm_80", "float32", 1, 4)],
)
def test_copies_are_assembled(arch: str, dtype: str, vector: int, nbytes: int) -> None:
    func = product([0, 0, 2], [0, 1, 2], 64, tile=16, depth=16, dtype=dtype, vector=vector)
    (code,) = (
        compile_for_gpu({"main": func}, Target(f"cuda -arch={arch}")).functions[0].kernels.values()
    )
    copies = re.findall(rb"cp\.async\.c[ag]\.shared\.global \[.*\], (\d+);", code)
    assert set(copies) == {str(nbytes).encode()}
    assert re.findall(rb"cp\.async\.wait_group\s+(\d)", code) == [b"4", b"2", b"0"]
    (resources,) = assemble(code, arch).values()
    assert resources.spill_bytes == 0
    assert resources.shared_bytes == 3 * 2 * 16 * 16 * np.dtype(dtype).itemsize


@pytest.mark.skipif(ptxas_path() is None, reason="needs the extra cuda")
def test_older_devices_copy_at_once() -> None:
    target = Target("cuda -arch=sm_75")
    func = product([0, 0, 2], [0, 1, 2], 64, tile=16, depth=16, vector=4)
    (code,) = compile_for_gpu({"main": func}, target).functions[0].kernels.values()
    assert b"cp.async" not in code
    assert assemble(code, "sm_75")
