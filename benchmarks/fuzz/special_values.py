"""Random calls of operators over special values and empty axes, with NumPy's or torch's results.

Elements are NaN, infinities, zeros of both signs, denormal and very large numbers among plain ones.
Any axis may be empty. What NumPy or torch refuses is left out. Takes the package torch.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import codegen
from benchmarks.fuzz.campaign import Fuzzer, Note
from benchmarks.fuzz.operators import TARGET, scheduled
from tensorir import relax
from tensorir.relax import op
from tensorir.transform import LegalizeOps

CALLS: Final = 20
"""The calls of one case."""
PLAIN: Final = (1.0, -2.0, 0.5, 3.0, -0.75, 2.0, -1.0)
SPECIAL: Final = (np.nan, np.inf, -np.inf, 0.0, -0.0)
SMALL: Final = {"float16": 6e-8, "float32": 1e-45, "float64": 5e-324}
"""The least positive number of each dtype."""
TOLERANCE: Final = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-9}


@dataclass(frozen=True)
class Case:
    """A call of an operator for arrays, and what it gives."""

    name: str
    call: Callable[..., Any]
    inputs: Sequence[Any]
    expected: Any
    """An array, or a tuple of arrays."""
    rtol: float
    atol: float
    signed: bool = False
    """True if the signs of zeros are compared."""

    def compare(self, result: Any) -> None:
        """Raise AssertionError where a result differs."""
        whole = isinstance(self.expected, tuple)
        wanted = self.expected if whole else (self.expected,)
        for array, other in zip(result if whole else (result,), wanted, strict=True):
            found = array.numpy()
            assert found.dtype == other.dtype, f"dtype {found.dtype}, not {other.dtype}"
            assert found.shape == other.shape, f"shape {found.shape}, not {other.shape}"
            np.testing.assert_allclose(found, other, rtol=self.rtol, atol=self.atol)
            if self.signed:
                zero = other == 0
                np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(other[zero]))


class _Maker:
    """Makes the arrays and attributes of one case."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.dtype = rng.choice(("float32", "float32", "float64", "float16"))
        self.share = rng.choice((0.0, 0.1, 0.3, 0.6))
        """The fraction of special elements."""

    def shape(self, least: int = 0, most: int = 4) -> list[int]:
        """Return a shape; one axis of several may be empty."""
        rng = self.rng
        shape = [rng.choice((1, 2, 3, 4, 5, 9, 17)) for _ in range(rng.randint(least, most))]
        while np.prod(shape) > 3000:
            shape[shape.index(max(shape))] = 1
        if shape and rng.random() < 0.15:
            shape[rng.randrange(len(shape))] = 0
        return shape

    def array(self, shape: Sequence[int], *, huge: bool = False, plain: bool = False) -> Any:
        """Return an array with special values, unless it is `plain`; with large ones if `huge`."""
        rng = self.rng
        limits = np.finfo(self.dtype)
        small, least = SMALL[self.dtype], float(limits.tiny)
        special = [*SPECIAL, small, -small, least, -least / 2, 3 * small]
        if huge:
            special += [float(limits.max), -float(limits.max), 88.0, -104.0, 11.0, 710.0, 1e4]
        share = 0.0 if plain else self.share
        made = [
            rng.choice(special) if rng.random() < share else rng.choice(PLAIN)
            for _ in range(int(np.prod(shape)))
        ]
        with np.errstate(all="ignore"):
            return np.array(made, self.dtype).reshape(shape)

    def case(
        self,
        name: str,
        call: Callable[..., Any],
        reference: Callable[..., Any],
        *inputs: Any,
        exact: bool = False,
        signed: bool = False,
        wide: bool = True,
    ) -> Case | None:
        """Return a case; None where the reference refuses it.

        The reference gets arrays of float64, and its result is rounded, unless it is not `wide`.
        """
        given = [x.astype("float64") if wide and _is_float(x) else x.copy() for x in inputs]
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = reference(*given)
                whole = isinstance(found, (tuple, list))
                parts = [np.asarray(part) for part in (found if whole else [found])]
                if wide:
                    parts = [x.astype(self.dtype) if _is_float(x) else x for x in parts]
        except (ValueError, RuntimeError, IndexError):
            return None
        lossy = 0.0 if exact else TOLERANCE[self.dtype]
        return Case(
            f"{name} of {', '.join(f'{x.dtype}{list(x.shape)}' for x in inputs)}",
            call,
            inputs,
            tuple(parts) if whole else parts[0],
            lossy,
            lossy,
            signed,
        )


