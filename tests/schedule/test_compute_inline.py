"""compute_inline: consumers compute what they read from a block themselves."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import parse
from tests.schedule.programs import AFTER_A_SUM, STAGES
from tests.schedule.transformation import apply, refused, scheduled


def inline(block):
    return lambda sch: sch.compute_inline(block)


# ------------------------------------------------------------------------------- what is substituted


def test_the_value_takes_the_place_of_the_load():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    for x, y in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = A[vi, vj] * T.float32(2) + T.float32(1)
"""
    sch = apply(STAGES, inline("B"), after)
    assert not sch.get(sch.get_block("root")).alloc_buffers


def test_every_load_of_every_consumer():
    before = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
    for x in range(16):
        with T.block("C"):
            vx = T.axis.spatial(16, x)
            C[vx] = B[vx] * B[15 - vx]
    for y in range(8):
        with T.block("D"):
            vy = T.axis.spatial(8, y)
            D[vy] = B[vy * 2 + 1]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,)), D: T.Buffer((8,))):
    for x in range(16):
        with T.block("C"):
            vx = T.axis.spatial(16, x)
            C[vx] = (A[vx] + T.float32(1)) * (A[15 - vx] + T.float32(1))
    for y in range(8):
        with T.block("D"):
            vy = T.axis.spatial(8, y)
            D[vy] = A[vy * 2 + 1] + T.float32(1)
"""
    apply(before, inline("B"), after)


def test_axes_in_the_value():
    before = """\
@T.prim_func
def main(C: T.Buffer((8, 6), "int32")):
    B = T.alloc_buffer((8, 6), "int32")
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = vi * 10 + vj
    for x, y in T.grid(8, 6):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = B[7 - vx, vy]
"""
    after = """\
@T.prim_func
def main(C: T.Buffer((8, 6), "int32")):
    for x, y in T.grid(8, 6):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = (7 - vx) * 10 + vy
"""
    apply(before, inline("B"), after)


def test_indices_in_another_order():
    before = STAGES.replace("B = T.alloc_buffer((8, 6))", "B = T.alloc_buffer((6, 8))")
    before = before.replace("B[vi, vj] = A[vi, vj]", "B[vj, vi] = A[vi, vj]")
    before = before.replace("B[vi, vj] + ", "B[vj, vi] + ")
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    for x, y in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = A[vi, vj] * T.float32(2) + T.float32(1)
"""
    apply(before, inline("B"), after)


def test_dimensions_of_extent_1():
    before = """\
@T.prim_func
def main(A: T.Buffer((1, 8)), C: T.Buffer((8,))):
    B = T.alloc_buffer((1, 8, 1))
    for u, i in T.grid(1, 8):
        with T.block("B"):
            vu, vi = T.axis.remap("SS", [u, i])
            B[0, vi, 0] = A[vu, vi] + T.float32(1)
    for x in range(8):
        with T.block("C"):
            vx = T.axis.spatial(8, x)
            C[vx] = B[0, vx, 0]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((1, 8)), C: T.Buffer((8,))):
    for x in range(8):
        with T.block("C"):
            vx = T.axis.spatial(8, x)
            C[vx] = A[0, vx] + T.float32(1)
"""
    apply(before, inline("B"), after)


def test_a_buffer_that_is_split_into_tiles():
    before = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((4, 4))):
    B = T.alloc_buffer((4, 4))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi // 4, vi % 4] = A[vi]
    for x, y in T.grid(4, 4):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = B[vy, vx] + T.float32(1)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((4, 4))):
    for x, y in T.grid(4, 4):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = A[vy * 4 + vx] + T.float32(1)
"""
    apply(before, inline("B"), after)


def test_a_buffer_that_is_flattened():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((24,))):
    B = T.alloc_buffer((24,))
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * 6 + vj] = A[vi, vj]
    for x in range(24):
        with T.block("C"):
            vx = T.axis.spatial(24, x)
            C[vx] = B[vx]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((24,))):
    for x in range(24):
        with T.block("C"):
            vx = T.axis.spatial(24, x)
            C[vx] = A[vx // 6, vx % 6]
"""
    apply(before, inline("B"), after)


