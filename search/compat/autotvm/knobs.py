"""Knobs: the values that each can have, by index.

A knob is one sampling instruction of the trace that its template leaves. What it offers is the
domain of that instruction; here are the policies of AutoTVM, as operands of the instruction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from schedule.decisions.domain import (
    DecisionDomain,
    NoDecision,
    OptionDomain,
)
from schedule.decisions.knobs import NO_LIMIT
from schedule.primitives import sample_knob
from search.compat.autotvm.axes import AxisLike, virtual_axis
from search.compat.autotvm.entities import (
    AnnotateEntity,
    Entity,
    OtherOptionEntity,
    ReorderEntity,
    SplitEntity,
)
from search.compat.autotvm.errors import KnobError

if TYPE_CHECKING:
    from schedule import Schedule

E = TypeVar("E", bound=Entity)
V = TypeVar("V")

_MOST_SHOWN: Final = 16


class KnobSpace(Generic[E]):
    """The values of one knob, by index: the decisions of its sampling instruction.

    `options` are the operands of the instruction, without the name of the knob.
    """

    kind: type[E]
    """The class of the values."""
    primitive: ClassVar[str]
    """The method of a schedule that appends the sampling instruction."""
    policy: str
    """The word for the way in which the values were chosen."""
    num_output: int = 0
    """The number of axes that applying a value gives."""
    can_be_sampled: bool = True
    """True if primitives accept the sampled numbers of a value."""
    domain: DecisionDomain
    """The decisions of the sampling instruction."""

    def _sampled_by(self, **options: Any) -> None:
        """Offer what the sampling instruction offers; KnobError for operands that it refuses."""
        self.options = options
        try:
            # The domain of a knob depends on no program, hence on no state of a schedule.
            self.domain = getattr(sample_knob, self.primitive)(None, "", **options)
        except NoDecision as error:
            raise KnobError(f"{error.path} {error}") from None

    def sample(self, sch: Schedule, name: str, entity: E) -> None:
        """Append the sampling instruction of the knob, which decides for `entity`, to a trace."""
        getattr(sch, self.primitive)(name, **self.options, decision=entity._value)

    def __len__(self) -> int:
        return self.domain.size

    def at(self, index: int) -> E:
        """Return the value at an index in [0, len)."""
        return self.entity_of(self.domain.at(index))

    def index_of(self, entity: Entity) -> int | None:
        """Return the index of a value, None if the knob does not offer it."""
        return self.domain.index_of(tuple(entity._value))

    def fitting(self, entity: Entity) -> E:
        """Return a value that was logged or set as one of this knob, whether offered or not.

        KnobError for a value of another kind or length.
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
        """A few words about the values that the knob offers."""
        kind = type(self).__name__.removesuffix("Space")
        return f"{kind}(policy={self.policy}) len={len(self)}"

    def __getitem__(self, index: int) -> E:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} of {len(self)} values")
        return self.at(index % len(self))

    def __iter__(self) -> Iterator[E]:
        return map(self.at, range(len(self)))

    @property
    def entities(self) -> list[E]:
        """All values."""
        return list(self)

    def __repr__(self) -> str:
        return self.summary


