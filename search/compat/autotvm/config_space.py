"""The space of a template: its knobs, and the numbers of its configurations."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from itertools import islice
from math import prod
from typing import Any, Final, TypeAlias

from schedule import Schedule, Trace
from schedule.decisions.tiles import divisors
from schedule.random_state import RandomState
from search.compat.autotvm.config import Config, ConfigEntity, checked_space, knob_instructions
from search.compat.autotvm.entities import Entity, SplitEntity, entity_of_json
from search.compat.autotvm.errors import KnobError, SpaceIndexError
from search.compat.autotvm.knobs import Axis, KnobSpace, SplitSpace, accepts

Filter: TypeAlias = Callable[[Mapping[str, Any]], bool]

_MOST_COUNTED: Final = 1_000_000
"""The largest number of indices for which the accepted ones are counted exactly."""
_MOST_REJECTED: Final = 1_000_000
_SAMPLES: Final = 4096


class ConfigSpace(Config):
    """The knobs that a template declares, and all their configurations.

    A configuration has an index, whose digits are the indices of the values of the knobs; the first
    knob varies fastest. Nothing is listed, so that a space of 10^9 configurations costs
    microseconds. While the template runs on the space, each knob has its first value.

    A filter over several knobs (`multi_filter`) makes some indices invalid; the others do not
    change. `len(space)` counts the valid ones; above a million indices it estimates them (see
    `length_is_exact`). `len` fails beyond 2**63; `range_length` does not.
    """

    def __init__(self) -> None:
        super().__init__()
        self._filter: Filter | None = None

    # -------------------------------------------------------------------------------------- knobs

    def _define(self, name: str, make: Callable[[], KnobSpace[Any]]) -> KnobSpace[Any]:
        space = checked_space(name, make)
        self.entity_map[name] = space[0]
        self._forget()
        return space

    def multi_filter(self, filter: Filter) -> None:
        """Restrict the combinations of values by a predicate on `{name: value}` of all knobs.

        It replaces an earlier filter.
        """
        self._filter = filter
        self._forget()

    def __setitem__(self, name: str, entity: Entity) -> None:
        """Set the value of a knob, with which the template continues."""
        space = self.space_map.get(name)
        if space is None:
            raise self._unknown_knob(name)
        try:
            self.entity_map[name] = space.fit_entity(entity)
        except KnobError as error:
            raise KnobError(f"the knob {name!r}: {error}") from error

    # ------------------------------------------------------------------------------------ numbers

    def _forget(self) -> None:
        for name in ("dims", "range_length", "_length", "_accepted_fraction"):
            self.__dict__.pop(name, None)

    @cached_property
    def dims(self) -> list[int]:
        """The number of values of each knob."""
        return [len(space) for space in self.space_map.values()]

    @cached_property
    def range_length(self) -> int:
        """The number of indices, valid or not."""
        return prod(self.dims)

    @property
    def length_is_exact(self) -> bool:
        """True if `len` is exact: without a filter, or up to a million indices."""
        return self._filter is None or self.range_length <= _MOST_COUNTED

    @cached_property
    def _accepted_fraction(self) -> float:
        """The fraction of the indices that the filter accepts, of a fixed random sample."""
        rng = RandomState(1)
        draws = (random_below(rng, self.range_length) for _ in range(_SAMPLES))
        return sum(map(self.is_index_valid, draws)) / _SAMPLES

    @cached_property
    def _length(self) -> int:
        return self.subrange_length(0, self.range_length)

    def __len__(self) -> int:
        return self._length

    def __bool__(self) -> bool:
        return True

    def subrange_length(self, start: int, end: int) -> int:
        """Return the number of valid indices in [start, end)."""
        if not 0 <= start <= end <= self.range_length:
            raise SpaceIndexError(f"[{start}, {end}) is not within [0, {self.range_length})")
        if self._filter is None:
            return end - start
        if self.length_is_exact:
            return sum(map(self.is_index_valid, range(start, end)))
        return round(self._accepted_fraction * (end - start))

    def point2knob(self, point: int) -> list[int]:
        """Return the index of the value of each knob; filters do not matter.

        Raises SpaceIndexError for an index outside of [0, `range_length`).
        """
        if not 0 <= point < self.range_length:
            raise SpaceIndexError(
                f"configuration {point} does not exist: indices are in [0, {self.range_length})"
            )
        digits = []
        for dim in self.dims:
            point, digit = divmod(point, dim)
            digits.append(digit)
        return digits

    def knob2point(self, knob: Sequence[int]) -> int:
        """Return the index of a configuration from the indices of its values.

        Raises SpaceIndexError unless there is an index in [0, `dims[k]`) for each knob `k`.
        """
        dims = self.dims
        if len(knob) != len(dims) or not all(
            0 <= d < dim for d, dim in zip(knob, dims, strict=True)
        ):
            raise SpaceIndexError(
                f"{list(knob)} is not a list of one index for each knob; knobs have {dims} values"
            )
        point = 0
        for digit, dim in zip(reversed(knob), reversed(dims), strict=True):
            point = point * dim + digit
        return point

    def _values(self, index: int) -> dict[str, Entity]:
        knobs = zip(self.space_map.items(), self.point2knob(index), strict=True)
        return {name: space[digit] for (name, space), digit in knobs}

    def is_index_valid(self, index: int) -> bool:
        """Return True if a configuration has this index, and the filter accepts it."""
        if not 0 <= index < self.range_length:
            return False
        return self._filter is None or self.allows(self._values(index))

    def allows(self, values: Mapping[str, Entity]) -> bool:
        """Return True if the filter over several knobs accepts values, offered or not.

        Raises KnobError if the filter raises an error.
        """
        return self._filter is None or accepts(self._filter, values, "over several knobs")

    def get(self, index: int) -> ConfigEntity:
        """Return a configuration; SpaceIndexError, an IndexError, for an invalid index."""
        index = operator.index(index)
        values = self._values(index)
        if not self.allows(values):
            raise SpaceIndexError(f"the filter of the space rejects configuration {index}")
        return ConfigEntity(index, None, values, self)

    def index_of(self, entities: Mapping[str, Entity]) -> int | None:
        """Return the index of the configuration with these values, None if one is not offered."""
        digits = []
        for name, space in self.space_map.items():
            digit = space.index_of(entities[name]) if name in entities else None
            if digit is None:
                return None
            digits.append(digit)
        return self.knob2point(digits)

    def entity_of(self, values: Mapping[str, Entity]) -> ConfigEntity:
        """Return the configuration with these values; its index is -1 if the space lacks one."""
        index = self.index_of(values)
        return ConfigEntity(-1 if index is None else index, None, values, self)

    def config_of(self, sch_or_trace: Schedule | Trace) -> ConfigEntity:
        """Return the configuration that a trace of the template decides for.

        A knob that is not in the trace has its first value. Raises KnobError for a knob that the
        space does not have; the index is -1 for a value that it does not offer.
        """
        trace = sch_or_trace.trace if isinstance(sch_or_trace, Schedule) else sch_or_trace
        entities: dict[str, Entity] = {name: space[0] for name, space in self.space_map.items()}
        for name, inst in knob_instructions(trace).items():
            space = self.space_map.get(name)
            if space is None:
                raise self._unknown_knob(name)
            decision = trace.decisions.get(inst)
            if inst.kind.name == "SampleKnobOption":
                value = inst.value_of("candidates")[decision]
                entities[name] = entity_of_json(space.kind.code, value)
            else:
                entities[name] = space.entity_of(decision)
        return self.entity_of(entities)

    # -------------------------------------------------------------------------------- walking

    def get_next_index(
        self, index: int, n: int = 1, start: int | None = None, end: int | None = None
    ) -> int | None:
        """Return the `n`-th valid index after `index`, before it for a negative `n`.

        None if there is none in [start, end). Raises SpaceIndexError for n = 0, and after a million
        invalid indices in a row.
        """
        if n == 0:
            raise SpaceIndexError("n is 0; expected a number of steps forwards or backwards")
        first, last = self._window(start, end)
        if self._filter is None:
            return index + n if first <= index + n < last else None
        if n > 0:
            ahead = range(max(index + 1, first), last)
        else:
            ahead = range(min(index, last) - 1, first - 1, -1)
        return next(islice(self._valid(ahead), abs(n) - 1, None), None)

    def random_order(
        self, rng: RandomState, start: int | None = None, end: int | None = None
    ) -> Iterator[int]:
        """Yield the valid indices in [start, end) in random order, each once.

        The order is that of a Fisher-Yates shuffle that stores only the exchanged positions, so
        that a space of any size costs nothing before it is walked. SpaceIndexError after a million
        invalid indices in a row.
        """
        first, last = self._window(start, end)

        def shuffled() -> Iterator[int]:
            exchanged: dict[int, int] = {}
            for left in range(last - first - 1, -1, -1):
                place = random_below(rng, left + 1)
                yield first + exchanged.get(place, place)
                exchanged[place] = exchanged.pop(left, left)

        return self._valid(shuffled())

    def sample_ints(self, m: int, *, rng: RandomState | None = None) -> list[int]:
        """Return `m` different random valid indices.

        Raises SpaceIndexError if there are fewer. Without `rng` the seed comes from the device.
        """
        found = list(islice(self.random_order(RandomState(-1) if rng is None else rng), m))
        if len(found) < m:
            raise SpaceIndexError(f"the space has {len(found)} configurations, fewer than {m}")
        return found

    def _window(self, start: int | None, end: int | None) -> tuple[int, int]:
        last = self.range_length
        return max(0, start or 0), last if end is None else min(last, end)

    def _valid(self, indices: Iterable[int]) -> Iterator[int]:
        rejected = 0
        for index in indices:
            if self.is_index_valid(index):
                rejected = 0
                yield index
            elif (rejected := rejected + 1) >= _MOST_REJECTED:
                raise SpaceIndexError(f"the filter of the space rejects {rejected} points in a row")

    # ------------------------------------------------------------------------------------ printing

    def __str__(self) -> str:
        about = "" if self.length_is_exact else "about "
        lines = [
            f"ConfigSpace (len={about}{_count(self._length)}, "
            f"range_length={_count(self.range_length)}, space_map="
        ]
        lines += [
            f"{k:4d} {name}: {space.summary}"
            for k, (name, space) in enumerate(self.space_map.items())
        ]
        return "\n".join([*lines, ")"])

    __repr__ = __str__


class FallbackConfigEntity(ConfigSpace):
    """A space whose knobs have their first values unless the template sets better ones.

    A template checks `cfg.is_fallback` after it has declared its knobs, and sets `cfg["tile_x"]` or
    calls `fallback_split`. These values stay when the template runs again.
    """

    is_fallback = True

    def _declare(self, name: str, make: Callable[[], KnobSpace[Any]]) -> list[Axis]:
        kept = self.entity_map.get(name)
        axes = super()._declare(name, make)
        if kept is not None:
            with contextlib.suppress(KnobError):  # The knob may have changed since.
                self[name] = kept
        return axes

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Split an axis: each part is the largest divisor of the rest within its limit.

        `constraints` are the largest sizes, outermost first, -1 for any; the innermost part is
        chosen first. Raises KnobError for a limit below 1.
        """
        space = self.space_map.get(name)
        if not isinstance(space, SplitSpace) or len(constraints) != space.num_output:
            raise (
                self._unknown_knob(name)
                if space is None
                else KnobError(
                    f"the knob {name!r} is {space.summary}; fallback_split needs a split into "
                    f"{len(constraints)} parts, one for each limit"
                )
            )
        left = space.product
        sizes: list[int] = []
        for limit in reversed(constraints):
            fitting = [d for d in divisors(left) if limit == -1 or d <= limit]
            if not fitting:
                raise KnobError(
                    f"the knob {name!r}: no divisor of {left} is at most {limit}; expected a limit "
                    "of at least 1, or -1 for none"
                )
            sizes.insert(0, fitting[-1])
            left //= fitting[-1]
        self[name] = SplitEntity(sizes)


def random_below(rng: RandomState, count: int) -> int:
    """Return a uniformly distributed integer in [0, count) for a count of any size."""
    digit = 1 << 24
    if count <= digit:
        return rng.uniform_int(0, count)
    digits = (count.bit_length() + 23) // 24
    while True:
        value = 0
        for _ in range(digits):
            value = value * digit + rng.uniform_int(0, digit)
        value >>= 24 * digits - count.bit_length()
        if value < count:
            return value


def _count(count: int) -> str:
    return str(count) if count < 10_000_000 else f"{Decimal(count):.3e}"
