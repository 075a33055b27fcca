"""A primitive that lives outside the package works like those inside."""

from __future__ import annotations

import json

from schedule import InstructionKind, Schedule, Trace, primitive
from schedule.instruction import LoopArg
from tensorir import assert_structural_equal, parse

PROGRAM = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
"""


@primitive("MarkHot")
def mark_hot(state, loop: LoopArg, weight: int = 1) -> None:
    """Annotate a loop as hot."""
    old = loop.loop
    state.replace(loop, old.with_(annotations={**old.annotations, "hot": weight}))


def test_user_defined_primitive_prints_and_replays():
    func = parse(PROGRAM)
    sch = Schedule(func)
    (loop,) = sch.get_loops(sch.get_block("B"))
    sch.mark_hot(loop, weight=3)
    assert 'T.serial(8, annotations={"hot": 3})' in sch.mod.script()
    assert sch.trace.as_python()[-1] == "sch.mark_hot(loop=l1, weight=3)"
    stored = json.dumps(sch.trace.as_json())
    again = Schedule(func)
    Trace.from_json(json.loads(stored)).apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)
    assert InstructionKind.get("MarkHot").summary == "Annotate a loop as hot."
