"""decompose_padding: the border is filled first, then the inside is stored without asking."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import Schedule
from tensorir import parse
from tests.schedule.transformation import apply, refused

IMAGE = """\
@T.prim_func
def main(A: T.Buffer((6, 5)), P: T.Buffer((8, 9))):
    for i, j in T.grid(8, 9):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = T.if_then_else(
                1 <= vi and vi < 7 and 2 <= vj and vj < 7, A[vi - 1, vj - 2], T.float32(0)
            )
"""

IMAGE_AFTER = """\
@T.prim_func
def main(A: T.Buffer((6, 5)), P: T.Buffer((8, 9))):
    for i, j in T.grid(8, 9):
        with T.block("P_pad_const"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads()
            T.writes(P[vi, vj])
            P[vi, vj] = T.float32(0)
    for i, j in T.grid(6, 5):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(P[vi + 1, vj + 2])
            P[vi + 1, vj + 2] = A[vi, vj]
"""

LINE = """\
@T.prim_func
def main(A: T.Buffer((12,)), P: T.Buffer((16,))):
    for i in range(16):
        with T.block("P"):
            vi = T.axis.spatial(16, i)
            P[vi] = T.if_then_else(3 <= vi and vi < 15, A[vi - 3], T.float32(0))
"""


def at(depth, block="P"):
    """Decompose at the loop that has `depth` others around it."""
    return lambda sch: sch.decompose_padding(block, sch.get_loops(sch.get_block(block))[depth])


def line(condition="3 <= vi and vi < 15", value="A[vi - 3]", constant="T.float32(0)"):
    return LINE.replace("3 <= vi and vi < 15", condition).replace(
        "A[vi - 3], T.float32(0)", f"{value}, {constant}"
    )


# ----------------------------------------------------------------------------------------- the loop


def test_at_the_outermost_loop_all_loops_become_shorter():
    apply(IMAGE, at(0), IMAGE_AFTER)


def test_further_in_the_loops_outside_keep_their_length():
    after = """\
@T.prim_func
def main(A: T.Buffer((6, 5)), P: T.Buffer((8, 9))):
    for i in range(8):
        for j in range(9):
            with T.block("P_pad_const"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads()
                T.writes(P[vi, vj])
                P[vi, vj] = T.float32(0)
        for j in range(5):
            with T.block("P"):
                vi = T.axis.spatial(6, i - 1)
                vj = T.axis.spatial(5, j)
                T.where(1 <= i and i < 7)
                T.reads(A[vi, vj])
                T.writes(P[vi + 1, vj + 2])
                P[vi + 1, vj + 2] = A[vi, vj]
"""
    apply(IMAGE, at(1), after)


def test_axes_without_padding_stay_as_they_are():
    before = """\
@T.prim_func
def main(A: T.Buffer((1, 6, 6, 4)), P: T.Buffer((1, 8, 8, 4))):
    for n, h, w, c in T.grid(1, 8, 8, 4):
        with T.block("P"):
            vn, vh, vw, vc = T.axis.remap("SSSS", [n, h, w, c])
            P[vn, vh, vw, vc] = T.if_then_else(
                1 <= vh and vh < 7 and 1 <= vw and vw < 7, A[vn, vh - 1, vw - 1, vc], T.float32(0)
            )
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((1, 6, 6, 4)), P: T.Buffer((1, 8, 8, 4))):
    for n in range(1):
        for h, w, c in T.grid(8, 8, 4):
            with T.block("P_pad_const"):
                vn = T.axis.spatial(1, 0)
                vh, vw, vc = T.axis.remap("SSS", [h, w, c])
                T.reads()
                T.writes(P[vn, vh, vw, vc])
                P[vn, vh, vw, vc] = T.float32(0)
        for h, w, c in T.grid(6, 6, 4):
            with T.block("P"):
                vn = T.axis.spatial(1, 0)
                vh, vw, vc = T.axis.remap("SSS", [h, w, c])
                T.reads(A[vn, vh, vw, vc])
                T.writes(P[vn, vh + 1, vw + 1, vc])
                P[vn, vh + 1, vw + 1, vc] = A[vn, vh, vw, vc]
"""
    apply(before, at(1), after)


def test_axes_of_several_loops_keep_a_predicate():
    after = """\
@T.prim_func
def main(A: T.Buffer((12,)), P: T.Buffer((16,))):
    for i_0 in range(4):
        for i_1 in range(4):
            with T.block("P_pad_const"):
                vi = T.axis.spatial(16, i_0 * 4 + i_1)
                T.reads()
                T.writes(P[vi])
                P[vi] = T.float32(0)
        for i_1 in range(4):
            with T.block("P"):
                vi = T.axis.spatial(12, i_0 * 4 + i_1 - 3)
                T.where(3 <= i_0 * 4 + i_1 and i_0 * 4 + i_1 < 15)
                T.reads(A[vi])
                T.writes(P[vi + 3])
                P[vi + 3] = A[vi]
"""

    def call(sch):
        _, inner = sch.split(sch.get_loops(sch.get_block("P"))[0], [4, 4])
        sch.decompose_padding("P", inner)

    apply(LINE, call, after)


def test_a_predicate_of_the_block_stays_on_both():
    after = """\
@T.prim_func
def main(A: T.Buffer((12,)), P: T.Buffer((16,))):
    for i_0, i_1 in T.grid(4, 5):
        with T.block("P_pad_const"):
            vi = T.axis.spatial(16, i_0 * 5 + i_1)
            T.where(i_0 * 5 + i_1 < 16)
            T.reads()
            T.writes(P[vi])
            P[vi] = T.float32(0)
    for i_0, i_1 in T.grid(4, 5):
        with T.block("P"):
            vi = T.axis.spatial(12, i_0 * 5 + i_1 - 3)
            T.where(i_0 * 5 + i_1 < 16 and 3 <= i_0 * 5 + i_1 and i_0 < 3)
            T.reads(A[vi])
            T.writes(P[vi + 3])
            P[vi + 3] = A[vi]
"""

    def call(sch):
        outer, _ = sch.split(sch.get_loops(sch.get_block("P"))[0], [None, 5])
        sch.decompose_padding("P", outer)

    apply(LINE, call, after)


def test_a_padding_that_is_computed_where_it_is_used():
    before = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    P = T.alloc_buffer((10,))
    for i_0 in range(4):
        for k in range(4):
            with T.block("P"):
                vk = T.axis.spatial(10, i_0 * 2 + k)
                P[vk] = T.if_then_else(1 <= vk and vk < 9, A[vk - 1], T.float32(0))
        for i_1 in range(2):
            with T.block("C"):
                vi = T.axis.spatial(8, i_0 * 2 + i_1)
                C[vi] = P[vi] + P[vi + 2]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    P = T.alloc_buffer((10,))
    for i_0 in range(4):
        for k in range(4):
            with T.block("P_pad_const"):
                vk = T.axis.spatial(10, i_0 * 2 + k)
                T.reads()
                T.writes(P[vk])
                P[vk] = T.float32(0)
        for k in range(4):
            with T.block("P"):
                vk = T.axis.spatial(8, i_0 * 2 + k - 1)
                T.where(1 <= i_0 * 2 + k and i_0 * 2 + k < 9)
                T.reads(A[vk])
                T.writes(P[vk + 1])
                P[vk + 1] = A[vk]
        for i_1 in range(2):
            with T.block("C"):
                vi = T.axis.spatial(8, i_0 * 2 + i_1)
                C[vi] = P[vi] + P[vi + 2]
"""
    apply(before, at(1), after)


def test_other_blocks_in_the_loop_keep_its_length():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), P: T.Buffer((6, 6)), B: T.Buffer((6, 6))):
    for i in range(6):
        for j in range(6):
            with T.block("P"):
                vi, vj = T.axis.remap("SS", [i, j])
                P[vi, vj] = T.if_then_else(vi < 4, A[vi, vj], T.float32(0))
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = P[vi, vj]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), P: T.Buffer((6, 6)), B: T.Buffer((6, 6))):
    for i in range(6):
        for j in range(6):
            with T.block("P_pad_const"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads()
                T.writes(P[vi, vj])
                P[vi, vj] = T.float32(0)
        for j in range(6):
            with T.block("P"):
                vi = T.axis.spatial(4, i)
                vj = T.axis.spatial(6, j)
                T.where(i < 4)
                T.reads(A[vi, vj])
                T.writes(P[vi, vj])
                P[vi, vj] = A[vi, vj]
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = P[vi, vj]
"""
    apply(before, at(1), after)


def test_the_loops_of_the_border_are_serial():
    def call(sch):
        i, j = sch.get_loops(sch.get_block("P"))
        sch.parallel(i)
        sch.unroll(j)
        sch.decompose_padding("P", i)

    after = IMAGE_AFTER.replace(
        """\
    for i, j in T.grid(6, 5):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(P[vi + 1, vj + 2])
            P[vi + 1, vj + 2] = A[vi, vj]
""",
        """\
    for i in T.parallel(6):
        for j in T.unroll(5):
            with T.block("P"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj])
                T.writes(P[vi + 1, vj + 2])
                P[vi + 1, vj + 2] = A[vi, vj]
