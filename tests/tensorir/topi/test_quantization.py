"""Quantized numbers: conversions, and products of bytes with zero points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorir import IRTypeError, IRValueError, relax
from tensorir.relax import op
from tests.operator_cases import Case, check

rng = np.random.default_rng(0)
X = (rng.standard_normal((3, 8)) * 100).astype("float32")
X[0, :3] = [0.5, 1.5, 1e9]  # ties, and what does not fit


def quantized(x: Any, scale: Any, zero: Any, dtype: str) -> Any:
    limits = np.iinfo(dtype)
    return np.clip(np.rint(x / scale) + zero, limits.min, limits.max).astype(dtype)


def test_conversions() -> None:
    row = np.array([1.0, 0.5, 2.0], "float32")
    zeros = np.array([0, 3, -4], "int8")
    blocks = rng.random((3, 2)).astype("float32") + 0.5
    bytes_ = rng.integers(-128, 128, (3, 8)).astype("int8")
    check(
        [
            Case(
                "to uint8, one scale",
                lambda x: op.quantize(x, 1.0, np.array(7, "uint8"), out_dtype="uint8"),
                lambda x: quantized(x, 1.0, 7, "uint8"),
                X,
            ),
            Case(
                "to int8, a scale a row",
                lambda x, s, z: op.quantize(x, s, z, axis=0),
                lambda x, s, z: quantized(x, s[:, None], z[:, None], "int8"),
                X, row, zeros,
            ),
            Case(
                "to int16, a scale a block, any number of rows",
                lambda x, s: op.quantize(x, s, axis=1, out_dtype="int16"),
                lambda x, s: quantized(x, np.repeat(s, 4, 1), 0, "int16"),
                X, blocks, shapes=[("n", 8), ("n", 2)],
            ),
            Case(
                "from int8, a scale a row",
                lambda x, s, z: op.dequantize(x, s, z, axis=0),
                lambda x, s, z: (x - z[:, None].astype("float32")) * s[:, None],
                bytes_, row, zeros,
            ),
            Case(
                "from int8, a scale for four of a row",
                lambda x, s: op.dequantize(x, s, axis=1, block_size=4),
                lambda x, s: x * np.repeat(s, 4, 1),
                bytes_, blocks,
            ),
        ]
    )  # fmt: skip


def test_products_of_bytes() -> None:
    a = rng.integers(0, 256, (4, 6)).astype("uint8")
    b = rng.integers(-128, 128, (6, 5)).astype("int8")
    rows = np.array([1, 2, 3, 250], "uint8")
    columns = np.array([-3, 0, 1, 2, 127], "int8")
    x = rng.integers(0, 256, (1, 2, 5, 5)).astype("uint8")
    w = rng.integers(-128, 128, (3, 2, 3, 3)).astype("int8")

    def product(a: Any, b: Any, u: Any, v: Any) -> Any:
        return (a.astype("int32") - u[:, None]) @ (b.astype("int32") - v)

    def convolved(x: Any, w: Any) -> Any:
        wide = np.pad(x.astype("int32") - 9, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
        return np.einsum("nchwij,ocij->nohw", windows, w.astype("int32")).astype("int32")

    check(
        [
            Case("zero points of rows and columns", op.quantized.matmul, product, a, b, rows, columns),
            Case(
                "without zero points",
                lambda a, b: op.quantized.matmul(a, b, np.array(0, "uint8")),
                lambda a, b: a.astype("int32") @ b.astype("int32"),
                a, b,
            ),
            Case(
                "a convolution whose padding is the zero point",
                lambda x, w: op.quantized.conv(
                    x, w, np.array(9, "uint8"), strides=(1, 1), padding=(1, 1, 1, 1),
                    dilation=(1, 1),
                ),
                convolved, x, w,
            ),
        ]
    )  # fmt: skip


def tensor(*shape: int, dtype: str = "float32") -> relax.Var:
    return relax.Var("x", relax.TensorStructInfo(shape, dtype))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: op.quantize(tensor(4), 1.0, out_dtype="int32"), "8 or 16 bits, got int32"),
        (
            lambda: op.quantize(tensor(4), 1.0, np.array(0, "uint8")),
            "zero point must have the dtype int8",
        ),
        (lambda: op.dequantize(tensor(4, 2), tensor(3), axis=0), "number of scales is 3, but the"),
        (lambda: op.dequantize(tensor(4, 2, 3), tensor(4, 2)), "has scales of 0, 1 or 3, not 2"),
    ],
)
def test_what_does_not_go_together(call: Any, message: str) -> None:
    with pytest.raises((IRTypeError, IRValueError), match=message):
        call()
