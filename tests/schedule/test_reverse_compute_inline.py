"""reverse_compute_inline: a producer stores what its consumer made of its values."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import assert_structural_equal, parse
from tests.schedule.programs import AFTER_A_SUM, ROW_SUMS
from tests.schedule.transformation import apply, refused

STAGES = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x, y in T.grid(8, 6):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = B[vx, vy] + T.float32(1)
"""

COPY = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
    for x in range(16):
        with T.block("C"):
            vx = T.axis.spatial(16, x)
            C[vx] = B[vx] * T.float32(2)
"""


def inline(block):
    return lambda sch: sch.reverse_compute_inline(block)


# -------------------------------------------------------------------------------- what is substituted


def test_the_producer_stores_the_final_value():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * T.float32(2) + T.float32(1)
"""
    sch = apply(STAGES, inline("C"), after)
    assert not sch.get(sch.get_block("root")).alloc_buffers


def test_other_inputs_of_the_consumer():
    before = STAGES.replace("main(", "main(D: T.Buffer((6,)), ")
    before = before.replace("B[vx, vy] + T.float32(1)", "T.max(B[vx, vy] + D[vy], B[vx, vy])")
    after = """\
@T.prim_func
def main(D: T.Buffer((6,)), A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj], D[vj])
            T.writes(C[vi, vj])
            C[vi, vj] = T.max(
                A[vi, vj] * T.float32(2) + D[vj], A[vi, vj] * T.float32(2)
            )
"""
    apply(before, inline("C"), after)


def test_a_transposed_read():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((6, 8))):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x, y in T.grid(6, 8):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = B[vy, vx]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((6, 8))):
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vj, vi] = A[vi, vj] * T.float32(2)
"""
    apply(before, inline("C"), after)


def test_a_consumer_that_flattens():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((48,))):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x in range(48):
        with T.block("C"):
            vx = T.axis.spatial(48, x)
            C[vx] = B[vx // 6, vx % 6]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((48,))):
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi * 6 + vj] = A[vi, vj] * T.float32(2)
"""
    apply(before, inline("C"), after)


def test_a_consumer_that_tiles():
    before = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((4, 4))):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
    for x, y in T.grid(4, 4):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = B[vx * 4 + vy]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((4, 4))):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            C[vi // 4, vi % 4] = A[vi] + T.float32(1)
"""
    apply(before, inline("C"), after)


def test_axes_of_extent_1_become_their_minimum():
    before = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((1, 16))):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
    for u, x in T.grid(1, 16):
        with T.block("C"):
            vu, vx = T.axis.remap("SS", [u, x])
            C[vu, vx] = B[vx]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((1, 16))):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            C[0, vi] = A[vi] + T.float32(1)
"""
    apply(before, inline("C"), after)


def test_axes_in_the_value_of_the_consumer():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 4), "int32"), C: T.Buffer((16,), "int32")):
    B = T.alloc_buffer((4, 4), "int32")
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1
    for x in range(16):
        with T.block("C"):
            vx = T.axis.spatial(16, x)
            C[vx] = B[vx // 4, vx % 4] * vx
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 4), "int32"), C: T.Buffer((16,), "int32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi * 4 + vj] = (A[vi, vj] + 1) * (vi * 4 + vj)
"""
    apply(before, inline("C"), after)


# ----------------------------------------------------------------------- consumers of a part only


def test_a_consumer_of_a_part_gives_the_producer_a_predicate():
    before = COPY.replace(
        "T.Buffer((16,)), C: T.Buffer((16,))", "T.Buffer((16,)), C: T.Buffer((10,))"
    )
    before = before.replace("for x in range(16)", "for x in range(10)")
    before = before.replace("T.axis.spatial(16, x)", "T.axis.spatial(10, x)")
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((10,))):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            T.where(i < 10)
            C[vi] = (A[vi] + T.float32(1)) * T.float32(2)
"""
    apply(before, inline("C"), after)
    tiled = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((10,))):
    for i_0, i_1 in T.grid(4, 5):
        with T.block("B"):
            vi = T.axis.spatial(16, i_0 * 5 + i_1)
            T.where(i_0 * 5 + i_1 < 10)
            C[vi] = (A[vi] + T.float32(1)) * T.float32(2)
