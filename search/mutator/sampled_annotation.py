"""Another choice for the sampled value of an annotation."""

from __future__ import annotations

from collections.abc import Collection

from schedule import Instruction, Trace
from schedule.random_state import RandomState


def with_other_choice(trace: Trace, keys: Collection[str], rand_state: RandomState) -> Trace | None:
    """Return a trace with another value for an annotation with one of `keys`.

    One that `sample_categorical` chose; the others are drawn by their probabilities. None if there
    is none, or if it has no other value.
    """
    by_output = {rv: inst for inst in trace.insts for rv in inst.outputs if rv is not None}
    sampled: list[Instruction] = []
    for inst in trace.insts:
        if inst.kind.name != "Annotate":
            continue
        values = dict(zip((p.name for p in inst.kind.params), inst.values, strict=True))
        if values["ann_key"] not in keys:
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
