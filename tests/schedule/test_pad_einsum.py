"""pad_einsum: extents are rounded up, on copies of the buffers that are padded with zeros."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import Schedule
from tensorir import assert_structural_equal, parse
from tensorir.interp import interpret
from tests.schedule.transformation import apply, refused, scheduled

MATMUL = """\
@T.prim_func
def main(A: T.Buffer((6, 7)), B: T.Buffer((7, 5)), C: T.Buffer((6, 5))):
    for i, j, k in T.grid(6, 5, 7):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def pad(*padding, block="C"):
    return lambda sch: sch.pad_einsum(block, list(padding))


# ------------------------------------------------------------------------------------ what is padded


def test_all_axes():
    after = """\
@T.prim_func
def main(A: T.Buffer((6, 7)), B: T.Buffer((7, 5)), C: T.Buffer((6, 5))):
    A_pad = T.alloc_buffer((8, 8))
    B_pad = T.alloc_buffer((8, 16))
    C_pad = T.alloc_buffer((8, 16))
    for i0, i1 in T.grid(8, 8):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            A_pad[v0, v1] = T.if_then_else(v0 < 6 and v1 < 7, A[v0, v1], T.float32(0))
    for i0, i1 in T.grid(8, 16):
        with T.block("B_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            B_pad[v0, v1] = T.if_then_else(v0 < 7 and v1 < 5, B[v0, v1], T.float32(0))
    for i, j, k in T.grid(8, 16, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C_pad[vi, vj] = T.float32(0)
            C_pad[vi, vj] = C_pad[vi, vj] + A_pad[vi, vk] * B_pad[vk, vj]
    for i0, i1 in T.grid(6, 5):
        with T.block("C_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            C[v0, v1] = C_pad[v0, v1]
"""
    apply(MATMUL, pad(4, 16, 8), after)


def test_a_reduction_axis_leaves_the_output_alone():
    after = """\
@T.prim_func
def main(A: T.Buffer((6, 7)), B: T.Buffer((7, 5)), C: T.Buffer((6, 5))):
    A_pad = T.alloc_buffer((6, 8))
    B_pad = T.alloc_buffer((8, 5))
    for i0, i1 in T.grid(6, 8):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            A_pad[v0, v1] = T.if_then_else(v1 < 7, A[v0, v1], T.float32(0))
    for i0, i1 in T.grid(8, 5):
        with T.block("B_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            B_pad[v0, v1] = T.if_then_else(v0 < 7, B[v0, v1], T.float32(0))
    for i, j, k in T.grid(6, 5, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A_pad[vi, vk] * B_pad[vk, vj]
"""
    apply(MATMUL, pad(1, 5, 4), after)


def test_buffers_that_no_enlarged_axis_indexes_are_not_copied():
    after = """\
@T.prim_func
def main(A: T.Buffer((6, 7)), B: T.Buffer((7, 5)), C: T.Buffer((6, 5))):
    A_pad = T.alloc_buffer((10, 7))
    C_pad = T.alloc_buffer((10, 5))
    for i0, i1 in T.grid(10, 7):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            A_pad[v0, v1] = T.if_then_else(v0 < 6, A[v0, v1], T.float32(0))
    for i, j, k in T.grid(10, 5, 7):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C_pad[vi, vj] = T.float32(0)
            C_pad[vi, vj] = C_pad[vi, vj] + A_pad[vi, vk] * B[vk, vj]
    for i0, i1 in T.grid(6, 5):
        with T.block("C_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            C[v0, v1] = C_pad[v0, v1]
"""
    apply(MATMUL, pad(10, 1, 1), after)


@pytest.mark.parametrize("padding", [(1, 1, 1), (6, 5, 7), (3, 1, 7)])
def test_extents_that_are_multiples_already(padding):
    sch = apply(MATMUL, pad(*padding), MATMUL)
    assert [inst.kind.name for inst in sch.trace.insts] == ["GetBlock", "PadEinsum"]


