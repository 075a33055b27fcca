"""Running a task in a process of its own: a crash or a hang is an outcome like any other."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

FORK = multiprocessing.get_context("fork")

Report = Callable[..., None]
"""Sends a message, given as keywords, to the parent process.

A message with a `line` tells what is about to be tried; any other is the outcome.
"""


@dataclass
class Outcome:
    """What became of a task in its process."""

    what: str = ""
    """The failure; empty where all held."""
    detail: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    """How often what happened."""


class Run:
    """A task running in a process of its own, for at most `time_limit` seconds."""

    def __init__(
        self, task: Callable[[Report], None], key: Any = None, time_limit: float = 120.0
    ) -> None:
        self.key = key
        self.lines: list[str] = []
        """The lines that were tried so far."""
        self.outcome: Outcome | None = None
        self.connection, child = FORK.Pipe(duplex=False)
        self._time_limit = time_limit
        self._deadline = time.monotonic() + time_limit
        self._process = FORK.Process(target=_in_child, args=(task, child))
        self._process.start()
        child.close()

    def poll(self) -> bool:
        """Take the messages that are there; return whether the run has ended."""
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


def _in_child(task: Callable[[Report], None], connection: Connection) -> None:
    # What libraries print about a crash is no part of the report.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    task(lambda **message: connection.send_bytes(json.dumps(message).encode()))
    connection.close()
    os._exit(0)