""",
    )
    apply(IMAGE, call, after)


# ------------------------------------------------------------------------------------- the condition


@pytest.mark.parametrize(
    "condition",
    [
        "3 <= vi and vi < 15",
        "vi >= 3 and vi <= 14",
        "2 < vi and 15 > vi",
        "vi - 3 >= 0 and vi - 3 < 12",
        "0 <= vi - 3 and 12 > vi - 3",
        "14 - vi >= 0 and 3 <= vi",
        "3 <= vi and vi < 15 and vi < 20",
        "1 <= vi and 3 <= vi and vi < 15",
    ],
)
def test_forms_of_the_same_condition(condition):
    after = """\
@T.prim_func
def main(A: T.Buffer((12,)), P: T.Buffer((16,))):
    for i in range(16):
        with T.block("P_pad_const"):
            vi = T.axis.spatial(16, i)
            T.reads()
            T.writes(P[vi])
            P[vi] = T.float32(0)
    for i in range(12):
        with T.block("P"):
            vi = T.axis.spatial(12, i)
            T.reads(A[vi])
            T.writes(P[vi + 3])
            P[vi + 3] = A[vi]
"""
    apply(line(condition), at(0), after)


def test_padding_on_one_side_only():
    after = """\
@T.prim_func
def main(A: T.Buffer((12,)), P: T.Buffer((16,))):
    for i in range(16):
        with T.block("P_pad_const"):
            vi = T.axis.spatial(16, i)
            T.reads()
            T.writes(P[vi])
            P[vi] = T.float32(-1)
    for i in range(12):
        with T.block("P"):
            vi = T.axis.spatial(12, i)
            T.reads(A[vi])
            T.writes(P[vi])
            P[vi] = A[vi]