def test_stages_before_and_after_stay_outside():
    before = """\
@T.prim_func
def main(X: T.Buffer((6, 3)), Y: T.Buffer((6,)), Z: T.Buffer((6,))):
    A = T.alloc_buffer((6, 3))
    C = T.alloc_buffer((6,))
    for i, k in T.grid(6, 3):
        with T.block("A"):
            vi, vk = T.axis.remap("SS", [i, k])
            A[vi, vk] = X[vi, vk] * T.float32(2)
    for i, k in T.grid(6, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
    for i in range(6):
        with T.block("Y"):
            vi = T.axis.spatial(6, i)
            Y[vi] = C[vi] + T.float32(1)
    for i in range(6):
        with T.block("Z"):
            vi = T.axis.spatial(6, i)
            Z[vi] = C[5 - vi] + A[vi, 0]
"""
    after = """\
@T.prim_func
def main(X: T.Buffer((6, 3)), Y: T.Buffer((6,)), Z: T.Buffer((6,))):
    A = T.alloc_buffer((6, 3))
    C = T.alloc_buffer((6,))
    A_pad = T.alloc_buffer((8, 4))
    C_pad = T.alloc_buffer((8,))
    for i, k in T.grid(6, 3):
        with T.block("A"):
            vi, vk = T.axis.remap("SS", [i, k])
            A[vi, vk] = X[vi, vk] * T.float32(2)
    for i0, i1 in T.grid(8, 4):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            A_pad[v0, v1] = T.if_then_else(v0 < 6 and v1 < 3, A[v0, v1], T.float32(0))
    for i, k in T.grid(8, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C_pad[vi] = T.float32(0)
            C_pad[vi] = C_pad[vi] + A_pad[vi, vk]
    for i0 in range(6):
        with T.block("C_pad"):
            v0 = T.axis.spatial(6, i0)
            C[v0] = C_pad[v0]
    for i in range(6):
        with T.block("Y"):
            vi = T.axis.spatial(6, i)
            Y[vi] = C[vi] + T.float32(1)
    for i in range(6):
        with T.block("Z"):
            vi = T.axis.spatial(6, i)
            Z[vi] = C[5 - vi] + A[vi, 0]
"""
    apply(before, pad(4, 2), after)


# ------------------------------------------------------------------------------------ kinds of blocks


def test_bytes_that_are_cast():
    before = """\
@T.prim_func
def main(A: T.Buffer((3, 6), "uint8"), B: T.Buffer((6,), "int8"), C: T.Buffer((3,), "int32")):
    for i, k in T.grid(3, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vk])
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((3, 6), "uint8"), B: T.Buffer((6,), "int8"), C: T.Buffer((3,), "int32")):
    A_pad = T.alloc_buffer((3, 8), "uint8")
    B_pad = T.alloc_buffer((8,), "int8")
    for i0, i1 in T.grid(3, 8):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            A_pad[v0, v1] = T.if_then_else(v1 < 6, A[v0, v1], T.uint8(0))
    for i0 in range(8):
        with T.block("B_pad"):
            v0 = T.axis.spatial(8, i0)
            B_pad[v0] = T.if_then_else(v0 < 6, B[v0], T.int8(0))
    for i, k in T.grid(3, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + T.Cast("int32", A_pad[vi, vk]) * T.Cast("int32", B_pad[vk])
"""
    apply(before, pad(1, 4), after)


def test_a_block_without_reduction_may_compute_anything():
    before = """\
@T.prim_func
def main(A: T.Buffer((6,)), C: T.Buffer((6,))):
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = T.exp(A[vi]) + T.float32(1)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((6,)), C: T.Buffer((6,))):
    A_pad = T.alloc_buffer((8,))
    C_pad = T.alloc_buffer((8,))
    for i0 in range(8):
        with T.block("A_pad"):
            v0 = T.axis.spatial(8, i0)
            A_pad[v0] = T.if_then_else(v0 < 6, A[v0], T.float32(0))
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C_pad[vi] = T.exp(A_pad[vi]) + T.float32(1)
    for i0 in range(6):
        with T.block("C_pad"):
            v0 = T.axis.spatial(6, i0)
            C[v0] = C_pad[v0]
"""
    apply(before, pad(8), after)


def test_indices_that_are_constant_and_parts_of_larger_buffers():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 9)), C: T.Buffer((9, 2))):
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi, 1] = A[2, vi] * T.float32(3)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 9)), C: T.Buffer((9, 2))):
    A_pad = T.alloc_buffer((4, 8))
    C_pad = T.alloc_buffer((8, 2))
    for i0, i1 in T.grid(4, 8):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            A_pad[v0, v1] = T.if_then_else(v1 < 6, A[v0, v1], T.float32(0))
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C_pad[vi, 1] = A_pad[2, vi] * T.float32(3)
    for i0, i1 in T.grid(6, 1):
        with T.block("C_pad"):
            v0 = T.axis.spatial(6, i0)
            v1 = T.axis.spatial(2, i1 + 1)
            C[v0, v1] = C_pad[v0, v1]
"""
    apply(before, pad(4), after)


@pytest.mark.parametrize(
    "update",
    [
        "C[vi] + A[vi, vk]",
        "A[vi, vk] + C[vi]",
        "C[vi] - A[vi, vk] * B[vk]",
        "C[vi] + (A[vi, vk] + B[vk])",
        "C[vi] + (A[vi, vk] - B[vk]) * T.float32(2)",
        "C[vi] + T.exp(B[0]) * A[vi, vk]",
    ],
)
def test_sums_to_which_zeros_add_nothing(update):
    before = f"""\
