"""A journal of each unfinished run, by which the same run resumes after an interruption.

Two runs are the same if they have the same plan: programs, targets, design spaces, seeds,
strategies, and numbers of trials. The builder and the runner do not count: a run may resume with
others.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from schedule import Schedule
from search.context import TuneContext
from search.cost_model.cost_model import CostModel
from search.database.target_key import target_key
from search.errors import TuningError
from search.lines import append, json_line, opened_locked
from search.options import TuneConfig
from search.runner.objective import SECONDS
from search.search_strategy.individual import trace_key
from search.space_generator import SpaceGenerator

_NAME: Final = "unfinished_run"
_MODEL: Final = "model "


def plan_of(
    tasks: Sequence[TuneContext],
    spaces: Sequence[Sequence[Schedule]],
    config: TuneConfig,
    cost_model: CostModel | None,
) -> dict[str, Any]:
    """Return the plan of a run as plain data; `spaces` has the design spaces of each task."""
    return {
        "tasks": [_task(task, of) for task, of in zip(tasks, spaces, strict=True)],
        "max_trials_global": config.most_trials,
        "max_trials_per_task": config.trials_of_a_task,
        "num_trials_per_iter": config.num_trials_per_iter,
        "cost model": type(cost_model).__name__,
    }


def _task(task: TuneContext, spaces: Sequence[Schedule]) -> dict[str, Any]:
    plan: dict[str, Any] = {}
    if task.initial_schedules:
        keys = [trace_key(trace) for trace in task.initial_schedules]
        plan["initial schedules"] = _digest(json_line(keys))
    if task.constraint is not None:
        plan["constraint"] = _digest(task.constraint.identity)
    if task.objective is not SECONDS:
        plan["objective"] = str(task.objective)
    return {
        **plan,
        "name": task.task_name,
        "program": _digest(task.program.script()),
        "target": target_key(task.known_target),
        "space": _space(task.space_generator, spaces),
        "seed": task.seed,
        "strategy": _part(task.search_strategy),
    }


def _space(generator: SpaceGenerator | None, spaces: Sequence[Schedule]) -> str:
    """Return a digest that two tasks share if they search the same candidates.

    It covers the traces without their decisions, the postprocessors, and the mutators.
    """
    parts: list[Any] = []
    if generator is not None:
        parts += [_part(postproc) for postproc in generator.postprocs]
        parts += [[_part(m), weight] for m, weight in generator.mutator_probs.items()]
    instructions = [sch.trace.simplified(True).as_json()[0] for sch in spaces]
    return _digest(json_line([instructions, parts]))


def _part(part: object) -> list[Any]:
    """Return the class of a part of the search, and its options that are plain values."""
    options = {
        name: value
        for name, value in sorted(getattr(part, "__dict__", {}).items())
        if not name.startswith("_") and isinstance(value, (bool, int, float, str, type(None)))
    }
    return [type(part).__name__, {name: repr(value) for name, value in options.items()}]


class RunJournal:
    """A file in the working directory that exists while a run is unfinished.

    Its name has a digest of the plan of the run. Its first line is the plan, and each line after
    that is a trial, with the number of its task, or the digest of the cost model that the run saved
    (runs in one directory overwrite it). A run with the same plan resumes: it makes the remaining
    trials. A run with another plan has another file, so that several runs can be unfinished in one
    directory. A run that ends removes its file. The next run with the same plan makes all trials
    again, except that it measures no candidate twice.

    A run holds a lock on its file. If the same run starts a second time meanwhile, the second one
    resumes nothing, does not change the file, and sets `is_running_elsewhere`.
    """

    def __init__(self, work_dir: str | os.PathLike[str]) -> None:
        self.folder = Path(work_dir)
        self._path: Path | None = None
        self._file: int | None = None
        self.is_running_elsewhere = False
        """True if another process is executing the same run."""
        self._model = ""
        """The digest of the file of the cost model that this run saved last."""

    def begin(self, plan: Mapping[str, Any], tasks: int) -> list[int]:
        """Open the journal of a plan, and return the number of trials of each task so far."""
        self.close()
        heading = json_line(plan)
        self._path = self.folder / f"{_NAME}.{_digest(heading)}.json"
        try:
            self._file = opened_locked(self._path, wait=False)
        except BlockingIOError:
            self.is_running_elsewhere = True
            return [0] * tasks
        first, *lines = self._path.read_text(encoding="utf-8", errors="replace").split("\n")
        if first != heading or not lines:
            os.ftruncate(self._file, 0)  # the run was killed before its first line was complete
            append(self._file, f"{heading}\n".encode())
            lines = []
        models = [line for line in lines if line.startswith(_MODEL)]
        self._model = models[-1].removeprefix(_MODEL) if models else ""
        return [lines.count(_line_of(task)) for task in range(tasks)]

    def note_trial(self, task: int) -> None:
        """Append a trial of a task."""
        if self._file is not None:
            append(self._file, f"{_line_of(task)}\n".encode())

    def note_model(self, path: Path) -> None:
        """Append the digest of the file of the cost model, if the model was saved there."""
        if self._file is not None and path.exists():
            append(self._file, f"{_MODEL}{_digest(path.read_bytes())}\n".encode())

    def check_model(self, path: Path) -> None:
        """Raise TuningError unless a file is the cost model that this run saved last."""
        if self._model != _digest(path.read_bytes()):
            raise TuningError(f"{path} was changed, by another run for example")

    def others(self) -> list[dict[str, Any]]:
        """Return the plans of the other unfinished runs in the directory."""
        plans = []
        for path in sorted(self.folder.glob(f"{_NAME}.*.json")):
            if path != self._path:
                try:
                    with path.open(encoding="utf-8") as file:
                        plan = json.loads(file.readline())
                except (OSError, ValueError):
                    continue
                plans += [plan] if isinstance(plan, dict) else []
        return plans

    def end(self) -> None:
        """Remove the file, because the run is over."""
        if self._file is not None and self._path is not None:
            self._path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Close the file, whether the run is over or not."""
        if self._file is not None:
            os.close(self._file)
        self._file = self._path = None


def _line_of(task: int) -> str:
    """Return the text in the line of a trial that only lines of its task contain."""
    return f"[{task}]"


def _digest(content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(data).hexdigest()[:16]
