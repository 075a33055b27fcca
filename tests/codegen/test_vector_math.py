"""Sweeps of the math functions against wider arithmetic: the ULP bounds of `codegen.vector_math`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernels import Array, elementwise, elementwise_program

import codegen
import tensorir
from codegen import vector_math
from codegen.compile import llvm_source
from tensorir.errors import TensorIRError
from tensorir.nodes.ops import cast, const, intrinsic

BOUNDS: dict[str, tuple[float, float]] = {
    "exp": (1, 1.1), "exp2": (1, 1), "exp10": (1, 1.1),
    "log": (1, 1), "log2": (1, 1), "log10": (1, 1), "log1p": (1.5, 1.5),
    "tanh": (2.5, 2.5), "sigmoid": (2.5, 2.5), "erf": (2, 2),
    "sin": (1.5, 1.5), "cos": (1.5, 1.5), "tan": (3, 3),
    "sqrt": (0.5, 0.5), "rsqrt": (1.5, 1.5),
}  # fmt: skip
WITHOUT_FMA = 0.75
"""ULP more on a CPU without fused multiply-add."""
LIBRARY = ["sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh"]
SPECIAL = [
    0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.0, -3.0, 1e-45, -1e-45, 1e-40,
    5e-324, 1e-310, 88.7, 88.8, -103.9, -104.5, 709.7, 709.8, -745.0, -746.0, 3.4e38, 1.7e308,
    127.99, 128.0, -149.0, -150.0, 1e30, -1e30,
]  # fmt: skip
REFERENCES: dict[str, Callable[[Any], Any]] = {
    "exp10": lambda x: np.power(type(x[0])(10), x),
    "sigmoid": lambda x: np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x))),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": np.vectorize(math.erf),
    **{f"a{name[1:]}": getattr(np, "arc" + name[1:]) for name in LIBRARY if name[0] == "a"},
}
RANGES = {"exp": 110, "exp2": 155, "exp10": 46, "sigmoid": 110, "sin": 1e4, "cos": 1e4, "tan": 1e4}


def samples(name: str, dtype: type[Any], count: int = 8192) -> Array:
    """Return random bit patterns, points where the function is interesting, and special values."""
    rng = np.random.default_rng(0)
    bits = np.uint32 if dtype is np.float32 else np.uint64
    patterns = rng.integers(0, np.iinfo(bits).max, count, bits).view(dtype)
    reach = RANGES.get(name, 8.0) * (8.0 if dtype is np.float64 and name in ("exp", "exp2") else 1)
    parts = [
        patterns,
        np.array([*SPECIAL, 1.0], np.float64).astype(dtype),
        rng.uniform(-reach, reach, count).astype(dtype),
        rng.uniform(-1, 1, count).astype(dtype),
        rng.uniform(0.6, 1.5, count).astype(dtype),
        (rng.integers(-4096, 4096, count) * (np.pi / 2)).astype(dtype),
    ]
    found = np.concatenate(parts)
    return found[: len(found) // 16 * 16]


def in_ulps(got: Array, exact: Array) -> Array:
    """Return the error of each result in units in the last place of the exact value."""
    dtype = got.dtype
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(exact), info.tiny).astype(np.longdouble)
        unit = np.exp2(np.floor(np.log2(size)) - info.nmant)
        error = np.abs(got.astype(np.longdouble) - exact.astype(np.longdouble)) / unit
        rounded = exact.astype(dtype)
    same = (got == rounded) | (np.isnan(got) & np.isnan(exact))
    return np.where(same & ~np.isfinite(rounded), 0, np.where(np.isnan(error), np.inf, error))


def exact_values(name: str, x: Array) -> Array:
    wide = (
        np.float64 if x.dtype == np.float32 and name not in ("exp10", "sigmoid") else np.longdouble
    )
    with np.errstate(all="ignore"):
        return REFERENCES.get(name, getattr(np, name, None))(x.astype(wide))  # type: ignore[misc]


def compiled(name: str, dtype: str, lanes: int, target: str) -> Callable[..., list[Array]]:
    return elementwise(lambda x: intrinsic(name, x), [dtype], lanes, target)


def all_of_them(dtype: str, lanes: int, target: str) -> Callable[..., list[Array]]:
    """Return a kernel that applies each function to an array of its own."""
    return elementwise(
        lambda *xs: [intrinsic(name, x) for name, x in zip(BOUNDS, xs, strict=True)],
        [dtype] * len(BOUNDS),
        lanes,
        target,
    )


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_error_bounds(dtype: type[Any], target: str) -> None:
    given = [samples(name, dtype, 4096) for name in BOUNDS]
    results = all_of_them(np.dtype(dtype).name, 8, target)(*given)
    for name, x, got in zip(BOUNDS, given, results, strict=True):
        error = in_ulps(got, exact_values(name, x))
        bound = BOUNDS[name][dtype is np.float64] + (0 if target == "llvm" else WITHOUT_FMA)
        if name == "erf" and dtype is np.float64:
            bound += 0.5  # of the reference, which is a double itself
        worst = int(np.argmax(error))
        assert error[worst] <= bound, f"{name}({x[worst]!r}) = {got[worst]!r}"


def test_scalar_and_vector_calls_agree() -> None:
    given = [samples(name, np.float32, 512) for name in BOUNDS]
    runs = (all_of_them("float32", lanes, "llvm")(*given) for lanes in (16, 1))
    for name, vector, scalar in zip(BOUNDS, *runs, strict=True):
        assert np.array_equal(vector, scalar, equal_nan=True), name


@pytest.mark.parametrize("lanes", [4, 8, 16, 24, 64])
def test_vectors_of_any_length_are_scaled_alike(lanes: int) -> None:
    x = np.resize(samples("exp", np.float32, 512), 1536)
    (vector,) = compiled("exp", "float32", lanes, "llvm")(x)
    (scalar,) = compiled("exp", "float32", 1, "llvm")(x)
    assert np.array_equal(vector, scalar, equal_nan=True)


@pytest.mark.parametrize(
    ("target", "lanes", "scaling"),
    [
        ("llvm -mcpu=skylake-avx512", 16, {"vscalefps": 1}),
        ("llvm -mcpu=skylake-avx512", 64, {"vscalefps": 4}),
        ("llvm -mcpu=skylake-avx512 -vector-width=256", 8, {"vscalefps": 1}),
        ("llvm -mcpu=haswell", 8, {"vpslld": 2, "vpsrld": 1, "vpsubd": 1, "vmulps": 2}),
    ],
)
def test_exp_scales_by_one_instruction_or_six(
    target: str, lanes: int, scaling: dict[str, int]
) -> None:
    func = elementwise_program(lambda x: intrinsic("exp", x), ["float32"], lanes)
    lines = llvm_source(func, target).assembly().splitlines()
    body = [line.split()[0] for line in lines if line.startswith("\tv")]
    names = ("vscalefps", "vpslld", "vpsrad", "vpsrld", "vpsubd", "vpaddd", "vmulps")
    assert {name: body.count(name) for name in names if name in body} == scaling


def test_zeros_keep_their_sign() -> None:
    x = np.array([0.0, -0.0] * 4, np.float32)
    for name in ("tanh", "erf", "sin", "tan", "log1p", "sqrt"):
        (got,) = compiled(name, "float32", 8, "llvm")(x)
        assert np.signbit(got).tolist() == [False, True] * 4, name


@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 0.51), (np.float64, 1.25)])
def test_power(dtype: type[Any], bound: float) -> None:
    rng = np.random.default_rng(1)
    bits = np.uint32 if dtype is np.float32 else np.uint64
    n = 8192
    patterns = rng.integers(0, np.iinfo(bits).max, (2, n), bits).view(dtype)
    special = np.array([*SPECIAL, 1.0], np.float64).astype(dtype)
    x = np.concatenate([
        patterns[0], rng.uniform(0, 3, n).astype(dtype), rng.uniform(0.9, 1.1, n).astype(dtype),
        -rng.uniform(0, 5, n).astype(dtype), np.repeat(special, len(special)),
    ])  # fmt: skip
    y = np.concatenate([
        patterns[1], rng.uniform(-50, 50, n).astype(dtype), rng.uniform(-800, 800, n).astype(dtype),
        rng.integers(-20, 20, n).astype(dtype), np.tile(special, len(special)),
    ])  # fmt: skip
    name = np.dtype(dtype).name
    (got,) = elementwise(lambda a, b: intrinsic("pow", a, b), [name, name], 8)(x, y)
    wide = np.float64 if dtype is np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(wide), y.astype(wide))
    error = in_ulps(got, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= bound, f"pow({x[worst]!r}, {y[worst]!r}) = {got[worst]!r}"
    zero = (exact == 0) & (got == 0)
    assert np.array_equal(np.signbit(got[zero]), np.signbit(exact[zero]))


@pytest.mark.parametrize("name", LIBRARY)
def test_functions_of_the_c_library(name: str) -> None:
    x = np.linspace(-0.9, 0.9, 16)
    x = x + 2 if name == "acosh" else x
    for dtype, lanes in (("float64", 8), ("float32", 4)):
        (got,) = compiled(name, dtype, lanes, "llvm")(x.astype(dtype))
        assert np.allclose(got, exact_values(name, x.astype(dtype)), rtol=1e-6)


def test_functions_of_two_arguments() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-9, 9, 16), rng.uniform(1, 9, 16)
    names = ["atan2", "fmod", "hypot", "copysign", "nextafter"]
    references = [np.arctan2, np.fmod, np.hypot, np.copysign, np.nextafter]
    for dtype in ("float32", "float64"):
        x, y = a.astype(dtype), b.astype(dtype)
        results = elementwise(
            lambda p, q: [intrinsic(name, p, q) for name in names], [dtype, dtype], 8
        )(x, y)
        for name, reference, got in zip(names, references, results, strict=True):
            assert np.allclose(got, reference(x, y), rtol=1e-6), name


def test_integers_pass_through_rounding_and_have_absolute_values() -> None:
    x = np.array([-3, 0, 5, -(2**31)], np.int32)
    floor, size = elementwise(
        lambda v: [intrinsic("floor", v), intrinsic("fabs", v)], ["int32"], 4
    )(x)
    assert floor.tolist() == x.tolist()
    assert size.tolist() == [3, 0, 5, -(2**31)]
    with pytest.raises(TensorIRError, match=r"T\.exp needs floats, but its operand is int32"):
        elementwise(lambda v: intrinsic("exp", v), ["int32"])


@pytest.mark.parametrize("name", [name for name in BOUNDS if name not in ("tan", "sqrt", "rsqrt")])
def test_vector_code_calls_no_scalar_function(name: str) -> None:
    source = f"""
