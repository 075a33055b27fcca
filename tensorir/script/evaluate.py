"""Evaluating the expressions of a script.

A text has access to the names of the dialect only. A decorated function may also use the names of
the surrounding Python program, and call its functions.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import Any, Final

from tensorir.errors import DiagnosticError, IRTypeError, IRValueError
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import EqualOp, IntImm, IterVar, PrimExpr, Ramp
from tensorir.nodes.ops import as_expr, const
from tensorir.recursion import may_go_deeper
from tensorir.script.declarations import Allocator, called_from_script, view
from tensorir.script.frames import AxisNamespace, range_of
from tensorir.script.namespace import Namespace, check_arguments
from tensorir.script.records import Alias
from tensorir.script.scope import Scope
from tensorir.script.source import Place, Source
from tensorir.script.syntax import Tree

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
_UNDEFINED: Final = {
    True: "define it before, or import it where the function is",
    False: "define it before, or pass it to `parse` in `extra_vars`",
}
"""Remedies for an undefined name: in a decorated function (True), or in a text (False)."""
_GROUPS: Final = frozenset({tuple, list})
_COMPARE: Final[dict[str, tuple[type[e.CmpOp], Callable[[Any, Any], Any]]]] = {
    "<": (e.LT, operator.lt),
    "<=": (e.LE, operator.le),
    ">": (e.GT, operator.gt),
    ">=": (e.GE, operator.ge),
    "==": (e.EQ, operator.eq),
    "!=": (e.NE, operator.ne),
}
"""The node of each comparison, and the operator on Python values."""
_SMART: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
_CALLED: Final = re.compile(r"^[\w.<>]+\(\) ")
_LONGEST: Final = 1 << 20
"""The maximum number of bits, or of items, in the result of an operator on Python values."""


class ScriptObject:
    """An object of the dialect with attributes that are defined only in scripts."""

    def script_attribute(self, name: str) -> Any:
        """Return an attribute. Raises AttributeError for an unknown name."""
        raise NotImplementedError


class Evaluator:
    """Evaluates expression trees in a scope."""

    def __init__(self, source: Source, scope: Scope) -> None:
        self.source = source
        self.scope = scope
        self.depth_of_macros = 0
        """The number of macro calls that are being read, one inside another."""
        self.allocate: Allocator | None = None
        """Allocates a buffer of the function for Python code that the script calls."""

    def __call__(self, tree: Tree) -> Any:
        """Return the value of `tree`; a DiagnosticError points at the part that fails."""
        try:
            return _EVALUATE[tree[0]](self, tree)
        except DiagnosticError:
            raise
        except Exception as error:
            raise self.explain(error, tree[1]) from error

    def fail(self, message: str, place: Place) -> DiagnosticError:
        """Return the error for a place."""
        return self.source.error(message, place)

    def explain(self, error: Exception, place: Place) -> DiagnosticError:
        """Return the DiagnosticError for another error that was raised at a place.

        Raises the RecursionError again if a larger stack may prevent it.
        """
        if isinstance(error, RecursionError):
            if may_go_deeper():
                raise error
            text = "this is nested too deeply; bind parts of it to variables"
        elif isinstance(error, KeyError):
            text = f"KeyError: {error}"
        else:
            text = str(error) or type(error).__name__
        return self.fail(text, place)

    def guarded(self, place: Place, function: Callable[..., Any], *args: Any) -> Any:
        """Call `function`; its errors become a DiagnosticError that points at `place`."""
        try:
            return function(*args)
        except DiagnosticError:
            raise
        except Exception as error:
            raise self.explain(error, place) from error

    # ------------------------------------------------------------------------------------ operands

    def name(self, tree: Tree) -> Any:
        """Return the value of a name; an `Alias` is replaced by its value."""
        try:
            value = self.scope.lookup(tree[2])
        except KeyError:
            similar_name = self.scope.near(tree[2])
            hint = (
                f"did you mean {similar_name}?" if similar_name else _UNDEFINED[self.scope.trusted]
            )
            raise self.fail(f"Undefined variable: {tree[2]}; {hint}", tree[1]) from None
        return value.read() if isinstance(value, Alias) else value

    def attribute(self, tree: Tree) -> Any:
        """Return `owner.name`; scripts may read only some attributes."""
        owner, name = self(tree[2]), tree[3]
        kind = type(owner)
        if isinstance(owner, ScriptObject):
            return owner.script_attribute(name)
        if name.startswith("_"):
            raise self.fail(f"`{name}` is private and cannot be reached from a script", tree[1])
        if kind is Namespace:
            return getattr(owner, name)
        allowed = _PUBLIC_FIELDS.get(kind)
        if allowed is None and isinstance(owner, PrimExpr):
            allowed = frozenset({"dtype", "name", "value", "astype", "var"})
        if isinstance(owner, Buffer) and name == "view":
            return partial(view, owner)
        if self.scope.trusted if allowed is None else name in allowed:
            return getattr(owner, name)
        known = sorted(allowed or ())
        close = get_close_matches(name, known, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        if known and not close:
            hint = f"; it has {', '.join(known)}"
        raise self.fail(
            f"{_dotted_name(tree[2])} has no attribute {name!r} in a script{hint}", tree[1]
        )

    def call(self, tree: Tree) -> Any:
        """Call a function, with starred and keyword arguments unpacked."""
        function = self(tree[2])
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument in tree[3]:
            kind = argument[0]
            if kind == "keyword":
                if argument[2] in kwargs:
                    raise self.fail(f"the argument {argument[2]!r} is given twice", argument[1])
                kwargs[argument[2]] = self(argument[3])
            elif kind == "starred":
                args.extend(self.items([argument]))
            elif kind == "unpacked":
                kwargs.update(self(argument[2]))
            else:
                args.append(self(argument))
        if not callable(function):
            what = f"{_dotted_name(tree[2])}, a value of type {type(function).__name__},"
            raise self.fail(f"{what} cannot be called", tree[1])
        check_arguments(function, args, kwargs)
        try:
            if not self.scope.trusted or _is_dialect_function(function):
                return getattr(function, "in_script", function)(*args, **kwargs)
            with called_from_script(self.allocate):
                return function(*args, **kwargs)
        except TypeError as error:
            direct = error.__traceback__ is not None and error.__traceback__.tb_next is None
            if self.scope.trusted and not direct:
                raise
            # Python's message begins with the name of an internal Python function.
            raise IRTypeError(_CALLED.sub(f"{_dotted_name(tree[2])}() ", str(error))) from error

    def index(self, tree: Tree) -> Any:
        """Return `owner[...]`: a load or region of a buffer, an item, or a type of `T`."""
        owner, subscripts = self(tree[2]), tree[3]
        if isinstance(owner, Buffer):
            return self._access(owner, subscripts)
        if not hasattr(owner, "__getitem__"):
            what = owner.dtype if isinstance(owner, PrimExpr) else type(owner).__name__
            raise self.fail(
                f"{_dotted_name(tree[2])} is of type {what} and cannot be indexed", tree[1]
            )
        keys = self.items(subscripts)
        key = tuple(keys) if tree[4] else keys[0]
        if isinstance(owner, (list, tuple)) and isinstance(key, IntImm):
            key = key.value
        return owner[key]

    def items(self, trees: list[Tree]) -> list[Any]:
        """Return the values of subscripts or items, with starred ones unpacked."""
        values: list[Any] = []
        for tree in trees:
            if tree[0] == "starred":
                value = self(tree[2])
                values.extend(value.read() if isinstance(value, Alias) else value)
            else:
                values.append(self(tree))
        return values

    def slice(self, tree: Tree) -> slice:
        """Return a slice of a subscript."""
        return slice(*(None if part is None else self(part) for part in tree[2:5]))

    def _access(self, buffer: Buffer, subscripts: list[Tree]) -> Any:
        """Return a load, or a region if an index is a slice without a step."""
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
        for item in self.items(subscripts):
            items.extend(item if type(item) in _GROUPS else (item,))
        if len(items) != len(buffer.shape):
            raise IRValueError(
                f"buffer {buffer.name} has {len(buffer.shape)} dimension(s) "
                f"but is indexed with {len(items)}"
            )
        return items

    def indices(self, buffer: Buffer, items: list[Any]) -> list[PrimExpr]:
        """Return subscripts as indices; a slice becomes a `Ramp`."""
        return [
            _vector_index(item, extent) if isinstance(item, slice) else as_expr(item)
            for item, extent in zip(items, buffer.shape, strict=True)
        ]

    def store_indices(self, buffer: Buffer, subscripts: list[Tree]) -> list[PrimExpr]:
        """Return the indices of an element that is stored to."""
        return self.indices(buffer, self._items(buffer, subscripts))

    # ----------------------------------------------------------------------------------- operators

    def binary(self, tree: Tree) -> Any:
        """Apply a binary operator, including comparisons, `and` and `or`."""
        sign = tree[2]
        a, b = _operand(self(tree[3])), _operand(self(tree[4]))
        if sign in ("and", "or"):
            return _logical(sign, a, b)
        if sign in _COMPARE:
            left = tree[3]
            if left[0] == "binary" and left[2] in _COMPARE and not _compares_truth(a, b):
                raise IRTypeError(
                    f"comparisons do not chain: `a {left[2]} b {sign} c` would compare the "
                    f"truth of the first with c; write `a {left[2]} b and b {sign} c`"
                )
            return _compare(sign, a, b)
        if sign == "**":
            raise IRTypeError("`**` is not supported; write T.pow(a, b)")
        if not isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
            _require_small(sign, a, b)
        try:
            return _SMART[sign](a, b)
        except TypeError as error:
            if not str(error).startswith("unsupported operand"):
                raise
            kinds = f"{type(a).__name__} and {type(b).__name__}"
            raise IRTypeError(f"the operator `{sign}` does not support {kinds}") from error

    def unary(self, tree: Tree) -> Any:
        """Apply `not`, `-` or `~`."""
        sign, value = tree[2], _operand(self(tree[3]))
        if sign == "not":
            return e.Not(value) if isinstance(value, PrimExpr) else not value
        return -value if sign == "-" else ~value

    def conditional(self, tree: Tree) -> Any:
        """Choose a side of `a if c else b`; the condition must be a Python bool."""
        condition = self(tree[3])
        if isinstance(condition, (PrimExpr, EqualOp)):
            raise self.fail(
                "`a if c else b` needs a Python bool; write T.if_then_else(c, a, b)", tree[1]
            )
        return self(tree[2] if condition else tree[4])

    def lambda_function(self, tree: Tree) -> Any:
        """Return a Python function for a lambda, with the names of its parameters."""
        parameters, body = tree[2], tree[3]
        signature = _signature(parameters)

        def function(*args: Any) -> Any:
            try:
                bound = signature.bind(*args).arguments
            except TypeError:
                raise IRTypeError(
                    f"the lambda takes {len(parameters)} argument(s), got {len(args)}"
                ) from None
            self.scope.push()
            try:
                for name, value in bound.items():
                    self.scope.define(name, value)
                return self(body)
            finally:
                self.scope.pop()

        function.__signature__ = signature  # type: ignore[attr-defined]
        return function


def _signature(parameters: list[tuple[bool, str]]) -> inspect.Signature:
    kinds = inspect.Parameter
    return inspect.Signature(
        [
            kinds(name, kinds.VAR_POSITIONAL if starred else kinds.POSITIONAL_OR_KEYWORD)
            for starred, name in parameters
        ]
    )


def _vector_index(item: slice, extent: PrimExpr) -> PrimExpr:
    """Return a slice of a dimension as a vector of indices; a negative step counts down."""
    step = as_expr(1 if item.step is None else item.step)
    if not isinstance(step, IntImm) or step.value == 0:
        raise IRValueError(f"the step of a slice must be a constant other than 0, got {step}")
    first, last = const(0, extent.dtype), extent
    if step.value < 0:
        first, last = extent - 1, const(-1, extent.dtype)
    low = first if item.start is None else as_expr(item.start)
    high = last if item.stop is None else as_expr(item.stop)
    span = range_of(low, high).extent
    if not isinstance(span, IntImm) or span.value * step.value <= 0:
        raise IRValueError(
            "a slice in a vector access must have a constant length of at least 1, "
            f"got {low}:{high}:{step}"
        )
    lanes = -(-span.value // step.value)
    return low if lanes == 1 else Ramp(low, step, lanes)


def _range(item: Any, extent: PrimExpr) -> Range:
    if not isinstance(item, slice):
        return Range.point(as_expr(item))
    low = const(0, extent.dtype) if item.start is None else as_expr(item.start)
    return range_of(low, extent if item.stop is None else as_expr(item.stop))


def _is_dialect_function(function: Callable[..., Any]) -> bool:
    """Return True for a function of the dialect, False for one of the program around the script."""
    module = getattr(function, "__module__", None)
    return isinstance(module, str) and module.startswith("tensorir.")


def _dotted_name(tree: Tree) -> str:
    """Return the dotted name of an expression for an error message, or "this"."""
    if tree[0] == "attribute":
        return f"{_dotted_name(tree[2])}.{tree[3]}"
    return str(tree[2]) if tree[0] == "name" else "this"


def _operand(value: Any) -> Any:
    return as_expr(value) if isinstance(value, (BufferRegion, EqualOp, IterVar)) else value


def _require_small(sign: str, a: Any, b: Any) -> None:
    """Reject long shifts and long repetitions, because their results may exceed the memory."""
    if sign == "<<" and isinstance(b, int) and b > _LONGEST:
        raise IRValueError(f"a shift by {b} bits is too long")
    if sign == "*":
        for items, times in ((a, b), (b, a)):
            if isinstance(items, (str, list, tuple)) and len(items) * times > _LONGEST:
                raise IRValueError(f"repeating {len(items)} items {times} times is too long")


def _logical(sign: str, a: Any, b: Any) -> Any:
    if not isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
        return (a and b) if sign == "and" else (a or b)
    return (e.And if sign == "and" else e.Or)(*_match_lanes(as_expr(a), as_expr(b)))


def _compares_truth(a: Any, b: Any) -> bool:
    """Return True if `x < y == b` cannot mean `x < y and y == b`, only `(x < y) == b`."""
    truth = isinstance(b, PrimExpr) and b.dtype.is_bool
    return truth and isinstance(a, e.CmpOp) and not a.b.dtype.is_bool


def _compare(sign: str, a: Any, b: Any) -> Any:
    if not isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
        return bool(_COMPARE[sign][1](a, b))
    if not isinstance(a, PrimExpr):
        a = exact_const(a, b.dtype.element)
    if not isinstance(b, PrimExpr):
        b = exact_const(b, a.dtype.element)
    a, b = _match_lanes(a, b)
    if a.dtype is not b.dtype:
        raise IRTypeError(f"mismatched types in comparison: {a.dtype} vs {b.dtype}")
    return _COMPARE[sign][0](a, b)


def exact_const(value: Any, dtype: DataType) -> PrimExpr:
    """Return a Python number as an immediate.

    Raises IRTypeError if the dtype cannot represent it.
    """
    if dtype.is_integral and (value != int(value) or (dtype.is_bool and value not in (0, 1))):
        raise IRTypeError(
            f"{value!r} is not representable in {dtype}; cast one side, or write its dtype"
        )
    return const(value, dtype)


def _match_lanes(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Return two operands with equal lanes: a scalar is broadcast to the other one."""
    if a.dtype.lanes == b.dtype.lanes:
        return a, b
    if a.dtype.lanes == 1:
        return e.Broadcast(a, b.dtype.lanes), b
    return a, e.Broadcast(b, a.dtype.lanes) if b.dtype.lanes == 1 else b


def _key(key: Any) -> Any:
    if isinstance(key, (list, dict)):
        raise IRTypeError(f"the keys of a dict must be strings, not {key!r}")
    return key


def _reject_starred(_: Evaluator, tree: Tree) -> Any:
    raise IRTypeError(
        "a starred value is only allowed in a tuple, a list, a subscript or the arguments of a call"
    )


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
    "tuple": lambda ev, t: tuple(ev.items(t[2])),
    "list": lambda ev, t: ev.items(t[2]),
    "slice": Evaluator.slice,
    "starred": _reject_starred,
    "dict": lambda ev, t: {_key(ev(k)): ev(v) for k, v in t[2]},
}
