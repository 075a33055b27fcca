"""One worker process, as the process that started it sees it.

It is a fresh interpreter rather than a fork (LLVM and OpenMP hold threads, which a fork does not
survive) and rather than a `multiprocessing` spawn (that runs the user's main script again).
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Collection
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import IO, Any, Final, Literal

from search.errors import WorkerError

_STARTUP_SECONDS: Final = 60.0

Ending = Literal["value", "error", "timeout", "crash", "lost", "cancelled"]
"""The end of a job."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a job: with a value, an exception, a timeout or the death of its process.

    A job is lost, and given to another worker, if its worker died before the job arrived. It is
    cancelled if nobody wants it any more.
    """

    status: Ending
    value: Any = None
    """The value of the job, else a text that says what happened."""
    seconds: float = 0.0
    """The wall time that the job had a worker."""
    ended_by: signal.Signals | None = None
    """The signal that ended the process, for a crash that was one."""


class Worker:
    """One worker process and the job it has."""

    def __init__(self, initializer: bytes, cores: Collection[int] | None = None) -> None:
        ours, theirs = Pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by the finalizer
        command = (
            "import sys; from search.builder.worker_process import serve; serve(int(sys.argv[1]))"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", command, str(theirs.fileno())],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,
        )
        theirs.close()
        if cores is not None:
            os.sched_setaffinity(self._process.pid, cores)
        self.connection: Connection = ours
        self._allow(_STARTUP_SECONDS)
        self._ready = False
        self._began = False
        self._finalizer = weakref.finalize(self, _end, self._process, ours, self._errors)
        self._finalizer.atexit = False  # the pool ends it, in the thread that listens to it
        ours.send_bytes(initializer)

    @property
    def alive(self) -> bool:
        """True if the process is there."""
        return self._finalizer.alive and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def begin(self, message: bytes, timeout_sec: float) -> None:
        """Send a job to a worker that is up and idle."""
        self._began = False
        self._allow(timeout_sec)
        try:
            self.connection.send_bytes(message)
        except OSError:
            # It died before it got the job: the read that follows finds out what happened.
            return

    def _allow(self, seconds: float) -> None:
        self._timeout = seconds
        self._since = time.monotonic()
        self.deadline = self._since + seconds
        """The time at which to give up waiting, on the clock of `time.monotonic`."""

    def receive(self) -> Outcome | None:
        """Return how the job ended, None if it has not yet or the worker only says that it is up.

        WorkerError if it cannot start.
        """
        try:
            status, value = pickle.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            return self._died()
        if status in ("ready", "began"):
            self._ready = True
            self._began = status == "began"
            self._allow(self._timeout)
            return None
        return Outcome(status, value, self._spent)

    @property
    def _spent(self) -> float:
        return time.monotonic() - self._since

    def overran(self) -> Outcome:
        """Kill the worker because of its job; WorkerError if it has not even started."""
        self.kill()
        if not self._ready:
            raise WorkerError(f"a worker process did not start within {_STARTUP_SECONDS:g} s")
        return Outcome("timeout", f"killed after {self._timeout:g} seconds", self._spent)

    def end_process(self) -> None:
        """End the process, whatever it is doing; whoever waits for its answer is told."""
        self._process.kill()

    def kill(self) -> None:
        """End the process and give back what there is of it here."""
        self._finalizer()

    def _died(self) -> Outcome:
        code = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip()
        self.kill()
        if not self._ready and code != -signal.SIGKILL:
            raise WorkerError(f"a worker process cannot start (exit code {code}):\n{said}")
        if not self._began:
            return Outcome("lost", "a worker process was killed before it had a job")
        by = signal.Signals(-code) if code < 0 else None
        how = f"exited with {code}" if by is None else f"was ended by {by.name}"
        text = "\n".join([f"the worker process {how}", *said.splitlines()[-30:]]).rstrip()
        return Outcome("crash", text, self._spent, by)


def _end(process: subprocess.Popen[bytes], connection: Connection, errors: IO[bytes]) -> None:
    connection.close()
    process.kill()
    process.wait()
    errors.close()
