"""Loads, stores and allocations as machine code."""

from __future__ import annotations

import re

import numpy as np
import pytest

import codegen
import tensorir
from codegen.errors import ExecutionError, LoweringError
from codegen.lower.hoist_allocations import STACK_LIMIT
from tensorir import parse

# --------------------- Access patterns, predicates and memory of a function's own, from script text

HEADER = "@T.prim_func\ndef f(A: T.Buffer((64,), '{0}'), B: T.Buffer((64,), '{0}')):\n"


def run(body: str, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Run statements on A = 0, 1, 2, ... and B = -1, -1, ...; return both."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    module = codegen.build(tensorir.parse(HEADER.format(dtype) + lines), guard_pages=True)
    a = np.arange(64).astype(dtype)
    b = np.full(64, -1).astype(dtype)
    module["f"](a, b)
    return a, b


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "float16"])
def test_vector_accesses_of_every_distance(dtype: str) -> None:
    a, b = run(
        """
B[T.Ramp(0, 1, 8)] = A[T.Ramp(3, 1, 8)]
B[T.Ramp(8, 1, 8)] = A[T.Ramp(7, -1, 8)]
B[T.Ramp(16, 1, 8)] = A[T.Broadcast(5, 8)]
B[T.Ramp(24, 1, 8)] = A[T.Ramp(1, 7, 8)]
B[T.Ramp(63, -1, 8)] = A[T.Ramp(0, 1, 8)]
B[T.Ramp(32, 3, 8)] = A[T.Ramp(0, 1, 8)]
""",
        dtype,
    )
    assert b[:8].tolist() == a[3:11].tolist()
    assert b[8:16].tolist() == a[7::-1].tolist()
    assert b[16:24].tolist() == [5] * 8
    assert b[24:32].tolist() == a[1:51:7].tolist()
    assert b[32:56:3].tolist() == a[:8].tolist()
    assert b[63:55:-1].tolist() == [a[0], *a[1:8]]


def test_a_store_to_one_element_keeps_the_last_lane() -> None:
    _, b = run("B[T.Broadcast(3, 4)] = A[T.Ramp(10, 1, 4)]")
    assert b[3] == 13


def test_index_vectors_that_are_linear_are_recognised() -> None:
    source = HEADER.format("float32") + (
        "    for i in range(4):\n"
        "        B[T.Broadcast(i * 16, 16) + T.Ramp(0, 1, 16)] = A[T.Ramp(i * 16, 1, 16)]\n"
    )
    module = codegen.build(tensorir.parse(source))
    assert "scatter" not in module.inspect_llvm()


def test_masked_choice_does_not_touch_lanes_that_are_off() -> None:
    # Lanes beyond 63 would be out of bounds; the guard pages of `run` would stop the process.
    _, b = run(
        """
B[T.Ramp(0, 1, 8)] = T.Select(T.Ramp(60, 1, 8) < T.Broadcast(64, 8), T.Broadcast(T.float32(1), 8), T.Broadcast(T.float32(0), 8))
for i in T.vectorized(8):
    B[8 + i] = T.if_then_else(60 + i < 64, A[60 + i], T.float32(7))
"""
    )
    assert b[:8].tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    assert b[8:16].tolist() == [60, 61, 62, 63, 7, 7, 7, 7]


def test_predicated_accesses() -> None:
    buffers = [tensorir.decl_buffer((n,), "float32", name) for n, name in ((5, "A"), (8, "B"))]
    a, b = buffers
    ramp = tensorir.nodes.expr.Ramp(tensorir.nodes.ops.as_expr(0), tensorir.nodes.ops.as_expr(1), 8)
    mask = tensorir.nodes.ops.compare(
        tensorir.nodes.expr.LT, ramp, tensorir.nodes.ops.const(5, "int32x8")
    )
    load = tensorir.nodes.expr.BufferLoad(a, (ramp,), mask)
    one = tensorir.nodes.ops.const(1.0, "float32x8")
    store = tensorir.nodes.stmt.BufferStore(b, load + one, (ramp,), mask)
    module = codegen.build(tensorir.PrimFunc(buffers, store), guard_pages=True)
    out = np.full(8, -1, np.float32)
    module["main"](np.arange(5, dtype=np.float32), out)
    assert out.tolist() == [1, 2, 3, 4, 5, -1, -1, -1]


