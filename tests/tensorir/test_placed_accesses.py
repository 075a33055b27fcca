"""Statements with what is around them, indices in terms of loops, and the strides of accesses."""

from __future__ import annotations

import pytest

from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.indices.accesses import Bindings, loads_in, placed_statements, strides
from tensorir.nodes.stmt import BlockRealize, BufferStore, Stmt

NESTED = """
@T.prim_func
def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((64, 32), "float32")):
    for i in range(16):
        with T.block("outer"):
            vo = T.axis.spatial(16, i)
            for j, k in T.grid(4, 32):
                with T.block("inner"):
                    vi = T.axis.spatial(64, vo * 4 + j)
                    vk = T.axis.spatial(32, k)
                    B[vi, vk] = A[vi, vk] + A[vi // 2, vk]
"""
SIZED = """
@T.prim_func
def main(a: T.handle, n: T.int32, b: T.handle):
    A = T.match_buffer(a, (8, 4, n), "float32")
    B = T.match_buffer(b, (4, 8), "float32")
    for i, j, k in T.grid(8, 4, n):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[vj, vi] = T.float32(0)
            B[vj, vi] = B[vj, vi] + A[vi, vj, vk]
"""


def body(text: str) -> Stmt:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func.body


def test_an_init_comes_before_the_body():
    stores = [node for node, _ in placed_statements(body(SIZED)) if isinstance(node, BufferStore)]
    assert [len(list(loads_in(store))) for store in stores] == [0, 2]


def test_indices_are_sums_over_loops_through_blocks():
    bindings = Bindings()
    for node, _ in placed_statements(body(NESTED)):
        bindings.enter(node)
        if isinstance(node, BufferStore):
            store = node
    row = bindings.read(store.indices[0])
    assert {var.name: step for var, step in row.of.items()} == {"i": 4, "j": 1}
    assert row.constant == 0
    assert not row.parts
    half = [load.indices[0] for load in loads_in(store)][1]
    assert [str(part) for part, _ in bindings.read(half).parts] == ["vi // 2"]
    assert [var.name for var in bindings.loop_vars(half)] == ["i", "j"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NESTED, [{"vo": 128, "j": 32, "k": 1}, {"vo": None, "j": None, "k": 1}]),
        (SIZED, [{"j": 8, "i": 1}, {"k": 1, "j": None, "i": None}]),
    ],
    ids=["a quotient", "a symbolic extent"],
)
def test_strides_along_the_loops_of_a_block(text, expected):
    realize = [n for n, _ in placed_statements(body(text)) if isinstance(n, BlockRealize)][-1]
    found = [
        {var.name: step for var, step in strides(realize, load.buffer, load.indices).items()}
        for load in loads_in(realize.block.body)
    ]
    assert found == expected
