"""Points of the design space with tensor cores: their traces, results, registers, and a search."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codegen
import search as ms
from codegen.devices.compile import compile_for_gpu
from codegen.devices.ptxas import assemble, ptxas_path
from codegen.lower.hoist_allocations import constant_bytes
from schedule.random_state import RandomState
from search.builder import Builder, BuilderInput, BuilderResult
from search.errors import TuningError
from search.feature_extractor.gpu_estimate import ROWS_AT_ONCE, estimate, row_conflicts
from search.feature_extractor.gpu_kernels import kernels_of
from search.feature_extractor.gpu_shared_memory import shared_bytes
from search.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from search.schedule_rule import MultiLevelTilingTensorCore, ReuseType
from search.schedule_rule.multi_level_tiling_tensor_core import intrin_group, row_stride
from search.search_strategy.trace_application import TraceApplication
from search.space_generator.gpu_space import FittingSpace
from tensorir import te
from tensorir.function import PrimFunc
from tensorir.interp import interpret
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes.dtype import DataType
from tensorir.nodes.ops import const, max_
from tensorir.nodes.stmt import Allocate
from tensorir.rewriting.visit import statements

A100 = codegen.Target("cuda -arch=sm_80")


def relu(value: Any) -> Any:
    return max_(value, const(0, value.dtype))


def product(
    m: int, n: int, k: int, dtype: str = "float16", sums: str = "float32", *, epilogue: bool = False
) -> PrimFunc:
    """Return A * B; with an epilogue, relu(A * B + bias)."""
    a, b = te.placeholder((m, k), dtype, "A"), te.placeholder((k, n), dtype, "B")
    axis = te.reduce_axis((0, k), "k")
    c = te.compute(
        (m, n), lambda i, j: te.sum(a[i, axis].astype(sums) * b[axis, j].astype(sums), axis), "C"
    )
    if not epilogue:
        return te.create_prim_func([a, b, c])
    bias = te.placeholder((n,), sums, "bias")
    d = te.compute((m, n), lambda i, j: relu(c[i, j] + bias[j]), "D")
    return te.create_prim_func([a, b, bias, d])


def convolution() -> PrimFunc:
    """Return a convolution in NHWC with padded borders and a stride."""
    x, w = (
        te.placeholder((1, 7, 7, 16), "float16", "X"),
        te.placeholder((3, 3, 16, 16), "float16", "W"),
    )
    padded = te.compute(
        (1, 9, 9, 16),
        lambda n, h, v, c: te.if_then_else(
            te.all(h >= 1, h < 8, v >= 1, v < 8), x[n, h - 1, v - 1, c], const(0, "float16")
        ),
        "P",
    )
    r, s, c = (te.reduce_axis((0, n), name) for n, name in ((3, "r"), (3, "s"), (16, "c")))
    result = te.compute(
        (1, 4, 4, 16),
        lambda n, h, v, f: te.sum(
            padded[n, h * 2 + r, v * 2 + s, c].astype("float32") * w[r, s, c, f].astype("float32"),
            [r, s, c],
        ),
        "Y",
    )
    return te.create_prim_func([x, w, result])


def task(func: PrimFunc, target: codegen.Target | str = A100) -> ms.TuneContext:
    return ms.TuneContext(func, target=target, space_generator="post-order-apply", rand_state=1)


def point(context: ms.TuneContext, number: int) -> PrimFunc:
    """Return a scheduled program from a design space."""
    designs = context.generate_design_space()
    (space,) = context.points_of(designs[number : number + 1])
    assert isinstance(space, FittingSpace)
    sch = TraceApplication(context).apply(space.trace_of(space.sample(RandomState(3))))
    assert sch is not None
    return sch.mod.prim_func("main")


TRACE_OF_TVM = """
GetBlock GetBlock Annotate ReIndex ReIndex ReIndex TransformLayout TransformLayout TransformLayout
TransformBlockLayout TransformBlockLayout TransformBlockLayout TransformBlockLayout GetLoops Split
Split Split GetLoops Reorder Blockize Annotate Annotate Annotate GetLoops SamplePerfectTile Split
SamplePerfectTile Split SamplePerfectTile Split Reorder Fuse Bind Fuse Bind Fuse Bind Annotate
Annotate TransformLayout CacheWrite ReverseComputeAt CacheWrite GetLoops Reorder ComputeAt
GetLoops Fuse Bind ReverseComputeInline GetLoops Blockize Annotate GetLoops Fuse SampleCategorical
Annotate CacheRead ComputeAt GetLoops Fuse SampleCategorical Annotate CacheRead ComputeAt GetLoops
Fuse SampleCategorical Annotate CacheRead ComputeAt GetLoops Split Split GetLoops Reorder Blockize
Annotate CacheRead ComputeAt GetLoops Split Split GetLoops Reorder Blockize Annotate GetProducers
ComputeInline StorageAlign GetProducers ComputeInline StorageAlign SampleCategorical Annotate
"""


def test_the_trace_is_that_of_the_reference() -> None:
    """TVM 0.27 makes these instructions of the same program for its first group of intrinsics."""
    context = task(product(128, 128, 128))
    traces = [sch.trace for sch in context.generate_design_space()]
    assert len(traces) == 2
    for trace in traces:
        assert [inst.kind.name for inst in trace.insts] == TRACE_OF_TVM.split()


@pytest.mark.parametrize(
    ("func", "number", "tolerance"),
    [
        (product(32, 16, 16, epilogue=True), 1, 3e-3),
        (product(20, 16, 24, "int8", "int32"), 0, 0),
        (convolution(), 0, 3e-3),
    ],
    ids=["epilogue", "padding", "convolution"],
)
def test_results_in_lock_step(func: PrimFunc, number: int, tolerance: float) -> None:
    rng = np.random.default_rng(0)
    buffers = [func.buffer_map[param] for param in func.params]
    shapes = [[int(n) for n in buffer.shape] for buffer in buffers]
    given = [
        rng.integers(-8, 8, shape).astype(str(buffer.dtype))
        for shape, buffer in zip(shapes, buffers, strict=True)
    ]
    expected = [array.copy() for array in given]
    interpret(func, *expected)
    lowered = codegen.lower(point(task(func), number), A100)
    assert "wmma.mma" in lowered.script()
    found = [*(array.copy() for array in given[:-1]), np.zeros_like(given[-1])]
    interpret(lowered, *found)
    np.testing.assert_allclose(found[-1], expected[-1], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("func", "number", "arch"),
    [
        (product(512, 512, 512, "float16", "float16"), 1, "sm_70"),
        (product(512, 512, 512, epilogue=True), 0, "sm_90"),
        (product(512, 512, 512, "bfloat16"), 0, "sm_80"),
        (product(512, 512, 512, "int8", "int32"), 1, "sm_75"),
    ],
    ids=["float16", "epilogue", "bfloat16", "int8"],
)
def test_fragments_are_in_registers(func: PrimFunc, number: int, arch: str) -> None:
    target = codegen.Target(f"cuda -arch={arch}")
    scheduled = point(task(func, target), number)
    (function,) = compile_for_gpu({"main": scheduled}, target).functions
    ((name, ptx),) = function.kernels.items()
    assert "wmma.mma.sync" in ptx.decode()
    if ptxas_path() is not None:
        resources = assemble(ptx, arch)[name]
        assert (resources.spill_bytes, resources.stack_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("target", "dtype"),
    [("cuda -arch=sm_75", "bfloat16"), ("cuda -arch=sm_70", "int8"), ("cuda", "float32")],
)
def test_other_dtypes_have_the_ordinary_space(target: str, dtype: str) -> None:
    sums = "int32" if dtype == "int8" else "float32"
    plain, chosen = (
        ms.TuneContext(
            product(64, 64, 64, dtype, sums), target=target, space_generator=kind, rand_state=1
        ).generate_design_space()
        for kind in ("cuda", "cuda-tensorcore")
    )
    assert [str(sch.trace) for sch in plain] == [str(sch.trace) for sch in chosen]


def test_tensor_cores_are_expected_to_be_faster() -> None:
    """Both multiply as much; tensor cores do it 8 times as fast, and read half the bytes."""
    assert A100.gpu is not None
    cycles = {}
    for dtype in ("float16", "float32"):
        (kernel,) = kernels_of(point(task(product(1024, 1024, 1024, dtype)), 0))
        cycles[dtype] = estimate(kernel, A100.gpu).cycles
    assert cycles["float16"] < cycles["float32"] / 4


class Unbuilt(Builder):
    def build(self, build_inputs: list[BuilderInput]) -> list[BuilderResult]:
        for one in build_inputs:
            codegen.build(one.mod, one.target)
        return [BuilderResult("nowhere") for _ in build_inputs]


class Unrun(Runner):
    def run(self, runner_inputs: list[RunnerInput]) -> list[RunnerFuture]:
        return [RunnerFuture.ready(RunnerResult((1e-3,))) for _ in runner_inputs]


def test_a_search_compiles_tensorized_candidates(tmp_path: Path) -> None:
    best = ms.tune_tir(
        product(128, 128, 128, epilogue=True),
        A100,
        ms.TuneConfig(2, num_trials_per_iter=2, strategy="replay-trace", num_confirmed=0),
        tmp_path,
        builder=Unbuilt(),
        runner=Unrun(),
        seed=1,
    )
    assert best is not None
    assert "wmma.mma" in best.mod.script()
    assert len(ms.database.JSONDatabase(work_dir=str(tmp_path))) == 2


READ, WRITE = ReuseType("must", (4,), "shared.dyn"), ReuseType("must", (2,), "shared.dyn")


@pytest.mark.parametrize(
    ("groups", "structure", "read", "message"),
    [
        ([{"compute": "wmma_sync_16x16x16_f16f16f32"}], "SSSRRSRS", READ, "keys init, load_a"),
        ([], "SSSRRSRS", None, 'reuse_read and reuse_write are "must"'),
        ([], "SSSRS", READ, "two R or more"),
        (
            [intrin_group("float16", "float32") | {"compute": "wmma_fill_16x16x16_f32"}],
            "SSSRRSRS",
            READ,
            "wmma_fill_16x16x16_f32 does not multiply matrices",
        ),
    ],
)
def test_invalid_arguments_are_refused(
    groups: Sequence[dict[str, str]], structure: str, read: ReuseType | None, message: str
) -> None:
    with pytest.raises(TuningError, match=message):
        MultiLevelTilingTensorCore(
            groups, structure, ["blockIdx.y", "blockIdx.x"], reuse_read=read, reuse_write=WRITE
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_rows_of_operands_have_no_bank_conflicts(dtype: str) -> None:
    kind = DataType(dtype)
    for length in range(16, 272, 16):
        rows = np.arange(ROWS_AT_ONCE) * row_stride(length, kind) * kind.nbytes
        assert row_conflicts(rows) == 1
    assert row_conflicts(np.arange(ROWS_AT_ONCE) * 32) == 2  # the nearest multiples of a fragment


def test_results_have_the_bytes_of_operands() -> None:
    """8 warps multiply tiles of 128 x 128: 38 KiB of operands and results, 32 KiB at a time."""
    context = task(product(256, 256, 128))
    (space,) = context.points_of(context.generate_design_space()[:1])
    tiles = ((2, 1, 4, 1, 2), (2, 1, 2, 1, 4), (4, 1, 2))
    decisions = (*tiles, *space.sample(RandomState(3))[3:])
    assert space.admitted(decisions)
    sch = TraceApplication(context).apply(space.trace_of(decisions))
    assert sch is not None
    (kernel,) = kernels_of(sch.mod.prim_func("main"))
    assert shared_bytes(kernel) == 32 << 10
    lowered = codegen.lower(sch.mod["main"], A100, until="hoist_shared", verify=False)
    allocations = [x for x in statements(lowered.body) if isinstance(x, Allocate)]
    (arena,) = [x for x in allocations if memory_of(x.buffer_var) == "shared"]
    assert constant_bytes(arena) == 32 << 10