def test_bools_are_bytes_in_memory() -> None:
    f = tensorir.parse(
        """
@T.prim_func
def f(A: T.Buffer((32,), "bool"), B: T.Buffer((32,), "bool")):
    for i in range(16):
        B[i] = not A[i]
    for i in T.vectorized(16):
        B[16 + i] = T.Or(A[16 + i], A[15 - i])
"""
    )
    a = np.random.default_rng(0).integers(0, 2, 32).astype(bool)
    b = np.zeros(32, bool)
    codegen.build(f)["f"](a, b)
    assert np.array_equal(b[:16], ~a[:16])
    assert np.array_equal(b[16:], a[16:] | a[15::-1])


@pytest.mark.parametrize("lanes", [2, 3, 4])
def test_buffers_of_vectors_are_dense(lanes: int) -> None:
    f = tensorir.parse(
        f"""
@T.prim_func
def f(A: T.Buffer((8,), "float32x{lanes}"), B: T.Buffer((8,), "float32x{lanes}")):
    for i in range(8):
        B[i] = A[7 - i] + A[i]
"""
    )
    a = np.random.default_rng(0).random((8, lanes), np.float32)
    b = np.zeros_like(a)
    codegen.build(f, guard_pages=True)["f"](a, b)
    assert np.array_equal(b, a[::-1] + a)


ALLOCATION = """
@T.prim_func
def f(A: T.Buffer(({n},), "float32"), B: T.Buffer(({n},), "float32")):
    data = T.allocate([{n}], "float32", "global")
    tmp = T.Buffer(({n},), "float32", data=data)
    for i in range({n}):
        tmp[i] = A[i] * T.float32(2)
    for i in range({n}):
        B[i] = tmp[{n} - 1 - i]
"""


