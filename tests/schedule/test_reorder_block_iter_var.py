"""Reordering the axes of a block."""

from __future__ import annotations

import itertools

import pytest

from schedule import Schedule
from tensorir import parse
from tests.schedule.programs import MATMUL
from tests.schedule.transformation import apply, refused

AXES_TURNED = """\
@T.prim_func
def main(A: T.Buffer((3, 5)), B: T.Buffer((5, 4)), C: T.Buffer((3, 4))):
    for i, j, k in T.grid(3, 4, 5):
        with T.block("C"):
            vk, vi, vj = T.axis.remap("RSS", [k, i, j])
            T.reads(A[vi, vk], B[vk, vj])
            T.writes(C[vi, vj])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

PLAIN = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            T.reads(A[i])
            T.writes(B[i])
            B[i] = A[i]
"""


def reorder_axes(block, new_order):
    return lambda sch: sch.reorder_block_iter_var(sch.get_block(block), new_order)


def test_axes_and_bindings_move_together_and_loops_stay():
    apply(MATMUL, reorder_axes("C", [2, 0, 1]), AXES_TURNED)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_every_order_computes_the_same(order):
    sch = apply(MATMUL, reorder_axes("C", list(order)))
    block = sch.get(sch.get_block("C"))
    assert [axis.var.name for axis in block.iter_vars] == [("vi", "vj", "vk")[n] for n in order]
    loops = [sch.get(loop).loop_var.name for loop in sch.get_loops(sch.get_block("C"))]
    assert loops == ["i", "j", "k"]


def test_the_order_that_is_there_changes_nothing():
    apply(MATMUL, reorder_axes("C", [0, 1, 2]), MATMUL)


def test_a_block_without_axes():
    apply(PLAIN, reorder_axes("B", []), PLAIN)


def test_predicate_and_annotations_stay():
    before = """\
@T.prim_func
def main(A: T.Buffer((5, 4)), B: T.Buffer((5, 4))):
    for i, j in T.grid(5, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i < 3)
            T.block_attr({"pragma": 1})
            B[vi, vj] = A[vi, vj] + T.float32(1)
"""
    after = before.replace(
        'vi, vj = T.axis.remap("SS", [i, j])', 'vj, vi = T.axis.remap("SS", [j, i])'
    )
    apply(before, reorder_axes("B", [1, 0]), after)


def test_handles_stay():
    sch = Schedule(parse(MATMUL), debug_mask="all")
    block = sch.get_block("C")
    loops = sch.get_loops(block)
    sch.reorder_block_iter_var(block, [1, 0, 2])
    assert sch.get(block).name_hint == "C"
    assert [sch.get(loop) for loop in sch.get_loops(block)] == [sch.get(loop) for loop in loops]
    sch.reorder_block_iter_var(block, (1, 0, 2))
    assert [axis.var.name for axis in sch.get(block).iter_vars] == ["vi", "vj", "vk"]


def test_trace():
    sch = apply(MATMUL, reorder_axes("C", [2, 0, 1]))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="C", func_name="main")',
        "sch.reorder_block_iter_var(block=b0, new_order=[2, 0, 1])",
    ]
    assert sch.trace.as_json() == [
        [
            ["GetBlock", [], ["C", "main"], ["b0"]],
            ["ReorderBlockIterVar", ["b0", [2, 0, 1]], [], []],
        ],
        [],
    ]


@pytest.mark.parametrize(
    "order", [[0, 1], [0, 1, 2, 3], [0, 0, 1], [1, 2, 3], [-1, 0, 1], []], ids=str
)
def test_an_order_that_is_no_permutation(order):
    words = f'{order} is not a valid permutation of the 3 axes of block "C"'
    refused(MATMUL, reorder_axes("C", order), "InvalidReorderIndex", words, ["block C"])


@pytest.mark.parametrize(
    ("order", "words"),
    [(2, "`new_order` takes a list of ints"), ([0, "1", 2], r"`new_order\[1\]` takes an int")],
)
def test_an_order_of_the_wrong_type(order, words):
    sch = Schedule(parse(MATMUL))
    block = sch.get_block("C")
    with pytest.raises(TypeError, match=words):
        sch.reorder_block_iter_var(block, order)
    assert len(sch.trace.insts) == 1