"""
    apply(line("vi < 12", "A[vi]", "T.float32(-1)"), at(0), after)


def test_what_is_computed_inside_moves_along():
    before = line(value="T.exp(A[vi - 3]) * T.Cast('float32', vi)").replace("'", '"')
    after = """\
@T.prim_func
def main(A: T.Buffer((12,)), P: T.Buffer((16,))):
    for i in range(16):
        with T.block("P_pad_const"):
            vi = T.axis.spatial(16, i)
            T.reads()
            T.writes(P[vi])
            P[vi] = T.float32(0)
    for i in range(12):
        with T.block("P"):
            vi = T.axis.spatial(12, i)
            T.reads(A[vi])
            T.writes(P[vi + 3])
            P[vi + 3] = T.exp(A[vi]) * T.Cast("float32", vi + 3)
"""
    apply(before, at(0), after)


def test_regions_that_are_declared_move_along():
    before = IMAGE.replace(
        "            P[vi, vj] =",
        "            T.reads(A[0:6, vj - 2])\n            T.writes(P[vi, vj])\n            P[vi, vj] =",
    )
    after = IMAGE_AFTER.replace("T.reads(A[vi, vj])", "T.reads(A[0:6, vj])")
    apply(before, at(0), after)


def test_integers_and_a_stored_place_that_is_shifted():
    before = """\
