"""Schedules that need more than a GPU has are rejected, with the limit as the reason."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

import codegen
import search as ms
from codegen import Target
from codegen.lower import LoweringError
from codegen.lower.hoist_allocations import constant_bytes
from codegen.lower.thread_axes import padded_bytes
from schedule import Schedule
from search.feature_extractor.gpu_kernels import kernels_of
from search.feature_extractor.gpu_shared_memory import shared_bytes
from search.postproc import VerifyGPUCode
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes.stmt import Allocate
from tensorir.rewriting.visit import statements
from tests.recorded import recorded
from tests.search.schedule_rule.programs import program

COPY = """
@T.prim_func
def main(A: T.Buffer((4, 64)), B: T.Buffer((4, 64))):
    S = T.alloc_buffer((4, 64), scope="shared")
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for j in T.thread_binding(64, thread="threadIdx.x"):
            with T.block("S"):
                vi, vj = T.axis.remap("SS", [i, j])
                S[vi, vj] = A[vi, vj]
        for j in T.thread_binding(64, thread="threadIdx.x"):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = S[vi, vj]
"""
LOCAL = """
@T.prim_func
def main(A: T.Buffer((64,)), B: T.Buffer((64,))):
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for j in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("B"):
                v = T.axis.spatial(64, i * 16 + j)
                L = T.alloc_buffer((262144,), scope="local")
                for k in range(262144):
                    with T.block("L"):
                        vk = T.axis.spatial(262144, k)
                        L[vk] = A[v]
                with T.block("last"):
                    B[v] = L[262143 - v]
"""
VECTOR = """
@T.prim_func
def main(A: T.Buffer((4, 64)), B: T.Buffer((4, 64))):
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for j_0 in T.thread_binding(8, thread="threadIdx.x"):
            for j_1 in T.vectorized(8):
                with T.block("B"):
                    vi = T.axis.spatial(4, i)
                    vj = T.axis.spatial(64, j_0 * 8 + j_1)
                    B[vi, vj] = A[vi, vj]
"""


@pytest.mark.parametrize(
    ("text", "target", "reason"),
    [
        (COPY, "cuda", ""),
        (COPY, "llvm -num-cores=1", ""),
        (
            COPY,
            "opencl -max_threads_per_block=32",
            "the nest of 'i' has 64 threads per block; the target allows 32",
        ),
        (
            COPY,
            "opencl -max_shared_memory_per_block=128",
            "the nest of 'i' has 256 bytes of shared memory; the target allows 128",
        ),
        (
            LOCAL,
            "cuda",
            "the nest of 'i' has 1048576 bytes of local memory per thread; the target allows "
            "524288",
        ),
        (VECTOR, "cuda", "the nest of 'i' has 32 bytes in a vector; the target allows 16"),
        (
            COPY.replace("4, 64", "65536, 64").replace("(4,", "(65536,").replace('.x"', '.y"', 1),
            "cuda",
            "the nest of 'i' has 65536 blocks in blockIdx.y; the target allows 65535",
        ),
        ("chain", "cuda", "the nest of 'i' is not bound to thread blocks and threads"),
        (
            VECTOR.replace(
                "B[vi, vj] =",
                'T.block_attr({"meta_schedule.thread_extent_low_inclusive": 32})\n'
                "                    B[vi, vj] =",
            ).replace("vectorized", "unroll"),
            "cuda",
            "block 'B' has 8 threads; it requires 32 to 1073741824",
        ),
    ],
)
def test_limits(text: str, target: str, reason: str) -> None:
    sch = Schedule(program(text))
    postproc = VerifyGPUCode()
    postproc._initialize_with_tune_context(ms.TuneContext(sch.mod, target=target))
    assert postproc.reason(sch) == reason
    assert postproc.apply(sch) == (not reason)


def test_a_guarded_copy_takes_the_memory_that_is_read() -> None:
    """The copy of 6 elements has a guard: 2 steps of 4 threads reach beyond the buffer's part."""
    text = """
@T.prim_func
def main(A: T.Buffer((24,)), B: T.Buffer((24,))):
    S = T.alloc_buffer((24,), scope="shared")
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for a in range(2):
            for b in T.thread_binding(4, thread="threadIdx.x"):
                with T.block("S"):
                    v = T.axis.spatial(24, i * 6 + (a * 4 + b))
                    T.where(a * 4 + b < 6)
                    S[v] = A[v]
        for j in T.thread_binding(6, thread="threadIdx.x"):
            with T.block("B"):
                v = T.axis.spatial(24, i * 6 + j)
                B[v] = S[v]
"""
    sch = Schedule(program(text))
    for limit, accepted in ((32, True), (31, False)):  # shared memory is given in 32 bytes
        postproc = VerifyGPUCode()
        target = f"opencl -max_shared_memory_per_block={limit}"
        postproc._initialize_with_tune_context(ms.TuneContext(sch.mod, target=target))
        assert postproc.apply(sch) is accepted


