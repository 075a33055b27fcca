"""Operators that NumPy computes when the model runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorir import IRTypeError, IRValueError, relax
from tensorir.relax import op
from tests.operator_cases import Case, check

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 6)).astype("float32")
FEW = np.array([[3, 1, 2, 1, 3, 3], [0, 0, 2, 1, 2, 0]], "int64")


def test_sorting() -> None:
    nans = np.array([[1, np.nan, 0, np.nan, 2, -1]], "float32")
    check(
        [
            Case("sort", lambda x: op.sort(x), lambda x: np.sort(x), X),
            Case("descending", lambda x: op.sort(x, 0, True), lambda x: np.sort(x, 0)[::-1], X, shapes=[("n", 6)]),
            Case("argsort", lambda x: op.argsort(x), lambda x: np.argsort(x, kind="stable").astype("int32"), FEW),
            Case("argsort, descending", lambda x: op.argsort(x, 1, True, "int64"), lambda x: np.argsort(-x, 1, kind="stable"), FEW),
            Case("topk", lambda x: op.topk(x, 2, dtype="int64"), lambda x: (-np.sort(-x)[:, :2], np.argsort(-x, kind="stable")[:, :2]), FEW),
            Case("topk, least", lambda x: op.topk(x, 3, 0, "values", False), lambda x: np.sort(x, 0)[:3], X, shapes=[("n", 6)]),
            Case("topk, NaN", lambda x: op.topk(x, 3, ret_type="indices"), lambda x: np.array([[1, 3, 4]], "int32"), nans),
            Case("topk, symbolic", lambda x, y, sizes: op.topk(x, sizes["k"], ret_type="values"), lambda x, y: -np.sort(-x)[:, :3], X, X, shapes=[(3, 6), ("k", 6)]),
            Case("topk, all", lambda x: op.topk(x, -1, ret_type="values"), lambda x: -np.sort(-x), X),
            Case("median", lambda x: op.median(x, 1), lambda x: np.sort(x, 1)[:, 2], X),
            Case("median of all", lambda x: op.median(x, keepdims=True), lambda x: np.sort(x, None)[8].reshape(1, 1), X),
            Case("bucketize", lambda x, b: op.bucketize(x, b), lambda x, b: np.searchsorted(b, x), FEW, np.array([1, 2])),
            Case("bucketize right", lambda x, b: op.bucketize(x, b, True, True), lambda x, b: np.searchsorted(b, x, "right").astype("int32"), FEW, np.array([1, 2])),
            Case("searchsorted", lambda x, v: op.searchsorted(op.sort(x), v), lambda x, v: np.stack([np.searchsorted(np.sort(r), w) for r, w in zip(x, v, strict=True)]), X, -X[:, :2]),
        ]
    )  # fmt: skip


@pytest.mark.parametrize("largest", [True, False])
def test_the_first_of_equal_elements_comes_first(largest: bool) -> None:
    many = RNG.integers(0, 9, (40, 30)).astype("float32")
    many[:20] += RNG.random((20, 30))
    order = np.argsort(-many if largest else many, kind="stable")

    def expected(x: Any) -> Any:
        return order[:, :7].astype("int32")

    check(
        [
            Case("rows", lambda x: op.topk(x, 7, 1, "indices", largest), expected, many),
            Case("columns", lambda x: op.topk(x, 7, 0, "indices", largest), lambda x: expected(x).T, many.T),
            Case("a vector", lambda x: op.topk(x, 7, -1, "indices", largest), lambda x: expected(x)[-1], many[-1]),
        ]
    )  # fmt: skip


def test_shapes_that_data_decide() -> None:
    def unique(x: Any) -> Any:
        return np.unique(x, return_index=True, return_inverse=True, return_counts=True)

    check(
        [
            Case("nonzero", lambda x: op.nonzero(x), lambda x: np.stack(np.nonzero(x)), FEW),
            Case("nonzero of a scalar", lambda x: op.nonzero(x), lambda x: np.empty((0, 1), "int64"), np.float32(2)),
            Case("unique", lambda x: op.unique(x), np.unique, FEW),
            Case("unique and more", lambda x: op.unique(x, True, True, True, True), unique, FEW.reshape(-1)),
            Case("unique in order", lambda x: op.unique(x, False, return_inverse=True), lambda x: (np.array([3, 1, 2, 0]), np.array([0, 1, 2, 1, 0, 0, 3, 3, 2, 1, 2, 3])), FEW),
            Case("unique columns", lambda x: op.unique(x, axis=1), lambda x: np.unique(x, axis=1), FEW),
            Case("compress", lambda x, c: op.compress(x, c, 1), lambda x, c: x[:, :3][:, c], FEW, np.array([True, False, True])),
            Case("masked_select", lambda x, m: op.masked_select(x, m), lambda x, m: x[m], FEW, FEW > 1),
            Case("slices", lambda x, b, e, s: op.dynamic_strided_slice(x, b, e, s), lambda x, b, e, s: x[1:2, 5:0:-2], FEW, np.array([1, 5]), np.array([2, 0]), np.array([1, -2])),
        ]
    )  # fmt: skip


def test_known_results_have_known_shapes() -> None:
    x = relax.Var("x", relax.TensorStructInfo((3, 6), "float32"))
    assert str(op.topk(x, 2).struct_info) == (
        'R.Tuple(R.Tensor((3, 2), dtype="float32"), R.Tensor((3, 2), dtype="int32"))'
    )
    assert str(op.unique(x).struct_info) == 'R.Tensor(dtype="float32", ndim=1)'


def test_non_max_suppression() -> None:
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [1, 0.9, 0, -0.1], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]], "float32")  # fmt: skip
    centers = np.array([[[0.5, 0.5, 1, 1], [0.6, 0.5, 1, 1], [0.4, 0.5, 1, 1], [10.5, 0.5, 1, 1], [10.6, 0.5, 1, 1], [100.5, 0.5, 1, 1]]], "float32")  # fmt: skip
    scores = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]]], "float32")
    most, overlap, least = np.int64(3), np.float32(0.5), np.float32(0.4)

    def call(b: Any, s: Any, m: Any, o: Any, t: Any) -> Any:
        return op.vision.non_max_suppression(b, s, m, o, t)

    def of_centers(b: Any, s: Any, m: Any, o: Any) -> Any:
        return op.vision.non_max_suppression(b, s, m, o, center_point_box=True)

    check(
        [
            Case("corners", call, lambda *_: np.array([[0, 0, 3], [0, 0, 0]]), boxes, scores, most, overlap, least),
            Case("one", call, lambda *_: np.array([[0, 0, 3]]), boxes, scores, np.int64(1), overlap, least),
            Case("centers", of_centers, lambda *_: np.array([[0, 0, 3], [0, 0, 0], [0, 0, 5]]), centers, scores, most, overlap),
            Case("none", lambda b, s: op.vision.non_max_suppression(b, s), lambda *_: np.empty((0, 3), "int64"), boxes, scores),
        ]
    )  # fmt: skip


def test_random_numbers() -> None:
    def close(mean: float, deviation: float) -> Callable[[Any], Any]:
        return lambda x: np.array([mean, deviation], "float32")

    def statistics(x: Any) -> Any:
        whole = op.astype(x, "float32")
        return op.stack([op.mean(whole), op.std(whole)])

    shape = (100, 400)
    biased = np.full(shape, 0.3, "float32")
    odds = np.log(np.array([[1, 1, 2, 0]] * 50, "float32") + 1e-20)
    with np.errstate(divide="ignore"):
        check(
            [
                Case("uniform", lambda x: statistics(op.random.uniform(shape, -1.0, 3.0, 7)), close(1, 4 / 12**0.5), biased, atol=0.02),
                Case("normal", lambda x: statistics(op.random.normal(shape, 2.0, 3.0, 7)), close(2, 3), biased, atol=0.05),
                Case("randint", lambda x: statistics(op.random.randint(shape, 0, 10)), close(4.5, (99 / 12) ** 0.5), biased, atol=0.05),
                Case("bernoulli", lambda x: statistics(op.random.bernoulli(x, 3)), close(0.3, 0.21**0.5), biased, atol=0.01),
                Case("multinomial", lambda x: statistics(op.equal(op.random.multinomial(x, 400, 5), 2)), close(0.5, 0.5), odds, atol=0.02),
                Case("any n", lambda x, sizes: op.random.uniform((sizes["n"], 2)), lambda x: np.random.default_rng(0).uniform(0, 1, (100, 2)).astype("float32"), biased, shapes=[("n", 400)]),
            ]
        )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: op.sort(x, 2), "sort: axis 2 is out of bounds for rank 2"),
        (lambda x: op.topk(x, 7), "topk: k is 7, but axis -1 has 6 elements"),
        (lambda x: op.bucketize(x, x), "boundaries must be a vector"),
        (lambda x: op.compress(x, x), "the condition must be of bools, got"),
        (lambda x: op.random.multinomial(op.flatten(x)), "x must be a matrix"),
        (
            lambda x: op.random.uniform((2,), seed="7"),
            "seed of random.uniform must be int, got '7'",
        ),
        (lambda x: op.vision.non_max_suppression(x, x), "boxes must have 3 dimensions"),
    ],
)
def test_errors(call: Callable[..., object], message: str) -> None:
    with pytest.raises((IRTypeError, IRValueError), match=message):
        call(relax.Var("x", relax.TensorStructInfo((3, 6), "float32")))
