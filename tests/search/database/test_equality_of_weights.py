"""Workloads that differ in the contents of their constant arrays only."""

import numpy as np
import pytest

from search.database.module_equality import ModuleEquality
from tensorir import IRModule, parse, relax
from tensorir.relax.expr import SeqExpr

PROGRAM = """
@T.prim_func
def main(B: T.Buffer((2,), "{dtype}")):
    A = T.allocate_const([{values}], "{dtype}", [2])
    A_1 = T.decl_buffer((2,), "{dtype}", data=A)
    for i in range(2):
        with T.block("copy"):
            vi = T.axis.spatial(2, i)
            B[vi] = A_1[vi]
"""


def tensor_function(values, dtype="float32"):
    return IRModule.from_expr(parse(PROGRAM.format(values=values, dtype=dtype)))


def graph_function(values, dtype="float32"):
    weights = relax.Constant(np.array([float(v) for v in values.split(",")], dtype))
    return IRModule({"main": relax.Function([], SeqExpr([], weights))})


@pytest.mark.parametrize("program", [tensor_function, graph_function])
@pytest.mark.parametrize("kind", ["structural", "ignore-ndarray", "anchor-block"])
def test_contents_count_only_where_they_are_asked_for(program, kind):
    equality = ModuleEquality.create(kind)
    a, b, c = program("1.0, 2.0"), program("1.0, 3.0"), program("1, 2", "int32")
    assert equality.equal(a, program("1.0, 2.0"))
    assert equality.equal(a, b) == (kind != "structural")
    assert (equality.hash(a) == equality.hash(b)) == (kind != "structural")
    assert not equality.equal(a, c)
