"""Kinds of instruction, and how a primitive becomes one.

`@primitive` reads a function's signature, and nothing else is written by hand: parameters typed as
loops, blocks or sampled numbers are *inputs* of the instruction, the others *attributes*, and the
return annotation says what the outputs are. The method on `Schedule`, the JSON form, the Python
text, replay and mutation follow from that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from schedule.decisions.domain import DecisionDomain
from schedule.handles import RandomVariable
from schedule.sref import StmtSRef

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Operand:
    """The form in which an instruction stores one parameter of a primitive.

    `kind`: `block`, `loop`, `block_or_loop`, `expr` (a number, sampled or not), `annotation`,
    `ints`, `index_map`, `pad_value` (a number, or an index map that gives one), `ranges` (an index
    map that gives begins and ends), `buffer` (an index and whether it counts reads or writes),
    `buffer_side` (`read` or `write`), `buffer_index`, `block_list_or_loop` or `plain`.
    """

    kind: str
    role: str = "input"
    """`input` or `attr`."""
    many: bool = False
    """The parameter is a sequence of such values."""
    spread: bool = False
    """A sequence is stored element by element, not as one list."""
    unnamed: bool = False
    """The printed call shows the value without `name=`."""
    omit_empty: bool = False
    """The printed call leaves an empty sequence out."""
    takes_marks: bool = False
    """The loop may be the mark "inline" or "root" of a compute location."""
    side: str = ""
    """For an index of a buffer: whether it counts the block's `read` or `write` regions."""


BlockArg: TypeAlias = Annotated[StmtSRef, Operand("block")]
LoopArg: TypeAlias = Annotated[StmtSRef, Operand("loop")]
LocationArg: TypeAlias = Annotated[StmtSRef, Operand("loop", takes_marks=True)]
BlockOrLoopArg: TypeAlias = Annotated[StmtSRef, Operand("block_or_loop")]
UnnamedBlockOrLoopArg: TypeAlias = Annotated[StmtSRef, Operand("block_or_loop", unnamed=True)]
ConsumersArg: TypeAlias = Annotated[
    Sequence[StmtSRef] | None, Operand("block", many=True, omit_empty=True)
]
FactorsArg: TypeAlias = Annotated[Sequence[int | None], Operand("expr", many=True, spread=True)]
AnnotationArg: TypeAlias = Annotated[Any, Operand("annotation")]
IntsInput: TypeAlias = Annotated[Sequence[int], Operand("ints")]
IndexMapArg: TypeAlias = Annotated[Any, Operand("index_map")]
IndexMapAttr: TypeAlias = Annotated[Any, Operand("index_map", role="attr")]
PadValueAttr: TypeAlias = Annotated[Any, Operand("pad_value", role="attr")]
IntInput: TypeAlias = Annotated[int, Operand("plain")]
BufferSideInput: TypeAlias = Annotated[str, Operand("buffer_side")]
RangesInput: TypeAlias = Annotated[Any, Operand("ranges")]
BufferArg: TypeAlias = Annotated[tuple[str, int], Operand("buffer", role="attr")]
ReadIndex: TypeAlias = Annotated[int, Operand("buffer_index", role="attr", side="read")]
WriteIndex: TypeAlias = Annotated[int, Operand("buffer_index", role="attr", side="write")]
BlocksOrLoopArg: TypeAlias = Annotated[StmtSRef | Sequence[StmtSRef], Operand("block_list_or_loop")]

NewBlock: TypeAlias = Annotated[StmtSRef, "block"]
NewBlocks: TypeAlias = Annotated[Sequence[StmtSRef], "blocks"]
NewLoop: TypeAlias = Annotated[StmtSRef, "loop"]
NewLoops: TypeAlias = Annotated[Sequence[StmtSRef], "loops"]


@dataclass(frozen=True, slots=True)
class Sampled(Generic[T]):
    """The result of a sampling primitive: values of its outputs and the decision behind them."""

    value: T
    decision: Any


