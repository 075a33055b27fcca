"""The knob that splits a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from schedule.indexed_domain import MOST_LISTED
from schedule.split_domain import NO_LIMIT, SPLIT_POLICIES, SplitDomain
from search.autotvm.axes import AxisLike, virtual_axis
from search.autotvm.constraint import asked
from search.autotvm.errors import KnobError
from search.autotvm.knob import Entity, KnobSpace, checked_kind

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

    @property
    def features(self) -> list[float]:
        """The sizes."""
        return [float(size) for size in self._value]

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
        if num_outputs is None or num_outputs < 1:
            raise KnobError(f"num_outputs is {num_outputs}; it is at least 1")
        self.num_output = num_outputs
        tailless = policy == "factors" if no_tail is None else no_tail
        domain = SplitDomain(max(1, self.product), num_outputs, policy, max_factor, tailless)
        if candidate is not None:
            listed = tuple(_repaired(domain, sizes) for sizes in candidate)
            domain = SplitDomain(domain.extent, num_outputs, "candidate", candidates=listed)
        if filter is not None:
            kept = tuple(
                size for size in _sizes(domain) if asked(filter, SplitEntity(size), "of sizes")
            )
            domain = SplitDomain(domain.extent, num_outputs, policy, candidates=kept)
        self.domain: Final = domain

    def __len__(self) -> int:
        return len(_sizes(self.domain))

    def _at(self, index: int) -> SplitEntity:
        return SplitEntity(self.domain.at(index))  # type: ignore[arg-type]

    def index_of(self, entity: Entity) -> int | None:
        """Return where a split is, None if it is not offered.

        The first size may be given where -1 says the same.
        """
        sizes = tuple(entity._value)
        found = self.domain.index_of(sizes)
        return self.domain.index_of((-1, *sizes[1:])) if found is None else found

    def check(self, entity: Entity) -> None:
        """Raise KnobError for what is no split in as many parts."""
        checked_kind(self, entity, SplitEntity)
        _repaired(self.domain, entity._value)

    def sample(self, sch: Schedule, name: str, entity: SplitEntity) -> None:
        """Append `sample_knob_split`."""
        d, sizes = self.domain, entity._value
        if d.candidates is None:
            sch.sample_knob_split(
                name, d.extent, d.parts, d.policy, d.max_factor, d.no_tail, decision=sizes
            )
        else:
            sch.sample_knob_split(
                name, d.extent, d.parts, "candidate", candidates=d.candidates, decision=sizes
            )

    def entity_of(self, decision: Any) -> SplitEntity:
        """Return the split with the sizes of a decision."""
        return SplitEntity(decision)

    @property
    def summary(self) -> str:
        """Policy, number of iterations, of parts and of splits."""
        return (
            f"Split(policy={self.policy}, product={self.product}, "
            f"num_outputs={self.num_output}) len={len(self)}"
        )


def _sizes(domain: SplitDomain) -> Sequence[Any]:
    try:
        return domain.alternatives
    except ValueError as error:
        raise KnobError(f"{error} (the limit is {MOST_LISTED})") from None


def _repaired(domain: SplitDomain, sizes: Any) -> Any:
    try:
        return domain.repair(sizes)
    except ValueError as error:
        raise KnobError(f"the sizes of a split: {error}") from None