@T.prim_func
def main(A: T.Buffer((3, 6)), B: T.Buffer((6,)), C: T.Buffer((3,))):
    for i, k in T.grid(3, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = {update}
"""
    sch = apply(before, pad(1, 4))
    assert int(sch.get(sch.get_loops(sch.get_block("C"))[1]).extent) == 8


def test_loops_keep_their_kind_and_order():
    def call(sch):
        i, j, k = sch.get_loops(sch.get_block("C"))
        sch.reorder(k, j, i)
        sch.annotate(k, "pragma", 1)
        sch.vectorize(i)
        sch.pad_einsum("C", [4, 1, 4])

    sch = apply(MATMUL, call)
    k, j, i = (sch.get(loop) for loop in sch.get_loops(sch.get_block("C")))
    assert [(n.loop_var.name, int(n.extent), n.kind.name) for n in (k, j, i)] == [
        ("k", 8, "SERIAL"),
        ("j", 5, "SERIAL"),
        ("i", 8, "VECTORIZED"),
    ]
    assert dict(k.annotations)


def test_axes_that_keep_their_extent_may_be_split():
    def call(sch):
        i, _, _ = sch.get_loops(sch.get_block("C"))
        sch.split(i, [2, 3])
        sch.pad_einsum("C", [3, 8, 8])

    sch = apply(MATMUL, call)
    extents = [int(sch.get(loop).extent) for loop in sch.get_loops(sch.get_block("C"))]
    assert extents == [2, 3, 8, 8]


def test_the_scope_of_memory_is_kept():
    before = MATMUL.replace("T.Buffer((6, 7))", 'T.Buffer((6, 7), scope="shared")')
    sch = apply(before, pad(4, 1, 1))
    buffers = {b.name: b for b in sch.get(sch.get_block("root")).alloc_buffers}
    assert {name: b.scope() for name, b in buffers.items()} == {
        "A_pad": "shared",
        "C_pad": "global",
    }


def test_in_a_block_the_buffers_belong_to_it():
    before = """\
@T.prim_func
def main(A: T.Buffer((2, 6)), C: T.Buffer((2, 6))):
    for i in range(2):
        with T.block("outer"):
            vi = T.axis.spatial(2, i)
            T.reads(A[0, 0:6])
            T.writes(C[0, 0:6])
            for j in range(6):
                with T.block("C"):
                    vj = T.axis.spatial(6, j)
                    T.reads(A[0, vj])
                    T.writes(C[0, vj])
                    C[0, vj] = A[0, vj] * T.float32(2)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((2, 6)), C: T.Buffer((2, 6))):
    for i in range(2):
        with T.block("outer"):
            vi = T.axis.spatial(2, i)
            T.reads(A[0, 0:6])
            T.writes(C[0, 0:6])
            A_pad = T.alloc_buffer((2, 8))
            C_pad = T.alloc_buffer((2, 8))
            for i0, i1 in T.grid(2, 8):
                with T.block("A_pad"):
                    v0, v1 = T.axis.remap("SS", [i0, i1])
                    A_pad[v0, v1] = T.if_then_else(v1 < 6, A[v0, v1], T.float32(0))
            for j in range(8):
                with T.block("C"):
                    vj = T.axis.spatial(8, j)
                    C_pad[0, vj] = A_pad[0, vj] * T.float32(2)
            for i0, i1 in T.grid(1, 6):
                with T.block("C_pad"):
                    v0 = T.axis.spatial(1, i0)
                    v1 = T.axis.spatial(6, i1)
                    C[v0, v1] = C_pad[v0, v1]
"""
    apply(before, pad(4), after)


@settings(max_examples=20)
@given(
    st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
)
def test_all_paddings_compute_the_same(extents, padding):
    m, n, d = extents
    text = (
        MATMUL.replace("(6, 7)", f"({m}, {d})")
        .replace("(7, 5)", f"({d}, {n})")
        .replace("(6, 5)", f"({m}, {n})")
        .replace("grid(6, 5, 7)", f"grid({m}, {n}, {d})")
    )
    sch = apply(text, pad(*padding))
    loops = sch.get_loops(sch.get_block("C"))
    assert [int(sch.get(loop).extent) for loop in loops] == [
        -(-extent // unit) * unit for extent, unit in zip(extents, padding, strict=True)
    ]


# ------------------------------------------------------------------------------------- old values

ACCUMULATES = """\
@T.prim_func
def main(A: T.Buffer((6, 9)), C: T.Buffer((6,))):
    for i, k in T.grid(6, 9):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            C[vi] = C[vi] + A[vi, vk]
"""


def test_a_sum_that_is_continued_is_filled_first():
    after = """\
@T.prim_func
def main(A: T.Buffer((6, 9)), C: T.Buffer((6,))):
    A_pad = T.alloc_buffer((8, 12))
    C_pad = T.alloc_buffer((8,))
    for i0, i1 in T.grid(8, 12):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            A_pad[v0, v1] = T.if_then_else(v0 < 6 and v1 < 9, A[v0, v1], T.float32(0))
    for i0 in range(8):
        with T.block("C_pad"):
            v0 = T.axis.spatial(8, i0)
            C_pad[v0] = T.if_then_else(v0 < 6, C[v0], T.float32(0))
    for i, k in T.grid(8, 12):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            C_pad[vi] = C_pad[vi] + A_pad[vi, vk]
    for i0 in range(6):
        with T.block("C_pad"):
            v0 = T.axis.spatial(6, i0)
            C[v0] = C_pad[v0]