class SplitSpace(KnobSpace[SplitEntity]):
    """The splits of an axis in `num_outputs` parts.

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
        self.policy = policy
        self.product = virtual_axis(axis).length
        if (policy == "candidate") != bool(candidate):
            raise KnobError(
                f"policy='candidate' and candidate, the list of sizes, go together; got "
                f"policy={policy!r} and candidate={candidate}"
            )
        if candidate and num_outputs is None:
            num_outputs = len(candidate[0])
        if not isinstance(num_outputs, int):
            raise KnobError(f"num_outputs is {num_outputs}; it is a whole number, at least 1")
        if not candidate and self.product < 1:
            raise KnobError("the number of iterations is not constant; give it, or candidates")
        self.num_output = num_outputs
        shape = {"extent": max(1, self.product), "parts": num_outputs}
        if candidate:
            self._sampled_by(**shape, policy=policy, candidates=candidate)
        else:
            tailless = policy == "factors" if no_tail is None else no_tail
            self._sampled_by(**shape, policy=policy, max_factor=max_factor, no_tail=tailless)
        try:
            splits = self.domain.alternatives
        except ValueError as error:
            raise KnobError(str(error)) from None
        if filter is not None:
            kept = [size for size in splits if accepts(filter, self.entity_of(size), "of sizes")]
            if not kept:
                raise KnobError("it has no candidates left; check its filter and limits")
            self._sampled_by(**shape, policy="candidate", candidates=kept)

    def index_of(self, entity: Entity) -> int | None:
        """Return the index of a split, None if it is not offered.

        The first size may be given where -1 means the same.
        """
        found = super().index_of(entity)
        return self.domain.index_of((-1, *entity._value[1:])) if found is None else found

    @property
    def summary(self) -> str:
        """Policy, number of iterations, of parts and of splits."""
        return (
            f"Split(policy={self.policy}, product={self.product}, "
            f"num_outputs={self.num_output}) len={len(self)}"
        )


class ReorderSpace(KnobSpace[ReorderEntity]):
    """The orders of some axes.

    `policy` is `identity`; `all`; `interval_all` with `interval=(begin, end)`, which leaves the
    axes outside where they are; `candidate` with `candidate`, lists of the same axes.
    """

    kind = ReorderEntity
    primitive = "sample_knob_reorder"

    def __init__(
        self,
        axes: Sequence[AxisLike],
        policy: str,
        *,
        interval: tuple[int, int] | None = None,
        candidate: Sequence[Sequence[AxisLike]] | None = None,
    ) -> None:
        self.policy = policy
        self.num_output = count = len(axes)
        if policy == "all":
            self._sampled_by(count=count, begin=0, end=count)
        elif policy == "interval_all":
            if interval is None or not 0 <= interval[0] < interval[1] <= count:
                raise KnobError(
                    f"policy='interval_all' needs interval=(begin, end) within {count} axes, "
                    f"got {interval}"
                )
            self._sampled_by(count=count, begin=interval[0], end=interval[1])
        elif policy == "identity":
            self._sampled_by(count=count, candidates=[tuple(range(count))])
        elif policy == "candidate":
            if not candidate:
                raise KnobError("policy='candidate' needs candidate, lists of the axes")
            self._sampled_by(count=count, candidates=[_positions(axes, one) for one in candidate])
        else:
            raise KnobError(
                f"unknown policy {policy!r} of orders; expected identity, all, interval_all, or "
                "candidate with candidate, which lists any orders of the axes"
            )
        if self.domain.size >= 1 << 63:
            raise KnobError(f"the orders of {count} axes are beyond int64; reorder fewer at a time")


def _positions(axes: Sequence[AxisLike], order: Sequence[AxisLike]) -> tuple[int, ...]:
    """Return the positions of the axes of an order among the axes."""
    places: dict[AxisLike, int] = {axis: position for position, axis in enumerate(axes)}
    unknown = [axis for axis in order if axis not in places]
    once = len(places) == len(axes) == len(order) == len(set(order))
    if unknown or not once:
        raise KnobError(
            f"an order has each of the {len(axes)} axes once, which are all different; "
            f"this one has {len(order)} axes, {len(unknown)} of them unknown"
        )
    return tuple(places[axis] for axis in order)


class AnnotateSpace(KnobSpace[AnnotateEntity]):
    """The annotations that some axes may have.

    `policy` is made of the words `try` (may stay), `unroll` and `vec`, as `try_unroll_vec`, of
    which each axis has any, but only one is `vec`; or `candidate` with `candidate`, lists of the
    annotations `none`, `unroll` and `vec`.
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
        self.policy = policy
        self.num_output = count = len(axes)
        if policy != "candidate":
            self._sampled_by(count=count, policy=policy)
        elif candidate:
            self._sampled_by(count=count, candidates=candidate)
        else:
            raise KnobError("policy='candidate' needs candidate, lists of annotations")


class OtherOptionSpace(KnobSpace[OtherOptionEntity]):
    """One of the values of a list."""

    kind = OtherOptionEntity
    primitive = "sample_knob_option"
    domain: OptionDomain

    def __init__(self, candidate: Sequence[Any]) -> None:
        self._candidates = list(candidate)
        self._sampled_by(candidates=self._candidates)
        self.can_be_sampled = self.domain.are_numbers
        self._places: dict[str, int] = {}
        for place, text in enumerate(self.domain.labels):
            self._places.setdefault(text, place)

    def index_of(self, entity: Entity) -> int | None:
        """Return the index of a value, None if it is not offered."""
        return self._place(entity._value)

    def _place(self, value: Any) -> int | None:
        place = self._places.get(json.dumps(value, sort_keys=True, allow_nan=False))
        if place is not None:
            return place
        # Traces have true as 1.
        return next((k for k, one in enumerate(self._candidates) if one == value), None)

    def sample(self, sch: Schedule, name: str, entity: OtherOptionEntity) -> None:
        """Append `sample_knob_option`; a value that is not offered comes after the candidates."""
        index = self.index_of(entity)
        if index is None:
            candidates = [*self._candidates, entity._value]
            sch.sample_knob_option(name, candidates, decision=len(self._candidates))
        else:
            sch.sample_knob_option(name, self._candidates, decision=index)

    def fitting(self, entity: Entity) -> OtherOptionEntity:
        """Return the candidate that is the same as JSON, a tuple for a list say; else the value."""
        if not isinstance(entity, OtherOptionEntity):
            return super().fitting(entity)
        place = self._place(entity._value)
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
    """Return the answer of a template's filter on a value; KnobError where it raises an error."""
    try:
        return bool(filter(value))
    except Exception as error:
        raise KnobError(
            f"the filter {which} raises {type(error).__name__} for {value}: {error}"
        ) from error