SHARING = """
@T.prim_func
def main(A: T.Buffer((4, 512)), B: T.Buffer((4, 512))):
    S = T.alloc_buffer((4, 512), scope="shared")
    R = T.alloc_buffer((4, 512), scope="shared")
    Q = T.alloc_buffer((4, 512), scope="shared")
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for n in range(1):
            for j in T.thread_binding(512, thread="threadIdx.x"):
                with T.block("S"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    S[vi, vj] = A[vi, vj]
            for j in T.thread_binding(512, thread="threadIdx.x"):
                with T.block("R"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    R[vi, vj] = S[vi, 511 - vj]
            for j in T.thread_binding(512, thread="threadIdx.x"):
                with T.block("Q"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    Q[vi, vj] = R[vi, 511 - vj] + 1.0
            for j in T.thread_binding(512, thread="threadIdx.x"):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = Q[vi, 511 - vj]
"""


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        (SHARING, 4096),  # Q has the bytes of S
        (SHARING.replace("512", "128").replace("511", "127"), 1536),  # too small for a barrier
        (SHARING.replace("Q[vi, 511 - vj]", "Q[vi, 511 - vj] * S[vi, vj]"), 6144),
        (SHARING.replace("Q = T.alloc_buffer((4, 512),", 'Q = T.alloc_buffer((4, 512), "int32",')
            .replace("R[vi, 511 - vj] + 1.0", 'T.Cast("int32", R[vi, 511 - vj])')
            .replace("= Q[vi, 511 - vj]", '= T.Cast("float32", Q[vi, 511 - vj])'), 4096),  # of any dtype
    ],
)  # fmt: skip
def test_buffers_that_live_one_after_the_other_count_once(text: str, nbytes: int) -> None:
    """The limit of the postprocessor is that of lowering."""
    sch = Schedule(program(text))
    for limit, accepted in ((nbytes, True), (nbytes - 1, False)):
        target = Target(f"cuda -max_shared_memory_per_block={limit}")
        postproc = VerifyGPUCode()
        postproc._initialize_with_tune_context(ms.TuneContext(sch.mod, target=target))
        assert postproc.apply(sch) is accepted
        with nullcontext() if accepted else pytest.raises(LoweringError, match="shared memory"):
            codegen.lower(sch.mod["main"], target)


@pytest.mark.parametrize("row", recorded("gpu_spaces")[1::4], ids=lambda row: row["workload"])
def test_recorded_programs_take_the_memory_that_lowering_allocates(row: dict[str, str]) -> None:
    """Pipelines have several versions of each tile."""
    func = parse(row["after"])
    assert isinstance(func, PrimFunc)
    kernel = codegen.lower(func, row["target"], until="hoist_shared", verify=False)
    allocated = [
        padded_bytes(constant_bytes(node) or 0)
        for node in statements(kernel.body)
        if isinstance(node, Allocate) and memory_of(node.buffer_var) == "shared"
    ]
    assert sum(map(shared_bytes, kernels_of(func))) == sum(allocated)