"""
    apply(ACCUMULATES, pad(4, 4), after)


def test_a_condition_in_the_nest_is_refused():
    before = """\
@T.prim_func
def main(A: T.Buffer((6,)), C: T.Buffer((6,))):
    for i in range(6):
        if i % 2 == 1:
            with T.block("C"):
                vi = T.axis.spatial(6, i)
                C[vi] = A[vi]
"""
    refused(before, pad(4), "NonEinsumError", "there is a condition or a binding", ["block C"])


def test_a_predicate_that_would_read_beyond_a_buffer_is_refused():
    before = """\
@T.prim_func
def main(A: T.Buffer((6,)), C: T.Buffer((6,))):
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            T.where(A[i] > T.float32(0))
            C[vi] = A[vi]
"""
    refused(before, pad(4), "NonEinsumError", "its predicate reads memory", ["block C"])


@pytest.mark.parametrize("change", ["range", "predicate"])
def test_a_part_of_the_output_that_is_not_computed_stays(change):
    before = """\
@T.prim_func
def main(A: T.Buffer((6, 5)), C: T.Buffer((6, 5))):
    for i, j in T.grid(6, 5):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            vj = T.axis.spatial(5, j)
            C[vi, vj] = A[vi, vj]
"""
    if change == "range":
        before = before.replace("T.grid(6, 5)", "T.grid(3, 5)")
    else:
        before = before.replace("(5, j)\n", "(5, j)\n            T.where(i < 3)\n")
    sch = apply(before, pad(1, 4))
    assert [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))] == [
        "A_pad",
        "C_pad",
        "C",
        "C_pad",
    ]


# ---------------------------------------------------------------------------------- unknown extents

SYMBOLIC_MATMUL = """\
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle, n: T.int32, d: T.int32):
    A = T.match_buffer(a, (n, d))
    B = T.match_buffer(b, (d, 5))
    C = T.match_buffer(c, (n, 5))
    for i, j, k in T.grid(n, 5, d):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def test_symbolic_extents():
    after = """\
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle, n: T.int32, d: T.int32):
    A = T.match_buffer(a, (n, d))
    B = T.match_buffer(b, (d, 5))
    C = T.match_buffer(c, (n, 5))
    A_pad = T.alloc_buffer(((n + 7) // 8 * 8, d))
    C_pad = T.alloc_buffer(((n + 7) // 8 * 8, 5))
    for i0, i1 in T.grid((n + 7) // 8 * 8, d):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            A_pad[v0, v1] = T.if_then_else(v0 < n, A[v0, v1], T.float32(0))
    for i, j, k in T.grid((n + 7) // 8 * 8, 5, d):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C_pad[vi, vj] = T.float32(0)
            C_pad[vi, vj] = C_pad[vi, vj] + A_pad[vi, vk] * B[vk, vj]
    for i0, i1 in T.grid(n, 5):
        with T.block("C_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            C[v0, v1] = C_pad[v0, v1]
"""
    scheduled(SYMBOLIC_MATMUL, pad(8, 1, 1), after)


@pytest.mark.parametrize("padding", [(8, 1, 1), (1, 4, 4), (4, 3, 8)])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (5, 7), (8, 4)])
def test_symbolic_extents_compute_the_same(padding, n, d):
    sch = scheduled(SYMBOLIC_MATMUL, pad(*padding))
    rng = np.random.default_rng(0)
    a, b = rng.random((n, d), "float32"), rng.random((d, 5), "float32")
    c = np.zeros((n, 5), "float32")
    interpret(sch.mod, a, b, c, n, d)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_symbolic_extents_that_are_multiples_already():
    text = SYMBOLIC_MATMUL.replace("(n, d)", "(n * 8, d)").replace("(n, 5", "(n * 8, 5")
    scheduled(text, pad(4, 5, 1), text)


# ------------------------------------------------------------------- padding that adds nothing anyway


