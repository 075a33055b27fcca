"""The plan of a run, by which it is told whether one that was interrupted is the same.

The programs, their targets, the design spaces, the seeds, the strategies and how many trials there
are to be make a run. How it is measured does not: a run may go on with another runner.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from search.database.growing_file import json_line
from search.database.target_key import target_key

if TYPE_CHECKING:
    from schedule import Schedule
    from search.context import TuneContext
    from search.cost_model.cost_model import CostModel
    from search.space_generator import SpaceGenerator
    from search.tune_config import TuneConfig


def plan_of(
    tasks: Sequence[TuneContext],
    spaces: Sequence[Sequence[Schedule]],
    config: TuneConfig,
    cost_model: CostModel | None,
) -> dict[str, Any]:
    """Return the plan of a run as plain data; `spaces` are the design spaces of each task."""
    return {
        "tasks": [_task(task, of) for task, of in zip(tasks, spaces, strict=True)],
        "max_trials_global": config.max_trials_global,
        "max_trials_per_task": config.trials_of_a_task,
        "num_trials_per_iter": config.num_trials_per_iter,
        "cost model": type(cost_model).__name__,
    }


def _task(task: TuneContext, spaces: Sequence[Schedule]) -> dict[str, Any]:
    assert task.mod is not None
    return {
        "name": task.task_name,
        "program": _digest(task.mod.script()),
        "target": None if task.target is None else target_key(task.target),
        "space": _space(task.space_generator, spaces),
        "seed": task.seed,
        "strategy": _part(task.search_strategy),
    }


def _space(generator: SpaceGenerator | None, spaces: Sequence[Schedule]) -> str:
    """Return a text that two tasks share if they search the same.

    These are the traces without what they have decided, and what is done to each candidate.
    """
    done: list[Any] = []
    if generator is not None:
        done += [_part(postproc) for postproc in generator.postprocs]
        done += [[_part(m), weight] for m, weight in generator.mutator_probs.items()]
    instructions = [sch.trace.simplified(True).as_json()[0] for sch in spaces]
    return _digest(json_line([instructions, done]))


def _part(part: object) -> list[Any]:
    """Return the class of a part of the search, and those of its options that are plain values."""
    options = {
        name: value
        for name, value in sorted(getattr(part, "__dict__", {}).items())
        if not name.startswith("_") and isinstance(value, (bool, int, float, str, type(None)))
    }
    return [type(part).__name__, {name: repr(value) for name, value in options.items()}]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
