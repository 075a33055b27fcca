"""Functions: what they return."""

import pytest

from tensorir import IRTypeError, PrimFunc, Var, assert_structural_equal, parse
from tensorir.function import VOID_TYPE
from tensorir.nodes.ops import intrinsic
from tensorir.nodes.stmt import Evaluate, SeqStmt
from tensorir.nodes.types import PrimType


def returning(text):
    return parse(
        f"""
@T.prim_func
def main(x: T.int32, y: T.float32) -> T.int32:
    if x > 0:
        {text}
    return x
"""
    )


def test_the_result_has_the_type_of_what_is_returned():
    func = returning("return x + 1")
    untyped = PrimFunc(func.params, func.body, attrs=func.attrs)
    assert_structural_equal(untyped, func)
    assert_structural_equal(untyped.ret_type, PrimType("int32"))


def test_a_function_that_returns_nothing():
    stored = parse("@T.prim_func\ndef main(A: T.Buffer((8,), 'int32')):\n    A[0] = 1\n")
    rebuilt = PrimFunc(stored.params, stored.body, None, stored.buffer_map, stored.attrs)
    assert rebuilt.ret_type is VOID_TYPE
    assert_structural_equal(rebuilt, stored)


def test_a_type_that_is_given_counts():
    func = returning("return x + 1")
    assert PrimFunc(func.params, func.body, VOID_TYPE).ret_type is VOID_TYPE


def test_results_are_of_one_type():
    x, y = Var("x", "int32"), Var("y", "float32")
    returns = [Evaluate(intrinsic("ret", value, dtype=value.dtype)) for value in (x, y)]
    with pytest.raises(
        IRTypeError, match=r"must return values of one type, but this one returns \['float32'"
    ):
        PrimFunc([x, y], SeqStmt(returns))
