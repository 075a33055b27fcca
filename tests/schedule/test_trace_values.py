"""What an instruction was given survives each form of a trace, whatever it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import Schedule, ScheduleError, Trace
from tensorir import IndexMap, T, assert_structural_equal
from tensorir.nodes.expr import FloatImm, IntImm, Var

ATTACK = 'key"]); import pathlib; pathlib.Path("made").touch(); ([r"\\'
TEXTS = st.one_of(
    st.text(max_size=8),
    st.text(st.sampled_from("\"'\\\n\r\t\0\x02\x7f\u2028\u202e\ud800{}#aé🙂"), max_size=8),
    st.just(ATTACK),
)
NUMBERS = st.one_of(
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
KNOB_VALUES = st.recursive(
    st.one_of(st.none(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=5,
)


@T.prim_func
def row(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)


def stored(trace: Trace) -> str:
    return json.dumps(trace.as_json(), sort_keys=True)


def assert_survives(sch: Schedule) -> None:
    """Assert that each form of a trace reads back, and that it does what was done."""
    trace = sch.trace
    for again in (
        Trace.from_json(json.dumps(trace.as_json())),
        Trace.from_python(trace.script()),
        Trace.from_python(trace.script(dialect="tvm")),
        Trace.from_python("\n".join(trace.as_python())),
    ):
        assert stored(again) == stored(trace)
    names: dict[str, object] = {}
    exec(trace.script(), names)
    replayed = Schedule(row)
    names["apply_trace"](replayed)
    assert_structural_equal(replayed.mod, sch.mod)
    assert stored(replayed.trace) == stored(trace)


@given(TEXTS, st.lists(KNOB_VALUES, min_size=1, max_size=3))
@settings(max_examples=15)
def test_options_of_a_knob(knob, candidates):
    sch = Schedule(row)
    chosen = sch.sample_knob_option(knob, candidates)
    sch.annotate(sch.get_block("B"), "chosen", chosen)
    assert_survives(sch)


@pytest.mark.parametrize(
    ("given", "kept"),
    [(IntImm("bool", 1), True), (IntImm("int64", 5), 5), (FloatImm("float64", 0.1), 0.1)],
)
def test_a_constant_is_recorded_as_the_number_that_it_is(given, kept):
    sch, expected = Schedule(row), Schedule(row)
    sch.annotate(sch.get_block("B"), "key", given)
    expected.annotate(expected.get_block("B"), "key", kept)
    assert_structural_equal(sch.mod, expected.mod)
    assert_survives(sch)


def test_a_dict_whose_keys_json_would_change_is_refused():
    sch = Schedule(row)
    with pytest.raises(ScheduleError, match="the keys of a dict are strings"):
        sch.sample_knob_option("size", [{1: "a"}])


def test_a_name_that_is_given_again_stands_for_the_last_output():
    text = """
    b = sch.get_block("B", "main")
    l, = sch.get_loops(b)
    b = sch.add_unit_loop(b)
    sch.annotate(b, "unit", 1)
    """
    trace = Trace.from_python("\n".join(line.strip() for line in text.splitlines()))
    sch = Schedule(row)
    trace.apply_to_schedule(sch, remove_postproc=False)
    (_, unit) = sch.get_loops("B")
    assert "unit" in sch.get(unit).annotations
    assert_survives(sch)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["class"], "lambda class_1: (class_1 + 1,)"),
        (['i: 0) or exec("'], "lambda i__0__or_exec__: (i__0__or_exec__ + 1,)"),
        (["T"], "lambda T_1: (T_1 + 1,)"),
        (["0"], "lambda i_1: (i_1 + 1,)"),
        (["i", "i"], "lambda i, i_1: (i + 1, i_1 + 1,)"),
    ],
)
def test_indices_whose_names_text_cannot_have(names, text):
    own = [Var(name) for name in names]
    index_map = IndexMap(own, [v + 1 for v in own])
    assert str(index_map) == text
