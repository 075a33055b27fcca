"""Running tasks in separate processes: a crash or a hang is an outcome like any other."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any

FORK = multiprocessing.get_context("fork")

Report = Callable[..., None]
"""Sends a message, given as keywords, to the parent process.

A message with a `line` names the next step of the task; any other message is the outcome.
"""
Task = Callable[[Report], None]


@dataclass
class Outcome:
    """The result of a task."""

    what: str = ""
    """The failure; empty after a success."""
    detail: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


class Run:
    """A task running in a separate process, for at most `time_limit` seconds."""

    def __init__(self, task: Task, key: Any = None, time_limit: float = 120.0) -> None:
        self.key = key
        self.lines: list[str] = []
        """The lines reported so far."""
        self.outcome: Outcome | None = None
        self.connection, child = FORK.Pipe(duplex=False)
        self._time_limit = time_limit
        self._deadline = time.monotonic() + time_limit
        self._process = FORK.Process(target=_in_child, args=(task, child))
        self._process.start()
        child.close()

    def poll(self) -> bool:
        """Read the messages that have arrived; return True if the run has ended."""
        try:
            while self.connection.poll():
                message = json.loads(self.connection.recv_bytes())
                if "line" in message:
                    self.lines.append(message["line"])
                else:
                    self.outcome = Outcome(**message)
        except EOFError:
            self._process.join()
            code = self._process.exitcode
            if self.outcome is None:
                self.outcome = Outcome("the process dies", f"exit code {code}")
        if self.outcome is None and time.monotonic() > self._deadline:
            self._process.kill()
            self.outcome = Outcome("hangs", f"longer than {self._time_limit:.0f} s")
        if self.outcome is None:
            return False
        self._process.join()
        self.connection.close()
        return True

    def finish(self) -> Outcome:
        """Wait for the end and return the outcome."""
        while not self.poll():
            wait([self.connection], timeout=1)
        assert self.outcome is not None
        return self.outcome


def run_all(tasks: Iterable[tuple[Any, Task]], processes: int, time_limit: float) -> Iterator[Run]:
    """Run tasks side by side, each with its key, and yield each run that has ended."""
    waiting = iter(tasks)
    running: list[Run] = []
    while True:
        while len(running) < processes and (entry := next(waiting, None)) is not None:
            key, task = entry
            running.append(Run(task, key, time_limit))
        if not running:
            return
        wait([run.connection for run in running], timeout=0.5)
        for run in [run for run in running if run.poll()]:
            running.remove(run)
            yield run


def _in_child(task: Task, connection: Any) -> None:
    # Messages of libraries about a crash are not part of the report.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    task(lambda **message: connection.send_bytes(json.dumps(message).encode()))
    connection.close()
    os._exit(0)
