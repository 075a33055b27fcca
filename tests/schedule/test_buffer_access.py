"""Overriding what a block says that it touches."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import parse
from tests.schedule.transformation import apply, refused

BEFORE = """\
@T.prim_func
def main(A: T.Buffer((14, 4)), C: T.Buffer((7, 4))):
    for i, j in T.grid(7, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[0:14, 0:4])
            T.writes(C[vi, vj])
            C[vi, vj] = A[vi * 2, vj] + T.float32(1)
"""

EXPLICIT = BEFORE.replace(
    "            T.reads(A[0:14, 0:4])\n            T.writes(C[vi, vj])\n",
    "            T.reads(A[vi * 2:vi * 2 + 1, vj])\n            T.writes(C[vi, vj])\n"
    '            T.block_attr({"explicit_read_region": [0]})\n',
)


def ranges(vi, vj):
    return [(vi * 2, vi * 2 + 1), vj]


def test_declares_a_region_by_hand():
    sch = apply(BEFORE, lambda s: s.annotate_buffer_access(s.get_block("C"), 0, "read", ranges))
    after = sch.get(sch.get_sblock("C"))
    assert str(after.reads[0]) == "A[vi * 2, vj]"
    assert after.annotations["explicit_read_region"][0].value == 0
    assert sch.trace.as_python()[1] == (
        'sch.annotate_buffer_access(block=b0, buffer_index=0, buf_type="read", '
        "gen_new_ranges=lambda vi, vj: [(vi * 2, vi * 2 + 1), (vj, vj + 1)])"
    )
    assert sch.trace.as_json()[0][1] == [
        "AnnotateBufferAccess",
        ["b0", 0, 0, "lambda vi, vj: (vi * 2, vi * 2 + 1, vj, vj + 1,)"],
        [],
        [],
    ]


def test_annotations_of_both_sides_add_up():
    def call(sch):
        block = sch.get_block("C")
        sch.annotate_buffer_access(block, 0, "read", ranges)
        sch.annotate_buffer_access(block, 0, "read", lambda vi, vj: [(0, 14), (vj, vj + 1)])
        sch.annotate_buffer_access(block, 0, "write", lambda vi, vj: [vi, (0, 4)])

    sch = apply(BEFORE, call)
    block = sch.get(sch.get_block("C"))
    assert str(block.reads[0]) == "A[0:14, vj]"
    assert str(block.writes[0]) == "C[vi, 0:4]"
    assert [k.value for k in block.annotations["explicit_read_region"]] == [0]
    assert [k.value for k in block.annotations["explicit_write_region"]] == [0]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda s, b: s.annotate_buffer_access(b, 3, "read", ranges), "BufferIndexOutOfRangeError"),
        (lambda s, b: s.annotate_buffer_access(b, 0, "opaque", ranges), "BufTypeError"),
        (lambda s, b: s.unsafe_hide_buffer_access(b, "opaque", [0]), "BufTypeError"),
        (lambda s, b: s.unsafe_hide_buffer_access(b, "read", [1]), "InvalidIndexError"),
        (lambda s, b: s.unsafe_hide_buffer_access(b, "write", [-1]), "InvalidIndexError"),
    ],
)
def test_refused_calls(call, code):
    refused(BEFORE, lambda s: call(s, s.get_block("C")), code)


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda vi, vj: [vi], ValueError, "1 range"),
        (lambda vi, vj: [vi, "vj"], TypeError, r"\[1\]"),
        (lambda vi, vj: vi, TypeError, "a list of ranges"),
        (3, TypeError, "a function of the block's axes"),
    ],
)
def test_ranges_of_another_form(function, error, words):
    sch = Schedule(parse(BEFORE))
    with pytest.raises(error, match=words):
        sch.annotate_buffer_access(sch.get_block("C"), 0, "read", function)
    assert len(sch.trace.insts) == 1


def test_hides_accesses_from_dependencies():
    before = """\
@T.prim_func
def main(A: T.Buffer((7,)), C: T.Buffer((7,))):
    B = T.alloc_buffer((7,))
    for i in range(7):
        with T.block("B"):
            vi = T.axis.spatial(7, i)
            B[vi] = A[vi]
    for i in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            C[vi] = B[vi] + A[vi]
"""

    def call(sch):
        block = sch.get_block("C")
        assert len(sch.get_producers(block)) == 1
        sch.unsafe_hide_buffer_access(block, "read", [0])
        assert sch.get_producers(block) == []

    sch = apply(before, call)
    assert [r.buffer.name for r in sch.get(sch.get_block("C")).reads] == ["A"]
    line = 'sch.unsafe_hide_buffer_access(block=b0, buf_type="read", buf_index_array=[0])'
    assert line in sch.trace.as_python()
    assert ["UnsafeHideBufferAccess", ["b0", '"read"', [0]], [], []] in sch.trace.as_json()[0]
