"""Where allocations move, and how large they are."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen.lower import lower
from tensorir import assert_structural_equal, parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret

# --------------------- A buffer moves into a loop only if no iteration reads what another one wrote


def program(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def placed(text: str) -> str:
    return lower(program(text), "llvm", until="place_allocations").script()


def moves(text: str, loop: str = "for i in") -> bool:
    """Say whether the allocation of B ends inside the loop."""
    lines = placed(text).splitlines()
    (allocation,) = (k for k, line in enumerate(lines) if "B = T.alloc_buffer" in line)
    (start,) = (k for k, line in enumerate(lines) if loop in line)
    return allocation > start


def compiled_is_as_interpreted(text: str) -> None:
    func = program(text)
    a = np.arange(64, dtype="float32").reshape(8, 8)
    found, expected = np.zeros((8, 8), "float32"), np.zeros((8, 8), "float32")
    interpret(func, a, expected)
    codegen.build(func, "llvm")["main"](a, found)
    np.testing.assert_array_equal(found, expected)


HEAD = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    with T.block("root"):
        B = T.alloc_buffer((8, 8), "float32")
"""

WRITTEN_IN_THE_FIRST_ITERATION = (
    HEAD
    + """
        for i, j in T.grid(8, 8):
            with T.block("B"):
                v0 = T.axis.spatial(1, 0)
                vj = T.axis.spatial(8, j)
                T.where(i == 0)
                B[v0, vj] = A[v0, vj] * T.float32(2)
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[0, vj] + A[vi, vj]
"""
)

RUNNING_VALUE = (
    HEAD
    + """
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[0, vj] = T.if_then_else(vi > 0, B[0, vj], T.float32(0)) + A[vi, vj]
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[0, vj]
"""
)

SLIDING_WINDOW = (
    HEAD
    + """
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[T.max(vi - 1, 0), vj] + B[vi, vj]
"""
)

OUTER_REDUCTION = (
    HEAD
    + """
        for k in range(8):
            for i, j in T.grid(8, 8):
                with T.block("B"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        B[vi, vj] = T.float32(0)
                    B[vi, vj] = B[vi, vj] + A[vi, vk]
            for i2, j2 in T.grid(8, 8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i2, j2])
                    C[vi, vj] = B[vi, vj]
"""
)

HALF_WRITTEN = (
    HEAD
    + """
        for i in range(8):
            for j in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(8, 0)
                    vj = T.axis.spatial(8, j + i // 4 * 4)
                    B[vi, vj] = A[0, vj]
            for j in range(8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.if_then_else(vj < vi // 4 * 4 + 4, B[0, vj], T.float32(0))
"""
)


@pytest.mark.parametrize(
    ("text", "loop"),
    [
        (WRITTEN_IN_THE_FIRST_ITERATION, "for i, j in"),
        (RUNNING_VALUE, "for i, j in"),
        (SLIDING_WINDOW, "for i, j in"),
        (OUTER_REDUCTION, "for k in"),
        (HALF_WRITTEN, "for i in"),
    ],
)
def test_values_of_earlier_iterations_keep_the_buffer_outside(text: str, loop: str) -> None:
    assert not moves(text, loop)
    compiled_is_as_interpreted(text)


TILE = (
    HEAD
    + """
        for i in range(2):
            for i1, j in T.grid(4, 8):
                with T.block("B"):
                    vi = T.axis.spatial(8, i * 4 + i1)
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = A[vi, vj] + T.float32(1)
            for j, i1 in T.grid(8, 4):
                with T.block("C"):
                    vi = T.axis.spatial(8, i * 4 + i1)
                    vj = T.axis.spatial(8, j)
                    C[vi, vj] = B[vi, vj] * B[vi // 4 * 4, vj]
"""
)