@pytest.mark.parametrize(
    ("update", "dtype"),
    [
        ("T.max(C[vi], A[vi, vk])", "uint8"),
        ("C[vi] * T.if_then_else(vk < 6, A[vi, vk], T.float32(1))", "float32"),
        ('T.max(C[vi], T.if_then_else(vk < 6, A[vi, vk], T.min_value("float32")))', "float32"),
        ("C[vi] + T.if_then_else(vk < 6, T.exp(A[vi, vk]), T.float32(0))", "float32"),
        ("C[vi] + T.Select(6 <= vk, T.float32(0), T.exp(A[vi, vk]))", "float32"),
        ('T.max(C[vi], T.cast(A[vi, vk] * T.uint8(2), "uint8"))', "uint8"),
    ],
)
def test_steps_beyond_the_extent_that_change_nothing(update, dtype):
    zero = f"T.{dtype}(0)"
    before = f"""\
@T.prim_func
def main(A: T.Buffer((3, 6), "{dtype}"), C: T.Buffer((3,), "{dtype}")):
    for i, k in T.grid(3, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {zero}
            C[vi] = {update}
"""
    sch = apply(before, pad(1, 4))
    assert int(sch.get(sch.get_loops(sch.get_block("C"))[1]).extent) == 8


# -------------------------------------------------------------- steps beyond the extent of a reduction


def reduced(update, init, dtype="float32"):
    return f"""\
@T.prim_func
def main(A: T.Buffer((3, 6), "{dtype}"), B: T.Buffer((3,), "{dtype}"), C: T.Buffer((3,), "{dtype}")):
    for i, k in T.grid(3, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {init}
            C[vi] = {update}
"""


def padded_reduction(update, init, pad, dtype="float32"):
    return f"""\
@T.prim_func
def main(A: T.Buffer((3, 6), "{dtype}"), B: T.Buffer((3,), "{dtype}"), C: T.Buffer((3,), "{dtype}")):
    A_pad = T.alloc_buffer((3, 8), "{dtype}")
    for i0, i1 in T.grid(3, 8):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            A_pad[v0, v1] = T.if_then_else(v1 < 6, A[v0, v1], {pad})
    for i, k in T.grid(3, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {init}
            C[vi] = {update}
"""


ZERO = "T.float32(0)"
LOWEST = 'T.min_value("float32")'


@pytest.mark.parametrize(
    ("update", "init", "padded", "filled"),
    [
        # 0 * inf is no 0
        (
            "C[vi] + A[vi, vk] * B[vi]",
            ZERO,
            "C[vi] + T.if_then_else(vk < 6, A_pad[vi, vk] * B[vi], T.float32(0))",
            ZERO,
        ),
        (
            "C[vi] - T.exp(A[vi, vk])",
            ZERO,
            "C[vi] - T.if_then_else(vk < 6, T.exp(A_pad[vi, vk]), T.float32(0))",
            ZERO,
        ),
        ("C[vi] + A[vi, vk] * T.float32(2)", ZERO, "C[vi] + A_pad[vi, vk] * T.float32(2)", ZERO),
        ("C[vi] * A[vi, vk]", "T.float32(1)", "C[vi] * A_pad[vi, vk]", "T.float32(1)"),
        ("T.max(C[vi], A[vi, vk])", LOWEST, "T.max(C[vi], A_pad[vi, vk])", 'T.float32("-inf")'),
        ("T.min(A[vi, vk], C[vi])", 'T.max_value("float32")', "T.min(A_pad[vi, vk], C[vi])",
         'T.float32("inf")'),
        # what the accumulator never is below
        ("T.max(C[vi], A[vi, vk])", ZERO, "T.max(C[vi], A_pad[vi, vk])", ZERO),
        (
            "T.max(C[vi], A[vi, vk] * B[vi])",
            LOWEST,
            'T.max(C[vi], T.if_then_else(vk < 6, A_pad[vi, vk] * B[vi], T.float32("-inf")))',
            ZERO,
        ),
    ],
)  # fmt: skip
def test_added_steps_combine_with_the_neutral_element(update, init, padded, filled):
    after = padded_reduction(padded, init, filled)
    apply(reduced(update, init), pad(1, 4), after)


def test_the_least_integer_pads_a_maximum():
    update, lowest = "T.max(C[vi], A[vi, vk])", 'T.min_value("int8")'
    after = padded_reduction(update.replace("A[", "A_pad["), lowest, lowest, "int8")
    apply(reduced(update, lowest, "int8"), pad(1, 4), after)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_padding_adds_nothing_to_what_is_infinite(value):
    sch = Schedule(parse(reduced("C[vi] + A[vi, vk] * B[vi]", ZERO)))
    sch.pad_einsum("C", [1, 4])
    a, b, c = np.ones((3, 6), "float32"), np.full(3, value, "float32"), np.zeros(3, "float32")
    interpret(sch.mod, a, b, c)
    np.testing.assert_array_equal(c, b)


def test_a_maximum_of_what_is_minus_infinity():
    continued = reduced("T.max(C[vi], A[vi, vk])", ZERO).replace(
        "            with T.init():\n                C[vi] = T.float32(0)\n", ""
    )
    sch = Schedule(parse(continued))
    sch.pad_einsum("C", [1, 4])
    a, c = np.full((3, 6), -np.inf, "float32"), np.full(3, -np.inf, "float32")
    interpret(sch.mod, a, np.zeros(3, "float32"), c)
    assert np.all(c == -np.inf)


# ------------------------------------------------------------------------------------- shared loops

