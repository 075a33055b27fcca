"""Kinds of instruction, and how a primitive becomes one.

`@primitive` reads a function's signature, and nothing else is written by hand: parameters typed as
loops, blocks or sampled numbers are *inputs* of the instruction, the others *attributes*, and the
return annotation declares the outputs. The method on `Schedule`, the JSON form, the Python
text, replay and mutation follow from that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from weakref import ReferenceType

from schedule.decisions.domain import DecisionDomain
from schedule.handles import BlockRV, HandleTable, LoopRV, RandomVariable
from schedule.operands.handles import (
    BlockOperand,
    BlockOrLoopOperand,
    BlocksOrLoopOperand,
    BufferIndexOperand,
    BufferOperand,
    BufferSideOperand,
    LoopOperand,
)
from schedule.operands.index_maps import IndexMapOperand, PadValueOperand, RangesOperand
from schedule.operands.operand import Operand, Parameter
from schedule.operands.values import AnnotationOperand, IntsOperand, NumbersOperand, PlainOperand
from schedule.sref import StmtSRef
from tensorir.nodes.expr import Var

T = TypeVar("T")


BlockArg: TypeAlias = Annotated[StmtSRef, BlockOperand()]
LoopArg: TypeAlias = Annotated[StmtSRef, LoopOperand()]
LoopsArg: TypeAlias = Annotated[Sequence[StmtSRef], LoopOperand(many=True)]
LocationArg: TypeAlias = Annotated[StmtSRef, LoopOperand(takes_marks=True)]
BlockOrLoopArg: TypeAlias = Annotated[StmtSRef, BlockOrLoopOperand()]
UnnamedBlockOrLoopArg: TypeAlias = Annotated[StmtSRef, BlockOrLoopOperand(unnamed=True)]
ConsumersArg: TypeAlias = Annotated[
    Sequence[StmtSRef] | None, BlockOperand(many=True, omit_empty=True)
]
FactorsArg: TypeAlias = Annotated[Sequence[int | None], NumbersOperand(many=True, spread=True)]
AnnotationArg: TypeAlias = Annotated[Any, AnnotationOperand()]
IntsInput: TypeAlias = Annotated[Sequence[int], IntsOperand()]
IndexMapArg: TypeAlias = Annotated[Any, IndexMapOperand()]
IndexMapAttr: TypeAlias = Annotated[Any, IndexMapOperand("attr")]
PadValueAttr: TypeAlias = Annotated[Any, PadValueOperand("attr")]
IntInput: TypeAlias = Annotated[int, PlainOperand()]
BufferSideInput: TypeAlias = Annotated[str, BufferSideOperand()]
RangesInput: TypeAlias = Annotated[Any, RangesOperand()]
BufferArg: TypeAlias = Annotated[tuple[str, int], BufferOperand("attr")]
ReadIndex: TypeAlias = Annotated[int, BufferIndexOperand("attr", side="read")]
WriteIndex: TypeAlias = Annotated[int, BufferIndexOperand("attr", side="write")]
BlocksOrLoopArg: TypeAlias = Annotated[StmtSRef | Sequence[StmtSRef], BlocksOrLoopOperand()]

NewBlock: TypeAlias = Annotated[StmtSRef, "block"]
NewBlocks: TypeAlias = Annotated[Sequence[StmtSRef], "blocks"]
NewLoop: TypeAlias = Annotated[StmtSRef, "loop"]
NewLoops: TypeAlias = Annotated[Sequence[StmtSRef], "loops"]


@dataclass(frozen=True, slots=True)
class Sampled(Generic[T]):
    """The result of a sampling primitive: values of its outputs and the decision behind them."""

    value: T
    decision: Any


ChosenNumber: TypeAlias = Annotated[DecisionDomain, "expr", int | None]
ChosenNumbers: TypeAlias = Annotated[DecisionDomain, "exprs", Sequence[int] | None]
ChosenWords: TypeAlias = Annotated[DecisionDomain, "exprs", Sequence[str] | None]
"""The results of sampling primitives that return their alternatives: outputs and decision."""

Number: TypeAlias = Annotated[Sampled[int], "expr"]
SampledLoop: TypeAlias = Annotated[Sampled[StmtSRef], "loop"]


_HANDLES: Final[dict[str, type[BlockRV | LoopRV]]] = {"block": BlockRV, "loop": LoopRV}


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
        """True if the instruction does not change the program and may be dropped if unused."""
        self.method = function.__name__
        hints = get_type_hints(function, include_extras=True)
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())[1:]
        names = {p.name for p in parameters}
        result = get_args(hints.get("return")) if "return" in hints else ()
        self.returns_domain = result[:1] == (DecisionDomain,)
        """True if the function only returns the alternatives."""
        self.has_decision = "decision" in names or self.returns_domain
        self.decision_type: Any = result[2] if self.returns_domain else hints.get("decision")
        """The annotation of the decision of a sampling primitive, None for the others."""
        self.domain = function if self.returns_domain else domain
        """The function from operands to the alternatives of a sampling primitive; None: not
        declared.
        """
        self.takes_domain = domain is not None and "domain" in names
        """True if the function has a parameter for the alternatives."""
        self.injected = frozenset({"rng", "domain"} if self.takes_domain else {"rng"})
        """The parameters of the function that a caller does not pass."""
        self.params: tuple[Parameter, ...] = tuple(
            _parameter(p, hints[p.name])
            for p in parameters
            if p.name != "decision" and p.name not in self.injected
        )
        self.varies = tuple(p.operand.varies for p in self.params)
        """For each parameter, True if its value may contain random variables."""
        self.result = _result(hints.get("return"))
        """`""`, `block`, `blocks`, `loop`, `loops`, `expr` or `exprs`."""
        self.handle = _HANDLES.get(self.result.removesuffix("s"))
        """The class of the outputs, None if they are numbers."""
        self.several = self.result.endswith("s")
        """True if the outputs are a list."""
        self.summary = (inspect.getdoc(function) or "").split("\n", 1)[0]
        """The first line of the primitive's docstring."""

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
                else "import the module that registers it, if it is user-defined"
            )
            raise AttributeError(f"AttributeError: unknown instruction kind {name!r}; {remedy}")
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
            raise KeyError(f"unknown primitive {method}{hint}")
        return kind

    @property
    def call_name(self) -> str:
        """The name of the primitive in error messages."""
        return self.method.replace("_", "-")

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the arguments of a call in the order of the parameters, defaults filled in.

        A sampling primitive accepts one more positional argument: the decision, as the last one.
        Raises TypeError, worded as by Python, for a call that does not fit the signature.
        """
        known = [p.name for p in self.params]
        for name in kwargs:
            if name not in known:
                close = get_close_matches(name, known, 1)
                hint = f"do you mean {close[0]!r}?" if close else f"it accepts {', '.join(known)}"
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
        entries: dict[str, list[Any]] = {"input": [], "attr": []}
        for param, value in zip(self.params, values, strict=True):
            entries[param.operand.role] += param.operand.stored(value)
        return entries["input"], entries["attr"]

    def unpack(self, inputs: Sequence[Any], attrs: Sequence[Any]) -> list[Any]:
        """Return the arguments that `pack` stored.

        Missing trailing values, as in older traces, get the parameters' defaults. Raises
        ValueError, which names the kind, for a wrong number of values.
        """
        entries = {"input": list(inputs), "attr": list(attrs)}
        values: list[Any] = []
        for param in self.params:
            operand, source = param.operand, entries[param.operand.role]
            if operand.spread or len(source) >= operand.width:
                try:
                    values.append(operand.taken(param, source))
                except TypeError as error:
                    raise TypeError(f"{self.name}: TypeError: {error}") from None
            elif param.required:
                raise ValueError(self._wrong_count(operand.role, f"`{param.name}` is missing"))
            else:
                values.append(() if operand.many else param.default)
        for role, left in entries.items():
            if left:
                raise ValueError(self._wrong_count(role, f"{len(left)} too many"))
        return values

    def _wrong_count(self, role: str, what: str) -> str:
        count = "kNumInputs" if role == "input" else "kNumAttrs"
        names = [f"`{p.name}`" for p in self.params if p.operand.role == role]
        return f"{self.name}: ValueError: {count}: {what}, it has {', '.join(names) or 'none'}"

    def output(self, name: str, maker: ReferenceType[HandleTable] | None = None) -> RandomVariable:
        """Return a new random variable for an output; `name` is used if it is a number."""
        return Var(name) if self.handle is None else self.handle(maker)

    def __repr__(self) -> str:
        return f"InstructionKind({self.name})"


class Instruction:
    """One step of a trace: a kind with its arguments and outputs.

    `values` has one entry for each parameter of the primitive. A trace finds its decision by the
    identity of the instruction. `domain` has the alternatives of a sampling instruction when it was
    applied. It is None before that, if the primitive declares no domain, and if the domain was not
    computed.
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
    values; it checks every precondition (`schedule.errors.check` raises) before it calls
    `state.replace`, and returns references to new blocks and loops. `pure` declares that the
    program does not change.

    A function that returns `ChosenNumber` or a related type is a sampling primitive: it returns the
    domain of the alternatives, and the schedule chooses one. A function with a keyword parameter
    `decision` is a sampling primitive, too: it also has a parameter `rng`, the schedule's
    `RandomState`, and returns `Sampled`.

    `domain(state, *operands)` returns the alternatives of a sampling primitive, so that the search
    can step from one to another; without it, a mutation draws again. A primitive with a keyword
    parameter `domain` gets the domain. Otherwise, the schedule may skip computing the domain for a
    given decision, because checking the decision may be faster.

    Raises ValueError for a name that exists already, and for a domain of a primitive without a
    decision.
    """

    def register(function: Callable[..., T]) -> Callable[..., T]:
        kind = InstructionKind(name, function, is_pure=pure, domain=domain)
        if domain is not None and not kind.has_decision:
            raise ValueError(f"{name} declares a domain but has no parameter `decision`")
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
    """Call `listener` for every registered kind, now and in future."""
    _listeners.append(listener)
    for kind in InstructionKind._registry.values():
        listener(kind)


_PLAIN: Final = PlainOperand("attr")


def _parameter(parameter: inspect.Parameter, annotation: Any) -> Parameter:
    operand: Operand = _PLAIN
    if get_origin(annotation) is Annotated:
        operand = next((m for m in get_args(annotation)[1:] if isinstance(m, Operand)), _PLAIN)
    variadic = parameter.kind is inspect.Parameter.VAR_POSITIONAL
    if variadic:
        operand = replace(operand, many=True, spread=True, unnamed=True)
    keyword_only = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    return Parameter(parameter.name, operand, parameter.default, annotation, variadic, keyword_only)


def _result(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        return str(get_args(annotation)[1])
    return ""