"""

    def call(sch):
        sch.split(sch.get_loops("B")[0], [4, 5])
        sch.reverse_compute_inline("C")

    apply(before, call, tiled)


def test_a_consumer_that_flattens_padded_tiles():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 4)), C: T.Buffer((14,))):
    B = T.alloc_buffer((4, 4))
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x in range(14):
        with T.block("C"):
            vx = T.axis.spatial(14, x)
            C[vx] = B[vx // 4, vx % 4]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 4)), C: T.Buffer((14,))):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i * 4 + j < 14)
            C[vi * 4 + vj] = A[vi, vj] * T.float32(2)
"""
    apply(before, inline("C"), after)


def test_a_predicate_of_the_producer_stays():
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    for i_0, i_1 in T.grid(4, 5):
        with T.block("B"):
            vi = T.axis.spatial(16, i_0 * 5 + i_1)
            T.where(i_0 * 5 + i_1 < 16)
            C[vi] = (A[vi] + T.float32(1)) * T.float32(2)
"""

    def call(sch):
        sch.split(sch.get_loops("B")[0], [4, 5])
        sch.reverse_compute_inline("C")

    apply(COPY, call, after)


CONDITION = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer(({extent},))):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            T.reads(A[vi])
            T.writes(B[vi])
            if {condition}:
                B[vi] = A[vi] + T.float32(1)
    for x in range({extent}):
        with T.block("C"):
            vx = T.axis.spatial({extent}, x)
            C[vx] = B[vx]
"""


def inlined_without_checks(before):
    """Return the program with C inlined, though it reads what B may leave unwritten."""
    sch = Schedule(parse(before), debug_mask="all", enable_check=False)
    sch.reverse_compute_inline("C")
    return sch.mod["main"]


def test_a_condition_in_the_body_of_the_producer_stays():
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            T.reads(A[vi])
            T.writes(C[vi])
            if A[vi] > T.float32(0):
                C[vi] = A[vi] + T.float32(1)
"""
    before = CONDITION.format(extent=16, condition="A[vi] > T.float32(0)")
    assert_structural_equal(inlined_without_checks(before), parse(after))


@pytest.mark.parametrize(
    ("condition", "predicate"), [("vi < 10", "i < 10"), ("3 <= vi", "i < 10 and 3 <= i")]
)
def test_a_condition_and_a_part_join_in_the_predicate(condition, predicate):
    after = f"""\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((10,))):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            T.where({predicate})
            T.reads(A[vi])
            T.writes(C[vi])
            C[vi] = A[vi] + T.float32(1)
"""
    before = CONDITION.format(extent=10, condition=condition)
    assert_structural_equal(inlined_without_checks(before), parse(after))


# ----------------------------------------------------------------------------- chains, loops, names


def test_a_chain_of_consumers():
    before = """\
@T.prim_func
def main(A: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    C = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] * T.float32(2)
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[vi] - T.float32(3)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), D: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            D[vi] = (A[vi] + T.float32(1)) * T.float32(2) - T.float32(3)
"""
    for order in ("CD", "DC"):
        apply(
            before, lambda sch, order=order: [sch.reverse_compute_inline(b) for b in order], after
        )


def test_loops_and_annotations_of_the_producer_stay():
    before = COPY.replace(
        "            B[vi] =", '            T.block_attr({"tag": 1})\n            B[vi] ='
    )
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    for i in T.parallel(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            T.block_attr({"tag": 1})
            C[vi] = (A[vi] + T.float32(1)) * T.float32(2)
"""

    def call(sch):
        sch.parallel(sch.get_loops("B")[0])
        sch.reverse_compute_inline("C")

    apply(before, call, after)


def test_64_bit_indices():
    before = COPY.replace("16", "T.int64(16)")
    sch = apply(before, inline("C"))
    assert "C[vi] = (A[vi] + T.float32(1.0)) * T.float32(2.0)" in sch.mod.script()


# ------------------------------------------------------------------------------------------ handles


def test_handles():
    sch = Schedule(parse(STAGES), debug_mask="all")
    producer, consumer = sch.get_block("B"), sch.get_block("C")
    (i, j), (x, _) = sch.get_loops(producer), sch.get_loops(consumer)
    sch.reverse_compute_inline(consumer)
    assert sch.get(producer).name_hint == "B"
    assert sch.get(producer).writes[0].buffer.name == "C"
    sch.reorder(j, i)
    for gone in (consumer, x):
        with pytest.raises(ValueError, match="reverse-compute-inline replaced it"):
            sch.get(gone)


