"""The knobs of a trace, which are the decisions that a search varies, and their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from schedule import BlockRV, Instruction, LoopRV, Schedule, Trace
from schedule.decisions.domain import ChoiceDomain, Decision, DecisionDomain, plain_decision
from schedule.decisions.tiles import InferredTileDomain, TileDomain
from schedule.primitives.sample_compute_location import LocationDomain
from schedule.random_state import RandomState
from schedule.trace.python_text import Names
from search.errors import TuningError
from search.kinds import suggestion
from search.space_generator.annotations import PACKED, PARALLEL
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.rewriting.visit import collect_vars
from tensorir.text_table import aligned, html_table

if TYPE_CHECKING:
    from search.database.records import TuningRecord


TILE: Final = "tile"
LOCATION: Final = "location"
THREADS: Final = "threads"
KNOB: Final = "knob"
"""The operand of a sampling instruction that names its decision."""
SERIAL: Final = 0
"""The number of parallel iterations that makes no loop parallel."""
_SERIAL_CHANCE: Final = 4
"""Serial loops are drawn with the probability 1/4."""
_LEAST: Final = {PARALLEL: SERIAL, PACKED: 1}
"""The annotations of parallel iterations, each with the number that makes no loop parallel."""


@dataclass(frozen=True)
class Knob:
    """An instruction of a trace with a decision that a search varies.

    It is a sampling instruction, or an annotation with the number of parallel iterations. `domain`
    has the alternatives, None for a sampling primitive that declares none: its decision can only be
    sampled again. `purpose` is the key of the annotation that uses the sampled number, `TILE`,
    `LOCATION`, `THREADS` for the extent of a loop that is bound to threads, or else the name of the
    instruction kind. `name` describes the decision, as in
    "tile of loop 0 of C", or is the name that the program gave a knob. `variables` are the names of
    the outputs in the printed trace.
    """

    inst: Instruction
    domain: DecisionDomain | None
    purpose: str
    name: str
    variables: str

    @property
    def is_sampling(self) -> bool:
        """True for a sampling instruction, False for an annotation."""
        return self.inst.kind.has_decision

    @property
    def size(self) -> int | None:
        """The number of alternatives, None if unknown."""
        return None if self.domain is None else self.domain.size

    def accepts(self, decision: Any, own: Any) -> bool:
        """Return True if a stored decision has the form of `own`, a decision of this knob.

        Its value may be out of range: replaying repairs it.
        """
        if self.domain is None or decision is None or decision == own:
            return True
        try:
            numbers, known = map(self.domain.numbers, (self.domain.repair(decision), own))
        except (ValueError, TypeError):
            return False
        return numbers is None or known is None or len(numbers) == len(known)

    def numbers(self, decision: Any) -> tuple[float, ...] | None:
        """Return the numbers that a decision puts into the program; None if it is structural."""
        if not self.is_sampling:
            return (decision,)
        return None if self.domain is None else self.domain.numbers(decision)

    def decision_in(self, decisions: Mapping[Instruction, Any], inst: Instruction) -> Any:
        """Return the decision of `inst`, the instruction of this knob in another trace, or None."""
        value = decisions.get(inst) if self.is_sampling else annotated_number(inst)
        return None if value is None else plain_decision(value)


def knobs_in(
    insts: Sequence[Instruction], applied: Sequence[Instruction] | None = None
) -> tuple[Knob, ...]:
    """Return the knobs of a trace: sampling instructions in order, then annotations.

    `applied` are the same instructions after they were applied to a program, which sets their
    domains; by default `insts` are these.
    """
    index = _Index(insts)
    pairs = zip(insts, insts if applied is None else applied, strict=True)
    sampling = [index.sampling(inst, twin.domain) for inst, twin in pairs if inst.kind.has_decision]
    constant = [knob for inst in insts for knob in index.constant(inst)]
    return (*sampling, *constant)


def parallel_extents(present: int) -> ChoiceDomain:
    """Return the numbers of parallel iterations to consider instead of `present`.

    These are 0 and the powers of two up to `present`. Outer loops are fused until they exceed the
    number, and each relevant loop at least doubles it, so these numbers reach all fusions.
    """
    powers = [1 << k for k in range(present.bit_length())]
    return JobsDomain(tuple(dict.fromkeys((SERIAL, *powers, present))))


@dataclass(frozen=True)
class JobsDomain(ChoiceDomain):
    """Numbers of parallel iterations; the first one, 0, makes no loop parallel."""

    def sample(self, rng: RandomState) -> Decision:
        """Draw the largest number, or 0 with the probability 1/4; mutation reaches the others."""
        return self.values[0 if rng.uniform_int(0, _SERIAL_CHANCE) == 0 else -1]


def annotated_number(inst: Instruction) -> int | None:
    """Return the number that an instruction annotates, None for other instructions."""
    if inst.kind.name != "Annotate":
        return None
    value = inst.value_of("ann_val")
    if isinstance(value, IntImm):
        return int(value.value)
    return value if type(value) is int else None


def with_number(inst: Instruction, number: int) -> Instruction:
    """Return an annotation with another number."""
    names = [param.name for param in inst.kind.params]
    values = list(inst.values)
    values[names.index("ann_val")] = number
    return Instruction(inst.kind, values, inst.outputs)


def serial_form(trace: Trace) -> Trace | None:
    """Return a trace, without postprocessing, for which postprocessors make no loop parallel.

    None if they make no loop of the given trace parallel either.
    """
    insts = trace.instructions(remove_postproc=True)
    serial = [_serial(inst) for inst in insts]
    if serial == list(insts):
        return None
    return Trace(serial, {i: d for i, d in trace.decisions.items() if i in set(insts)})


def _serial(inst: Instruction) -> Instruction:
    """Return an annotation of parallel iterations with its least number, others unchanged."""
    number = annotated_number(inst)
    least = None if number is None else _LEAST.get(str(inst.value_of("ann_key")))
    if number is None or least is None or number <= least:
        return inst
    return with_number(inst, least)


class _Index:
    """The instructions that define and use the random variables of a trace."""

    def __init__(self, insts: Sequence[Instruction]) -> None:
        self._makers: dict[Any, tuple[Instruction, int]] = {}
        self._annotations: dict[Any, Instruction] = {}
        self._splits: dict[Any, Instruction] = {}
        """The first split by each factor."""
        self._bound: set[Any] = set()
        """The loops that are bound to threads."""
        self._names: dict[Any, str] = {}
        names = Names("tensorir")
        for inst in insts:
            for position, output in enumerate(inst.outputs):
                self._names[output] = names.define(output)
                self._makers[output] = (inst, position)
            if inst.kind.name == "Split":
                for factor in inst.value_of("factors"):
                    self._splits.setdefault(factor, inst)
            elif inst.kind.name == "Bind" and inst.value_of("thread_axis").startswith("threadIdx"):
                self._bound.add(inst.value_of("loop"))
            elif inst.kind.name == "Annotate":
                value = inst.value_of("ann_val")
                if isinstance(value, PrimExpr):
                    for var in collect_vars(value):
                        self._annotations.setdefault(var, inst)

    def sampling(self, inst: Instruction, domain: DecisionDomain | None) -> Knob:
        variables = ", ".join(self._names[output] for output in inst.outputs if output is not None)
        annotation = next(
            (self._annotations[rv] for rv in inst.outputs if rv in self._annotations), None
        )
        if annotation is not None:
            purpose, about = annotation.value_of("ann_key"), annotation
        elif (split := self._thread_split(inst)) is not None:
            purpose, about = THREADS, split
        else:
            purpose, about = _purpose(inst, domain), inst
        named = any(param.name == KNOB for param in inst.kind.params)
        name = str(inst.value_of(KNOB)) if named else self._name(purpose, about)
        return Knob(inst, domain, purpose, name, variables)

    def _thread_split(self, inst: Instruction) -> Instruction | None:
        """Return the split by a sampled number of threads, None for any other instruction."""
        if inst.kind.name != "SampleCategorical":
            return None
        split = self._splits.get(inst.outputs[0])
        return split if split is not None and self._bound.intersection(split.outputs) else None

    def constant(self, inst: Instruction) -> Iterator[Knob]:
        number = annotated_number(inst)
        if number is not None and number >= 0 and inst.value_of("ann_key") == PARALLEL:
            yield Knob(inst, parallel_extents(number), PARALLEL, self._name(PARALLEL, inst), "")

    def _name(self, purpose: str, inst: Instruction) -> str:
        short = purpose.rsplit(".", 1)[-1]
        for value in inst.values:
            if isinstance(value, (BlockRV, LoopRV)) and value in self._makers:
                return f"{short} of {self._subject(value)}"
        return short

    def _subject(self, handle: BlockRV | LoopRV) -> str:
        maker, position = self._makers[handle]
        if maker.kind.name == "GetBlock":
            return str(maker.value_of("name"))
        if maker.kind.name == "GetLoops":
            return f"loop {position} of {self._subject(maker.values[0])}"
        return self._names[handle]


def _purpose(inst: Instruction, domain: DecisionDomain | None) -> str:
    if isinstance(domain, (TileDomain, InferredTileDomain)):
        return TILE
    # Only a replay that keeps domains sets the domain of a location.
    if isinstance(domain, LocationDomain) or inst.kind.name == "SampleComputeLocation":
        return LOCATION
    return inst.kind.name


# --------------------------------------------------------------------------------- names and values


def knob_names(knobs: Sequence[Knob]) -> list[str]:
    """Return the names of knobs, numbered where several are equal: `tile of l5 (2)`."""
    names = [knob.name for knob in knobs]
    return [
        name if names.count(name) == 1 else f"{name} ({names[:k].count(name) + 1})"
        for k, name in enumerate(names)
    ]


def decision_columns(knobs: Sequence[Knob], decisions: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each column of a table of decisions.

    A decision of several numbers has a column for each, the first one called `name[0]`. Decisions
    without a knob, of a file whose program is unknown, are called `decision 0` and so on. The value
    is the alternative that was chosen if the knob has a domain, else the stored decision.
    """
    names = knob_names(knobs)
    for k, decision in enumerate(decisions):
        is_known = k < len(names)
        name = names[k] if is_known else f"decision {k}"
        if isinstance(decision, (list, tuple)) and len(decision) != 1:
            yield from ((f"{name}[{j}]", number) for j, number in enumerate(decision))
            continue
        number = decision[0] if isinstance(decision, (list, tuple)) else decision
        domain = knobs[k].domain if is_known else None
        yield name, number if domain is None or number is None else _alternative_of(domain, number)