def _is_float(x: Any) -> bool:
    return x.dtype.kind == "f"


def _torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of torch as one of arrays."""
    import torch  # noqa: PLC0415 - an optional package

    def run(*arrays: Any) -> Any:
        found = function(*(torch.from_numpy(np.array(x, order="C")) for x in arrays))
        if isinstance(found, (tuple, list)):
            return tuple(x.numpy() for x in found)
        return found.numpy()

    return run


def _elementwise() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return references of functions of one argument: those that are exact, and the others."""
    import torch  # noqa: PLC0415 - an optional package
    from torch.nn import functional as f  # noqa: PLC0415

    exact = {
        "abs": np.abs, "negative": np.negative, "sign": np.sign, "floor": np.floor,
        "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "square": np.square,
        "sqrt": np.sqrt, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
        "nn.relu": _torch(f.relu), "nn.relu6": _torch(f.relu6), "nn.hardtanh": _torch(f.hardtanh),
        "nn.hardshrink": _torch(f.hardshrink),
    }  # fmt: skip
    lossy = {
        **{name: getattr(np, name) for name in (
            "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh",
            "cosh", "tanh", "reciprocal",
        )},
        **{f"a{name}": getattr(np, f"arc{name}") for name in (
            "sin", "cos", "tan", "sinh", "cosh", "tanh",
        )},
        **{name: _torch(getattr(torch, name)) for name in ("erf", "sigmoid", "rsqrt")},
        **{f"nn.{name}": _torch(getattr(f, name)) for name in (
            "silu", "mish", "elu", "selu", "celu", "softplus", "softsign", "hardswish",
            "hardsigmoid", "tanhshrink",
        )},
        "nn.log_sigmoid": _torch(f.logsigmoid),
        "nn.leakyrelu": _torch(f.leaky_relu),
        # That of torch gives NaN for infinity.
        "nn.gelu": _torch(lambda x: x * (0.5 + 0.5 * torch.erf(x / 2**0.5))),
        "nn.gelu_tanh": _torch(lambda x: f.gelu(x, approximate="tanh")),
    }  # fmt: skip
    return exact, lossy


def _operator(name: str) -> Any:
    found: Any = op
    for part in name.split("."):
        found = getattr(found, part)
    return found


SIGNED: Final = ("abs", "negative", "floor", "ceil", "trunc", "round", "square", "sqrt", "divide",
                 "multiply", "copysign", "add", "subtract")  # fmt: skip
"""Functions whose zeros have a sign that IEEE 754 defines."""


def _unary(m: _Maker) -> Case | None:
    exact, lossy = _elementwise()
    name = m.rng.choice([*exact, *lossy])
    x = m.array(m.shape(), huge=True)
    reference = {**exact, **lossy}[name]
    return m.case(name, _operator(name), reference, x, exact=name in exact, signed=name in SIGNED)


def _binary(m: _Maker) -> Case | None:
    rng = m.rng
    exact = {
        "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
        "maximum": np.maximum, "minimum": np.minimum, "copysign": np.copysign, "less": np.less,
        "less_equal": np.less_equal, "greater": np.greater, "equal": np.equal, "mod": np.fmod,
        "greater_equal": np.greater_equal, "not_equal": np.not_equal, "floor_mod": np.remainder,
        "floor_divide": np.floor_divide,
    }  # fmt: skip
    lossy = {"power": np.power, "atan2": np.arctan2, "hypot": np.hypot, "log_add_exp": np.logaddexp}
    name = rng.choice([*exact, *lossy])
    first = m.shape()
    second = [1 if rng.random() < 0.3 else n for n in first[rng.randint(0, len(first)) :]]
    shapes = [first, second] if rng.random() < 0.5 else [second, first]
    arrays = [m.array(shape, huge=True) for shape in shapes]
    return m.case(
        name,
        _operator(name),
        {**exact, **lossy}[name],
        *arrays,
        exact=name in exact,
        signed=name in SIGNED,
        wide=name in lossy,
    )


def _axes(m: _Maker, x: Any, many: bool = True) -> Any:
    if not x.ndim or m.rng.random() < 0.2:
        return None
    if not many:
        return m.rng.randrange(-x.ndim, x.ndim)
    return tuple(sorted(m.rng.sample(range(x.ndim), m.rng.randint(1, x.ndim))))


