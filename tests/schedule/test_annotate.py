"""Hints on blocks and loops: annotate, unannotate."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import assert_structural_equal, parse
from tensorir.nodes.ops import const
from tests.schedule.transformation import apply, refused

PROGRAM = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
"""

MARKED = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in T.serial(8, annotations={"pragma": 3}):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.block_attr({"hint": "fast"})
            B[vi] = A[vi] + T.float32(1)
"""


def block_with(attributes):
    """Return PROGRAM with annotations on its block."""
    attr = f"            T.block_attr({attributes})\n"
    return PROGRAM.replace("            B[vi]", attr + "            B[vi]")


def annotate(key, value):
    return lambda sch: sch.annotate(sch.get_block("B"), key, value)


# ---------------------------------------------------------------------------------------- annotate


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("fast", '"fast"'),
        ("", '""'),
        (7, "7"),
        (-1, "-1"),
        (0.25, "T.float32(0.25)"),
        (True, "True"),
        ([False, {"a": True}], '[False, {"a": True}]'),
        ([], "[]"),
        ([1, "two", [3, 0.5]], '[1, "two", [3, T.float32(0.5)]]'),
        ((1, 2), "[1, 2]"),
        ({"a": 1, "b": [2, "x"]}, '{"a": 1, "b": [2, "x"]}'),
        ({}, "{}"),
    ],
    ids=str,
)
def test_values_on_a_block(value, written):
    apply(PROGRAM, annotate("hint", value), block_with(f'{{"hint": {written}}}'))


@pytest.mark.parametrize("text", ['say "hi"', "a\\b", "two\nlines", "'", '"', "b0", "None", "β"])
def test_any_text_survives_a_replay(text):
    sch = apply(PROGRAM, annotate("hint", text))
    assert sch.get(sch.get_block("B")).annotations == {"hint": text}


def test_numbers_are_int32_and_float32():
    sch = apply(PROGRAM, annotate("hint", [1, 0.5]))
    values = sch.get(sch.get_block("B")).annotations["hint"]
    assert_structural_equal(values, (const(1, "int32"), const(0.5, "float32")))


def test_a_loop_and_a_block():
    def call(sch):
        block = sch.get_block("B")
        sch.annotate(block, "hint", "fast")
        sch.annotate(sch.get_loops(block)[0], "pragma", 3)

    apply(PROGRAM, call, MARKED)


def test_the_root_block():
    after = PROGRAM.replace(
        "    for i",
        """\
    with T.block("root"):
     T.reads()
     T.writes()
     T.block_attr({"level": 2})
     for i""",
    )
    apply(PROGRAM, lambda sch: sch.annotate(sch.get_block("root"), "level", 2), after)


def test_sampled_numbers_are_stored_as_constants():
    def call(sch):
        number = sch.sample_categorical([16, 64], [0.5, 0.5], decision=1)
        sch.annotate(sch.get_block("B"), "hint", number)
        sch.annotate(sch.get_block("B"), "hints", [number * 2, 1])

    sch = apply(PROGRAM, call, block_with('{"hint": 64, "hints": [128, 1]}'))
    assert sch.trace.as_json()[0][2] == ["Annotate", ["b1", "v0"], ["hint"], []]
    assert sch.trace.as_python()[2] == 'sch.annotate(block_or_loop=b1, ann_key="hint", ann_val=v0)'


def test_an_annotation_that_is_there_is_kept_but_the_call_recorded():
    sch = apply(MARKED, annotate("hint", "slow"), MARKED)
    assert sch.trace.as_json()[0][-1] == ["Annotate", ["b0", '"slow"'], ["hint"], []]


def test_other_annotations_are_kept():
    after = MARKED.replace('{"hint": "fast"}', '{"hint": "fast", "more": 1}')
    apply(MARKED, annotate("more", 1), after)


def test_handles_stay():
    sch = Schedule(parse(PROGRAM), debug_mask="all")
    block = sch.get_block("B")
    (loop,) = sch.get_loops(block)
    sch.annotate(loop, "pragma", 3)
    sch.annotate(block, "hint", "fast")
    assert sch.get(loop).annotations["pragma"].value == 3
    sch.unannotate(loop, "pragma")
    sch.unannotate(block, "hint")
    assert_structural_equal(sch.mod["main"], parse(PROGRAM))


# -------------------------------------------------------------------------------------- unannotate


def test_unannotate():
    def call(sch):
        block = sch.get_block("B")
        sch.unannotate(block, "hint")
        sch.unannotate(sch.get_loops(block)[0], "pragma")

    apply(MARKED, call, PROGRAM)


def test_unannotate_one_of_several():
    before = block_with('{"a": 1, "b": 2, "c": 3}')
    after = block_with('{"a": 1, "c": 3}')
    apply(before, lambda sch: sch.unannotate(sch.get_block("B"), "b"), after)


def test_unannotate_makes_place_for_another_value():
    def call(sch):
        sch.unannotate(sch.get_block("B"), "hint")
        sch.annotate(sch.get_block("B"), "hint", "slow")

    apply(MARKED, call, MARKED.replace("fast", "slow"))


# ------------------------------------------------------------------------------------------- trace


def test_trace():
    def call(sch):
        block = sch.get_block("B")
        (loop,) = sch.get_loops(block)
        sch.annotate(block, "hint", "fast")
        sch.annotate(loop, "pragma", [1, "x", 0.5])
        sch.annotate(block, "table", {"b": 2, "a": "y"})
        sch.unannotate(loop, "pragma")

    sch = apply(PROGRAM, call)
    assert sch.trace.as_python()[2:] == [
        'sch.annotate(block_or_loop=b0, ann_key="hint", ann_val="fast")',
        'sch.annotate(block_or_loop=l1, ann_key="pragma", ann_val=[1, "x", 0.5])',
        'sch.annotate(block_or_loop=b0, ann_key="table", ann_val={"a": "y", "b": 2})',
        'sch.unannotate(block_or_loop=l1, ann_key="pragma")',
    ]
    assert sch.trace.as_json()[0][2:] == [
        ["Annotate", ["b0", '"fast"'], ["hint"], []],
        ["Annotate", ["l1", [1, '"x"', 0.5]], ["pragma"], []],
        ["Annotate", ["b0", {"a": '"y"', "b": 2}], ["table"], []],
        ["Unannotate", ["l1"], ["pragma"], []],
    ]


# ----------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("before", "call", "words", "marked"),
    [
        (
            MARKED,
            lambda sch: sch.unannotate(sch.get_block("B"), "pragma"),
            "block \"B\" has no annotation 'pragma' [AnnotationKeyError]",
            ["block B"],
        ),
        (
            MARKED,
            lambda sch: sch.unannotate(sch.get_loops(sch.get_block("B"))[0], "hint"),
            "loop `i` has no annotation 'hint'",
            ["loop i"],
        ),
        (
            PROGRAM,
            lambda sch: sch.unannotate(sch.get_block("root"), "hint"),
            "its keys are []",
            ["block root"],
        ),
    ],
)
def test_an_annotation_that_is_not_there(before, call, words, marked):
    refused(before, call, "AnnotationKeyError", words, marked)


@pytest.mark.parametrize(
    ("target", "value", "words"),
    [
        ("B", 1, "`block_or_loop` takes a BlockRV or LoopRV"),
        (None, None, "`ann_val` takes a str, int, float, ExprRV, or a list or dict"),
        (None, [1, None], r"`ann_val\[1\]` takes"),
        (None, {"a": object()}, r"`ann_val\['a'\]` takes"),
    ],
)
def test_wrong_types(target, value, words):
    sch = Schedule(parse(PROGRAM))
    block = sch.get_block("B")
    program = sch.mod["main"]
    with pytest.raises(TypeError, match=words):
        sch.annotate(target or block, "hint", value)
    assert sch.mod["main"] is program
    assert len(sch.trace.insts) == 1
