"""Hints on blocks and loops: annotate, unannotate."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import parse
from tests.schedule.cases import program
from tests.schedule.transformation import apply

PROGRAM = program("PROGRAM", "annotate")


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


# ----------------------------------------------------------------------------------------- refused


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
