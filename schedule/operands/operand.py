"""The base class of operand kinds, and a call of a primitive whose arguments are being checked.

A user's argument is accepted in the form that the trace records: handles stay handles, names of
blocks and buffers are looked up. A recorded argument is resolved to the references and numbers that
the primitive's function takes; replaying a trace starts there.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Protocol, get_args

from schedule.errors import ArgumentError, ArgumentTypeError, TraceError, TraceTypeError
from schedule.handles import BlockRV, HandleTable, LoopRV
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import FloatImm, IntImm, PrimExpr
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import collect_vars, substitute


@dataclass(frozen=True)
class Operand:
    """The kind of one parameter of a primitive.

    The annotation of the parameter contains it: `Annotated[StmtSRef, LoopOperand()]`. A
    user-defined kind defines which values it accepts (`accept_one`). Values other than handles,
    numbers, text, index maps and sequences of those also need a form in the trace (`stored`,
    `checked`) and in its text (`text`).

    A user's argument goes through `accept`, an argument from JSON or text through `taken` and
    `checked`; both give the recorded form, which `resolve` turns into what the function gets.
    """

    role: str = "input"
    """`input` or `attr`: the list of the instruction that has the value."""
    many: bool = False
    """The parameter is a sequence of such values."""
    spread: bool = False
    """A sequence is stored element by element, not as one list."""
    unnamed: bool = False
    """The printed call shows the value without `name=`."""
    omit_empty: bool = False
    """The printed call omits an empty sequence."""

    varies: ClassVar[bool] = True
    """False if the function gets the recorded value, which is free of random variables."""
    width: ClassVar[int] = 1
    """The number of entries that a value has among the inputs or attributes."""
    is_list: ClassVar[bool] = False
    """The value is a list, which is stored as one."""
    what: ClassVar[str] = "value of the kind"
    """The noun for a value in errors of traces."""
    expected: ClassVar[str] = ""
    """The expected value in errors."""
    expected_list: ClassVar[str] = "a list"
    """The expected list of values in errors."""
    stub: ClassVar[str] = "Any"
    """The type in the signatures that editors see."""

    # ----------------------------------------------------------------------------- users' arguments

    def accept(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return a user's argument in the form that the trace records; raise for a wrong one."""
        if not (self.many or self.is_list):
            return self.accept_one(call, param, path, value)
        if not isinstance(value, (list, tuple)):
            call.refuse(path, self.expected_list, value)
        each = enumerate(value)
        return tuple([self.accept_one(call, param, f"{path}[{k}]", item) for k, item in each])

    def accept_one(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return one value in the form that the trace records."""
        if not self.fits(value):
            call.refuse(path, self.expected, value)
        return value

    def fits(self, value: Any) -> bool:
        """Return whether one value is of the kind."""
        return True

    def resolve(self, schedule: HandleTable, method: str, param: Parameter, value: Any) -> Any:
        """Return a recorded argument for the primitive's function, without random variables."""

        def one(value: Any) -> Any:
            if isinstance(value, PrimExpr):
                return schedule.get(value)
            if isinstance(value, (BlockRV, LoopRV)):
                return schedule.get_sref(value)
            return schedule.bind_index_map(value) if isinstance(value, IndexMap) else value

        return mapped(value, one, list)

    # -------------------------------------------------------------------------------------- traces

    def stored(self, value: Any) -> list[Any]:
        """Return the entries of a value among the inputs or attributes of an instruction."""
        return list(value) if self.spread else [value]

    def taken(self, param: Parameter, entries: list[Any]) -> Any:
        """Take the entries of a value from the front of a list, and return them as one value.

        `checked` converts the result back to the recorded value. There are at least `width`
        entries, unless the operand is spread.
        """
        if not self.spread:
            return entries.pop(0)
        value = tuple(entries)
        entries.clear()
        return value

    def checked(self, param: Parameter, value: Any, known: Mapping[str, Any], where: str) -> Any:
        """Return a value that was read from a trace; raise a TraceError for an invalid value."""
        value = plain(value)
        several = self.many or self.is_list or param.variadic
        for item in value if several and isinstance(value, tuple) else (value,):
            if not self.fits(item) and not (self.many and value is None):
                raise self.misfit(where, item)
        return value

    def misfit(self, where: str, value: Any) -> TraceError:
        """Return the error for a wrong value in a trace."""
        return TraceTypeError(f"TypeError: {where}: {value!r} is not a {self.what}")

    # ---------------------------------------------------------------------------------------- text

    def text(self, param: Parameter, value: Any, names: ValueText) -> str:
        """Return a value as Python."""
        return names.value(value, keep_type=True)

    def read(self, node: ast.expr, read: Callable[..., Any]) -> Any:
        """Return the value of printed Python; `read(node)` reads lists, numbers, handles, maps."""
        return read(node)

    def type_text(self, param: Parameter) -> str:
        """Return the type of a parameter in the signatures that editors see."""
        if not self.many or param.variadic:
            return self.stub
        optional = type(None) in get_args(get_args(param.annotation)[0])
        return f"Sequence[{self.stub}]{' | None' if optional else ''}"


class ValueText(Protocol):
    """Writes recorded values as Python: a table of the names of random variables."""

    def value(self, value: Any, *, keep_type: bool = False) -> str:
        """Return a value; with `keep_type` a whole number that is a float shows it."""

    def ranges(self, index_map: IndexMap) -> str:
        """Return an index map to begins and ends as a function that gives a list of pairs."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a primitive."""

    name: str
    operand: Operand
    default: Any
    annotation: Any
    variadic: bool
    keyword_only: bool

    @property
    def required(self) -> bool:
        """True if a call must give it."""
        return self.default is inspect.Parameter.empty and not self.variadic


class Call:
    """One call of a primitive while its arguments are being checked."""

    def __init__(self, schedule: HandleTable, method: str) -> None:
        self.schedule = schedule
        self.method = method
        self.accepted: dict[str, Any] = {}
        self.follow_ups: list[tuple[str, list[Any]]] = []
        """Instructions, by kind, that the arguments require after the call."""

    def accept(self, param: Parameter, value: Any) -> Any:
        """Return `value` in the form that the trace records.

        Raises ArgumentTypeError, which names the method, the parameter, and the expected and the
        given type; ArgumentError for a value that does not fit the block.
        """
        recorded = param.operand.accept(self, param, param.name, value)
        self.accepted[param.name] = recorded
        return recorded

    def refuse(self, path: str, expected: str, value: Any) -> NoReturn:
        """Raise the error for an argument of the wrong type."""
        raise ArgumentTypeError(self.method, path, expected, value)

    def reject(self, path: str, reason: str) -> NoReturn:
        """Raise the ArgumentError for an argument that does not fit the block."""
        raise ArgumentError(self.method, path, reason)

    def block(self) -> Block:
        """Return the block that the call is about; buffer names are looked up in it."""
        rv = self.accepted.get("block")
        if not isinstance(rv, BlockRV):
            self.refuse("block", "a BlockRV where a buffer is named", rv)
        return self.schedule.get_sref(rv).block


def plain(value: Any) -> Any:
    """Convert a value read from JSON or Python to its recorded form: tuples, Python numbers."""
    if isinstance(value, list):
        return tuple(tuple(v) if isinstance(v, list) else v for v in value)
    return python_number(value) if isinstance(value, (IntImm, FloatImm)) else value


def python_number(value: IntImm | FloatImm) -> bool | int | float:
    """Return a constant as the Python value that a trace records."""
    return bool(value.value) if value.dtype.is_bool else value.value


# ---------------------------------------------------------------------------------- recorded values


def mapped(value: Any, change: Callable[[Any], Any], sequence: Callable[[Any], Any] = tuple) -> Any:
    """Return a value with `change` applied to its parts; tuples and lists become a `sequence`."""
    if isinstance(value, (tuple, list)):
        return sequence([mapped(item, change, sequence) for item in value])
    if isinstance(value, dict):
        return {str(key): mapped(item, change, sequence) for key, item in value.items()}
    return change(value)


def substituted(value: Any, values: Mapping[Any, Any]) -> Any:
    """Return an expression or index map with variables replaced, except the map's own indices."""
    if isinstance(value, IndexMap):
        final = [substituted(e, values) for e in value.final_indices]
        return IndexMap(value.initial_indices, final, value.inverse_index_map)
    return substitute(value, {v: values[v] for v in collect_vars(value) if v in values})


def variables_of(value: Any) -> Iterator[Any]:
    """Yield the handles and variables in a value."""
    if isinstance(value, (BlockRV, LoopRV)):
        yield value
    elif isinstance(value, PrimExpr):
        yield from collect_vars(value)
    elif isinstance(value, IndexMap):
        own = set(value.initial_indices)
        for expr in value.final_indices:
            yield from (v for v in collect_vars(expr) if v not in own)
    elif isinstance(value, (tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from variables_of(item)
