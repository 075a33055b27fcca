"""Sums, extrema and statistics along axes, and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedule
from tensorir import relax, topi
from tensorir.relax import op
from tensorir.relax.call_te import formula_of
from tests.operator_cases import Case, check

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4, 5)).astype("float32")
INTS = RNG.integers(-9, 9, (3, 4, 5)).astype("int32")
NANS = np.array([[1, np.nan, 3, np.nan], [-np.inf, -np.inf, -np.inf, -np.inf], [np.inf, 2, np.nan, 1], [2, 5, 5, 1]], "float32")  # fmt: skip
BOOLS = INTS > 0


def named(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    return lambda x: getattr(op, name)(x, *args, **kwargs)


def numpy_of(name: str, axis: Any, keepdims: bool) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        kept = {} if name.startswith("arg") or name in ("all", "any") else {"dtype": x.dtype}
        if name in ("max", "min", "var"):
            kept = {}
        return getattr(np, name)(x, axis=axis, keepdims=keepdims, **kept)

    return function


def test_sums_and_extrema() -> None:
    names = {
        "sum": "sum",
        "prod": "prod",
        "max": "max",
        "min": "min",
        "mean": "mean",
        "variance": "var",
    }
    check(
        [
            Case(f"{name} {axis}", named(name, axis, keepdims), numpy_of(numpy_name, axis, keepdims), X)
            for name, numpy_name in names.items()
            for axis, keepdims in [(None, False), (1, True), ((0, -1), False)]
        ]
        + [
            Case(f"{name} of ints", named(name, -1), numpy_of(name, -1, False), INTS)
            for name in ("sum", "prod", "max", "min")
        ]
        + [
            Case("mean of ints", named("mean", 1), lambda x: np.trunc(x.sum(1) / 4).astype("int32"), INTS),
            Case("any n", named("mean", 0), lambda x: x.mean(0), X, shapes=[("n", 4, 5)]),
            Case("any n and all", named("sum"), lambda x: x.sum(), X, shapes=[("n", "m", 5)], rtol=1e-5),
            Case("no axes", named("sum", ()), lambda x: x, X),
            Case("max of nothing", named("max", 1), lambda x: np.full((3, 5), -np.inf, "float32"), X[:, :0]),
            Case("max, NaN", named("max", 1), lambda x: x.max(1), NANS),
            Case("min, NaN", named("min", 1), lambda x: x.min(1), NANS),
            Case("all", named("all", 1), lambda x: x.all(1), BOOLS),
            Case("any", named("any", (0, 2)), lambda x: x.any((0, 2)), BOOLS),
            Case("any of numbers", named("any"), lambda x: x.any(), INTS),
            Case("max of bools", named("max", 1), lambda x: x.any(1), BOOLS),
            Case("std", named("std", 1), lambda x: x.std(1), X),
            Case("logsumexp", named("logsumexp", 1), lambda x: np.log(np.exp(x).sum(1)), X),
            Case("logsumexp of much", named("logsumexp", (0, 2)), lambda x: np.log(np.exp(x - 500).sum((0, 2))) + 500, X + 500),
            Case("logsumexp of infinities", named("logsumexp", -1), lambda x: x[:, 0], NANS[1:2]),
            Case("norm 1", named("norm", 1.0, 1), lambda x: np.abs(x).sum(1), X),
            Case("norm 2", named("norm"), lambda x: np.sqrt((x * x).sum()), X),
            Case("norm 3", named("norm", 3.0, 1, True), lambda x: (np.abs(x) ** 3).sum(1, keepdims=True) ** np.float32(1 / 3), X, rtol=1e-5),
            Case("norm inf", named("norm", float("inf"), 2), lambda x: np.abs(x).max(2), X),
            Case("norm 0", named("norm", 0.0, 2), lambda x: (x != 0).sum(2).astype("float32"), X),
            Case("sum_of_squares", named("sum_of_squares", 0), lambda x: (x * x).sum(0), X),
        ]
    )  # fmt: skip


def test_sums_of_halves_are_formed_in_float32() -> None:
    def wide(name: str) -> Callable[..., Any]:
        return lambda x: getattr(x.astype("float32"), name)(1).astype("float16")

    check(
        [
            Case("sum", named("sum", 1), wide("sum"), np.full((2, 4000), 0.1, "float16")),
            Case("prod", named("prod", 1), wide("prod"), np.full((2, 300), 1.01, "float16")),
        ]
    )


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extrema(name: str) -> None:
    def last(x: Any) -> Any:
        return x.shape[1] - 1 - getattr(np, name)(x[:, ::-1], axis=1)

    few = INTS // 5
    check(
        [
            Case("axis", named(name, 1), numpy_of(name, 1, False), X),
            Case("all", named(name), numpy_of(name, None, False), few),
            Case("kept", named(name, -1, keepdims=True), numpy_of(name, -1, True), few),
            Case("any n", named(name, 0), numpy_of(name, 0, False), few, shapes=[("n", 4, 5)]),
            Case("NaN", named(name, 1), numpy_of(name, 1, False), NANS),
            Case("last", named(name, 1, select_last_index=True), last, few),
            Case("last, NaN", named(name, 1, select_last_index=True), last, NANS),
        ]
    )


@pytest.mark.parametrize(("operator", "loops"), [(topi.max, 2), (topi.argmin, 2), (topi.sum, 2)])
def test_reductions_can_be_factored(operator: Callable[..., Any], loops: int) -> None:
    x = relax.Var("x", relax.TensorStructInfo((64, 64), "float32"))
    func = formula_of(operator, (x,), {"axis": 1}).func
    sch = schedule.Schedule(func)
    block = next(
        b for b in sch.get_child_blocks(sch.get_block("root")) if len(sch.get_loops(b)) == loops
    )
    sch.rfactor(sch.get_loops(block)[-1], 0)


def test_running_sums() -> None:
    def shifted(x: Any, axis: int, first: float) -> Any:
        return np.insert(x, 0, first, axis).take(range(x.shape[axis]), axis)

    check(
        [
            Case("cumsum", named("cumsum", 1), lambda x: x.cumsum(1), X),
            Case("cumsum all", named("cumsum"), lambda x: x.cumsum().astype("int32"), INTS),
            Case("cumsum, any n", named("cumsum", 0), lambda x: x.cumsum(0), X, shapes=[("n", 4, "m")]),
            Case("cumsum int64", named("cumsum", 0, "int64"), lambda x: x.cumsum(0, "int64"), INTS),
            Case("exclusive", named("cumsum", 1, exclusive=True), lambda x: shifted(x.cumsum(1, "int32"), 1, 0), INTS),
            Case("reverse", named("cumsum", -1, reverse=True), lambda x: x[..., ::-1].cumsum(-1, "int32")[..., ::-1], INTS),
            Case("both", named("cumsum", 0, exclusive=True, reverse=True), lambda x: shifted(x[::-1].cumsum(0, "int32"), 0, 0)[::-1], INTS),
            Case("cumprod", named("cumprod", 2), lambda x: x.cumprod(2), X),
            Case("cumprod exclusive", named("cumprod", 2, exclusive=True), lambda x: shifted(x.cumprod(2), 2, 1), X),
            Case("vector", named("cumsum", 0), lambda x: x.cumsum(0), X[0, 0]),
            Case("logcumsumexp", named("logcumsumexp", 1), lambda x: np.logaddexp.accumulate(x, 1), 100 * X),
            Case("logcumsumexp exclusive", named("logcumsumexp", 0, exclusive=True), lambda x: shifted(np.logaddexp.accumulate(x, 0), 0, -np.inf), 100 * X),
        ]
    )  # fmt: skip
