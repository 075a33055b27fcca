"""The configuration where nothing is known of a task."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from schedule.decisions.factorization import divisors
from search.autotvm.errors import KnobError
from search.autotvm.space.config_space import ConfigSpace
from search.autotvm.space.knob import Axis, Entity, KnobSpace
from search.autotvm.space.split import SplitEntity, SplitSpace

if TYPE_CHECKING:
    from search.autotvm.measure.measurement import MeasureInput, MeasureResult
    from search.autotvm.task import Task


class FallbackConfigEntity(ConfigSpace):
    """A space whose knobs have their first values until a template gives them better ones.

    A template asks `cfg.is_fallback` after it has declared its knobs, and sets `cfg["tile_x"]` or
    calls `fallback_split`. What was set stays when the template runs again.
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

    def fallback_with_reference_log(
        self, ref_log: Iterable[tuple[MeasureInput, MeasureResult]]
    ) -> None:
        """Take the values of the logged configuration whose splits are most like those here.

        The records are those of one template; what is alike are the divisors of the lengths that
        are split. Splits are made anew within the logged sizes, other knobs are copied. A split
        with an open outermost size tells its length only if the template of the record is known;
        else the record is left out.
        """
        splits = {n: s for n, s in self.space_map.items() if isinstance(s, SplitSpace)}
        best: tuple[float, dict[str, Entity]] | None = None
        tasks: dict[tuple[Any, str], Task] = {}
        for inp, _ in ref_log:
            # Records of one task share its space, for which the template runs.
            task = tasks.setdefault((inp.task.workload, str(inp.target)), inp.task)
            logged = inp.config.entity_map
            if any(name not in logged for name in self.space_map):
                continue
            lengths = {name: _length(task, name, logged[name]) for name in splits}
            if None in lengths.values():
                continue
            score = sum(_likeness(splits[name].product, lengths[name]) for name in splits)
            if best is None or score > best[0]:
                best = (score, logged)
        for name, entity in best[1].items() if best is not None else ():
            if name in splits:
                self.fallback_split(name, [-1, *entity._value[1:]])
            elif name in self.space_map:
                self[name] = entity


def _length(task: Task, name: str, entity: Entity) -> int | None:
    """Return the length that a logged configuration splits, None if that cannot be known."""
    if -1 not in entity._value:
        return int(prod(entity._value))
    whole = task.known_space()
    space = None if whole is None else whole.space_map.get(name)
    return space.product if isinstance(space, SplitSpace) else None


def _likeness(own: int, logged: int | None) -> float:
    """Return which share of the divisors of a length divide another, too."""
    assert logged is not None
    mine = set(divisors(own))
    return len(mine & set(divisors(logged))) / len(mine)