@T.prim_func
def main(A: T.Buffer((6,), "int8"), P: T.Buffer((20,), "int8")):
    for i in range(9):
        with T.block("P"):
            vi = T.axis.spatial(9, i)
            P[vi * 2 + 1] = T.if_then_else(2 <= vi and vi < 8, A[7 - vi], T.int8(-128))
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((6,), "int8"), P: T.Buffer((20,), "int8")):
    for i in range(9):
        with T.block("P_pad_const"):
            vi = T.axis.spatial(9, i)
            T.reads()
            T.writes(P[vi * 2 + 1])
            P[vi * 2 + 1] = T.int8(-128)
    for i in range(6):
        with T.block("P"):
            vi = T.axis.spatial(6, i)
            T.reads(A[5 - vi])
            T.writes(P[vi * 2 + 5])
            P[vi * 2 + 5] = A[5 - vi]
"""
    apply(before, at(0), after)


@settings(max_examples=20)
@given(
    st.integers(0, 4), st.integers(1, 6), st.integers(0, 4), st.integers(1, 5), st.integers(0, 2)
)
def test_all_paddings_compute_the_same(before, inside, behind, factor, depth):
    whole = before + inside + behind
    if whole == inside:
        behind, whole = 1, whole + 1
    text = f"""\
@T.prim_func
def main(A: T.Buffer(({inside}, 3)), P: T.Buffer(({whole}, 3))):
    for i, j in T.grid({whole}, 3):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = T.if_then_else(
                {before} <= vi and vi < {before + inside}, A[vi - {before}, vj], T.float32(7)
            )
"""

    def call(sch):
        i, _ = sch.get_loops(sch.get_block("P"))
        sch.split(i, [None, factor])
        loop = sch.get_loops(sch.get_block("P"))[depth]
        assert sch.can_decompose_padding("P", loop)
        sch.decompose_padding("P", loop)

    apply(text, call)


# --------------------------------------------------------------------------------- handles and trace


def test_handles():
    sch = Schedule(parse(IMAGE), debug_mask="all")
    block = sch.get_block("P")
    loops = sch.get_loops(block)
    border = sch.decompose_padding(block, loops[0])
    assert sch.get(border).name_hint == "P_pad_const"
    assert sch.get(block).name_hint == "P"
    assert [int(sch.get(loop).extent) for loop in loops] == [6, 5]
    assert [int(sch.get(loop).extent) for loop in sch.get_loops(border)] == [8, 9]


def test_the_border_is_scheduled_on_its_own():
    def call(sch):
        border = sch.decompose_padding("P", sch.get_loops(sch.get_block("P"))[0])
        sch.vectorize(sch.get_loops(border)[1])
        sch.parallel(sch.get_loops(sch.get_block("P"))[0])

    apply(IMAGE, call)


def test_trace():
    sch = apply(IMAGE, at(1))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="P", func_name="main")',
        "l1, l2 = sch.get_loops(block=b0)",
        'b3 = sch.get_block(name="P", func_name="main")',
        "b4 = sch.decompose_padding(block=b3, loop=l2)",
    ]
    assert sch.trace.as_json() == [
        [
            ["GetBlock", [], ["P", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1", "l2"]],
            ["GetBlock", [], ["P", "main"], ["b3"]],
            ["DecomposePadding", ["b3", "l2"], [], ["b4"]],
        ],
        [],
    ]


def test_asking_is_not_recorded_and_changes_nothing():
    sch = Schedule(parse(IMAGE), debug_mask="all")
    block = sch.get_block("P")
    i, j = sch.get_loops(block)
    program, length = sch.mod["main"], len(sch.trace.insts)
    assert sch.can_decompose_padding(block, i)
    assert sch.can_decompose_padding("P", j)
    assert sch.mod["main"] is program
    assert len(sch.trace.insts) == length
    sch.decompose_padding(block, i)
    assert not sch.can_decompose_padding(block, i)


# ------------------------------------------------------------------------------------------- refused

TWO = """\
@T.prim_func
def main(A: T.Buffer((12,)), P: T.Buffer((16,)), B: T.Buffer((16,))):
    for i in range(16):
        with T.block("P"):
            vi = T.axis.spatial(16, i)
            P[vi] = T.if_then_else(3 <= vi and vi < 15, A[vi - 3], T.float32(0))
    for l in range(16):
        with T.block("B"):
            vl = T.axis.spatial(16, l)
            B[vl] = P[vl]
