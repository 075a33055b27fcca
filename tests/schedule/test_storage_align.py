"""Aligning the strides of a buffer."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import parse
from tests.schedule.programs import NARROW_STAGES as STAGES
from tests.schedule.transformation import apply, refused

TWO_WRITTEN = """\
@T.prim_func
def main(A: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    C = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("BC"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
            C[vi] = A[vi] + T.float32(2)
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi] * C[vi]
"""

VIEW = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), B: T.Buffer((8, 4))):
    for i in range(8):
        with T.block("row"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:4])
            T.writes(B[vi, 0:4])
            row = T.match_buffer(B[vi, 0:4], (4,), offset_factor=1)
            for j in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j)
                    row[vj] = A[vi, vj]
"""


def with_requests(requests):
    """Return STAGES with requests on block B."""
    attr = f'            T.block_attr({{"buffer_dim_align": {requests}}})\n'
    return STAGES.replace("            B[vi, vj] = A", attr + "            B[vi, vj] = A")


def align(block, *args):
    return lambda sch: sch.storage_align(block, *args)


@pytest.mark.parametrize(("axis", "stored"), [(0, 0), (1, 1), (-1, 1), (-2, 0)])
def test_the_request_is_an_annotation(axis, stored):
    apply(STAGES, align("B", 0, axis, 16, 3), with_requests(f"[[0, {stored}, 16, 3]]"))


def test_a_negative_offset():
    apply(STAGES, align("B", 0, 0, 16, -1), with_requests("[[0, 0, 16, -1]]"))


def test_requests_for_other_axes_are_appended():
    def call(sch):
        sch.storage_align("B", 0, 1, 8, 0)
        sch.storage_align("B", 0, 0, 16, 3)

    apply(STAGES, call, with_requests("[[0, 1, 8, 0], [0, 0, 16, 3]]"))


def test_a_request_for_the_same_axis_is_replaced_where_it_stands():
    before = with_requests("[[0, 1, 8, 0], [0, 0, 16, 3]]")
    apply(before, align("B", 0, -1, 4, 1), with_requests("[[0, 1, 4, 1], [0, 0, 16, 3]]"))


def test_buffers_are_counted_by_write_region():
    attr = '            T.block_attr({"buffer_dim_align": [[1, 0, 32, 0]]})\n'
    after = TWO_WRITTEN.replace("            B[vi] = A", attr + "            B[vi] = A")
    apply(TWO_WRITTEN, align("BC", 1, 0, 32, 0), after)


def test_handles_stay():
    sch = Schedule(parse(STAGES), debug_mask="all")
    block = sch.get_block("B")
    loops = sch.get_loops(block)
    sch.storage_align(block, 0, 0, 16, 3)
    assert "buffer_dim_align" in sch.get(block).annotations
    assert [sch.get(loop) for loop in sch.get_loops(block)] == [sch.get(loop) for loop in loops]


def test_trace():
    sch = apply(STAGES, align("B", 0, -2, 16, 3))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="B", func_name="main")',
        "sch.storage_align(block=b0, buffer_index=0, axis=-2, factor=16, offset=3)",
    ]
    assert sch.trace.as_json() == [
        [
            ["GetBlock", [], ["B", "main"], ["b0"]],
            ["StorageAlign", ["b0"], [0, -2, 16, 3], []],
        ],
        [],
    ]


# ----------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("before", "block", "args", "code", "words"),
    [
        (STAGES, "B", (1, 0, 16, 0), "BufferIndexOutOfRangeError", "is 1, but"),
        (STAGES, "B", (-1, 0, 16, 0), "BufferIndexOutOfRangeError", "has 1 write region(s)"),
        (STAGES, "B", (0, 0, 0, 0), "StorageAlignInvalidFactorError", "positive, but it is 0"),
        (STAGES, "B", (0, 0, -4, 0), "StorageAlignInvalidFactorError", "but it is -4"),
        (
            STAGES,
            "B",
            (0, 2, 16, 0),
            "StorageAlignAxisOutOfRangeError",
            "axis 2 is out of range: B has 2 dimension(s)",
        ),
        (STAGES, "B", (0, -3, 16, 0), "StorageAlignAxisOutOfRangeError", "axis -3 is out"),
        (STAGES, "C", (0, 0, 16, 0), "NonAllocatedBufferError", "C is not allocated by a block"),
        (VIEW, "inner", (0, 0, 16, 0), "NonAllocatedBufferError", "row is not allocated"),
    ],
)
def test_refused(before, block, args, code, words):
    refused(before, align(block, *args), code, words, [f"block {block}"])


@pytest.mark.parametrize(
    "present", ["1", '"x"', "[1]", "[[0, 0, 16]]", '[[0, 0, 16, "x"]]', "[[0, 0, 16, 0], 2]"]
)
def test_an_annotation_of_another_form(present):
    code, words = "StorageAlignInvalidAnnotationError", "must be a list of [buffer, axis, factor,"
    refused(with_requests(present), align("B", 0, 0, 16, 0), code, words, ["block B"])
