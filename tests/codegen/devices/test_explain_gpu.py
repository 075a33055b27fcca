"""`codegen.explain` for GPUs: what a block takes, and how warps access memory."""

from __future__ import annotations

import pytest
from devices.ladder import CUDA, device_program

from codegen.devices.ptxas import ptxas_path
from codegen.explanation.gpu import explain_lowered
from codegen.target.gpu import Multiprocessor

ACCESSES = """
def main(A: T.Buffer((4096,), "float32"), I: T.Buffer((64,), "int32"), C: T.Buffer((4096,), "float32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        tile_data = T.allocate([1024], "float32", "shared")
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            tile = T.Buffer((1024,), data=tile_data, scope="shared")
            for k in range(4):
                tile[T.Ramp(k * 128 + tx * 4, 1, 4)] = A[T.Ramp(bx * 2048 + k * 128 + tx * 4, 1, 4)]
            T.tvm_storage_sync("shared")
            C[tx * 32] = tile[tx * 32]
            C[bx * 32 + tx] = tile[tx * 2] + A[0]
            C[tx] = A[I[tx]] + tile[T.Cast("int32", tx) % 2]
"""


def test_accesses_of_warps():
    explanation = explain_lowered({"main": device_program(ACCESSES)}, CUDA)
    lines = [line.split(None, 7) for line in str(explanation).splitlines() if "main_kernel" in line]
    assert [(a[1] + " " + a[2], a[4], a[5], a[6], a[7]) for a in lines[1:]] == [
        ("store tile", "shared", "4", "4", "no conflicts"),
        ("load A", "global", "4", "4", "coalesced"),
        ("store C", "global", "1", "1", "12% of the bytes used"),
        ("load tile", "shared", "1", "1", "32 conflicting"),
        ("store C", "global", "2", "1", "coalesced"),
        ("load tile", "shared", "1", "1", "2 conflicting"),
        ("load A", "global", "1", "1", "coalesced"),
        ("load A", "global", "1", "1", "indices are loaded"),
        ("load I", "global", "1", "1", "coalesced"),
        ("load tile", "shared", "1", "1", "no conflicts"),
    ]


def test_the_resources_of_a_kernel():
    explanation = explain_lowered({"main": device_program(ACCESSES)}, CUDA)
    (facts,) = explanation.kernels
    assert (facts.kernel, facts.block, facts.shared_bytes) == ("main_kernel", (32, 1, 1), 4096)
    assert (facts.occupancy, facts.limited_by) == (0.5, "blocks")
    if ptxas_path() is not None:
        assert facts.resources is not None
        assert facts.resources.registers > 0
        assert (facts.resources.spill_bytes, facts.resources.shared_bytes) == (0, 4096)


@pytest.mark.parametrize(
    ("block", "found"),
    [
        ((256, 32, 0), (1.0, "threads")),
        ((256, 64, 0), (0.5, "registers")),
        ((256, 32, 48 << 10), (0.375, "shared memory")),
        ((16, 16, 0), (0.5, "blocks")),
    ],
)
def test_the_occupancy_of_an_a100(block, found):
    unit = Multiprocessor.of("sm_80")
    blocks, limit = unit.resident_blocks(*block)
    assert (unit.occupancy(block[0], blocks), limit) == found
