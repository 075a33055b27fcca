"""A kind of operand and a primitive that takes it, both of a user's own and in one file."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Annotated, Any

import pytest

from schedule import InstructionKind, Schedule, ScheduleError, Trace, TraceError, primitive
from schedule.instruction import LoopArg
from schedule.operands.operand import Operand
from schedule.state import ScheduleState
from schedule.stubs import stub_text
from tensorir import assert_structural_equal, parse
from tensorir.errors import DiagnosticError

PROGRAM = parse(
    """
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
"""
)


class ShareOperand(Operand):
    """A fraction, stored and printed as text such as "3/4"."""

    varies = False
    expected = "a Fraction"
    stub = "Fraction"

    def accept_one(self, call, param, path, value):
        if not isinstance(value, Fraction):
            call.refuse(path, self.expected, value)
        if not 0 <= value <= 1:
            call.reject(path, f"is {value}; a share is in [0, 1]")
        return value

    def stored(self, value):
        return [str(value)]

    def checked(self, param, value, known, where):
        try:
            return Fraction(value)
        except (TypeError, ValueError):
            raise TraceError(f"{where}: {value!r} is no fraction") from None

    def text(self, param, value, names):
        return f'"{value}"'


ShareArg = Annotated[Any, ShareOperand()]


@primitive("MarkShare")
def mark_share(state: ScheduleState, loop: LoopArg, share: ShareArg) -> None:
    """Annotate a loop with the share of its iterations that run on the large cores."""
    mark = [share.numerator, share.denominator]
    old = loop.loop
    state.replace(loop, old.with_(annotations={**old.annotations, "share": mark}))


@pytest.fixture
def sch() -> Schedule:
    return Schedule(PROGRAM)


def marked(sch: Schedule) -> Schedule:
    sch.mark_share(sch.get_loops(sch.get_block("B"))[0], Fraction(6, 8))
    return sch


def test_the_function_gets_what_the_user_gave(sch):
    assert 'T.serial(8, annotations={"share": [3, 4]})' in marked(sch).mod.script()


def test_the_call_survives_json(sch):
    saved = json.dumps(marked(sch).trace.as_json())
    assert json.loads(saved)[0][-1] == ["MarkShare", ["l1", '"3/4"'], [], []]
    again = Schedule(PROGRAM)
    Trace.from_json(saved).apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)
    assert again.trace.insts[-1].value_of("share") == Fraction(3, 4)


def test_the_call_prints_as_python_and_is_read_back(sch):
    lines = marked(sch).trace.as_python()
    assert lines[-1] == 'sch.mark_share(loop=l1, share="3/4")'
    again = Schedule(PROGRAM)
    Trace.from_python("\n".join(lines)).apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_the_stub_names_the_type():
    assert "    def mark_share(self, loop: LoopRV, share: Fraction) -> None: ...\n" in stub_text()
    assert InstructionKind.get("MarkShare").method == "mark_share"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.75, r"Schedule.mark_share: `share` takes a Fraction, got float: 0.75"),
        (Fraction(5, 4), r"Schedule.mark_share: `share` is 5/4; a share is in \[0, 1\]"),
    ],
)
def test_a_wrong_argument_is_named_and_changes_nothing(sch, value, words):
    (loop,) = sch.get_loops(sch.get_block("B"))
    before, recorded = sch.mod, list(sch.trace.insts)
    with pytest.raises(ScheduleError, match=words):
        sch.mark_share(loop, value)
    assert sch.mod is before
    assert sch.trace.insts == recorded


def test_a_wrong_value_in_a_trace_is_named(sch):
    saved = marked(sch).trace.as_json()
    saved[0][-1][1][1] = '"many"'
    with pytest.raises(TraceError, match=r"\(MarkShare\): `share`: 'many' is no fraction"):
        Trace.from_json(saved)
    with pytest.raises(DiagnosticError, match='`share`: "many" is no fraction'):
        Trace.from_python("\n".join(sch.trace.as_python()).replace("3/4", "many"))
