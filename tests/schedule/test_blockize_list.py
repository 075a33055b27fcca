"""blockize of a list: blocks that follow one another become the body of one block."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import parse
from tests.schedule.programs import TILED_STAGES, TILES
from tests.schedule.transformation import apply, refused


def together(*names, **options):
    return lambda sch: sch.blockize([sch.get_block(name) for name in names], **options)


def test_two_blocks_in_a_loop():
    after = """\
@T.prim_func
def main(A: T.Buffer((33,)), B: T.Buffer((32,)), C: T.Buffer((32,))):
    for i_0 in range(4):
        with T.block("outer_B_C_"):
            vi_o = T.axis.spatial(4, i_0)
            T.reads(A[vi_o * 8:vi_o * 8 + 9], B[vi_o * 8:vi_o * 8 + 8])
            T.writes(B[vi_o * 8:vi_o * 8 + 8], C[vi_o * 8:vi_o * 8 + 8])
            for i_1 in range(8):
                with T.block("B"):
                    vi_i = T.axis.spatial(8, i_1)
                    T.reads(A[vi_o * 8 + vi_i])
                    T.writes(B[vi_o * 8 + vi_i])
                    B[vi_o * 8 + vi_i] = A[vi_o * 8 + vi_i] * T.float32(2)
            for i_1 in range(8):
                with T.block("C"):
                    vi_i = T.axis.spatial(8, i_1)
                    T.reads(B[vi_o * 8 + vi_i], A[vi_o * 8 + vi_i + 1])
                    T.writes(C[vi_o * 8 + vi_i])
                    C[vi_o * 8 + vi_i] = B[vi_o * 8 + vi_i] + A[vi_o * 8 + vi_i + 1]
"""
    apply(TILED_STAGES, together("B", "C"), after)


def test_some_of_the_blocks_of_a_function():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), B: T.Buffer((8, 4)), C: T.Buffer((8, 4)), D: T.Buffer((8, 4))):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + T.float32(2)
    for i, j in T.grid(8, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj] + T.float32(3)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), B: T.Buffer((8, 4)), C: T.Buffer((8, 4)), D: T.Buffer((8, 4))):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    with T.block("outer_C_D_"):
        vi_o = T.axis.spatial(1, 0)
        vj_o = T.axis.spatial(1, 0)
        T.reads(A[0:8, 0:4])
        T.writes(C[0:8, 0:4], D[0:8, 0:4])
        for i, j in T.grid(8, 4):
            with T.block("C"):
                vi_i, vj_i = T.axis.remap("SS", [i, j])
                C[vi_i, vj_i] = A[vi_i, vj_i] + T.float32(2)
        for i, j in T.grid(8, 4):
            with T.block("D"):
                vi_i, vj_i = T.axis.remap("SS", [i, j])
                D[vi_i, vj_i] = A[vi_i, vj_i] + T.float32(3)
"""
    apply(before, together("C", "D"), after)


def test_a_list_of_one_block():
    after = """\
@T.prim_func
def main(A: T.Buffer((32,)), B: T.Buffer((32,))):
    for i_0, i_1 in T.grid(4, 8):
        with T.block("outer_B_"):
            vi_o = T.axis.spatial(32, i_0 * 8 + i_1)
            T.reads(A[vi_o])
            T.writes(B[vi_o])
            with T.block("B"):
                T.reads(A[vi_o])
                T.writes(B[vi_o])
                B[vi_o] = A[vi_o] * T.float32(2)
"""
    apply(TILES, together("B"), after)


