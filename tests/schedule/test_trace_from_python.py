"""The Python text of a trace is read back, without running any of it."""

from __future__ import annotations

import math
import random

import pytest

from schedule import LoopRV, Schedule, Trace
from tensorir import DiagnosticError, IndexMap, assert_structural_equal, parse
from tests.recorded import RECORDED, recorded

PROGRAM = """\
@T.prim_func
def main(A: T.Buffer((8, 16)), C: T.Buffer((8, 16))):
    B = T.alloc_buffer((8, 16))
    for i, j in T.grid(8, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""


def everything() -> Schedule:
    """Return a schedule whose trace has arguments of every kind."""
    sch = Schedule(parse(PROGRAM), seed=1)
    block = sch.get_block("B")
    i, j = sch.get_loops(block)
    factors = sch.sample_perfect_tile(j, n=2, decision=[4, 4])
    sch.split(j, [None, factors[1] * 2])
    sch.annotate(i, "note", [1, -2, 0.5, "é\\", factors[0]])
    sch.annotate(block, "table", {"a": 1, "b": [2, "x"]})
    there, back = (lambda a, b: (b, a // 2, a % 2)), (lambda x, y, z: (y * 2 + z, x))
    sch.transform_layout(block, ("write", 0), IndexMap.from_func(there, inverse_index_map=back))
    sch.annotate_buffer_access(
        sch.get_block("C"), 0, "write", lambda vi, vj: [(vi, vi + 1), (0, 16)]
    )
    sch.compute_at(block, LoopRV.root_rv())
    sch.enter_postproc()
    return sch


@pytest.mark.parametrize("dialect", ["tensorir", "tvm"])
def test_what_is_printed_reads_back(dialect):
    trace = everything().trace
    again = Trace.from_python(trace.script(dialect=dialect))
    assert again.as_json() == trace.as_json()
    assert str(again) == str(trace)
    lines = "\n".join(trace.as_python(dialect=dialect))
    assert Trace.from_python(lines).as_json() == trace.as_json()


def test_what_is_printed_runs_where_it_is_pasted():
    sch = everything()
    text = str(sch.trace)
    assert text.splitlines()[:3] == [
        "from schedule import LoopRV, Schedule",
        "from tensorir import IndexMap, T",
        "",
    ]
    names: dict[str, object] = {}
    exec(text, names)
    again = Schedule(parse(PROGRAM))
    names["apply_trace"](again)
    assert_structural_equal(again.mod, sch.mod)
    assert again.trace.as_json() == sch.trace.as_json()


@pytest.mark.parametrize("name", RECORDED)
def test_every_reference_trace_reads_back(name):
    for entry in recorded(name):
        trace = Trace.from_json(entry["trace"])
        assert Trace.from_python(str(trace)).as_json() == trace.as_json()
        if entry.get("trace_py"):
            assert Trace.from_python(entry["trace_py"]).as_json() == trace.as_json()


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e30, -0.0])
def test_numbers_that_have_no_digits(value):
    sch = Schedule(parse(PROGRAM))
    sch.annotate(sch.get_block("B"), "limit", value)
    trace = Trace.from_python(str(sch.trace))
    assert str(trace) == str(sch.trace)
    assert repr(value) in map(repr, trace.insts[-1].values)


@pytest.mark.parametrize(("written", "number"), [("2 * 2", "4"), ("9 >> 1", "4")])
def test_arithmetic_on_numbers_is_a_number(written, number):
    text = f"{LOOPS}l3, l4 = sch.split(l1, [{written}, None])"
    trace = Trace.from_python(text)
    assert f"factors=[{number}, None]" in str(trace)
    assert Trace.from_python(str(trace)).as_json() == trace.as_json()


BLOCK = 'b0 = sch.get_block(name="B", func_name="main")\n'
LOOPS = f"{BLOCK}l1, l2 = sch.get_loops(block=b0)\n"


@pytest.mark.parametrize(
    ("text", "marked", "words"),
    [
        ("b0 = sch.get_blok(name='B')", "sch.get_blok", "unknown primitive get_blok; do you mean get_block"),
        (f"{LOOPS}sch.unroll(loop=l3)", "l3", "random variable l3 is not defined; do you mean l"),
        (f"{LOOPS}sch.unroll(lop=l1)", "sch.unroll(lop=l1)", "'lop'; do you mean 'loop'?"),
        (f"{LOOPS}sch.unroll()", "sch.unroll()", "missing the argument 'loop'"),
        (f"{LOOPS}sch.unroll(l1, l2)", "sch.unroll(l1, l2)", "too many arguments"),
        (f"{LOOPS}sch.unroll(b0)", "b0", "`loop`: b0 is not a loop"),
        (f"{LOOPS}sch.reorder(l1, 3)", "l1", "`ordered_loops`: "),
        (f"{BLOCK}sch.storage_align(b0, 0, 'x', 1, 0)", "'x'", "`axis`: a value is 'x', but must be of type int"),
        (f"{LOOPS}sch.unroll(*[l1])", "*[l1]", "without *"),
        (f"{LOOPS}sch.unroll(**l1)", "l1", "without **"),
        (f"{LOOPS}l3 = sch.split(l1, [2, 4])", "l3", "split returns a list"),
        (f"{LOOPS}l3, l4 = sch.fuse(l1, l2)", "l3, l4", "fuse returns one value"),
        (f"{LOOPS}l3 = sch.unroll(l1)", "l3", "unroll returns nothing"),
        ('sch.get_block("B")', 'sch.get_block("B")', "needs a name"),
        ('sch.b0 = sch.get_block("B")', "sch.b0", "assigned to plain names"),
        ('b0 = b1 = sch.get_block("B")', "b0 = b1", "one name, not several"),
        ("l1 = 3", "l1 = 3", "such as sch.get_block(...)"),
        ("import os\nos.system('x')", "os", "calls the methods of sch, nothing else"),
        ("b0 = sch.get_block(open('x'))", "open('x')", "Undefined variable: open"),
        (f"{BLOCK}sch.annotate(b0, 'k', {{b0: 1}})", "b0", "the keys of a dict are strings"),
        (f"{LOOPS}sch.split(l1, [l1 + 1])", "l1 + 1", ""),
        (f"{BLOCK}sch.transform_layout(b0, ('read', 0), lambda i: j)", "lambda i: j", "variable: j"),
        (f"{LOOPS}v3 = sch.sample_categorical([1], [1.0], decision=b0)", "b0", "a decision is"),
        (f"{LOOPS}v3, v4 = sch.sample_perfect_tile(l1, 2, decision=[{{{{}}}}])", "[{", "a decision is"),
        (f"{BLOCK}x = {'-' * 100_000}1", "x = -", "nested too deeply"),
        (f"{LOOPS}v3 = sch.sample_categorical([1], [1.0], decision=1e400)", "1e400", "a decision is"),
        (f"{LOOPS}l3, l4 = sch.split(l1, [3 > 2, None])", "[3 > 2", "is not a whole number"),
        ("b0 = sch.get_block(", "(", "never closed"),
        ("def f(a, b):\n  pass", "def f(a, b):", "a function of one schedule"),
        ("é = 1; b0 = sch.get_blok('é')", "é = 1", "such as"),
        ("\0", "\0", "null bytes"),
    ],
)  # fmt: skip
def test_text_that_is_no_trace(text, marked, words):
    with pytest.raises(DiagnosticError) as caught:
        Trace.from_python(text)
    error = caught.value
    assert words in error.message
    assert text.split("\n")[error.line - 1][error.column - 1 :].startswith(marked)
    assert "<trace>" in str(error)


PIECES = ("l1", "b0", "(", ")", "[", ",", "=", "'x'", "-1", "None", "lambda i: i", "*", "sch", "{",
          ":", "T.int64(3)", "é", "\n", "  ", "if", "l1 + 1", "1e999", "b''", "f'{x}'", "...", "1j",
          " = b1")  # fmt: skip


def test_changed_text_is_a_trace_or_is_refused_with_its_place():
    rng = random.Random(1)
    text = str(everything().trace)
    read, places = 0, []
    for _ in range(500):
        start = rng.randrange(len(text))
        changed = text[:start] + rng.choice(PIECES) + text[start + rng.choice((0, 1, 2, 8)) :]
        try:
            Trace.from_python(changed).as_json()
            read += 1
        except DiagnosticError as error:
            places.append(error.line)
    assert 0 < read < 500
    assert all(1 <= line <= len(text.splitlines()) + 1 for line in places)
