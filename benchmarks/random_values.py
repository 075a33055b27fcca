"""Random expressions in script text, typed, in bounds and without divisions by zero."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Extent = int | str
"""A number, or the name of a variable that stands in a shape."""

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
_EDGES = {"int": (-2, -1, 0, 1, 2, 3, 7), "uint": (0, 1, 2, 3, 7)}
_FLOAT_CONSTANTS = (0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 0.25)


@dataclass(frozen=True)
class Buf:
    """A buffer that the program has."""

    name: str
    dtype: str
    shape: tuple[Extent, ...]


@dataclass(frozen=True)
class Axis:
    """A variable with values in [0, extent)."""

    name: str
    extent: Extent


@dataclass
class Scope:
    """What an expression may mention."""

    axes: list[Axis] = field(default_factory=list)
    readable: list[Buf] = field(default_factory=list)
    """Buffers of which every element is defined."""
    scalars: list[tuple[str, str]] = field(default_factory=list)
    """Names and dtypes of parameters and let variables."""

    def with_axes(self, *axes: Axis) -> Scope:
        """Return a scope with more variables."""
        return Scope([*self.axes, *axes], self.readable, self.scalars)

    def only_axes(self, *axes: Axis) -> Scope:
        """Return a scope with other variables, as inside a block that has axes."""
        return Scope(list(axes), self.readable, self.scalars)


def is_float(dtype: str) -> bool:
    """Say whether a dtype is one of floating point."""
    return dtype in FLOATS


def bits(dtype: str) -> int:
    """Return the width of a dtype."""
    return int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz"))


class Values:
    """Writes random expressions; `without` names kinds that it leaves out."""

    def __init__(self, rng: random.Random, dtypes: Sequence[str], without: frozenset[str]) -> None:
        self.rng = rng
        self.dtypes = list(dtypes)
        self.without = without
        self.lets: list[tuple[str, str]] = []
        """Names and dtypes of the variables that `T.Let` binds, to be declared before their use."""
        self._fresh = 0

    def chance(self, p: float) -> bool:
        """Return True with probability `p`."""
        return self.rng.random() < p

    def has(self, kind: str) -> bool:
        """Say whether a kind of expression is wanted."""
        return kind not in self.without

    def name(self, prefix: str) -> str:
        """Return a name that is not taken."""
        self._fresh += 1
        return f"{prefix}{self._fresh}"

    # ---------------------------------------------------------------------------------- indices

    def index(self, extent: Extent, scope: Scope, depth: int = 1) -> str | None:
        """Return an expression with values in [0, extent), None if the scope offers none."""
        same = [a.name for a in scope.axes if a.extent == extent]
        options: list[Callable[[], str]] = []
        if same:
            options += [lambda: self.rng.choice(same)] * 4
            options.append(lambda: f"{extent} - 1 - {self.rng.choice(same)}")
            if self.chance(0.3):
                options.append(lambda: self._wrapped(extent, scope))
        if isinstance(extent, int):
            inside = [a for a in scope.axes if isinstance(a.extent, int) and a.extent <= extent]
            if inside:
                options += [lambda: self._inside(self.rng.choice(inside), extent)] * 3
            larger = [a for a in scope.axes if isinstance(a.extent, int) and a.extent > extent]
            if larger:
                options += [lambda: self._folded(self.rng.choice(larger), extent)] * 2
            options.append(lambda: str(self.rng.randrange(extent)))
            options.append(lambda: self._wrapped(extent, scope))
            if depth > 0 and self.has("gather"):
                options.append(lambda: self._gathered(extent, scope, depth))
        return self.rng.choice(options)() if options else None

    def _inside(self, axis: Axis, extent: int) -> str:
        assert isinstance(axis.extent, int)
        choices = [axis.name, f"{axis.extent - 1} - {axis.name}"]
        slack = extent - axis.extent
        if slack:
            choices.append(f"{axis.name} + {self.rng.randint(1, slack)}")
        if axis.extent * 2 - 1 <= extent:
            choices.append(f"{axis.name} * 2")
        return self.rng.choice(choices)

    def _folded(self, axis: Axis, extent: int) -> str:
        assert isinstance(axis.extent, int)
        quotient = -(-axis.extent // extent)
        return self.rng.choice(
            (
                f"{axis.name} % {extent}",
                f"{axis.name} // {quotient}",
                f"T.min({axis.name}, {extent - 1})",
            )
        )

    def _wrapped(self, extent: Extent, scope: Scope) -> str:
        if not scope.axes:
            return "0"
        axis = self.rng.choice(scope.axes).name
        other = self.rng.choice(scope.axes).name
        inner = self.rng.choice(
            (f"{axis} * 3 + {other}", f"{axis} - {other}", f"{other} - {axis} * 5", f"{axis} + 1")
        )
        clamped = f"T.max(T.min({inner}, {extent} - 1), 0)"
        return self.rng.choice((f"({inner}) % {extent}", clamped))

    def _gathered(self, extent: int, scope: Scope, depth: int) -> str:
        kind = self.rng.choice(("int8", "int32", "int32", "uint8", "int64"))
        if kind not in self.dtypes:
            return str(self.rng.randrange(extent))
        value = self.load(kind, scope, depth - 1)
        if value is None:
            return str(self.rng.randrange(extent))
        divisor = f"T.{kind}({extent})"
        if self.chance(0.3) and extent <= 100:
            zero, last = f"T.{kind}(0)", f"T.{kind}({extent - 1})"
            return f"T.max(T.min({value}, {last}), {zero})"
        return f"({value}) % {divisor}"

    # ----------------------------------------------------------------------------------- leaves

    def load(self, dtype: str, scope: Scope, depth: int = 1) -> str | None:
        """Return a load of an element of a dtype, None if no readable buffer has one."""
        fitting = [b for b in scope.readable if b.dtype == dtype]
        self.rng.shuffle(fitting)
        for buf in fitting:
            indices = [self.index(extent, scope, depth) for extent in buf.shape]
            if all(i is not None for i in indices):
                return f"{buf.name}[{', '.join(str(i) for i in indices)}]"
        return None

    def constant(self, dtype: str) -> str:
        """Return a constant of a dtype."""
        if dtype == "bool":
            return self.rng.choice(("T.bool(True)", "T.bool(False)"))
        if is_float(dtype):
            if self.has("nan") and self.chance(0.08):
                special = self.rng.choice(("nan", "inf", "-inf"))
                return f'T.{dtype}("{special}")'
            return f"T.{dtype}({self.rng.choice(_FLOAT_CONSTANTS)})"
        if dtype in SIGNED:
            limit = 1 << (bits(dtype) - 1)
            edges = (-limit, limit - 1, -limit + 1)
            small = _EDGES["int"]
        else:
            edges = ((1 << bits(dtype)) - 1, 1 << (bits(dtype) - 1))
            small = _EDGES["uint"]
        if dtype == "uint64":
            edges = (1 << 62, (1 << 63) - 1)
        extreme = self.has("extremes") and self.chance(0.15)
        value = self.rng.choice(edges if extreme else small)
        return f"T.{dtype}({value})"

    def leaf(self, dtype: str, scope: Scope) -> str:
        """Return a load, a parameter, a variable or a constant."""
        if self.chance(0.65) and (loaded := self.load(dtype, scope)) is not None:
            return loaded
        scalars = [name for name, kind in scope.scalars if kind == dtype]
        if scalars and self.chance(0.5):
            return self.rng.choice(scalars)
        if scope.axes and self.chance(0.4):
            axis = self.rng.choice(scope.axes).name
            return axis if dtype == "int32" else f'T.Cast("{dtype}", {axis})'
        return self.constant(dtype)

    # ------------------------------------------------------------------------------ expressions

    def value(self, dtype: str, scope: Scope, depth: int) -> str:
        """Return an expression of a dtype."""
        if dtype == "bool":
            return self.condition(scope, depth)
        if depth <= 0 or self.chance(0.12):
            return self.leaf(dtype, scope)
        shared: list[Callable[[str, Scope, int], str]] = [
            self._sum, self._sum, self._extremum, self._choice, self._choice, self._cast, self._let,
        ]  # fmt: skip
        own = (
            [self._float_call, self._float_division, self._float_remainder]
            if is_float(dtype)
            else [self._int_division, self._int_division, self._shift, self._bitwise]
        )
        return self.rng.choice([*shared, *own])(dtype, scope, depth - 1)

    def _sum(self, dtype: str, scope: Scope, depth: int) -> str:
        op = self.rng.choice(("+", "-", "*"))
        return f"({self.value(dtype, scope, depth)} {op} {self.value(dtype, scope, depth)})"

    def _extremum(self, dtype: str, scope: Scope, depth: int) -> str:
        name = self.rng.choice(("min", "max"))
        return f"T.{name}({self.value(dtype, scope, depth)}, {self.value(dtype, scope, depth)})"

    def _choice(self, dtype: str, scope: Scope, depth: int) -> str:
        if self.has("guard") and self.chance(0.3) and (guarded := self._guarded(dtype, scope)):
            return guarded
        name = self.rng.choice(("Select", "if_then_else"))
        condition = self.condition(scope, depth)
        yes, no = self.value(dtype, scope, depth), self.value(dtype, scope, depth)
        return f"T.{name}({condition}, {yes}, {no})"

    def _guarded(self, dtype: str, scope: Scope) -> str | None:
        """Return a load that is in bounds because of the condition around it."""
        flat = [b for b in scope.readable if b.dtype == dtype and len(b.shape) == 1]
        if not flat or not scope.axes:
            return None
        buf, axis = self.rng.choice(flat), self.rng.choice(scope.axes).name
        shift = self.rng.choice((-2, -1, 1, 2))
        index = f"{axis} + {shift}" if shift > 0 else f"{axis} - {-shift}"
        other = self.constant(dtype)
        if self.chance(0.5):
            inside = f"T.And({index} >= 0, {index} < {buf.shape[0]})"
            return f"T.if_then_else({inside}, {buf.name}[{index}], {other})"
        outside = f"T.Or({index} < 0, {index} >= {buf.shape[0]})"
        return f"T.if_then_else({outside}, {other}, {buf.name}[{index}])"

    def _cast(self, dtype: str, scope: Scope, depth: int) -> str:
        if not self.has("cast"):
            return self.leaf(dtype, scope)
        source = self.rng.choice([d for d in (*self.dtypes, "bool") if d != dtype] or [dtype])
        return f'T.Cast("{dtype}", {self.value(source, scope, depth)})'

    def _let(self, dtype: str, scope: Scope, depth: int) -> str:
        if not self.has("let"):
            return self.leaf(dtype, scope)
        kind = self.rng.choice(self.dtypes)
        bound = self.value(kind, scope, depth)
        name = self.name("x")
        self.lets.append((name, kind))
        inner = Scope(scope.axes, scope.readable, [*scope.scalars, (name, kind)])
        return f"T.Let({self.value(dtype, inner, depth)}, where={{{name}: {bound}}})"

    def _int_division(self, dtype: str, scope: Scope, depth: int) -> str:
        if not self.has("division"):
            return self._sum(dtype, scope, depth)
        a = self.value(dtype, scope, depth)
        if self.chance(0.6):
            values = (1, 2, 3, 4, 7, 8, 16, *((-1, -2, -3, -8) if dtype in SIGNED else ()))
            b = f"T.{dtype}({self.rng.choice(values)})"
        else:
            b = f"T.bitwise_or({self.value(dtype, scope, depth - 1)}, T.{dtype}(1))"
        form = self.rng.choice(("{} // {}", "{} % {}", "T.truncdiv({}, {})", "T.truncmod({}, {})"))
        return f"({form.format(a, b)})"

    def _shift(self, dtype: str, scope: Scope, depth: int) -> str:
        if not self.has("shift"):
            return self._sum(dtype, scope, depth)
        name = self.rng.choice(("shift_left", "shift_right"))
        a = self.value(dtype, scope, depth)
        if self.chance(0.5):
            amount = f"T.{dtype}({self.rng.choice((0, 1, 3, bits(dtype) - 1))})"
        else:
            loaded = self.load(dtype, scope) if self.has("wide shift") else None
            inside = f"T.{dtype}({bits(dtype) - 1})"
            amount = loaded or f"T.bitwise_and({self.value(dtype, scope, depth - 1)}, {inside})"
        return f"T.{name}({a}, {amount})"

    def _bitwise(self, dtype: str, scope: Scope, depth: int) -> str:
        a = self.value(dtype, scope, depth)
        if self.chance(0.2):
            return f"T.bitwise_not({a})"
        name = self.rng.choice(("bitwise_and", "bitwise_or", "bitwise_xor"))
        return f"T.{name}({a}, {self.value(dtype, scope, depth)})"

    def _float_call(self, dtype: str, scope: Scope, depth: int) -> str:
        name = self.rng.choice(("floor", "ceil", "trunc", "fabs", "sqrt", "nearbyint"))
        return f"T.{name}({self.value(dtype, scope, depth)})"

    def _float_division(self, dtype: str, scope: Scope, depth: int) -> str:
        return f"({self.value(dtype, scope, depth)} / {self.value(dtype, scope, depth)})"

    def _float_remainder(self, dtype: str, scope: Scope, depth: int) -> str:
        if not self.has("float remainder"):
            return self._float_division(dtype, scope, depth)
        a, b = self.value(dtype, scope, depth), self.value(dtype, scope, depth)
        return f"T.fmod({a}, {b})"

    def condition(self, scope: Scope, depth: int) -> str:
        """Return a condition."""
        if depth > 0 and self.chance(0.3):
            a, b = self.condition(scope, depth - 1), self.condition(scope, depth - 1)
            return self.rng.choice((f"T.And({a}, {b})", f"T.Or({a}, {b})", f"T.Not({a})"))
        compare = self.rng.choice(("<", "<=", ">", ">=", "==", "!="))
        if scope.axes and self.chance(0.4):
            axis = self.rng.choice(scope.axes)
            other = self.rng.choice(
                [str(self.rng.randint(-1, 6)), str(axis.extent), *(a.name for a in scope.axes)]
            )
            return f"{axis.name} {compare} {other}"
        kind = self.rng.choice(self.dtypes)
        if is_float(kind) and self.chance(0.15):
            return f"T.isnan({self.leaf(kind, scope)})"
        return (
            f"{self.value(kind, scope, depth - 1)} {compare} {self.value(kind, scope, depth - 1)}"
        )
