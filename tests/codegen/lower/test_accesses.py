"""Accesses of vectors: contiguous ones, repeated loads, flat buffers."""

from __future__ import annotations

import re

import numpy as np
import pytest

import codegen
from codegen.lower import lower
from codegen.lower.contiguous_accesses import contiguous_accesses
from codegen.lower.forms import REPEATED_LOADS
from codegen.lower.repeat_loads import repeat_loads
from codegen.target import Target
from schedule import Schedule
from tensorir import parse
from tensorir.function import IRModule, PrimFunc
from tensorir.interp import interpret
from tensorir.nodes import stmt as s
from tensorir.rewriting.visit import walk
from tests.matmul import matmul

# -------- Vector accesses whose lanes lie apart become contiguous ones and shuffles, or scalar ones

AVX2, AVX512 = "llvm -mcpu=znver3 -num-cores=1", "llvm -mcpu=znver4 -num-cores=1"
HEADER = (
    '@T.prim_func\ndef main(A: T.Buffer((64,), "{0}"), B: T.Buffer((64,), "{0}"), n: T.int32):\n'
)


def program(body: str, dtype: str = "float32") -> PrimFunc:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    func = parse(HEADER.format(dtype) + lines)
    assert isinstance(func, PrimFunc)
    return func


def changed(body: str, target: str = AVX2, dtype: str = "float32") -> PrimFunc:
    with Target(target):
        return contiguous_accesses(program(body, dtype))


@pytest.mark.parametrize("target", [AVX2, AVX512, "llvm -mcpu=x86-64-v2"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
@pytest.mark.parametrize("stride", [2, 3, 4, 5, -2, -4])
def test_the_meaning_stays(dtype: str, stride: int, target: str) -> None:
    start = 0 if stride > 0 else -stride * 7
    body = (
        f"B[0:8] = A[T.Ramp({start}, {stride}, 8)]\nB[T.Ramp({start + 8}, {stride}, 8)] = A[8:16]"
    )
    before, after = program(body, dtype), changed(body, target, dtype)
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 64).astype(dtype) if dtype == "bool" else np.arange(64).astype(dtype)
    results = []
    for func in (before, after):
        b = np.zeros(64, dtype)
        interpret(func, a, b, 5)
        results.append(b)
    assert np.array_equal(*results)


# Buffers end at pages without access: whatever is read or written beside them stops the process.


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16", "bool"])
@pytest.mark.parametrize("stride", [2, 3, 9])
@pytest.mark.parametrize("size", [16, 21])
def test_strided_rows_of_every_length(dtype: str, stride: int, size: int) -> None:
    extent = (size - 1) * stride + 1
    func = parse(
        f"""
@T.prim_func
def main(A: T.Buffer(({extent},), "{dtype}"), B: T.Buffer(({size},), "{dtype}"), C: T.Buffer(({extent},), "{dtype}")):
    for j in range({-(-size // 8)}):
        for v in T.vectorized(8):
            if j * 8 + v < {size}:
                B[j * 8 + v] = A[(j * 8 + v) * {stride}]
                C[(j * 8 + v) * {stride}] = A[(j * 8 + v) * {stride}]
"""
    )
    module = codegen.build(func, guard_pages=True)
    a = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, extent).astype(dtype)
    b, c = np.zeros(size, dtype), np.zeros(extent, dtype)
    module["main"](a, b, c)
    assert np.array_equal(b, a[::stride])
    assert np.array_equal(c[::stride], a[::stride])
    assert not c[1::stride].any()


@pytest.mark.parametrize(
    ("target", "stride", "shuffles"), [(AVX2, 2, 2), (AVX2, 3, 4), (AVX512, 2, 1), (AVX512, 4, 3)]
)
def test_machine_code_has_shuffles_and_no_gather(target: str, stride: int, shuffles: int) -> None:
    lanes = Target(target).vector_lanes(32)
    func = parse(
        f"""
@T.prim_func
def main(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    T.func_attr({{"tir.noalias": True}})
    for j in range(7):
        B[T.Ramp(j * {lanes}, 1, {lanes})] = A[T.Ramp(j * {lanes * stride}, {stride}, {lanes})]
"""
    )
    text = codegen.build(func, target).inspect_llvm()
    body = text[text.index("@tensorir.kernel.main(") :].split("\n}")[0]
    assert "gather" not in text
    assert "insertelement" not in body
    assert body.count("shufflevector") <= 7 * shuffles


# A short loop around a large tile loads its operand again instead of copying it to the stack

REPEAT_AVX2, REPEAT_AVX512 = "llvm -mcpu=znver3 -num-cores=1", "llvm -mcpu=znver4 -num-cores=1"


