"""decompose_reduction: the init of a reduction becomes a block of its own."""

from __future__ import annotations

import pytest

from schedule import Schedule, ScheduleError
from tensorir import parse
from tests.schedule.cases import program
from tests.schedule.transformation import apply

MATMUL = program("MATMUL_2", "decompose_reduction")


def decompose(block, depth):
    """Decompose a block at one of its loops, counted from outside."""
    return lambda sch: sch.decompose_reduction(block, sch.get_loops(block)[depth])


# ---------------------------------------------------------------------------------- where the init goes

BEFORE_K = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), B: T.Buffer((5, 6)), C: T.Buffer((8, 6))):
    for i, j in T.grid(8, 6):
        with T.block("C_init"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads()
            T.writes(C[vi, vj])
            C[vi, vj] = T.float32(0)
        for k in range(5):
            with T.block("C_update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(C[vi, vj], A[vi, vk], B[vk, vj])
                T.writes(C[vi, vj])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

BEFORE_J = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), B: T.Buffer((5, 6)), C: T.Buffer((8, 6))):
    for i in range(8):
        for j_init in range(6):
            with T.block("C_init"):
                vi, vj = T.axis.remap("SS", [i, j_init])
                C[vi, vj] = T.float32(0)
        for j, k in T.grid(6, 5):
            with T.block("C_update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

BEFORE_I = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), B: T.Buffer((5, 6)), C: T.Buffer((8, 6))):
    for i_init, j_init in T.grid(8, 6):
        with T.block("C_init"):
            vi, vj = T.axis.remap("SS", [i_init, j_init])
            C[vi, vj] = T.float32(0)
    for i, j, k in T.grid(8, 6, 5):
        with T.block("C_update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


@pytest.mark.parametrize(("depth", "after"), [(2, BEFORE_K), (1, BEFORE_J), (0, BEFORE_I)])
def test_the_init_stands_before_the_loop(depth, after):
    apply(MATMUL, decompose("C", depth), after)


# ------------------------------------------------------------------------------------------ refused


SUM = program("SUM", "decompose_reduction")


COPY = program("COPY_2", "decompose_reduction")


WRITTEN_TWICE = (
    SUM
    + """\
    for x in range(8):
        with T.block("again"):
            vx = T.axis.spatial(8, x)
            C[vx] = T.float32(0)
"""
)


def test_without_checks_only_a_loop_around_and_an_init_are_needed():
    sch = Schedule(parse(WRITTEN_TWICE), enable_check=False)
    sch.decompose_reduction("C", sch.get_loops("C")[1])
    assert sch.get(sch.get_block("C_init")).name_hint == "C_init"
    sch = Schedule(parse(COPY), enable_check=False)
    with pytest.raises(ScheduleError) as caught:
        sch.decompose_reduction("C", sch.get_loops("C")[0])
    assert caught.value.code == "NotReductionBlockError"
