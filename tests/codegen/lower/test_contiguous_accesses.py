"""Vector accesses whose lanes lie apart become contiguous ones and shuffles, or scalar ones."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen.lower.contiguous_accesses import contiguous_accesses
from codegen.target import Target
from tensorir import assert_structural_equal, parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret
from tensorir.nodes.expr import BufferLoad
from tensorir.rewriting.visit import walk

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


@pytest.mark.parametrize(
    ("target", "before", "after"),
    [
        pytest.param(
            AVX2,
            "B[0:8] = A[T.Ramp(n, 2, 8)]",
            "B[0:8] = T.Shuffle([A[n:n + 8], A[n + 7:n + 15]], [0, 2, 4, 6, 9, 11, 13, 15])",
            id="the last vector ends at the last lane",
        ),
        pytest.param(
            AVX2,
            "B[0:8] = A[T.Ramp(n, 3, 8)]",
            "B[0:8] = T.Shuffle([A[n:n + 8], A[n + 8:n + 16], A[n + 14:n + 22]],"
            " [0, 3, 6, 9, 12, 15, 20, 23])",
            id="three vectors",
        ),
        pytest.param(
            AVX2,
            "B[0:8] = A[T.Ramp(n + 30, -2, 8)]",
            "B[0:8] = T.Shuffle([A[n + 16:n + 24], A[n + 23:n + 31]], [15, 13, 11, 9, 6, 4, 2, 0])",
            id="backwards",
        ),
        pytest.param(
            AVX512,
            "B[0:16] = A[T.Ramp(n, 2, 16)]",
            "B[0:16] = T.Shuffle([A[n:n + 16], A[n + 15:n + 31]],"
            " [0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31])",
            id="vectors of 512 bits",
        ),
        pytest.param(
            AVX2,
            "B[0:4] = A[T.Ramp(n, 7, 4)]",
            "B[0:4] = T.Shuffle([A[n], A[n + 7], A[n + 14], A[n + 21]], [0, 1, 2, 3])",
            id="lanes far apart",
        ),
        pytest.param(
            AVX2,
            "B[0:4] = A[T.Ramp(1, n, 4)]",
            "B[0:4] = T.Shuffle([A[1], A[1 + n], A[1 + n * 2], A[1 + n * 3]], [0, 1, 2, 3])",
            id="an unknown distance",
        ),
    ],
)
def test_loads(target: str, before: str, after: str) -> None:
    assert_structural_equal(changed(before, target), program(after))


def test_narrow_elements_are_loaded_in_vectors_longer_than_the_lanes() -> None:
    assert_structural_equal(
        changed("B[0:8] = A[T.Ramp(n, 4, 8)]", dtype="int8"),
        program(
            "B[0:8] = T.Shuffle([A[n:n + 16], A[n + 13:n + 29]], [0, 4, 8, 12, 19, 23, 27, 31])",
            "int8",
        ),
    )


def test_a_store_of_lanes_far_apart_writes_them_in_order() -> None:
    assert_structural_equal(
        changed("B[T.Ramp(n, 2, 4)] = A[0:4]"),
        program(
            """