"""

REDUCTION = """\
@T.prim_func
def main(A: T.Buffer((12,)), P: T.Buffer((16,))):
    for i, k in T.grid(16, 3):
        with T.block("P"):
            vi, vk = T.axis.remap("SR", [i, k])
            P[vi] = T.if_then_else(3 <= vi and vi < 15, A[vi - 3], T.float32(0))
"""

SYMBOLIC = """\
@T.prim_func
def main(a: T.handle, p: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,))
    P = T.match_buffer(p, (n,))
    for i in range(n):
        with T.block("P"):
            vi = T.axis.spatial(n, i)
            P[vi] = T.if_then_else(1 <= vi, A[vi - 1], T.float32(0))
"""

IMAGE_CONDITION = "1 <= vi and vi < 7 and 2 <= vj and vj < 7"


def with_body(*stores):
    head = LINE[: LINE.index("            P[vi] =")]
    return head + "".join(f"            {store}\n" for store in stores)


def loop_of_another_block(sch):
    sch.decompose_padding("P", sch.get_loops(sch.get_block("B"))[0])


def root(sch):
    sch.decompose_padding("root", sch.get_loops(sch.get_block("P"))[0])


@pytest.mark.parametrize(
    ("before", "call", "code", "words", "marked"),
    [
        (
            TWO,
            loop_of_another_block,
            "LoopPositionError",
            'loop `l` is not an ancestor of block "P"',
            ["loop l", "block P"],
        ),
        (LINE, root, "RootBlockError", "root block", ["block root"]),
        (REDUCTION, at(0), "IncompleteBlockError", "violates condition #1", ["block P"]),
        (
            with_body("P[vi] = T.if_then_else(3 <= vi, P[vi - 3], T.float32(0))"),
            at(0),
            "IncompleteBlockError",
            "violates condition #3",
            ["block P"],
        ),
        (
            TWO.replace("B[vl] = P[vl]", "P[vl] = A[0]"),
            at(0),
            "IncompleteBlockError",
            "violates condition #2",
            ["block P"],
        ),
    ],
)
def test_refused(before, call, code, words, marked):
    refused(before, call, code, words, marked)


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (
            with_body("P[vi] = T.if_then_else(3 <= vi, A[vi - 3], T.float32(0))", "P[vi] = A[0]"),
            "its body is not a single store",
        ),
        (
            with_body("if 3 <= vi:", "    P[vi] = A[vi - 3]"),
            "its body is not a single store",
        ),
        (with_body("P[vi] = A[T.min(vi, 11)]"), "the stored value is not an if_then_else"),
        (
            with_body("P[vi] = T.Select(vi < 12, T.float32(1), T.float32(0))"),
            "the stored value is not an if_then_else",
        ),
        (line(constant="A[0]"), "the value that it stores outside is not constant"),
        (
            line(value='T.call_extern("float32", "sinf", A[vi - 3])'),
            "computing what it stores inside has an effect",
        ),
        (line("A[0] < T.float32(1) and vi < 12"), "its condition depends on data"),
        (SYMBOLIC, "the domain of axis vi is not constant"),
        (
            LINE.replace("T.axis.spatial(16, i)", "T.axis.spatial((3, 16), i + 3)").replace(
                "range(16)", "range(13)"
            ),
            "the domain of axis vi is not constant",
        ),
        (line("vi % 2 == 0"), "`vi % 2 == 0` does not bound one axis by a constant"),
        (line("3 <= vi or vi < 2"), "`3 <= vi or vi < 2` does not bound one axis by a constant"),
        (line("6 <= vi * 2"), "`6 <= vi * 2` does not bound one axis by a constant"),
        (line("vi != 3"), "`vi != 3` does not bound one axis by a constant"),
        (
            IMAGE.replace(IMAGE_CONDITION, "1 <= vi and 2 <= vj and vi + vj < 7"),
            "`vi + vj < 7` does not bound one axis by a constant",
        ),
        (line("0 <= vi and vi < 16", "A[vi % 12]"), "its condition always holds"),
        (line("9 <= vi and vi < 4"), "its condition never holds"),
    ],
)
def test_what_is_no_padding(before, reason):
    words = f'block "P" is not a padding that can be decomposed: {reason}'
    refused(before, at(0), "PaddingPatternMatchError", words, ["block P"])
    sch = Schedule(parse(before))
    assert not sch.can_decompose_padding("P", sch.get_loops(sch.get_block("P"))[0])


def test_the_constant_is_not_stored_where_a_binding_is_unknown():
    before = """\