SHARES_A_LOOP = """\
@T.prim_func
def main(A: T.Buffer((6,)), C: T.Buffer((6,)), D: T.Buffer((6,))):
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = A[vi]
        with T.block("D"):
            vi = T.axis.spatial(6, i)
            D[vi] = A[vi]
"""


def test_other_blocks_in_the_nest_do_not_run_for_longer():
    after = """\
@T.prim_func
def main(A: T.Buffer((6,)), C: T.Buffer((6,)), D: T.Buffer((6,))):
    A_pad = T.alloc_buffer((8,))
    C_pad = T.alloc_buffer((8,))
    for i0 in range(8):
        with T.block("A_pad"):
            v0 = T.axis.spatial(8, i0)
            A_pad[v0] = T.if_then_else(v0 < 6, A[v0], T.float32(0))
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C_pad[vi] = A_pad[vi]
        with T.block("D"):
            vi = T.axis.spatial(6, i)
            T.where(i < 6)
            D[vi] = A[vi]
    for i0 in range(6):
        with T.block("C_pad"):
            v0 = T.axis.spatial(6, i0)
            C[v0] = C_pad[v0]
"""
    apply(SHARES_A_LOOP, pad(4), after)


FUSED = """\
@T.prim_func
def main(X: T.Buffer((6, 7)), W: T.Buffer((7,)), Y: T.Buffer((6,))):
    A = T.alloc_buffer((6, 7))
    C = T.alloc_buffer((6,))
    for i in range(6):
        for k in range(7):
            with T.block("A"):
                vi, vk = T.axis.remap("SS", [i, k])
                A[vi, vk] = X[vi, vk] + T.float32(1)
        for k in range(7):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk] * W[vk]
        with T.block("Y"):
            vi = T.axis.spatial(6, i)
            Y[vi] = C[vi] * T.float32(2)
"""


def test_what_blocks_of_a_nest_exchange_is_in_padded_buffers():
    after = """\
@T.prim_func
def main(X: T.Buffer((6, 7)), W: T.Buffer((7,)), Y: T.Buffer((6,))):
    A_pad = T.alloc_buffer((8, 8))
    W_pad = T.alloc_buffer((8,))
    C_pad = T.alloc_buffer((8,))
    for i0, i1 in T.grid(8, 8):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            A_pad[v0, v1] = T.float32(0)
    for i0 in range(8):
        with T.block("W_pad"):
            v0 = T.axis.spatial(8, i0)
            W_pad[v0] = T.if_then_else(v0 < 7, W[v0], T.float32(0))
    for i in range(8):
        for k in range(7):
            with T.block("A"):
                vi = T.axis.spatial(6, i)
                vk = T.axis.spatial(7, k)
                T.where(i < 6)
                A_pad[vi, vk] = X[vi, vk] + T.float32(1)
        for k in range(8):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C_pad[vi] = T.float32(0)
                C_pad[vi] = C_pad[vi] + A_pad[vi, vk] * W_pad[vk]
        with T.block("Y"):
            vi = T.axis.spatial(6, i)
            T.where(i < 6)
            Y[vi] = C_pad[vi] * T.float32(2)
"""
    apply(FUSED, pad(4, 4), after)


def test_what_is_used_outside_of_the_nest_is_written_back():
    before = FUSED.replace("Y: T.Buffer((6,))", "Y: T.Buffer((6,)), Z: T.Buffer((6, 7))")
    before += """\
    for i, k in T.grid(6, 7):
        with T.block("Z"):
            vi, vk = T.axis.remap("SS", [i, k])
            Z[vi, vk] = A[vi, vk]
"""
    sch = apply(before, pad(1, 4))
    assert [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))] == [
        "A_pad",
        "W_pad",
        "A",
        "C",
        "Y",
        "A_pad",
        "Z",
    ]


def test_a_reduction_and_its_init_block_share_a_nest():
    def call(sch):
        sch.decompose_reduction("C", sch.get_loops(sch.get_block("C"))[1])
        sch.pad_einsum("C_update", [4, 4])

    apply(reduced("C[vi] + A[vi, vk]", ZERO), call)


def test_a_block_that_uses_more_of_a_padded_buffer_is_refused():
    before = FUSED.replace("C = T.alloc_buffer((6,))", "C = T.alloc_buffer((9,))")
    words = 'with block "Y", which also uses C, of which the axes index a part only'
    refused(before, pad(4, 1), "NotOnlyChildError", words, ["block C", "block Y"])


# --------------------------------------------------------------------------------- handles and trace


def test_handles():
    sch = Schedule(parse(MATMUL), debug_mask="all")
    block = sch.get_block("C")
    loops = sch.get_loops(block)
    sch.pad_einsum(block, [4, 4, 4])
    assert sch.get(block).name_hint == "C"
    assert [int(sch.get(loop).extent) for loop in loops] == [8, 8, 8]
    assert [sch.get(b).name_hint for b in sch.get_producers(block)] == ["A_pad", "B_pad"]
    assert [sch.get(b).name_hint for b in sch.get_consumers(block)] == ["C_pad"]


