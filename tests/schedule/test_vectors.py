"""Traces that a reference implementation recorded replay to the same programs."""

from __future__ import annotations

import pytest

from schedule import Schedule, Trace
from tensorir import IRModule, PrimFunc, assert_structural_equal, parse, simplify
from tests.recorded import RECORDED, recorded
from tests.schedule.transformation import parsed

WRONG_THERE = {
    ("walks", 6): "merges a consumer in front of its producer",
    ("walks", 7): "copies elements beyond the buffer",
}
"""What changes results, so that only schedules without checks accept it."""


def entries():
    return list(_entries())


def _entries():
    for name in RECORDED:
        for number, entry in enumerate(recorded(name)):
            yield pytest.param(name, number, entry, id=f"{name}-{number}-{entry['workload']}")


@pytest.mark.parametrize(("name", "number", "entry"), entries())
def test_replay(name, number, entry):
    before = parsed(entry["before"])
    mod = before if isinstance(before, IRModule) else IRModule({"main": before})
    checked = (name, number) not in WRONG_THERE
    sch = Schedule(mod, enable_check=checked)
    refused = entry["after"] is None
    trace = Trace.from_json(entry["trace"])
    trace.apply_to_schedule(sch, remove_postproc=refused)
    expected = parse(entry["mid"] if refused else entry["after"])
    assert isinstance(expected, PrimFunc)
    if name == "walks" and any(inst[0] == "Blockize" for inst in entry["trace"][0]):
        # Axes of one value are written as recorded.
        assert_structural_equal(sch.mod["main"], expected)
    else:
        assert_structural_equal(simplify(sch.mod["main"]), simplify(expected))
    sch.state.verify()
    if entry.get("trace_py"):
        assert trace.script(dialect="tvm").strip() == entry["trace_py"].strip()