def _value(knob: Knob, decision: Any) -> Any:
    """Return the value of a decision: a tuple of factors, an alternative, a location as text."""
    if decision is None:
        return None
    if isinstance(decision, (list, tuple)):
        return tuple(decision)
    if knob.domain is None and knob.purpose == LOCATION:
        return LocationDomain((decision,)).label(decision)
    return decision if knob.domain is None else _alternative_of(knob.domain, decision)


def _alternative_of(domain: DecisionDomain, decision: Any) -> Any:
    """Return the alternative for a decision, as a number if it is one.

    A decision of a file that is not in the domain is returned unchanged.
    """
    try:
        if domain.repair(decision) != decision or isinstance(decision, float):
            return decision
        text = domain.label(decision)
    except (ValueError, TypeError, LookupError):
        return decision
    return int(text) if text.removeprefix("-").isdigit() else text


class MissingDecisionError(KeyError):
    """The decisions of a schedule, which the text lists, have other names."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        listed = ", ".join(map(repr, known)) or "none"
        self.text = f"unknown decision {name!r}{suggestion(name, known)}; the schedule has {listed}"
        super().__init__(self.text)

    def __str__(self) -> str:
        return self.text


class NamedDecisions(dict[str, Any]):
    """The decisions of a schedule, by the names that tables and plots of a search use.

    | name | value |
    | --- | --- |
    | `tile of loop 0 of C` | the factors of the first loop of block C, outermost first: a tuple |
    | `location of C` | the compute location of block C: text |
    | `unroll_explicit of root`, a user-defined knob | the alternative: a number where it is one |

    Equal names are numbered: `tile of l5 (2)`. Printed, it is a table of names and values. Looking
    up an unknown name raises MissingDecisionError, a KeyError; `get` returns its default.
    """

    def __missing__(self, name: str) -> NoReturn:
        raise MissingDecisionError(name, list(self))

    def __str__(self) -> str:
        return aligned([(name, str(value)) for name, value in self.items()])

    def _repr_html_(self) -> str:
        return html_table([("decision", "value"), *((n, str(v)) for n, v in self.items())])


def named(knobs: Sequence[Knob], decisions: Sequence[Any]) -> NamedDecisions:
    """Return decisions, one for each knob, by name; undecided ones are None."""
    return NamedDecisions(zip(knob_names(knobs), map(_value, knobs, decisions), strict=True))


def decisions_of(schedule: Schedule | TuningRecord) -> NamedDecisions:
    """Return the decisions of a schedule, or of the schedule of a database record, by name.

        print(search.decisions_of(search.default_schedule(mod, target)))

    A `constraint` gets the same names and values. A schedule without sampling instructions has no
    decisions. Raises TuningError for any other argument.
    """
    sch = schedule if isinstance(schedule, Schedule) else _schedule_of(schedule)
    trace = sch.trace.simplified(remove_postproc=True)
    knobs = knobs_in(trace.insts)
    return named(knobs, [knob.decision_in(trace.decisions, knob.inst) for knob in knobs])


def _schedule_of(record: object) -> Schedule:
    make = getattr(record, "schedule", None)
    sch = make() if callable(make) else None
    if not isinstance(sch, Schedule):
        raise TuningError(
            f"decisions_of takes a Schedule or a record of a database, got {type(record).__name__};"
            " apply a trace to a schedule first: trace.apply_to_schedule(sch, False)"
        )
    return sch