def test_stages_are_scheduled_like_others():
    def call(sch):
        sch.pad_einsum("C", [4, 8, 8])
        sch.compute_inline("A_pad")
        sch.compute_at("B_pad", sch.get_loops(sch.get_block("C"))[1])
        sch.vectorize(sch.get_loops(sch.get_block("C_pad"))[1])

    apply(MATMUL, call)


def test_trace():
    sch = apply(MATMUL, pad(4, 1, 8))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="C", func_name="main")',
        "sch.pad_einsum(block=b0, padding=[4, 1, 8])",
    ]
    assert sch.trace.as_json() == [
        [
            ["GetBlock", [], ["C", "main"], ["b0"]],
            ["PadEinsum", ["b0"], [[4, 1, 8]], []],
        ],
        [],
    ]


# ------------------------------------------------------------------------------------------- refused


def summed(
    update="C[vi] = C[vi] + A[vi, vk]",
    axes='vi, vk = T.axis.remap("SR", [i, k])',
    init="C[vi] = T.float32(0)",
):
    return f"""\
@T.prim_func
def main(A: T.Buffer((6, 9)), B: T.Buffer((9,)), C: T.Buffer((6,))):
    for i, k in T.grid(6, 9):
        with T.block("C"):
            {axes}
            with T.init():
                {init}
            {update}
"""


OVERWRITES = """\
@T.prim_func
def main(A: T.Buffer((6,)), C: T.Buffer((6,))):
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = A[vi]
    for i in range(6):
        with T.block("A"):
            vi = T.axis.spatial(6, i)
            A[vi] = T.float32(0)
"""

VIEW = """\
@T.prim_func
def main(A: T.Buffer((6,)), C: T.Buffer((6,))):
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            T.reads(A[vi])
            T.writes(C[vi])
            V = T.match_buffer(A[vi], (), offset_factor=1)
            C[vi] = V[()]
"""


@pytest.mark.parametrize(
    ("before", "call", "code", "words", "marked"),
    [
        (MATMUL, pad(block="root"), "RootBlockError", "root block", ["block root"]),
        (
            OVERWRITES,
            pad(4),
            "NotStagePipelineError",
            'block "A" overwrites A, which block "C" reads before',
            ["block root", "block A"],
        ),
        (
            MATMUL,
            pad(4, 4),
            "InvalidPaddingError",
            'the padding [4, 4] does not fit block "C", which has 3 axes',
            ["block C"],
        ),
        (MATMUL, pad(4, 0, 4), "InvalidPaddingError", "[4, 0, 4]", ["block C"]),
        (MATMUL, pad(4, -4, 4), "InvalidPaddingError", "one positive number", ["block C"]),
    ],
)
def test_refused(before, call, code, words, marked):
    refused(before, call, code, words, marked)


@pytest.mark.parametrize(
    ("before", "padding", "reason"),
    [
        (
            summed(
                axes="vi = T.axis.spatial(6, i)\n            vk = T.axis.reduce((1, 9), k)",
            ).replace("grid(6, 9)", "grid(6, 9)"),
            (4, 4),
            "axis vk does not start at 0",
        ),
        (
            summed("C[vi] = C[vi] + A[vi, vk]\n            C[vi] = C[vi] + B[vk]"),
            (4, 4),
            "its body is not a single store",
        ),
        (
            summed("if vk < 5:\n                C[vi] = C[vi] + A[vi, vk]"),
            (4, 4),
            "its body is not a single store",
        ),
        (VIEW, (4,), "it has a match_buffer"),
        (
            summed(
                axes='vi, vk = T.axis.remap("SR", [i, k])\n            T.reads(A[vi, 0:9])\n'
                "            T.writes(C[vi])"
            ),
            (4, 4),
            "it declares to touch more than one element of A",
        ),
        (
            summed(
                "C[vi] = C[vi] + A[vi, vk] * A[vk, vi]",
                axes='vi, vk = T.axis.remap("SR", [i, k])\n            T.reads(A[vi, vk])\n'
                "            T.writes(C[vi])",
            ),
            (4, 4),
            "it indexes A in several ways",
        ),
        (
            summed("C[vi] = C[vi] + A[vi, 8 - vk]"),
            (4, 4),
            "the index `8 - vk` of A is not an axis",
        ),
        (summed("C[vi] = C[vi] + A[vi, vi]"), (4, 4), "an axis occurs twice in A"),
        (summed("C[vi] = A[vi, vk] - C[vi]"), (1, 4), "`A[vi, vk] - C[vi]` is not a sum, product"),
        (
            summed("C[vi] = C[vi] + A[vi, vk] + T.float32(1)"),
            (1, 4),
            "`C[vi] + A[vi, vk] + T.float32(1.0)` is not a sum, product, maximum or minimum of the "
            "stored element and a term for which added steps of axis vk are neutral",
        ),
        (
            summed(axes="vi = T.axis.spatial(6, i)\n            vk = T.axis.reduce(9, 8 - k)"),
            (1, 4),
            "axis vk is bound to `8 - k`, no loop over all of its domain",
        ),
        (
            summed(axes="vi = T.axis.spatial(6, i)\n            vk = T.axis.reduce(9, k)").replace(
                "grid(6, 9)", "grid(6, 8)"
            ),
            (1, 4),
            "axis vk is bound to `k`, no loop over all of its domain",
        ),
        (
            summed(axes='vi, vk = T.axis.remap("SR", [i, i])').replace("(6, 9)", "(9, 9)").replace(
                "(6, i)", "(9, i)"
            ),
            (4, 4),
            "loop i drives several axes",
        ),
    ],
)  # fmt: skip
def test_what_is_no_einsum(before, padding, reason):
    words = f'block "C" is not an Einstein summation that can be padded: {reason}'
    refused(before, pad(*padding), "NonEinsumError", words, ["block C"])


