"""Every operation over every dtype at its edges, through everything that gives it a meaning.

`tensorir.semantics` says what comes out; constant folding, the simplifier, the interpreter and
compiled code (on scalars and on vectors) are compared with it bit for bit, except that a NaN is a
NaN.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from kernels import Array, elementwise_program, outputs_of
from test_vector_math import BOUNDS, SPECIAL, WITHOUT_FMA

import codegen
from tensorir.arith import Analyzer
from tensorir.errors import IRValueError
from tensorir.interp import interpret
from tensorir.nodes import expr as e
from tensorir.nodes import ops
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import PrimExpr, integer_limits
from tensorir.nodes.float_format import FORMATS
from tensorir.nodes.intrin import Op
from tensorir.semantics import convert, evaluate, rounding, to_bits
from tensorir.semantics.floats import nearest

INTEGERS = [
    DataType(name)
    for name in ("bool", *(f"{s}int{bits}" for bits in (8, 16, 32, 64) for s in ("", "u")))
]
FLOATS = [DataType(name) for name in ("float16", "bfloat16", "float32", "float64")]
LANES = [1, 8]
TARGETS = {1: ["llvm"], 8: ["llvm -mcpu=x86-64", "llvm"]}
"""By lanes: with the instructions that every CPU has, and with those of this CPU."""

Build = Callable[..., PrimExpr]


def intrinsic(name: str) -> Build:
    return lambda *args: ops.intrinsic(name, *args)


ARITHMETIC = {e.Add: ops.add, e.Sub: ops.sub, e.Mul: ops.mul, e.Min: ops.min_, e.Max: ops.max_}
COMPARISONS = {
    kind: (lambda a, b, kind=kind: ops.compare(kind, a, b))
    for kind in (e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE)
}
DIVISIONS = {
    e.Div: ops.div,
    e.FloorDiv: ops.floordiv,
    e.Mod: ops.truncmod,
    e.FloorMod: ops.floormod,
}
FLOAT_DIVISIONS = {kind: kind for kind in (e.Div, e.Mod, e.FloorDiv, e.FloorMod)}
BITWISE = {
    name: getattr(ops, name)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")
}
ROUNDINGS = ("floor", "ceil", "trunc", "round", "nearbyint")


# ------------------------------------------------------------------------------------------ values


@cache
def edges(dtype: DataType) -> tuple[Any, ...]:
    """Return the values of a type at which operations change their behaviour."""
    if dtype.is_bool:
        return (False, True)
    if dtype.is_integral:
        low, high = integer_limits(dtype)
        bits = dtype.bits
        found = {0, 1, 2, 3, 7, -1, -2, -3, -7, bits - 1, bits, bits + 1, low, low + 1, high}
        found |= {high - 1, low // 2, high // 2 + 1, high // 3}
        return tuple(sorted(v for v in found if low <= v <= high))
    precision, last_place, largest = FORMATS[dtype]
    tiny = math.ldexp(1.0, last_place)
    normal = math.ldexp(1.0, last_place + precision - 1)
    step = 2.0 ** (1 - precision)
    positive = [0.0, 1.0, 1.5, 2.5, 3.0, 1 + step, 1 - step / 2, 1 + step * 3, 2.0**precision]
    positive += [2.0**precision + 2, tiny, normal, normal - tiny, largest, largest / 2, 0.1, 0.5]
    positive += [math.inf, normal * 1.5]
    near = rounding(dtype)
    return (*(near(s * v) for v in positive for s in (1, -1)), math.nan)


@cache
def inputs_of_casts(dtype: DataType) -> tuple[Any, ...]:
    """Return edges, and values at the edges of other types and between their values."""
    if dtype.is_integral:
        low, high = integer_limits(dtype)
        other = [(1 << k) + d for k in (7, 8, 11, 24, 31, 32, 53, 61, 63) for d in (-1, 0, 1, 3)]
        ties = [(1 << 60) + (1 << p) + d for p in (52, 36, 7) for d in (-1, 0, 1)]
        exact = {s * v for v in (*other, *ties, 65504, 65519, 65520) for s in (1, -1)}
        return edges(dtype) + tuple(v for v in sorted(exact) if low <= v <= high)
    numbers = [
        127.5,
        128.0,
        128.5,
        129.0,
        255.5,
        255.99,
        256.0,
        32767.5,
        65504.0,
        65519.99,
        65520.0,
    ]
    numbers += [3e9, 2.0**31, 2.0**31 - 1, 2.0**32, 2.0**63, 2.0**64, 1e30, 1e39, 0.99, 1e-46]
    numbers += [1 + t for p in (8, 11, 24) for t in (2.0**-p, 2.0**-p * 3, 2.0**-p + 2.0**-40)]
    numbers += [v * (1 + d) for v in (2.0**-25, 2.0**-134, 2.0**-150) for d in (0, 1e-12, 0.5)]
    near = rounding(dtype)
    return edges(dtype) + tuple(near(s * v) for v in numbers for s in (1, -1))


def array(values: Sequence[Any], dtype: DataType) -> Array:
    if dtype == "bfloat16":
        return np.array([to_bits(v, dtype) for v in values], np.uint16)
    return np.array(values, dtype.to_numpy())


def comparable(values: Sequence[Any], dtype: DataType) -> list[Any]:
    """Return the bits of values; a NaN is a NaN."""
    if dtype.is_integral:
        return [int(v) for v in values]
    return ["nan" if math.isnan(v) else hex(to_bits(v, dtype)) for v in values]


def bits_of(made: Array, dtype: DataType) -> list[Any]:
    if dtype == "bfloat16":
        singles = (made.astype(np.uint32) << 16).view(np.float32)
        return comparable(singles.tolist(), dtype)
    return comparable(made.tolist(), dtype)


def padded(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows repeated to a multiple of all lanes."""
    return [*rows, *[rows[0]] * (-len(rows) % max(LANES))]


