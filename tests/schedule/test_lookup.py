"""Finding blocks and loops."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import IRModule, parse
from tests.schedule.transformation import refused

STAGES = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), D: T.Buffer((8, 4)), E: T.Buffer((8,))):
    B = T.alloc_buffer((8, 4))
    C = T.alloc_buffer((8, 4))
    for i in range(8):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + B[vi, vj]
    for i in range(8):
        with T.block("E"):
            vi = T.axis.spatial(8, i)
            E[vi] = B[vi, 0]
"""

OVERWRITTEN = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("first"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("reader"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
    for i in range(8):
        with T.block("second"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(8):
        with T.block("update"):
            vi = T.axis.spatial(8, i)
            C[vi] = C[vi] + B[vi]
"""

NESTED = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), D: T.Buffer((8, 4))):
    X = T.alloc_buffer((8, 4))
    for i in range(8):
        with T.block("outer"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:4])
            T.writes(X[vi, 0:4])
            Y = T.alloc_buffer((4,))
            for j in range(4):
                with T.block("Y"):
                    vj = T.axis.spatial(4, j)
                    Y[vj] = A[vi, vj]
            for j in range(4):
                with T.block("X"):
                    vj = T.axis.spatial(4, j)
                    X[vi, vj] = Y[vj]
    for i, j in T.grid(8, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = X[vi, vj]
"""

WITH_INIT_BLOCK = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8,))):
    for i, k in T.grid(8, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                with T.block("zero"):
                    T.reads()
                    T.writes(C[vi])
                    C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""


def program(text):
    return Schedule(parse(text), debug_mask="all")


def names(sch, handles):
    return [sch.get(block).name_hint for block in handles]


# --------------------------------------------------------------------------------------- get_block


@pytest.mark.parametrize("name", ["root", "outer", "X", "D"])
def test_a_block_at_any_depth(name):
    sch = program(NESTED)
    assert sch.get(sch.get_block(name)).name_hint == name


def test_no_function_to_look_in():
    sch = Schedule(IRModule({"one": parse(STAGES), "other": parse(NESTED)}))
    with pytest.raises(ValueError, match="get_block needs func_name"):
        sch.get_block("B")
    with pytest.raises(ValueError, match="third"):
        sch.get_block("B", "third")
    assert sch.trace.insts == []


def test_a_name_that_several_blocks_have():
    error = refused(
        STAGES.replace('block("E")', 'block("B")'),
        lambda sch: sch.get_block("B"),
        "NotSingleResult",
        'Found  2 blocks with the name: B in function "main"',
        marked=["block B", "block B"],
    )
    assert error.locations[0] is not error.locations[1]


def test_a_block_in_an_init_is_not_found():
    refused(WITH_INIT_BLOCK, lambda sch: sch.get_block("zero"), "NotSingleResult")


# --------------------------------------------------------------------------------------- get_loops


@pytest.mark.parametrize(
    ("name", "loops"), [("root", []), ("outer", ["i"]), ("X", ["j"]), ("D", ["i", "j"])]
)
def test_loops_up_to_the_next_block(name, loops):
    sch = program(NESTED)
    assert [sch.get(loop).loop_var.name for loop in sch.get_loops(sch.get_block(name))] == loops


def test_loops_of_a_block_by_name():
    sch = program(NESTED)
    outer, inner = sch.get_loops("D")
    assert sch.get(outer).body is sch.get(inner)
    assert [row[0] for row in sch.trace.as_json()[0]] == ["GetBlock", "GetLoops"]


# -------------------------------------------------------------------------------- get_child_blocks


@pytest.mark.parametrize(
    ("name", "children"),
    [("root", ["outer", "D"]), ("outer", ["Y", "X"]), ("X", []), ("D", [])],
)
def test_blocks_right_below_a_block(name, children):
    sch = program(NESTED)
    assert names(sch, sch.get_child_blocks(sch.get_block(name))) == children


def test_blocks_right_below_a_loop():
    sch = program(STAGES)
    outer, inner = sch.get_loops(sch.get_block("C"))
    assert names(sch, sch.get_child_blocks(outer)) == ["B", "C"]
    assert names(sch, sch.get_child_blocks(inner)) == ["C"]


def test_a_block_in_an_init_is_no_child():
    sch = program(WITH_INIT_BLOCK)
    assert sch.get_child_blocks(sch.get_block("C")) == []


def test_the_name_of_a_block_is_no_handle():
    sch = program(STAGES)
    with pytest.raises(TypeError, match="`block_or_loop` takes a BlockRV or LoopRV"):
        sch.get_child_blocks("root")


# --------------------------------------------------------------------- get_producers, get_consumers


@pytest.mark.parametrize(
    ("text", "name", "producers", "consumers"),
    [
        (STAGES, "B", [], ["D", "E"]),
        (STAGES, "C", [], ["D"]),
        (STAGES, "D", ["C", "B"], []),
        (STAGES, "E", ["B"], []),
        (NESTED, "outer", [], ["D"]),
        (NESTED, "D", ["outer"], []),
        (NESTED, "Y", [], ["X"]),
        (NESTED, "X", ["Y"], []),
        (OVERWRITTEN, "first", [], ["reader", "second", "update"]),
        (OVERWRITTEN, "reader", ["first"], ["update"]),
        (OVERWRITTEN, "second", ["first"], ["update"]),
        (OVERWRITTEN, "update", ["reader", "first", "second"], []),
    ],
)
def test_producers_and_consumers(text, name, producers, consumers):
    sch = program(text)
    block = sch.get_block(name)
    assert names(sch, sch.get_producers(block)) == producers
    assert names(sch, sch.get_consumers(name)) == consumers


@pytest.mark.parametrize("method", ["get_producers", "get_consumers"])
def test_the_root_block_has_no_scope(method):
    refused(
        STAGES,
        lambda sch: getattr(sch, method)(sch.get_block("root")),
        "RootBlockError",
        'block "root" is one',
        ["block root"],
    )


# ------------------------------------------------------------------------------- get_output_blocks


@pytest.mark.parametrize(
    ("text", "scope", "found"),
    [
        (STAGES, "root", ["D", "E"]),
        (NESTED, "root", ["X", "D"]),
        (NESTED, "outer", ["X"]),
        (NESTED, "D", []),
        (OVERWRITTEN, "root", ["reader", "update"]),
    ],
)
def test_output_blocks(text, scope, found):
    sch = program(text)
    assert names(sch, sch.get_output_blocks(sch.get_block(scope))) == found
