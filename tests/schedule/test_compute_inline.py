"""compute_inline: consumers compute what they read from a block themselves."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import parse
from tests.schedule.programs import AFTER_A_SUM, STAGES
from tests.schedule.transformation import refused


def inline(block):
    return lambda sch: sch.compute_inline(block)


# ------------------------------------------------------------------------------------------ refused

TWO_BUFFERS = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    D = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("both"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(B[vi], D[vi])
            B[vi] = A[vi]
            D[vi] = A[vi]
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi] + D[vi]
"""

ROOT_THAT_DECLARES = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    with T.block("root"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]
"""

OVERWRITES = (
    STAGES
    + """\
    for z in range(8):
        with T.block("A"):
            vz = T.axis.spatial(8, z)
            A[vz, 0] = T.float32(0)
"""
)

PARTLY_WRITTEN = STAGES.replace("for i, j in T.grid(8, 6)", "for i, j in T.grid(8, 5)")

UPDATES_IN_PLACE = STAGES.replace("A[vi, vj] * T.float32(2)", "B[vi, vj] * T.float32(2)")

OPAQUE_AXIS = STAGES.replace(
    'vi, vj = T.axis.remap("SS", [i, j])',
    "vi = T.axis.spatial(8, i)\n            vj = T.axis.opaque(6, j)",
)

LOOP_IN_THE_BODY = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8, 6))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            for j in range(6):
                B[vi, j] = A[vi, j]
    for x, y in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""

STORED_TWICE = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((4,))):
    B = T.alloc_buffer((4,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi % 4] = A[vi]
    for x in range(4):
        with T.block("C"):
            vx = T.axis.spatial(4, x)
            C[vx] = B[vx]
"""

ALONE = """\
@T.prim_func
def main(A: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
"""

POINTER = STAGES.replace(
    "C[vx, vy] = B[vx, vy] + T.float32(1)",
    'C[vx, vy] = T.call_extern("float32", "f", B.data, vx, vy)',
).replace(
    "            C[vx, vy] = T.call",
    "            T.reads(B[0:8, 0:6])\n"
    "            T.writes(C[vx, vy])\n            C[vx, vy] = T.call",
)

VIEW = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            T.reads(B[vi, 0:6])
            T.writes(C[vi, 0:6])
            V = T.match_buffer(B[vi, 0:6], (6,), offset_factor=1)
            for y in range(6):
                C[vi, y] = V[y]
"""


@pytest.mark.parametrize(
    ("before", "block", "code", "words", "marked"),
    [
        (AFTER_A_SUM, "B", "HasInitBlock", "has an init statement", ["block B"]),
        (
            TWO_BUFFERS,
            "both",
            "NotSingleReadWriteBuffer",
            "a single buffer region that it writes, but it has 2",
            ["block both"],
        ),
        (ROOT_THAT_DECLARES, "root", "RootBlockError", "root block", ["block root"]),
        (
            OVERWRITES,
            "B",
            "NotStagePipelineError",
            'block "A" overwrites A, which block "B" reads before',
            ["block root", "block A"],
        ),
        (
            PARTLY_WRITTEN,
            "B",
            "NotStagePipelineError",
            'block "C" reads more than its producers write',
            ["block root", "block C"],
        ),
        (STAGES, "C", "OutputBlockError", "writes C", ["block C"]),
        (UPDATES_IN_PLACE, "B", "IncompleteBlockError", "violates condition #3", ["block B"]),
        (OPAQUE_AXIS, "B", "IncompleteBlockError", "violates condition #1", ["block B"]),
        (LOOP_IN_THE_BODY, "B", "BodyAnalysisError", "not a single store", ["block B"]),
        (STORED_TWICE, "B", "BodyAnalysisError", "not a bijective affine map", ["block B"]),
        (ALONE, "B", "OnlyLeafError", "only leaf of block", ["block B", "block root"]),
        (POINTER, "B", "OpaqueAccessError", "B has an opaque access", ["block root"]),
        (VIEW, "B", "OpaqueAccessError", "match_buffer", ["block root"]),
    ],
)
def test_refused(before, block, code, words, marked):
    refused(before, inline(block), code, words, marked)


def test_without_checks_the_scope_need_not_be_a_stage_pipeline():
    sch = Schedule(parse(PARTLY_WRITTEN), enable_check=False)
    sch.compute_inline("B")
    assert "alloc_buffer" not in sch.mod.script()
