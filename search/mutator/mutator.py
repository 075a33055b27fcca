"""Mutators, which change one decision of a trace, and their preset."""

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
from search.space_generator.design_space import Decisions, DesignSpace
from search.space_generator.knobs import LOCATION, THREADS, Knob, knobs_in, parallel_extents
from search.task import Task

_UNROLLING: Final = frozenset({UNROLL_EXPLICIT, UNROLL_IMPLICIT})
_OF_OTHERS: Final = frozenset({LOCATION, PARALLEL, REGISTER_TILE, THREADS, *_UNROLLING})


class Mutator(TaskPart[Task], ABC):
    """Changes one decision of a trace."""

    kinds: ClassVar[Registry[dict[Mutator, float]]] = Registry("preset of mutators")
    """Presets by target kind (`llvm`, ...): functions that return mutators with their weights."""

    @staticmethod
    def create(kind: str) -> dict[Mutator, float]:
        """Return the preset of mutators for a target kind, each with its weight."""
        return Mutator.kinds.make(kind)

    @abstractmethod
    def apply(self, trace: Trace, rand_state: RandomState) -> Trace | None:
        """Return a changed copy of `trace` without its postprocessing, None if there is none.

        All random choices use `rand_state`.
        """

    def neighbour(
        self, space: DesignSpace, decisions: Decisions, rand_state: RandomState
    ) -> Decisions | None:
        """Return a changed point of a design space, None if there is none.

        A mutator that implements `apply` only works here, too; traces that leave the space are
        dropped.
        """
        trace = self.apply(space.trace_of(decisions), rand_state)
        return None if trace is None else space.decisions_of(trace)


PyMutator = Mutator
"""TVM's name of the base class of user-defined mutators."""


class MutateDecision(Mutator):
    """Replaces the decision of one knob by a neighbouring alternative.

    `purpose` selects the knobs, by their purpose or by a predicate; None selects all. One of them
    is drawn uniformly, and its domain draws the alternative. Without a domain it is sampled again.
    """

    def __init__(self, purpose: str | Callable[[Knob], bool] | None = None) -> None:
        self.purpose = purpose

    def selects(self, knob: Knob) -> bool:
        """Return True if the mutator may change a knob."""
        if callable(self.purpose):
            return self.purpose(knob)
        return self.purpose is None or knob.purpose == self.purpose

    def knobs_of(self, space: DesignSpace) -> list[int]:
        """Return the indices of the knobs that the mutator may change."""
        return [k for k, knob in enumerate(space.knobs) if self.selects(knob)]

    def neighbour(
        self, space: DesignSpace, decisions: Decisions, rand_state: RandomState
    ) -> Decisions | None:
        """Return a point with another decision of one of the knobs, None if there is none."""
        return space.neighbour(decisions, rand_state, among=self.knobs_of(space))

    def apply(self, trace: Trace, rand_state: RandomState) -> Trace | None:
        """Return a trace with another decision of one of the knobs, None if there is none.

        A trace from a file lacks domains: the mutator then replays it on the program of its
        task. Raises TuningError if it was not initialised with a task.
        """
        insts = trace.instructions(remove_postproc=True)
        kept = Trace(
            insts, {inst: trace.decisions[inst] for inst in insts if inst in trace.decisions}
        )
        space = DesignSpace(kept, knobs_in(insts, self._applied(kept)))
        point = self.neighbour(space, space.decisions, rand_state)
        return None if point is None else space.trace_of(point)

    def _applied(self, trace: Trace) -> Sequence[Instruction]:
        """Return the instructions of a trace after they were applied, which sets their domains."""
        if all(inst.domain is not None for inst in trace.insts if inst.kind.domain is not None):
            return trace.insts
        mod = None if self.context is None else self.context.mod
        if mod is None:
            raise TuningError(
                f"{self} cannot change a trace that was not applied to a program; initialise the "
                "mutator with a task, or apply the trace to a schedule first"
            )
        sch = Schedule(mod, seed=1, error_render_level="none")
        trace.apply_to_schedule(sch, remove_postproc=False)
        return sch.trace.insts


class MutateComputeLocation(MutateDecision):
    """Moves a block with a sampled compute location to another possible location."""

    def __init__(self) -> None:
        super().__init__(LOCATION)


class MutateRegisterTile(MutateDecision):
    """Replaces the number of registers that `SampleRegisterTile` has sampled."""

    def __init__(self) -> None:
        super().__init__(REGISTER_TILE)


class MutateTileSize(MutateDecision):
    """Divides one factor of a sampled tile by a number and multiplies another factor by it.

    The innermost factor respects the limit of the instruction. Any other sampled number that no
    other mutator covers is a size, too, such as that of a user-defined primitive.
    """

    def __init__(self) -> None:
        super().__init__(lambda knob: knob.purpose not in _OF_OTHERS)


class MutateUnroll(MutateDecision):
    """Replaces a sampled unroll limit, by the probabilities of its alternatives."""

    def __init__(self) -> None:
        super().__init__(lambda knob: knob.purpose in _UNROLLING)


class MutateThreadBinding(MutateDecision):
    """Replaces a sampled number of threads, by the probabilities of its alternatives."""

    def __init__(self) -> None:
        super().__init__(THREADS)


class MutateParallel(MutateDecision):
    """Replaces a number of parallel iterations, up to `max_jobs_per_core` times the cores.

    The number decides how many outer loops of each block are fused; the alternatives of
    `parallel_extents` reach all fusions. A sampled number is replaced by one of its alternatives.
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
        """Return a point with another number, None if there is none."""
        marks = self.knobs_of(space)
        if not marks:
            return None
        if self._limit < 1:
            raise TuningError("MutateParallel was not initialised; initialise it with a task")
        k = marks[rand_state.uniform_int(0, len(marks))]
        present = decisions[k]
        if space.knobs[k].is_sampling or present is None:
            return space.neighbour(decisions, rand_state, among=[k])
        other = parallel_extents(self._limit).step(present, rand_state)
        return None if other is None else (*decisions[:k], other, *decisions[k + 1 :])


@Mutator.kinds.register("llvm", "amx", "vnni", "avx512", "avx2", "asimd", "dotprod")
def cpu_mutators() -> dict[Mutator, float]:
    """Return the mutators for CPUs, with their weights."""
    return {
        MutateTileSize(): 0.88,
        MutateComputeLocation(): 0.05,
        MutateUnroll(): 0.03,
        MutateRegisterTile(): 0.02,
        MutateParallel(max_jobs_per_core=16): 0.02,
    }


@Mutator.kinds.register("cuda", "cuda-tensorcore")
def gpu_mutators() -> dict[Mutator, float]:
    """Return the mutators for GPUs of any kind, with their weights."""
    return {MutateTileSize(): 0.9, MutateUnroll(): 0.08, MutateThreadBinding(): 0.02}
