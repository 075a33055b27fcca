"""Evaluating the expressions of a script.

Text may only reach the names of the dialect. A decorated function additionally sees the captured
names of the user's own program, whose functions it may call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensorir import expr as e
from tensorir import ops
from tensorir.buffer import Buffer, BufferRegion, Range
from tensorir.errors import DiagnosticError, IRTypeError, IRValueError, TensorIRError
from tensorir.expr import EqualOp, IntImm, IterVar, PrimExpr, Ramp, Var
from tensorir.ops import as_expr, const
from tensorir.script.namespace import AxisNamespace, BufferFactory, Namespace
from tensorir.script.ranges import range_of
from tensorir.script.records import FreshVar, MetaVar
from tensorir.script.syntax import Place, Tree

_PUBLIC_FIELDS: Final[dict[type, frozenset[str]]] = {
    Buffer: frozenset(
        [
            "shape",
            "data",
            "dtype",
            "strides",
            "elem_offset",
            "name",
            "scope",
            "axis_separators",
            "data_alignment",
            "access_ptr",
            "vload",
            "vstore",
            "offset_of",
            "get_flattened_buffer",
            "offset_factor",
        ]
    ),
    Range: frozenset({"min", "extent"}),
    IterVar: frozenset({"var", "dom"}),
    BufferRegion: frozenset({"buffer", "region"}),
    AxisNamespace: frozenset({"spatial", "S", "reduce", "R", "scan", "opaque", "remap"}),
}
_BUILTINS: Final[dict[str, Any]] = {
    "len": len,
    "int": int,
    "float": float,
    "bool": bool,
    "tuple": tuple,
    "list": list,
}
_COMPARE: Final = {"<": e.LT, "<=": e.LE, ">": e.GT, ">=": e.GE, "==": e.EQ, "!=": e.NE}
_SMART: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}
_PYTHON_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
}
_USER_ERRORS: Final = (
    TensorIRError,
    TypeError,
    ValueError,
    KeyError,
    IndexError,
    AttributeError,
    ZeroDivisionError,
    AssertionError,
    OverflowError,
)


class ScriptObject:
    """An object of the dialect that says itself what its attributes are in a script."""

    def script_attribute(self, name: str) -> Any:
        """Return an attribute; AttributeError if there is none."""
        raise NotImplementedError


class Source:
    """The text that is being read, for error messages."""

    def __init__(self, text: str, filename: str, first_line: int = 1, indent: int = 0) -> None:
        self.lines = text.splitlines()
        self.filename = filename
        self.first_line = first_line
        self.indent = indent

    def error(self, message: str, place: Place) -> DiagnosticError:
        """Return the error for a place in the text."""
        line, column, end_line, end_column = place
        shown = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        if end_line != line:
            end_column = len(shown) + 1
        return DiagnosticError(
            message,
            filename=self.filename,
            line=line + self.first_line - 1 if line else 0,
            column=column + self.indent,
            end_column=end_column + self.indent,
            source_line=" " * self.indent + shown,
        )


class Scope:
    """Names by level; a level is discarded at its end."""

    def __init__(self, outer: dict[str, Any], *, trusted: bool) -> None:
        self.outer = outer
        self.trusted = trusted
        """Whether outer names are the user's own Python, which may be called."""
        self.levels: list[dict[str, Any]] = [{}]

    def push(self) -> None:
        """Open a level."""
        self.levels.append({})

    def pop(self) -> None:
        """Close the innermost level."""
        self.levels.pop()

    def define(self, name: str, value: Any) -> None:
        """Give `name` a value; ValueError if the level has another one under that name."""
        level = self.levels[-1]
        if name in level and not _same(level[name], value):
            raise IRValueError(f"Variable {name} already defined in current scope")
        level[name] = value

    def lookup(self, name: str) -> Any:
        """Return the value of `name`; KeyError if it has none."""
        for level in reversed(self.levels):
            if name in level:
                return level[name]
        if name in self.outer:
            return self.outer[name]
        return _BUILTINS[name]


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, (int, float, str)) and type(a) is type(b) and a == b)


