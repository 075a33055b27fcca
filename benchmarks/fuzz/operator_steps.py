"""Random calls of operators, each with how large its result is and how exact.

A step takes what a graph has computed and gives a call, or None where its operands do not suit.
Steps that make large or inexact what they are given are left out by their bounds: two programs that
only round differently then differ by no more than `Fact.error`, and what may jump (a comparison, a
rounding, the place of a maximum) reads only what has no error at all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.relax import expr as g
from tensorir.relax import op
from tensorir.relax.struct_info import TensorStructInfo

ROUNDING: Final = 1e-6
"""The error of one operation, relative to what it may give: some units of float32."""

LARGEST: Final = 200.0
"""What no floating-point element exceeds; integers may be a thousand times as large."""

LEAST_EXACT: Final = 2e-3
"""The largest error."""

LENGTHS: Final = ("h", "m")
"""Names of symbolic sizes that are never 0, but from 3 to `LONGEST`."""

LONGEST: Final = 6

WEIGHT: Final = 0.5
"""What no weight exceeds."""


@dataclass(frozen=True)
class Fact:
    """What is known of a tensor: the largest absolute value, and how far a program may be off."""

    bound: float
    error: float = 0.0

    def joined(self, other: Fact) -> Fact:
        """Return what is known of something that is one of two."""
        return Fact(max(self.bound, other.bound), max(self.error, other.error))


@dataclass(frozen=True)
class Value:
    """An expression and what is known of it."""

    expr: g.GraphExpr
    fact: Fact

    @property
    def info(self) -> TensorStructInfo:
        """The struct info, which is of a tensor of known shape and dtype."""
        info = self.expr.struct_info
        assert isinstance(info, TensorStructInfo)
        return info

    @property
    def shape(self) -> tuple[PrimExpr, ...]:
        """The shape."""
        assert self.info.shape is not None
        return self.info.shape

    @property
    def dtype(self) -> str:
        """The dtype."""
        return str(self.info.dtype)

    @property
    def is_float(self) -> bool:
        """Whether elements are floating-point numbers."""
        return self.dtype.startswith("float")

    @property
    def is_exact(self) -> bool:
        """Whether every program gives the same."""
        return self.fact.error == 0


Made: TypeAlias = "tuple[g.GraphExpr, Fact] | None"
"""A call, and what is known of its result."""


class Operands:
    """The random choices of one step, and the values that it may take."""

    def __init__(self, rng: random.Random, values: Sequence[Value]) -> None:
        self.rng = rng
        self.values = values

    def array(self, shape: Sequence[int], dtype: str = "float32", low: float = -WEIGHT) -> Any:
        """Return an array whose elements are between `low` and `WEIGHT`."""
        numbers = np.random.default_rng(self.rng.randrange(1 << 30))
        return numbers.uniform(low, WEIGHT, tuple(shape)).astype(dtype)

    def weight(self, shape: Sequence[int], dtype: str = "float32") -> g.Constant:
        """Return a constant of small numbers."""
        return g.Constant(self.array(shape, dtype))

    def positive(self, shape: Sequence[int], dtype: str = "float32") -> g.Constant:
        """Return a constant of numbers from 0.3 to `WEIGHT`."""
        return g.Constant(self.array(shape, dtype, low=0.3))

    def chance(self, share: float) -> bool:
        """Say yes in this share of cases."""
        return self.rng.random() < share

    def axis(self, x: Value) -> int | None:
        """Return an axis that is never empty, None without any."""
        axes = [k for k, n in enumerate(x.shape) if most(n) is not None]
        return self.rng.choice(axes) if axes else None

    def like(self, x: Value) -> Value:
        """Return a value of the same shape and dtype, perhaps itself."""
        same = [v for v in self.values if v.dtype == x.dtype and str(v.shape) == str(x.shape)]
        return self.rng.choice(same or [x])

    def beside(self, x: Value) -> Value:
        """Return a value that broadcasts to the shape of x, often a constant."""
        rng, choice = self.rng, self.rng.random()
        if choice < 0.45:
            return self.like(x)
        constant = [n.value if isinstance(n, IntImm) else 1 for n in x.shape]
        if choice < 0.6 or not constant:
            shape: list[int] = []
        elif choice < 0.8:
            shape = constant[rng.randrange(len(constant)) :]
        else:
            shape = [n if rng.random() < 0.5 else 1 for n in constant]
        if x.is_float:
            return Value(self.weight(shape, x.dtype), Fact(WEIGHT))
        numbers = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 2, shape)
        return Value(g.Constant(np.asarray(numbers).astype(x.dtype)), Fact(1.0))


Step: TypeAlias = Callable[[Operands, Value], Made]


def extent(n: PrimExpr) -> int | None:
    """Return a constant extent, None for a symbolic one."""
    return n.value if isinstance(n, IntImm) else None


def most(n: PrimExpr) -> int | None:
    """Return a constant extent, or the most that one has which is a length; None for others."""
    return LONGEST if isinstance(n, Var) and n.name in LENGTHS else extent(n)


def random_step(rng: random.Random) -> Step:
    """Return a step of any family."""
    return rng.choice(rng.choice(FAMILIES))


def random_motif(rng: random.Random) -> list[Step]:
    """Return steps that are often one after the other in models, and that passes look for."""
    return [rng.choice(steps) for steps in rng.choice(MOTIFS)]


# ------------------------------------------------------------------------------------ element-wise

SMOOTH: Final[dict[str, tuple[float, float]]] = {
    # The steepest slope, and the largest value if not that of the argument and 1.
    "tanh": (1, 1), "sigmoid": (1, 1), "erf": (1.2, 1), "sin": (1, 1), "cos": (1, 1),
    "atan": (1, 1.6), "asinh": (1, 0), "nn.gelu": (1.2, 0), "nn.gelu_tanh": (1.2, 0),
    "nn.silu": (1.1, 0), "nn.mish": (1.1, 0), "nn.elu": (1, 0), "nn.selu": (1.8, 0),
    "nn.softplus": (1, 0), "nn.softsign": (1, 1), "nn.hardswish": (1.5, 0),
    "nn.hardsigmoid": (1, 1), "nn.leakyrelu": (1, 0), "nn.tanhshrink": (1, 0),
    "nn.log_sigmoid": (1, 0), "nn.celu": (1, 0),
}  # fmt: skip
EXACT: Final = ("nn.relu", "abs", "negative", "nn.relu6", "nn.hardtanh")
JUMPING: Final = ("floor", "ceil", "round", "sign", "trunc", "nn.hardshrink")


def _operator(name: str) -> Callable[..., g.GraphCall]:
    family, _, last = name.rpartition(".")
    return getattr(getattr(op, family) if family else op, last)  # type: ignore[no-any-return]


def _smooth(given: Operands, x: Value) -> Made:
    if not x.is_float:
        return None
    name = given.rng.choice([*SMOOTH])
    slope, top = SMOOTH[name]
    bound = top or slope * x.fact.bound + 1
    return _operator(name)(x.expr), Fact(bound, slope * x.fact.error + 10 * ROUNDING * bound)


def _exact(given: Operands, x: Value) -> Made:
    if x.dtype == "bool":
        return op.logical_not(x.expr), Fact(1)
    names = EXACT if x.is_float else ("nn.relu", "negative", "abs")
    return _operator(given.rng.choice(names))(x.expr), x.fact


def _jumping(given: Operands, x: Value) -> Made:
    if not x.is_float or not x.is_exact:
        return None
    return _operator(given.rng.choice(JUMPING))(x.expr), Fact(x.fact.bound + 1)


def _positive(given: Operands, x: Value) -> Made:
    """Return a function of a number that is at least 1, or an exponential."""
    if not x.is_float:
        return None
    bound = x.fact.bound
    if bound < 3 and given.chance(0.5):
        return op.exp(x.expr), Fact(21, 21 * x.fact.error + 210 * ROUNDING)
    inner = op.add(op.abs(x.expr), g.Constant(np.array(1, x.dtype)))
    error = x.fact.error + 10 * ROUNDING * (bound + 1)
    return _operator(given.rng.choice(["log", "sqrt", "rsqrt", "reciprocal", "log2"]))(inner), Fact(
        bound + 1, 2 * error
    )


def _arithmetic(given: Operands, x: Value) -> Made:
    if x.dtype == "bool":
        name = given.rng.choice(["logical_and", "logical_or", "logical_xor"])
        return _operator(name)(x.expr, given.beside(x).expr), Fact(1)
    y = given.beside(x)
    name = given.rng.choice(["add", "subtract", "multiply", "maximum", "minimum"])
    a, b = x.fact, y.fact
    if name in ("maximum", "minimum"):
        fact = a.joined(b)
    else:
        multiplies = name == "multiply"
        bound = a.bound * b.bound if multiplies else a.bound + b.bound
        error = a.bound * b.error + b.bound * a.error if multiplies else a.error + b.error
        fact = Fact(bound, error + (ROUNDING * bound if x.is_float else 0))
    first, second = (x, y) if given.chance(0.7) else (y, x)
    return _operator(name)(first.expr, second.expr), fact


def _divide(given: Operands, x: Value) -> Made:
    if not x.is_float:
        return None
    y = given.beside(x)
    below = op.add(op.abs(y.expr), g.Constant(np.array(1, x.dtype)))
    bound = x.fact.bound
    error = x.fact.error + bound * y.fact.error + 10 * ROUNDING * bound * (1 + y.fact.bound)
    return op.divide(x.expr, below), Fact(bound, error)


def _compare(given: Operands, x: Value) -> Made:
    y = given.beside(x)
    if not x.is_exact or not y.is_exact or x.dtype == "bool":
        return None
    names = ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]
    return _operator(given.rng.choice(names))(x.expr, y.expr), Fact(1)


def _where(given: Operands, x: Value) -> Made:
    conditions = [v for v in given.values if v.dtype == "bool" and str(v.shape) == str(x.shape)]
    if conditions:
        condition = given.rng.choice(conditions).expr
    else:
        constant = [extent(n) or 1 for n in x.shape]
        condition = g.Constant(given.array(constant) > 0)
    y = given.beside(x)
    return op.where(condition, x.expr, y.expr), x.fact.joined(y.fact)


def _cast(given: Operands, x: Value) -> Made:
    wanted = given.rng.choice(["float32", "float32", "float64", "int32", "int64", "int8", "bool"])
    if x.is_float and not x.is_exact and not wanted.startswith("float"):
        return None
    if wanted == "int8" and x.fact.bound > 100:
        return None
    fact = Fact(1) if wanted == "bool" else Fact(x.fact.bound, x.fact.error)
    if wanted.startswith("float") and x.fact.bound > 1:
        fact = Fact(fact.bound, fact.error + (ROUNDING * fact.bound if x.is_float else 0))
    return op.astype(x.expr, wanted), fact


# ------------------------------------------------------------------------- reductions and the like


def _reduce(given: Operands, x: Value) -> Made:
    axes = [k for k, n in enumerate(x.shape) if most(n) is not None]
    if not axes:
        return None
    chosen = sorted(given.rng.sample(axes, given.rng.randint(1, len(axes))))
    count = prod(most(x.shape[k]) or 0 for k in chosen)
    if not count:
        return None
    named: dict[str, Any] = {"axis": chosen, "keepdims": given.chance(0.5)}
    bound, error = x.fact.bound, x.fact.error
    if x.dtype == "bool":
        return _operator(given.rng.choice(["any", "all"]))(x.expr, **named), Fact(1)
    choice = given.rng.random()
    if choice < 0.3:
        return _operator(given.rng.choice(["max", "min"]))(x.expr, **named), x.fact
    if choice < 0.4 and x.is_exact:
        return op.argmax(x.expr, axis=chosen[0], keepdims=named["keepdims"]), Fact(10)
    rounding = ROUNDING * count * bound if x.is_float else 0
    if choice < 0.7 or not x.is_float:
        return op.sum(x.expr, **named), Fact(count * bound, count * error + count * rounding)
    if choice < 0.9:
        return op.mean(x.expr, **named), Fact(bound, error + rounding)
    squared = 4 * bound * bound
    return op.variance(x.expr, **named), Fact(squared, 8 * bound * error + count * 4 * rounding)


def _whole(given: Operands, x: Value) -> Made:
    """Return a scalar of exact values, which an `if` may ask for."""
    if not x.is_exact or x.dtype != "bool":
        return None
    return _operator(given.rng.choice(["any", "all"]))(x.expr), Fact(1)


def _cumulative(given: Operands, x: Value) -> Made:
    axis = given.axis(x)
    if axis is None or x.dtype in ("bool", "int8"):
        return None
    count = most(x.shape[axis]) or 1
    rounding = ROUNDING * count * x.fact.bound if x.is_float else 0
    fact = Fact(count * x.fact.bound, count * (x.fact.error + rounding))
    return op.cumsum(x.expr, axis=axis, exclusive=given.chance(0.3)), fact


def _softmax(given: Operands, x: Value) -> Made:
    axis = given.axis(x)
    if axis is None or not x.is_float:
        return None
    bound, error = x.fact.bound, x.fact.error
    if given.chance(0.3):
        fact = Fact(2 * bound + 5, 3 * error + 10 * ROUNDING * (bound + 1))
        return op.nn.log_softmax(x.expr, axis=axis), fact
    return op.nn.softmax(x.expr, axis=axis), Fact(1, 2 * error + 10 * ROUNDING * (bound + 1))


def _normalize(given: Operands, x: Value) -> Made:
    """Return a normalization; its epsilon keeps small variances from enlarging errors."""
    if not x.is_float or x.info.ndim < 2:
        return None
    last, channels = extent(x.shape[-1]), extent(x.shape[1])
    bound = x.fact.bound
    # Results are below sqrt(count) * WEIGHT + WEIGHT, slopes below bound / epsilon.
    count = prod(most(n) or 1 for n in x.shape[1:])
    fact = Fact(count**0.5 * WEIGHT + WEIGHT, 8 * (x.fact.error + 10 * ROUNDING * bound) * 2)
    if bound > 50:
        return None
    choice = given.rng.random()
    if choice < 0.35:
        if last is None:
            return None
        weights = [given.weight([last], x.dtype), given.weight([last], x.dtype)]
        return op.nn.layer_norm(x.expr, *weights, axes=-1, epsilon=0.5), fact
    if choice < 0.5:
        if last is None:
            return None
        return op.nn.rms_norm(x.expr, given.weight([last], x.dtype), axes=-1, epsilon=0.5), fact
    if channels is None or x.info.ndim < 3 or any(most(n) is None for n in x.shape[2:]):
        return None
    pair = [given.weight([channels], x.dtype), given.weight([channels], x.dtype)]
    if choice < 0.65:
        groups = given.rng.choice([n for n in (1, 2, 4) if channels % n == 0])
        axes = list(range(2, x.info.ndim))
        return op.nn.group_norm(
            x.expr, *pair, num_groups=groups, channel_axis=1, axes=axes, epsilon=0.5
        ), fact
    if choice < 0.75:
        axes = list(range(2, x.info.ndim))
        return op.nn.instance_norm(x.expr, *pair, channel_axis=1, axes=axes, epsilon=0.5), fact
    moments = [given.weight([channels], x.dtype), given.positive([channels], x.dtype)]
    normal = op.nn.batch_norm(x.expr, *pair, *moments, axis=1, epsilon=0.1)
    largest = bound + 2
    error = x.fact.error + 20 * ROUNDING * largest
    return g.TupleGetItem(normal, 0), Fact(largest, error)


# ----------------------------------------------------------------------------- products and windows


def _weighted(x: Value, count: int, given: Operands) -> Fact:
    """Return what is known of a sum of `count` elements, each times a weight."""
    bound = count * x.fact.bound * WEIGHT
    return Fact(bound, count * x.fact.error * WEIGHT + count * ROUNDING * bound)


def _matmul(given: Operands, x: Value) -> Made:
    if not x.is_float or x.info.ndim < 2:
        return None
    inner = extent(x.shape[-1])
    choice = given.rng.random()
    if choice < 0.3 and x.info.ndim >= 2 and inner is not None:
        y = given.like(x)
        order = [*range(x.info.ndim - 2), x.info.ndim - 1, x.info.ndim - 2]
        bound = inner * x.fact.bound * y.fact.bound
        error = inner * (x.fact.bound * y.fact.error + y.fact.bound * x.fact.error)
        turned = op.permute_dims(y.expr, order)
        return op.matmul(x.expr, turned), Fact(bound, error + inner * ROUNDING * bound)
    if inner is None:
        return None
    outer = given.rng.choice([1, 3, 8])
    fact = _weighted(x, inner, given)
    if choice < 0.7:
        return op.matmul(x.expr, given.weight([inner, outer], x.dtype)), fact
    weight, bias = given.weight([outer, inner], x.dtype), given.weight([outer], x.dtype)
    made = op.linear(x.expr, weight, bias)
    return made, Fact(fact.bound + WEIGHT, fact.error + ROUNDING)


def _attention(given: Operands, x: Value) -> Made:
    if not x.is_float or x.info.ndim != 3 or x.fact.bound > 10:
        return None
    rows, inner = x.shape[1], extent(x.shape[2])
    if most(rows) is None or inner is None or inner % 2:
        return None
    y = given.like(x)
    heads = [op.reshape(v.expr, (x.shape[0], rows, 2, inner // 2)) for v in (x, y, x)]
    made = op.reshape(op.nn.attention(*heads), x.shape)
    scores = inner * x.fact.bound * y.fact.bound
    error = inner * (x.fact.bound * y.fact.error + y.fact.bound * x.fact.error)
    error = x.fact.error + 2 * x.fact.bound * (error + 10 * inner * ROUNDING * (scores + 1))
    return made, Fact(x.fact.bound, error)


def _spatial(x: Value) -> tuple[int, list[int]] | None:
    """Return channels and least extents of an image or a signal; None for anything else."""
    if not x.is_float or x.info.ndim not in (3, 4):
        return None
    channels = extent(x.shape[1])
    extents = [3 if extent(n) is None and most(n) else extent(n) or 0 for n in x.shape[2:]]
    return None if not channels or min(extents) < 1 else (channels, extents)


def _convolution(given: Operands, x: Value) -> Made:
    found = _spatial(x)
    if found is None or prod(found[1]) > 100:
        return None
    channels, extents = found
    rng = given.rng
    rank = len(extents)
    groups = rng.choice([n for n in (1, 1, 2, channels) if channels % n == 0])
    taps = [rng.choice([1, 3]) if n >= 3 else 1 for n in extents]
    per_group = channels // groups
    out = groups * rng.choice([1, 2, 4]) if groups < 4 else groups
    transposed = given.chance(0.15)
    padding = rng.choice([0, 1]) if min(taps) > 1 else 0
    named: dict[str, Any] = {"groups": groups, "padding": padding}
    named["strides"] = rng.choice([1, 1, 2])
    shape = [channels, out // groups, *taps] if transposed else [out, per_group, *taps]
    name = f"nn.conv{rank}d" + ("_transpose" if transposed else "")
    made = _operator(name)(x.expr, given.weight(shape, x.dtype), **named)
    fact = _weighted(x, per_group * prod(taps), given)
    if given.chance(0.4):
        return _block_of_model(given, made, out, x.dtype), Fact(
            4 * fact.bound + 3, 20 * (fact.error + ROUNDING)
        )
    if given.chance(0.5):
        bias = given.weight([out, *[1] * rank], x.dtype)
        return op.add(made, bias), Fact(fact.bound + WEIGHT, fact.error + ROUNDING)
    return made, fact


def _block_of_model(given: Operands, x: g.GraphExpr, channels: int, dtype: str) -> g.GraphExpr:
    """Return what follows a convolution in most models: a batch norm, and often a relu."""
    weights = [given.weight([channels], dtype) for _ in range(3)]
    normal = op.nn.batch_norm(x, *weights, given.positive([channels], dtype), axis=1, epsilon=0.1)
    result = g.TupleGetItem(normal, 0)
    return op.nn.relu(result) if given.chance(0.7) else result


def _pooling(given: Operands, x: Value) -> Made:
    found = _spatial(x)
    if found is None:
        return None
    extents = found[1]
    rank, rng = len(extents), given.rng
    mean = given.chance(0.5)
    fact = Fact(x.fact.bound, x.fact.error + (10 * ROUNDING * x.fact.bound if mean else 0))
    if given.chance(0.3):
        size = rng.choice(
            [1, *([2] if all((extent(n) or 1) % 2 == 0 for n in x.shape[2:]) else [])]
        )
        name = f"nn.adaptive_{'avg' if mean else 'max'}_pool{rank}d"
        return _operator(name)(x.expr, size), fact
    if min(extents) < 3:
        return None
    size = rng.choice([2, 3])
    named: dict[str, Any] = {"strides": rng.choice([1, 2]), "padding": rng.choice([0, 1])}
    named["ceil_mode"] = given.chance(0.3)
    if mean:
        named["count_include_pad"] = given.chance(0.5)
    return _operator(f"nn.{'avg' if mean else 'max'}_pool{rank}d")(x.expr, size, **named), fact


def _resize(given: Operands, x: Value) -> Made:
    found = _spatial(x)
    if found is None or len(found[1]) != 2 or any(extent(n) is None for n in x.shape[2:]):
        return None
    method = given.rng.choice(["nearest_neighbor", "linear"])
    size = [n * 2 for n in found[1]]
    fact = Fact(x.fact.bound, x.fact.error + 10 * ROUNDING * x.fact.bound)
    made = op.image.resize(
        x.expr, size=size, axes=(2, 3), method=method,
        coordinate_transformation_mode="asymmetric",
    )  # fmt: skip
    return made, fact


# ---------------------------------------------------------------------------------- what only moves


def _reshape(given: Operands, x: Value) -> Made:
    rng, shape = given.rng, list(x.shape)
    choice = rng.randrange(6)
    if choice == 0 and len(shape) > 1:
        k = rng.randrange(len(shape) - 1)
        shape[k : k + 2] = [shape[k] * shape[k + 1]]
    elif choice == 1:
        return op.flatten(x.expr), x.fact
    elif choice == 2:
        return op.expand_dims(x.expr, rng.randint(0, len(shape))), x.fact
    elif choice == 3:
        ones = [k for k, n in enumerate(shape) if extent(n) == 1]
        if not ones:
            return None
        return op.squeeze(x.expr, [rng.choice(ones)]), x.fact
    else:
        even = [k for k, n in enumerate(shape) if (extent(n) or 1) % 2 == 0]
        if not even:
            return None
        k = rng.choice(even)
        half = IntImm("int64", (extent(shape[k]) or 0) // 2)
        two = IntImm("int64", 2)
        shape[k : k + 1] = [half, two] if choice == 4 else [two, half]
    return op.reshape(x.expr, shape), x.fact


def _permute(given: Operands, x: Value) -> Made:
    axes = list(range(x.info.ndim))
    given.rng.shuffle(axes)
    return op.permute_dims(x.expr, axes), x.fact


def _join(given: Operands, x: Value) -> Made:
    others = [given.like(x) for _ in range(given.rng.randint(1, 2))]
    fact = x.fact
    for other in others:
        fact = fact.joined(other.fact)
    if not x.shape or given.chance(0.2):
        return op.stack([x.expr, *(v.expr for v in others)], axis=0), fact
    axis = given.rng.randrange(x.info.ndim)
    return op.concat([x.expr, *(v.expr for v in others)], axis=axis), fact


def _split(given: Operands, x: Value) -> Made:
    axis = given.axis(x)
    size = None if axis is None else extent(x.shape[axis])
    if axis is None or size is None or size < 2:
        return None
    at: int | list[int] = [given.rng.randint(1, size - 1)]
    if size % 2 == 0 and given.chance(0.6):
        at = 2
    return op.split(x.expr, at, axis=axis), x.fact


def _slice(given: Operands, x: Value) -> Made:
    axis = given.axis(x)
    size = None if axis is None else extent(x.shape[axis])
    if axis is None or size is None or size < 2:
        return None
    begin, end, step = given.rng.choice(
        [(0, size, 2), (1, size, 1), (0, size - 1, 1), (-1, -size - 1, -1), (size - 1, 0, -2)]
    )
    return op.strided_slice(x.expr, [axis], [begin], [end], [step]), x.fact


def _pad(given: Operands, x: Value) -> Made:
    if x.dtype == "bool" or not x.shape:
        return None
    mode = given.rng.choice(["constant", "constant", "edge", "reflect"])
    width: list[int] = []
    for n in x.shape:
        size = extent(n)
        padded = size is not None and size > 1 and given.chance(0.5)
        width += [given.rng.randint(0, 1), given.rng.randint(0, 1)] if padded else [0, 0]
    return op.nn.pad(x.expr, width, mode), x.fact


def _take(given: Operands, x: Value) -> Made:
    axis = given.axis(x)
    size = None if axis is None else extent(x.shape[axis])
    if axis is None or not size:
        return None
    places = [given.rng.randrange(size) for _ in range(given.rng.randint(1, 4))]
    indices = g.Constant(np.array(places, given.rng.choice(["int32", "int64"])))
    return op.take(x.expr, indices, axis=axis), x.fact


def _repeat(given: Operands, x: Value) -> Made:
    if not x.shape:
        return None
    rng, ndim = given.rng, x.info.ndim
    choice = rng.randrange(6)
    if choice == 0:
        return op.tile(x.expr, [rng.randint(1, 2) for _ in x.shape]), x.fact
    if choice == 1:
        return op.repeat(x.expr, 2, axis=rng.randrange(ndim)), x.fact
    if choice == 2:
        return op.flip(x.expr, rng.randrange(ndim)), x.fact
    if choice == 3:
        axis = given.axis(x)
        return None if axis is None else (op.roll(x.expr, rng.randint(-2, 2), axis), x.fact)
    if choice == 4:
        return op.broadcast_to(x.expr, [rng.randint(1, 2), *x.shape]), x.fact
    if ndim < 2 or x.dtype == "bool":
        return None
    return (op.tril if given.chance(0.5) else op.triu)(x.expr, rng.randint(-1, 1)), x.fact


ELEMENTS: Final[list[Step]] = [
    _smooth, _exact, _jumping, _positive, _arithmetic, _arithmetic, _divide, _compare, _where,
    _cast,
]  # fmt: skip
REDUCTIONS: Final[list[Step]] = [_reduce, _reduce, _whole, _cumulative, _softmax, _normalize]
PRODUCTS: Final[list[Step]] = [_matmul, _attention, _convolution, _convolution, _pooling, _resize,
                               _normalize]  # fmt: skip
MOVES: Final[list[Step]] = [
    _reshape, _reshape, _permute, _join, _split, _slice, _pad, _take, _repeat,
]  # fmt: skip
FAMILIES: Final = [ELEMENTS, ELEMENTS, REDUCTIONS, PRODUCTS, PRODUCTS, MOVES]
_ELEMENT: Final[list[Step]] = [_smooth, _exact, _arithmetic, _arithmetic]
_PRODUCT: Final[list[Step]] = [_matmul, _convolution]
MOTIFS: Final[list[list[list[Step]]]] = [
    [[_permute], [_permute]],
    [[_permute], _ELEMENT, _ELEMENT, [_permute]],
    [[_reshape], _ELEMENT, [_reshape]],
    [[_permute], [_reshape], [_permute], [_matmul]],
    [[_matmul], [_reshape], _ELEMENT, [_permute], [_matmul]],
    [[_attention], _ELEMENT, [_normalize], [_matmul]],
    [[_convolution], _ELEMENT, [_convolution], [_arithmetic], [_pooling]],
    [[_convolution], [_pooling, _resize, _softmax, _pad, _join, _split, _reduce], [_convolution]],
    [_PRODUCT, _ELEMENT, [_reduce], [_arithmetic]],
    [_ELEMENT, [_softmax, _normalize], _ELEMENT],
    [[_split], _ELEMENT, [_join], [_slice]],
    [[_pad, _take, _slice, _repeat], _PRODUCT],
]
