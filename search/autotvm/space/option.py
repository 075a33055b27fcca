"""The knob that is one of a few values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from schedule.decisions.domain import OptionDomain
from search.autotvm.errors import KnobError
from search.autotvm.space.knob import Entity, KnobSpace

if TYPE_CHECKING:
    from schedule import Schedule
    from schedule.handles import ExprRV


_MOST_SHOWN: Final = 16


class OtherOptionEntity(Entity):
    """A value: anything that JSON can hold."""

    code = "ot"

    @property
    def val(self) -> Any:
        """The value. Reading it fixes the knob in the trace: Python may depend on it."""
        return self._read()

    @property
    def features(self) -> list[float]:
        """The value, which must be a number."""
        if not isinstance(self._value, (int, float)):
            raise KnobError(f"the value {self._value!r} is no number, so it is no feature")
        return [float(self._value)]

    def apply(self, sch: Schedule) -> ExprRV | int:
        """Return the number as primitives take it, so that a search of traces may change it.

        KnobError where a candidate is no whole number: read `val`, which fixes the knob.
        """
        numbers = self._numbers(sch)
        if numbers is not None:
            return numbers[0]  # type: ignore[no-any-return]
        if type(self._value) is not int:
            raise KnobError(
                f"the knob {self._name!r} has candidates that are no whole numbers of 32 bits; "
                "read val instead"
            )
        value: int = self._read()
        return value


class OtherOptionSpace(KnobSpace[OtherOptionEntity]):
    """One of the values of a list."""

    kind = OtherOptionEntity
    domain: OptionDomain

    def __init__(self, candidate: Sequence[Any]) -> None:
        self._candidates = list(candidate)
        try:
            self.domain = OptionDomain(tuple(_text(one) for one in self._candidates))
        except (TypeError, ValueError) as error:
            raise KnobError(f"a candidate cannot be written as JSON: {error}") from None
        self.can_be_sampled = self.domain.are_numbers
        self._indices: dict[str, int] = {}
        for index, text in enumerate(self.domain.labels):
            self._indices.setdefault(text, index)

    def index_of(self, entity: Entity) -> int | None:
        """Return the index of a value, None if it is not offered."""
        return self._place(entity._value)

    def _place(self, value: Any) -> int | None:
        found = self._indices.get(_text(value))
        if found is not None:
            return found
        # Traces have true as 1.
        return next((k for k, one in enumerate(self._candidates) if one == value), None)

    def sample(self, sch: Schedule, name: str, entity: OtherOptionEntity) -> None:
        """Append `sample_knob_option`; a value that is not offered comes after those that are."""
        index = self.index_of(entity)
        if index is None:
            candidates = [*self._candidates, entity._value]
            sch.sample_knob_option(name, candidates, decision=len(self._candidates))
        else:
            sch.sample_knob_option(name, self._candidates, decision=index)

    def _made_of(self, value: Any) -> OtherOptionEntity:
        """Return the candidate that is the same as JSON, a tuple for a list say; else the value."""
        place = self._place(value)
        return OtherOptionEntity(value if place is None else self._candidates[place])

    def entity_of(self, decision: Any) -> OtherOptionEntity:
        """Return the value with the index of a decision."""
        return OtherOptionEntity(self._candidates[decision])

    @property
    def summary(self) -> str:
        """The candidates."""
        shown = ", ".join(map(repr, self._candidates[:_MOST_SHOWN]))
        more = ", ..." if len(self) > _MOST_SHOWN else ""
        return f"OtherOption([{shown}{more}]) len={len(self)}"


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)
