"""Knowing at the start of a run that the same run was begun before, and how far it came.

The programs, their targets, the design spaces, the seeds, the strategies and how many trials there
are to be make a run: its plan. How it is measured does not: a run may go on with another runner.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from schedule import Schedule
from search.context import TuneContext
from search.cost_model.cost_model import CostModel
from search.database.target_key import target_key
from search.lines import append, json_line, opened_locked
from search.options import TuneConfig
from search.runner.objective import SECONDS
from search.search_strategy.individual import trace_key
from search.space_generator import SpaceGenerator

_NAME: Final = "unfinished_run"


def plan_of(
    tasks: Sequence[TuneContext],
    spaces: Sequence[Sequence[Schedule]],
    config: TuneConfig,
    cost_model: CostModel | None,
) -> dict[str, Any]:
    """Return the plan of a run as plain data; `spaces` are the design spaces of each task."""
    return {
        "tasks": [_task(task, of) for task, of in zip(tasks, spaces, strict=True)],
        "max_trials_global": config.most_trials,
        "max_trials_per_task": config.trials_of_a_task,
        "num_trials_per_iter": config.num_trials_per_iter,
        "cost model": type(cost_model).__name__,
    }


def _task(task: TuneContext, spaces: Sequence[Schedule]) -> dict[str, Any]:
    assert task.mod is not None
    wishes = {}
    if task.initial_schedules:
        keys = [trace_key(trace) for trace in task.initial_schedules]
        wishes["initial schedules"] = _digest(json_line(keys))
    if task.constraint is not None:
        wishes["constraint"] = _digest(task.constraint.identity)
    if task.objective is not SECONDS:
        wishes["objective"] = str(task.objective)
    return {
        **wishes,
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


class RunJournal:
    """A file in the working directory that exists while a run is unfinished.

    Its name stands for what the run is (`search.runs.run_journal`), which its first line says; then
    follows a line for each trial, with the number of its task. Who is to do the same and finds the
    file goes on with the trials that are left. Any other run has a file of its own beside it, so
    that neither knows of the other. A run that ended removes its file: the next one that is the
    same makes all its trials (those measured before are not repeated).

    While the run goes on it has a lock on the file. If the same run is begun a second time
    meanwhile, that one has nothing to resume, leaves the file alone, and `is_running_elsewhere`.
    """

    def __init__(self, work_dir: str | os.PathLike[str]) -> None:
        self.folder = Path(work_dir)
        self._path: Path | None = None
        self._file: int | None = None
        self.is_running_elsewhere = False
        """True if another process has begun the same run and is still at it."""

    def begin(self, plan: Mapping[str, Any], tasks: int) -> list[int]:
        """Return how many trials of each of so many tasks were made already.

        `plan` is plain data that says what the run is.
        """
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
            os.ftruncate(self._file, 0)  # a run that was killed before it had begun
            append(self._file, f"{heading}\n".encode())
            lines = []
        return [lines.count(_line_of(task)) for task in range(tasks)]

    def note_trial(self, task: int) -> None:
        """Note that a trial of a task was made."""
        if self._file is not None:
            append(self._file, f"{_line_of(task)}\n".encode())

    @property
    def model(self) -> Path | None:
        """The file of the cost model of the run while it is unfinished, None for no such run."""
        return None if self._file is None or self._path is None else self._path.with_suffix(".xgb")

    def keep_model(self, saved: Path) -> None:
        """Keep a copy of a saved cost model, which no other run puts its own in the place of."""
        if self.model is not None:
            beside = self.model.with_suffix(".new")
            shutil.copyfile(saved, beside)
            beside.replace(self.model)

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
        """Note that the run is over."""
        if self._file is not None and self._path is not None:
            for path in (self.model, self._path):
                assert path is not None
                path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let go of the file, whether the run is over or not."""
        if self._file is not None:
            os.close(self._file)
        self._file = self._path = None


def differences(plan: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the names of the fields in which the plans of two runs differ."""
    found = [name for name, value in plan.items() if other.get(name) != value and name != "tasks"]
    ours, theirs = plan.get("tasks"), other.get("tasks")
    if not isinstance(ours, Sequence) or not isinstance(theirs, Sequence):
        return found
    if len(ours) != len(theirs):
        return ["the number of tasks", *found]
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if isinstance(b, Mapping)]
    names = dict.fromkeys(name for a, b in pairs for name in a if b.get(name) != a[name])
    return [*names, *found]


def _line_of(task: int) -> str:
    """Return the line of a trial, no part of which is that of another task."""
    return f"[{task}]"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