def run_everywhere(
    builders: dict[Any, Build],
    dtypes: Sequence[DataType],
    rows: Sequence[tuple[Any, ...]],
) -> Iterator[tuple[str, Any, DataType, list[Any]]]:
    """Yield what interpreter and compiled code make of operations: who, operation, type, bits."""
    arrays = [array(column, t) for column, t in zip(zip(*rows, strict=True), dtypes, strict=True)]
    for lanes in LANES:
        made: list[PrimExpr] = []

        def make(*operands: PrimExpr, made: list[PrimExpr] = made) -> list[PrimExpr]:
            made.extend(build(*operands) for build in builders.values())
            return made

        func = elementwise_program(make, [str(t) for t in dtypes], lanes)
        runs = {target: codegen.build(func, target)["f"] for target in TARGETS[lanes]}
        for who, run in {"interpreter": partial(interpret, func), **runs}.items():
            outputs = outputs_of(func, arrays)
            run(*arrays, *outputs)
            for op, node, out in zip(builders, made, outputs, strict=True):
                yield (
                    f"{who}, {lanes} lane(s)",
                    op,
                    node.dtype.element,
                    bits_of(out, node.dtype.element),
                )


def check_everywhere(
    builders: dict[Any, Build],
    dtypes: Sequence[DataType],
    rows: Sequence[tuple[Any, ...]],
    reference: Callable[..., Any],
) -> None:
    rows = padded(rows)
    wanted: dict[Any, list[Any]] = {}
    for who, op, dtype, got in run_everywhere(builders, dtypes, rows):
        if op not in wanted:
            wanted[op] = comparable([reference(op, *row) for row in rows], dtype)
        wrong = [(row, g, w) for row, g, w in zip(rows, got, wanted[op], strict=True) if g != w]
        assert not wrong, f"{who}: {op} of {dtypes[0]} (values, got, wanted): {wrong[:5]}"


