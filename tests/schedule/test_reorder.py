"""Reordering loops."""

from __future__ import annotations

import itertools

import pytest

from schedule import Schedule
from tensorir import assert_structural_equal, parse
from tests.schedule.cases import program
from tests.schedule.programs import MATMUL
from tests.schedule.transformation import apply, refused

REPEATED = program("REPEATED", "reorder")


def reorder(block, *depths):
    def call(sch):
        loops = sch.get_loops(sch.get_block(block))
        sch.reorder(*(loops[depth] for depth in depths))

    return call


# ---------------------------------------------------------------------------------------- the nest


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_every_order_computes_the_same(order):
    def call(sch):
        i, j, k = sch.get_loops(sch.get_block("C"))
        loops = [i, j, *sch.split(k, [None, 2])]
        sch.reorder(*(loops[n] for n in order))

    sch = apply(MATMUL, call)
    names = [sch.get(loop).loop_var.name for loop in sch.get_loops(sch.get_block("C"))]
    assert names == [("i", "j", "k_0", "k_1")[n] for n in order]


# ----------------------------------------------------------------------------------------- refused


def test_without_checks_repeated_steps_are_accepted():
    sch = Schedule(parse(REPEATED), enable_check=False)
    reorder("C", 2, 1)(sch)
    after = REPEATED.replace("i, r, k in T.grid(3, 2, 5)", "i, k, r in T.grid(3, 5, 2)")
    assert_structural_equal(sch.mod["main"], parse(after))


NESTED = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((4,))):
    for j, k in T.grid(3, 6):
        with T.block("outer"):
            vj, vk = T.axis.remap("SR", [j, k])
            T.reads(A[0:4, vk])
            T.writes(C[0:4])
            for i in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(4, i)
                    vs = T.axis.reduce(6, vk)
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + A[vi, vs]
"""
OPAQUE_NESTED = NESTED.replace(
    """            vj, vk = T.axis.remap("SR", [j, k])
            T.reads(A[0:4, vk])
""",
    "            T.reads(A[0:4, 0:6])\n",
).replace("T.axis.reduce(6, vk)", "T.axis.reduce(6, k)")


@pytest.mark.parametrize("before", [NESTED, OPAQUE_NESTED])
def test_steps_of_a_reduction_inside_a_block_are_not_repeated(before):
    words = "loop `j` runs the same steps several times"
    refused(before, reorder("outer", 1, 0), "BlockPropertyError", words, marked=["loop k"])
