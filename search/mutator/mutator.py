"""Mutators: another decision at one site of a trace, at any or at those of one purpose."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from schedule import Instruction, Schedule, Trace
from schedule.random_state import RandomState
from search.errors import TuningError
from search.kinds import Registry, TaskPart
from search.space_generator.annotations import (
    PARALLEL,
    REGISTER_TILE,
    UNROLL_EXPLICIT,
    UNROLL_IMPLICIT,
)
from search.space_generator.decision_site import LOCATION, Site, parallel_extents, sites_of
from search.space_generator.design_space import Decisions, DesignSpace
from search.task import Task

_UNROLLING: Final = frozenset({UNROLL_EXPLICIT, UNROLL_IMPLICIT})
_OF_OTHERS: Final = frozenset({LOCATION, PARALLEL, REGISTER_TILE, *_UNROLLING})


class Mutator(TaskPart[Task], ABC):
    """Changes one decision of a trace."""

    kinds: ClassVar[Registry[dict[Mutator, float]]] = Registry("preset of mutators")
    """Presets by target kind (`llvm`, ...): functions that return mutators and their weights."""

    @staticmethod
    def create(kind: str) -> dict[Mutator, float]:
        """Return the preset of mutators for a target kind, each with its probability."""
        return Mutator.kinds.make(kind)

    @abstractmethod
    def apply(self, trace: Trace, rand_state: RandomState) -> Trace | None:
        """Return a changed copy of `trace` without its postprocessing part, None if none exists.

        All randomness comes from `rand_state`.
        """

    def neighbour(
        self, space: DesignSpace, decisions: Decisions, rand_state: RandomState
    ) -> Decisions | None:
        """Return a changed point of a design space, None if there is none.

        A mutator of traces need not know of points: `apply` is asked, and what leaves the space
        counts as none.
        """
        trace = self.apply(space.trace_of(decisions), rand_state)
        return None if trace is None else space.decisions_of(trace)


PyMutator = Mutator
"""The base class under the name that it has for user classes in TVM."""


class MutateDecision(Mutator):
    """Takes a site and steps to an alternative next to what was decided there.

    `purpose` says which sites: those with that purpose, those that a predicate accepts, None for
    all. One of them is drawn uniformly; its domain draws the step. What declares no domain is
    sampled anew.
    """

    def __init__(self, purpose: str | Callable[[Site], bool] | None = None) -> None:
        self.purpose = purpose

    def selects(self, site: Site) -> bool:
        """Say whether the mutator changes such sites."""
        if callable(self.purpose):
            return self.purpose(site)
        return self.purpose is None or site.purpose == self.purpose

    def sites_in(self, space: DesignSpace) -> list[int]:
        """Return the indices of the sites of a space that the mutator changes."""
        return [k for k, site in enumerate(space.sites) if self.selects(site)]

    def neighbour(
        self, space: DesignSpace, decisions: Decisions, rand_state: RandomState
    ) -> Decisions | None:
        """Return a point with another decision at one of the sites, None if there is no other."""
        return space.neighbour(decisions, rand_state, among=self.sites_in(space))

    def apply(self, trace: Trace, rand_state: RandomState) -> Trace | None:
        """Return a trace with another decision at one of the sites, None if there is no other.

        TuningError for a trace that was not applied to a program, as one from a file, while the
        mutator was not initialised with a task that has the program.
        """
        insts = trace.instructions(remove_postproc=True)
        kept = Trace(
            insts, {inst: trace.decisions[inst] for inst in insts if inst in trace.decisions}
        )
        space = DesignSpace(kept, sites_of(insts, self._applied(kept)))
        point = self.neighbour(space, space.decisions, rand_state)
        return None if point is None else space.trace_of(point)

    def _applied(self, trace: Trace) -> Sequence[Instruction]:
        """Return the instructions of a trace as they were applied, so that domains are known."""
        if all(inst.domain is not None for inst in trace.insts if inst.kind.domain is not None):
            return trace.insts
        mod = None if self.context is None else self.context.mod
        if mod is None:
            raise TuningError(
                f"{self} needs the program of a trace that was read from text; "
                "initialise it with a task, or apply the trace to a schedule first"
            )
        sch = Schedule(mod, seed=1, error_render_level="none")
        trace.apply_to_schedule(sch, remove_postproc=False)
        return sch.trace.insts


class MutateComputeLocation(MutateDecision):
    """Picks a sampled compute location and another of those that are possible there."""

    def __init__(self) -> None:
        super().__init__(LOCATION)


class MutateRegisterTile(MutateDecision):
    """Picks another number of registers for tiles, where `SampleRegisterTile` has sampled one."""

    def __init__(self) -> None:
        super().__init__(REGISTER_TILE)


class MutateTileSize(MutateDecision):
    """Picks a sampled tile, divides one of its parts by a factor and multiplies another with it.

    The innermost part stays within the limit of the instruction. Other sampled numbers count as
    sizes too, those of a primitive of one's own for instance, unless another mutator is for them.
    """

    def __init__(self) -> None:
        super().__init__(lambda site: site.purpose not in _OF_OTHERS)


class MutateUnroll(MutateDecision):
    """Picks another of the sampled limits of unrolling, by their probabilities."""

    def __init__(self) -> None:
        super().__init__(lambda site: site.purpose in _UNROLLING)


class MutateParallel(MutateDecision):
    """Picks another number of parallel iterations, up to `max_jobs_per_core` times the cores.

    How many outer loops of each block are fused depends on the number; `parallel_extents` has
    enough of them for all fusions. A number that was sampled gets another of its choices.
    """

    def __init__(self, max_jobs_per_core: int) -> None:
        super().__init__(PARALLEL)
        self.max_jobs_per_core = max_jobs_per_core
        self._limit = 0

    def _initialize_with_tune_context(self, context: Task) -> None:
        super()._initialize_with_tune_context(context)
        self._limit = self._task_cores() * self.max_jobs_per_core

    def neighbour(
        self, space: DesignSpace, decisions: Decisions, rand_state: RandomState
    ) -> Decisions | None:
        """Return a point with another number, None if there is no other."""
        marks = self.sites_in(space)
        if not marks:
            return None
        if self._limit < 1:
            raise TuningError("MutateParallel is used before it was initialised with a task")
        k = marks[rand_state.uniform_int(0, len(marks))]
        present = decisions[k]
        if space.sites[k].is_sampling or present is None:
            return space.neighbour(decisions, rand_state, among=[k])
        other = parallel_extents(self._limit).step(present, rand_state)
        return None if other is None else (*decisions[:k], other, *decisions[k + 1 :])
