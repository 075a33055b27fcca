"""The space of a template: its knobs, and the numbers of its configurations."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from itertools import islice
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from schedule import Schedule, Trace
from schedule.decisions.factorization import divisors
from schedule.random_state import RandomState
from search.compat.autotvm.axes import Axis
from search.compat.autotvm.config import (
    Config,
    ConfigEntity,
    checked_space,
    handles,
    knob_instructions,
)
from search.compat.autotvm.entities import Entity, SplitEntity, entity_of_json
from search.compat.autotvm.errors import KnobError, SpaceIndexError
from search.compat.autotvm.knobs import KnobSpace, SplitSpace, accepts

Filter: TypeAlias = Callable[[Mapping[str, Any]], bool]

_MOST_TABULATED: Final = 1_000_000
"""Filters of spaces up to this size are counted exactly; of larger ones on a sample."""
_MOST_REJECTED: Final = 1_000_000
_SAMPLES: Final = 4096


class ConfigSpace(Config):
    """The knobs that a template declares, and all configurations they have.

    A configuration has an index: its knobs' values are the digits, the knob that was declared first
    the fastest. Nothing is listed: making, measuring and walking a space of 10^9 configurations
    costs microseconds. While the template runs on it, each knob has its first value.

    A filter over several knobs (`multi_filter`) leaves indices out without renumbering the rest.
    `len(space)` counts those it accepts; in a space of more than a million it estimates them (see
    `length_is_exact`). Beyond 2**63 there is no `len`; `range_length` is any number.
    """

    def __init__(self) -> None:
        super().__init__()
        self._taken: set[str] = set()
        self._filter: Filter | None = None

    def begin(self) -> None:
        """Forget what an earlier run of the template has declared and read."""
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
                f"the knob {name!r} is declared as {space.summary} after its value was read as "
                f"one of {earlier.summary}; give one of the two another name"
            )
        self.space_map[name] = space
        self.entity_map[name] = space[0]
        self._forget()
        return handles(space)

    def multi_filter(
        self,
        filter: Filter,
    ) -> None:
        """Restrict the combinations of values: a predicate on `{name: value}`, of all knobs.

        It replaces an earlier one.
        """
        self._filter = filter
        self._forget()

    def __setitem__(self, name: str, entity: Entity) -> None:
        """Give a knob another value, with which the template continues."""
        space = self.space_map.get(name)
        if space is None:
            raise self._unknown(name)
        try:
            self.entity_map[name] = space.fitting(entity)
        except KnobError as error:
            raise KnobError(f"the knob {name!r}: {error}") from error

    # ------------------------------------------------------------------------------------ numbers

    def _forget(self) -> None:
        for name in ("dims", "range_length", "_table", "_share"):
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
        """True if `len` is exact: without a filter, or up to a million configurations."""
        return self._filter is None or self.range_length <= _MOST_TABULATED

    @cached_property
    def _table(self) -> npt.NDArray[np.bool_]:
        """The verdict of the filter on each index."""
        count = self.range_length
        return np.fromiter(map(self._accepts_index, range(count)), np.bool_, count)

    @cached_property
    def _share(self) -> float:
        """The fraction of the configurations that the filter accepts, of always the same sample."""
        rng = RandomState(1)
        draws = (random_below(rng, self.range_length) for _ in range(_SAMPLES))
        return sum(map(self._accepts_index, draws)) / _SAMPLES

    def _accepts_index(self, index: int) -> bool:
        if "_table" in self.__dict__:
            return bool(self._table[index])
        return self.allows(self._values(index))

    def __len__(self) -> int:
        return self.subrange_length(0, self.range_length)

    def __bool__(self) -> bool:
        return True

    def subrange_length(self, start: int, end: int) -> int:
        """Return the number of configurations with indices in [start, end)."""
        if not 0 <= start <= end <= self.range_length:
            raise SpaceIndexError(
                f"the indices [{start}, {end}) are not all in [0, {self.range_length})"
            )
        if self._filter is None:
            return end - start
        if self.length_is_exact:
            return int(np.count_nonzero(self._table[start:end]))
        return round(self._share * (end - start))

    def _values(self, index: int) -> dict[str, Entity]:
        point = self.point2knob(index)
        return {
            name: space.at(digit)
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

        SpaceIndexError unless there is an index in [0, `dims[k]`) for each knob `k`.
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
        """Return True if a configuration has this index, and the filter accepts it."""
        inside = 0 <= index < self.range_length
        return inside and (self._filter is None or self._accepts_index(index))

    def allows(self, values: Mapping[str, Entity]) -> bool:
        """Return True if the filter over several knobs accepts values, offered or not.

        KnobError where the filter raises an error.
        """
        return self._filter is None or accepts(self._filter, values, "over several knobs")

    def get(self, index: int) -> ConfigEntity:
        """Return a configuration; SpaceIndexError, an IndexError, if there is none."""
        index = operator.index(index)
        values = self._values(index)
        if not self.allows(values):
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
        trace = sch_or_trace.trace if isinstance(sch_or_trace, Schedule) else sch_or_trace
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

    def get_next_index(
        self, index: int, n: int = 1, start: int | None = None, end: int | None = None
    ) -> int | None:
        """Return the index of the `n`-th configuration after one, before it for a negative `n`.

        None where there is none in [start, end). SpaceIndexError for n = 0, and after a million
        indices that the filter leaves out.
        """
        if n == 0:
            raise SpaceIndexError(
                "n counts configurations after index, or before it if negative; got 0"
            )
        first, last = self._window(start, end)
        if self._filter is None:
            return index + n if first <= index + n < last else None
        step = 1 if n > 0 else -1
        begin = max(index + 1, first) if n > 0 else min(index - 1, last - 1)
        ahead = self._accepted(iter(range(begin, last if n > 0 else first - 1, step)))
        return next(islice(ahead, abs(n) - 1, None), None)

    def random_order(
        self, rng: RandomState, start: int | None = None, end: int | None = None
    ) -> Iterator[int]:
        """Yield the indices of the configurations in [start, end) in random order, each once.

        The order is that of a Fisher-Yates shuffle, of which only the exchanged places are stored:
        a space of any size costs nothing before it is walked. SpaceIndexError after a million
        indices in a row that the filter leaves out.
        """
        first, last = self._window(start, end)

        def shuffled() -> Iterator[int]:
            exchanged: dict[int, int] = {}
            for left in range(last - first - 1, -1, -1):
                place = random_below(rng, left + 1)
                yield first + exchanged.get(place, place)
                exchanged[place] = exchanged.pop(left, left)

        return self._accepted(shuffled())

    def _accepted(self, indices: Iterator[int]) -> Iterator[int]:
        rejected = 0
        for index in indices:
            if self.is_index_valid(index):
                rejected = 0
                yield index
            elif (rejected := rejected + 1) >= _MOST_REJECTED:
                raise SpaceIndexError(f"the filter of the space rejects {rejected} points in a row")

    def sample_ints(self, m: int, *, rng: RandomState | None = None) -> list[int]:
        """Return the indices of `m` different random configurations.

        SpaceIndexError if there are fewer. Without `rng` the device gives the seed.
        """
        found = list(islice(self.random_order(RandomState(-1) if rng is None else rng), m))
        if len(found) < m:
            raise SpaceIndexError(f"the space has {len(found)} configurations, not {m}")
        return found

    def _window(self, start: int | None, end: int | None) -> tuple[int, int]:
        last = self.range_length
        return max(0, start or 0), last if end is None else min(last, end)

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


class FallbackConfigEntity(ConfigSpace):
    """A space whose knobs have their first values until a template gives them better ones.

    A template asks `cfg.is_fallback` after it has declared its knobs, and sets `cfg["tile_x"]` or
    calls `fallback_split`. These values stay when the template runs again.
    """

    is_fallback = True

    def _define(self, name: str, make: Callable[[], KnobSpace[Any]]) -> list[Axis]:
        kept = self.entity_map.get(name)
        axes = super()._define(name, make)
        if kept is not None:
            with contextlib.suppress(KnobError):  # It may have been set for another such knob.
                self[name] = kept
        return axes

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Split as evenly as limits allow: each part the largest divisor of what is left.

        `constraints` are the largest sizes, outermost first, -1 for any. KnobError for a limit
        below 1.
        """
        space = self.space_map.get(name)
        if not isinstance(space, SplitSpace):
            raise self._unknown(name) if space is None else KnobError(f"{name!r} is no split")
        if len(constraints) != space.num_output:
            raise KnobError(
                f"the knob {name!r} splits in {space.num_output} parts, there are "
                f"{len(constraints)} limits"
            )
        left = space.product
        sizes: list[int] = []
        for limit in reversed(constraints):
            fitting = [d for d in divisors(left) if limit == -1 or d <= limit]
            if not fitting:
                raise KnobError(
                    f"the knob {name!r}: no divisor of {left} is at most {limit}; limits are at "
                    "least 1, or -1 for none"
                )
            sizes.insert(0, fitting[-1])
            left //= fitting[-1]
        self[name] = SplitEntity(sizes)


def random_below(rng: RandomState, count: int) -> int:
    """Return an integer in [0, count), all equally likely, however large the count is."""
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
