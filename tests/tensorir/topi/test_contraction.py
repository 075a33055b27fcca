"""Sums of products by equations, and other arithmetic of several operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorir import IRTypeError, IRValueError, relax
from tensorir.relax import op
from tests.operator_cases import Case, check

RNG = np.random.default_rng(0)


def tensors(*shapes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    return [RNG.standard_normal(shape).astype("float32") for shape in shapes]


EQUATIONS = {
    "ij,jk->ik": [(3, 4), (4, 5)],
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)],
    "bhqd,bhkd->bhqk": [(1, 2, 3, 4), (1, 2, 5, 4)],
    "ij,jk": [(3, 4), (4, 5)],
    "ba,b": [(3, 4), (3,)],
    "ii->i": [(4, 4)],
    "ii": [(4, 4)],
    "ij->ji": [(3, 4)],
    "ijk->k": [(3, 4, 2)],
    "i,j->ij": [(3,), (4,)],
    "...ij,...jk->...ik": [(2, 3, 4), (4, 5)],
    "...i->...": [(2, 3, 4)],
    "...,ij": [(), (2, 3)],
    "ij,jk,kl->il": [(3, 4), (4, 5), (5, 2)],
    "ab,bc,cd,de->ae": [(2, 3), (3, 4), (4, 2), (2, 5)],
    "ij,ij->": [(3, 4), (3, 4)],
    "b i j , b j -> b i": [(2, 3, 4), (2, 4)],
}


def test_einsum() -> None:
    check(
        [
            Case(equation, lambda *x, e=equation: op.einsum(list(x), e), lambda *x, e=equation: np.einsum(e, *x), *tensors(*shapes), rtol=1e-5)
            for equation, shapes in EQUATIONS.items()
        ]
        + [
            Case("any n", lambda x, y: op.einsum([x, y], "bij,bkj->bik"), lambda x, y: np.einsum("bij,bkj->bik", x, y), *tensors((2, 3, 4), (2, 5, 4)), shapes=[("b", "n", 4), ("b", "m", 4)]),
            Case("stretched", lambda x, y: op.einsum([x, y], "ij,ij->ij"), lambda x, y: x * y, *tensors((3, 1), (3, 4))),
            Case("ints", lambda x, y: op.einsum([x, y], "i,i->"), lambda x, y: np.einsum("i,i->", x, y), np.arange(5), np.arange(5)),
        ]
    )  # fmt: skip


def test_others() -> None:
    x, y = tensors((3, 4), (4,))
    check(
        [
            Case("ewise_fma", lambda x, y: op.ewise_fma(x, y, x), lambda x, y: x * y + x, x, y),
            Case("masked_fill", lambda x: op.masked_fill(x, op.less(x, 0), 7), lambda x: np.where(x < 0, np.float32(7), x), x),
            Case("outer", lambda x: op.outer(x, x), lambda x: np.outer(x, x), y),
            Case("collapse_sum_to", lambda x: op.collapse_sum_to(x, (4,)), lambda x: x.sum(0), x),
            Case("collapse_sum_like", lambda x, y: op.collapse_sum_like(x, op.expand_dims(op.take(x, 0, 1), 1)), lambda x, y: x.sum(1, keepdims=True), x, y),
            Case("reinterpret", lambda x: op.reinterpret(x, "int32"), lambda x: x.view("int32"), x),
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: op.einsum([x, x], "ij,jk->ik"), r"einsum: contract: j has the extents \(3, 2\)"),
        (lambda x: op.einsum([x], "ij,jk->ik"), "is of 2 operand.s., got 1"),
        (lambda x: op.einsum([x], "ijk->i"), r"'ijk' of 'ijk->i' does not fit 2 dimension"),
        (lambda x: op.einsum([x], "ij->ik"), "the result of 'ij->ik' cannot have 'k'"),
        (lambda x: op.einsum([x], "i.j->i"), "'i.j->i' is not an equation such as"),
        (
            lambda x: op.reinterpret(x, "int8"),
            "elements of float32 and int8 must have the same number of bits",
        ),
        (lambda x: op.collapse_sum_to(x, (1, 2, 3)), r"cannot become a tensor of 3 dimension"),
    ],
)
def test_errors(call: Callable[..., object], message: str) -> None:
    with pytest.raises((IRTypeError, IRValueError), match=message):
        call(relax.Var("x", relax.TensorStructInfo((2, 3), "float32")))
