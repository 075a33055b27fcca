"""Products, contractions, and quantized operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorir import IRTypeError, IRValueError, relax
from tensorir.relax import Constant, op
from tests.operator_cases import Case, check
from tests.window_references import convolved

# ----------------------------------------------------------- Products of matrices and linear layers

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def tensor(*shape: Any, dtype: str = "float32") -> relax.Var:
    return relax.Var("x", relax.TensorStructInfo(shape, dtype))


def widened(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.astype("float32") @ b.astype("float32")).astype(a.dtype)


SHAPES = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((4,), (4,)),
    ((4,), (2, 4, 3)),
    ((2, 3, 4), (4,)),
    ((3, 0), (0, 2)),
]


def test_products() -> None:
    u8 = RNG.integers(0, 256, (3, 8)).astype("uint8")
    i8 = RNG.integers(-128, 128, (8, 5)).astype("int8")
    a, b, w, bias = floats(2, 3, 4), floats(2, 4, 5), floats(5, 4), floats(5)
    half = floats(3, 64).astype("float16"), floats(64, 5).astype("float16")
    check(
        [
            *(
                Case(f"matmul {m} {n}", op.matmul, np.matmul, floats(*m), floats(*n), atol=1e-5)
                for m, n in SHAPES
            ),
            Case("any batch and rows", op.matmul, np.matmul, a, b,
                 shapes=[("b", "n", 4), ("b", 4, 5)], atol=1e-5),
            Case("any depth", op.matmul, np.matmul, a, b, shapes=[(2, 3, "k"), (2, "k", 5)], atol=1e-5),
            Case("sums of float16 are float32", op.matmul, widened, *half, rtol=1e-3),
            Case("bytes", lambda x, y: op.matmul(x, y, out_dtype="int32"),
                 lambda x, y: x.astype("int32") @ y.astype("int32"), u8, i8),
            Case("int64", op.matmul, np.matmul, u8.astype("int64"), i8.astype("int64")),
            Case("batch_matmul", op.nn.batch_matmul, lambda x, y: x @ y.swapaxes(1, 2), a, floats(2, 5, 4),
                 atol=1e-5),
            Case("batch_matmul, other side", lambda x, y: op.nn.batch_matmul(x, y, None, True, False),
                 lambda x, y: x.swapaxes(1, 2) @ y, floats(2, 4, 3), b, atol=1e-5),
            Case("dense", op.nn.dense, lambda x, w, c: x @ w.T + c, a, w, bias, atol=1e-5),
            Case("linear", op.linear, lambda x, w, c: x @ w.T + c, a, w, bias, atol=1e-5),
            Case("linear, one output", op.linear, lambda x, w: x @ w, a, w[0], atol=1e-5),
            Case("@", lambda x, y: x @ y, np.matmul, a, b, atol=1e-5),
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("a", "b", "error", "message"),
    [
        (tensor(2, 3), tensor(4, 5), IRValueError, r"\(2, 3\) and \(4, 5\) do not match"),
        (tensor(), tensor(4, 5), IRValueError, "operands must have at least 1 dimension"),
        (tensor(2, 3, 4), tensor(5, 4, 1), IRValueError, r"shapes \(2\), \(5\) do not broadcast"),
        (
            tensor(2, 3),
            tensor(3, 5, dtype="int8"),
            IRTypeError,
            "float32 and int8; set the dtype of the result by out_dtype",
        ),
    ],
)
def test_what_does_not_go_together(
    a: relax.Var, b: relax.Var, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^matmul: .*{message}"):
        op.matmul(a, b)


# -------------------------- Sums of products by equations, and other arithmetic of several operands


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


# ------------------------------------------- Products and convolutions of integers with zero points

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
            x, w = integers(a, 1, 4, 5, 4), integers(b, 6, 4 // groups, 3, 3)
            for zeros in (integers(b), integers(b, 6)):
                u = integers(a)
                call, expected = convolution(groups), reference(groups)

                def known(x: Any, w: Any, call: Any = call, u: Any = u, v: Any = zeros) -> Any:
                    return call(x, w, Constant(u), Constant(v))

                def of_known(x: Any, w: Any, f: Any = expected, u: Any = u, v: Any = zeros) -> Any:
                    return f(x, w, u, v)

                name = f"{a} {b} {groups} {zeros.shape}"
                cases.append(Case(name, call, expected, x, w, u, zeros))
                if a != b:
                    cases.append(Case(f"{name}, known", known, of_known, x, w))
    check(cases)


# --------------------------- Quantized numbers: conversions, and products of bytes with zero points

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


def quantization_tensor(*shape: int, dtype: str = "float32") -> relax.Var:
    return relax.Var("x", relax.TensorStructInfo(shape, dtype))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: op.quantize(quantization_tensor(4), 1.0, out_dtype="int32"),
            "8 or 16 bits, got int32",
        ),
        (
            lambda: op.quantize(quantization_tensor(4), 1.0, np.array(0, "uint8")),
            "zero point must have the dtype int8",
        ),
        (
            lambda: op.dequantize(quantization_tensor(4, 2), quantization_tensor(3), axis=0),
            "number of scales is 3, but the",
        ),
        (
            lambda: op.dequantize(quantization_tensor(4, 2, 3), quantization_tensor(4, 2)),
            "has scales of 0, 1 or 3, not 2",
        ),
    ],
)
def test_what_does_not_go_together_of_quantization(call: Any, message: str) -> None:
    with pytest.raises((IRTypeError, IRValueError), match=message):
        call()