def test_a_store_with_an_offset():
    before = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((11,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi + 3] = A[vi]
    for x in range(8):
        with T.block("C"):
            vx = T.axis.spatial(8, x)
            C[vx] = B[vx + 3]
"""
    sch = apply(before, inline("B"))
    assert "alloc_buffer" not in sch.mod.script()


def test_into_a_reduction():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), W: T.Buffer((5, 6)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8, 5))
    for i, k in T.grid(8, 5):
        with T.block("B"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = T.max(A[vi, vk], T.float32(0))
    for x, y, z in T.grid(8, 6, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [x, y, z])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + B[vi, vk] * W[vk, vj]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), W: T.Buffer((5, 6)), C: T.Buffer((8, 6))):
    for x, y, z in T.grid(8, 6, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [x, y, z])
            T.reads(A[vi, vk], W[vk, vj])
            T.writes(C[vi, vj])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + T.max(A[vi, vk], T.float32(0)) * W[vk, vj]
"""
    apply(before, inline("B"), after)


def test_into_nested_blocks():
    before = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
    for x in range(4):
        with T.block("outer"):
            vx = T.axis.spatial(4, x)
            T.reads(B[vx * 4:vx * 4 + 4])
            T.writes(C[vx * 4:vx * 4 + 4])
            for y in range(4):
                with T.block("inner"):
                    vy = T.axis.spatial(4, y)
                    T.reads(B[vx * 4 + vy])
                    T.writes(C[vx * 4 + vy])
                    C[vx * 4 + vy] = B[vx * 4 + vy]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    for x in range(4):
        with T.block("outer"):
            vx = T.axis.spatial(4, x)
            T.reads(A[vx * 4:vx * 4 + 4])
            T.writes(C[vx * 4:vx * 4 + 4])
            for y in range(4):
                with T.block("inner"):
                    vy = T.axis.spatial(4, y)
                    T.reads(A[vx * 4 + vy])
                    T.writes(C[vx * 4 + vy])
                    C[vx * 4 + vy] = A[vx * 4 + vy] + T.float32(1)
"""
    apply(before, inline("B"), after)


def test_a_load_that_is_an_index():
    before = """\
@T.prim_func
def main(X: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = (vi * 3 + 1) % 8
    for x in range(8):
        with T.block("C"):
            vx = T.axis.spatial(8, x)
            T.reads(X[0:8], B[vx])
            T.writes(C[vx])
            C[vx] = X[B[vx]]
"""
    after = """\
@T.prim_func
def main(X: T.Buffer((8,)), C: T.Buffer((8,))):
    for x in range(8):
        with T.block("C"):
            vx = T.axis.spatial(8, x)
            T.reads(X[(vx * 3 + 1) % 8])
            T.writes(C[vx])
            C[vx] = X[(vx * 3 + 1) % 8]
"""
    apply(before, inline("B"), after)


def test_a_predicate_that_only_splits_is_dropped():
    before = """\
@T.prim_func
def main(A: T.Buffer((7,)), C: T.Buffer((7,))):
    B = T.alloc_buffer((7,))
    for i_0, i_1 in T.grid(2, 4):
        with T.block("B"):
            vi = T.axis.spatial(7, i_0 * 4 + i_1)
            T.where(i_0 * 4 + i_1 < 7)
            B[vi] = A[vi] + T.float32(1)
    for x in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, x)
            C[vi] = B[vi]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((7,)), C: T.Buffer((7,))):
    for x in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, x)
            C[vi] = A[vi] + T.float32(1)
"""
    apply(before, inline("B"), after)


def test_64_bit_indices():
    before = STAGES.replace("8", "T.int64(8)").replace("6)", "T.int64(6))")
    before = before.replace("float32(2)", "float32(3)")
    sch = apply(before, inline("B"))
    assert "C[vi, vj] = A[vi, vj] * T.float32(3.0) + T.float32(1.0)" in sch.mod.script()


def test_only_emptied_loops_vanish():
    before = """\