def test_trace():
    sch = apply(STAGES, inline("C"))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="C", func_name="main")',
        "sch.reverse_compute_inline(block=b0)",
    ]
    assert sch.trace.as_json() == [
        [["GetBlock", [], ["C", "main"], ["b0"]], ["ReverseComputeInline", ["b0"], [], []]],
        [],
    ]


# ------------------------------------------------------------------------------------------ refused

OVERWRITES = (
    COPY
    + """\
    for z in range(16):
        with T.block("A"):
            vz = T.axis.spatial(16, z)
            A[vz] = T.float32(0)
"""
)

TWO_PRODUCED = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    D = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for j in range(8):
        with T.block("D"):
            vj = T.axis.spatial(8, j)
            D[vj] = A[vj]
    for x in range(8):
        with T.block("C"):
            vx = T.axis.spatial(8, x)
            C[vx] = B[vx] + D[vx]
"""

TWO_HALVES = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(4):
        with T.block("B_low"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for i in range(4):
        with T.block("B_high"):
            vi = T.axis.spatial(4, i)
            B[vi + 4] = A[vi + 4]
    for x in range(8):
        with T.block("C"):
            vx = T.axis.spatial(8, x)
            C[vx] = B[vx]
"""

READ_ELSEWHERE = (
    COPY.replace("main(", "main(D: T.Buffer((16,)), ")
    + """\
    for z in range(16):
        with T.block("D"):
            vz = T.axis.spatial(16, z)
            D[vz] = B[vz]
"""
)

OPAQUE_AXIS = COPY.replace("T.axis.spatial(16, x)", "T.axis.opaque(16, x)")

OUTPUT = """\
@T.prim_func
def main(A: T.Buffer((16,)), B: T.Buffer((16,)), C: T.Buffer((16,))):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
    for x in range(16):
        with T.block("C"):
            vx = T.axis.spatial(16, x)
            C[vx] = B[vx] * T.float32(2)
"""

LOOP_IN_THE_CONSUMER = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for x in range(8):
        with T.block("C"):
            vx = T.axis.spatial(8, x)
            for y in range(6):
                C[vx, y] = B[vx, y]
"""

LOOP_IN_THE_PRODUCER = """\
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
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = B[vx, vy]
"""

SCATTER = """\
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = 7 - vi
    for x in range(8):
        with T.block("C"):
            vx = T.axis.spatial(8, x)
            T.reads(B[vx], A[vx])
            T.writes(C[0:8])
            C[B[vx]] = A[vx]
"""

LARGER = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((10,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for x in range(10):
        with T.block("C"):
            vx = T.axis.spatial(10, x)
            T.reads(B[vx])
            T.writes(C[vx])
            C[vx] = T.if_then_else(vx < 8, B[vx], T.float32(0))
"""

BROADCAST = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for x, y in T.grid(8, 6):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = B[vx]
"""

DIAGONAL = """\
@T.prim_func
def main(A: T.Buffer((4, 4)), C: T.Buffer((16,))):
    B = T.alloc_buffer((4, 4))
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for x in range(16):
        with T.block("C"):
            vx = T.axis.spatial(16, x)
            C[vx] = B[vx % 4, vx % 4]
"""

VIEW = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for x in range(8):
        with T.block("C"):
            vx = T.axis.spatial(8, x)
            T.reads(B[vx])
            T.writes(C[vx])
            V = T.match_buffer(B[vx], (1,), offset_factor=1)
            C[vx] = B[vx] + V[0]
"""


