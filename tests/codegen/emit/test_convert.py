"""Casts between all dtypes, and 16-bit floats, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from kernels import Array, elementwise

import codegen
from tensorir import parse
from tensorir.nodes import ops
from tensorir.nodes.dtype import DataType
from tensorir.semantics import rounding, to_bits

BFLOAT16 = DataType("bfloat16")
TARGETS = ["llvm", "llvm -mcpu=x86-64"]
"""With the processor's own float16 conversions and with those spelled out."""


def bfloat16_to_float32(bits: Array) -> Array:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bits_of(value: float) -> int:
    """Return the bits of a number rounded to bfloat16."""
    return to_bits(rounding(BFLOAT16)(value), BFLOAT16)


def every_half() -> Array:
    return np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)


def float32_samples() -> Array:
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
    near_halves = every_half().view(np.float16).astype(np.float32)
    steps = near_halves.view(np.uint32)[:, None] + np.array([0, 1, 4095, 4096, 4097], np.uint32)
    edges = np.array(
        [0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.996, 65520, 65536, 1e-8, 2**-24, 2**-25],
        np.float32,
    )
    found = np.concatenate([patterns, steps.view(np.float32).ravel(), edges])
    return found[: len(found) // 16 * 16]


def as_source(values: Array, dtype: str) -> Array:
    with np.errstate(invalid="ignore"):  # signalling NaNs among the samples
        return values.astype(dtype)


def assert_same_floats(got: Array, expected: Array) -> None:
    """Compare bits, but let any NaN equal any NaN."""
    both_nan = np.isnan(got) & np.isnan(expected)
    same = (got == expected) & (np.signbit(got) == np.signbit(expected))
    assert np.all(both_nan | same)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lanes", [1, 16])
def test_every_float16_widens_exactly(lanes: int, target: str) -> None:
    halves = every_half().view(np.float16)
    convert = elementwise(lambda x: ops.cast(f"float32x{lanes}", x), ["float16"], lanes, target)
    (got,) = convert(halves)
    assert_same_floats(got, halves.astype(np.float32))


BROADCAST = """
@T.prim_func
def f(A: T.Buffer((65536,), "{dtype}"), B: T.Buffer((65536, 8), "float32")):
    for i in range(65536):
        B[i, 0:8] = T.Broadcast(T.Cast("float32", A[i]), 8)
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_half_widens_exactly_in_all_lanes(dtype: str, target: str) -> None:
    halves, wide = every_half(), np.zeros((1 << 16, 8), np.float32)
    module = codegen.build(parse(BROADCAST.format(dtype=dtype)), target)
    module["f"](halves.view(np.float16) if dtype == "float16" else halves, wide)
    expected = bfloat16_to_float32(halves)
    if dtype == "float16":
        expected = halves.view(np.float16).astype(np.float32)
    assert_same_floats(wide, np.repeat(expected[:, None], 8, axis=1))


@pytest.mark.parametrize(
    ("dtype", "instructions"),
    [("float16", ["vpbroadcastw", "vcvtph2ps"]), ("bfloat16", ["vpbroadcastw", "vpslld"])],
)
def test_a_half_is_broadcast_from_memory_before_it_is_widened(
    dtype: str, instructions: list[str]
) -> None:
    text = codegen.build(parse(BROADCAST.format(dtype=dtype)), "llvm -mcpu=znver3").inspect_asm()
    body = text[text.index("tensorir.kernel.f:") :].split("ret")[0]
    words = [line.split()[0] for line in body.splitlines() if line.startswith("\tv")]
    assert words[:2] == instructions
    assert "movzwl" not in body


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_rounding_to_float16_is_to_nearest_even(source: str, target: str) -> None:
    values = as_source(float32_samples(), source)
    if source == "float64":
        tie = np.arange(1, 2049) * 2.0 + 1.0  # a tie of float16 for the larger ones
        values = np.concatenate([values, tie + 1e-9, tie - 1e-9, tie, -tie * (1 + 1e-15)])
    convert = elementwise(lambda x: ops.cast("float16x16", x), [source], 16, target)
    (got,) = convert(values)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = values.astype(np.float16)
    assert_same_floats(got, expected)


def test_every_bfloat16_widens_exactly() -> None:
    convert = elementwise(lambda x: ops.cast("float32x16", x), ["bfloat16"], 16)
    (got,) = convert(every_half())
    assert_same_floats(got, bfloat16_to_float32(every_half()))


@pytest.mark.parametrize("source", ["float32", "float64"])
def test_rounding_to_bfloat16_is_to_nearest_even(source: str) -> None:
    values = as_source(float32_samples()[::7], source)
    values = values[: len(values) // 16 * 16]
    if source == "float64":
        tie = 1.0 + (np.arange(1, 129) * 2 - 1) / 256
        values = np.concatenate([values, tie, tie + 1e-12, tie - 1e-12])
    convert = elementwise(lambda x: ops.cast("bfloat16x16", x), [source], 16)
    (got,) = convert(values)
    expected = np.array([bits_of(float(v)) for v in values]).astype(np.uint16)
    assert_same_floats(bfloat16_to_float32(got), bfloat16_to_float32(expected))


def test_bfloat16_of_large_integers_rounds_once() -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(-(1 << 62), 1 << 62, 4096)
    # Just beside the middle of two bfloat16 values, which a double would round to that middle.
    ties = (np.int64(1) << 61) + (np.arange(0, 128) * 2 + 1) * (np.int64(1) << 53)
    values = np.concatenate([values, ties, ties + 1, ties - 1, -ties - 1])
    (got,) = elementwise(lambda x: ops.cast("bfloat16x16", x), ["int64"], 16)(values)

    def nearest(value: int) -> float:
        magnitude = abs(value)
        unit = 1 << max(0, magnitude.bit_length() - 8)
        low, rest = divmod(magnitude, unit)
        up = rest * 2 > unit or (rest * 2 == unit and low % 2 == 1)
        return math.copysign((low + up) * unit, value)

    assert bfloat16_to_float32(got).tolist() == [nearest(int(v)) for v in values]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_arithmetic_rounds_after_each_operation(dtype: str) -> None:
    rng = np.random.default_rng(3)
    if dtype == "float16":
        a = rng.uniform(-300, 300, 4096).astype(np.float16)
        b = rng.uniform(-300, 300, 4096).astype(np.float16)
        wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    else:
        a, b = (rng.integers(0x3000, 0x4800, 4096).astype(np.uint16) for _ in range(2))
        wide_a, wide_b = bfloat16_to_float32(a), bfloat16_to_float32(b)

    def rounded(values: Array) -> Array:
        if dtype == "float16":
            with np.errstate(over="ignore"):
                return values.astype(np.float16).astype(np.float32)
        bits = np.array([bits_of(float(v)) for v in values]).astype(np.uint16)
        return bfloat16_to_float32(bits)

    results = elementwise(
        lambda x, y: [x + y, x - y, x * y, x / y, x * y + x, ops.max_(x, y)], [dtype, dtype], 16
    )(a, b)
    product = rounded(wide_a * wide_b)
    expected = [
        rounded(wide_a + wide_b),
        rounded(wide_a - wide_b),
        product,
        rounded(wide_a / wide_b),
        rounded(product + wide_a),
        np.maximum(wide_a, wide_b),
    ]
    for got, want in zip(results, expected, strict=True):
        wide = got.astype(np.float32) if dtype == "float16" else bfloat16_to_float32(got)
        assert_same_floats(wide, want)