def _reduction(m: _Maker) -> Case | None:
    import torch  # noqa: PLC0415 - an optional package

    rng, x = m.rng, m.array(m.shape(1))
    keep = rng.random() < 0.5
    axes = _axes(m, x)
    every = tuple(range(x.ndim)) if axes is None else axes
    name = rng.choice(
        ("sum", "mean", "prod", "max", "min", "any", "all", "std", "variance", "logsumexp", "norm",
         "sum_of_squares", "argmax", "argmin")
    )  # fmt: skip
    named: dict[str, Any] = {"axis": axes, "keepdims": keep}
    if name.startswith("arg"):
        axis = _axes(m, x, many=False)

        def place(v: Any) -> Any:
            return getattr(np, name)(v, axis, keepdims=keep)

        return m.case(
            f"{name} axis={axis}", lambda v: _operator(name)(v, axis=axis, keepdims=keep), place, x
        )
    references: dict[str, Callable[..., Any]] = {
        "variance": lambda v: v.var(axes, keepdims=keep),
        "logsumexp": _torch(lambda v: torch.logsumexp(v, every, keep)),
        "sum_of_squares": lambda v: (v * v).sum(axes, keepdims=keep),
    }
    if name == "norm":
        ord_ = rng.choice((1.0, 2.0, 3.0, np.inf, -np.inf))
        named["ord"] = ord_
        references[name] = _torch(lambda v: torch.linalg.vector_norm(v, ord_, every, keep))
    reference = references.get(name, lambda v: getattr(v, name)(axes, keepdims=keep))
    return m.case(f"{name} {named}", lambda v: _operator(name)(v, **named), reference, x)


def _along(m: _Maker) -> Case | None:
    """Return a case of an operator along one axis that keeps the shape."""
    import torch  # noqa: PLC0415 - an optional package
    from torch.nn import functional as f  # noqa: PLC0415

    rng, x = m.rng, m.array(m.shape(1))
    axis = rng.randrange(-x.ndim, x.ndim)
    down = rng.random() < 0.5
    k = rng.randint(1, max(x.shape[axis], 1))
    table: dict[str, tuple[Any, Any]] = {
        "softmax": (lambda v: op.nn.softmax(v, axis=axis), _torch(lambda v: f.softmax(v, axis))),
        "log_softmax": (
            lambda v: op.nn.log_softmax(v, axis=axis),
            _torch(lambda v: f.log_softmax(v, axis)),
        ),
        "cumsum": (lambda v: op.cumsum(v, axis=axis), lambda v: v.cumsum(axis)),
        "cumprod": (lambda v: op.cumprod(v, axis=axis), lambda v: v.cumprod(axis)),
        "sort": (
            lambda v: op.sort(v, axis=axis, descending=down),
            _torch(lambda v: torch.sort(v, dim=axis, descending=down, stable=True)[0]),
        ),
        "argsort": (
            lambda v: op.argsort(v, axis=axis, descending=down, dtype="int64"),
            _torch(lambda v: torch.sort(v, dim=axis, descending=down, stable=True)[1]),
        ),
        "topk": (
            lambda v: op.topk(v, k, axis=axis, largest=down, ret_type="values"),
            _torch(lambda v: torch.topk(v, k, axis, down)[0]),
        ),
        "median": (
            lambda v: op.median(v, axis=axis),
            _torch(lambda v: torch.median(v, axis)[0]),
        ),
        "glu": (lambda v: op.nn.glu(v, axis=axis), _torch(lambda v: f.glu(v, axis))),
    }
    name = rng.choice([*table])
    return m.case(f"{name} axis={axis} {down} {k}", *table[name], x)


def _normalized(m: _Maker) -> Case | None:
    from torch.nn import functional as f  # noqa: PLC0415 - an optional package

    rng, x = m.rng, m.array(m.shape(2))
    last, channels = x.shape[-1], x.shape[1]
    rows = [m.array([last], plain=True) for _ in range(2)]
    pair = [m.array([channels], plain=True) for _ in range(2)]
    positive = np.abs(m.array([channels], plain=True))
    groups = rng.choice([n for n in (1, 2, 3, 4) if channels % n == 0])
    inner = list(range(2, x.ndim))
    table: dict[str, tuple[Any, ...]] = {
        "layer_norm": (
            lambda *v: op.nn.layer_norm(*v, axes=-1),
            _torch(lambda v, a, b: f.layer_norm(v, [last], a, b)),
            x, *rows,
        ),
        "rms_norm": (
            lambda *v: op.nn.rms_norm(*v, axes=-1, epsilon=1e-5),
            _torch(lambda v, a: f.rms_norm(v, [last], a, 1e-5)),
            x, rows[0],
        ),
        "group_norm": (
            lambda *v: op.nn.group_norm(*v, num_groups=groups, channel_axis=1, axes=inner),
            _torch(lambda v, a, b: f.group_norm(v, groups, a, b)),
            x, *pair,
        ),
        "batch_norm": (
            lambda *v: op.nn.batch_norm(*v, axis=1)[0],
            _torch(lambda v, a, b, mean, var: f.batch_norm(v, mean, var, a, b)),
            x, *pair, pair[0], positive,
        ),
    }  # fmt: skip
    name = rng.choice([*table])
    return m.case(f"{name} groups={groups}", *table[name])