@pytest.mark.parametrize(
    ("before", "call", "code", "words", "marked"),
    [
        (ROW_SUMS, inline("C"), "HasInitBlock", "has an init statement", ["block C"]),
        (COPY, inline("root"), "RootBlockError", "root block", ["block root"]),
        (
            TWO_PRODUCED,
            inline("C"),
            "NotSingleReadWriteBuffer",
            "a single buffer region that it reads, but it has 2",
            ["block C"],
        ),
        (
            COPY,
            inline("B"),
            "NotSingleReadWriteBuffer",
            "a single buffer region that it reads, but it has 0",
            ["block B"],
        ),
        (OPAQUE_AXIS, inline("C"), "IncompleteBlockError", "violates condition #1", ["block C"]),
        (TWO_HALVES, inline("C"), "NonSingleProducerError", "single producer of B", ["block C"]),
        (AFTER_A_SUM, inline("C"), "NonSingleProducerError", "a complete block", ["block C"]),
        (OUTPUT, inline("C"), "OutputBlockError", "writes B", ["block B"]),
        (
            READ_ELSEWHERE,
            inline("C"),
            "NonSingleConsumerError",
            'block "D" reads it as well as block "C"',
            ["block C", "block D"],
        ),
        (LOOP_IN_THE_CONSUMER, inline("C"), "BodyAnalysisError", "not a single store", ["block C"]),
        (LOOP_IN_THE_PRODUCER, inline("C"), "BodyAnalysisError", "not a single store", ["block B"]),
        (
            COPY.replace("C[vx] = B[vx]", "C[vx] = B[vx] + B[15 - vx]"),
            inline("C"),
            "BodyAnalysisError",
            "loaded at different indices",
            ["block C"],
        ),
        (
            COPY.replace("C[vx] = B[vx]", "C[vx] = B[(vx * vx) % 16]"),
            inline("C"),
            "BodyAnalysisError",
            "not affine",
            ["block C"],
        ),
        (LARGER, inline("C"), "BodyAnalysisError", "runs where 'B' stores nothing", ["block C"]),
        (BROADCAST, inline("C"), "BodyAnalysisError", "iterator vy is not used", ["block C"]),
        (DIAGONAL, inline("C"), "BodyAnalysisError", "read the same element", ["block C"]),
        (VIEW, inline("C"), "OpaqueAccessError", "match_buffer", ["block root"]),
    ],
)
def test_refused(before, call, code, words, marked):
    refused(before, call, code, words, marked)


def test_an_argument_of_another_type():
    sch = Schedule(parse(COPY))
    with pytest.raises(TypeError, match=r"Schedule\.reverse_compute_inline: `block` takes a"):
        sch.reverse_compute_inline(None)


def test_a_consumer_that_stores_where_its_producer_says():
    after = """\
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(C[7 - vi])
            C[7 - vi] = A[vi]
"""
    apply(SCATTER, inline("C"), after)


# -------------------------------------------------------------------- instances that do not all run


PREDICATES = """\
@T.prim_func
def main(A: T.Buffer((30,)), C: T.Buffer((30,))):
    B = T.alloc_buffer((30,))
    for i in range(30):
        with T.block("B"):
            vi = T.axis.spatial(30, i)
            B[vi] = A[vi] * T.float32(2)
    for x, y in T.grid(4, 8):
        with T.block("C"):
            vx = T.axis.spatial(30, x * 8 + y)
            T.where({})
            C[vx] = B[vx] + T.float32(1)
"""
GUARDED = """\
@T.prim_func
def main(A: T.Buffer((30,)), C: T.Buffer((30,))):
    for i in range(30):
        with T.block("B"):
            vi = T.axis.spatial(30, i)
            T.where({})
            C[vi] = A[vi] * T.float32(2) + T.float32(1)
"""


@pytest.mark.parametrize(
    ("consumer", "producer"),
    [
        ("x * 8 + y < 30", "True"),
        ("x * 8 + y < 20", "i < 20"),
        ("3 <= x * 8 + y and x * 8 + y < 30", "3 <= i"),
        ("y < 5 and x * 8 + y < 30", "i % 8 < 5"),
        ("x < 2 or y < 5", "i < 16 or i % 8 < 5"),
    ],
)
def test_a_predicate_of_the_consumer_becomes_one_of_the_producer(consumer, producer):
    apply(PREDICATES.format(consumer), inline("C"), GUARDED.format(producer))


@pytest.mark.parametrize(
    ("loop", "binding", "predicate"),
    [
        ("12", "x", "i < 12"),
        ("12", "x + 3", "3 <= i and i < 15"),
        ("12", "29 - x", "18 <= i"),
        ("30", "x // 2", "i < 15"),
    ],
)
def test_places_that_the_loops_of_the_consumer_do_not_reach_keep_their_values(
    loop, binding, predicate
):
    before = PREDICATES.replace("x, y in T.grid(4, 8)", f"x in range({loop})").replace(
        "x * 8 + y", binding
    )
    before = before.replace("            T.where({})\n", "")
    apply(before, inline("C"), GUARDED.format(predicate))


def test_instances_that_do_not_follow_from_the_axes_are_refused():
    before = PREDICATES.replace("x * 8 + y", "x * 7 + y").format("x * 7 + y < 25")
    refused(
        before,
        inline("C"),
        "BodyAnalysisError",
        "its predicate cannot be written in terms of its axes",
        ["block C"],
    )
