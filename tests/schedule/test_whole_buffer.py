"""Blocks that plainly fill a buffer, and those of which it must not be said."""

import pytest

from schedule import Schedule
from schedule.analysis.dependency import dependencies
from schedule.analysis.region_cover import covers_reads, fills_buffer, reads_covered
from tensorir import parse

PROGRAM = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), C: T.Buffer((8, 8))):
    B = T.alloc_buffer((8, 8))
    for {loops}:
        with T.block("B"):
            {where}
            vi = T.axis.spatial({rows}, {row})
            vj = T.axis.spatial(8, {column})
            B[{index}] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]
"""


def program(loops="i, j in T.grid(8, 8)", where="", rows=8, row="i", column="j", index="vi, vj"):
    text = PROGRAM.format(loops=loops, where=where, rows=rows, row=row, column=column, index=index)
    return Schedule(parse(text)).state


def fills(state):
    block = state.child_blocks(state.root("main"))[0]
    return fills_buffer(block, block.block.writes[0].buffer)


def covered(state, analysis):
    root = state.root("main")
    return analysis(state, state.child_blocks(root)[1], dependencies(state, root))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"index": "vj, vi"},
        {"loops": "j, i in T.grid(8, 8)"},
        {"loops": "i0, j, i1 in T.grid(2, 8, 4)", "row": "i0 * 4 + i1"},
        {"loops": "i, j, k in T.grid(8, 8, 3)"},
    ],
)
def test_filled(changes):
    state = program(**changes)
    assert fills(state)
    assert covered(state, covers_reads)


@pytest.mark.parametrize(
    "changes",
    [
        {"where": "T.where(i < 7)"},
        {"loops": "i, j in T.grid(7, 8)"},
        {"loops": "i, j in T.grid(7, 8)", "rows": 7},
        {"loops": "i, j in T.grid(7, 8)", "row": "i + 1"},
        {"loops": "i0, j, i1 in T.grid(2, 8, 4)", "row": "i0 * 2 + i1"},
        {"loops": "i in range(8)", "column": "i"},
        {"index": "vi, vi"},
        {"loops": "i, j in T.grid(8, 4)", "column": "j * 2"},
    ],
)
def test_not_filled(changes):
    state = program(**changes)
    assert not fills(state)
    assert not covered(state, covers_reads)


STAGES = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
        with T.block("C"):
            vi = T.axis.spatial(8, {row})
            C[vi] = B[vi]
"""


@pytest.mark.parametrize(("row", "expected"), [("i", True), ("7 - i", False)])
def test_reads_are_covered_before_and_after_a_split(row, expected):
    sch = Schedule(parse(STAGES.format(row=row)))
    assert covered(sch.state, covers_reads) == covered(sch.state, reads_covered) == expected
    sch.split(sch.get_loops(sch.get_block("C"))[0], [2, 4])
    assert covered(sch.state, covers_reads) == covered(sch.state, reads_covered) == expected