Number: TypeAlias = Annotated[Sampled[int], "expr"]
Numbers: TypeAlias = Annotated[Sampled[Sequence[int | None]], "exprs"]
SampledLoop: TypeAlias = Annotated[Sampled[StmtSRef], "loop"]


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


CONSTANTS: Final = frozenset({"plain", "buffer", "buffer_side", "buffer_index", "ints"})
"""The kinds of operand that are passed to a primitive as they are recorded."""

_DOMAIN_PARAMS: Final = ("domain", "find_domain")


class InstructionKind:
    """A primitive as the trace sees it."""

    _registry: ClassVar[dict[str, InstructionKind]] = {}
    _methods: ClassVar[dict[str, InstructionKind]] = {}

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        is_pure: bool,
        domain: Callable[..., DecisionDomain] | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self.is_pure = is_pure
        """True if the instruction leaves the program as it is, so that it may be dropped unused."""
        self.method = function.__name__
        hints = get_type_hints(function, include_extras=True)
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())[1:]
        names = {p.name for p in parameters}
        self.has_decision = "decision" in names
        self.decision_type: Any = hints.get("decision")
        """The annotation of the decision of a sampling primitive, None for the others."""
        self.domain = domain
        """Gives the alternatives of a sampling primitive for its operands; None: not declared."""
        self.domain_param = next((n for n in _DOMAIN_PARAMS if domain and n in names), None)
        """The parameter that takes the alternatives, or the function that finds them."""
        self.injected = frozenset({"rng", self.domain_param or "rng"})
        """The parameters of the function that a caller does not give."""
        self.params: tuple[Parameter, ...] = tuple(
            _parameter(p, hints[p.name])
            for p in parameters
            if p.name != "decision" and p.name not in self.injected
        )
        self.varies = tuple(p.operand.kind not in CONSTANTS for p in self.params)
        """For each parameter whether its value may have random variables in it."""
        self.result = _result(hints.get("return"))
        """`""`, `block`, `blocks`, `loop`, `loops`, `expr` or `exprs`."""
        self.summary = (inspect.getdoc(function) or "").split("\n", 1)[0]
        """The first line of the primitive's docstring."""
        self.inputs = tuple(p for p in self.params if p.operand.role == "input")
        self.attrs = tuple(p for p in self.params if p.operand.role == "attr")

    @staticmethod
    def get(name: str) -> InstructionKind:
        """Return the kind called `name`; AttributeError if none is registered."""
        # Newer releases of TVM call blocks SBlocks in the names of instructions.
        kind = InstructionKind._registry.get(name.replace("SBlock", "Block"))
        if kind is None:
            close = get_close_matches(name, InstructionKind._registry, 1)
            remedy = (
                f"do you mean {close[0]!r}?"
                if close
                else "import the module that registers it, if it is a primitive of your own"
            )
            raise AttributeError(f"AttributeError: there is no instruction kind {name!r}; {remedy}")
        return kind

    @staticmethod
    def all() -> list[InstructionKind]:
        """Return every registered kind, sorted by name."""
        return [kind for _, kind in sorted(InstructionKind._registry.items())]

    @staticmethod
    def of_method(method: str) -> InstructionKind:
        """Return the kind behind the `Schedule` method called `method`.

        Raises KeyError with the nearest name if there is none.
        """
        # Newer releases of TVM call blocks sblocks in the names of methods.
        kind = InstructionKind._methods.get(method.replace("sblock", "block"))
        if kind is None:
            close = get_close_matches(method, InstructionKind._methods, 1)
            hint = f"; do you mean {close[0]}?" if close else ""
            raise KeyError(f"there is no primitive {method}{hint}")
        return kind

    @property
    def call_name(self) -> str:
        """The name of the primitive in error messages."""
        return self.method.replace("_", "-")

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the arguments of a call in the order of the parameters, defaults filled in.

        One more positional argument is the decision of a sampling primitive, and comes last.
        Raises TypeError, as Python words it, for a call that does not fit.
        """
        known = [p.name for p in self.params]
        for name in kwargs:
            if name not in known:
                close = get_close_matches(name, known, 1)
                hint = f"do you mean {close[0]!r}?" if close else f"it takes {', '.join(known)}"
                raise TypeError(
                    f"Schedule.{self.method}() got an unexpected argument {name!r}; {hint}"
                )
        remaining, named = list(args), dict(kwargs)
        values: list[Any] = []
        for param in self.params:
            if param.variadic:
                values.append(tuple(remaining))
                remaining = []
            elif remaining:
                if param.name in named:
                    raise TypeError(
                        f"Schedule.{self.method}() got multiple values for argument {param.name!r}"
                    )
                values.append(remaining.pop(0))
            elif param.name in named:
                values.append(named.pop(param.name))
            elif param.required:
                raise TypeError(f"Schedule.{self.method}() is missing the argument {param.name!r}")
            else:
                values.append(param.default)
        if self.has_decision and len(remaining) == 1:
            values.append(remaining.pop())
        if remaining or named:
            raise TypeError(f"Schedule.{self.method}() got too many arguments")
        return values

    def pack(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the arguments of a call as the inputs and attributes of an instruction."""
        inputs: list[Any] = []
        attrs: list[Any] = []
        for param, value in zip(self.params, values, strict=True):
            operand = param.operand
            target = inputs if operand.role == "input" else attrs
            if operand.kind == "buffer":
                target.extend((value[1], 0 if value[0] == "read" else 1))
            elif operand.kind == "buffer_side":
                target.append(0 if value == "read" else 1)
            elif operand.spread:
                target.extend(value)
            else:
                target.append(value)
        return inputs, attrs

    def unpack(self, inputs: Sequence[Any], attrs: Sequence[Any]) -> list[Any]:
        """Return the arguments that `pack` stored.

        Missing trailing values, as older traces have them, get the parameters' defaults.
        Raises ValueError naming the kind for a count that does not fit.
        """
        given_inputs, given_attrs = list(inputs), list(attrs)
        values: list[Any] = []
        for param in self.params:
            operand = param.operand
            source = given_inputs if operand.role == "input" else given_attrs
            if operand.kind == "buffer":
                if len(source) < 2:
                    raise ValueError(self._missing(param))
                if type(source[0]) is not int or source[1] not in (0, 1):
                    raise TypeError(
                        f"{self.name}: TypeError: `{param.name}` is {source[:2]!r}; a buffer is "
                        "given by its index, and 0 if it is read or 1 if it is written"
                    )
                values.append(("write" if source.pop(1) else "read", source.pop(0)))
            elif operand.spread:
                values.append(tuple(source))
                source.clear()
            elif source and operand.kind == "buffer_side":
                values.append("write" if int(source.pop(0)) else "read")
            elif source:
                values.append(source.pop(0))
            elif param.required:
                raise ValueError(self._missing(param))
            else:
                values.append(() if operand.many else param.default)
        if given_inputs or given_attrs:
            count = "kNumInputs" if given_inputs else "kNumAttrs"
            extra = len(given_inputs or given_attrs)
            raise ValueError(
                f"{self.name}: ValueError: {count}: {extra} too many, "
                f"it takes {self._names('input' if given_inputs else 'attr')}"
            )
        return values

    def _missing(self, param: Parameter) -> str:
        role = param.operand.role
        count = "kNumInputs" if role == "input" else "kNumAttrs"
        return (
            f"{self.name}: ValueError: {count}: `{param.name}` is missing, "
            f"it takes {self._names(role)}"
        )

    def _names(self, role: str) -> str:
        """Return the names of the inputs, or of the attributes, of an instruction."""
        params = self.inputs if role == "input" else self.attrs
        return ", ".join(f"`{p.name}`" for p in params) or "nothing"

    def __repr__(self) -> str:
        return f"InstructionKind({self.name})"