INNER_REDUCTION = (
    HEAD
    + """
        for i in range(8):
            for k0, j, k1 in T.grid(2, 8, 4):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    vk = T.axis.reduce(8, k0 * 4 + k1)
                    with T.init():
                        B[vi, vj] = T.float32(0)
                    B[vi, vj] = B[vi, vj] + A[vi, vk]
            for j in range(8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj]
"""
)

TAIL = (
    HEAD
    + """
        for i in range(3):
            for i1, j in T.grid(3, 8):
                with T.block("B"):
                    vi = T.axis.spatial(8, i * 3 + i1)
                    vj = T.axis.spatial(8, j)
                    T.where(i * 3 + i1 < 8)
                    B[vi, vj] = A[vi, vj] + T.float32(1)
            for i1, j in T.grid(3, 8):
                with T.block("C"):
                    vi = T.axis.spatial(8, i * 3 + i1)
                    vj = T.axis.spatial(8, j)
                    T.where(i * 3 + i1 < 8)
                    C[vi, vj] = B[vi, vj]
"""
)

VIEW = (
    HEAD
    + """
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi, 0:8])
                T.writes(B[vi, 0:8])
                row = T.match_buffer(B[vi, 0:8], (8,), offset_factor=1)
                row[T.ramp(0, 1, 8)] = A[vi, T.ramp(0, 1, 8)]
            for j in range(8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj]
"""
)


@pytest.mark.parametrize("text", [TILE, INNER_REDUCTION, TAIL, VIEW])
def test_what_each_iteration_writes_before_it_reads_moves_in(text: str) -> None:
    assert moves(text)
    compiled_is_as_interpreted(text)


def test_a_buffer_moves_as_far_in_as_values_allow() -> None:
    """The reduction over k carries values, the rows around it do not."""
    text = placed(
        HEAD
        + """
        for i, k in T.grid(8, 8):
            for j in range(8):
                with T.block("B"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        B[vi, vj] = T.float32(0)
                    B[vi, vj] = B[vi, vj] + A[vi, vk]
            for j in range(8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj]
"""
    )
    lines = [line.strip() for line in text.splitlines()]
    allocation = next(k for k, line in enumerate(lines) if line.startswith("B = T.alloc_buffer"))
    assert lines.index("for i in range(8):") < allocation < lines.index("for k in range(8):")


def test_a_loop_that_may_be_empty_writes_nothing_for_sure() -> None:
    func = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32"), n: T.int32):
    with T.block("root"):
        B = T.alloc_buffer((8, 8), "float32")
        for i in range(8):
            for r in range(n - i):
                with T.block("B"):
                    v0 = T.axis.spatial(1, 0)
                    B[v0, 0] = A[v0, 0]
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi, 0] = B[0, 0]
"""
    assert not moves(func)


# ----------------------------------------------- Scratch memory is allocated once a call and thread

SIZE = 9000
"""Elements that do not go on the stack."""


def hoist_program(body: str) -> PrimFunc:
    func = parse(
        f"""
@T.prim_func
def main(A: T.Buffer(({SIZE},), "float32"), C: T.Buffer((64,), "float32"), n: T.int32):
    T.func_attr({{"tir.noalias": True}})
{body}
"""
    )
    assert isinstance(func, PrimFunc)
    return func


BODY = f"""
            B = T.allocate([{SIZE}], "float32", "global")
            B_1 = T.Buffer(({SIZE},), data=B)
            for k in range({SIZE}):
                B_1[k] = A[k] * T.Cast("float32", i * 8 + j)
            C[i * 8 + j] = B_1[n] + B_1[1]
"""
LOOPS = f"""
    for i in T.parallel(8):
        for j in range(8):{BODY}"""


def hoisted(func: PrimFunc, target: str) -> PrimFunc:
    return codegen.lower(func, target, until="hoist_allocations")


def test_each_iteration_on_threads_has_memory_of_its_own() -> None:
    after = hoist_program(
        f"""
    for i in T.parallel(8):
        B = T.allocate([{SIZE}], "float32", "global")
        B_1 = T.Buffer(({SIZE},), data=B)
        for j in range(8):
            for k in range({SIZE}):
                B_1[k] = A[k] * T.Cast("float32", i * 8 + j)
            C[i * 8 + j] = B_1[n] + B_1[1]