class Evaluator:
    """Evaluates expression trees in a scope."""

    def __init__(self, source: Source, scope: Scope) -> None:
        self.source = source
        self.scope = scope

    def __call__(self, tree: Tree) -> Any:
        """Return the value of `tree`; DiagnosticError pointing at the part that fails."""
        return _EVALUATE[tree[0]](self, tree)

    def fail(self, message: str, place: Place) -> DiagnosticError:
        """Return the error for a place."""
        return self.source.error(message, place)

    def guarded(self, place: Place, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `function`, turning its errors into one that points at `place`."""
        try:
            return function(*args, **kwargs)
        except DiagnosticError:
            raise
        except _USER_ERRORS as error:
            text = f"KeyError: {error}" if isinstance(error, KeyError) else str(error)
            raise self.fail(text or type(error).__name__, place) from error

    # ------------------------------------------------------------------------------------ operands

    def name(self, tree: Tree) -> Any:
        """Look a name up; what `T.meta_var` wraps comes unwrapped."""
        try:
            value = self.scope.lookup(tree[2])
        except KeyError:
            raise self.fail(f"Undefined variable: {tree[2]}", tree[1]) from None
        return value.value if type(value) is MetaVar else value

    def attribute(self, tree: Tree) -> Any:
        """Read `owner.name`, as far as scripts may see the owner's attributes."""
        owner, name = self(tree[2]), tree[3]
        if name.startswith("_"):
            raise self.fail(f"`{name}` is private and cannot be reached from a script", tree[1])
        kind = type(owner)
        if kind is Namespace:
            return self.guarded(tree[1], getattr, owner, name)
        if isinstance(owner, ScriptObject):
            return self.guarded(tree[1], owner.script_attribute, name)
        allowed = _PUBLIC_FIELDS.get(kind)
        if allowed is None and isinstance(owner, PrimExpr):
            allowed = frozenset({"dtype", "name", "value", "astype", "var"})
        if allowed is not None and name in allowed:
            return getattr(owner, name)
        if self.scope.trusted and allowed is None:
            return self.guarded(tree[1], getattr, owner, name)
        raise self.fail(f"a {kind.__name__} has no attribute {name!r} in a script", tree[1])

    def call(self, tree: Tree) -> Any:
        """Call what a script may call, with starred and keyword arguments spread out."""
        function = self(tree[2])
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument in tree[3]:
            kind = argument[0]
            if kind == "keyword":
                kwargs[argument[2]] = self(argument[3])
            elif kind == "starred":
                args.extend(self(argument[2]))
            elif kind == "unpacked":
                kwargs.update(self(argument[2]))
            else:
                args.append(self(argument))
        if not callable(function):
            raise self.fail(f"a {type(function).__name__} cannot be called", tree[1])
        return self.guarded(tree[1], function, *args, **kwargs)

    def index(self, tree: Tree) -> Any:
        """Read `owner[...]`: a load or region of a buffer, a shape of `T.Buffer`, an item."""
        owner = self(tree[2])
        subscripts = tree[3]
        if isinstance(owner, Buffer):
            return self.guarded(tree[1], self._access, owner, subscripts)
        if isinstance(owner, BufferFactory):
            keys = [self(s) for s in subscripts]
            return self.guarded(
                tree[1], owner.__getitem__, keys[0] if len(keys) == 1 else tuple(keys)
            )
        if isinstance(owner, PrimExpr):
            raise self.fail("an expression is not subscriptable", tree[1])
        key = (
            self._subscript(subscripts[0])
            if len(subscripts) == 1
            else tuple(self._subscript(s) for s in subscripts)
        )
        if isinstance(key, IntImm):
            key = key.value
        return self.guarded(tree[1], lambda: owner[key])

    def _subscript(self, tree: Tree) -> Any:
        if tree[0] != "slice":
            return self(tree)
        return slice(*(None if part is None else self(part) for part in tree[2:5]))

    def _access(self, buffer: Buffer, subscripts: list[Tree]) -> Any:
        """Return a load, or a region where an index is a slice without a step."""
        items = self._items(buffer, subscripts)
        slices = [i for i in items if isinstance(i, slice)]
        if not slices:
            return e.BufferLoad(buffer, [as_expr(i) for i in items])
        if any(s.step is not None for s in slices):
            return e.BufferLoad(buffer, self.indices(buffer, items))
        return BufferRegion(
            buffer, [_range(i, n) for i, n in zip(items, buffer.shape, strict=True)]
        )

    def _items(self, buffer: Buffer, subscripts: list[Tree]) -> list[Any]:
        """Return one index or slice for each dimension of a buffer."""
        items: list[Any] = []
        for subscript in subscripts:
            if subscript[0] == "starred":
                items.extend(self(subscript[2]))
                continue
            item = self._subscript(subscript)
            items.extend(item if isinstance(item, (tuple, list)) else [item])
        if len(items) != len(buffer.shape):
            raise IRValueError(
                f"buffer {buffer.name} has {len(buffer.shape)} dimension(s) "
                f"but is indexed with {len(items)}"
            )
        return items

    def indices(self, buffer: Buffer, items: list[Any]) -> list[PrimExpr]:
        """Return subscripts as indices; a slice becomes a `Ramp`."""
        result: list[PrimExpr] = []
        for item, extent in zip(items, buffer.shape, strict=True):
            if not isinstance(item, slice):
                result.append(as_expr(item))
                continue
            low = const(0, extent.dtype) if item.start is None else as_expr(item.start)
            high = extent if item.stop is None else as_expr(item.stop)
            step = const(1, low.dtype) if item.step is None else as_expr(item.step)
            span = range_of(low, high).extent
            lanes = ops.floordiv(span + step - 1, step)
            if not isinstance(lanes, IntImm) or lanes.value < 1:
                raise IRValueError(f"a slice read as a vector has a constant length, got {lanes}")
            result.append(low if lanes.value == 1 else Ramp(low, step, lanes.value))
        return result

    def store_indices(self, buffer: Buffer, subscripts: list[Tree]) -> list[PrimExpr]:
        """Return the indices of an element that is stored to."""
        return self.indices(buffer, self._items(buffer, subscripts))

    # ----------------------------------------------------------------------------------- operators

    def binary(self, tree: Tree) -> Any:
        """Apply a binary operator, comparisons and `and`/`or` included."""
        operator = tree[2]
        a, b = _operand(self(tree[3])), _operand(self(tree[4]))
        if operator in ("and", "or"):
            return self.guarded(tree[1], _logical, operator, a, b)
        if operator in _COMPARE:
            return self.guarded(tree[1], _compare, operator, a, b)
        if operator == "**":
            raise self.fail("`**` is not supported; write T.pow", tree[1])
        return self.guarded(tree[1], _SMART[operator], a, b)

    def unary(self, tree: Tree) -> Any:
        """Apply `not`, `-`, `~` or `+`."""
        operator, value = tree[2], _operand(self(tree[3]))
        if operator == "not":
            if isinstance(value, PrimExpr):
                return self.guarded(tree[1], e.Not, value)
            return not value
        if operator == "-":
            return self.guarded(tree[1], lambda: -value)
        if operator == "~":
            return self.guarded(tree[1], lambda: ~value)
        if isinstance(value, PrimExpr):
            raise self.fail("unary + is not supported on expressions", tree[1])
        return +value

    def conditional(self, tree: Tree) -> Any:
        """Choose a side of `a if c else b`; the condition is known while parsing."""
        condition = self(tree[3])
        if isinstance(condition, (PrimExpr, EqualOp)):
            raise self.fail(
                "`a if c else b` needs a Python bool; write T.if_then_else(c, a, b)", tree[1]
            )
        return self(tree[2] if condition else tree[4])

    def lambda_function(self, tree: Tree) -> Any:
        """Return a function whose parameters have the names that the script gives them."""
        parameters, body = tree[2], tree[3]
        evaluator = self

        def function(*args: Any) -> Any:
            evaluator.scope.push()
            try:
                rest = list(args)
                for starred, name in parameters:
                    evaluator.scope.define(name, tuple(rest) if starred else rest.pop(0))
                return evaluator(body)
            finally:
                evaluator.scope.pop()

        function.__signature__ = _signature(parameters)  # type: ignore[attr-defined]
        return function


def _signature(parameters: list[tuple[bool, str]]) -> Any:
    import inspect  # noqa: PLC0415

    kinds = inspect.Parameter
    return inspect.Signature(
        [
            kinds(name, kinds.VAR_POSITIONAL if starred else kinds.POSITIONAL_OR_KEYWORD)
            for starred, name in parameters
        ]
    )


def _range(item: Any, extent: PrimExpr) -> Range:
    if not isinstance(item, slice):
        return Range.point(as_expr(item))
    low = const(0, extent.dtype) if item.start is None else as_expr(item.start)
    return range_of(low, extent if item.stop is None else as_expr(item.stop))


def _operand(value: Any) -> Any:
    if isinstance(value, (BufferRegion, EqualOp, IterVar, FreshVar)):
        return value if isinstance(value, FreshVar) else as_expr(value)
    return value


def _logical(operator: str, a: Any, b: Any) -> Any:
    if not isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
        return (a and b) if operator == "and" else (a or b)
    x, y = as_expr(a), as_expr(b)
    return (e.And if operator == "and" else e.Or)(x, y)


def _compare(operator: str, a: Any, b: Any) -> Any:
    if not isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
        return _PYTHON_COMPARE[operator](a, b)
    if not isinstance(a, PrimExpr):
        a = const(a, b.dtype.element)
    if not isinstance(b, PrimExpr):
        b = const(b, a.dtype.element)
    if a.dtype.lanes != b.dtype.lanes:
        if a.dtype.lanes == 1:
            a = e.Broadcast(a, b.dtype.lanes)
        elif b.dtype.lanes == 1:
            b = e.Broadcast(b, a.dtype.lanes)
    if a.dtype is not b.dtype:
        raise IRTypeError(f"mismatched types in comparison: {a.dtype} vs {b.dtype}")
    return _COMPARE[operator](a, b)


def _tuple(evaluator: Evaluator, tree: Tree) -> tuple[Any, ...]:
    items: list[Any] = []
    for item in tree[2]:
        if item[0] == "starred":
            items.extend(evaluator(item[2]))
        else:
            items.append(evaluator(item))
    return tuple(items)


_EVALUATE: Final[dict[str, Callable[[Evaluator, Tree], Any]]] = {
    "name": Evaluator.name,
    "constant": lambda _, t: t[2],
    "parenthesized": lambda ev, t: ev(t[2]),
    "attribute": Evaluator.attribute,
    "call": Evaluator.call,
    "index": Evaluator.index,
    "binary": Evaluator.binary,
    "unary": Evaluator.unary,
    "conditional": Evaluator.conditional,
    "lambda": Evaluator.lambda_function,
    "tuple": _tuple,
    "list": lambda ev, t: list(_tuple(ev, t)),
    "dict": lambda ev, t: {ev(k): ev(v) for k, v in t[2]},
}

__all__ = ["Evaluator", "Scope", "Source", "Var"]
