"""Products of matrices and linear layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorir import IRTypeError, IRValueError, relax
from tensorir.relax import op
from tests.operator_cases import Case, check

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


def test_the_kernel_of_a_product_has_one_block() -> None:
    """Its name and form are what schedules are written for."""
    builder = relax.BlockBuilder()
    with builder.function("main", [x := tensor(8, 4), y := tensor(4, 6)]):
        builder.emit_func_output(builder.emit(builder.call_te(op.matmul.function, x, y)))
    lines = [line.strip() for line in builder.get().script().splitlines()]
    assert 'with T.block("matmul"):' in lines
    assert 'v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])' in lines
    assert sum("T.block(" in line and "root" not in line for line in lines) == 1