lanes: T.float32x4 = A[0:4]
B[n] = T.Shuffle([lanes], [0])
B[n + 2] = T.Shuffle([lanes], [1])
B[n + 4] = T.Shuffle([lanes], [2])
B[n + 6] = T.Shuffle([lanes], [3])
"""
        ),
    )


UNCHANGED = {
    "contiguous": "B[0:8] = A[n:n + 8]",
    "one element": "B[0:8] = A[T.Broadcast(n, 8)]",
    "irregular": "B[0:8] = A[T.Ramp(n, 1, 8) * T.Ramp(0, 1, 8)]",
    "an index that may wrap": 'B[0:8] = A[T.Ramp(T.Cast("int8", n), T.int8(2), 8)]',
    "the right side of a condition, whose loads depend on the left side": (
        "B[0:8] = T.Select(T.And(T.Ramp(0, 1, 8) < T.Broadcast(n, 8), A[T.Ramp(0, 2, 8)] "
        "< T.Broadcast(T.float32(1), 8)), A[0:8], A[8:16])"
    ),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_other_accesses_stay(name: str) -> None:
    func = program(UNCHANGED[name])
    with Target(AVX2):
        assert contiguous_accesses(func) is func


MASKED = (
    "B.vstore([T.Ramp(0, 1, 8)], A.vload([T.Ramp(0, 2, 8)], "
    "predicate=T.Ramp(0, 1, 8) < T.Broadcast(n, 8)), predicate=T.Ramp(0, 1, 8) < T.Broadcast(n, 8))"
)


def test_a_mask_is_spread_over_the_contiguous_vectors() -> None:
    loads = [
        part
        for part in walk(changed(MASKED).body)
        if isinstance(part, BufferLoad) and part.buffer.name == "A"
    ]
    assert [str(load.predicate) for load in loads] == [
        f"T.Shuffle([T.Ramp(0, 1, 8) < T.Broadcast(n, 8), T.Broadcast(T.bool(False), 8)], {lanes})"
        for lanes in ([0, 8, 1, 8, 2, 8, 3, 8], [8, 4, 8, 5, 8, 6, 8, 7])
    ]


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64-v2", "llvm -mtriple=aarch64-linux-gnu"])
def test_a_masked_load_stays_where_the_target_has_none(target: str) -> None:
    func = program(MASKED)
    with Target(target):
        assert contiguous_accesses(func) is func


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


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16", "float16", "bool"])
@pytest.mark.parametrize("stride", [2, 3, 4, 6, 9])
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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "B[0:8] = A[T.Broadcast(n, 8) + T.Ramp(0, 1, 8) % T.Broadcast(2, 8)]",
            "B[0:8] = T.Shuffle([A[n:n + 2]], [0, 1, 0, 1, 0, 1, 0, 1])",
            id="two elements that alternate",
        ),
        pytest.param(
            "B[0:8] = A[T.Broadcast(n, 8) + (T.Ramp(0, 2, 8) -"
            " T.Ramp(0, 1, 8) // T.Broadcast(4, 8) * T.Broadcast(7, 8))]",
            "B[0:8] = T.Shuffle([A[n:n + 8]], [0, 2, 4, 6, 1, 3, 5, 7])",
            id="another order",
        ),
        pytest.param(
            "B[0:8] = A[T.Broadcast(n, 8) + T.Ramp(0, 1, 8) // T.Broadcast(4, 8) *"
            " T.Broadcast(40, 8)]",
            "B[0:8] = T.Shuffle([A[n], A[n + 40]], [0, 0, 0, 0, 1, 1, 1, 1])",
            id="few elements far apart",
        ),
        pytest.param(
            "B[0:8] = A[T.Broadcast(n, 8) + T.Ramp(0, 1, 8) // T.Broadcast(8, 8)]",
            "B[0:8] = T.Shuffle([A[n]], [0, 0, 0, 0, 0, 0, 0, 0])",
            id="one element",
        ),
        pytest.param(
            "B[T.Broadcast(n, 8) + (T.Ramp(0, 2, 8) -"
            " T.Ramp(0, 1, 8) // T.Broadcast(4, 8) * T.Broadcast(7, 8))] = A[0:8]",
            "lanes: T.float32x8 = A[0:8]\n"
            "B[n:n + 8] = T.Shuffle([lanes], [0, 4, 1, 5, 2, 6, 3, 7])",
            id="a store in another order",
        ),
        pytest.param(
            "B[T.Broadcast(n, 8) + T.Ramp(0, 1, 8) % T.Broadcast(4, 8)] = A[0:8]",
            "B[T.Broadcast(n, 8) + T.Ramp(0, 1, 8) % T.Broadcast(4, 8)] = A[0:8]",
            id="lanes that are stored in one place keep their order",
        ),
    ],
)
def test_constant_patterns_of_lanes_become_shuffles(before: str, after: str) -> None:
    assert_structural_equal(changed(before), program(after))
    rng = np.random.default_rng(0)
    a = rng.standard_normal(64).astype("float32")
    results = []
    for func in (program(before), changed(before)):
        b = np.zeros(64, "float32")
        interpret(func, a, b, 5)
        results.append(b)
    np.testing.assert_array_equal(*results)


def test_masked_lanes_that_share_elements_stay() -> None:
    index = "T.Broadcast(n, 8) + T.Ramp(0, 1, 8) % T.Broadcast(2, 8)"
    mask = "T.Ramp(n, 1, 8) < T.Broadcast(6, 8)"
    body = f"B[0:8] = A.vload([{index}], predicate={mask})"
    assert_structural_equal(changed(body), program(body))
