"""Putting a loop of one iteration around a statement."""

from __future__ import annotations

import pytest

from schedule import Schedule, ScheduleError
from tensorir import assert_structural_equal, parse
from tensorir.nodes.ops import const
from tests.schedule.programs import MATRIX
from tests.schedule.transformation import apply

STAGES = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + T.float32(1)
"""

SCALAR = """\
@T.prim_func
def main(A: T.Buffer((), "int32"), B: T.Buffer((), "int32")):
    with T.block("B"):
        vi = T.axis.spatial(1, 0)
        B[()] = A[()] + vi
"""


def around_block(name):
    return lambda sch: sch.add_unit_loop(sch.get_block(name))


def around_loop(name, depth):
    return lambda sch: sch.add_unit_loop(sch.get_loops(sch.get_block(name))[depth])


def test_around_a_block():
    after = MATRIX.replace("i, j in T.grid(8, 12)", "i, j, u in T.grid(8, 12, 1)")
    apply(MATRIX, around_block("B"), after)


@pytest.mark.parametrize(
    ("depth", "loops"), [(0, "u, i, j in T.grid(1, 8, 12)"), (1, "i, u, j in T.grid(8, 1, 12)")]
)
def test_around_a_loop(depth, loops):
    after = MATRIX.replace("i, j in T.grid(8, 12)", loops)
    apply(MATRIX, around_loop("B", depth), after)


def test_around_one_of_several_blocks():
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
        for u in range(1):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi] + T.float32(1)
"""
    apply(STAGES, around_block("C"), after)


def test_around_a_block_without_loops():
    after = """\
@T.prim_func
def main(A: T.Buffer((), "int32"), B: T.Buffer((), "int32")):
    for u in range(1):
        with T.block("B"):
            vi = T.axis.spatial(1, 0)
            B[()] = A[()] + vi
"""
    apply(SCALAR, around_block("B"), after)


def test_predicate_and_bindings_stay():
    before = MATRIX.replace("            B[", "            T.where(i < 5)\n            B[")
    after = before.replace("i, j in T.grid(8, 12)", "i, j, u in T.grid(8, 12, 1)")
    apply(before, around_block("B"), after)


def test_the_loop_is_serial_and_counts_in_int32():
    before = MATRIX.replace("T.grid(8, 12)", "T.grid(T.int64(8), T.int64(12))")
    sch = apply(before, around_block("B"))
    loop = sch.get(sch.get_loops(sch.get_block("B"))[-1])
    assert loop.loop_var.name == "u"
    assert loop.loop_var.dtype == "int32"
    assert loop.kind.name == "SERIAL"
    assert_structural_equal((loop.min, loop.extent), (const(0), const(1)))


def test_handles():
    sch = Schedule(parse(MATRIX), debug_mask="all")
    block = sch.get_block("B")
    i, j = sch.get_loops(block)
    inner = sch.add_unit_loop(block)
    outer = sch.add_unit_loop(i)
    assert [sch.get(loop) for loop in sch.get_loops(block)] == [
        sch.get(loop) for loop in (outer, i, j, inner)
    ]


def test_trace():
    def call(sch):
        block = sch.get_block("B")
        sch.add_unit_loop(sch.add_unit_loop(block))

    sch = apply(MATRIX, call)
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="B", func_name="main")',
        "l1 = sch.add_unit_loop(block_or_loop=b0)",
        "l2 = sch.add_unit_loop(block_or_loop=l1)",
    ]
    assert sch.trace.as_json() == [
        [
            ["GetBlock", [], ["B", "main"], ["b0"]],
            ["AddUnitLoop", ["b0"], [], ["l1"]],
            ["AddUnitLoop", ["l1"], [], ["l2"]],
        ],
        [],
    ]


def test_the_root_block_cannot_be_wrapped():
    sch = Schedule(parse(MATRIX))
    root, program = sch.get_block("root"), sch.mod["main"]
    with pytest.raises(ScheduleError, match="root block"):
        sch.add_unit_loop(root)
    assert sch.mod["main"] is program
    assert len(sch.trace.insts) == 1


def test_a_name_is_no_handle():
    sch = Schedule(parse(MATRIX))
    with pytest.raises(TypeError, match="`block_or_loop` takes a BlockRV or LoopRV"):
        sch.add_unit_loop("B")
    assert sch.trace.insts == []
