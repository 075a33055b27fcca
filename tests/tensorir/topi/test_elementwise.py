"""Operators of elements: arithmetic, comparison, bits and functions of real numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorir import IRTypeError, IRValueError, relax
from tensorir.relax import op
from tests.operator_cases import Case, check

A = np.array(
    [[1.5, -2.25, 0.0, np.nan], [-np.inf, 5.5, -7.0, 0.5], [3.0, -0.5, 2.5, 1e10]], "float32"
)
B = np.array(
    [[2.0, -0.75, 3.0, np.nan], [1.0, np.nan, 2.0, -0.5], [-3.0, 0.5, np.inf, 4.0]], "float32"
)
INTS = np.array([[7, -7, 100], [-1, 3, -100]], "int32")
DIVISORS = np.array([[3, 3, -7], [-2, -3, 9]], "int32")
ROW = np.array([2, -3, 5], "int32")
UNSIGNED = np.array([1, 200, 255, 7], "uint8")


def truncated(a: Any, b: Any) -> Any:
    return np.trunc(a / b).astype(a.dtype)


def named(name: str) -> Callable[..., Any]:
    return lambda *args: getattr(op, name)(*args)


def test_arithmetic() -> None:
    check(
        [
            Case(f"{name} float32", named(name), function, A, B)
            for name, function in {
                "add": np.add,
                "subtract": np.subtract,
                "multiply": np.multiply,
                "divide": np.divide,
                "maximum": np.maximum,
                "minimum": np.minimum,
                "mod": np.fmod,
                "floor_mod": np.mod,
                "atan2": np.arctan2,
                "hypot": np.hypot,
                "copysign": np.copysign,
                "log_add_exp": np.logaddexp,
            }.items()
        ]
        + [
            Case(f"{name} int32", named(name), function, INTS, DIVISORS)
            for name, function in {
                "divide": truncated,
                "floor_divide": np.floor_divide,
                "mod": np.fmod,
                "floor_mod": np.mod,
                "maximum": np.maximum,
                "minimum": np.minimum,
            }.items()
        ]
        + [
            Case("stretched", lambda x, y: x * y + 1, lambda x, y: x * y + 1, INTS, ROW),
            Case("column and row", lambda x, y: x - y, np.subtract, INTS[:, :1], ROW),
            Case("any n", lambda x, y: x - y, np.subtract, INTS, ROW, shapes=[("n", 3), (3,)]),
            Case("floor_divide floats", lambda x: x // 2.0, lambda x: x // 2, A),
            Case("power", named("power"), np.power, np.abs(A[2]), B[2]),
            Case("power uint8", named("power"), np.power, UNSIGNED, UNSIGNED % 3),
            Case("number first", lambda x: 1 / x, lambda x: np.float32(1) / x, A),
            Case("square of ints", lambda x: x**2, lambda x: x**2, INTS),
            Case("cube of ints", lambda x: x**3, lambda x: x**3, INTS),
        ]
    )


def test_powers_of_integers_wrap() -> None:
    bases = np.array([3, -2, 0, 1, -1, -1, 10, 7, 2, 5], "int64")
    exponents = np.array([40, 63, 0, -5, -3, 200, 3, -1, 64, 27], "int64")
    expected = [(int(b) ** int(e) if e >= 0 else int(b) ** (-int(e)) if abs(b) == 1 else 0)
                for b, e in zip(bases, exponents, strict=True)]  # fmt: skip
    wrapped = np.array([(v + 2**63) % 2**64 - 2**63 for v in expected], "int64")
    check([Case("power", lambda x, y: x**y, lambda x, y: wrapped, bases, exponents)])


def test_comparison_and_logic() -> None:
    mask = np.array([[True, False, True], [False, False, True]])
    check(
        [
            Case(name, named(name), getattr(np, name), A, B)
            for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
        ]
        + [
            Case(name, named(name), getattr(np, name), mask, mask[:1])
            for name in ("logical_and", "logical_or", "logical_xor")
        ]
        + [
            Case("logical_not", named("logical_not"), np.logical_not, mask),
            Case("where", named("where"), np.where, mask, INTS, ROW),
            Case("where number", lambda m, x: op.where(m, x, 0), lambda m, x: np.where(m, x, 0).astype("int32"), mask, INTS),
        ]
    )  # fmt: skip


def test_bits() -> None:
    amounts = np.array([[1, 2, 0], [31, 5, 3]], "int32")
    check(
        [
            Case(name, named(name), getattr(np, name), INTS, ROW)
            for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
        ]
        + [
            Case("bitwise_not", named("bitwise_not"), np.bitwise_not, UNSIGNED),
            Case("left_shift", named("left_shift"), np.left_shift, INTS, amounts),
            Case("right_shift", named("right_shift"), np.right_shift, INTS, amounts),
            Case("right_shift uint8", named("right_shift"), np.right_shift, UNSIGNED, UNSIGNED % 8),
        ]
    )


def test_functions_of_elements() -> None:
    special = np.array(
        [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 3.7, -3.7, np.inf, -np.inf, np.nan], "float32"
    )
    small = np.array([-0.9, -0.5, -1e-6, 0.0, 1e-6, 0.25, 0.9], "float32")
    large = np.array([-20.0, -3.0, -1.0, 0.0, 1.0, 2.0, 10.0, 30.0], "float32")
    erf = np.vectorize(lambda v: np.float32(math.erf(v)), otypes=["float32"])
    positive = np.abs(large) + 1
    check(
        [
            Case(name, named(name), getattr(np, name), special)
            for name in ("negative", "abs", "sign", "square", "reciprocal", "ceil", "floor", "round",
                         "trunc", "isnan", "isinf", "isfinite")
        ]
        + [
            Case(name, named(name), getattr(np, numpy_name), values)
            for values, names in {
                "small": (small, "sin cos tan arcsin arccos arctan sinh cosh tanh arctanh arcsinh exp expm1 log1p"),
                "large": (large, "sin cos arctan tanh exp exp2 expm1 arcsinh"),
                "positive": (positive, "log log2 log10 log1p sqrt arccosh"),
            }.values()
            for numpy_name in names.split()
            for name in [numpy_name.replace("arc", "a")]
        ]
        + [
            Case("erf", named("erf"), erf, large),
            Case("rsqrt", named("rsqrt"), lambda x: 1 / np.sqrt(x), positive),
            Case("sigmoid", named("sigmoid"), lambda x: 1 / (1 + np.exp(-x)), large),
            Case("isinf, one sign", lambda x: op.isinf(x, detect_negative=False), np.isposinf, special),
            Case("clip", lambda x: op.clip(x, -1, 1.5), lambda x: np.clip(x, -1, 1.5), special),
            Case("clip uint8", lambda x: op.clip(x, -1, 150), lambda x: np.minimum(x, 150), UNSIGNED),
            Case("clip above", lambda x: op.clip(x, max=0), lambda x: np.minimum(x, 0), INTS),
            Case("abs of ints", named("abs"), np.abs, INTS),
            Case("sign of ints", named("sign"), np.sign, INTS),
            Case("sign of unsigned", named("sign"), np.sign, UNSIGNED),
            Case("floor of ints", named("floor"), lambda x: x, INTS),
            Case("astype", lambda x: x.astype("int8"), lambda x: x.astype("int8"), special[:9]),
            Case("to bool", lambda x: x.astype("bool"), lambda x: x.astype("bool"), special),
            Case("to float16", lambda x: x.astype("float16"), lambda x: x.astype("float16"), INTS),
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, i: op.exp(i), "exp needs floating-point numbers, got int32; convert by astype"),
        (lambda x, i: op.add(x, i), "add: operands must have one dtype, got float32 and int32"),
        (lambda x, i: op.bitwise_and(x, x), "bitwise_and needs integers or bools, got float32"),
        (lambda x, i: op.logical_not(i), "logical_not needs bools, got int32"),
        (lambda x, i: op.where(x, i, i), "the condition of where is float32, not bool"),
        (lambda x, i: op.divide(x > x, x > x), "divide needs numbers, got bool"),
        (lambda x, i: op.atan2(i, i), "atan2 needs floating-point numbers, got int32"),
        (
            lambda x, i: op.astype(x, "float33"),
            "dtype of astype must be a dtype such as 'float32', got 'float33'",
        ),
        (lambda x, i: op.left_shift(i, 40), "left_shift: shift amount 40 is outside"),
    ],
)
def test_errors(call: Callable[..., object], message: str) -> None:
    x = relax.Var("x", relax.TensorStructInfo((2, 3), "float32"))
    i = relax.Var("i", relax.TensorStructInfo((2, 3), "int32"))
    with pytest.raises((IRTypeError, IRValueError), match=message):
        call(x, i)
