"""What stands around a trace in a line is read as if the whole line were parsed."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from codegen import Target
from search import DatabaseError
from search.arg_info import TensorInfo
from search.database.records import RecordLine, read_record_line

NASTY = st.sampled_from(
    ['"', "\\", '},{"kind"', "]],[1.0],", ',{"', "[", "]", "]]", "ü", "lambda i: (i)"]
)
TEXTS = st.lists(NASTY, max_size=4).map("".join)
VALUES = st.recursive(
    st.none() | st.integers(-9, 99) | st.floats(0, 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=8,
)
TRACES = st.tuples(st.lists(st.lists(VALUES, max_size=4), max_size=4), st.lists(VALUES, max_size=3))
SECONDS = st.none() | st.lists(st.integers(0, 9) | st.floats(0, 1e10), max_size=3)
TARGETS = st.sampled_from(
    [None, {"kind": "llvm"}, {"keys": ["cpu"], "kind": "llvm", "num-cores": 4, "tag": '}],{"]]'}]
)
ARGUMENTS = st.sampled_from([None, [], [["TENSOR", "float32", [4, 4]], ["TENSOR", "int8", []]]])
LINES = st.tuples(st.integers(0, 99), st.tuples(TRACES, SECONDS, TARGETS, ARGUMENTS))
BLANKS = st.sampled_from([(",", ":"), (", ", ": ")])


def content(line: bytes) -> tuple[Any, ...]:
    """Return what a line says by the reader of JSON alone."""
    workload, (trace, seconds, target, args) = json.loads(line)
    return (
        workload,
        trace,
        None if seconds is None else tuple(map(float, seconds)),
        None if target is None else Target(target),
        None if args is None else tuple(TensorInfo(dtype, shape) for _, dtype, shape in args),
    )


def said(line: RecordLine) -> tuple[Any, ...]:
    return (line.workload, json.loads(line.trace), line.run_secs, line.target, line.args_info)


@given(LINES, BLANKS, st.booleans())
def test_a_line_says_what_its_json_says(
    value: Any, blanks: tuple[str, str], ascii_only: bool
) -> None:
    line = json.dumps(value, separators=blanks, ensure_ascii=ascii_only).encode()
    found = read_record_line(line)
    assert said(found) == content(line)
    insts = json.loads(line)[1][0][0]
    assert found.schedules == (bool(insts) and insts[0][:1] != ["EnterPostproc"])


@given(LINES, st.data())
def test_a_damaged_line_is_refused_or_says_what_its_json_says(
    value: Any, data: st.DataObject
) -> None:
    """Unless the damage is in the trace, which shows when that is read."""
    line = json.dumps(value, separators=(",", ":")).encode()
    places = st.integers(0, len(line))
    start, end, at = data.draw(places), data.draw(places), data.draw(places)
    damaged = line[:at] + line[min(start, end) : max(start, end)] + line[max(at, end) :]
    try:
        found = read_record_line(damaged)
    except DatabaseError:
        return
    try:
        json.loads(found.trace)
    except ValueError:
        return
    assert said(found) == content(damaged)
