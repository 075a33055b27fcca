"""Products and convolutions of integers with zero points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir.relax import Constant, op
from tests.operator_cases import Case, check
from tests.window_references import convolved

RNG = np.random.default_rng(0)
BOUNDS = {"uint8": (0, 256), "int8": (-128, 128)}


def integers(dtype: str, *shape: int) -> np.ndarray:
    return RNG.integers(*BOUNDS[dtype], shape).astype(dtype)


def less(x: np.ndarray, zero: np.ndarray, axis: int | None = None) -> np.ndarray:
    shape = [-1 if k == axis else 1 for k in range(x.ndim)] if zero.ndim else ()
    return x.astype("int32") - zero.astype("int32").reshape(shape)


def test_products_with_zero_points() -> None:
    cases = []
    for a, b in [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")]:
        x, y = integers(a, 3, 8), integers(b, 8, 5)
        u, v = integers(a), integers(b)

        def known(x: Any, y: Any, u: Any = u, v: Any = v) -> Any:
            return op.quantized.matmul(x, y, Constant(u), Constant(v))

        cases += [
            Case(f"{a} {b}", op.quantized.matmul, lambda x, y, u, v: less(x, u) @ less(y, v), x, y, u, v),
            Case(f"{a} {b}, known", known, lambda x, y, u=u, v=v: less(x, u) @ less(y, v), x, y),
            Case(f"{a} {b}, rows and columns", op.quantized.matmul,
                 lambda x, y, u, v: less(x, u, 0) @ less(y, v, 1), x, y, integers(a, 3), integers(b, 5)),
        ]  # fmt: skip
    cases.append(
        Case(
            "several, any rows",
            lambda x, y, u: op.quantized.matmul(x, y, u),
            lambda x, y, u: less(x, u) @ y.astype("int32"),
            integers("uint8", 2, 3, 8),
            integers("int8", 8, 5),
            integers("uint8"),
            shapes=[("b", "n", 8), (8, 5), ()],
        )
    )
    check(cases)


def convolution(groups: int) -> Callable[..., Any]:
    def call(x: Any, w: Any, u: Any = None, v: Any = None) -> Any:
        return op.quantized.conv(x, w, u, v, strides=(2,), padding=(1, 0), groups=groups)

    return call


def reference(groups: int) -> Callable[..., Any]:
    def expected(x: np.ndarray, w: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return convolved(less(x, u), less(w, v, 0), 2, [(1, 1), (0, 0)], groups=groups)

    return expected


def test_convolutions_with_zero_points() -> None:
    cases = []
    for groups in (1, 2):
        for a, b in [("uint8", "int8"), ("uint8", "uint8")]:
            x, w = integers(a, 2, 4, 7, 6), integers(b, 6, 4 // groups, 3, 3)
            for zeros in (integers(b), integers(b, 6)):
                u = integers(a)
                call, expected = convolution(groups), reference(groups)

                def known(x: Any, w: Any, call: Any = call, u: Any = u, v: Any = zeros) -> Any:
                    return call(x, w, Constant(u), Constant(v))

                def of_known(x: Any, w: Any, f: Any = expected, u: Any = u, v: Any = zeros) -> Any:
                    return f(x, w, u, v)

                name = f"{a} {b} {groups} {zeros.shape}"
                cases += [
                    Case(name, call, expected, x, w, u, zeros),
                    Case(f"{name}, known", known, of_known, x, w),
                ]
    check(cases)
