"""The knob that orders loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from schedule.decisions.domain import CandidatesDomain
from schedule.decisions.knobs import PermutationDomain
from search.autotvm.errors import KnobError
from search.autotvm.space.knob import AxisLike, Entity, KnobSpace

if TYPE_CHECKING:
    from schedule import LoopRV, Schedule

_POLICIES: Final = (
    "identity",
    "all",
    "interval_all",
    "candidate",
    "interleave",
    "interleave_cuda",
)


class ReorderEntity(Entity):
    """The position of each axis in the new order."""

    code = "re"

    def __init__(self, perm: Sequence[int]) -> None:
        super().__init__(list(perm))

    @classmethod
    def holds(cls, value: Any) -> bool:
        """Say whether something is a list with each position once."""
        return (
            isinstance(value, (list, tuple))
            and len(value) > 0
            and all(type(position) is int for position in value)
            and sorted(value) == list(range(len(value)))
        )

    @property
    def perm(self) -> list[int]:
        """The positions. Reading them fixes the knob in the trace."""
        return list(self._read())

    def apply(self, sch: Schedule, op: Any, axes: Sequence[LoopRV] | None = None) -> list[LoopRV]:
        """Reorder loops and return them in the new order.

        `apply(sch, loops)`, or `apply(sch, block, loops)`. Where there are fewer loops than
        positions, those beyond are left out.
        """
        loops: list[LoopRV] = list(op if axes is None else axes)
        order = self._value
        if len(loops) == len(order):
            positions = self._numbers(sch)
            if positions is not None:
                return sch.reorder_by(loops, list(positions))
        else:
            order = self.perm
        ordered = [loops[position] for position in order if position < len(loops)]
        sch.reorder(*ordered)
        return ordered


class ReorderSpace(KnobSpace[ReorderEntity]):
    """The orders of some axes.

    `policy` is `identity`; `all`; `interval_all` with `interval=(begin, end)`, which leaves the
    axes outside where they are; `candidate` with `candidate`, lists of the same axes; `interleave`
    or `interleave_cuda` with `spatial` and `reduce`, lists of chains of the axes, outer ones first.
    """

    kind = ReorderEntity

    def __init__(
        self,
        axes: Sequence[AxisLike],
        policy: str,
        *,
        interval: tuple[int, int] | None = None,
        candidate: Sequence[Sequence[AxisLike]] | None = None,
        spatial: Sequence[Sequence[AxisLike]] | None = None,
        reduce: Sequence[Sequence[AxisLike]] | None = None,
    ) -> None:
        self.policy = policy
        self.num_output = count = len(axes)
        if count == 0:
            raise KnobError("there are no axes to reorder")
        whole = PermutationDomain(count, 0, count)
        self.domain: PermutationDomain | CandidatesDomain = whole
        if policy == "identity":
            self.domain = CandidatesDomain(whole, (tuple(range(count)),))
        elif policy == "all":
            pass
        elif policy == "interval_all":
            if interval is None or not 0 <= interval[0] < interval[1] <= count:
                raise KnobError(
                    f"policy='interval_all' needs interval=(begin, end) within {count} axes, "
                    f"got {interval}"
                )
            self.domain = PermutationDomain(count, *interval)
        elif policy == "candidate":
            if not candidate:
                raise KnobError("policy='candidate' needs candidate, lists of the axes")
            orders = tuple(_positions(axes, order) for order in candidate)
            self.domain = CandidatesDomain(whole, orders)
        elif policy in ("interleave", "interleave_cuda"):
            if spatial is None or reduce is None:
                raise KnobError(f"policy={policy!r} needs spatial and reduce, lists of chains")
            order = _interleaved(policy, spatial, reduce)
            self.domain = CandidatesDomain(whole, (_positions(axes, order),))
        else:
            raise KnobError(
                f"there is no policy {policy!r} of orders; it is one of {list(_POLICIES)}"
            )
        if self.domain.size >= 1 << 63:
            raise KnobError(f"the orders of {count} axes are beyond int64; reorder fewer at a time")

    def sample(self, sch: Schedule, name: str, entity: ReorderEntity) -> None:
        """Append `sample_knob_reorder`."""
        d = self.domain
        options = (
            {"candidates": d.candidates}
            if isinstance(d, CandidatesDomain)
            else {"begin": d.begin, "end": d.end}
        )
        sch.sample_knob_reorder(name, self.num_output, **options, decision=entity._value)


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


def _interleaved(
    policy: str, spatial: Sequence[Sequence[AxisLike]], reduce: Sequence[Sequence[AxisLike]]
) -> list[AxisLike]:
    outer = _merged([chain[:-1] for chain in spatial])
    last = [[chain[-1]] for chain in spatial]
    if policy == "interleave":
        return [*outer, *_merged([*last, *reduce])]
    return [*outer, *_merged(reduce), *(axis for chain in last for axis in chain)]


def _merged(chains: Sequence[Sequence[AxisLike]]) -> list[AxisLike]:
    """Return the axes of all chains, taking the next from the one that has most left."""
    left = [list(chain) for chain in chains]
    merged = []
    while any(left):
        longest = max(left, key=len)
        merged.append(longest.pop(0))
    return merged
