"""Random expressions in script text, typed, in bounds and without divisions by zero."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

Extent = int | str
"""A number, or the name of a variable in a shape."""

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
_FLOAT_CONSTANTS = (0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 0.25)


@dataclass(frozen=True)
class Buf:
    """A buffer of the program."""

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
    """The names that an expression may use."""

    axes: list[Axis] = field(default_factory=list)
    readable: list[Buf] = field(default_factory=list)
    """Buffers whose elements are all defined."""
    scalars: list[tuple[str, str]] = field(default_factory=list)
    """Names and dtypes of parameters and let variables."""

    def with_axes(self, *axes: Axis) -> Scope:
        """Return a scope with more variables."""
        return replace(self, axes=[*self.axes, *axes])

    def only_axes(self, *axes: Axis) -> Scope:
        """Return a scope with other variables, as inside a block that has axes."""
        return replace(self, axes=list(axes))

    def reading(self, *more: Buf) -> Scope:
        """Return a scope with more buffers."""
        return replace(self, readable=[*self.readable, *more])

    def with_scalar(self, name: str, dtype: str) -> Scope:
        """Return a scope with another scalar."""
        return replace(self, scalars=[*self.scalars, (name, dtype)])

    def without(self, buf: Buf) -> Scope:
        """Return a scope that does not read a buffer."""
        return replace(self, readable=[b for b in self.readable if b.name != buf.name])


def is_float(dtype: str) -> bool:
    """Return True for a floating-point dtype."""
    return dtype in FLOATS


def bits(dtype: str) -> int:
    """Return the width of a dtype."""
    return int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz"))


class Values:
    """Writes random expressions."""

    def __init__(self, rng: random.Random, dtypes: Sequence[str]) -> None:
        self.rng = rng
        self.dtypes = list(dtypes)
        self.lets: list[tuple[str, str]] = []
        """Names and dtypes of the variables that `T.Let` binds, to be declared before their use."""
        self._fresh = 0

    def chance(self, p: float) -> bool:
        """Return True with probability `p`."""
        return self.rng.random() < p

    def name(self, prefix: str) -> str:
        """Return a new name."""
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
            sized = [a for a in scope.axes if isinstance(a.extent, int)]
            inside = [a for a in sized if int(a.extent) <= extent]
            larger = [a for a in sized if int(a.extent) > extent]
            if inside:
                options += [lambda: self._inside(self.rng.choice(inside), extent)] * 3
            if larger:
                options += [lambda: self._folded(self.rng.choice(larger), extent)] * 2
            options.append(lambda: str(self.rng.randrange(extent)))
            options.append(lambda: self._wrapped(extent, scope))
            if depth > 0:
                options.append(lambda: self._gathered(extent, scope, depth))
        return self.rng.choice(options)() if options else None

    def _inside(self, axis: Axis, extent: int) -> str:
        size = int(axis.extent)
        choices = [axis.name, f"{size - 1} - {axis.name}"]
        if size < extent:
            choices.append(f"{axis.name} + {self.rng.randint(1, extent - size)}")
        if size * 2 - 1 <= extent:
            choices.append(f"{axis.name} * 2")
        return self.rng.choice(choices)

    def _folded(self, axis: Axis, extent: int) -> str:
        name, quotient = axis.name, -(-int(axis.extent) // extent)
        return self.rng.choice(
            (f"{name} % {extent}", f"{name} // {quotient}", f"T.min({name}, {extent - 1})")
        )

    def _wrapped(self, extent: Extent, scope: Scope) -> str:
        if not scope.axes:
            return "0"
        a, b = (self.rng.choice(scope.axes).name for _ in range(2))
        inner = self.rng.choice((f"{a} * 3 + {b}", f"{a} - {b}", f"{b} - {a} * 5", f"{a} + 1"))
        clamped = f"T.max(T.min({inner}, {extent} - 1), 0)"
        return self.rng.choice((f"({inner}) % {extent}", clamped))

    def _gathered(self, extent: int, scope: Scope, depth: int) -> str:
        kind = self.rng.choice(("int8", "int32", "int32", "uint8", "int64"))
        value = self.load(kind, scope, depth - 1) if kind in self.dtypes else None
        if value is None:
            return str(self.rng.randrange(extent))
        if self.chance(0.3) and extent <= 100:
            return f"T.max(T.min({value}, T.{kind}({extent - 1})), T.{kind}(0))"
        return f"({value}) % T.{kind}({extent})"

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
            if self.chance(0.08):
                return f'T.{dtype}("{self.rng.choice(("nan", "inf", "-inf"))}")'
            return f"T.{dtype}({self.rng.choice(_FLOAT_CONSTANTS)})"
        limit = 1 << (bits(dtype) - 1)
        if dtype in SIGNED:
            edges, small = (-limit, limit - 1, 1 - limit), (-2, -1, 0, 1, 2, 3, 7)
        else:
            # The script has no larger constants.
            edges = (limit >> 1, limit - 1) if dtype == "uint64" else (2 * limit - 1, limit)
            small = (0, 1, 2, 3, 7)
        return f"T.{dtype}({self.rng.choice(edges if self.chance(0.15) else small)})"

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
        rng, depth = self.rng, depth - 1

        def operand(kind: str = dtype, scope: Scope = scope) -> str:
            return self.value(kind, scope, depth)

        kind = rng.choice(
            ("sum", "sum", "extremum", "choice", "choice", "cast", "let", "own", "own", "own")
        )
        if kind == "sum":
            return f"({operand()} {rng.choice('+-*')} {operand()})"
        if kind == "extremum":
            return f"T.{rng.choice(('min', 'max'))}({operand()}, {operand()})"
        if kind == "choice":
            if self.chance(0.3) and (guarded := self._guarded(dtype, scope)):
                return guarded
            name = rng.choice(("Select", "if_then_else"))
            return f"T.{name}({self.condition(scope, depth)}, {operand()}, {operand()})"
        if kind == "cast":
            source = rng.choice([d for d in (*self.dtypes, "bool") if d != dtype])
            return f'T.Cast("{dtype}", {operand(source)})'
        if kind == "let":
            bound_kind = rng.choice(self.dtypes)
            bound, name = operand(bound_kind), self.name("x")
            self.lets.append((name, bound_kind))
            body = operand(scope=scope.with_scalar(name, bound_kind))
            return f"T.Let({body}, where={{{name}: {bound}}})"
        return (self._of_floats if is_float(dtype) else self._of_integers)(dtype, scope, depth)

    def _of_floats(self, dtype: str, scope: Scope, depth: int) -> str:
        a, b = self.value(dtype, scope, depth), self.value(dtype, scope, depth)
        name = self.rng.choice(("floor", "ceil", "trunc", "fabs", "sqrt", "nearbyint"))
        return self.rng.choice((f"T.{name}({a})", f"({a} / {b})", f"T.fmod({a}, {b})"))

    def _of_integers(self, dtype: str, scope: Scope, depth: int) -> str:
        rng, kind = self.rng, self.rng.choice(("division", "division", "shift", "bitwise"))
        a = self.value(dtype, scope, depth)
        if kind == "bitwise":
            name = rng.choice(("and", "or", "xor", "not"))
            other = "" if name == "not" else f", {self.value(dtype, scope, depth)}"
            return f"T.bitwise_{name}({a}{other})"
        if kind == "shift":
            last = bits(dtype) - 1
            loaded = self.load(dtype, scope)
            if self.chance(0.5):
                b = f"T.{dtype}({rng.choice((0, 1, 3, last))})"
            elif loaded is not None:  # an amount that may be too large
                b = loaded
            else:
                b = f"T.bitwise_and({self.value(dtype, scope, depth - 1)}, T.{dtype}({last}))"
            return f"T.shift_{rng.choice(('left', 'right'))}({a}, {b})"
        if self.chance(0.6):
            values = (1, 2, 3, 4, 7, 8, 16, *((-1, -2, -3, -8) if dtype in SIGNED else ()))
            b = f"T.{dtype}({rng.choice(values)})"
        else:
            b = f"T.bitwise_or({self.value(dtype, scope, depth - 1)}, T.{dtype}(1))"
        form = rng.choice(("{} // {}", "{} % {}", "T.truncdiv({}, {})", "T.truncmod({}, {})"))
        return f"({form.format(a, b)})"

    def _guarded(self, dtype: str, scope: Scope) -> str | None:
        """Return a load that is in bounds because of the condition around it."""
        flat = [b for b in scope.readable if b.dtype == dtype and len(b.shape) == 1]
        if not flat or not scope.axes:
            return None
        buf, axis = self.rng.choice(flat), self.rng.choice(scope.axes).name
        shift = self.rng.choice((-2, -1, 1, 2))
        index = f"{axis} + {shift}" if shift > 0 else f"{axis} - {-shift}"
        element, other = f"{buf.name}[{index}]", self.constant(dtype)
        if self.chance(0.5):
            inside = f"T.And({index} >= 0, {index} < {buf.shape[0]})"
            return f"T.if_then_else({inside}, {element}, {other})"
        outside = f"T.Or({index} < 0, {index} >= {buf.shape[0]})"
        return f"T.if_then_else({outside}, {other}, {element})"

    def condition(self, scope: Scope, depth: int) -> str:
        """Return a condition."""
        rng = self.rng
        if depth > 0 and self.chance(0.3):
            a, b = self.condition(scope, depth - 1), self.condition(scope, depth - 1)
            return rng.choice((f"T.And({a}, {b})", f"T.Or({a}, {b})", f"T.Not({a})"))
        compare = rng.choice(("<", "<=", ">", ">=", "==", "!="))
        if scope.axes and self.chance(0.4):
            axis = rng.choice(scope.axes)
            names = [a.name for a in scope.axes]
            other = rng.choice([str(rng.randint(-1, 6)), str(axis.extent), *names])
            return f"{axis.name} {compare} {other}"
        kind = rng.choice(self.dtypes)
        if is_float(kind) and self.chance(0.15):
            return f"T.isnan({self.leaf(kind, scope)})"
        a, b = self.value(kind, scope, depth - 1), self.value(kind, scope, depth - 1)
        return f"{a} {compare} {b}"
