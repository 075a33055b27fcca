"""Knowing at the start of a run that the one before it was interrupted."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tensorir.replaced_file import replaced_file

if TYPE_CHECKING:
    from codegen import Target
    from search.context import TuneContext
    from search.cost_model.cost_model import CostModel
    from search.database import Database, Workload
    from search.tune_config import TuneConfig

JOURNAL_FILE: Final = "unfinished_run.json"


class RunJournal:
    """A file in the working directory that exists while a run is unfinished.

    It holds what the run was to do and how many records each workload had when it began. A run that
    is to do the same and finds the file goes on with the trials that are left; a run that ended
    removes it, so that the next one makes all its trials again (those measured before are not
    repeated). While the run goes on it has a lock on the file: another one in the same directory
    at the same time has nothing to resume, and leaves the file alone.
    """

    def __init__(self, work_dir: str | os.PathLike[str]) -> None:
        self.path = Path(work_dir) / JOURNAL_FILE
        self._lock: int | None = None

    def begin(self, plan: Mapping[str, Any], record_counts: Mapping[str, int]) -> dict[str, int]:
        """Return how many trials of each task were made already, and note that the run goes on.

        `plan` is plain data that says what is to be done; `record_counts` how many records each
        task has in the database now.
        """
        self.close()
        self._lock = _locked(self.path)
        if self._lock is None and self.path.exists():
            return dict.fromkeys(record_counts, 0)
        before = self._counts_of(plan)
        if before is None:
            self.close()
            self._write({"plan": plan, "records_at_start": dict(record_counts)})
            self._lock = _locked(self.path)
            return dict.fromkeys(record_counts, 0)
        return {task: max(0, count - before.get(task, 0)) for task, count in record_counts.items()}

    def end(self) -> None:
        """Note that the run is over."""
        if self._lock is not None:
            self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let go of the file, whether the run is over or not."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _counts_of(self, plan: Mapping[str, Any]) -> dict[str, int] | None:
        """Return the counts at the start of an unfinished run of `plan`, None without one."""
        try:
            saved = json.loads(self.path.read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
            return None
        if not isinstance(saved, dict) or saved.get("plan") != json.loads(json.dumps(plan)):
            return None
        counts = saved.get("records_at_start")
        valid = isinstance(counts, dict) and all(type(n) is int for n in counts.values())
        return counts if valid else None

    def _write(self, content: Mapping[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(self.path) as file:
            file.write(json.dumps(content).encode())


def plan_of(
    tasks: Sequence[TuneContext], config: TuneConfig, cost_model: CostModel | None
) -> dict[str, Any]:
    """Return as plain data what a run is to do; one with another plan does not go on with it."""
    return {
        "tasks": [
            [
                _task_key(k, task),
                str(task.target),
                type(task.space_generator).__name__,
                type(task.search_strategy).__name__,
            ]
            for k, task in enumerate(tasks)
        ],
        "max_trials_global": config.max_trials_global,
        "max_trials_per_task": config.trials_of_a_task,
        "cost_model": type(cost_model).__name__,
    }


def record_counts(tasks: Sequence[TuneContext], database: Database) -> dict[str, int]:
    """Return how many records each task has; those with one program and target share theirs."""
    sharing: list[tuple[Workload, Target | None, list[str]]] = []
    for k, task in enumerate(tasks):
        assert task.mod is not None
        workload = database.commit_workload(task.mod)
        for other, target, names in sharing:
            if target == task.target and database.same_workload(other.mod, workload.mod):
                names.append(_task_key(k, task))
                break
        else:
            sharing.append((workload, task.target, [_task_key(k, task)]))
    counts = {}
    for workload, target, names in sharing:
        count = database.count(workload, target)
        for place, name in enumerate(names):
            counts[name] = (count + len(names) - 1 - place) // len(names)
    return counts


def _task_key(index: int, task: TuneContext) -> str:
    return f"{index} {task.task_name}"


def _locked(path: Path) -> int | None:
    """Return a descriptor that locks a file; None if there is none or another run has the lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
