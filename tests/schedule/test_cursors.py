"""Cursors: places of a program by moving about and by patterns; queries of blocks."""

from __future__ import annotations

import pytest

from schedule import LoopRV, Schedule, ScheduleError
from schedule.cursors import cursor, find, find_all
from schedule.queries import (
    blocks,
    contraction,
    is_elementwise,
    is_gemm,
    is_gemv,
    is_reduction,
    loop_kinds,
)
from tensorir import parse
from tensorir.errors import IRValueError

PROGRAM = """
@T.prim_func
def main(
    A: T.Buffer((8, 64, 32), "int8"), B: T.Buffer((8, 32, 16), "int8"), bias: T.Buffer((16,)),
    x: T.Buffer((64,)), M: T.Buffer((8, 64)), D: T.Buffer((8, 64, 16)), y: T.Buffer((8,)),
):
    C = T.alloc_buffer((8, 64, 16), "int32")
    for b, i, j, k in T.grid(8, 64, 16, 32):
        with T.block("C"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            with T.init():
                C[vb, vi, vj] = 0
            C[vb, vi, vj] = C[vb, vi, vj] + T.int32(A[vb, vi, vk]) * T.int32(B[vb, vk, vj])
    for b, i in T.grid(8, 64):
        for j in T.parallel(16):
            with T.block("D"):
                vb, vi, vj = T.axis.remap("SSS", [b, i, j])
                D[vb, vi, vj] = T.max(T.float32(C[vb, vi, vj]) + bias[vj], T.float32(0))
    for i, k in T.grid(8, 64):
        with T.block("y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                y[vi] = T.float32(0)
            y[vi] = y[vi] + M[vi, vk] * x[vk]
"""


@pytest.fixture
def sch() -> Schedule:
    return Schedule(parse(PROGRAM))


def test_moving_about(sch: Schedule) -> None:
    root = cursor(sch)
    assert [str(place) for place in root.children] == ["loop b", "loop b", "loop i"]
    first = root.children[0]
    assert first.previous is None
    assert str(first.next) == str(first.next.previous.next) == "loop b"
    assert first.next.next.next is None
    assert root.parent is None
    assert root.next is None
    block = cursor(sch, "y")
    assert str(block) == "block y"
    assert str(block.parent) == "loop k"
    assert str(cursor(sch, block.parent.handle)) == "loop k"
    assert [str(place) for place in block.parent.parent.walk()] == ["loop i", "loop k", "block y"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("C[_] += _", "block C"),
        ("C[_] = _", "block C"),
        ("_[_] += _ * B[_]", "block C"),
        ("_[_] += A[vb, vi, vk] * _", "block C"),
        ("y[vi] += _", "block y"),
        ("D[_] = max(_, 0)", "block D"),
        ("D[_] = max(C[_] + bias[vj], _)", "block D"),
        ("D[_, _] = _", ""),
        ("C[_] -= _", ""),
        ("for _ in 32: _", "loop k"),
        ("for k in _: _", "loop k, loop k"),
        ("for _ in T.parallel(_): _", "loop j"),
        ("for _ in T.parallel(8): _", ""),
        ("for i in _: y[_] += _", "loop i"),
        ("for i in _:\n  for k in _: _", "loop i"),
        ("for _ in _: D[_] = _", "loop b, loop i, loop j"),
    ],
)
def test_patterns(sch: Schedule, pattern: str, found: str) -> None:
    assert ", ".join(map(str, find_all(sch, pattern))) == found


def test_what_a_split_made_of_a_loop_is_found_by_its_name(sch: Schedule) -> None:
    loop = find(sch, "for k in 32: _").handle
    assert isinstance(loop, LoopRV)
    sch.split(loop, [4, 8])
    assert [str(place) for place in find_all(sch, "for k in _: C[_] += _")] == [
        "loop k_0",
        "loop k_1",
    ]


@pytest.mark.parametrize(
    "pattern",
    ["", "C", "C = 3", "import os", "f(x)", "for i in _: f(x)", "for i in _:\n  _\n  _", "1 +"],
)
def test_what_is_no_pattern(sch: Schedule, pattern: str) -> None:
    with pytest.raises(IRValueError, match="is not a pattern"):
        find(sch, pattern)


def test_a_pattern_that_matches_nothing(sch: Schedule) -> None:
    with pytest.raises(ScheduleError, match=r"no place that matches `E\[_\] = _`"):
        find(sch, "E[_] = _")


def test_queries(sch: Schedule) -> None:
    product, relu, vector = blocks(sch)
    found = contraction(sch, product)
    assert found is not None
    assert (found.left.name, found.right.name) == ("A", "B")
    assert (found.batch, found.rows, found.columns, found.reduced) == ((0,), (1,), (2,), (3,))
    assert [is_gemm(sch, b) for b in (product, relu, vector)] == [True, False, False]
    assert [is_gemv(sch, b) for b in (product, relu, vector)] == [False, False, True]
    assert [is_elementwise(sch, b) for b in (product, relu, vector)] == [False, True, False]
    assert [is_reduction(sch, b) for b in (product, relu, vector)] == [True, False, True]
    assert [loop_kinds(sch, b) for b in (product, relu, vector)] == ["SSSR", "SSS", "SR"]


def test_the_right_operand_has_the_last_axis_of_the_result() -> None:
    sch = Schedule(
        parse("""
        @T.prim_func
        def main(A: T.Buffer((4, 8)), B: T.Buffer((8, 16)), C: T.Buffer((4, 16))):
            for i, j, k in T.grid(4, 16, 8):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + B[vk, vj] * A[vi, vk]
        """)
    )
    found = contraction(sch, sch.get_block("C"))
    assert found is not None
    assert (found.left.name, found.right.name) == ("A", "B")
