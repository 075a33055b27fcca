"""The tasks of the runs in a working directory, and how often each counts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from search.database.growing_file import GrowingFile, Line, is_number, json_line, json_of
from search.errors import DatabaseError

TASKS_FILE: Final = "tuning_tasks.json"


@dataclass(frozen=True)
class ListedTask:
    """A task as a run begins with it."""

    task: str
    """The name of the task."""
    workload: str
    """The key of its program in the database beside."""
    target: str
    """The target it is compiled for."""
    weight: float = 1.0
    """How often it counts in the sum of times that the run minimises."""

    @staticmethod
    def from_json(obj: Any) -> ListedTask:
        """Return the task of a line; DatabaseError names the field at fault."""
        if not isinstance(obj, dict):
            raise DatabaseError("a task is an object with task, workload, target and weight")
        for name in ("task", "workload", "target"):
            if not isinstance(obj.get(name), str):
                raise DatabaseError(f"field {name} is a text, got {obj.get(name)!r:.80}")
        weight: Any = obj.get("weight")
        if not is_number(weight) or weight < 0:
            raise DatabaseError(f"field weight is a number of at least 0, got {weight!r:.80}")
        return ListedTask(obj["task"], obj["workload"], obj["target"], float(weight))


class TaskList:
    """The file `tuning_tasks.json` in a working directory: one task on a line, only growing.

    A run adds those of its tasks that are not in it with the same weight. Of several lines of a
    task the last one holds.
    """

    def __init__(self, work_dir: str | os.PathLike[str]) -> None:
        self.path = Path(work_dir) / TASKS_FILE
        self._file = GrowingFile(self.path, b"{")
        self._tasks: dict[tuple[str, str, str], ListedTask] = {}

    def add(self, tasks: Iterable[ListedTask]) -> None:
        """Add what is new among some tasks. DatabaseError if the file cannot be written."""
        with self._file.appending(self._take):
            new = [one for one in tasks if self._tasks.get(_key(one)) != one]
            self._file.append([json_line(asdict(one)) for one in new])
        self._tasks.update((_key(one), one) for one in new)

    def read(self) -> list[ListedTask]:
        """Return the tasks; lines that are none are left out, and a warning names them."""
        self._file.catch_up(self._take)
        return list(self._tasks.values())

    def _take(self, line: Line) -> None:
        task = ListedTask.from_json(json_of(line.text))
        self._tasks[_key(task)] = task


def _key(task: ListedTask) -> tuple[str, str, str]:
    return (task.task, task.workload, task.target)
