"""Programs of any depth: what Python's stack does not hold is worked on with more of it."""

from __future__ import annotations

import sys
from contextvars import ContextVar

import numpy as np
import pytest

import codegen
from schedule import Schedule
from tensorir import (
    IRModule,
    PrimFunc,
    parse,
    renew_defs,
    simplify,
    structural_equal,
    structural_hash,
    verify_well_formed,
)
from tensorir.interp import interpret
from tensorir.interp.graphs import interpret_graph
from tensorir.nodes.expr import Add, Var
from tensorir.recursion import NestingError, any_depth, nesting, run_deep

HEAD = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
"""
SUM = " + ".join(["A[v]"] + ["A[v] * T.float32(0.5)"] * 1000)
CHOICES = "".join(f"T.if_then_else(A[v] > T.float32({k}), A[v], " for k in range(2, 92))
VALUES = {
    "a sum": (SUM, 501),
    "a sum from the right": ("(A[v] + " * 300 + "A[v]" + ")" * 300, 301),
    "choices": (CHOICES + "T.float32(7)" + ")" * 90, 7),
    "conditions": (
        "T.if_then_else(" + " and ".join(["A[v] < T.float32(2)"] * 400) + ", A[v], T.float32(0))",
        1,
    ),
    "brackets": ("(" * 600 + "A[v]" + ")" * 600, 1),
}


@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "range") for name in VALUES), ("choices", "T.vectorized")]
)
def test_long_expressions(name: str, kind: str) -> None:
    value, expected = VALUES[name]
    block = f"""\
        with T.block("B"):
            v = T.axis.spatial(4, i)
            B[v] = {value}
"""
    func = parse(HEAD.replace("range", kind) + block)
    assert isinstance(func, PrimFunc)
    again = parse(func.script())
    assert structural_equal(func, again)
    assert structural_hash(func) == structural_hash(again)
    assert verify_well_formed(simplify(func))
    sch = Schedule(func)
    sch.split(sch.get_loops(sch.get_block("B"))[0], [2, 2])
    for run in (lambda *a: interpret(func, *a), codegen.build(sch.mod, "llvm")["main"]):
        found = np.zeros(4, "float32")
        run(np.ones(4, "float32"), found)
        assert found.tolist() == [expected] * 4


def nested(lines: list[str], innermost: str, indent: int) -> str:
    suites = [" " * (indent + k) + line for k, line in enumerate(lines)]
    return "\n".join([*suites, " " * (indent + len(lines)) + innermost, ""])


@pytest.mark.parametrize(
    "lines", [["if A[i] < T.float32(2):"] * 300, [f"for i{k} in range(1):" for k in range(100)]]
)
def test_deep_suites(lines: list[str]) -> None:
    func = parse(HEAD + nested(lines, "B[i] = A[i]", 8))
    assert isinstance(func, PrimFunc)
    assert structural_equal(func, parse(func.script()))
    for run in (lambda *a: interpret(func, *a), codegen.build(func, "llvm")["main"]):
        found = np.zeros(4, "float32")
        run(np.ones(4, "float32"), found)
        assert found.tolist() == [1] * 4


def test_branches_of_graphs() -> None:
    depth = 300
    suites = [" " * (4 + k) + "if c:" for k in range(depth)]
    suites.append(" " * (4 + depth) + "y = x")
    for k in reversed(range(depth)):
        suites += [" " * (4 + k) + "else:", " " * (5 + k) + "y = x"]
    head = '@R.function\ndef main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):\n'
    func = parse(head + "\n".join([*suites, "    return y", ""]))
    assert structural_equal(func, parse(func.script()))
    mod = IRModule({"main": func})
    args = np.array(True), np.ones(4, "float32")
    vm = codegen.VirtualMachine(codegen.vm_build(mod, "llvm"))
    assert vm["main"](*args).tolist() == [1] * 4
    assert interpret_graph(mod, "main", *args).tolist() == [1] * 4


def test_what_a_deep_program_does_is_done_once() -> None:
    text = HEAD + "        B[i] = B[i] + " + " + ".join(["A[i]"] * 1000)
    found = np.zeros(4, "float32")
    interpret(parse(text), np.ones(4, "float32"), found)
    assert found.tolist() == [1000] * 4


def chain(terms: int) -> Add:
    x = Var("x", "int32")
    whole = Add(x, x)
    for _ in range(terms - 2):
        whole = Add(whole, x)
    return whole


def first_term(node: object) -> object:
    return node if isinstance(node, Var) else first_term(node.a)  # type: ignore[attr-defined]


def test_what_is_too_deep_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sys.getrecursionlimit()
    assert nesting(chain(5000)) == (5000, "Add")
    assert isinstance(any_depth(first_term)(chain(5000)), Var)
    monkeypatch.setattr("tensorir.recursion._CALLS", 3000)
    message = "first term: the program is nested too deeply: 5000 nodes inside one another, most of them Add;"
    with pytest.raises(NestingError, match=message):
        any_depth(first_term)(chain(5000))
    assert sys.getrecursionlimit() == before


def test_context_and_errors_are_those_of_the_caller() -> None:
    variable = ContextVar("variable", default=0)
    variable.set(3)
    assert run_deep(variable.get) == 3
    with pytest.raises(ZeroDivisionError):
        run_deep(lambda: 1 // 0)


def test_copies_of_deep_programs() -> None:
    func = parse(HEAD + "        B[i] = " + " + ".join(["A[i]"] * 1000))
    assert structural_equal(func, renew_defs(func))