class Instruction:
    """One step of a trace: a kind with its arguments and outputs.

    `values` has one entry a parameter of the primitive. Identity keys the decision in a trace.
    `domain` has the alternatives that a sampling had when it was applied; None for what was not
    applied yet, for a primitive that does not declare them, and where nobody looked for them.
    """

    __slots__ = ("domain", "kind", "outputs", "values")
    printer: ClassVar[Callable[[Instruction], str] | None] = None
    """The function that prints an instruction; the module that prints traces sets it."""

    def __init__(
        self,
        kind: InstructionKind,
        values: Sequence[Any],
        outputs: Sequence[RandomVariable | None],
        domain: DecisionDomain | None = None,
    ) -> None:
        self.kind = kind
        self.values = tuple(values)
        self.outputs = tuple(outputs)
        self.domain = domain

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The random variables and values that the instruction works on."""
        return tuple(self.kind.pack(self.values)[0])

    @property
    def attrs(self) -> tuple[Any, ...]:
        """The constants of the instruction."""
        return tuple(self.kind.pack(self.values)[1])

    def value_of(self, name: str) -> Any:
        """Return the argument for the parameter called `name`."""
        for param, value in zip(self.kind.params, self.values, strict=True):
            if param.name == name:
                return value
        raise KeyError(f"{self.kind.name} has no parameter {name!r}")

    def __str__(self) -> str:
        assert Instruction.printer is not None
        return Instruction.printer(self)


def primitive(
    name: str, *, pure: bool = False, domain: Callable[..., DecisionDomain] | None = None
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Register a function as the schedule primitive that traces call `name`.

    The function takes the `ScheduleState` first, then its operands as `StmtSRef`s and plain
    values; it checks every precondition (raising through `schedule.errors.fail`) before it calls
    `state.replace`, and returns references to what it made. A keyword parameter `decision` makes it
    a sampling primitive: it then also takes `rng`, the schedule's `RandomState`, and returns
    `Sampled`. `pure` says that the program stays as it is.

    `domain(state, *operands)` gives the alternatives of a sampling primitive, so that the search
    can step from one to another; without it they are drawn anew. A primitive with a keyword
    parameter `domain` gets what it returned; one with `find_domain` a function that returns it, for
    where it takes long and checking the decision at hand does not.

    Raises ValueError for a name that is taken, and for a domain of what decides nothing.
    """

    def register(function: Callable[..., T]) -> Callable[..., T]:
        kind = InstructionKind(name, function, is_pure=pure, domain=domain)
        if domain is not None and not kind.has_decision:
            raise ValueError(f"{name} declares a domain but takes no decision")
        if name in InstructionKind._registry or kind.method in InstructionKind._methods:
            raise ValueError(f"a schedule primitive called {name} ({kind.method}) exists already")
        InstructionKind._registry[name] = kind
        InstructionKind._methods[kind.method] = kind
        for listener in _listeners:
            listener(kind)
        return function

    return register


_listeners: Final[list[Callable[[InstructionKind], None]]] = []


def on_register(listener: Callable[[InstructionKind], None]) -> None:
    """Call `listener` for every kind, those registered already and those to come."""
    _listeners.append(listener)
    for kind in InstructionKind._registry.values():
        listener(kind)


_PLAIN: Final = Operand("plain", role="attr")


def _parameter(parameter: inspect.Parameter, annotation: Any) -> Parameter:
    operand = _PLAIN
    if get_origin(annotation) is Annotated:
        operand = next((m for m in get_args(annotation)[1:] if isinstance(m, Operand)), _PLAIN)
    variadic = parameter.kind is inspect.Parameter.VAR_POSITIONAL
    if variadic:
        operand = Operand(operand.kind, operand.role, many=True, spread=True, unnamed=True)
    keyword_only = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    return Parameter(parameter.name, operand, parameter.default, annotation, variadic, keyword_only)


def _result(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        return str(get_args(annotation)[1])
    return ""
