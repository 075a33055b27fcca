"""Which regions a block touches, found from its body."""

from __future__ import annotations

import pytest
from hypothesis import given
from strategies import CONDITIONS, DOMAINS, INDEX_EXPRESSIONS, X, Y, evaluate, points

from tensorir import parse
from tensorir.memory.access import get_block_read_write_region
from tensorir.nodes.buffer import decl_buffer
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import Block, BufferStore, For, ForKind, IfThenElse
from tensorir.rewriting.visit import walk

PROGRAM = """\
@T.prim_func
def main(A: T.Buffer((16,), "int32"), K: T.Buffer((1,), "int32"), n: T.int32):
    with T.block("b"):
        for i, j in T.grid(16, 4):
"""


def written(body):
    """Return the regions that a body of the loops in `PROGRAM` writes."""
    return touched(PROGRAM + "".join(f"            {line}\n" for line in body.splitlines()))[1]


def touched(program):
    """Return the regions that the block b reads, and those that it writes."""
    func = parse(program)
    (block,) = (b for b in walk(func.body) if isinstance(b, Block) and b.name_hint == "b")
    buffers = {b.data: b for b in func.buffer_map.values()}
    return [[str(r) for r in side] for side in get_block_read_write_region(block, buffers)]


@pytest.mark.parametrize(
    ("value", "reads"),
    [
        ("A[vi]", []),
        ("A[vi] + A[vi + 1]", ["A[vi:vi + 2]"]),
        ("A[vk]", ["A[vk]"]),
    ],
)
def test_what_the_init_stores_is_not_read_but_the_rest_is(value, reads):
    program = f"""\
@T.prim_func
def main(A: T.Buffer((16,), "int32")):
    for i, k in T.grid(16, 16):
        with T.block("b"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                A[vi] = 0
            A[vi] = {value}
"""
    assert touched(program) == [reads, ["A[vi]"]]


@pytest.mark.parametrize(
    ("condition", "region"),
    [
        ("i < 5", "A[0:5]"),
        ("i < n", "A[0:T.min(16, n)]"),
        ("i * 4 + 3 < n", "A[0:T.min(16, n // 4)]"),
        ("i == n", "A[n]"),
        ("i == j", "A[0:4]"),
        ("i < j", "A[0:3]"),
        ("T.likely(i < 5 and 2 <= i)", "A[2:5]"),
        ("not (5 <= i or n < 4)", "A[0:5]"),
        ("j < i // 4", "A[0:16]"),
        ("i < 5 or j < 2", "A[0:16]"),
    ],
)
def test_a_condition_narrows_the_loops(condition, region):
    assert written(f"if {condition}:\n    A[i] = 1") == [region]


def test_the_other_branch_is_narrowed_by_the_negation():
    assert written("if i < 5:\n    K[0] = 1\nelse:\n    A[i] = 1") == ["K[0]", "A[5:16]"]


def test_a_condition_on_memory_says_nothing_of_the_region():
    """`K[0]` is another value by the time the last elements are written."""
    assert written("if i < K[0]:\n    K[0] = 9\n    A[i] = 1") == ["K[0]", "A[0:16]"]


def test_the_range_of_a_loop_may_depend_on_another():
    assert written("for k in range(i, 16):\n    A[k] = 1") == ["A[0:16]"]
    assert written("for k in range(j, i):\n    A[k] = 1") == ["A[0:15]"]


@given(INDEX_EXPRESSIONS, CONDITIONS, DOMAINS)
def test_every_element_is_inside(index, condition, domain):
    """X and Y are loops of the block, Z comes from outside."""
    buffer = decl_buffer((1000,), "int32", "A")
    body = IfThenElse(condition, BufferStore(buffer, const(1), (index,)))
    for var in (X, Y):
        low, extent = const(domain[var].start), const(len(domain[var]))
        body = For(var, low, extent, ForKind.SERIAL, body)
    block = Block((), (), (), "b", body)
    _, ((dim,),) = (
        [r.region for r in side]
        for side in get_block_read_write_region(block, {buffer.data: buffer})
    )
    for point in points(domain):
        if evaluate(condition, point):
            offset = evaluate(index, point) - evaluate(dim.min, point)
            unlimited = str(dim) == "T.Range(0, 1000)"
            assert unlimited or 0 <= offset < evaluate(dim.extent, point)