def test_unit_axes_of_several_blocks_become_zero_on_demand():
    before = """\
@T.prim_func
def main(A: T.Buffer((1, 8)), B: T.Buffer((1, 8)), C: T.Buffer((1, 8))):
    for i in range(1):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((1, 8)), B: T.Buffer((1, 8)), C: T.Buffer((1, 8))):
    for i in range(1):
        with T.block("outer_B_C_"):
            vi_o = T.axis.spatial(1, 0)
            vj_o = T.axis.spatial(1, 0)
            T.reads(A[0, 0:8], B[0, 0:8])
            T.writes(B[0, 0:8], C[0, 0:8])
            for j in range(8):
                with T.block("B"):
                    vj_i = T.axis.spatial(8, j)
                    B[0, vj_i] = A[0, vj_i] + T.float32(1)
            for j in range(8):
                with T.block("C"):
                    vj_i = T.axis.spatial(8, j)
                    C[0, vj_i] = B[0, vj_i] + T.float32(1)
"""
    apply(before, together("B", "C", preserve_unit_iters=False), after)


def test_handles_of_several_blocks():
    sch = Schedule(parse(TILED_STAGES), debug_mask="all")
    b, c = sch.get_block("B"), sch.get_block("C")
    loops = [*sch.get_loops(b), *sch.get_loops(c)]
    outer = sch.blockize([b, c])
    assert sch.get(outer).name_hint == "outer_B_C_"
    assert [sch.get(rv).name_hint for rv in (b, c)] == ["B", "C"]
    assert [sch.get(loop).loop_var.name for loop in loops] == ["i_0", "i_1", "i_0", "i_1"]
    assert [sch.get(x) for x in sch.get_child_blocks(outer)] == [sch.get(b), sch.get(c)]


def test_trace():
    sch = apply(TILED_STAGES, together("B", "C", preserve_unit_iters=False))
    assert sch.trace.as_python()[2:] == [
        "b2 = sch.blockize(target=[b0, b1], preserve_unit_iters=False)"
    ]
    assert sch.trace.as_json()[0][2] == ["Blockize", [["b0", "b1"]], [0], ["b2"]]


# ------------------------------------------------------------------------------------------- refused

TWO_SUMS = """\
@T.prim_func
def main(A: T.Buffer((6, 4)), B: T.Buffer((6,)), C: T.Buffer((6,))):
    for i in range(6):
        for k in range(4):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi]
"""

OTHER_TILES = TILED_STAGES.replace(
    """\
                vi = T.axis.spatial(32, i_0 * 8 + i_1)
                C[vi] = B[vi] + A[vi + 1]""",
    """\
                vi, vj = T.axis.remap("SS", [i_0, i_1])
                C[vi * 8 + vj] = A[vi]""",
)

THREE = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = A[vi]
"""


NESTED_AND_NOT = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("B_o"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(B[vi])
            with T.block("B"):
                T.reads(A[vi])
                T.writes(B[vi])
                B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
"""


@pytest.mark.parametrize(
    ("before", "call", "code", "words", "marked"),
    [
        (TILES, together(), "NoBlockError", "the list is empty", []),
        (TILES, together("root"), "RootBlockError", "root block", ["block root"]),
        (
            THREE,
            together("B", "D"),
            "BlocksNotSiblingsError",
            "in one loop or block",
            ["block B", "block D"],
        ),
        (
            THREE,
            together("D", "C"),
            "BlocksNotSiblingsError",
            "in their order",
            ["block D", "block C"],
        ),
        (
            NESTED_AND_NOT,
            together("B", "C"),
            "BlocksNotSiblingsError",
            "do not follow one another",
            ["block B", "block C"],
        ),
        (
            OTHER_TILES,
            together("B", "C"),
            "OuterAxesMismatchError",
            'block "B" would have the outer axes (vi_o = i_0) there, '
            'and block "C" (vi_o = i_0, vj_o = 0)',
            ["block B", "block C"],
        ),
        (
            TWO_SUMS,
            together("B", "C"),
            "OuterReductionError",
            'block "B" has a reduction with an init',
            ["block B"],
        ),
        (
            TILED_STAGES,
            together("B", "B"),
            "BlocksNotSiblingsError",
            "do not follow one another",
            ["block B", "block B"],
        ),
    ],
)
def test_refused(before, call, code, words, marked):
    refused(before, call, code, words, marked)
