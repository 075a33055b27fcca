"""The knob that splits a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from schedule.decisions.domain import MOST_LISTED, CandidatesDomain
from schedule.decisions.knobs import NO_LIMIT, SPLIT_POLICIES, SplitDomain
from search.autotvm.errors import KnobError
from search.autotvm.space.constraint import asked
from search.autotvm.space.knob import AxisLike, Entity, KnobSpace, virtual_axis

if TYPE_CHECKING:
    from schedule import LoopRV, Schedule


class SplitEntity(Entity):
    """The sizes of the parts of a loop, outermost first; -1 is what is left for the first."""

    code = "sp"

    def __init__(self, size: Sequence[int]) -> None:
        super().__init__(list(size))

    @classmethod
    def holds(cls, value: Any) -> bool:
        """Say whether something is a list of sizes, of which the first may be -1."""
        return (
            isinstance(value, (list, tuple))
            and len(value) > 0
            and all(type(size) is int for size in value)
            and (value[0] == -1 or value[0] > 0)
            and all(size > 0 for size in value[1:])
        )

    @property
    def size(self) -> list[int]:
        """The sizes. Reading them fixes the knob in the trace: Python may depend on them."""
        return list(self._read())

    def apply(self, sch: Schedule, op: Any, axis: LoopRV | None = None) -> list[LoopRV]:
        """Split a loop and return the parts: `apply(sch, loop)`, or `apply(sch, block, loop)`.

        Where the sizes do not divide the number of iterations, the last outer one is guarded.
        """
        loop: LoopRV = op if axis is None else axis
        if len(self._value) == 1:
            return [loop]
        sizes = self._numbers(sch)
        return sch.split(loop, [None, *self._value[1:]] if sizes is None else list(sizes))


class SplitSpace(KnobSpace[SplitEntity]):
    """The splits of an axis in `num_outputs` parts.

    `policy` is `factors` (the sizes are divisors), `power2` (powers of two), `verbose` (both; like
    `power2` it takes what leaves a tail, unless `no_tail`), or `candidate` with `candidate`, the
    list of sizes. No size is above `max_factor`. `filter` is asked for each split.
    """

    kind = SplitEntity

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
        if candidate:
            num_outputs = len(candidate[0]) if num_outputs is None else num_outputs
        elif policy not in SPLIT_POLICIES:
            raise KnobError(
                f"there is no policy {policy!r} of splits; it is one of "
                f"{[*SPLIT_POLICIES, 'candidate']}"
            )
        elif self.product < 1:
            raise KnobError("the number of iterations is not constant; give it, or candidates")
        if not isinstance(num_outputs, int) or num_outputs < 1:
            raise KnobError(f"num_outputs is {num_outputs}; it is a whole number, at least 1")
        self.num_output = num_outputs
        tailless = policy == "factors" if no_tail is None else no_tail
        self._extent = max(1, self.product)
        whole = SplitDomain(self._extent, num_outputs, policy, max_factor, tailless)
        self.domain: SplitDomain | CandidatesDomain = whole
        if candidate:
            listed = [tuple(self._made_of(sizes)._value) for sizes in candidate]
            self.domain = CandidatesDomain(whole, tuple(listed))
        try:
            splits = self.domain.alternatives
        except ValueError as error:
            raise KnobError(f"{error} (the limit is {MOST_LISTED})") from None
        if filter is not None:
            kept = [size for size in splits if asked(filter, self.entity_of(size), "of sizes")]
            self.domain = CandidatesDomain(whole, tuple(kept))

    def index_of(self, entity: Entity) -> int | None:
        """Return the index of a split, None if it is not offered.

        The first size may be given where -1 says the same.
        """
        found = super().index_of(entity)
        return self.domain.index_of((-1, *entity._value[1:])) if found is None else found

    def sample(self, sch: Schedule, name: str, entity: SplitEntity) -> None:
        """Append `sample_knob_split`."""
        d = self.domain
        options = (
            {"policy": "candidate", "candidates": d.candidates}
            if isinstance(d, CandidatesDomain)
            else {"policy": d.policy, "max_factor": d.max_factor, "no_tail": d.no_tail}
        )
        sch.sample_knob_split(
            name, self._extent, self.num_output, **options, decision=entity._value
        )

    @property
    def summary(self) -> str:
        """Policy, number of iterations, of parts and of splits."""
        return (
            f"Split(policy={self.policy}, product={self.product}, "
            f"num_outputs={self.num_output}) len={len(self)}"
        )