def repeated(body: str, target: str = REPEAT_AVX2) -> list[list[str]]:
    """Return the names of the pointers that each innermost loop loads through again."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    func = parse(
        "@T.prim_func\n"
        "def main(A: T.Buffer((64,)), B: T.Buffer((512,)), C: T.Buffer((512,))):\n"
        '    T.func_attr({"tir.noalias": True})\n'
        f"    R = T.allocate([8], 'float32', 'local')\n    S = T.Buffer((8,), data=R)\n{lines}"
    )
    assert isinstance(func, PrimFunc)
    with Target(target):
        loops = [n for n in walk(repeat_loads(func).body) if isinstance(n, s.For)]
    return [[p.name for p in loop.annotations.get(REPEATED_LOADS, ())] for loop in loops]


def updates(operand: str, count: int) -> str:
    """Return a loop with some updates of one accumulator by vectors of B times `operand`."""
    lines = [f"    S[0:8] = S[0:8] + B[{8 * k}:{8 * k + 8}] * {operand}" for k in range(count)]
    return "\n".join(["for i in range(4):", *lines])


MOVES = "T.Broadcast(A[i], 8)"


@pytest.mark.parametrize(
    ("body", "target", "expected"),
    [
        (updates(MOVES, 13), REPEAT_AVX2, []),
        (updates(MOVES, 14), REPEAT_AVX2, ["B"]),
        (updates(MOVES, 14), REPEAT_AVX512, []),
        (updates(MOVES, 30), REPEAT_AVX512, ["B"]),
    ],
)
def test_what_fits_into_the_registers_is_left_to_llvm(
    body: str, target: str, expected: list[str]
) -> None:
    assert repeated(body, target) == [expected]


def test_memory_with_few_places_is_kept_first() -> None:
    assert repeated(updates("(T.Broadcast(A[0], 8) + T.Broadcast(A[1], 8))", 20)) == [["B"]]


OTHERS = {
    "a long loop, beside which a copy is cheap": updates(MOVES, 20).replace("(4)", "(17)"),
    "places that move": "for i in range(4):\n"
    + "\n".join(f"    S[0:8] = S[0:8] + B[i * 8 + {8 * k}:i * 8 + {8 * k + 8}]" for k in range(20)),
    "memory that the loop stores to": updates(MOVES, 20) + "\n    B[i] = T.float32(1)",
    "what is converted after it is loaded": "for i in range(4):\n"
    + "\n".join(
        f'    S[0:8] = S[0:8] + T.Cast("float32x8", T.Cast("float64x8", B[{8 * k}:{8 * k + 8}]))'
        for k in range(20)
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_left_to_llvm(name: str) -> None:
    assert repeated(OTHERS[name]) == [[]]


def product() -> IRModule:
    """Return a product whose innermost loop, over rows, does not change 32 vectors of B."""
    sch = Schedule(parse(matmul(32, 64, 64, noalias=True)))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, [None, 8, 2])
    j0, j1 = sch.split(j, [None, 32])
    k0, k1 = sch.split(k, [None, 8])
    sch.reorder(i0, j0, k0, i1, k1, i2, j1)
    for loop in (k1, i2):
        sch.unroll(loop)
    sch.vectorize(j1)
    sch.decompose_reduction(block, k0)
    return sch.mod


def test_nothing_is_copied_to_the_stack() -> None:
    module = product()
    (loop,) = [
        node
        for node in walk(lower(module["main"], REPEAT_AVX2).body)  # type: ignore[arg-type]
        if isinstance(node, s.For) and REPEATED_LOADS in node.annotations
    ]
    assert [pointer.name for pointer in loop.annotations[REPEATED_LOADS]] == ["B"]
    text = codegen.build(module, REPEAT_AVX2).inspect_asm()
    body = text[text.index("tensorir.kernel.main:") :].split("retq")[0]
    assert not re.search(r"vmov[au]ps\s+%ymm\d+, -?\d*\(%rsp\)", body)


def test_the_result_stays() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, 64)).astype(np.float32) for n in (32, 64))
    c = np.zeros((32, 64), np.float32)
    codegen.build(product())["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["llvm", "cuda"])
def test_an_index_into_many_elements_has_64_bits(target):
    loop = 'T.thread_binding(16, thread="threadIdx.x")' if target == "cuda" else "range(16)"
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((4, 65536, 65536), "int8"), I: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int8"), C: T.Buffer((4, 4), "int8", strides=(2147483647, 1))):
    for i in {loop}:
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v // 4, I[v], v] + C[v // 4, 0]
""")
    lowered = lower(func, target, until="flatten_buffers").script()
    i = 'T.Cast("int64", threadIdx_x)' if target == "cuda" else 'T.Cast("int64", i)'
    gathered = f'T.Cast("int64", I_1[{i[16:-1]}]) * T.int64(65536)'
    assert f"A_1[{i} // T.int64(4) * T.int64(4294967296) + {gathered} + {i}]" in lowered
    assert f"C_1[{i} // T.int64(4) * T.int64(2147483647)]" in lowered
    assert "T.Buffer((T.int64(17179869184),)" in lowered
