"""A loop or block that gets another body keeps all else that it has."""

import pytest

from tensorir import parse
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import Block, Evaluate, For
from tensorir.rewriting.visit import walk

TEXT = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.thread_binding(8, thread="threadIdx.x", annotations={"note": 1}):
        with T.block("B"):
            vi = T.axis.reduce(8, i)
            T.reads(A[vi])
            T.writes(B[vi])
            T.block_attr({"note": 2})
            C = T.alloc_buffer((1,))
            D = T.match_buffer(A[vi], (1,), offset_factor=1)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + D[0]
"""


@pytest.mark.parametrize("kind", [For, Block])
def test_all_else_is_kept(kind: type[For] | type[Block]) -> None:
    node = next(n for n in walk(parse(TEXT).body) if type(n) is kind and n.annotations)
    body = Evaluate(const(7))
    new = node.with_body(body)
    assert type(new) is kind
    assert new.body is body
    for name in set(kind.fields) - {"body"}:
        assert getattr(new, name) is getattr(node, name)
        assert getattr(node, name) not in (None, ()), "the example has it"
