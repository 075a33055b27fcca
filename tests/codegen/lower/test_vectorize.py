"""What a vectorized loop may not do for lanes that a condition switches off."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen.lower import lower
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.rewriting.visit import walk

PROGRAM = """
@T.prim_func
def main(a: T.handle, B: T.Buffer((16,), "int32")):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    for i in T.vectorized(16):
        if i < n{condition}:
{body}
"""


def program(condition: str, body: str) -> PrimFunc:
    indented = "\n".join(" " * 12 + line for line in body.splitlines())
    func = parse(PROGRAM.format(condition=condition, body=indented))
    assert isinstance(func, PrimFunc)
    return func


def unguarded_loads(func: PrimFunc) -> list[str]:
    """Return the loads of A that no mask and no branch guards."""
    found = []

    def visit(node: object, guarded: bool) -> None:
        if isinstance(node, s.IfThenElse):
            visit(node.condition, guarded)
            visit(node.then_case, True)
            return
        for part in walk(node) if isinstance(node, e.PrimExpr) else ():  # type: ignore[arg-type]
            is_load = isinstance(part, e.BufferLoad) and part.buffer.name == "A"
            if is_load and not guarded and part.predicate is None:  # type: ignore[attr-defined]
                found.append(str(part))
        if isinstance(node, s.SeqStmt):
            for part in node.seq:
                visit(part, guarded)
        elif isinstance(node, s.BufferStore):
            visit(node.value, guarded)
            if node.predicate is not None:
                visit(node.predicate, guarded)
        elif isinstance(node, s.LetStmt):
            visit(node.value, guarded)
            visit(node.body, guarded)
        elif isinstance(node, s.For):
            visit(node.extent, guarded)
            visit(node.body, guarded)

    visit(func.body, False)
    return found


CASES = {
    "the right side of a conjunction": (" and A[i] > 2", "B[i] = 1"),
    "a value": ("", "B[i] = A[i]"),
    "a shared value": ("", "B[i] = A[n - 1]"),
    "an inner condition": ("", "if A[n - 1] > 2:\n    B[i] = i"),
    "an inner extent": ("", "for j in range(A[n - 1]):\n    B[i] = B[i] + j"),
    "a bound value": ("", "v: T.int32 = A[n - 1]\nB[i] = v + i"),
}


@pytest.mark.parametrize(("condition", "body"), CASES.values(), ids=CASES)
def test_memory_behind_a_condition_is_not_touched(condition: str, body: str) -> None:
    func = program(condition, body)
    assert unguarded_loads(codegen.lower(func, "llvm", until="vectorize")) == []
    compiled = codegen.build(func, "llvm")["main"]
    for n in (0, 3, 16):
        a = np.arange(n, dtype="int32")
        found, expected = np.zeros(16, "int32"), np.zeros(16, "int32")
        interpret(func, a, expected)
        compiled(a, found)
        np.testing.assert_array_equal(found, expected)


def test_the_check_sees_an_unguarded_load() -> None:
    func = program("", "B[i] = A[i]")
    assert isinstance(func.body, s.For)
    bare = func.with_body(func.body.body.then_case)  # type: ignore[attr-defined]
    assert len(unguarded_loads(bare)) == 1


def test_a_vectorized_loop_of_symbolic_extent_runs_serially() -> None:
    func = parse(
        """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (n,), "int32")
    for i in T.vectorized(n):
        B[i] = A[i] + 1
"""
    )
    assert isinstance(func, PrimFunc)
    compiled = codegen.build(func, "llvm")["main"]
    for n in (0, 1, 21):
        a, b = np.arange(n, dtype="int32"), np.zeros(n, "int32")
        compiled(a, b)
        np.testing.assert_array_equal(b, a + 1)


def test_a_parallel_loop_inside_a_vectorized_one() -> None:
    func = parse(
        """
@T.prim_func
def main(A: T.Buffer((8, 16), "int32"), B: T.Buffer((8, 16), "int32")):
    for j in T.vectorized(16):
        for i in T.parallel(8):
            if i * 16 + j < 100:
                B[i, j] = A[i, j] + 1
"""
    )
    assert isinstance(func, PrimFunc)
    a, b = np.arange(128, dtype="int32").reshape(8, 16), np.zeros((8, 16), "int32")
    codegen.build(func, "llvm -num-cores=2")["main"](a, b)
    np.testing.assert_array_equal(b, np.where(a < 100, a + 1, 0))


@pytest.mark.parametrize("noalias", [True, False])
@pytest.mark.parametrize("otherwise", ["", "        else:\n            B[j] = 6\n"])
def test_a_condition_that_its_branch_changes_is_evaluated_once_a_lane(
    noalias: bool, otherwise: str
) -> None:
    func = parse(
        f"""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    T.func_attr({{"tir.noalias": {noalias}}})
    for j in T.vectorized(8):
        if A[j] > 0:
            A[j] = -1
            B[j] = 5
{otherwise}"""
    )
    assert isinstance(func, PrimFunc)
    a = np.array([1, 0, 2, -3, 4, 0, 0, 1], "int32")
    b = np.zeros(8, "int32")
    expected = a.copy(), b.copy()
    interpret(func, *expected)
    codegen.build(func)["main"](a, b)
    np.testing.assert_array_equal(a, expected[0])
    np.testing.assert_array_equal(b, expected[1])


def choices(depth: int) -> str:
    """Return choices by what is loaded, each in the condition of the next."""
    value = "A[i]"
    for k in range(depth):
        value = f"T.if_then_else({value} < {k - 3}, A[(i + {k}) % 16] + 1, A[15 - i])"
    return value


@pytest.mark.parametrize("depth", [3, 10, 20])
def test_choices_inside_one_another_share_their_masks(depth: int) -> None:
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    T.func_attr({{"tir.noalias": True}})
    for i in T.vectorized(16):
        B[i] = {choices(depth)}
""")
    lowered = lower(func, "llvm -mcpu=skylake-avx512 -num-cores=1")
    assert not any(isinstance(node, s.For) for node in walk(lowered.body))
    assert sum(1 for _ in walk(lowered.body)) < 60 * depth * depth
    given = np.arange(16, dtype="int32")[::-1] - 4
    expected, found = np.zeros(16, "int32"), np.zeros(16, "int32")
    interpret(func, given.copy(), expected)
    codegen.build(func, "llvm -num-cores=1")["main"](given.copy(), found)
    np.testing.assert_array_equal(found, expected)
