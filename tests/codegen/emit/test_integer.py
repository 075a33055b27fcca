"""Integer arithmetic of every width against NumPy and Python, on scalars and on vectors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from kernels import Array, elementwise

from tensorir.nodes import ops
from tensorir.nodes.expr import Call, Max, Min
from tensorir.nodes.intrin import Op
from tensorir.semantics import COMPARISONS

DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
LANES = [1, 8]


def wrapped(value: int, dtype: str) -> int:
    bits = np.dtype(dtype).itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype[0] == "i" and value >> (bits - 1) else value


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0


def shifted(a: int, b: int, dtype: str, right: bool) -> int:
    bits = np.dtype(dtype).itemsize * 8
    if not 0 <= b < bits:
        return -1 if right and a < 0 else 0
    return a >> b if right else a << b


BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int, int], int]]] = {
    "add": (ops.add, operator.add),
    "sub": (ops.sub, operator.sub),
    "mul": (ops.mul, operator.mul),
    "floordiv": (ops.floordiv, lambda a, b: a // b if b else 0),
    "floormod": (ops.floormod, lambda a, b: a % b if b else a),
    "truncdiv": (ops.truncdiv, truncated),
    "truncmod": (ops.truncmod, lambda a, b: a - truncated(a, b) * b),
    "min": (Min, min),
    "max": (Max, max),
    "and": (ops.bitwise_and, operator.and_),
    "or": (ops.bitwise_or, operator.or_),
    "xor": (ops.bitwise_xor, operator.xor),
}


@cache
def binary_kernel(dtype: str, lanes: int) -> Callable[..., list[Array]]:
    def make(a: Any, b: Any) -> list[Any]:
        arithmetic = [build(a, b) for build, _ in BINARY.values()]
        return [*arithmetic, ops.shift_left(a, b), ops.shift_right(a, b)]

    return elementwise(make, [dtype, dtype], lanes)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_binary_operators_agree_with_python(dtype: str, lanes: int, data: st.DataObject) -> None:
    limits = np.iinfo(dtype)
    elements = st.one_of(
        st.sampled_from([0, 1, 2, 3, 7, limits.min, limits.max, wrapped(-1, dtype)]),
        st.integers(limits.min, limits.max),
    )
    a = data.draw(arrays(dtype, 16, elements=elements))
    b = data.draw(arrays(dtype, 16, elements=elements))
    *results, left, right = binary_kernel(dtype, lanes)(a, b)
    pairs = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    for (name, (_, reference)), got in zip(BINARY.items(), results, strict=True):
        assert got.tolist() == [wrapped(reference(x, y), dtype) for x, y in pairs], name
    assert left.tolist() == [wrapped(shifted(x, y, dtype, False), dtype) for x, y in pairs]
    assert right.tolist() == [wrapped(shifted(x, y, dtype, True), dtype) for x, y in pairs]


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16"])
def test_division_by_constants(dtype: str, lanes: int) -> None:
    divisors = [1, 2, 3, 7, 8, 100, *([-1, -2, -3] if dtype[0] == "i" else [])]

    def make(a: Any) -> list[Any]:
        constants = [ops.const(d, a.dtype) for d in divisors]
        pairs = [(ops.floordiv(a, c), ops.floormod(a, c)) for c in constants]
        return [expr for pair in pairs for expr in pair]

    limits = np.iinfo(dtype)
    # Simplification takes it that `a // -2 == -a // 2`, so the lowest value, which has no negative,
    # is left out.
    edges = [limits.min + 1, limits.min + 2, limits.max, limits.max - 1]
    a = np.array([0, 1, 2, 3, 5, 6, 7, 8, 9, 99, 100, 101, *edges])
    results = elementwise(make, [dtype], lanes)(a.astype(dtype))
    for k, d in enumerate(divisors):
        assert results[2 * k].tolist() == [wrapped(int(x) // d, dtype) for x in a]
        assert results[2 * k + 1].tolist() == [wrapped(int(x) % d, dtype) for x in a]


@pytest.mark.parametrize("dtype", DTYPES)
def test_bit_counting(dtype: str) -> None:
    bits = np.dtype(dtype).itemsize * 8

    def make(a: Any) -> list[Any]:
        return [
            ops.intrinsic("popcount", a),
            Call("int32", Op.get("clz"), [a]),
            ops.bitwise_not(a),
        ]

    limits = np.iinfo(dtype)
    a = np.array([0, 1, 2, 5, limits.max, limits.min, limits.max // 3, 64], dtype)
    ones, zeros, flipped = elementwise(make, [dtype])(a)
    unsigned = [int(x) & ((1 << bits) - 1) for x in a]
    assert ones.tolist() == [x.bit_count() for x in unsigned]
    assert zeros.tolist() == [bits - x.bit_length() for x in unsigned]
    assert flipped.tolist() == (~a).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_comparisons(dtype: str) -> None:
    def make(a: Any, b: Any) -> list[Any]:
        return [ops.compare(kind, a, b) for kind in COMPARISONS]

    limits = np.iinfo(dtype)
    a = np.array([0, 1, limits.min, limits.max, 3, 3, limits.max, 0], dtype)
    b = np.array([0, 2, limits.max, limits.min, 3, 2, limits.max, 1], dtype)
    for lanes in LANES:
        results = elementwise(make, [dtype, dtype], lanes)(a, b)
        for compare, got in zip(COMPARISONS.values(), results, strict=True):
            assert got.tolist() == [compare(x, y) for x, y in zip(a, b, strict=True)]
