"""A device program taken apart: the kernels, and what the host does."""

from __future__ import annotations

import json

import numpy as np
import pytest
from devices.ladder import device_program

import codegen
from codegen.devices.launches import (
    HostBranch,
    HostLoop,
    Launch,
    Temporary,
    flat_launches,
    launches,
    step_from_data,
    step_to_data,
    temporaries,
)
from codegen.errors import CodegenError
from codegen.signature import evaluate_dim
from tensorir import parse
from tensorir.interp import interpret
from tensorir.verify import verify_well_formed

TWO_KERNELS = """
def main(A: T.Buffer((256,), "float32"), rounds: T.int32, c: T.handle):
    n = T.int32()
    C = T.match_buffer(c, (n,), "float32")
    T.func_attr({"tir.noalias": True})
    between_data = T.allocate([n, 2], "float32", "global")
    for k in range(1, rounds):
        between = T.Buffer((n,), data=between_data)
        for bx in T.thread_binding((n + 63) // 64, thread="blockIdx.x"):
            S = T.allocate([64], "float32", "shared")
            for ty in T.thread_binding(2, thread="threadIdx.y"):
                for tx in T.thread_binding(32, thread="threadIdx.x"):
                    between[bx * 64 + ty * 32 + tx] = A[tx] + T.Cast("float32", k)
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            C[tx] = between[tx]
"""


def test_the_steps_of_the_host():
    program = launches(device_program(TWO_KERNELS))
    assert [p.name for p in program.signature.parameters] == ["A", "rounds", "C"]
    grid = (("//", ("+", "n", 63), 64), 1, 1)
    assert program.steps == (
        Temporary(
            "between_data",
            ("*", ("*", 4, "n"), 2),
            (
                HostLoop(
                    "k",
                    4,
                    1,
                    ("-", "rounds", 1),
                    (
                        Launch("main_kernel", grid, (32, 2, 1), 256, ("n", "between_data", 0, "k")),
                        Launch("main_kernel_1", (1, 1, 1), (32, 1, 1), 0, (2, "between_data")),
                    ),
                ),
            ),
        ),
    )
    data = json.loads(json.dumps([step_to_data(step) for step in program.steps]))
    assert tuple(step_from_data(step) for step in data) == program.steps


def test_the_launches_of_a_call():
    steps = launches(device_program(TWO_KERNELS)).steps
    arguments = {0: 10, 2: 11, "n": b"\x82\0\0\0", "between_data": 12}
    found = list(flat_launches(steps, {"rounds": 3, "n": 130}, arguments))
    assert [(name, grid) for name, grid, *_ in found] == [
        ("main_kernel", (3, 1, 1)),
        ("main_kernel_1", (1, 1, 1)),
    ] * 2
    assert [passed[3] for *_, passed in found[::2]] == [b"\1\0\0\0", b"\2\0\0\0"]
    assert list(flat_launches(steps, {"rounds": 1, "n": 130}, arguments)) == []


def test_the_host_chooses_by_a_condition_on_sizes():
    program = launches(
        device_program("""
def main(n: T.int32, A: T.Buffer((64,), "float32")):
    if n <= 4 and 1 < n:
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            A[tx] = T.float32(1)
    else:
        B = T.allocate([n], "float32", "global")
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            A[tx] = T.float32(2)
""")
    )
    (branch,) = program.steps
    assert isinstance(branch, HostBranch)
    assert branch.condition == ("and", ("<=", "n", 4), ("<", 1, "n"))
    for n, kernel in ((1, "main_kernel_1"), (3, "main_kernel"), (5, "main_kernel_1")):
        found = flat_launches(program.steps, {"n": n}, {0: b"", 1: (7, 0), "B": (8, 0)})
        assert [name for name, *_ in found] == [kernel]
    assert [t.name for t in temporaries(program.steps)] == ["B"]
    assert step_from_data(json.loads(json.dumps(step_to_data(branch)))) == branch


