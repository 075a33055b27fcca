"""Another loop to compute a block at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from schedule import BlockRV, Instruction, Schedule, Trace
from schedule.primitives.sample_compute_location import compute_locations
from schedule.random_state import RandomState
from search.errors import TuningError
from search.mutator.mutator import Mutator

if TYPE_CHECKING:
    from search.context import TuneContext
    from tensorir.function import IRModule


class MutateComputeLocation(Mutator):
    """Picks a sampled compute location and another of those that are possible there."""

    def __init__(self) -> None:
        self._mod: IRModule | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self._mod = context.mod

    def apply(self, trace: Trace, rand_state: RandomState) -> Trace | None:
        """Return a trace with another location, None if there is none to change."""
        if not any(inst.kind.name == "SampleComputeLocation" for inst in trace.insts):
            return None
        if self._mod is None:
            raise TuningError("MutateComputeLocation is used before it was initialised with a task")
        found: list[tuple[Instruction, list[int]]] = []
        sch = Schedule(self._mod, seed=1, error_render_level="none")

        def look(
            inst: Instruction, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
        ) -> Any:
            if inst.kind.name == "SampleComputeLocation":
                block = inputs[0]
                assert isinstance(block, BlockRV)
                places = compute_locations(sch.state, sch.get_sref(block))
                others = [index for index in places if index != decision]
                if others:
                    found.append((inst, others))
            return decision

        trace.apply_to_schedule(sch, remove_postproc=True, decision_provider=look)
        if not found:
            return None
        inst, others = found[rand_state.uniform_int(0, len(found))]
        place = others[rand_state.uniform_int(0, len(others))]
        return trace.with_decision(inst, place, remove_postproc=True)