@pytest.mark.parametrize("n", [16, STACK_LIMIT // 4, STACK_LIMIT // 4 + 1, 1 << 20])
def test_allocations_on_stack_and_heap(n: int) -> None:
    module = codegen.build(tensorir.parse(ALLOCATION.format(n=n)))
    on_heap = "@aligned_alloc" in module.inspect_llvm(optimized_form=False)
    assert on_heap == (n * 4 > STACK_LIMIT)
    a = np.arange(n, dtype=np.float32)
    b = np.zeros(n, np.float32)
    module["f"](a, b)
    assert np.array_equal(b, 2 * a[::-1])


def test_allocation_of_dynamic_size_is_checked() -> None:
    f = tensorir.parse(
        """
@T.prim_func
def f(a: T.handle, m: T.int64):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    data = T.allocate([m * n], "float32", "global")
    tmp = T.Buffer((m * n,), "float32", data=data)
    for i in range(n):
        tmp[m * i] = A[i]
    for i in range(n):
        A[i] = tmp[m * i] + T.float32(1)
"""
    )
    module = codegen.build(f)
    a = np.zeros(100, np.float32)
    module["f"](a, 3)
    assert a.tolist() == [1.0] * 100
    with pytest.raises(ExecutionError, match="f: memory for a temporary buffer"):
        module["f"](a, 1 << 45)


# --------------------------------------------------------------- loads that are written only once


def test_a_load_is_written_once_until_its_memory_changes() -> None:
    text = codegen.build(
        tensorir.parse("""
@T.prim_func
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    T.func_attr({"tir.noalias": True})
    B[0] = A[1] + A[1]
    B[1] = A[1]
    A[2] = T.float32(0)
    B[2] = A[1]
""")
    ).inspect_llvm(optimized_form=False)
    kernel = text[: text.index("tensorir.entry")]
    assert kernel.count("load float") == 2


@pytest.mark.parametrize(
    ("attrs", "between", "expected"),
    [
        ("", "B[0] = T.float32(7)", 7.0),
        ('"tir.noalias": True', "A[1] = T.float32(7)", 7.0),
        (
            '"tir.noalias": True',
            'T.evaluate(T.call_extern("handle", "memset", A.data, 0, 16))',
            0.0,
        ),
        ('"tir.noalias": True', "T.evaluate(T.call_packed('test_memory.seven', A))", 7.0),
        (
            '"tir.noalias": True',
            """p: T.handle("float32") = T.address_of(A[1])
    P = T.Buffer((2,), "float32", data=p)
    P[0] = T.float32(7)""",
            7.0,
        ),
    ],
)
def test_what_may_have_changed_is_loaded_again(attrs: str, between: str, expected: float) -> None:
    """Without `tir.noalias`, B may be A from its second element on."""

    @codegen.register_func("test_memory.seven", override=True)
    def seven(a: codegen.NDArray) -> None:
        a[...] = 7

    function = codegen.build(
        tensorir.parse(f"""
@T.prim_func
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((3,), "float32"), C: T.Buffer((2,), "float32")):
    T.func_attr({{{attrs}}})
    C[0] = A[1]
    {between}
    C[1] = A[1]
""")
    )["f"]
    a, c = np.full(4, 5, "float32"), np.zeros(2, "float32")
    function(a, a[1:] if not attrs else np.zeros(3, "float32"), c)
    assert c.tolist() == [5.0, expected]


def test_an_address_in_front_of_a_buffer_is_not_promised_to_be_in_it() -> None:
    """`A[j - i + 3]` is written as 3 behind an address that may lie in front of A."""
    program = tensorir.parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((16,), "int32")):
    for i, j in T.grid(4, 4):
        B[i * 4 + j] = A[j - i + 3]
""")
    text = codegen.build(program).inspect_llvm(optimized_form=False)
    common = re.search(r"(%v\d+) = getelementptr i32, ptr %p0, i64 %v\d+\n", text)
    assert common is not None
    assert f"getelementptr i32, ptr {common[1]}, i64 3" in text
    a, b = np.arange(8, dtype="int32"), np.zeros(16, "int32")
    codegen.build(program)["f"](a, b)
    assert b.reshape(4, 4).tolist() == [[j - i + 3 for j in range(4)] for i in range(4)]


# ----------------------- Buffers whose bytes do not fit 64 bits are errors, never small allocations

PROGRAM = """
from tensorir import T

@T.prim_func
def main(a: T.handle, b: T.handle, width: T.int64):
    n = T.int64()
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
    C = T.alloc_buffer((n * width, width))
    for i in range(n):
        with T.block("fill"):
            v = T.axis.spatial(n, i)
            C[v, 0] = A[v] + T.float32(1)
    for i in range(n):
        with T.block("copy"):
            v = T.axis.spatial(n, i)
            B[v] = C[v, 0]
"""


def test_a_size_that_wraps_when_the_program_runs_is_out_of_memory() -> None:
    main = codegen.build(parse(PROGRAM))["main"]
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    main(x, y, 3)
    np.testing.assert_array_equal(y, 2)
    with pytest.raises(ExecutionError, match="could not be allocated"):
        main(x, y, 1 << 31)  # 4 * 2**31 * 2**31 * 4 bytes are 2**66, which wraps to 0


FIXED = """
from tensorir import T

@T.prim_func
def main(P: T.Buffer((4,), "int64"), B: T.Buffer((4,), "float32")):
    C = T.alloc_buffer((1 << 40, 1 << 40))
    for i in range(4):
        with T.block("fill"):
            v = T.axis.opaque(4, i)
            C[P[v], P[v]] = T.float32(1)
    for i in range(4):
        with T.block("copy"):
            v = T.axis.spatial(4, i)
            B[v] = C[P[v], P[v]]
"""


def test_a_size_that_wraps_is_refused_by_the_compiler() -> None:
    with pytest.raises(LoweringError, match=r"the buffer C.* would have [\d,]+ bytes"):
        codegen.build(parse(FIXED))
