"""Operators over NaN, infinities, denormal numbers and nothing at all, beside NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tensorir import relax
from tensorir.errors import IRValueError
from tensorir.relax import op
from tests.operator_cases import Case, check

NAN, INF = np.nan, np.inf
ROWS = [
    [NAN, 1, -2, INF],
    [-INF, -INF, -INF, -INF],
    [INF, INF, -INF, 0],
    [1e-5, -1e-5, 6e-8, -0.0],
    [3, NAN, -INF, 2],
    [0, -0.0, 88, -104],
]


def windows(x: np.ndarray, size: Sequence[int], padding: int) -> np.ndarray:
    around = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    wide = np.pad(x, around, constant_values=-INF)
    return np.lib.stride_tricks.sliding_window_view(wide, size, (2, 3))


def thirds(x: np.ndarray) -> np.ndarray:
    return x.reshape(1, 1, 3, 2, 4).max((3, 4))[..., None]


def lower_median(x: np.ndarray) -> np.ndarray:
    return np.quantile(x, 0.5, 1, method="lower")


def cases(dtype: str) -> list[Case]:
    x = np.array(ROWS, dtype)
    image = x[None, None]
    lossy = 1e-3 if dtype == "float16" else 1e-6

    def of(name: str, ours: Any, expected: Any, *inputs: Any) -> Case:
        return Case(name, ours, expected, *inputs, rtol=lossy, atol=lossy)

    return [
        of("max", lambda v: op.max(v, 1), lambda v: v.max(1), x),
        of("min", lambda v: op.min(v, 0), lambda v: v.min(0), x),
        of("argmax", lambda v: op.argmax(v, 1), lambda v: v.argmax(1), x),
        of("argmin", lambda v: op.argmin(v, 1), lambda v: v.argmin(1), x),
        of("sum", lambda v: op.sum(v, 1), lambda v: v.sum(1), x),
        of("prod", lambda v: op.prod(v, 1), lambda v: v.astype("float64").prod(1).astype(dtype), x),
        of("median", lambda v: op.median(v, 1), lower_median, x),
        of("any", lambda v: op.any(v, 1), lambda v: v.any(1), x),
        of("cumsum", lambda v: op.cumsum(v, 1), lambda v: v.cumsum(1, dtype=dtype), x),
        of("sign", op.sign, np.sign, x),
        of("maximum", op.maximum, np.maximum, x, x[::-1]),
        of("minimum", op.minimum, np.minimum, x, x[::-1]),
        of("log_add_exp", op.log_add_exp, np.logaddexp, x[:, :, None], x[:, None]),
        of("floor_divide", op.floor_divide, np.floor_divide, x[:, :, None], x[:, None]),
        of("floor_mod", op.floor_mod, np.remainder, x[:, :, None], x[:, None]),
        of("sum of none", lambda v: op.sum(v, 1), lambda v: v.sum(1), x[:, :0]),
        of("prod of none", lambda v: op.prod(v, 1), lambda v: v.prod(1), x[:, :0]),
        of(
            "max_pool2d", lambda v: op.nn.max_pool2d(v, (3, 2), padding=1),
            lambda v: windows(v, (3, 2), 1).max((-1, -2)), image,
        ),
        of(
            "max_pool2d without padding", lambda v: op.nn.max_pool2d(v, 2),
            lambda v: windows(v, (2, 2), 0).max((-1, -2)), image,
        ),
        of(
            "max_pool2d_with_argmax", lambda v: op.nn.max_pool2d_with_argmax(v, (1, 2))[0],
            lambda v: windows(v, (1, 2), 0).max((-1, -2)), image,
        ),
        of("adaptive_max_pool2d", lambda v: op.nn.adaptive_max_pool2d(v, (3, 1)), thirds, image),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_special_values_are_those_of_numpy(dtype: str) -> None:
    check(cases(dtype))


def test_floor_division_rounds_the_exact_quotient() -> None:
    a, b = np.float32([1.0, 6.0, -1.0, 7.0]), np.float32([0.1, 0.1, 0.1, -0.7])
    check([Case("floor_divide", op.floor_divide, np.floor_divide, a, b)])


def test_max_pooling_of_integers_pads_with_the_least_of_them() -> None:
    x = np.full((1, 1, 2, 2), -128, "int8")
    check([Case("int8", lambda v: op.nn.max_pool2d(v, 2, padding=1), lambda v: np.full((1, 1, 3, 3), -128, "int8"), x)])  # fmt: skip


def empty(*shape: int) -> np.ndarray:
    return np.zeros(shape, "float32")


def test_extents_of_0_divide_nothing() -> None:
    def nothing(*shape: int) -> Any:
        return lambda *_: empty(*shape)

    x = empty(1, 3, 4, 4)
    check([
        Case("roll", lambda v: op.roll(v, 1, 0), nothing(0, 3), empty(0, 3)),
        Case("tile", lambda v: op.tile(v, [2, 2]), nothing(0, 6), empty(0, 3)),
        Case("group_norm", lambda v: op.nn.group_norm(v, num_groups=2), nothing(2, 0, 3), empty(2, 0, 3)),
        Case("conv2d", lambda v, w: op.nn.conv2d(v, w, groups=3), nothing(1, 0, 3, 3), x, empty(0, 1, 2, 2)),
        Case("conv2d_transpose", lambda v, w: op.nn.conv2d_transpose(v, w, groups=3), nothing(1, 0, 5, 5), x, empty(3, 0, 2, 2)),
        Case("space_to_depth", lambda v: op.nn.space_to_depth(v, 2), nothing(1, 0, 2, 2), empty(1, 0, 4, 4)),
        Case("resize2d", lambda v: op.image.resize2d(v, (0, 2)), nothing(1, 3, 0, 2), x),
    ])  # fmt: skip


def test_an_empty_picture_is_not_resized_to_another() -> None:
    x = relax.Var("x", relax.TensorStructInfo((1, 3, 0, 4), "float32"))
    with pytest.raises(IRValueError, match="an axis without elements cannot be resized to 2;"):
        op.image.resize2d(x, (2, 2))