def a_third(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return random.Random(0).sample(list(rows), len(rows) // 3 + 1)


def check_folding(
    builders: dict[Any, Build], dtype: DataType, rows: Sequence[tuple[Any, ...]]
) -> None:
    """Compare what smart constructors make of a third of the immediates."""
    for (op, build), row in itertools.product(builders.items(), a_third(rows)):
        immediates = [ops.const(v, dtype) for v in row]
        if refused(op, dtype, row):
            with pytest.raises(IRValueError):
                build(*immediates)
            continue
        folded = build(*immediates)
        assert isinstance(folded, (e.IntImm, e.FloatImm)), f"{op} of {row} in {dtype} is {folded}"
        got, wanted = ops.value_of(folded), evaluate(op, dtype, *row)
        assert comparable([got], folded.dtype) == comparable([wanted], folded.dtype), (op, row)


def check_simplifier(
    builders: dict[Any, Build], dtype: DataType, rows: Sequence[tuple[Any, ...]]
) -> None:
    """Compare what the simplifier makes of a third of the immediates, as far as it is one."""
    for op, row in itertools.product(builders, a_third(rows)):
        if refused(op, dtype, row):
            continue
        immediates = [ops.const(v, dtype) for v in row]
        node = e.Call(dtype, Op.get(op), immediates) if isinstance(op, str) else op(*immediates)
        made = Analyzer().simplify(node)
        if isinstance(made, (e.IntImm, e.FloatImm)):
            got, wanted = ops.value_of(made), evaluate(op, dtype, *row)
            assert comparable([got], made.dtype) == comparable([wanted], made.dtype), (op, row)


def refused(op: Any, dtype: DataType, row: tuple[Any, ...]) -> bool:
    if op in DIVISIONS:
        return dtype.is_integral and row[1] == 0
    return str(op).startswith("shift") and not 0 <= row[1] < dtype.bits


# ------------------------------------------------------------------------------------- operations


@pytest.mark.parametrize("dtype", INTEGERS)
def test_binary_operations_of_integers(dtype: DataType) -> None:
    pairs = list(itertools.product(edges(dtype), repeat=2))
    builders = {**ARITHMETIC, **COMPARISONS, **BITWISE}
    check_everywhere(builders, [dtype, dtype], pairs, lambda op, a, b: evaluate(op, dtype, a, b))
    check_folding({**builders, **DIVISIONS}, dtype, pairs)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_in_the_simplifier(dtype: DataType) -> None:
    pairs = list(itertools.product(edges(dtype), repeat=2))
    check_simplifier({**ARITHMETIC, **COMPARISONS, **BITWISE, **DIVISIONS}, dtype, pairs)


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_in_the_simplifier(dtype: DataType) -> None:
    pairs = list(itertools.product(edges(dtype), repeat=2))
    check_simplifier({**ARITHMETIC, **COMPARISONS, **FLOAT_DIVISIONS}, dtype, pairs)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_divisions_of_integers(dtype: DataType) -> None:
    pairs = [(a, b) for a, b in itertools.product(edges(dtype), repeat=2) if b]
    check_everywhere(DIVISIONS, [dtype, dtype], pairs, lambda op, a, b: evaluate(op, dtype, a, b))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_division_by_zero_gives_something(dtype: DataType) -> None:
    for lanes in LANES:
        func = elementwise_program(
            lambda a, b: [build(a, b) for build in DIVISIONS.values()], [dtype, dtype], lanes
        )
        arrays = [array((*edges(dtype),) * 8, dtype), array([0] * 8 * len(edges(dtype)), dtype)]
        codegen.build(func)["f"](*arrays, *outputs_of(func, arrays))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_operations_of_one_integer(dtype: DataType) -> None:
    names = ["popcount", "clz", "fabs", "isnan", *ROUNDINGS]
    builders: dict[Any, Build] = {name: intrinsic(name) for name in names}
    builders["bitwise_not"] = ops.bitwise_not
    if dtype.is_bool:
        builders[e.Not] = ops.logical_not
    rows = [(v,) for v in edges(dtype)]
    check_everywhere(builders, [dtype], rows, lambda op, v: evaluate(op, dtype, v))


@pytest.mark.parametrize("dtype", FLOATS)
def test_binary_operations_of_floats(dtype: DataType) -> None:
    pairs = list(itertools.product(edges(dtype), repeat=2))
    builders: dict[Any, Build] = {**ARITHMETIC, **COMPARISONS, **FLOAT_DIVISIONS}
    folds = {k: (lambda a, b, k=k: ops.fold_binary(k, a, b)) for k in FLOAT_DIVISIONS}
    check_folding({**builders, **folds}, dtype, pairs)
    builders |= {name: intrinsic(name) for name in ("fmod", "copysign", "nextafter")}
    check_everywhere(builders, [dtype, dtype], pairs, lambda op, a, b: evaluate(op, dtype, a, b))


@pytest.mark.parametrize("dtype", FLOATS)
def test_operations_of_one_float(dtype: DataType) -> None:
    names = ["sqrt", "fabs", "isnan", *ROUNDINGS]
    rows = [(v,) for v in inputs_of_casts(dtype)]
    check_everywhere(
        {name: intrinsic(name) for name in names},
        [dtype],
        rows,
        lambda op, v: evaluate(op, dtype, v),
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_fused_multiply_add(dtype: DataType) -> None:
    some = edges(dtype)[::3]  # of both signs
    rows = list(itertools.product(some, some, some[::2]))
    check_everywhere(
        {"fma": intrinsic("fma")}, [dtype] * 3, rows, lambda op, *row: evaluate(op, dtype, *row)
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_ldexp(dtype: DataType) -> None:
    exponents = [0, 1, -1, 7, -7, 24, -24, 140, -140, 1000, -1000, 1 << 30, -(1 << 31)]
    rows = list(itertools.product(edges(dtype), exponents))
    check_everywhere(
        {"ldexp": intrinsic("ldexp")},
        [dtype, DataType("int32")],
        rows,
        lambda op, *row: evaluate(op, dtype, *row),
    )


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_casts(dtype: DataType) -> None:
    targets = [t for t in INTEGERS + FLOATS if t is not dtype]
    builders = {t: (lambda x, t=t: ops.cast(t.with_lanes(x.dtype.lanes), x)) for t in targets}
    rows = [(v,) for v in inputs_of_casts(dtype)]
    check_everywhere(builders, [dtype], rows, lambda t, v: convert(v, dtype, t))
    for t, (value,) in itertools.product(targets, rows):
        immediate = ops.const(value, dtype)
        wanted = comparable([convert(value, dtype, t)], t)
        for node in (ops.cast(t, immediate), Analyzer().simplify(e.Cast(t, immediate))):
            if isinstance(node, (e.IntImm, e.FloatImm)):
                assert comparable([ops.value_of(node)], t) == wanted, f"{value} of {dtype} in {t}"


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_reinterpreted_bits(dtype: DataType) -> None:
    size = dtype.nbytes
    targets = [t for t in INTEGERS + FLOATS if t.nbytes == size and not t.is_bool]
    rows = [(v,) for v in edges(dtype) if v == v]
    builders = {
        t: (lambda x, t=t: ops.intrinsic("reinterpret", x, dtype=t.with_lanes(x.dtype.lanes)))
        for t in targets
    }

    def reference(target: DataType, value: Any) -> Any:
        bits = int(value) % (1 << dtype.bits) if dtype.is_integral else to_bits(value, dtype)
        return _read(bits, target)

    check_everywhere(builders, [dtype], rows, reference)


def _read(bits: int, dtype: DataType) -> Any:
    if dtype == "bfloat16":
        return float(np.uint32(bits << 16).view(np.float32))
    kind = dtype.to_numpy()
    return np.array([bits], f"uint{kind.itemsize * 8}").view(kind)[0].item()


@pytest.mark.parametrize(("q", "s"), [(31, 0), (31, 1), (31, -1), (0, 0), (1, 3), (33, -5)])
def test_fixed_point_multiplication(q: int, s: int) -> None:
    dtype = DataType("int32")
    pairs = list(itertools.product(edges(dtype), repeat=2))

    def build(x: PrimExpr, y: PrimExpr) -> PrimExpr:
        kind = x.dtype
        return e.Call(kind, Op.get("q_multiply_shift"), [x, y, ops.const(q), ops.const(s)])

    check_everywhere(
        {"q_multiply_shift": build},
        [dtype, dtype],
        pairs,
        lambda op, a, b: evaluate(op, dtype, a, b, q, s),
    )


def test_choices_of_values() -> None:
    for dtype in (DataType("int8"), DataType("float16"), DataType("float64")):
        pairs = list(itertools.product(edges(dtype), repeat=2))
        builders = {
            e.Select: lambda a, b: e.Select(a < b, a, b),
            e.And: lambda a, b: e.And(a < b, ops.compare(e.NE, a, b)),
            e.Or: lambda a, b: e.Or(a < b, ops.compare(e.NE, a, b)),
        }
        reference = {
            e.Select: lambda a, b: a if a < b else b,
            e.And: lambda a, b: a < b and a != b,
            e.Or: lambda a, b: a < b or a != b,
        }
        check_everywhere(builders, [dtype, dtype], pairs, lambda op, a, b, r=reference: r[op](a, b))


# ----------------------------------------------------------------------------------- real functions


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_reals_stay_within_their_bounds(dtype: DataType) -> None:
    values = [rounding(dtype)(v) for v in SPECIAL]
    names = [name for name in BOUNDS if name != "sqrt"]
    rows = padded([(v,) for v in values])
    wide = DataType("float64")
    made = list(run_everywhere({name: intrinsic(name) for name in names}, [dtype], rows))
    for who, name, _, got in made:
        # A 16-bit result is that of float32, rounded; beside a tie it is the other neighbour.
        bound = BOUNDS[name][dtype.bits == 64] + WITHOUT_FMA + 0.5 if dtype.bits > 16 else 1.0
        for (value,), found in zip(rows, got, strict=True):
            exact = evaluate(name, wide, value)
            where = f"{who}: {name}({value!r}) in {dtype} is {found}, exactly {exact!r}"
            if found == "nan" or math.isnan(exact):
                assert found == "nan", where
                assert math.isnan(exact), where
                continue
            number = _read(int(found, 16), dtype)
            precision, last_place, largest = FORMATS[dtype]
            if math.isinf(number) or abs(exact) > largest:
                assert rounding(dtype)(exact) == number or abs(number) == largest, where
                continue
            unit = max(math.frexp(exact)[1] - precision, last_place) if exact else last_place
            assert abs(number - exact) <= bound * math.ldexp(1.0, unit), where


# ---------------------------------------------------------------------------------- the reference


@pytest.mark.parametrize("dtype", [t for t in FLOATS if t != "bfloat16"])
def test_rounding_agrees_with_numpy(dtype: DataType) -> None:
    kind = dtype.to_numpy().type
    for value in (*inputs_of_casts(DataType("float64")), *inputs_of_casts(dtype)):
        with np.errstate(all="ignore"):
            wanted = float(kind(value))
        assert comparable([rounding(dtype)(value)], dtype) == comparable([wanted], dtype), value
    for number in inputs_of_casts(DataType("int64")):
        assert nearest(number, dtype) == rounding(dtype)(float(number)) or dtype.bits < 64


@pytest.mark.parametrize(
    "name", ["int8", "int32", "uint16", "int64", "float16", "float32", "float64"]
)
def test_arithmetic_agrees_with_numpy(name: str) -> None:
    dtype = DataType(name)
    numpy = {
        e.Add: np.add,
        e.Sub: np.subtract,
        e.Mul: np.multiply,
        **(
            {}
            if dtype.is_integral
            else {
                e.Div: np.divide,
                "fmod": np.fmod,
                "copysign": np.copysign,
                "nextafter": np.nextafter,
            }
        ),
    }
    pairs = list(itertools.product(edges(dtype), repeat=2))
    a, b = (array(column, dtype) for column in zip(*pairs, strict=True))
    for op, function in numpy.items():
        if op == "nextafter" and name == "float16":
            continue  # NumPy gives 0.0 for the step from 0.0 to -0.0, unlike for other types
        with np.errstate(all="ignore"):
            wanted = comparable(function(a, b).tolist(), dtype)
        assert comparable([evaluate(op, dtype, *pair) for pair in pairs], dtype) == wanted, op
