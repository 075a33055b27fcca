"""The resources and the estimated time of GPU kernels: coalescing, bank conflicts, occupancy."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
import search as ms
from codegen import Target
from schedule import Schedule
from schedule.random_state import RandomState
from search.feature_extractor import GpuFeature
from search.feature_extractor.gpu_estimate import KernelEstimate, estimate
from search.feature_extractor.gpu_kernels import kernels_of
from search.runner.measure_candidate import MeasureCandidate
from search.search_strategy.trace_application import TraceApplication
from tensorir import parse, te, workloads
from tensorir.function import PrimFunc
from tensorir.nodes.stmt import Allocate
from tensorir.rewriting.visit import statements
from tests.recorded import recorded

GPU = Target("nvidia/nvidia-a100").gpu
assert GPU is not None

STRIDED_COPY = """
@T.prim_func
def main(A: T.Buffer((STRIDE * 4096,)), B: T.Buffer((4096,))):
    for i in T.thread_binding(16, thread="blockIdx.x"):
        for j in T.thread_binding(256, thread="threadIdx.x"):
            with T.block("B"):
                v = T.axis.spatial(4096, i * 256 + j)
                B[v] = A[v * STRIDE]
"""
SHARED_TILE = """
@T.prim_func
def main(A: T.Buffer((32, 32)), B: T.Buffer((32, 32))):
    S = T.alloc_buffer((32, 32), scope="shared")
    for b in T.thread_binding(1, thread="blockIdx.x"):
        for k in range(32):
            for j in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("S"):
                    vk, vj = T.axis.remap("SS", [k, j])
                    S[vk, vj] = A[vk, vj]
        for k in range(32):
            for j in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("B"):
                    vk, vj = T.axis.remap("SS", [k, j])
                    B[vk, vj] = S[vk, vj]
"""


def estimates(text: str) -> list[KernelEstimate]:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return [estimate(kernel, GPU) for kernel in kernels_of(func)]


@pytest.mark.parametrize(
    ("stride", "sectors"),
    [(1, (1 + 1) / 2), (2, (2 + 1) / 2), (8, (8 + 1) / 2), (32, (8 + 1) / 2)],
)
def test_coalescing(stride: int, sectors: float) -> None:
    """Per used byte: the load fetches 1, 2, 8, 8 (a sector has 8 floats), the store 1."""
    (found,) = estimates(STRIDED_COPY.replace("STRIDE", str(stride)))
    assert found.sectors == pytest.approx(sectors)
    assert (found.threads, found.blocks, found.shared_bytes) == (256, 16, 0)


@pytest.mark.parametrize(("read", "conflicts"), [("vk, vj", 1.0), ("vj, vk", (1 + 32) / 2)])
def test_bank_conflicts(read: str, conflicts: float) -> None:
    """A row of 32 words is in 32 banks, a column in one."""
    (found,) = estimates(SHARED_TILE.replace("= S[vk, vj]", f"= S[{read}]"))
    assert found.conflicts == conflicts
    assert found.shared_bytes == 32 * 32 * 4


def test_time_of_tiles_is_less_than_of_single_elements() -> None:
    """Operands in shared memory and registers: the same product with and without."""
    func = workloads.create("GMM", n=512, m=512, k=512)
    plain = Schedule(func)
    block = plain.get_block("Z")
    loops = plain.get_loops(block)
    plain.bind(plain.fuse(*loops[:2]), "blockIdx.x")
    plain.bind(plain.get_loops(block)[1], "threadIdx.x")
    tiled = ms.default_schedule(func, "nvidia/nvidia-a100")
    slow, fast = (sum(e.cycles for e in estimates(s.mod["main"].script())) for s in (plain, tiled))
    assert slow > 3 * fast


def test_what_does_not_fit_is_slow() -> None:
    fitting, too_large = (
        estimates(
            STRIDED_COPY.replace("STRIDE", "1").replace("256", threads).replace("16,", blocks)
        )
        for threads, blocks in (("256", "16,"), ("2048", "2,"))
    )
    assert fitting[0].denied == 0
    assert too_large[0].denied == pytest.approx(1)
    assert too_large[0].cycles > 1e5 * fitting[0].cycles


@pytest.mark.parametrize("row", recorded("gpu_spaces")[::3], ids=lambda row: row["workload"])
def test_a_draft_has_the_time_of_the_finished_program(row: dict[str, str]) -> None:
    """Copies are not bound yet, and inits are in their reductions."""
    drafts, finished = estimates(row["mid"]), estimates(row["after"])
    assert len(drafts) == len(finished)
    for draft, done in zip(drafts, finished, strict=True):
        assert draft.cycles == pytest.approx(done.cycles, rel=0.02)
        assert (draft.threads, draft.blocks) == (done.threads, done.blocks)
        assert (draft.shared_bytes, draft.registers) == (done.shared_bytes, done.registers)


def test_features_are_the_logarithms_of_the_estimate() -> None:
    sch = ms.default_schedule(workloads.create("SFM", m=128, n=128), "opencl")
    context = ms.TuneContext(sch.mod, target="opencl")
    (rows,) = GpuFeature().extract_from(context, [MeasureCandidate(sch, ())])
    found = dict(zip(GpuFeature.names, rows[0], strict=True))
    kernels = estimates(sch.mod["main"].script())
    assert found["kernels"] == pytest.approx(np.log2(len(kernels)))
    assert found["blocks"] == pytest.approx(np.log2(max(kernels, key=lambda k: k.cycles).blocks))


def test_vectors_along_a_stride_touch_a_sector_for_each_element() -> None:
    """Each thread loads 4 elements of a column: 128 sectors, for 128 elements of 4 bytes."""
    copy = """
