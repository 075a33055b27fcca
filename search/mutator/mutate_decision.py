"""Another decision at one site of a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from schedule import Instruction, Schedule, Trace
from schedule.random_state import RandomState
from search.errors import TuningError
from search.mutator.mutator import Mutator
from search.spaces.decision_site import Site, sites_of
from search.spaces.design_space import Decisions, DesignSpace

if TYPE_CHECKING:
    from search.context import TuneContext
    from tensorir.function import IRModule


class MutateDecision(Mutator):
    """Takes a site and steps to an alternative next to what was decided there.

    `purpose` says which sites: those with that purpose, those that a predicate accepts, None for
    all. One of them is drawn uniformly; its domain draws the step. What declares no domain is
    sampled anew.
    """

    def __init__(self, purpose: str | Callable[[Site], bool] | None = None) -> None:
        self.purpose = purpose
        self._mod: IRModule | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self._mod = context.mod

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
        if self._mod is None:
            raise TuningError(
                f"{self} needs the program of a trace that was read from text; "
                "initialise it with a task, or apply the trace to a schedule first"
            )
        sch = Schedule(self._mod, seed=1, error_render_level="none")
        trace.apply_to_schedule(sch, remove_postproc=False)
        return sch.trace.insts