@T.prim_func
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(4):
        for j in T.vectorized(16):
            B[i * 16 + j] = T.{name}(A[i * 16 + j])
"""
    assembly = codegen.build(tensorir.parse(source)).inspect_asm()
    body = assembly[assembly.index("\ntensorir.kernel.f:") : assembly.index("tensorir.entry.f:")]
    called = set(re.findall(r"\tcallq?\t\*?(\S+)", body))
    assert called <= {"tensorir.local.reduce_large.f32"}, called


def test_the_documented_bounds_are_those_tested() -> None:
    table = dict(
        re.findall(r"^\| ([a-z0-9, ]+) \| ([\d.]+ \| [\d.]+) \|$", vector_math.__doc__, re.M)
    )
    documented = {
        name: tuple(float(v) for v in bounds.split(" | "))
        for names, bounds in table.items()
        for name in names.split(", ")
    }
    for name, bounds in BOUNDS.items():
        if name != "sqrt":
            assert documented[name] == bounds, name


def test_constant_arguments_fold() -> None:
    x = np.zeros(8, np.float32)
    (got,) = elementwise(
        lambda v: intrinsic("exp", const(1.0, "float32x8")) + cast("float32x8", v), ["float32"], 8
    )(x)
    assert np.allclose(got, math.e)
