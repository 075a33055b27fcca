"""Another limit of unrolling."""

from __future__ import annotations

from schedule import Instruction, Trace
from schedule.random_state import RandomState
from search.mutator.mutator import Mutator
from search.schedule_rule.parallelize_vectorize_unroll import UNROLL_EXPLICIT, UNROLL_IMPLICIT


class MutateUnroll(Mutator):
    """Picks another of the sampled limits of unrolling, by their probabilities."""

    def apply(self, trace: Trace, rand_state: RandomState) -> Trace | None:
        """Return a trace with another limit, None if none is sampled."""
        by_output = {rv: inst for inst in trace.insts for rv in inst.outputs if rv is not None}
        sampled: list[Instruction] = []
        for inst in trace.insts:
            if inst.kind.name != "Annotate":
                continue
            values = dict(zip((p.name for p in inst.kind.params), inst.values, strict=True))
            if values["ann_key"] not in (UNROLL_EXPLICIT, UNROLL_IMPLICIT):
                continue
            source = by_output.get(values["ann_val"])
            if source is not None and source.kind.name == "SampleCategorical":
                sampled.append(source)
        if not sampled:
            return None
        inst = sampled[rand_state.uniform_int(0, len(sampled))]
        values = dict(zip((p.name for p in inst.kind.params), inst.values, strict=True))
        current = trace.decisions.get(inst)
        others = [k for k in range(len(values["probs"])) if k != current]
        if not others:
            return None
        weights = [float(values["probs"][k]) for k in others]
        choice = others[rand_state.categorical(weights)]
        return trace.with_decision(inst, choice, remove_postproc=True)