@T.prim_func
def main(A: T.Buffer((8,)), D: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        for j in range(1):
            with T.block("B"):
                vi = T.axis.spatial(8, i + j)
                B[vi] = A[vi]
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = A[vi]
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), D: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = A[vi]
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = A[vi]
"""
    apply(before, inline("B"), after)


def test_a_chain_of_producers():
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
            C[vi] = B[7 - vi] * T.float32(2)
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[vi] - T.float32(3)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), D: T.Buffer((8,))):
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = (A[7 - vi] + T.float32(1)) * T.float32(2) - T.float32(3)
"""
    for order in ("BC", "CB"):
        apply(before, lambda sch, order=order: [sch.compute_inline(b) for b in order], after)


# ------------------------------------------------------------------------------------------ handles


def test_handles():
    sch = Schedule(parse(STAGES), debug_mask="all")
    producer, consumer = sch.get_block("B"), sch.get_block("C")
    (i, _), (x, y) = sch.get_loops(producer), sch.get_loops(consumer)
    sch.compute_inline(producer)
    assert sch.get(consumer).name_hint == "C"
    sch.reorder(y, x)
    for gone in (producer, i):
        with pytest.raises(ValueError, match="compute-inline replaced it"):
            sch.get(gone)


def test_trace():
    sch = apply(STAGES, inline("B"))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="B", func_name="main")',
        "sch.compute_inline(block=b0)",
    ]
    assert sch.trace.as_json() == [
        [["GetBlock", [], ["B", "main"], ["b0"]], ["ComputeInline", ["b0"], [], []]],
        [],
    ]


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
    "C[vi, vj] = B[vi, vj] + T.float32(1)",
    'C[vi, vj] = T.call_extern("float32", "f", B.data, vi, vj)',
).replace(
    "            C[vi, vj] = T.call",
    "            T.reads(B[0:8, 0:6])\n"
    "            T.writes(C[vi, vj])\n            C[vi, vj] = T.call",
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


def test_an_argument_of_another_type():
    sch = Schedule(parse(STAGES))
    loop = sch.get_loops("B")[0]
    with pytest.raises(TypeError, match=r"Schedule\.compute_inline: `block` takes a BlockRV or"):
        sch.compute_inline(loop)


# ------------------------------------------------------------------------- values and calls

INTEGERS = """\
@T.prim_func
def main(C: T.Buffer((16,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = {value}
    for i in range(16):
        with T.block("C"):
            v = T.axis.spatial(16, i)
            C[v] = {use}
"""
INLINED = """\
@T.prim_func
def main(C: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.block("{block}"):
            v = T.axis.spatial(16, i)
            C[v] = {use}
"""
INLINES = pytest.mark.parametrize(
    ("inline", "left"),
    [
        (lambda sch: sch.compute_inline("B"), "C"),
        (lambda sch: sch.reverse_compute_inline("C"), "B"),
    ],
)


@INLINES
@pytest.mark.parametrize(
    ("value", "use"),
    [
        ("v + 2147483640", "({} + 1) // 2"),
        ("2147483647", "({} + v) // 2"),
        ("v", "({} * 2000000000) // 7"),
        ("v", "T.Cast('int32', T.Cast('int64', {} * 2000000000) // T.int64(7))"),
    ],
)
def test_arithmetic_that_wraps_on_what_was_loaded_still_does(inline, left, value, use):
    before = INTEGERS.format(value=value, use=use.format("B[v]"))
    after = INLINED.format(block=left, use=use.format(f"T.reinterpret('int32', {value})"))
    apply(before, inline, after)


@INLINES
def test_integers_that_their_type_holds_are_inlined_as_they_are(inline, left):
    before = INTEGERS.format(value="v * 3 + 5", use="(B[v] + 1) // 2")
    apply(before, inline, INLINED.format(block=left, use="(v * 3 + 5 + 1) // 2"))


LET = """\
@T.prim_func
def main(C: T.Buffer((16,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = v + 2147483640
    for i in range(16):
        with T.block("C"):
            v = T.axis.spatial(16, i)
            with T.LetStmt(B[v]) as x:
                C[v] = (x + 1) // 2
"""


def test_a_variable_that_held_what_was_loaded_holds_a_value_still():
    apply(LET, lambda sch: sch.compute_inline("B"))


CALLS = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = {value}
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = {use}
"""


DRAW = 'T.call_extern("float32", "draw", {})'
DRAWN = CALLS.format(value=DRAW.format("A[v]"), use="B[v] + B[v]")
DRAWING = CALLS.format(value="A[v]", use=DRAW.format("B[v]"))


@pytest.mark.parametrize(
    ("before", "call"),
    [
        (DRAWN, lambda sch: sch.compute_inline("B")),
        (DRAWN, lambda sch: sch.reverse_compute_inline("C")),
        (DRAWN, lambda sch: sch.compute_at("B", sch.get_loops("C")[0])),
        (DRAWING, lambda sch: sch.reverse_compute_inline("C")),
        (DRAWING, lambda sch: sch.reverse_compute_at("C", sch.get_loops("B")[0])),
    ],
)
def test_a_call_for_its_effect_runs_as_often_as_it_does(before, call):
    refused(before, call, "OpaqueCallError", "another number of times")


def test_a_pure_call_is_inlined():
    before = CALLS.format(value='T.call_pure_extern("float32", "sinf", A[v])', use="B[v] + B[v]")
    scheduled(before, lambda sch: sch.compute_inline("B"))


# ---------------------------------------------------------------------------- reads in conditions


CONDITION = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x, y in T.grid(8, 6):
        {}with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""
PREDICATE = CONDITION.format("").replace(
    "[x, y])\n", "[x, y])\n            T.where(B[x, y] < T.float32(1))\n"
)


def test_a_predicate_that_reads_the_buffer():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    for x, y in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            T.where(A[x, y] * T.float32(2) < T.float32(1))
            C[vi, vj] = A[vi, vj] * T.float32(2) + T.float32(1)
"""
    apply(PREDICATE, inline("B"), after)


def test_a_condition_around_a_consumer_that_reads_the_buffer():
    before = CONDITION.format("if B[x, y] < T.float32(1):\n            ")
    before = before.replace(
        '            vi, vj = T.axis.remap("SS", [x',
        '                vi, vj = T.axis.remap("SS", [x',
    )
    before = before.replace("            C[vi", "                C[vi")
    sch = apply(before, inline("B"))
    assert "if A[x, y] * T.float32(2.0) < T.float32(1.0):" in sch.mod.script()


def test_conditions_that_read_what_is_not_complete_are_refused():
    together = PREDICATE.replace("    for x, y in T.grid(8, 6):\n", "").replace("[x, y]", "[i, j]")
    part = PREDICATE.replace("i, j in T.grid(8, 6)", "i, j in T.grid(8, 5)")
    for before in (together, part.replace("x, y in T.grid(8, 6)", "x, y in T.grid(8, 5)")):
        refused(before, inline("B"), "BareAccessError", "B, which block")


NO_AXES = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            T.reads(A[i])
            T.writes(B[i])
            B[i] = A[i] * T.float32(2)
    for j in range(8):
        with T.block("C"):
            T.reads(B[j])
            T.writes(C[j])
            C[j] = B[j] + T.float32(1)
"""


def test_blocks_without_axes_stay_in_the_loops_that_they_use():
    words = "has no axes and uses the variable of"
    call = lambda sch: sch.compute_inline("B")  # noqa: E731
    refused(NO_AXES, call, "OpaqueBlockError", words, ["block B", "loop i"])
    call = lambda sch: sch.reverse_compute_inline("C")  # noqa: E731
    refused(NO_AXES, call, "OpaqueBlockError", words, ["block C", "loop j"])


def test_a_consumer_reads_the_constant_of_its_producer():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 4)), C: T.Buffer((4, 4))):
    B = T.alloc_buffer((4, 4))
    data = T.allocate_const([0.0, 1.0, 2.0, 3.0], "float32", [4])
    K = T.decl_buffer((4,), data=data)
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * K[vj]
    for i, j in T.grid(4, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vj, vi] + T.float32(1)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 4)), C: T.Buffer((4, 4))):
    data = T.allocate_const([0.0, 1.0, 2.0, 3.0], "float32", [4])
    K = T.decl_buffer((4,), data=data)
    for i, j in T.grid(4, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vj, vi], K[vi])
            T.writes(C[vi, vj])
            C[vi, vj] = A[vj, vi] * K[vi] + T.float32(1)
"""
    apply(before, inline("B"), after)
