"""Operators of elements: arithmetic, activations, special values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tensorir import IRValueError, relax
from tensorir.relax import op
from tests.operator_cases import Case, check

# ---------------- Operators of elements: arithmetic, comparison, bits and functions of real numbers

A = np.array(
    [[1.5, -2.25, 0.0, np.nan], [-np.inf, 5.5, -7.0, 0.5], [3.0, -0.5, 2.5, 1e10]], "float32"
)
B = np.array(
    [[2.0, -0.75, 3.0, np.nan], [1.0, np.nan, 2.0, -0.5], [-3.0, 0.5, np.inf, 4.0]], "float32"
)
INTS = np.array([[7, -7, 100], [-1, 3, -100]], "int32")
DIVISORS = np.array([[3, 3, -7], [-2, -3, 9]], "int32")
ROW = np.array([2, -3, 5], "int32")
UNSIGNED = np.array([1, 200, 255, 7], "uint8")


def truncated(a: Any, b: Any) -> Any:
    return np.trunc(a / b).astype(a.dtype)


def named(name: str) -> Callable[..., Any]:
    return lambda *args: getattr(op, name)(*args)


def test_arithmetic() -> None:
    check(
        [
            Case(f"{name} float32", named(name), function, A, B)
            for name, function in {
                "add": np.add,
                "subtract": np.subtract,
                "multiply": np.multiply,
                "divide": np.divide,
                "maximum": np.maximum,
                "minimum": np.minimum,
                "mod": np.fmod,
                "floor_mod": np.mod,
                "atan2": np.arctan2,
                "hypot": np.hypot,
                "copysign": np.copysign,
                "log_add_exp": np.logaddexp,
            }.items()
        ]
        + [
            Case(f"{name} int32", named(name), function, INTS, DIVISORS)
            for name, function in {
                "divide": truncated,
                "floor_divide": np.floor_divide,
                "mod": np.fmod,
                "floor_mod": np.mod,
                "maximum": np.maximum,
                "minimum": np.minimum,
            }.items()
        ]
        + [
            Case("stretched", lambda x, y: x * y + 1, lambda x, y: x * y + 1, INTS, ROW),
            Case("column and row", lambda x, y: x - y, np.subtract, INTS[:, :1], ROW),
            Case("any n", lambda x, y: x - y, np.subtract, INTS, ROW, shapes=[("n", 3), (3,)]),
            Case("floor_divide floats", lambda x: x // 2.0, lambda x: x // 2, A),
            Case("power", named("power"), np.power, np.abs(A[2]), B[2]),
            Case("power uint8", named("power"), np.power, UNSIGNED, UNSIGNED % 3),
            Case("number first", lambda x: 1 / x, lambda x: np.float32(1) / x, A),
            Case("square of ints", lambda x: x**2, lambda x: x**2, INTS),
            Case("cube of ints", lambda x: x**3, lambda x: x**3, INTS),
        ]
    )


def test_powers_of_integers_wrap() -> None:
    bases = np.array([3, -2, 0, 1, -1, -1, 10, 7, 2, 5, 0, 2, 3, 3], "int64")
    exponents = np.array([40, 63, 0, -5, -3, 200, 3, -1, 64, 27, 256, 256, 256, 2**40 + 1], "int64")
    expected = [pow(int(b), int(e), 2**64) if e >= 0 else int(b) ** (-int(e)) if abs(b) == 1 else 0
                for b, e in zip(bases, exponents, strict=True)]  # fmt: skip
    wrapped = np.array([(v + 2**63) % 2**64 - 2**63 for v in expected], "int64")
    small = np.array([0, 2, 3, 255], "uint8")
    check(
        [
            Case("power", lambda x, y: x**y, lambda x, y: wrapped, bases, exponents),
            Case("of bytes", lambda x, y: x**y, np.power, small, np.full(4, 128, "uint8")),
        ]
    )


def test_comparison_and_logic() -> None:
    mask = np.array([[True, False, True], [False, False, True]])
    check(
        [
            Case(name, named(name), getattr(np, name), A, B)
            for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
        ]
        + [
            Case(name, named(name), getattr(np, name), mask, mask[:1])
            for name in ("logical_and", "logical_or", "logical_xor")
        ]
        + [
            Case("logical_not", named("logical_not"), np.logical_not, mask),
            Case("where", named("where"), np.where, mask, INTS, ROW),
            Case("where number", lambda m, x: op.where(m, x, 0), lambda m, x: np.where(m, x, 0).astype("int32"), mask, INTS),
        ]
    )  # fmt: skip


def test_bits() -> None:
    amounts = np.array([[1, 2, 0], [31, 5, 3]], "int32")
    check(
        [
            Case(name, named(name), getattr(np, name), INTS, ROW)
            for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
        ]
        + [
            Case("bitwise_not", named("bitwise_not"), np.bitwise_not, UNSIGNED),
            Case("left_shift", named("left_shift"), np.left_shift, INTS, amounts),
            Case("right_shift", named("right_shift"), np.right_shift, INTS, amounts),
            Case("right_shift uint8", named("right_shift"), np.right_shift, UNSIGNED, UNSIGNED % 8),
        ]
    )


def test_functions_of_elements() -> None:
    special = np.array(
        [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 3.7, -3.7, np.inf, -np.inf, np.nan], "float32"
    )
    small = np.array([-0.9, -0.5, -1e-6, 0.0, 1e-6, 0.25, 0.9], "float32")
    large = np.array([-20.0, -3.0, -1.0, 0.0, 1.0, 2.0, 10.0, 30.0], "float32")
    tails = np.array([-np.inf, -9.0, -1.0, 0.0, 0.5, 2.0, 4.5, 9.1, np.inf, np.nan], "float32")
    poles = np.array([-np.inf, -7.5, -2.0, 0.0, 1e-20, 1.9, 8.1, 3e38, np.inf, np.nan], "float32")

    def of_math(function: Any) -> Any:
        return np.vectorize(lambda v: np.float32(function(v)), otypes=["float32"])

    def log_gamma(v: float) -> float:
        return math.inf if np.floor(v) == v <= 0 else math.lgamma(v)

    positive = np.abs(large) + 1
    check(
        [
            Case(name, named(name), getattr(np, name), special)
            for name in ("negative", "abs", "sign", "square", "reciprocal", "ceil", "floor", "round",
                         "trunc", "isnan", "isinf", "isfinite")
        ]
        + [
            Case(name, named(name), getattr(np, numpy_name), values)
            for values, names in {
                "small": (small, "sin cos tan arcsin arccos arctan sinh cosh tanh arctanh arcsinh exp expm1 log1p"),
                "large": (large, "sin cos arctan tanh exp exp2 expm1 arcsinh"),
                "positive": (positive, "log log2 log10 log1p sqrt arccosh"),
            }.values()
            for numpy_name in names.split()
            for name in [numpy_name.replace("arc", "a")]
        ]
        + [
            Case("erf", named("erf"), of_math(math.erf), large),
            Case("erfc", named("erfc"), of_math(math.erfc), tails, atol=0),
            Case("erfc float64", named("erfc"), np.vectorize(math.erfc), tails.astype("float64"), rtol=1e-13, atol=0),
            Case("lgamma", named("lgamma"), of_math(log_gamma), poles),
            Case("lgamma float64", named("lgamma"), np.vectorize(log_gamma), poles.astype("float64"), rtol=1e-14, atol=1e-14),
            Case("rsqrt", named("rsqrt"), lambda x: 1 / np.sqrt(x), positive),
            Case("sigmoid", named("sigmoid"), lambda x: 1 / (1 + np.exp(-x)), large),
            Case("isinf, one sign", lambda x: op.isinf(x, detect_negative=False), np.isposinf, special),
            Case("clip", lambda x: op.clip(x, -1, 1.5), lambda x: np.clip(x, -1, 1.5), special),
            Case("clip uint8", lambda x: op.clip(x, -1, 150), lambda x: np.minimum(x, 150), UNSIGNED),
            Case("clip above", lambda x: op.clip(x, max=0), lambda x: np.minimum(x, 0), INTS),
            Case("negative of ints", named("negative"), np.negative, INTS),
            Case("negative of bytes", named("negative"), np.negative, INTS.astype("int8")),
            Case("negative of unsigned", named("negative"), np.negative, UNSIGNED),
            Case("abs of ints", named("abs"), np.abs, INTS),
            Case("sign of ints", named("sign"), np.sign, INTS),
            Case("sign of unsigned", named("sign"), np.sign, UNSIGNED),
            Case("floor of ints", named("floor"), lambda x: x, INTS),
            Case("astype", lambda x: x.astype("int8"), lambda x: x.astype("int8"), special[:9]),
            Case("to bool", lambda x: x.astype("bool"), lambda x: x.astype("bool"), special),
            Case("to float16", lambda x: x.astype("float16"), lambda x: x.astype("float16"), INTS),
        ]
    )  # fmt: skip


# -------------------------------------------------------------------------------------- Activations

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.standard_normal(60) * 4, [0.0, -0.0, 1e-6, -1e-6, 30, -30, 90, -90]])


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softplus(x: Any) -> Any:
    return np.logaddexp(0, x)


def elu(x: Any, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def gelu(x: Any) -> Any:
    return x * 0.5 * np.array([math.erfc(-v / math.sqrt(2)) for v in x])


def gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x)))


def selu(x: Any) -> Any:
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


REFERENCES: list[tuple[str, dict[str, float], Callable[[Any], Any]]] = [
    ("relu", {}, lambda x: np.maximum(x, 0)),
    ("relu6", {}, lambda x: np.clip(x, 0, 6)),
    ("leakyrelu", {"alpha": 0.2}, lambda x: np.where(x > 0, x, 0.2 * x)),
    ("elu", {"alpha": 0.7}, lambda x: elu(x, 0.7)),
    ("selu", {}, selu),
    ("celu", {"alpha": 2.0}, lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0) / 2))),
    ("gelu", {}, gelu),
    ("gelu_tanh", {}, gelu_tanh),
    ("silu", {}, lambda x: x * sigmoid(x)),
    ("swish", {"alpha": 1.5}, lambda x: x * sigmoid(1.5 * x)),
    ("mish", {}, lambda x: x * np.tanh(softplus(x))),
    ("softplus", {}, softplus),
    ("softplus", {"beta": 0.5}, lambda x: 2 * softplus(0.5 * x)),
    ("log_sigmoid", {}, lambda x: -softplus(-x)),
    ("softsign", {}, lambda x: x / (1 + abs(x))),
    ("hardsigmoid", {}, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    ("hardswish", {}, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    ("hardtanh", {"max_val": 2.0}, lambda x: np.clip(x, -1, 2)),
    ("thresholded_relu", {"alpha": 1.5}, lambda x: np.where(x > 1.5, x, 0)),
    ("threshold", {"bound": 0.5, "value": -2.0}, lambda x: np.where(x > 0.5, x, -2)),
    ("shrink", {"lambd": 1.0, "bias": 0.5},
     lambda x: np.where(x < -1, x + 0.5, np.where(x > 1, x - 0.5, 0))),
    ("hardshrink", {"lambd": 1.0}, lambda x: np.where(abs(x) > 1, x, 0)),
    ("tanhshrink", {}, lambda x: x - np.tanh(x)),
    ("dropout", {}, lambda x: x),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_activations(dtype: str) -> None:
    """float16 is as precise as its last digit: what is in between is float32."""
    tolerance = {"float32": 2e-6, "float16": 1e-3, "float64": 1e-6}[dtype]
    check(
        [
            Case(
                f"{name} {options}",
                lambda x, name=name, options=options: getattr(op.nn, name)(x, **options),
                lambda x, reference=reference: reference(x.astype("float64")).astype(x.dtype),
                X.astype(dtype),
                rtol=tolerance,
                atol=tolerance,
            )
            for name, options, reference in REFERENCES
        ]
    )


def test_nan_stays_where_elements_are_limited() -> None:
    """A model with broken weights has results that show it."""
    x = np.array([np.nan, -1.0, 7.5], "float32")
    limited = {"relu", "relu6", "hardsigmoid", "hardswish", "hardtanh"}
    check(
        [
            Case(
                f"{name} of NaN",
                lambda x, name=name, options=options: getattr(op.nn, name)(x, **options),
                lambda x, reference=reference: reference(x),
                x,
                rtol=1e-6,
            )
            for name, options, reference in REFERENCES
            if name in limited
        ]
    )


def test_activations_with_weights() -> None:
    y = RNG.standard_normal((2, 6, 3, 4)).astype("float32")
    slopes, bias = RNG.standard_normal((2, 6)).astype("float32")
    check(
        [
            Case("prelu", op.nn.prelu, lambda x, a: np.where(x > 0, x, x * a[:, None, None]), y, slopes),
            Case("prelu, stretched", lambda x, a: op.nn.prelu(x, a, axis=None),
                 lambda x, a: np.where(x > 0, x, x * a), y, slopes[:, None, None]),
            Case("prelu, last", lambda x, a: op.nn.prelu(x, a, axis=-1), lambda x, a: np.where(x > 0, x, x * a), y,
                 slopes[:4]),
            Case("glu", lambda x: op.nn.glu(x, 1), lambda x: x[:, :3] * sigmoid(x[:, 3:]), y),
            Case("bias_add", op.nn.bias_add, lambda x, b: x + b[:, None, None], y, bias),
            Case("any sizes", op.nn.gelu_tanh, gelu_tanh, y, shapes=[("n", 6, "h", 4)]),
            Case("integers", op.nn.relu, lambda x: np.maximum(x, 0), np.arange(-3, 3)),
        ]
    )  # fmt: skip


# ---------------- Operators over NaN, infinities, denormal numbers and nothing at all, beside NumPy

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
