"""Knobs: the values that each offers, by index.

A knob is one sampling instruction of the trace that its template leaves, and the values that it
offers are the domain of that instruction. AutoTVM's policies are operands of the instruction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from schedule import LoopRV
from schedule.decisions.domain import DecisionDomain, NoDecision, OptionDomain
from schedule.decisions.knobs import NO_LIMIT
from schedule.primitives import sample_knob
from search.compat.autotvm.entities import (
    AnnotateEntity,
    Entity,
    OtherOptionEntity,
    ReorderEntity,
    SplitEntity,
)
from search.compat.autotvm.errors import KnobError
from tensorir.nodes.expr import IntImm, IterVar

if TYPE_CHECKING:
    from schedule import Schedule

E = TypeVar("E", bound=Entity)
V = TypeVar("V")

_MOST_SHOWN: Final = 16


# ------------------------------------------------------------------------------------------- axes


class VirtualAxis(NamedTuple):
    """The number of iterations of an axis, -1 if it is not constant, and the name of the axis."""

    length: int
    name: str = ""


@dataclass(frozen=True)
class Axis:
    """The axis `index` that applying the knob `space` results in; other knobs accept it."""

    space: object
    index: int


AxisLike: TypeAlias = "int | IntImm | VirtualAxis | Axis | LoopRV | IterVar"
"""A number of iterations, a loop of a schedule, an axis of a `te` operation, a part of a knob."""


def virtual_axis(axis: AxisLike) -> VirtualAxis:
    """Return the length and the name of an axis; KnobError for anything else."""
    if isinstance(axis, VirtualAxis):
        return axis
    if isinstance(axis, (int, np.integer)) and not isinstance(axis, bool):
        return VirtualAxis(int(axis))
    if isinstance(axis, IntImm):
        return VirtualAxis(axis.value)
    if isinstance(axis, LoopRV) and axis.schedule is not None:
        loop = axis.schedule.get(axis)
        return VirtualAxis(_constant(loop.extent), loop.loop_var.name)
    if isinstance(axis, IterVar):
        return VirtualAxis(_constant(None if axis.dom is None else axis.dom.extent), axis.var.name)
    raise KnobError(
        f"{axis!r} is not an axis; expected a loop of a schedule, an axis of a te operation or a "
        "number (the parts of another knob vary: split them in that knob)"
    )


def _constant(extent: object) -> int:
    return extent.value if isinstance(extent, IntImm) else -1


# ------------------------------------------------------------------------------------------ spaces


class KnobSpace(Generic[E]):
    """The values of one knob, by index: the decisions of its sampling instruction."""

    kind: type[E]
    """The class of the values."""
    primitive: ClassVar[str]
    """The method of a schedule that appends the sampling instruction."""
    num_output: int = 0
    """The number of axes that applying a value results in."""
    can_be_sampled: bool = True
    """True if primitives accept the sampled numbers of a value."""

    def __init__(self, policy: str, /, **options: Any) -> None:
        """Offer the domain of the sampling instruction with the operands `options`."""
        self.policy = policy
        self.options = options
        try:
            # The domain of a knob depends on no program, hence on no state of a schedule.
            make = getattr(sample_knob, self.primitive)
            self.domain: DecisionDomain = make(None, "", **options)
        except NoDecision as error:
            raise KnobError(f"{error.path} {error}") from None

    def sample(self, sch: Schedule, name: str, entity: E) -> None:
        """Append the sampling instruction of the knob, with the decision `entity`, to a trace."""
        getattr(sch, self.primitive)(name, **self.options, decision=entity._value)

    def index_of(self, entity: Entity) -> int | None:
        """Return the index of a value, None if the knob does not offer it."""
        return self.domain.index_of(tuple(entity._value))

    def fit_entity(self, entity: Entity) -> E:
        """Return a logged or assigned value as one of this knob, which need not offer it.

        Raises KnobError for a value of another kind or length.
        """
        if not isinstance(entity, self.kind):
            raise KnobError(
                f"it is a {self.kind.__name__}, the configuration has a "
                f"{type(entity).__name__}: {entity}"
            )
        try:
            return self.entity_of(self.domain.repair(entity._value))
        except ValueError as error:
            raise KnobError(f"the value {error}") from None

    def entity_of(self, decision: Any) -> E:
        """Return the value of a decision of the sampling instruction."""
        return self.kind(decision)

    @property
    def summary(self) -> str:
        """The policy and the number of values."""
        kind = type(self).__name__.removesuffix("Space")
        return f"{kind}(policy={self.policy}) len={len(self)}"

    def __len__(self) -> int:
        return self.domain.size

    def __getitem__(self, index: int) -> E:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} of {len(self)} values")
        return self.entity_of(self.domain.at(index % len(self)))

    def __iter__(self) -> Iterator[E]:
        return map(self.entity_of, self.domain)

    @property
    def entities(self) -> list[E]:
        """All values."""
        return list(self)

    def __repr__(self) -> str:
        return self.summary


class SplitSpace(KnobSpace[SplitEntity]):
    """The splits of an axis into `num_outputs` parts.

    `policy` is `factors` (the sizes are divisors), `power2` (powers of two), `verbose` (both; like
    `power2` it offers sizes that leave a tail, unless `no_tail`), or `candidate` with `candidate`,
    the list of sizes. No size is above `max_factor`. `filter` is called with each split.
    """

    kind = SplitEntity
    primitive = "sample_knob_split"

    def __init__(
        self,
        axis: AxisLike,
        policy: str = "factors",
        *,
        num_outputs: int | None = None,
        max_factor: int = NO_LIMIT,
        filter: Callable[[SplitEntity], bool] | None = None,
        no_tail: bool | None = None,
        candidate: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.product = virtual_axis(axis).length
        if (policy == "candidate") != bool(candidate):
            raise KnobError(
                f"policy='candidate' and candidate, the list of sizes, go together; got "
                f"policy={policy!r} and candidate={candidate}"
            )
        if candidate and num_outputs is None:
            num_outputs = len(candidate[0])
        if not isinstance(num_outputs, int):
            raise KnobError(f"num_outputs is {num_outputs}; expected an integer of at least 1")
        if not candidate and self.product < 1:
            raise KnobError("the number of iterations is not constant; pass it, or candidates")
        self.num_output = num_outputs
        shape = {"extent": max(1, self.product), "parts": num_outputs, "policy": policy}
        if candidate:
            super().__init__(policy, **shape, candidates=candidate)
        else:
            tailless = policy == "factors" if no_tail is None else no_tail
            super().__init__(policy, **shape, max_factor=max_factor, no_tail=tailless)
        try:
            splits = self.domain.alternatives
        except ValueError as error:
            raise KnobError(str(error)) from None
        if filter is not None:
            kept = [size for size in splits if accepts(filter, self.entity_of(size), "of sizes")]
            if not kept:
                raise KnobError("its filter rejects all candidates")
            super().__init__(policy, **{**shape, "policy": "candidate"}, candidates=kept)

    def index_of(self, entity: Entity) -> int | None:
        """Return the index of a split, None if the knob does not offer it.

        The first size may be explicit where the knob offers -1.
        """
        found = super().index_of(entity)
        return self.domain.index_of((-1, *entity._value[1:])) if found is None else found

    @property
    def summary(self) -> str:
        """The policy, and the numbers of iterations, of parts and of splits."""
        return (
            f"Split(policy={self.policy}, product={self.product}, "
            f"num_outputs={self.num_output}) len={len(self)}"
        )


class ReorderSpace(KnobSpace[ReorderEntity]):
    """The orders of some axes.

    `policy` is `all`, or `candidate` with `candidate`, a list of orders of the same axes.
    """

    kind = ReorderEntity
    primitive = "sample_knob_reorder"

    def __init__(
        self,
        axes: Sequence[AxisLike],
        policy: str,
        *,
        candidate: Sequence[Sequence[AxisLike]] | None = None,
    ) -> None:
        if policy not in ("all", "candidate") or (policy == "candidate") != bool(candidate):
            raise KnobError(
                f"policy={policy!r} of a reordering with candidate={candidate}; expected 'all', or "
                "'candidate' with candidate, the list of orders of the axes"
            )
        self.num_output = len(axes)
        orders = None if candidate is None else [_positions(axes, one) for one in candidate]
        super().__init__(policy, count=len(axes), candidates=orders)
        if self.domain.size >= 1 << 63:
            raise KnobError(
                f"{len(axes)} axes have more orders than int64 can count; reorder fewer at a time"
            )


def _positions(axes: Sequence[AxisLike], order: Sequence[AxisLike]) -> tuple[int, ...]:
    """Return the positions of the axes of an order among the axes."""
    places: dict[AxisLike, int] = {axis: position for position, axis in enumerate(axes)}
    if not len(places) == len(axes) == len(order) or set(order) != set(places):
        raise KnobError(f"{list(order)} is not an order of the axes {list(axes)}: use each once")
    return tuple(places[axis] for axis in order)


class AnnotateSpace(KnobSpace[AnnotateEntity]):
    """The annotations of some axes.

    `policy` consists of the words `try` (for no annotation), `unroll` and `vec`, as in
    `try_unroll_vec`: each axis may have any of them, but at most one axis is `vec`. Or it is
    `candidate` with `candidate`, a list of annotations of all axes.
    """

    kind = AnnotateEntity
    primitive = "sample_knob_annotate"

    def __init__(
        self,
        axes: Sequence[AxisLike],
        policy: str,
        *,
        candidate: Sequence[Sequence[str]] | None = None,
    ) -> None:
        self.num_output = len(axes)
        super().__init__(policy, count=len(axes), policy=policy, candidates=candidate)


class OtherOptionSpace(KnobSpace[OtherOptionEntity]):
    """One of the values of a list."""

    kind = OtherOptionEntity
    primitive = "sample_knob_option"
    domain: OptionDomain

    def __init__(self, candidate: Sequence[Any]) -> None:
        self._candidates = list(candidate)
        super().__init__("", candidates=self._candidates)
        self.can_be_sampled = self.domain.are_numbers
        self._places: dict[str, int] = {}
        for place, text in enumerate(self.domain.labels):
            self._places.setdefault(text, place)

    def index_of(self, entity: Entity) -> int | None:
        """Return the index of a value, None if the knob does not offer it."""
        place = self._places.get(json.dumps(entity._value, sort_keys=True, allow_nan=False))
        if place is not None:
            return place
        # Traces store True as 1.
        return next((k for k, one in enumerate(self._candidates) if one == entity._value), None)

    def sample(self, sch: Schedule, name: str, entity: OtherOptionEntity) -> None:
        """Append `sample_knob_option`; a value that is not offered is added to the candidates."""
        index = self.index_of(entity)
        added = [entity._value] if index is None else []
        decision = len(self._candidates) if index is None else index
        sch.sample_knob_option(name, self._candidates + added, decision=decision)

    def fit_entity(self, entity: Entity) -> OtherOptionEntity:
        """Return the candidate with the same JSON, such as a tuple for a list; else the value."""
        if not isinstance(entity, OtherOptionEntity):
            return super().fit_entity(entity)
        place = self.index_of(entity)
        return entity if place is None else self.entity_of(place)

    def entity_of(self, decision: Any) -> OtherOptionEntity:
        """Return the value with the index of a decision."""
        return OtherOptionEntity(self._candidates[decision])

    @property
    def summary(self) -> str:
        """The candidates."""
        shown = ", ".join(map(repr, self._candidates[:_MOST_SHOWN]))
        more = ", ..." if len(self) > _MOST_SHOWN else ""
        return f"OtherOption([{shown}{more}]) len={len(self)}"


def accepts(filter: Callable[[V], Any], value: V, which: str) -> bool:
    """Return the result of a template's filter for a value; KnobError if the filter raises."""
    try:
        return bool(filter(value))
    except Exception as error:
        raise KnobError(
            f"the filter {which} raises {type(error).__name__} for {value}: {error}"
        ) from error
