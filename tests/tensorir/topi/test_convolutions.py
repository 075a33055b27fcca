"""Convolutions and transposed ones, along one to three axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorir import IRTypeError, IRValueError, relax
from tensorir.relax import op
from tests.operator_cases import Case, check
from tests.window_references import convolved, spread

RNG = np.random.default_rng(0)
SIZES = {1: (9,), 2: (7, 6), 3: (4, 5, 6)}


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def tensor(*shape: Any, dtype: str = "float32") -> relax.Var:
    return relax.Var("x", relax.TensorStructInfo(shape, dtype))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions(rank: int) -> None:
    """Channels in and out, groups, taps, stride, padding, dilation."""
    cases = []
    for ci, co, g, k, s, p, d in [
        (4, 6, 1, 3, 1, 1, 1),
        (4, 6, 2, 3, 2, 1, 1),
        (4, 8, 4, 3, 1, 0, 1),
        (4, 8, 4, 2, 1, 2, 2),
        (4, 6, 1, 1, 1, 0, 1),
    ]:
        options = {"strides": s, "padding": p, "dilation": d, "groups": g}

        def call(x: Any, w: Any, options: dict[str, int] = options) -> Any:
            return getattr(op.nn, f"conv{rank}d")(x, w, **options)

        def reference(x: Any, w: Any, s: int = s, p: int = p, d: int = d, g: int = g) -> Any:
            return convolved(x, w, s, [(p, p)] * rank, d, g)

        x, w = floats(2, ci, *SIZES[rank]), floats(co, ci // g, *[k] * rank)
        cases.append(Case(str(options), call, reference, x, w, rtol=1e-5, atol=1e-5))
        if k == 3 and g == 1:
            names = ["n", ci, *"hwd"[:rank]]
            shapes = [names, w.shape]
            cases.append(Case("any sizes", call, reference, x, w, shapes=shapes, atol=1e-5))
    check(cases)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_convolutions(rank: int) -> None:
    """Channels in and out, groups, taps, stride, padding, what is added at the end, dilation."""
    cases = []
    for ci, co, g, k, s, p, o, d in [
        (4, 6, 1, 3, 1, 1, 0, 1),
        (4, 6, 2, 3, 2, 1, 1, 1),
        (4, 8, 4, 3, 3, 0, 2, 2),
        (2, 3, 1, 1, 2, 0, 0, 1),
        (2, 2, 1, 3, 2, 2, 1, 1),
        (2, 2, 1, 2, 1, 1, 0, 1),
    ]:
        options = {"strides": s, "padding": p, "output_padding": o, "dilation": d, "groups": g}

        def call(x: Any, w: Any, options: dict[str, int] = options) -> Any:
            return getattr(op.nn, f"conv{rank}d_transpose")(x, w, **options)

        def reference(
            x: Any, w: Any, s: int = s, p: int = p, o: int = o, d: int = d, g: int = g
        ) -> Any:
            return spread(x, w, s, p, o, d, g)

        x, w = floats(2, ci, *SIZES[rank]), floats(ci, co // g, *[k] * rank)
        cases.append(Case(str(options), call, reference, x, w, rtol=1e-5, atol=1e-5))
    x, w = floats(2, 2, *SIZES[rank]), floats(2, 2, *[3] * rank)
    cases.append(
        Case(
            "any sizes",
            lambda x, w: getattr(op.nn, f"conv{rank}d_transpose")(x, w, strides=2, padding=1),
            lambda x, w: spread(x, w, 2, 1),
            x,
            w,
            shapes=[("n", 2, *"hwd"[:rank]), w.shape],
            atol=1e-5,
        )
    )
    check(cases)


def last(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, 1, -1)


def first(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, -1, 1)


def test_layouts_and_dtypes() -> None:
    x, w = floats(2, 7, 6, 4), floats(3, 3, 4, 5)

    def oihw(w: np.ndarray) -> np.ndarray:
        return w.transpose(3, 2, 0, 1)

    sides = [(1, 1), (1, 1)]
    u8 = RNG.integers(0, 256, (1, 4, 5, 5)).astype("uint8")
    i8 = RNG.integers(-128, 128, (3, 4, 3, 3)).astype("int8")
    half = floats(1, 16, 5, 5).astype("float16"), floats(3, 16, 3, 3).astype("float16")
    check(
        [
            Case("NHWC", lambda x, w: op.nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="HWIO"),
                 lambda x, w: last(convolved(first(x), oihw(w), 1, sides)), x, w, atol=1e-5),
            Case("NHWC to NCHW",
                 lambda x, w: op.nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="HWIO",
                                           out_layout="NCHW"),
                 lambda x, w: convolved(first(x), oihw(w), 1, sides), x, w, atol=1e-5),
            Case("NHWC transposed",
                 lambda x, w: op.nn.conv2d_transpose(x, w, 2, data_layout="NHWC", kernel_layout="HWIO"),
                 lambda x, w: last(spread(first(x), w.transpose(2, 3, 0, 1), 2)), x, w, atol=1e-5),
            Case("depthwise NHWC",
                 lambda x, w: op.nn.conv2d(x, w, groups=4, data_layout="NHWC", kernel_layout="HWIO"),
                 lambda x, w: last(convolved(first(x), oihw(w), groups=4)), x, floats(3, 3, 1, 8), atol=1e-5),
            Case("sides", lambda x, w: op.nn.conv2d(x, w, padding=[1, 0, 2, 1]),
                 lambda x, w: convolved(x, w, 1, [(1, 2), (0, 1)]), floats(1, 4, 5, 5), floats(3, 4, 3, 3),
                 atol=1e-5),
            Case("bytes", lambda x, w: op.nn.conv2d(x, w, padding=1, out_dtype="int32"),
                 lambda x, w: convolved(x.astype("int32"), w.astype("int32"), 1, sides), u8, i8),
            Case("float16", op.nn.conv2d,
                 lambda x, w: convolved(x.astype("float32"), w.astype("float32")).astype("float16"), *half,
                 rtol=2e-3, atol=2e-3),
        ]
    )  # fmt: skip


def blocks(call: Callable[..., Any], *args: relax.Var) -> list[str]:
    builder = relax.BlockBuilder()
    with builder.function("main", list(args)):
        builder.emit_func_output(builder.emit(builder.call_te(call, *args)))
    lines = builder.get().script().splitlines()
    return [line.split('"')[1] for line in lines if 'with T.block("' in line and "root" not in line]


def test_the_kernel_of_a_convolution() -> None:
    """Nothing is copied where nothing is padded; a depthwise one reduces over taps only."""
    conv = op.nn.conv2d.function
    x, w = tensor(1, 4, 8, 8), tensor(8, 4, 3, 3)
    assert blocks(conv, x, w) == ["conv2d_nchw"]
    assert blocks(lambda x, w: conv(x, w, padding=1), x, w) == ["pad_temp", "conv2d_nchw"]
    depthwise = blocks(lambda x, w: conv(x, w, groups=4), x, tensor(4, 1, 3, 3))
    assert depthwise == ["depthwise_conv2d_nchw"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, w: op.nn.conv2d(x, w, groups=2), "input channels is 4, but that of the weight in 2"),
        (lambda x, w: op.nn.conv2d(x, w, padding=[1, 2, 3]), "padding must be 1 or 2 or 4 numbers"),
        (lambda x, w: op.nn.conv2d(x, w, strides=0), "strides must be at least 1"),
        (lambda x, w: op.nn.conv2d(x, w, data_layout="NCW"), "data_layout must consist of the letters NCHW"),
        (lambda x, w: op.nn.conv2d(x, w, dilation=9), "window of 19 does not fit into an axis of 8"),
        (lambda x, w: op.nn.conv1d(x, w), r"data \(NCW\) must have 3 dimensions, got 4"),
        (lambda x, w: op.nn.conv2d_transpose(x, w, output_padding=1), "the number of input channels is 4"),
        (lambda x, w: op.nn.conv2d(x, op.astype(w, "int8")), "operands must have one dtype"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(call: Callable[..., Any], message: str) -> None:
    with pytest.raises((IRValueError, IRTypeError), match=message):
        call(tensor(1, 4, 8, 8), tensor(8, 4, 3, 3))