@pytest.mark.parametrize(
    ("condition", "dtype", "number"),
    [
        ("n * n > 0", "int32", 1 << 16),
        ("n + 1 < n", "int32", (1 << 31) - 1),
        ("n - T.uint8(1) < n", "uint8", 0),
        ("n // -1 < 0", "int64", -(1 << 63)),
        ("T.Cast('int32', n) < 4", "int64", (1 << 32) + 3),
        ("n * n > 0 and n % 5 == 2", "int32", 7),
        ("n + n > n", "uint32", 3_000_000_000),
    ],
)
def test_arithmetic_on_scalars_wraps_around_on_the_host(condition, dtype, number):
    func = device_program(f"""
def main(n: T.{dtype}, A: T.Buffer((1,), "int32")):
    if {condition}:
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            A[bx] = 1
    else:
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            A[bx] = 2
""")
    result = np.zeros(1, "int32")
    interpret(func, number, result)
    steps = launches(codegen.lower(func, "opencl")).steps
    assert isinstance(steps[0], HostBranch)
    ((kernel, *_),) = flat_launches(steps, {"n": number}, {0: b"", 1: (7, 0)})
    assert kernel == ("main_kernel" if result[0] == 1 else "main_kernel_1")


def test_the_host_runs_the_other_case_only():
    program = launches(
        codegen.lower(
            parse("""
@T.prim_func
def main(a: T.handle, B: T.Buffer((8,))):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    if n == 8 or n > 100:
        T.evaluate(0)
    else:
        for bx in T.thread_binding(8, thread="blockIdx.x"):
            B[bx] = A[0]
"""),
            "opencl",
        )
    )
    (branch,) = program.steps
    assert isinstance(branch, HostBranch)
    assert branch.condition == ("==", ("or", ("==", "n", 8), ("<=", 101, "n")), 0)
    assert (len(branch.steps), len(branch.otherwise)) == (1, 0)


def test_a_condition_that_the_left_side_decides_divides_by_nothing():
    divides = ("==", ("%", 8, "n"), 0)
    for n, both, either in ((0, 0, 1), (3, 0, 0), (4, 1, 1)):
        values = {"n": n}
        assert evaluate_dim(("and", (">", "n", 0), divides), values) == both
        assert evaluate_dim(("or", ("==", "n", 0), divides), values) == either


def test_a_kernel_is_a_program_of_pointers_and_scalars():
    first, second = launches(device_program(TWO_KERNELS)).kernels
    assert (first.block, first.shared_bytes) == ((32, 2, 1), 256)
    assert second.func.script().splitlines()[3:] == [
        'def main_kernel_1(C: T.handle("float32", "global"), between_data: T.handle("float32", "global")):',
        '    T.func_attr({"tir.noalias": True})',
        '    for tx in T.thread_binding(32, thread="threadIdx.x"):',
        "        n = T.int32()",
        "        between = T.Buffer((n,), data=between_data)",
        "        C_1 = T.Buffer((n,), data=C)",
        "        C_1[tx] = between[tx]",
    ]
    verify_well_formed(first.func)


NEST = """
def main(A: T.Buffer((64,), "float32"), n: T.int32):
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "A[0] = T.float32(1)",
            r"main has a statement outside of its kernels: 'A\[0\] = .*blockIdx",
        ),
        (
            """for tx in T.thread_binding(n, thread="threadIdx.x"):
        A[tx] = T.float32(1)""",
            "loop tx binds threadIdx.x to n threads",
        ),
        (
            """for tx in T.thread_binding(8, thread="threadIdx.x"):
        for ty in T.thread_binding(8, thread="threadIdx.x"):
            A[tx] = T.float32(1)""",
            "axis 'threadIdx.x' of loop ty is bound twice",
        ),
        (
            """for v in T.thread_binding(8, thread="vthread.x"):
        A[v] = T.float32(1)""",
            "axis 'vthread.x' of loop v is no thread axis of a kernel",
        ),
        (
            """for k in range(4):
        B = T.allocate([k], "float32", "global")
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            A[tx] = T.float32(1)""",
            "the size of B changes in a loop of the host",
        ),
    ],
)
def test_what_is_no_device_program(body, message):
    with pytest.raises(CodegenError, match=message):
        launches(device_program(NEST + "    " + body))


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ('p: T.handle("float32")', "parameter p is a pointer; a GPU takes buffers"),
        ('p: T.Buffer((8,), "float32", elem_offset=8)', "buffer p begins inside of an array"),
    ],
)
def test_what_is_no_whole_array(parameter, message):
    text = f"""
def main(A: T.Buffer((8,), "float32"), {parameter}):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        A[tx] = T.float32(1)
"""
    with pytest.raises(CodegenError, match=message):
        launches(device_program(text))
