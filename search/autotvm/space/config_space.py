"""The space of a template: its knobs, and the numbers of its configurations."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from schedule.random_state import RandomState
from search.autotvm.errors import KnobError, SpaceIndexError
from search.autotvm.space.config import Config, checked_space, knob_instructions, trace_of
from search.autotvm.space.constraint import MOST_TABULATED, Constraint, Filter, asked, below
from search.autotvm.space.entity import ConfigEntity, entity_of_json
from search.autotvm.space.knob import Axis, Entity, KnobSpace

if TYPE_CHECKING:
    from schedule import Schedule, Trace

_MOST_DRAWS: Final = 10_000


class ConfigSpace(Config):
    """The knobs that a template declares, and all configurations they have.

    A configuration has an index: its knobs' values are the digits, the knob that was declared first
    the fastest. Nothing is listed: a space of 10^9 configurations is made, measured and walked
    through in microseconds. While the template runs on it, each knob has its first value.

    A filter over several knobs (`multi_filter`) leaves indices out without renumbering the rest.
    `len(space)` counts those it lets through; in a space of more than a million it estimates them
    (see `length_is_exact`). Beyond 2**63 there is no `len`; `range_length` is any number.

    Random choices take an `rng`; without one they take their own, seeded by the device.
    """

    def __init__(self) -> None:
        super().__init__()
        self._taken: set[str] = set()
        self._filter: Filter | None = None
        self._rng = RandomState(-1)

    def begin(self) -> None:
        """Forget what an earlier run of the template has said and taken."""
        super().begin()
        self._taken.clear()

    # -------------------------------------------------------------------------------------- knobs

    def __getitem__(self, name: str) -> Any:
        self._taken.add(name)
        return super().__getitem__(name)

    def _define(self, name: str, make: Callable[[], KnobSpace[Any]]) -> list[Axis]:
        space = checked_space(name, make)
        earlier = self.space_map.get(name)
        if earlier is not None and name in self._taken and earlier.summary != space.summary:
            raise KnobError(
                f"the knob {name!r} is declared as {space.summary} after its value was taken as "
                f"one of {earlier.summary}; give one of the two another name"
            )
        self.space_map[name] = space
        self.entity_map[name] = space[0]
        self._forget()
        return [Axis(space, k) for k in range(space.num_output)]

    def multi_filter(
        self,
        filter: Callable[[Mapping[str, Any]], bool],
    ) -> None:
        """Restrict which values go together: a predicate on `{name: value}`, of all knobs.

        It takes the place of an earlier one.
        """
        self._filter = filter
        self._forget()

    def __setitem__(self, name: str, entity: Entity) -> None:
        """Give a knob another value for the template to go on with."""
        space = self.space_map.get(name)
        if space is None:
            raise self._unknown(name)
        try:
            self.entity_map[name] = space.fitting(entity)
        except KnobError as error:
            raise KnobError(f"the knob {name!r}: {error}") from error

    # ------------------------------------------------------------------------------------ numbers

    def _forget(self) -> None:
        for name in ("dims", "_constraint", "range_length"):
            self.__dict__.pop(name, None)

    @cached_property
    def dims(self) -> list[int]:
        """The number of values of each knob."""
        return [len(space) for space in self.space_map.values()]

    @cached_property
    def range_length(self) -> int:
        """The number of indices, those that a filter leaves out among them."""
        return prod(self.dims)

    @property
    def length_is_exact(self) -> bool:
        """True if `len` is exact: there is no filter, or few enough configurations to ask it."""
        return self._constraint is None or self._constraint.is_exact

    def __len__(self) -> int:
        return self.subrange_length(0, self.range_length)

    def __bool__(self) -> bool:
        return True

    @cached_property
    def _constraint(self) -> Constraint | None:
        if self._filter is None:
            return None
        return Constraint(self.range_length, lambda index: self.allows(self._values(index)))

    def _values(self, index: int) -> dict[str, Entity]:
        point = self.point2knob(index)
        return {
            name: space._at(digit)
            for (name, space), digit in zip(self.space_map.items(), point, strict=True)
        }

    def point2knob(self, point: int) -> list[int]:
        """Return the index of the value of each knob; filters do not matter.

        SpaceIndexError for an index that is not in [0, `range_length`).
        """
        if not 0 <= point < self.range_length:
            raise SpaceIndexError(
                f"there is no configuration {point}: indices are below {self.range_length}"
            )
        digits = []
        for dim in self.dims:
            point, digit = divmod(point, dim)
            digits.append(digit)
        return digits

    def knob2point(self, knob: Sequence[int]) -> int:
        """Return the index of a configuration from the indices of its values.

        SpaceIndexError for what has not an index in [0, `dims[k]`) for each knob `k`.
        """
        dims = self.dims
        if len(knob) != len(dims) or any(
            not 0 <= d < dim for d, dim in zip(knob, dims, strict=True)
        ):
            raise SpaceIndexError(
                f"{list(knob)} is no list of one index for each knob; the knobs have {dims} values"
            )
        point = 0
        for digit, dim in zip(reversed(knob), reversed(dims), strict=True):
            point = point * dim + digit
        return point

    def is_index_valid(self, index: int) -> bool:
        """Say whether there is a configuration with an index, and filters let it through."""
        inside = 0 <= index < self.range_length
        return inside and (self._constraint is None or index in self._constraint)

    def allows(self, values: Mapping[str, Entity]) -> bool:
        """Say whether the filter over several knobs lets values through, offered or not.

        KnobError where the filter raises an error.
        """
        return self._filter is None or asked(self._filter, values, "over several knobs")

    def get(self, index: int) -> ConfigEntity:
        """Return a configuration; SpaceIndexError, an IndexError, if there is none."""
        index = operator.index(index)
        values = self._values(index)
        if self._constraint is not None and index not in self._constraint:
            raise SpaceIndexError(f"the filter of the space leaves configuration {index} out")
        return ConfigEntity(index, self.code_hash, values, self)

    def index_of(self, entities: Mapping[str, Entity]) -> int | None:
        """Return the index of the configuration with these values, None if the space has none."""
        digits = []
        for name, space in self.space_map.items():
            digit = space.index_of(entities[name]) if name in entities else None
            if digit is None:
                return None
            digits.append(digit)
        return self.knob2point(digits)

    def config_of(self, sch_or_trace: Schedule | Trace) -> ConfigEntity:
        """Return the configuration that a trace of the template decides for.

        A knob that is not in the trace has its first value. KnobError for a knob that the space
        does not have; the index is -1 for a value that it does not offer.
        """
        trace = trace_of(sch_or_trace)
        entities: dict[str, Entity] = {name: space[0] for name, space in self.space_map.items()}
        for name, inst in knob_instructions(trace).items():
            space = self.space_map.get(name)
            if space is None:
                raise self._unknown(name)
            decision = trace.decisions.get(inst)
            if inst.kind.name == "SampleKnobOption":
                value = inst.value_of("candidates")[decision]
                entities[name] = entity_of_json(space[0].code, value)
            else:
                entities[name] = space.entity_of(decision)
        index = self.index_of(entities)
        return ConfigEntity(-1 if index is None else index, self.code_hash, entities, self)

    # -------------------------------------------------------------------------------- walking

    def subrange_length(self, start: int, end: int) -> int:
        """Return the number of configurations with indices in [start, end)."""
        if not 0 <= start <= end <= self.range_length:
            raise SpaceIndexError(
                f"the indices [{start}, {end}) are not all in [0, {self.range_length})"
            )
        if self._constraint is None:
            return end - start
        return self._constraint.number_in(start, end)

    def get_next_index(
        self, index: int, n: int = 1, start: int | None = None, end: int | None = None
    ) -> int | None:
        """Return the index of the `n`-th configuration after one, before it for a negative `n`.

        None where there is none in [start, end).
        """
        if n == 0:
            raise SpaceIndexError(
                "n counts configurations after index, or before it if negative; got 0"
            )
        first, last = self._window(start, end)
        if self._constraint is not None:
            return self._constraint.next(index, n, first, last)
        return index + n if first <= index + n < last else None

    def get_rand_index(
        self,
        start: int | None = None,
        end: int | None = None,
        to_exclude: Sequence[int] | set[int] | None = None,
        *,
        rng: RandomState | None = None,
    ) -> int:
        """Return the index of a random configuration in [start, end) that is not excluded.

        SpaceIndexError where there is none.
        """
        first, last = self._window(start, end)
        rng = self._rng if rng is None else rng
        excluded = to_exclude if isinstance(to_exclude, (set, frozenset)) else set(to_exclude or ())
        choices: Sequence[int] | npt.NDArray[np.int64] = range(first, last)
        count = max(0, last - first)
        if self._constraint is not None and self._constraint.is_exact:
            valid = self._constraint.valid
            begin, stop = np.searchsorted(valid, (first, last))
            choices, count = valid[begin:stop], int(stop - begin)
        for _ in range(_MOST_DRAWS if count else 0):
            index = int(choices[below(rng, count)])
            if index not in excluded and self.is_index_valid(index):
                return index
        if count > MOST_TABULATED:
            raise SpaceIndexError(
                f"none of {_MOST_DRAWS} random configurations in [{first}, {last}) is possible"
            )
        left = [int(i) for i in choices if i not in excluded and self.is_index_valid(i)]
        if not left:
            raise SpaceIndexError(f"no configuration is left in [{first}, {last})")
        return left[below(rng, len(left))]

    def sample_ints(self, m: int, *, rng: RandomState | None = None) -> list[int]:
        """Return the indices of `m` different random configurations.

        SpaceIndexError if there are fewer.
        """
        if self.length_is_exact and m > len(self):
            raise SpaceIndexError(f"the space has {len(self)} configurations, not {m}")
        chosen: set[int] = set()
        found: list[int] = []
        while len(found) < m:
            index = self.get_rand_index(to_exclude=chosen, rng=rng)
            chosen.add(index)
            found.append(index)
        return found

    def random_walk(self, point: int, *, rng: RandomState | None = None) -> int:
        """Return a configuration with another value of one knob, or of more where that takes it.

        It is `point` itself where no other was found.
        """
        rng = self._rng if rng is None else rng
        before, dims = self.point2knob(point), self.dims
        if self.range_length <= 1:
            return point
        knob = list(before)
        for _ in range(_MOST_DRAWS):
            k = below(rng, len(dims))
            knob[k] = below(rng, dims[k])
            other = self.knob2point(knob)
            if other != point and self.is_index_valid(other):
                return other
        return point

    def _window(self, start: int | None, end: int | None) -> tuple[int, int]:
        first = 0 if start is None else start
        last = self.range_length if end is None else end
        return max(0, first), min(last, self.range_length)

    # ------------------------------------------------------------------------------------ printing

    def __str__(self) -> str:
        about = "" if self.length_is_exact else "about "
        count = self.subrange_length(0, self.range_length)
        lines = [
            f"ConfigSpace (len={about}{_count(count)}, "
            f"range_length={_count(self.range_length)}, space_map="
        ]
        lines += [
            f"{k:4d} {name}: {space.summary}"
            for k, (name, space) in enumerate(self.space_map.items())
        ]
        return "\n".join([*lines, ")"])

    __repr__ = __str__


def _count(count: int) -> str:
    return str(count) if count < 10_000_000 else f"{Decimal(count):.3e}"
