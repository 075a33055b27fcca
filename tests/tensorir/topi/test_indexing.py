"""Operators that read and write at places that other tensors tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorir import IRTypeError, IRValueError, relax
from tensorir.relax import op
from tests.operator_cases import Case, check

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 5, 3)).astype("float32")
PLACES = np.array([[3, 0], [-1, 2]], "int64")


def test_take() -> None:
    rows = np.array([3, 0, 3], "int32")
    check(
        [
            Case("rows", lambda x, i: op.take(x, i, 0), lambda x, i: x[i], X, rows),
            Case("columns", lambda x, i: op.take(x, i, -1), lambda x, i: x[..., i], X, rows % 3),
            Case("any n", lambda x, i: op.take(x, i, 1), lambda x, i: x[:, i], X, rows, shapes=[("n", "m", 3), ("k",)]),
            Case("matrix of places", lambda x, i: op.take(x, i, 1, "normalize"), lambda x, i: x[:, i], X, PLACES),
            Case("a scalar", lambda x, i: op.take(x, i, 0), lambda x, i: x[2], X, np.int64(2)),
            Case("a number", lambda x: op.take(x, 2, 0), lambda x: x[2], X),
            Case("the last", lambda x: op.take(x, -1, 1, "normalize"), lambda x: x[:, -1], X, shapes=[(4, "n", 3)]),
            Case("vector", lambda x, i: op.take(x, i), lambda x, i: x[i], X[0, :, 0], rows),
            Case("in row-major order", lambda x, i: op.take(x, i), lambda x, i: x.reshape(-1)[i], X, rows * 9),
            Case("clip", lambda x, i: op.take(x, i, 0, "clip"), lambda x, i: np.take(x, i, 0, mode="clip"), X, PLACES * 3),
            Case("wrap", lambda x, i: op.take(x, i, 0, "wrap"), lambda x, i: np.take(x, i, 0, mode="wrap"), X, PLACES * 3),
        ]
    )  # fmt: skip


def test_take_of_a_number_reads_no_index() -> None:
    x = relax.Var("x", relax.TensorStructInfo((4, 5), "float32"))
    assert str(op.take(x, 2, 0)) == 'R.take(x, R.const(2, "int64"), axis=0)'


def test_gather() -> None:
    along = np.array([[[4, -1, 0]], [[1, 2, 3]]], "int64")
    pairs = np.array([[0, 1], [3, -1], [2, 2]], "int64")
    batched = np.array([[[0], [4]], [[1], [-1]], [[2], [2]], [[3], [0]]], "int64")
    check(
        [
            Case("elements", lambda x, i: op.gather_elements(x, i, 1), lambda x, i: np.take_along_axis(x[:2], i, 1), X, along),
            Case("nd", lambda x, i: op.gather_nd(x, i), lambda x, i: x[i[:, 0], i[:, 1]], X, pairs, shapes=[("n", 5, 3), ("m", 2)]),
            Case("nd, whole", lambda x, i: op.gather_nd(x, i), lambda x, i: x[tuple(i)], X, np.array([1, 2, -1])),
            Case("nd, batches", lambda x, i: op.gather_nd(x, i, 1), lambda x, i: np.stack([r[k[:, 0]] for r, k in zip(x, i, strict=True)]), X, batched),
            Case("index", lambda x, i, j: op.index_tensor(x, [i, j]), lambda x, i, j: x[i, j], X, PLACES, np.array([1, -2])),
        ]
    )  # fmt: skip


def scattered(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def function(data: Any, indices: Any, updates: Any) -> Any:
        result = data.copy()
        for at in np.ndindex(indices.shape):
            place = (at[0], indices[at], at[2])
            result[place] = combine(result[place], updates[at])
        return result

    return function


def test_scatter() -> None:
    along = np.array([[[4, -1, 0], [4, 0, 0]], [[1, 2, 3], [2, 2, 2]]], "int64")
    updates = RNG.standard_normal(along.shape).astype("float32")
    combines = {
        "add": np.add,
        "mul": np.multiply,
        "max": np.maximum,
        "min": np.minimum,
        "update": lambda _, new: new,
    }
    pairs = np.array([[0, 1], [3, -1], [0, 1]], "int64")

    def added(x: Any, i: Any, u: Any) -> Any:
        result = x.copy()
        np.add.at(result, (i[:, 0], i[:, 1]), u)
        return result

    def put(x: Any, i: Any, j: Any, v: Any) -> Any:
        result = x.copy()
        result[i, j] = v
        return result

    def accumulated(x: Any, i: Any, v: Any) -> Any:
        result = x.copy()
        np.add.at(result, i, v)
        return result

    check(
        [
            Case(f"elements {name}", lambda x, i, u, r=name: op.scatter_elements(x, i, u, 1, r), scattered(combine), X, along, updates)
            for name, combine in combines.items()
        ]
        + [
            Case("beyond the ends", lambda x, i, u: op.scatter_elements(x, i, u, 0), lambda x, i, u: np.array([x[0], x[1], u[1], x[3], x[4]]), X[0, :, 0], np.array([7, 2, -9]), updates[0, 0]),
            Case("nd", lambda x, i, u: op.scatter_nd(x, i, u, "add"), added, X, pairs, updates[0, [0, 1, 0]], shapes=[("n", 5, 3), ("m", 2), ("m", 3)]),
            Case("nd, last one", lambda x, i, u: op.scatter_nd(x, i, u), lambda x, i, u: put(x, i[:, 0], i[:, 1], u), X, pairs, updates[0, [0, 1, 0]]),
            Case("put", lambda x, i, j, v: op.index_put(x, [i, j], v), put, X, PLACES, np.array([1, 2]), updates[0, 0]),
            Case("accumulate", lambda x, i, v: op.index_put(x, [i], v, accumulate=True), accumulated, X, np.array([1, 1, -1]), updates[0, :1]),
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, i: op.take(x, x, 0), "take: indices must be integers, got float32"),
        (lambda x, i: op.take(x, i, 0, "raise"), "mode of take must be one of 'fast', 'clip'"),
        (lambda x, i: op.gather_elements(x, i), "do not fit data of shape"),
        (lambda x, i: op.gather_nd(i, x), "indices must be integers"),
        (lambda x, i: op.gather_nd(x, i, 2), r"with 2 batch dimension\(s\) do not fit"),
        (
            lambda x, i: op.scatter_nd(x, i, x),
            r"updates must have the shape \(2\), got \(2, 3, 4\)",
        ),
        (lambda x, i: op.scatter_elements(x, i, x), "do not match data of"),
        (lambda x, i: op.index_put(x, [i] * 4, x), r"4 indices are given for 3 dimension"),
        (lambda x, i: op.index_put(x, [i], op.astype(x, "int8")), "operands must have one dtype"),
    ],
)
def test_errors(call: Callable[..., object], message: str) -> None:
    x = relax.Var("x", relax.TensorStructInfo((2, 3, 4), "float32"))
    i = relax.Var("i", relax.TensorStructInfo((2, 3), "int64"))
    with pytest.raises((IRTypeError, IRValueError), match=message):
        call(x, i)