@T.prim_func
def main(A: T.Buffer((128, 128)), B: T.Buffer((128, 128))):
    for i in T.thread_binding(128, thread="blockIdx.x"):
        for j in T.thread_binding(32, thread="threadIdx.x"):
            for k in T.vectorized(4):
                with T.block("B"):
                    vi = T.axis.spatial(128, i)
                    vj = T.axis.spatial(128, j * 4 + k)
                    B[vi, vj] = A[vj, vi]
"""
    (found,) = estimates(copy)
    assert found.sectors == pytest.approx((8 + 1) / 2)


def test_a_draft_on_tensor_cores_has_the_time_of_the_finished_program() -> None:
    """Before, intrinsics are annotations and copies unbound; after, views are in the kernel."""
    a, b = (te.placeholder((128, 128), "float16", name) for name in "AB")
    k = te.reduce_axis((0, 128), "k")
    c = te.compute(
        (128, 128),
        lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), k),
        "C",
    )
    target = Target("nvidia/nvidia-a100")
    context = ms.TuneContext(
        te.create_prim_func([a, b, c]),
        target=target,
        space_generator="post-order-apply",
        rand_state=1,
    )
    (space,) = context.points_of(context.generate_design_space()[:1])
    trace = space.trace_of(space.sample(RandomState(3)))
    draft, done = Schedule(context.mod), TraceApplication(context).apply(trace)
    trace.apply_to_schedule(draft, remove_postproc=True)
    assert done is not None
    assert "tensor_core" in done.mod.script()
    (before,), (after,) = (kernels_of(sch.mod.prim_func("main")) for sch in (draft, done))
    assert estimate(before, GPU) == estimate(after, GPU)
    found = [
        node
        for node in statements(codegen.lower(done.mod.prim_func("main"), target).body)
        if isinstance(node, Allocate)
        and node.buffer_var.type_annotation.storage_scope == "shared.dyn"
    ]
    sizes = [int(node.extents[0]) * node.dtype.nbytes for node in found]
    assert sum(sizes) == estimate(before, GPU).shared_bytes
