"""What every primitive must satisfy, whatever it does."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from schedule import Schedule, ScheduleError, Trace
from schedule.errors import describe
from tensorir import IRModule, assert_structural_equal, parse
from tensorir.interp import interpret, random_arguments
from tensorir.rewriting.visit import walk


def apply(
    before: str, call: Callable[[Schedule], object], after: str | None = None, *, seed: int = 0
) -> Schedule:
    """Apply `call` to a program and check everything that holds for accepted calls.

    The program is the expected one, computes the same, prints as text that reads back, and replays
    from the trace's JSON and from its Python text.
    """
    sch = scheduled(before, call, after)
    expected = random_arguments(parse(before), seed)
    actual = [a.copy() for a in expected]
    interpret(parse(before), *expected)
    interpret(sch.mod, *actual)
    for got, wanted in zip(actual, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)
    return sch


def scheduled(
    before: str, call: Callable[[Schedule], object], after: str | None = None
) -> Schedule:
    """Apply `call` to a program and check the result and the trace, but not what it computes."""
    func = parse(before)
    sch = Schedule(func, debug_mask="all", seed=1)
    call(sch)
    if after is not None:
        assert_structural_equal(sch.mod["main"], parse(after))
    assert_structural_equal(parse(sch.mod.script()), sch.mod)
    assert_replays(sch, func)
    return sch


def assert_replays(sch: Schedule, func) -> None:
    """Check that JSON and Python text of the trace rebuild the program.

    The text is read, and run as it stands.
    """
    stored = json.dumps(sch.trace.as_json())
    replayed = Schedule(IRModule({"main": func}))
    Trace.from_json(json.loads(stored)).apply_to_schedule(replayed, remove_postproc=False)
    assert_structural_equal(replayed.mod, sch.mod)
    assert json.dumps(replayed.trace.as_json()) == stored
    assert Trace.from_python(sch.trace.script()).as_json() == sch.trace.as_json()
    written = Schedule(IRModule({"main": func}))
    names: dict[str, object] = {}
    exec(sch.trace.script(), names)
    names["apply_trace"](written)
    assert_structural_equal(written.mod, sch.mod)


def refused(
    before: str,
    call: Callable[[Schedule], object],
    code: str,
    words: str = "",
    marked: Sequence[str] | None = None,
) -> ScheduleError:
    """Check that the last primitive of `call` is refused with `code`, and changes nothing.

    `marked` describes the loops and blocks that the error points at, which must be nodes of the
    program, in order: `"block B"`, `"loop i"`.
    """
    sch = Schedule(parse(before), debug_mask="all", seed=1)
    seen: dict[str, object] = {}

    class Watched:
        def __getattr__(self, name):
            attribute = getattr(sch, name)
            if not callable(attribute):
                return attribute

            def called(*args, **kwargs):
                seen["program"], seen["length"] = sch.mod["main"], len(sch.trace.insts)
                return attribute(*args, **kwargs)

            return called

    with pytest.raises(ScheduleError) as caught:
        call(Watched())
    error = caught.value
    assert error.code == code
    assert words in str(error)
    assert sch.mod["main"] is seen["program"]
    assert len(sch.trace.insts) == seen["length"]
    if marked is not None:
        assert [describe(node).replace("`", "").replace('"', "") for node in error.locations] == [
            *marked
        ]
        present = {id(node) for node in walk(sch.mod["main"].body)}
        assert all(id(node) in present for node in error.locations)
    return error
