"""Giving a block another index space."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import parse
from tests.schedule.transformation import apply, refused

COPY = """\
@T.prim_func
def main(A: T.Buffer((12, 5)), B: T.Buffer((12, 5))):
    for i, j in T.grid(12, 5):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""

TILED = """\
@T.prim_func
def main(A: T.Buffer((12, 5)), B: T.Buffer((12, 5))):
    for ax0, ax1, ax2 in T.grid(5, 3, 4):
        with T.block("B"):
            v0, v1, v2 = T.axis.remap("SSS", [ax0, ax1, ax2])
            B[v1 * 4 + v2, v0] = A[v1 * 4 + v2, v0] * T.float32(2)
"""

MATMUL = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), B: T.Buffer((6, 7)), C: T.Buffer((4, 7))):
    for i, j, k in T.grid(4, 7, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]
"""

FUSED = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), B: T.Buffer((6, 7)), C: T.Buffer((4, 7))):
    for ax0, ax1 in T.grid(28, 6):
        with T.block("C"):
            v0, v1 = T.axis.remap("SR", [ax0, ax1])
            with T.init():
                C[v0 // 7, v0 % 7] = T.float32(0)
            C[v0 // 7, v0 % 7] = C[v0 // 7, v0 % 7] + A[v0 // 7, v1] * B[v1, v0 % 7]
"""


def transform(block, index_map):
    return lambda sch: sch.transform_block_layout(block, index_map)


def test_tiles():
    sch = apply(COPY, transform("B", lambda i, j: (j, i // 4, i % 4)), TILED)
    assert sch.trace.as_python()[-1] == (
        "sch.transform_block_layout(block=b0, index_map=lambda i, j: (j, i // 4, i % 4,))"
    )


def test_fuses_axes_of_one_kind():
    apply(MATMUL, transform("C", lambda i, j, k: (i * 7 + j, k)), FUSED)


@pytest.mark.parametrize(
    "index_map",
    [
        lambda i, j, k: (k, j, i),
        lambda i, j, k: (3 - i, j, 5 - k),
        lambda i, j, k: (i, j, k // 2, k % 2),
        lambda *axes: axes[::-1],
        lambda i, j, k: (i, 0, j, k),
    ],
)
def test_bijective_maps_keep_the_result(index_map):
    apply(MATMUL, transform("C", index_map))


def test_axes_of_one_value_mix_with_any():
    before = COPY.replace("12", "1").replace('"SS"', '"RS"')
    apply(before, transform("B", lambda i, j: (i * 5 + j,)))


def test_block_survives_and_loops_expire():
    sch = Schedule(parse(COPY))
    block = sch.get_block("B")
    (i, _) = sch.get_loops(block)
    sch.transform_block_layout(block, lambda i, j: (j, i))
    assert [loop.loop_var.name for loop in map(sch.get, sch.get_loops(block))] == ["ax0", "ax1"]
    with pytest.raises(ValueError, match="transform-block-layout replaced it"):
        sch.get(i)


@pytest.mark.parametrize(
    ("index_map", "code"),
    [
        (lambda i, j, k: (i, j + k), "OpaqueNewIterTypeError"),
        (lambda i, j: (j, i), "IndexMapNotApplicableToBlockIterError"),
        (lambda i, j, k: (i // 2, j, k), "NotBijectiveAffineIndexMapError"),
        (lambda i, j, k: (i // 3, i % 3, j, k), "NotBijectiveAffineIndexMapError"),
        (lambda i, j, k: (i + 1, j, k), "NotBijectiveAffineIndexMapError"),
    ],
)
def test_refused_maps(index_map, code):
    refused(MATMUL, transform("C", index_map), code)


def test_bound_otherwise_is_refused():
    def call(sch):
        block = sch.get_block("B")
        sch.split(sch.get_loops(block)[0], [None, 4])
        sch.transform_block_layout(block, lambda i, j: (j, i))

    refused(COPY, call, "NotTrivialBindingError", "not variables of outer loops")


def test_shared_loops_are_refused():
    before = """\
@T.prim_func
def main(A: T.Buffer((4,)), B: T.Buffer((4,)), C: T.Buffer((4,))):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi]
"""
    refused(before, transform("B", lambda i: (i // 2, i % 2)), "NotSingleChildBlockError")


def test_loop_that_starts_elsewhere_is_refused():
    before = """\
@T.prim_func
def main(A: T.Buffer((4,)), B: T.Buffer((4,))):
    for i in range(1, 4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
"""
    refused(before, transform("B", lambda i: (3 - i,)), "LoopNotStartWithZeroError")


def test_a_loop_whose_range_depends_on_another_is_refused():
    before = """\
@T.prim_func
def main(A: T.Buffer((6, 6)), B: T.Buffer((6, 6))):
    for i in range(6):
        for j in range(i):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
"""
    refused(
        before,
        transform("B", lambda i, j: (j, i)),
        "DependentLoopError",
        "depends on a loop around it",
    )
