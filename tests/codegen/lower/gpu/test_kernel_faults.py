"""The lock-step interpreter finds what is wrong with a kernel: by its ledger, or by the result."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_faults import KINDS, Fault, faults
from test_gpu_lowering import TARGET, arguments_of, program
from text_cases import cases_of

import codegen
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.interp import InterpreterError, interpret

PROGRAMS = [
    case
    for case in cases_of(Path(__file__).parent / "programs.txt")
    # Softmax is the same with another number in the place of the largest element.
    if not case.title.startswith("softmax")
]


def inputs(func: PrimFunc) -> list[list[Any]]:
    """Return arguments of several kinds: some faults show in ascending numbers only."""
    mixed, ascending, descending = (arguments_of(func) for _ in range(3))
    for up, down in zip(ascending, descending, strict=True):
        if isinstance(up, np.ndarray):
            up.flat = np.arange(up.size) - up.size // 2
            down.flat = np.arange(down.size)[::-1] - down.size // 2
    return [mixed, ascending, descending]


def is_found(fault: Fault, expected: list[list[Any]]) -> bool:
    for arguments, results in zip(inputs(fault.func), expected, strict=True):
        try:
            interpret(fault.func, *arguments)
        except InterpreterError:
            return True
        if any(not np.allclose(a, b) for a, b in zip(arguments, results, strict=True)):
            return True
    return False


def test_faults_are_found() -> None:
    found: Counter[str] = Counter()
    for case in PROGRAMS:
        func = program(case)
        expected = inputs(func)
        for arguments in expected:
            interpret(func, *arguments)
        for fault in faults(codegen.lower(func, TARGET)):
            assert is_found(fault, expected), f"{case.title}: {fault.kind}: {fault.place}"
            found[fault.kind] += 1
    assert found.keys() == KINDS.keys()
    assert found.total() > 100


# ------------------------------------------------------------------------------------ its messages

KERNEL = """
@T.prim_func
def main(A: T.Buffer((2, 4), "int32"), B: T.Buffer((2, 4), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        S = T.allocate([4], "int32", "shared")
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            S_1 = T.Buffer((4,), "int32", data=S)
            W = T.Buffer((2,), "int64", data=S)
            H = T.Buffer((8,), "int16", data=S)
            {0}
"""
WAIT = "T.tvm_storage_sync('shared')"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            ["S_1[tx] = A[bx, tx]", "B[bx, tx] = S_1[tx // 2]"],
            "threads (threadIdx.x = 0) and (threadIdx.x = 1) of one block access element 0 of S_1 "
            "without a barrier in between, in `S_1[tx] = A[bx, tx]` and "
            "`B[bx, tx] = S_1[tx // 2]` (in thread (threadIdx.x = 1) of block (blockIdx.x = 0))",
        ),
        (
            ["B[0, tx] = 1"],
            "blocks (blockIdx.x = 0) and (blockIdx.x = 1) of one launch access element 0 of B, in "
            "`B[0, tx] = 1` and `B[0, tx] = 1` (in thread (threadIdx.x = 0) of block "
            "(blockIdx.x = 1))",
        ),
        (
            ["if tx < 3:", f"    {WAIT}"],
            "thread (threadIdx.x = 0) waits at a barrier, thread (threadIdx.x = 3) has ended",
        ),
        (
            ["if tx < 3:", f"    {WAIT}", "else:", f"    {WAIT}"],
            "threads (threadIdx.x = 0) and (threadIdx.x = 3) wait at different barriers: not all "
            "threads of the block come to the same one",
        ),
        (
            ["if tx < 3:", "    S_1[tx] = 1", WAIT, "B[bx, tx] = S_1[3]"],
            "element 3 of shared buffer S_1 is read before it is written, in "
            "`B[bx, tx] = S_1[3]` (in thread (threadIdx.x = 0) of block (blockIdx.x = 0))",
        ),
        (
            ["if tx == 0:", "    W[0] = T.int64(7)", "if tx == 1:", "    S_1[1] = 1"],
            "threads (threadIdx.x = 0) and (threadIdx.x = 1) of one block access element 1 of S_1 "
            "without a barrier in between, in `W[0] = T.int64(7)` and `S_1[1] = 1` (in thread "
            "(threadIdx.x = 1) of block (blockIdx.x = 0))",
        ),
        (
            ["if tx == 0:", "    W[0] = T.int64(7)", "    S_1[1] = 1", "    W[1] = W[0]"],
            "element 0 of shared buffer W is read before it is written, in `W[1] = W[0]` (in "
            "thread (threadIdx.x = 0) of block (blockIdx.x = 0))",
        ),
        (
            ["if tx == 0:", "    W[0] = T.int64(7)", "    S_1[0] = S_1[1]"],
            "element 1 of shared buffer S_1 is read before it is written, in `S_1[0] = S_1[1]` (in "
            "thread (threadIdx.x = 0) of block (blockIdx.x = 0))",
        ),
        (
            ["H[tx] = T.int16(1)"],
            "memory of elements of 4 bytes is accessed as int16, whose elements have 2 (in thread "
            "(threadIdx.x = 0) of block (blockIdx.x = 0))",
        ),
        (
            ["S_1[tx + 1] = 1"],
            "access to S_1 out of bounds: index 4 of dimension 0 is not in [0, 4), in "
            "`S_1[tx + 1] = 1` (in thread (threadIdx.x = 3) of block (blockIdx.x = 0))",
        ),
        (
            ["if tx < 2:", "    x: T.int32 = T.tvm_warp_shuffle_down(-1, tx, 1, 4, 4)"],
            "thread (threadIdx.x = 2) does not come to "
            "`x: T.int32 = T.tvm_warp_shuffle_down(-1, tx, 1, 4, 4)`, which all threads of a warp "
            "have to run together (in block (blockIdx.x = 0))",
        ),
        (
            ["x: T.int32 = T.tvm_warp_shuffle_down(-1, tx, 1, 8, 8)", "B[bx, tx] = x"],
            "variable x has no value here (in thread (threadIdx.x = 3) of block (blockIdx.x = 0))",
        ),
        (
            ["B[bx, tx] = T.tvm_warp_shuffle(-1, tx, 1, 4, 4)"],
            "a warp shuffle is interpreted in a launch only, as the value of a variable: "
            "`x: T.int32 = T.tvm_warp_shuffle(-1, tx, 1, 4, 4)`",
        ),
        (
            ["x: T.int32 = T.tvm_warp_shuffle(3, tx, 1, 4, 4)"],
            "`T.tvm_warp_shuffle(3, tx, 1, 4, 4)` is interpreted with the mask -1, for all lanes "
            "of a warp, and a width that divides the size of the warp",
        ),
    ],
)
def test_messages(body: list[str], message: str) -> None:
    func = parse(KERNEL.format("\n            ".join(body)))
    with pytest.raises(InterpreterError, match=f"^{re.escape(message)}$"):
        interpret(func, *(np.zeros((2, 4), np.int32) for _ in range(2)))


def test_loops_of_blocks_without_a_launch_run_in_order() -> None:
    func = parse(
        """
@T.prim_func
def main(B: T.Buffer((4,), "int32")):
    for tx in T.thread_binding(4, thread="threadIdx.x"):
        with T.block("B"):
            vi = T.axis.opaque(4, tx)
            B[0] = B[0] + vi
"""
    )
    result = np.zeros(4, np.int32)
    interpret(func, result)
    assert result[0] == 6