"""
    )
    assert_structural_equal(hoisted(hoist_program(LOOPS), "llvm -num-cores=2"), after)


def test_one_thread_allocates_once() -> None:
    after = hoist_program(
        f"""
    B = T.allocate([{SIZE}], "float32", "global")
    B_1 = T.Buffer(({SIZE},), data=B)
    for i in T.parallel(8):
        for j in range(8):
            for k in range({SIZE}):
                B_1[k] = A[k] * T.Cast("float32", i * 8 + j)
            C[i * 8 + j] = B_1[n] + B_1[1]
"""
    )
    assert_structural_equal(hoisted(hoist_program(LOOPS), "llvm -num-cores=1"), after)


@pytest.mark.parametrize("size", ["64", "n + 64"])
def test_what_may_be_registers_or_has_no_constant_size_stays(size: str) -> None:
    func = hoist_program(LOOPS.replace(str(SIZE), size).replace(f"range({size})", "range(64)"))
    before = codegen.lower(func, "llvm", until="simplify_control")
    assert_structural_equal(hoisted(func, "llvm"), before)


def test_memory_under_a_condition_is_allocated_under_it() -> None:
    func = hoist_program(
        f"""
    if n == 3:
        for i, j in T.grid(8, 8):{BODY}"""
    )
    text = hoisted(func, "llvm").script()
    assert text.index("if n == 3") < text.index("T.allocate") < text.index("for i")


def test_a_thread_allocates_before_its_first_iteration() -> None:
    module = codegen.build(hoist_program(LOOPS), "llvm -num-cores=2")
    text = module.inspect_llvm()
    allocated = text.index("@aligned_alloc(i64 64")
    assert text.rindex("define ", 0, allocated) == text.rindex("define ", 0, text.index("phi i64"))
    assert allocated < text.index("phi i64") < text.index("call void @free(")
    a, c = np.arange(SIZE, dtype=np.float32), np.zeros(64, np.float32)
    module["main"](a, c, 5)
    np.testing.assert_array_equal(c, 6 * np.arange(64))


# -------------------------- Temporaries of symbolic sizes take what they hold, not what bounds them


def test_a_size_that_is_bounded_by_a_large_number_is_the_size():
    func = parse("""
    @T.prim_func
    def main(a: T.handle, c: T.handle, n: T.int64):
        A = T.match_buffer(a, (T.min(n, T.int64(1000000000)), T.int64(512)), "float32")
        C = T.match_buffer(c, (T.min(n, T.int64(1000000000)), T.int64(512)), "float32")
        B = T.alloc_buffer((T.min(n, T.int64(1000000000)), T.int64(512)))
        for i, j in T.grid(T.min(n, T.int64(1000000000)), T.int64(512)):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        for i, j in T.grid(T.min(n, T.int64(1000000000)), T.int64(512)):
            with T.block("c"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] * T.float32(2)
    """)
    a, c = np.ones((3, 512), "float32"), np.zeros((3, 512), "float32")
    codegen.build(func, target="llvm")["main"](a, c, 3)
    np.testing.assert_array_equal(c, 4)


@pytest.mark.parametrize("extent", [4, 7])
def test_a_part_of_an_unbounded_size_is_still_cut_to_what_is_used(extent):
    func = parse(f"""
    @T.prim_func
    def main(a: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, {extent}), "float32")
        C = T.match_buffer(c, (n, {extent}), "float32")
        B = T.alloc_buffer((n, {extent}))
        for i in range(n):
            for j in range({extent}):
                with T.block("b"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + T.float32(1)
            for j in range({extent}):
                with T.block("c"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] * T.float32(2)
    """)
    assert f"T.allocate([{extent}]," in codegen.lower(func).script()