def _pooled(m: _Maker) -> Case | None:
    from torch.nn import functional as f  # noqa: PLC0415 - an optional package

    rng, rank = m.rng, m.rng.randint(1, 3)
    x = m.array(
        [rng.choice((1, 2, 2, 0)), rng.randint(1, 3), *(rng.randint(1, 7) for _ in range(rank))]
    )
    size = [rng.randint(1, 3) for _ in range(rank)]
    stride = [rng.randint(1, 3) for _ in range(rank)]
    padding = [rng.randint(0, n // 2) for n in size]
    dilation = [rng.randint(1, 2) for _ in range(rank)]
    ceil, count = rng.random() < 0.3, rng.random() < 0.5
    output = [rng.randint(1, 4) for _ in range(rank)]
    kind = rng.choice(("max", "max", "avg", "adaptive_max", "adaptive_avg"))
    name = f"{kind}_pool{rank}d"
    theirs = getattr(f, name)
    ours = _operator(f"nn.{name}")
    if kind.startswith("adaptive"):
        return m.case(
            f"{name} {output}", lambda v: ours(v, output), _torch(lambda v: theirs(v, output)), x
        )
    around = [*padding, *padding]
    if kind == "avg":
        return m.case(
            f"{name} {size} {stride} {padding} ceil={ceil} count={count}",
            lambda v: ours(v, size, stride, around, ceil_mode=ceil, count_include_pad=count),
            _torch(lambda v: theirs(v, size, stride, padding, ceil, count)),
            x,
        )
    return m.case(
        f"{name} {size} {stride} {padding} {dilation} ceil={ceil}",
        lambda v: ours(v, size, stride, around, dilation, ceil_mode=ceil),
        _torch(lambda v: theirs(v, size, stride, padding, dilation, ceil)),
        x,
    )


def _product(m: _Maker) -> Case | None:
    from torch.nn import functional as f  # noqa: PLC0415 - an optional package

    rng = m.rng
    n, k, j = (rng.choice((0, 1, 2, 5, 8, 17)) for _ in range(3))
    if rng.random() < 0.5:
        batch = rng.choice(((), (2,), (0,), (3, 1)))
        return m.case("matmul", op.matmul, np.matmul, m.array([*batch, n, k]), m.array([k, j]))
    rank, groups = rng.randint(1, 3), rng.choice((1, 1, 2, 3))
    inner, outer = groups * rng.randint(1, 3), groups * rng.randint(1, 3)
    size = [rng.randint(1, 3) for _ in range(rank)]
    stride, padding = rng.randint(1, 2), rng.randint(0, 2)
    x = m.array([rng.choice((0, 1, 2)), inner, *(rng.randint(1, 6) for _ in range(rank))])
    w = m.array([outer, inner // groups, *size], plain=True)
    name = f"conv{rank}d"
    return m.case(
        f"{name} {stride} {padding} groups={groups}",
        lambda v, u: _operator(f"nn.{name}")(v, u, strides=stride, padding=padding, groups=groups),
        _torch(lambda v, u: getattr(f, name)(v, u, None, stride, padding, 1, groups)),
        x,
        w,
    )


def _moved(m: _Maker) -> Case | None:
    import torch  # noqa: PLC0415 - an optional package

    rng, x = m.rng, m.array(m.shape(1))
    axis = rng.randrange(x.ndim)
    other = list(x.shape)
    other[axis] = rng.choice((0, 1, 3))
    low, high = rng.choice((-1.0, 0.0, -np.inf)), rng.choice((1.0, 0.5, np.inf))
    places = (
        [rng.randrange(x.shape[axis]) for _ in range(rng.randint(0, 4))] if x.shape[axis] else []
    )
    k, width = rng.randint(-2, 2), [rng.randint(0, 2) for _ in range(2 * x.ndim)]
    step = rng.choice((1, 2, -1))
    mask = np.array([rng.random() < 0.5 for _ in range(x.size)], bool).reshape(x.shape)
    dtype = rng.choice(("float16", "float32", "float64", "bool"))
    cut = (slice(None),) * axis + (slice(None, None, step),)
    begin, end = (0, 100) if step > 0 else (-1, -100)
    table: dict[str, tuple[Any, ...]] = {
        "concat": (
            lambda *v: op.concat(v, axis=axis), lambda *v: np.concatenate(v, axis),
            x, m.array(other),
        ),
        "clip": (lambda v: op.clip(v, low, high), lambda v: v.clip(low, high), x),
        "take": (
            lambda v, i: op.take(v, i, axis=axis), lambda v, i: v.take(i, axis),
            x, np.array(places, "int64"),
        ),
        "tril": (lambda v: op.tril(v, k), lambda v: np.tril(v, k), x),
        "triu": (lambda v: op.triu(v, k), lambda v: np.triu(v, k), x),
        "pad": (
            lambda v: op.nn.pad(v, width),
            lambda v: np.pad(v, list(zip(width[::2], width[1::2], strict=True))), x,
        ),
        "roll": (lambda v: op.roll(v, k, axis), lambda v: np.roll(v, k, axis), x),
        "flip": (lambda v: op.flip(v, axis), lambda v: np.flip(v, axis), x),
        "repeat": (lambda v: op.repeat(v, 2, axis=axis), lambda v: np.repeat(v, 2, axis), x),
        "strided_slice": (
            lambda v: op.strided_slice(v, [axis], [begin], [end], [step]), lambda v: v[cut], x
        ),
        "where": (op.where, np.where, mask, x, m.array(x.shape)),
        "masked_fill": (
            lambda v, i: op.masked_fill(v, i, 2.0), lambda v, i: np.where(i, 2.0, v), x, mask
        ),
        "bucketize": (
            op.bucketize, _torch(torch.bucketize), x, np.array([-1.0, 0.0, 1.0, 2.0], m.dtype)
        ),
        "astype": (lambda v: op.astype(v, dtype), lambda v: v.astype(dtype), x),
    }  # fmt: skip
    name = rng.choice([*table])
    if len(x.shape) < 2 and name in ("tril", "triu"):
        return None
    call, reference, *inputs = table[name]
    wide = name == "bucketize"
    return m.case(f"{name} axis={axis}", call, reference, *inputs, exact=True, wide=wide)


FAMILIES: Final = (
    _unary, _unary, _binary, _reduction, _reduction, _along, _normalized, _pooled, _product, _moved
)  # fmt: skip


def special_cases(seed: int, count: int) -> list[Case]:
    """Return so many random cases."""
    rng = random.Random(seed)
    cases: list[Case] = []
    while len(cases) < count:
        case = rng.choice(FAMILIES)(_Maker(rng))
        if case is not None:
            cases.append(case)
    return cases


def check_special(seed: int) -> None:
    """Call operators for special values; AssertionError names the wrong ones."""
    cases = special_cases(seed, CALLS)
    builder = relax.BlockBuilder()
    for k, case in enumerate(cases):
        params = [
            relax.Var(f"x{n}", relax.TensorStructInfo(x.shape, str(x.dtype)))
            for n, x in enumerate(case.inputs)
        ]
        with builder.function(f"case{k}", params):
            with builder.dataflow():
                result = builder.emit_output(case.call(*params))
            builder.emit_func_output(result)
    mod = LegalizeOps()(builder.get())
    if seed % 4 == 3:
        mod = scheduled(mod)
    executable = codegen.vm_build(mod, TARGET, default_schedules=False, guard_pages=True)
    machine = codegen.VirtualMachine(executable, codegen.cpu())
    wrong = []
    for k, case in enumerate(cases):
        try:
            case.compare(machine[f"case{k}"](*case.inputs))
        except AssertionError as error:
            lines = " ".join(str(error).split())
            wrong.append(f"{case.name}: {lines[:300]} for {case.inputs[:1]}"[:700])
    assert not wrong, "; ".join(wrong)


class SpecialValues(Fuzzer):
    """Operators called for special values and empty axes."""

    batch = 3

    def check(self, case: int, note: Note) -> Mapping[str, int]:
        check_special(case)
        return {"calls": CALLS}
