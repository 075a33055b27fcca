"""Pooling and convolutions along one to three axes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorir.relax import op
from tests.operator_cases import Case, check
from tests.window_references import convolved, pooled, shared_out, spread

# ------------------------------------------------------------------ Pooling along one to three axes

RNG = np.random.default_rng(0)
BATCH = {1: 2, 2: 2, 3: 1}
SIZES = {1: (9,), 2: (7, 6), 3: (4, 3, 5)}


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("rank", [2, 1, 3])
def test_windows(rank: int) -> None:
    """Size, stride, padding, dilation, and whether windows may go beyond the end."""
    cases = []
    x = floats(BATCH[rank], 3, *SIZES[rank])
    for size, stride, padding, dilation, ceil in [
        (3, 2, 1, 1, False),
        (2, 2, 0, 1, True),
        (3, 2, 1, 1, True),
        (2, 1, 0, 2, False),
        (2, 3, 1, 1, True),
    ][: 5 if rank == 1 else 3]:
        options = {"strides": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil}
        own = (size, stride, padding, dilation, ceil)

        def named(
            name: str, options: dict[str, Any] = options, size: int = size, **more: Any
        ) -> Callable[..., Any]:
            return lambda x: getattr(op.nn, f"{name}{rank}d")(x, size, **options, **more)

        def largest(x: np.ndarray, own: Any = own) -> np.ndarray:
            return pooled(x, np.nanmax, *own)

        def mean(x: np.ndarray, own: Any = own) -> np.ndarray:
            return pooled(x, np.nanmean, *own)

        def norm(x: np.ndarray, own: Any = own) -> np.ndarray:
            return np.sqrt(pooled(x * x, np.nansum, *own))

        names = ["n", 3, *"hwd"[:rank]]
        cases += [
            Case(f"max {own}", named("max_pool"), largest, x),
            Case(f"max {own}, any sizes", named("max_pool"), largest, x, shapes=[names]),
            Case(f"mean {own}", named("avg_pool"), mean, x),
            Case(f"norm {own}", named("lp_pool"), norm, x, atol=1e-5),
        ]
        if not ceil:

            def counted(x: np.ndarray, own: Any = own) -> np.ndarray:
                return pooled(x, np.mean, *own, value=0)

            cases.append(Case(f"all {own}", named("avg_pool", count_include_pad=True), counted, x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(cases)


def test_padding_counts_but_not_what_is_beyond() -> None:
    """Windows 0..2, 2..4 and 4..6 of an axis of 5 with padding 1; place 6 is beyond."""
    x = np.arange(1.0, 5.0, dtype="float32")[None, None]
    check(
        [
            Case("counted", lambda x: op.nn.avg_pool1d(x, 3, 2, 1, ceil_mode=True, count_include_pad=True),
                 lambda x: np.array([[[1.0, 3.0, 2.0]]], "float32"), x),
            Case("left out", lambda x: op.nn.avg_pool1d(x, 3, 2, 1, ceil_mode=True),
                 lambda x: np.array([[[1.5, 3.0, 4.0]]], "float32"), x),
        ]
    )  # fmt: skip


def with_places(x: np.ndarray, size: int, stride: int) -> tuple[np.ndarray, np.ndarray]:
    places = np.broadcast_to(np.arange(x[0, 0].size).reshape(x.shape[2:]), x.shape)
    windows = pooled(x, np.max, size, stride)
    index = np.zeros(windows.shape, "int64")
    for at in np.ndindex(*windows.shape):
        part = tuple(slice(o * stride, o * stride + size) for o in at[2:])
        window = x[(*at[:2], *part)]
        index[at] = places[(*at[:2], *part)].ravel()[window.argmax()]
    return windows, index


def test_places_of_the_largest() -> None:
    x = floats(2, 3, 7, 6)
    ties = np.zeros((1, 1, 4, 4), "float32")
    check(
        [
            Case("places", lambda x: op.nn.max_pool2d_with_argmax(x, 3, 2), lambda x: with_places(x, 3, 2), x),
            Case("the first", lambda x: op.nn.max_pool2d_with_argmax(x, 2, 2), lambda x: with_places(x, 2, 2), ties),
            Case("padding is no place", lambda x: op.nn.max_pool1d_with_argmax(x, 2, 2, 1),
                 lambda x: (np.array([[[-1, -2]]], "float32"), np.array([[[0, 1]]])),
                 np.array([[[-1, -2]]], "float32")),
        ]
    )  # fmt: skip


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_windows_that_share_axes_out(rank: int) -> None:
    x = floats(BATCH[rank], 3, *SIZES[rank])
    cases = []
    for n in (1, 3, 4)[: 2 if rank == 3 else None]:

        def named(name: str, n: int = n) -> Callable[..., Any]:
            return lambda x: getattr(op.nn, f"adaptive_{name}_pool{rank}d")(x, n)

        def reference(reduce: Any, n: int = n) -> Callable[..., Any]:
            return lambda x: shared_out(x, reduce, [n] * rank)

        cases += [
            Case(f"mean {n}", named("avg"), reference(np.mean), x),
            Case(f"max {n}", named("max"), reference(np.max), x),
            Case(f"mean {n}, any sizes", named("avg"), reference(np.mean), x,
                 shapes=[["n", 3, *"hwd"[:rank]]]),
        ]  # fmt: skip
    check(cases)


def test_layouts_and_dtypes() -> None:
    x = floats(2, 7, 6, 3)
    check(
        [
            Case("NHWC", lambda x: op.nn.max_pool2d(x, 2, 2, layout="NHWC"),
                 lambda x: pooled(x.transpose(0, 3, 1, 2), np.max, 2, 2).transpose(0, 2, 3, 1), x),
            Case("NHWC, whole", lambda x: op.nn.adaptive_avg_pool2d(x, 1, layout="NHWC"),
                 lambda x: x.mean((1, 2), keepdims=True), x),
            Case("integers", lambda x: op.nn.max_pool2d(x, 2, 2), lambda x: pooled(x, np.max, 2, 2, value=0),
                 RNG.integers(-128, 128, (1, 2, 4, 4)).astype("int8")),
            Case("sums of float16 are float32", lambda x: op.nn.adaptive_avg_pool1d(x, 1),
                 lambda x: x.astype("float32").mean(2, keepdims=True).astype("float16"),
                 np.full((1, 1, 5000), 60, "float16")),
        ]
    )  # fmt: skip


# ---------------------------------------- Convolutions and transposed ones, along one to three axes


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

        x, w = floats(BATCH[rank], ci, *SIZES[rank]), floats(co, ci // g, *[k] * rank)
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
        (3, 4, 1, 2, 2, 0, 0, 1),
        (2, 3, 1, 3, 2, 1, 1, 2),
        (2, 2, 1, 5, 4, 3, 3, 2),
    ]:
        options = {"strides": s, "padding": p, "output_padding": o, "dilation": d, "groups": g}

        def call(x: Any, w: Any, options: dict[str, int] = options) -> Any:
            return getattr(op.nn, f"conv{rank}d_transpose")(x, w, **options)

        def reference(
            x: Any, w: Any, s: int = s, p: int = p, o: int = o, d: int = d, g: int = g
        ) -> Any:
            return spread(x, w, s, p, o, d, g)

        x, w = floats(BATCH[rank], ci, *SIZES[rank]), floats(ci, co // g, *[k] * rank)
        cases.append(Case(str(options), call, reference, x, w, rtol=1e-5, atol=1e-5))
    x, w = floats(BATCH[rank], 2, *SIZES[rank]), floats(2, 2, *[3] * rank)
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


def test_layouts_and_dtypes_of_convolutions() -> None:
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
