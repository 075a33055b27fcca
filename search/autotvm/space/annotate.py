"""The knob that says how loops run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from schedule.decisions.domain import CandidatesDomain
from schedule.decisions.knobs import MARKS, LoopMarkDomain, loop_marks
from schedule.primitives.loop_kind import refused_extent
from search.autotvm.errors import KnobError
from search.autotvm.space.knob import AxisLike, Entity, KnobSpace, virtual_axis

if TYPE_CHECKING:
    from schedule import BlockRV, LoopRV, Schedule
    from search.autotvm.space.config import Config

_BLOCK_AXES: Final = ("blockIdx.z", "blockIdx.y", "blockIdx.x")
_THREAD_AXES: Final = ("threadIdx.z", "threadIdx.y", "threadIdx.x")
ANNOTATIONS: Final = (*MARKS, *_BLOCK_AXES[::-1], *_THREAD_AXES[::-1], "vthread", "fuse")
"""All annotations, in the order that features have them."""


class AnnotateEntity(Entity):
    """The annotation of each axis; for `locate_cache` the positions of axes."""

    code = "an"

    def __init__(self, anns: Sequence[Any]) -> None:
        super().__init__(list(anns))

    @classmethod
    def holds(cls, value: Any) -> bool:
        """Say whether something is a list of annotations, or of positions."""
        return isinstance(value, (list, tuple)) and (
            all(isinstance(ann, str) and ann in ANNOTATIONS for ann in value)
            or all(type(ann) is int and ann >= 0 for ann in value)
        )

    @property
    def anns(self) -> list[Any]:
        """The annotations. Reading them fixes the knob in the trace."""
        return list(self._read())

    @property
    def features(self) -> list[float]:
        """For each axis 11 numbers, of which that of its annotation is 1; positions as they are."""
        if all(type(ann) is int for ann in self._value):
            return super().features
        return [float(ann == known) for ann in self._value for known in ANNOTATIONS]

    def apply(
        self,
        sch: Schedule,
        op: Any,
        axes: Sequence[LoopRV] | None = None,
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: Config | None = None,
        source: Sequence[Sequence[BlockRV]] | None = None,
    ) -> list[LoopRV]:
        """Annotate loops and return those that are left: `apply(sch, loops, ...)`.

        `apply(sch, block, loops, ...)` is the same. A loop longer than `max_unroll` that would be
        unrolled, and one that would be vectorized with a length that is not in `vec_size`, make the
        configuration `cfg`, or the one of the knob, invalid. `axis_lens` are lengths to take
        instead of the loops' own. With `source`, the blocks of each of its groups are computed at
        the axis that the knob locates for the group.
        """
        loops: list[LoopRV] = list(op if axes is None else axes)
        anns = self._value
        if source is not None:
            for blocks, position in zip(source, self.anns, strict=True):
                for block in blocks:
                    sch.compute_at(block, loops[position])
            return loops
        if len(anns) != len(loops):
            raise KnobError(f"{len(anns)} annotations {anns} are applied to {len(loops)} loops")
        lengths = [virtual_axis(loop).length for loop in loops] if axis_lens is None else axis_lens
        limits_hold = True
        for ann, length in zip(anns, lengths, strict=True):
            reason = refused_extent(length, ann, max_unroll, vec_size)
            if reason:
                limits_hold = False
                _refuse(cfg or self._owner, f"an axis of length {length} is to be {ann}: {reason}")
        marks = self._numbers(sch)
        if marks is None:
            return _annotated(sch, loops, anns)
        if limits_hold:
            sch.mark_loops(loops, list(marks), max_unroll, vec_size)
        else:
            sch.mark_loops(loops, list(marks))
        return loops


def _refuse(cfg: Config | None, message: str) -> None:
    if cfg is None:
        raise KnobError(message)
    cfg.raise_error(message)


def _annotated(sch: Schedule, loops: Sequence[LoopRV], anns: Sequence[str]) -> list[LoopRV]:
    """Apply annotations as constants; a loop that is to be fused goes into the next."""
    left: list[LoopRV] = []
    fused: list[LoopRV] = []
    for loop, ann in zip(loops, anns, strict=True):
        fused.append(loop)
        if ann == "fuse":
            continue
        whole = fused[0] if len(fused) == 1 else sch.fuse(*fused)
        fused = []
        left.append(whole)
        if ann == "vec":
            sch.vectorize(whole)
        elif ann == "unroll":
            sch.unroll(whole)
        elif ann != "none":
            sch.bind(whole, ann)
    return [*left, *fused]


class AnnotateSpace(KnobSpace[AnnotateEntity]):
    """The annotations that some axes may have.

    `policy` is made of the words `try` (may stay), `unroll` and `vec`, as `try_unroll_vec`, of
    which each axis takes any, but only one is `vec`; `bind_gpu` or `bind_gpu_virtual`;
    `locate_cache` with `num_anchor`, which chooses as many of the axes; or `candidate` with
    `candidate`, lists of annotations.
    """

    kind = AnnotateEntity

    def __init__(
        self,
        axes: Sequence[AxisLike],
        policy: str,
        *,
        num_anchor: int | None = None,
        candidate: Sequence[Sequence[str]] | None = None,
    ) -> None:
        self.policy = policy
        self.num_output = count = len(axes)
        if count == 0:
            raise KnobError("there are no axes to annotate")
        whole = LoopMarkDomain(count, policy, ANNOTATIONS)
        ways: Sequence[Sequence[Any]] = ()
        if policy in ("bind_gpu", "bind_gpu_virtual"):
            ways = (_bound(policy, count),)
        elif policy == "locate_cache":
            if num_anchor is None or not 1 <= num_anchor <= count:
                raise KnobError(
                    f"policy='locate_cache' needs num_anchor from 1 to {count}, got {num_anchor}"
                )
            whole = LoopMarkDomain(num_anchor, policy, tuple(range(count)))
            ways = tuple(combinations(range(count), num_anchor))
        elif policy == "candidate":
            if not candidate:
                raise KnobError("policy='candidate' needs candidate, lists of annotations")
            ways = candidate
        else:
            whole = LoopMarkDomain(count, policy)
            try:
                loop_marks(count, policy)
            except ValueError as error:
                raise KnobError(
                    f"the policy of annotations {error}; other policies are bind_gpu, "
                    "bind_gpu_virtual, locate_cache and candidate"
                ) from None
        self.domain: LoopMarkDomain | CandidatesDomain = whole
        for anns in ways:
            self._made_of(anns)
        if ways:
            self.domain = CandidatesDomain(whole, tuple(map(tuple, ways)))
        # Only for marks there is a primitive that takes numbers.
        self.can_be_sampled = all(ann in MARKS for anns in ways for ann in anns)

    def sample(self, sch: Schedule, name: str, entity: AnnotateEntity) -> None:
        """Append `sample_knob_annotate`."""
        d = self.domain
        options = (
            {"candidates": d.candidates}
            if isinstance(d, CandidatesDomain)
            else {"policy": self.policy}
        )
        sch.sample_knob_annotate(name, self.num_output, **options, decision=entity._value)


def _bound(policy: str, count: int) -> tuple[str, ...]:
    """Return the thread axes that `count` axes are bound to, outer ones fused together."""
    groups = [_BLOCK_AXES, _THREAD_AXES]
    if policy == "bind_gpu_virtual":
        groups.insert(1, ("vthread",) * 3)
    for width in (3, 2, 1):
        if count >= width * len(groups):
            bound = [axis for group in groups for axis in group[3 - width :]]
            return (*["fuse"] * (count - len(bound)), *bound)
    raise KnobError(f"policy={policy!r} needs at least {len(groups)} axes, there are {count}")