@T.prim_func
def main(A: T.Buffer((8,)), P: T.Buffer((10,))):
    for i in range(10):
        x: T.int32 = 9 - i
        with T.block("P"):
            vi = T.axis.spatial(10, x)
            P[vi] = T.if_then_else(1 <= vi and vi < 9, A[vi - 1], T.float32(0))
"""
    refused(before, at(0), "OutOfScopeError", "would leave a name without its definition")
    sch = Schedule(parse(before), debug_mask="all")
    program = sch.mod["main"]
    assert not sch.can_decompose_padding("P", sch.get_loops(sch.get_block("P"))[0])
    assert sch.mod["main"] is program


# ---------------------------------------------------------------------------------- in other hands


def in_a_loop(first, second):
    return f"""\
@T.prim_func
def main(A: T.Buffer((8,)), P: T.Buffer((10,)), C: T.Buffer((10,))):
    for i in range(10):
{first}{second}"""


PADDED = """\
        with T.block("P"):
            vi = T.axis.spatial(10, i)
            P[vi] = T.if_then_else(1 <= vi and vi < 9, A[vi - 1], T.float32(0))
"""
READS = """\
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = P[vi]
"""


def outermost(sch):
    sch.decompose_padding("P", sch.get_loops(sch.get_block("P"))[0])


def test_a_reader_after_the_block_in_its_loop():
    apply(in_a_loop(PADDED, READS), outermost)


def test_a_reader_that_would_find_the_constant_before_the_value():
    marked = ["block C", "block P"]
    words = "may read P before"
    refused(in_a_loop(READS, PADDED), outermost, "PaddingReadEarlyError", words, marked)
    ahead = READS.replace("P[vi]", "P[9 - vi]")
    refused(in_a_loop(PADDED, ahead), outermost, "PaddingReadEarlyError", words, marked)


def test_a_condition_below_the_loop():
    block = "".join("    " + line + "\n" for line in PADDED.splitlines())
    before = in_a_loop("        if i % 2 == 0:\n", block)
    words = "a condition below loop `i` may leave it out"
    refused(before, outermost, "PaddingPatternMatchError", words, ["block P"])