def test_without_checks_the_block_may_continue_a_sum():
    sch = Schedule(parse(ACCUMULATES), enable_check=False)
    sch.pad_einsum("C", [4, 4])
    assert "C_pad[vi] = C_pad[vi] + A_pad[vi, vk]" in sch.mod.script()


def test_what_is_no_list_of_numbers():
    sch = Schedule(parse(MATMUL))
    program = sch.mod["main"]
    with pytest.raises(TypeError, match=r"Schedule\.pad_einsum: `padding`"):
        sch.pad_einsum("C", [4, 4, 4.5])
    assert_structural_equal(sch.mod["main"], program)


def test_a_loop_that_also_drives_another_axis_is_refused():
    before = """\
@T.prim_func
def main(A: T.Buffer((6, 1)), C: T.Buffer((6,))):
    for i_0, i_1 in T.grid(1, 6):
        with T.block("C"):
            vk = T.axis.reduce(1, i_0)
            vi = T.axis.spatial(6, i_0 * 6 + i_1)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""
    refused(before, pad(5, 1), "NonEinsumError", "loop i_0 drives several axes", ["block C"])


ARGMAX = """\
@T.prim_func
def main(A: T.Buffer((6, 9)), P: T.Buffer((6,), "int32"), Q: T.Buffer((6,))):
    for i, k in T.grid(6, 9):
        with T.block("at"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                P[vi] = -1
                Q[vi] = T.min_value("float32")
            p: T.int32 = T.Select(Q[vi] >= A[vi, vk], P[vi], vk)
            q: T.float32 = T.max(Q[vi], A[vi, vk])
            P[vi] = p
            Q[vi] = q
"""


def test_the_values_of_a_tuple_are_its_identity_beyond_the_extent():
    after = """\
@T.prim_func
def main(A: T.Buffer((6, 9)), P: T.Buffer((6,), "int32"), Q: T.Buffer((6,))):
    for i, k in T.grid(6, 12):
        with T.block("at"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                P[vi] = -1
                Q[vi] = T.min_value("float32")
            p: T.int32 = T.Select(Q[vi] >= T.if_then_else(vk < 9, T.if_then_else(vk < 9, A[vi, vk], T.float32(0)), T.min_value("float32")), P[vi], T.if_then_else(vk < 9, vk, -1))
            q: T.float32 = T.max(Q[vi], T.if_then_else(vk < 9, T.if_then_else(vk < 9, A[vi, vk], T.float32(0)), T.min_value("float32")))
            P[vi] = p
            Q[vi] = q
"""

    def call(sch):
        sch.pad_einsum(sch.get_block("at"), [1, 4])
        sch.compute_inline(sch.get_block("A_pad"))

    apply(ARGMAX, call, after)


def test_the_spatial_axes_of_a_tuple_are_padded():
    sch = Schedule(parse(ARGMAX), debug_mask="all")
    sch.pad_einsum("at", [4, 1])
    names = [sch.get(block).name_hint for block in sch.get_child_blocks(sch.get_block("root"))]
    assert names == ["A_pad", "at", "P_pad", "Q_pad"]
    a = np.random.default_rng(0).random((6, 9), np.float32)
    where, largest = np.zeros(6, np.int32), np.zeros(6, np.float32)
    interpret(sch.mod["main"], a, where, largest)
    np.testing.assert_array_equal(where, a.argmax(1))
    np.testing.assert_array_equal(largest, a.max(1))


def test_a_tuple_without_a_known_combination_is_refused():
    before = ARGMAX.replace("T.max(Q[vi], A[vi, vk])", "Q[vi] - A[vi, vk]")
    words = "no known reducer has the identity"
    refused(before, pad(1, 4, block="at"), "NoMatchedReducerError", words, ["block at"])
