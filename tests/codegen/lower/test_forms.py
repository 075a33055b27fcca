"""A pass that breaks a program is named."""

from __future__ import annotations

import sys

import pytest

from codegen.lower import PASSES, lower
from codegen.lower.forms import GONE
from tensorir import parse
from tensorir.errors import WellFormedError
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.rewriting.visit import Rewriter

LOWERING = sys.modules[PASSES[0][1].__module__.rpartition(".")[0]]

FUNC = parse(
    """
@T.prim_func
def main(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
    for i in range(8):
        for j in T.vectorized(16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
"""
)
assert isinstance(FUNC, PrimFunc)


def with_pass(monkeypatch: pytest.MonkeyPatch, name: str, step: object) -> None:
    """Put another pass in the place of one."""
    passes = tuple((n, step if n == name else p) for n, p in PASSES)
    monkeypatch.setattr(LOWERING, "PASSES", passes)


@pytest.mark.parametrize("name", ["open_blocks", "remove_blocks", "flatten_buffers", "vectorize"])
def test_what_a_pass_leaves_behind(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with_pass(monkeypatch, name, lambda func: func.with_attr("touched", 1))
    with pytest.raises(WellFormedError, match=f"after {name}: there is"):
        lower(FUNC, until=name, verify=True)


def test_a_variable_out_of_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    class DropLoops(Rewriter):
        def rewrite_For(self, node: s.For) -> s.Stmt:
            return self(node.body)

    with_pass(monkeypatch, "hoist_conditions", lambda func: func.with_body(DropLoops()(func.body)))
    with pytest.raises(WellFormedError, match=r"after hoist_conditions: .*undefined variable i"):
        lower(FUNC, verify=True)


def test_every_rule_belongs_to_a_pass() -> None:
    assert set(GONE) <= {name for name, _ in PASSES}


def test_each_form_is_well_formed() -> None:
    lower(FUNC, verify=True)
