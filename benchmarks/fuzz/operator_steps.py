"""Random calls of operators, each with how large its result is and how exact.

A step takes what a graph has computed and returns a call, or None where its operands do not suit.
Steps that would make a value too large or inexact are left out by their bounds: two programs that
only round differently then differ by no more than `Fact.error`, and what may jump (a comparison, a
rounding, the place of a maximum) reads only what has no error at all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.relax import expr as g
from tensorir.relax import op
from tensorir.relax.struct_info import TensorStructInfo

ROUNDING: Final = 1e-6
"""The error of one operation, relative to its largest result: some units of float32."""
LARGEST: Final = 200.0
"""The bound of floating-point elements; integers may be a thousand times as large."""
LEAST_EXACT: Final = 2e-3
"""The largest error."""
LENGTHS: Final = ("h", "m")
"""Names of symbolic sizes from 3 to `LONGEST`; others may be 0."""
LONGEST: Final = 6
WEIGHT: Final = 0.5
"""The bound of weights."""


@dataclass(frozen=True)
class Fact:
    """The largest absolute value of a tensor, and how far a program may be off."""

    bound: float
    error: float = 0.0

    def joined(self, *others: Fact) -> Fact:
        """Return what holds for each of several."""
        facts = (self, *others)
        return Fact(max(f.bound for f in facts), max(f.error for f in facts))


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
        assert self.info.shape is not None
        return self.info.shape

    @property
    def dtype(self) -> str:
        return str(self.info.dtype)

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith("float")

    @property
    def is_exact(self) -> bool:
        """True if every program gives the same."""
        return self.fact.error == 0

    def through(self, slope: float, bound: float, operations: float = 10) -> Fact:
        """Return what is known of a function of the value that is no steeper than `slope`."""
        rounding = operations * ROUNDING * bound if self.is_float else 0.0
        return Fact(bound, slope * self.fact.error + rounding)


Made: TypeAlias = "tuple[g.GraphExpr, Fact] | None"
"""A call, and what is known of its result."""


class Operands:
    """The random choices of one step, and the values that it may take."""

    def __init__(self, rng: random.Random, values: Sequence[Value]) -> None:
        self.rng = rng
        self.values = values

    def weight(self, shape: Sequence[int], dtype: str, low: float = -WEIGHT) -> g.Constant:
        """Return a constant of numbers between `low` and `WEIGHT`."""
        numbers = np.random.default_rng(self.rng.randrange(1 << 30))
        return g.Constant(numbers.uniform(low, WEIGHT, tuple(shape)).astype(dtype))

    def chance(self, share: float) -> bool:
        """Return True with this probability."""
        return self.rng.random() < share

    def call(self, names: Sequence[str], *args: Any, **named: Any) -> g.GraphCall:
        """Return a call of one of several operators."""
        return operator(self.rng.choice(names))(*args, **named)

    def axis(self, x: Value) -> int | None:
        """Return an axis that is never empty, None without any."""
        axes = [k for k, n in enumerate(x.shape) if most(n) is not None]
        return self.rng.choice(axes) if axes else None

    def long_axis(self, x: Value) -> tuple[int, int] | None:
        """Return an axis of two or more elements, and their constant number; None without one."""
        axes = [(k, n.value) for k, n in enumerate(x.shape) if isinstance(n, IntImm)]
        axes = [(k, n) for k, n in axes if n > 1]
        return self.rng.choice(axes) if axes else None

    def like(self, x: Value) -> Value:
        """Return a value of the same shape and dtype, perhaps itself."""
        same = [v for v in self.values if v.dtype == x.dtype and str(v.shape) == str(x.shape)]
        return self.rng.choice(same or [x])

    def broadcast(self, x: Value) -> Value:
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
    """Return a constant extent, or the largest one of a length; None for other sizes."""
    return LONGEST if isinstance(n, Var) and n.name in LENGTHS else extent(n)


def operator(name: str) -> Callable[..., g.GraphCall]:
    """Return the operator of a name such as `nn.relu`."""
    found: Any = op
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def of_floats(step: Step) -> Step:
    """Return a step that takes floating-point numbers only."""

    @wraps(step)
    def checked(given: Operands, x: Value) -> Made:
        return step(given, x) if x.is_float else None

    return checked


def random_step(rng: random.Random) -> Step:
    """Return a step of any family."""
    return rng.choice(rng.choice(FAMILIES))


def random_motif(rng: random.Random) -> list[Step]:
    """Return steps that often follow one another in models, and that passes look for."""
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
COMPARISONS: Final = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


@of_floats
def _smooth(given: Operands, x: Value) -> Made:
    name = given.rng.choice([*SMOOTH])
    slope, top = SMOOTH[name]
    return operator(name)(x.expr), x.through(slope, top or slope * x.fact.bound + 1)


def _exact(given: Operands, x: Value) -> Made:
    if x.dtype == "bool":
        return op.logical_not(x.expr), Fact(1)
    return given.call(EXACT if x.is_float else EXACT[:3], x.expr), x.fact


@of_floats
def _jumping(given: Operands, x: Value) -> Made:
    return (given.call(JUMPING, x.expr), Fact(x.fact.bound + 1)) if x.is_exact else None


@of_floats
def _positive(given: Operands, x: Value) -> Made:
    """Return a function of a number that is at least 1, or an exponential."""
    if x.fact.bound < 3 and given.chance(0.5):
        return op.exp(x.expr), x.through(21, 21)
    inner = op.add(op.abs(x.expr), g.Constant(np.array(1, x.dtype)))
    names = ("log", "sqrt", "rsqrt", "reciprocal", "log2")
    return given.call(names, inner), x.through(2, x.fact.bound + 1, 20)


def _arithmetic(given: Operands, x: Value) -> Made:
    y = given.broadcast(x)
    a, b = x.fact, y.fact
    if x.dtype == "bool":
        return given.call(("logical_and", "logical_or", "logical_xor"), x.expr, y.expr), Fact(1)
    name = given.rng.choice(["add", "subtract", "multiply", "maximum", "minimum"])
    if name in ("maximum", "minimum"):
        fact = a.joined(b)
    elif name == "multiply":
        fact = _product_fact(x, y, 1)
    else:
        fact = Fact(a.bound + b.bound, x.through(1, a.bound + b.bound, 1).error + b.error)
    first, second = (x, y) if given.chance(0.7) else (y, x)
    return operator(name)(first.expr, second.expr), fact


def _product_fact(x: Value, y: Value, count: int) -> Fact:
    """Return what is known of a sum of `count` products of elements."""
    a, b = x.fact, y.fact
    bound = count * a.bound * b.bound
    error = count * (a.bound * b.error + b.bound * a.error)
    return Fact(bound, error + (count * ROUNDING * bound if x.is_float else 0))


@of_floats
def _divide(given: Operands, x: Value) -> Made:
    y = given.broadcast(x)
    below = op.add(op.abs(y.expr), g.Constant(np.array(1, x.dtype)))
    bound = x.fact.bound
    fact = x.through(1, bound, 10 * (1 + y.fact.bound))
    return op.divide(x.expr, below), Fact(bound, fact.error + bound * y.fact.error)


def _compare(given: Operands, x: Value) -> Made:
    y = given.broadcast(x)
    if not x.is_exact or not y.is_exact or x.dtype == "bool":
        return None
    return given.call(COMPARISONS, x.expr, y.expr), Fact(1)


def _where(given: Operands, x: Value) -> Made:
    conditions = [v for v in given.values if v.dtype == "bool" and str(v.shape) == str(x.shape)]
    if conditions:
        condition = given.rng.choice(conditions).expr
    else:
        weight = given.weight([extent(n) or 1 for n in x.shape], "float32")
        condition = g.Constant(np.asarray(weight.data) > 0)
    y = given.broadcast(x)
    return op.where(condition, x.expr, y.expr), x.fact.joined(y.fact)


def _cast(given: Operands, x: Value) -> Made:
    wanted = given.rng.choice(["float32", "float32", "float64", "int32", "int64", "int8", "bool"])
    is_float = wanted.startswith("float")
    if x.is_float and not x.is_exact and not is_float:
        return None
    if wanted == "int8" and x.fact.bound > 100:
        return None
    bound = 1 if wanted == "bool" else x.fact.bound
    operations = 1 if is_float and x.fact.bound > 1 else 0
    return op.astype(x.expr, wanted), x.through(1, bound, operations)


# ------------------------------------------------------------------------- reductions and the like


def _reduce(given: Operands, x: Value) -> Made:
    axes = [k for k, n in enumerate(x.shape) if most(n)]
    if not axes:
        return None
    chosen = sorted(given.rng.sample(axes, given.rng.randint(1, len(axes))))
    count = prod(most(x.shape[k]) or 0 for k in chosen)
    named: dict[str, Any] = {"axis": chosen, "keepdims": given.chance(0.5)}
    bound, choice = x.fact.bound, given.rng.random()
    if x.dtype == "bool":
        return given.call(("any", "all"), x.expr, **named), Fact(1)
    if choice < 0.3:
        return given.call(("max", "min"), x.expr, **named), x.fact
    if choice < 0.4 and x.is_exact:
        return op.argmax(x.expr, axis=chosen[0], keepdims=named["keepdims"]), Fact(10)
    if choice < 0.7 or not x.is_float:
        return op.sum(x.expr, **named), x.through(count, count * bound, count)
    if choice < 0.9:
        return op.mean(x.expr, **named), x.through(1, bound, count)
    return op.variance(x.expr, **named), x.through(8 * bound, 4 * bound * bound, count * count)


def _whole(given: Operands, x: Value) -> Made:
    """Return a scalar of exact values, which an `if` may ask for."""
    if not x.is_exact or x.dtype != "bool":
        return None
    return given.call(("any", "all"), x.expr), Fact(1)


def _cumulative(given: Operands, x: Value) -> Made:
    axis = given.axis(x)
    if axis is None or x.dtype in ("bool", "int8"):
        return None
    count = most(x.shape[axis]) or 1
    fact = x.through(count, count * x.fact.bound, count)
    return op.cumsum(x.expr, axis=axis, exclusive=given.chance(0.3)), fact


@of_floats
def _softmax(given: Operands, x: Value) -> Made:
    axis, bound = given.axis(x), x.fact.bound
    if axis is None:
        return None
    if given.chance(0.3):
        return op.nn.log_softmax(x.expr, axis=axis), x.through(3, 2 * bound + 5)
    return op.nn.softmax(x.expr, axis=axis), x.through(2, 1, 10 * (bound + 1))


@of_floats
def _normalize(given: Operands, x: Value) -> Made:
    """Return a normalization; its epsilon keeps small variances from enlarging errors."""
    if x.info.ndim < 2 or x.fact.bound > 50:
        return None
    last, channels = extent(x.shape[-1]), extent(x.shape[1])
    # Results are below sqrt(count) * WEIGHT + WEIGHT, slopes below bound / epsilon.
    count = prod(most(n) or 1 for n in x.shape[1:])
    error = x.through(16, 160 * x.fact.bound, 1).error
    fact = Fact(count**0.5 * WEIGHT + WEIGHT, error)
    choice = given.rng.random()
    if choice < 0.5:
        if last is None:
            return None
        a, b = (given.weight([last], x.dtype) for _ in range(2))
        if choice < 0.35:
            return op.nn.layer_norm(x.expr, a, b, axes=-1, epsilon=0.5), fact
        return op.nn.rms_norm(x.expr, a, axes=-1, epsilon=0.5), fact
    if channels is None or x.info.ndim < 3 or any(most(n) is None for n in x.shape[2:]):
        return None
    pair = [given.weight([channels], x.dtype) for _ in range(2)]
    named: dict[str, Any] = {"channel_axis": 1, "axes": list(range(2, x.info.ndim))}
    if choice < 0.65:
        groups = given.rng.choice([n for n in (1, 2, 4) if channels % n == 0])
        return op.nn.group_norm(x.expr, *pair, num_groups=groups, **named, epsilon=0.5), fact
    if choice < 0.75:
        return op.nn.instance_norm(x.expr, *pair, **named, epsilon=0.5), fact
    moments = given.weight([channels], x.dtype), given.weight([channels], x.dtype, low=0.3)
    normal = op.nn.batch_norm(x.expr, *pair, *moments, axis=1, epsilon=0.1)
    return g.TupleGetItem(normal, 0), x.through(1, x.fact.bound + 2, 20)


# ----------------------------------------------------------------------------- products and windows


def _weighted(x: Value, count: int) -> Fact:
    """Return what is known of a sum of `count` elements, each times a weight."""
    return x.through(count * WEIGHT, count * x.fact.bound * WEIGHT, count)


@of_floats
def _matmul(given: Operands, x: Value) -> Made:
    inner = extent(x.shape[-1]) if x.info.ndim >= 2 else None
    if inner is None:
        return None
    choice = given.rng.random()
    if choice < 0.3:
        y = given.like(x)
        order = [*range(x.info.ndim - 2), x.info.ndim - 1, x.info.ndim - 2]
        turned = op.permute_dims(y.expr, order)
        return op.matmul(x.expr, turned), _product_fact(x, y, inner)
    outer = given.rng.choice([1, 3, 8])
    fact = _weighted(x, inner)
    if choice < 0.7:
        return op.matmul(x.expr, given.weight([inner, outer], x.dtype)), fact
    weight, bias = given.weight([outer, inner], x.dtype), given.weight([outer], x.dtype)
    return op.linear(x.expr, weight, bias), Fact(fact.bound + WEIGHT, fact.error + ROUNDING)


@of_floats
def _attention(given: Operands, x: Value) -> Made:
    inner = extent(x.shape[2]) if x.info.ndim == 3 and x.fact.bound <= 10 else None
    if not inner or inner % 2 or most(x.shape[1]) is None:
        return None
    y = given.like(x)
    heads = [op.reshape(v.expr, (*x.shape[:2], 2, inner // 2)) for v in (x, y, x)]
    made = op.reshape(op.nn.attention(*heads), x.shape)
    scores = _product_fact(x, y, inner)
    error = scores.error + 10 * inner * ROUNDING * (scores.bound + 1)
    return made, Fact(x.fact.bound, x.fact.error + 2 * x.fact.bound * error)


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
    rng, rank = given.rng, len(extents)
    groups = rng.choice([n for n in (1, 1, 2, channels) if channels % n == 0])
    taps = [rng.choice([1, 3]) if n >= 3 else 1 for n in extents]
    per_group = channels // groups
    out = groups * rng.choice([1, 2, 4]) if groups < 4 else groups
    shape, suffix = [out, per_group, *taps], ""
    if given.chance(0.15):
        shape, suffix = [channels, out // groups, *taps], "_transpose"
    made = operator(f"nn.conv{rank}d{suffix}")(
        x.expr,
        given.weight(shape, x.dtype),
        groups=groups,
        padding=rng.choice([0, 1]) if min(taps) > 1 else 0,
        strides=rng.choice([1, 1, 2]),
    )
    fact = _weighted(x, per_group * prod(taps))
    if given.chance(0.4):  # what follows a convolution in most models
        weights = [given.weight([out], x.dtype, low) for low in (-WEIGHT, -WEIGHT, -WEIGHT, 0.3)]
        result = g.TupleGetItem(op.nn.batch_norm(made, *weights, axis=1, epsilon=0.1), 0)
        fact = Fact(4 * fact.bound + 3, 20 * (fact.error + ROUNDING))
        return (op.nn.relu(result) if given.chance(0.7) else result), fact
    if given.chance(0.5):
        bias = given.weight([out, *[1] * rank], x.dtype)
        return op.add(made, bias), Fact(fact.bound + WEIGHT, fact.error + ROUNDING)
    return made, fact


def _pooling(given: Operands, x: Value) -> Made:
    found = _spatial(x)
    if found is None:
        return None
    rank, rng = len(found[1]), given.rng
    kind = rng.choice(["avg", "max"])
    fact = x.through(1, x.fact.bound, 10 if kind == "avg" else 0)
    if given.chance(0.3):
        sizes = [1, 2] if all((extent(n) or 1) % 2 == 0 for n in x.shape[2:]) else [1]
        made = operator(f"nn.adaptive_{kind}_pool{rank}d")
        return made(x.expr, rng.choice(sizes)), fact
    if min(found[1]) < 3:
        return None
    named: dict[str, Any] = {"strides": rng.choice([1, 2]), "padding": rng.choice([0, 1])}
    named["ceil_mode"] = given.chance(0.3)
    if kind == "avg":
        named["count_include_pad"] = given.chance(0.5)
    return operator(f"nn.{kind}_pool{rank}d")(x.expr, rng.choice([2, 3]), **named), fact


def _resize(given: Operands, x: Value) -> Made:
    found = _spatial(x)
    if found is None or len(found[1]) != 2 or any(extent(n) is None for n in x.shape[2:]):
        return None
    method = given.rng.choice(["nearest_neighbor", "linear"])
    size = [n * 2 for n in found[1]]
    made = op.image.resize(
        x.expr, size=size, axes=(2, 3), method=method,
        coordinate_transformation_mode="asymmetric",
    )  # fmt: skip
    return made, x.through(1, x.fact.bound)


# ---------------------------------------------------------------------------- moves of elements


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
        return (op.squeeze(x.expr, [rng.choice(ones)]), x.fact) if ones else None
    else:
        even = [k for k, n in enumerate(shape) if (extent(n) or 1) % 2 == 0]
        if not even:
            return None
        k = rng.choice(even)
        half, two = IntImm("int64", (extent(shape[k]) or 0) // 2), IntImm("int64", 2)
        shape[k : k + 1] = [half, two] if choice == 4 else [two, half]
    return op.reshape(x.expr, shape), x.fact


def _permute(given: Operands, x: Value) -> Made:
    axes = given.rng.sample(range(x.info.ndim), x.info.ndim)
    return op.permute_dims(x.expr, axes), x.fact


def _join(given: Operands, x: Value) -> Made:
    others = [given.like(x) for _ in range(given.rng.randint(1, 2))]
    parts, fact = [x.expr, *(v.expr for v in others)], x.fact.joined(*(v.fact for v in others))
    if not x.shape or given.chance(0.2):
        return op.stack(parts, axis=0), fact
    return op.concat(parts, axis=given.rng.randrange(x.info.ndim)), fact


def _split(given: Operands, x: Value) -> Made:
    found = given.long_axis(x)
    if found is None:
        return None
    axis, size = found
    at: int | list[int] = [given.rng.randint(1, size - 1)]
    if size % 2 == 0 and given.chance(0.6):
        at = 2
    return op.split(x.expr, at, axis=axis), x.fact


def _slice(given: Operands, x: Value) -> Made:
    found = given.long_axis(x)
    if found is None:
        return None
    axis, size = found
    begin, end, step = given.rng.choice(
        [(0, size, 2), (1, size, 1), (0, size - 1, 1), (-1, -size - 1, -1), (size - 1, 0, -2)]
    )
    return op.strided_slice(x.expr, [axis], [begin], [end], [step]), x.fact


def _pad(given: Operands, x: Value) -> Made:
    if x.dtype == "bool" or not x.shape:
        return None
    width: list[int] = []
    for n in x.shape:
        is_padded = (extent(n) or 0) > 1 and given.chance(0.5)
        width += [given.rng.randint(0, is_padded), given.rng.randint(0, is_padded)]
    mode = given.rng.choice(["constant", "constant", "edge", "reflect"])
    return op.nn.pad(x.expr, width, mode), x.fact


def _take(given: Operands, x: Value) -> Made:
    found = given.long_axis(x)
    if found is None:
        return None
    axis, size = found
    places = [given.rng.randrange(size) for _ in range(given.rng.randint(1, 4))]
    indices = g.Constant(np.array(places, given.rng.choice(["int32", "int64"])))
    return op.take(x.expr, indices, axis=axis), x.fact


def _repeat(given: Operands, x: Value) -> Made:
    if not x.shape:
        return None
    rng, axis = given.rng, given.rng.randrange(x.info.ndim)
    choices: list[Callable[[], g.GraphExpr]] = [
        lambda: op.tile(x.expr, [rng.randint(1, 2) for _ in x.shape]),
        lambda: op.repeat(x.expr, 2, axis=axis),
        lambda: op.flip(x.expr, axis),
        lambda: op.broadcast_to(x.expr, [rng.randint(1, 2), *x.shape]),
    ]
    if most(x.shape[axis]) is not None:
        choices.append(lambda: op.roll(x.expr, rng.randint(-2, 2), axis))
    if x.info.ndim > 1 and x.dtype != "bool":
        choices.append(lambda: given.call(("tril", "triu"), x.expr, rng.randint(-1, 1)))
    return rng.choice(choices)(), x.fact


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
