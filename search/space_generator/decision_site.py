"""The sites of a trace where something is decided, and the subject of each decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from schedule import BlockRV, Instruction, LoopRV, Trace
from schedule.decisions.domain import ChoiceDomain, Decision, DecisionDomain, plain_decision
from schedule.decisions.tiles import InferredTileDomain, TileDomain
from schedule.primitives.sample_compute_location import LocationDomain
from schedule.random_state import RandomState
from schedule.trace.names import Names
from search.space_generator.annotations import PACKED, PARALLEL
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.rewriting.visit import collect_vars

TILE: Final = "tile"
LOCATION: Final = "location"
KNOB: Final = "knob"
"""The operand of a sampling instruction that names its decision."""


@dataclass(frozen=True)
class Site:
    """One instruction of a trace that decides something.

    `domain` is None for a sampling primitive that declares none: it can only be sampled anew.
    `purpose` is the key of the annotation that a sampled number ends in, `TILE` for tiles,
    `LOCATION` for places of blocks, else the name of the kind of instruction. `name` says what is
    decided, as in "tile of loop 0 of C", or is the name of a knob; `variables` has the names of the
    outputs as the trace prints them.
    """

    inst: Instruction
    domain: DecisionDomain | None
    purpose: str
    name: str
    variables: str

    @property
    def is_sampling(self) -> bool:
        """True if the decision was sampled; else it is the number that an annotation has."""
        return self.inst.kind.has_decision

    @property
    def size(self) -> int | None:
        """The number of alternatives, None if it is not known."""
        return None if self.domain is None else self.domain.size

    def may_decide(self, decision: Any, own: Any) -> bool:
        """Say whether a stored decision means something here, as `own` does.

        It may be one that does not fit any more and is repaired where it is applied.
        """
        if self.domain is None or decision is None or decision == own:
            return True
        try:
            numbers, known = map(self.domain.numbers, (self.domain.repair(decision), own))
        except (ValueError, TypeError):
            return False
        return numbers is None or known is None or len(numbers) == len(known)

    def numbers(self, decision: Any) -> tuple[float, ...] | None:
        """Return the numbers that a decision gives the program, None if it gives its structure."""
        if not self.is_sampling:
            return (decision,)
        return None if self.domain is None else self.domain.numbers(decision)

    def decision_in(self, decisions: Mapping[Instruction, Any], inst: Instruction) -> Any:
        """Return the decision of `inst`, which stands at this site; None if it has none."""
        value = decisions.get(inst) if self.is_sampling else annotated_number(inst)
        return None if value is None else plain_decision(value)


def sites_of(
    insts: Sequence[Instruction], applied: Sequence[Instruction] | None = None
) -> tuple[Site, ...]:
    """Return the sampling instructions in order, then the annotations whose number may change.

    `applied` are the same instructions as they were applied to a program, if they are others; they
    know their domains.
    """
    index = _Index(insts)
    pairs = zip(insts, insts if applied is None else applied, strict=True)
    sampling = [index.sampling(inst, twin.domain) for inst, twin in pairs if inst.kind.has_decision]
    constant = [site for inst in insts for site in index.constant(inst)]
    return (*sampling, *constant)


def parallel_extents(present: int) -> ChoiceDomain:
    """Return how many parallel iterations to consider where `present` are asked for.

    None, and the powers of two up to that number: the outer loops are fused until they have more
    iterations, and each loop that matters at least doubles them, so these lead to all the different
    fusions.
    """
    powers = [1 << k for k in range(present.bit_length())]
    return JobsDomain(tuple(dict.fromkeys((SERIAL, *powers, present))))


@dataclass(frozen=True)
class JobsDomain(ChoiceDomain):
    """Numbers of parallel iterations; the first of them, 0, makes no loop parallel."""

    def sample(self, rng: RandomState) -> Decision:
        """Draw the largest number, or none with the probability 1/4: others are steps away."""
        return self.values[0 if rng.uniform_int(0, _ONE_IN) == 0 else -1]


SERIAL: Final = 0
"""The number of parallel iterations that makes no loop parallel."""
_ONE_IN: Final = 4

_NUMBERS: Final[dict[str, Callable[[int], DecisionDomain]]] = {PARALLEL: parallel_extents}
"""The annotations whose number may change, with their alternatives."""
_SERIAL: Final = {PARALLEL: SERIAL, PACKED: 1}
"""The annotations of parallel iterations, with the number that asks for none."""


def annotated_number(inst: Instruction) -> int | None:
    """Return the number that an instruction annotates, None if it annotates none."""
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
    """Return a trace, without postprocessing, in which postprocessors make no loop parallel.

    None where they make none anyway.
    """
    insts = trace.instructions(remove_postproc=True)
    jobs = {inst: _jobs(inst) for inst in insts}
    if not any(number is not None and number > least for least, number in jobs.values()):
        return None
    serial = [
        inst if number is None else with_number(inst, least)
        for inst, (least, number) in jobs.items()
    ]
    return Trace(serial, {i: d for i, d in trace.decisions.items() if i in set(insts)})


def _jobs(inst: Instruction) -> tuple[int, int | None]:
    """Return what an annotation of parallel iterations says at least, and says; None for others."""
    number = annotated_number(inst)
    key = None if number is None else inst.value_of("ann_key")
    return _SERIAL.get(str(key), 0), number if key in _SERIAL else None


class _Index:
    """The makers and the users of the random variables of some instructions."""

    def __init__(self, insts: Sequence[Instruction]) -> None:
        self._makers: dict[Any, tuple[Instruction, int]] = {}
        self._annotations: dict[Any, Instruction] = {}
        self._names: dict[Any, str] = {}
        names = Names("tensorir")
        for inst in insts:
            for position, output in enumerate(inst.outputs):
                self._names[output] = names.define(output)
                self._makers[output] = (inst, position)
            if inst.kind.name == "Annotate":
                value = inst.value_of("ann_val")
                if isinstance(value, PrimExpr):
                    for var in collect_vars(value):
                        self._annotations.setdefault(var, inst)

    def sampling(self, inst: Instruction, domain: DecisionDomain | None) -> Site:
        variables = ", ".join(self._names[output] for output in inst.outputs if output is not None)
        annotation = next(
            (self._annotations[rv] for rv in inst.outputs if rv in self._annotations), None
        )
        if annotation is not None:
            purpose, about = annotation.value_of("ann_key"), annotation
        else:
            purpose, about = _purpose(inst, domain), inst
        named = any(param.name == KNOB for param in inst.kind.params)
        name = str(inst.value_of(KNOB)) if named else self._name(purpose, about)
        return Site(inst, domain, purpose, name, variables)

    def constant(self, inst: Instruction) -> Iterator[Site]:
        number = annotated_number(inst)
        if number is not None and number >= 0:
            key = inst.value_of("ann_key")
            if key in _NUMBERS:
                yield Site(inst, _NUMBERS[key](number), key, self._name(key, inst), "")

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
    # The places are found anew by each replay, and a replay that nobody steps from has none.
    if isinstance(domain, LocationDomain) or inst.kind.name == "SampleComputeLocation":
        return LOCATION
    return inst.kind.name


def decision_columns(sites: Sequence[Site], decisions: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each column.

    A decision of several numbers has a column for each, `name[0]` the first. Sites of the same name
    are numbered; where there are no sites, as their program is not known, decisions are `site 0`
    and so on, as are those that a file has beyond them. A value is what the decision stands for,
    where its site knows that.
    """
    names = site_names(sites)
    for k, decision in enumerate(decisions):
        is_known = k < len(names)
        name = names[k] if is_known else f"site {k}"
        if isinstance(decision, (list, tuple)) and len(decision) != 1:
            yield from ((f"{name}[{j}]", number) for j, number in enumerate(decision))
            continue
        number = decision[0] if isinstance(decision, (list, tuple)) else decision
        domain = sites[k].domain if is_known else None
        yield name, number if domain is None or number is None else _labelled(domain, number)


def site_names(sites: Sequence[Site]) -> list[str]:
    """Return the names of sites, numbered where several are the same."""
    names = [site.name for site in sites]
    return [
        name if names.count(name) == 1 else f"{name} ({names[:k].count(name) + 1})"
        for k, name in enumerate(names)
    ]


def decision_value(site: Site, decision: Any) -> Any:
    """Return what a decision stands for: factors as a tuple, a candidate, a place as text."""
    if isinstance(decision, (list, tuple)):
        return tuple(decision)
    if site.domain is None and site.purpose == LOCATION:
        return LocationDomain((decision,)).label(decision)
    return decision if site.domain is None else _labelled(site.domain, decision)


def _labelled(domain: DecisionDomain, decision: Any) -> Any:
    """Return the alternative that a decision stands for: a number where that is one.

    What is no decision of the domain, as it may stand in a file, is returned as it is.
    """
    try:
        if domain.repair(decision) != decision or isinstance(decision, float):
            return decision
        text = domain.label(decision)
    except (ValueError, TypeError, LookupError):
        return decision
    return int(text) if text.removeprefix("-").isdigit() else text
