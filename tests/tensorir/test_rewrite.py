"""Rewriting by rules, which are functions by class of nodes."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tensorir import parse
from tensorir.nodes.expr import Add, BinaryOp, BufferLoad, FloatImm, IntImm, Mul, PrimExpr
from tensorir.nodes.node import Node
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import BufferStore, Evaluate, For, IfThenElse, Stmt
from tensorir.rewriting.visit import Rewriter, rewrite, ruled, walk

BODY = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        if i < 4:
            B[i] = A[i] * T.float32(2) + T.float32(3)
        else:
            B[i] = A[i + 1 - 1]
""").body


def kinds(node: Node) -> list[str]:
    return [type(part).__name__ for part in walk(node)]


def test_a_rule_gets_a_node_with_its_parts_rewritten() -> None:
    seen: list[str] = []

    def note(node: BinaryOp) -> PrimExpr | None:
        seen.append(str(node))
        return node.a if isinstance(node, Mul) else None

    new = rewrite(BODY, {BinaryOp: note})
    assert "A[i] * T.float32(2.0)" in seen
    assert "A[i] + T.float32(3.0)" in seen, "the product inside is replaced before"
    assert "Mul" not in kinds(new)


def test_what_no_rule_changes_stays() -> None:
    assert rewrite(BODY, {FloatImm: lambda _: None}) is BODY
    assert rewrite(BODY, before={For: lambda node, r: r.generic(node)}) is BODY
    assert rewrite(BODY) is BODY


def test_the_rule_of_the_nearest_class_counts() -> None:
    def smaller(node: Add) -> PrimExpr:
        return node.a

    def fails(node: PrimExpr) -> PrimExpr | None:
        assert not isinstance(node, Add)
        return None

    new = rewrite(BODY, {PrimExpr: fails, Add: smaller})
    assert "Add" not in kinds(new)


def test_a_rule_before_decides_what_is_rewritten_inside() -> None:
    def only_then(node: IfThenElse, r: Rewriter) -> Stmt:
        return IfThenElse(node.condition, r(node.then_case), node.else_case)

    rules = {IntImm: lambda node: const(node.value + 1, node.dtype)}
    assert str(rewrite(BODY, rules)) != str(BODY)
    assert str(rewrite(BODY, rules, before={For: lambda node, r: node})) == str(BODY)
    new = rewrite(
        BODY, {FloatImm: lambda n: FloatImm(n.dtype, 7.0)}, before={IfThenElse: only_then}
    )
    assert "T.float32(7.0) + T.float32(7.0)" in str(new)


def test_a_rule_before_that_gives_none_leaves_the_node_to_the_others() -> None:
    new = rewrite(
        BODY, {BufferStore: lambda _: Evaluate(const(0))}, before={Node: lambda n, r: None}
    )
    assert "BufferStore" not in kinds(new)


def test_used_buffers_are_replaced() -> None:
    load = next(node for node in walk(BODY) if isinstance(node, BufferLoad))
    other = load.buffer.with_(name="other")
    new = rewrite(BODY, buffer=lambda buffer: other if buffer is load.buffer else buffer)
    assert {n.buffer.name for n in walk(new) if isinstance(n, BufferLoad)} == {"other"}


class Scoped(Rewriter):
    """Knows in how many bodies it is."""

    def __init__(self) -> None:
        self.inside: list[str] = []

    @contextmanager
    def within(self, node: Node, field: str) -> Iterator[None]:
        self.inside.append(f"{type(node).__name__}.{field}")
        yield
        self.inside.pop()


def test_rules_over_a_rewriter_with_scopes() -> None:
    scoped = Scoped()
    found: dict[str, list[str]] = {}

    def note(node: BinaryOp) -> None:
        found[str(node)] = list(scoped.inside)

    assert rewrite(BODY, {BinaryOp: note}, over=scoped) is BODY
    assert found["i < 4"] == ["For.body"]
    assert found["A[i] * T.float32(2.0)"] == ["For.body", "IfThenElse.then_case"]
    assert found["i + 1"] == ["For.body", "IfThenElse.else_case"]


@pytest.mark.parametrize("times", [1, 2])
def test_one_rewriter_serves_several_programs(times: int) -> None:
    rewriter = ruled({FloatImm: lambda n: FloatImm(n.dtype, n.value * 2)})
    new: Stmt = BODY
    for _ in range(times):
        new = rewriter(new)
    assert f"T.float32({2.0 * 2**times})" in str(new)
