"""Worker processes: whatever a job does to its process, only that job is lost.

They are fresh interpreters rather than forks (LLVM and OpenMP hold threads, which a fork does not
survive) and rather than `multiprocessing` spawns (those run the user's main script again).
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import IO, Any, Final, Literal

from search.errors import WorkerError

Job = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function that a fresh interpreter can import, and its arguments."""

_STARTUP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended: with a value, an exception, a timeout or the death of its process.

    A job is lost, and given to another worker, if its worker died before the job arrived.
    """

    status: Literal["value", "error", "timeout", "crash", "lost"]
    value: Any = None
    """The value of the job, else a text that says what happened."""


class WorkerPool:
    """Up to `size` worker processes, started when there is work and kept for the next.

    `initializer` is called once in each. A process that dies or overruns its time is replaced.
    """

    def __init__(self, size: int, initializer: Callable[[], object] | None = None) -> None:
        self.size = size
        self._initializer = _pickled(initializer)
        self._workers: list[_Worker] = []

    def run(
        self,
        jobs: Sequence[Job],
        timeout_sec: float,
        on_done: Callable[[int, Outcome], object] | None = None,
    ) -> list[Outcome]:
        """Do the jobs and return their outcomes in order.

        A job may take `timeout_sec`. `on_done(index, outcome)` is called as each one ends. Raises
        WorkerError if a worker cannot be started or a job cannot be sent to one.
        """
        messages = [_pickled(job) for job in jobs]
        outcomes: list[Outcome | None] = [None] * len(jobs)
        self.start(len(jobs))
        todo = list(reversed(range(len(jobs))))
        busy: list[_Worker] = []
        try:
            while todo or busy:
                for place, worker in enumerate(self._workers):
                    if not todo:
                        break
                    if worker.job is None:
                        if not worker.alive:
                            worker = self._workers[place] = _Worker(self._initializer)
                        index = todo.pop()
                        worker.begin(index, messages[index], timeout_sec)
                        busy.append(worker)
                for worker, outcome in _next_ended(busy):
                    index = worker.end()
                    busy.remove(worker)
                    if outcome.status == "lost":
                        todo.append(index)
                        continue
                    outcomes[index] = outcome
                    if on_done is not None:
                        on_done(index, outcome)
        finally:
            for worker in busy:  # an interrupted job would answer the next question
                worker.kill()
        return [outcome for outcome in outcomes if outcome is not None]

    def start(self, number: int | None = None) -> None:
        """Start workers ahead of need, without waiting until they are up."""
        wanted = self.size if number is None else min(self.size, number)
        self._workers = [w for w in self._workers if w.alive]
        while len(self._workers) < wanted:
            self._workers.append(_Worker(self._initializer))

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers that are there."""
        return [worker.pid for worker in self._workers if worker.alive]

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            worker.kill()
        self._workers = []


class _Worker:
    """One worker process and the job it has."""

    def __init__(self, initializer: bytes) -> None:
        ours, theirs = Pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by the finalizer
        command = "import sys; from search.worker_process import serve; serve(int(sys.argv[1]))"
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
        self.connection: Connection = ours
        self.job: int | None = None
        self.deadline = 0.0
        self._timeout = 0.0
        self._ready = False
        self._began = False
        self._finalizer = weakref.finalize(self, _end, self._process, ours, self._errors)
        ours.send_bytes(initializer)

    @property
    def alive(self) -> bool:
        return self._finalizer.alive and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, job: int, message: bytes, timeout_sec: float) -> None:
        self.job = job
        self._began = False
        self._timeout = timeout_sec
        seconds = timeout_sec if self._ready else _STARTUP_SECONDS
        self.deadline = time.monotonic() + seconds
        try:
            self.connection.send_bytes(message)
        except OSError:
            # It died before it got the job: the read that follows finds out what happened.
            return

    def receive(self) -> Outcome | None:
        """Return how the job ended, None if it has not yet."""
        try:
            status, value = pickle.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            return self._died()
        if status == "ready":
            self._ready = True
        if status in ("ready", "began"):
            self._began = status == "began"
            self.deadline = time.monotonic() + self._timeout
            return None
        return Outcome(status, value)

    def overran(self) -> Outcome:
        """Kill the worker because of its job."""
        self.kill()
        if not self._ready:
            raise WorkerError(f"a worker process did not start within {_STARTUP_SECONDS:g} s")
        return Outcome("timeout", f"killed after {self._timeout:g} seconds")

    def end(self) -> int:
        job, self.job = self.job, None
        assert job is not None
        return job

    def kill(self) -> None:
        self._finalizer()

    def _died(self) -> Outcome:
        code = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip()
        self.kill()
        if not self._ready:
            raise WorkerError(f"a worker process cannot start (exit code {code}):\n{said}")
        if not self._began:
            return Outcome("lost")
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
        return Outcome("crash", f"the worker process {how}\n{_last_lines(said, 30)}".rstrip())


def _next_ended(busy: Sequence[_Worker]) -> list[tuple[_Worker, Outcome]]:
    """Wait until something happens to busy workers; return those whose job ended."""
    if not busy:
        return []
    patience = max(0.0, min(worker.deadline for worker in busy) - time.monotonic())
    ready = wait([worker.connection for worker in busy], patience)
    ended = []
    for worker in busy:
        if worker.connection in ready:
            outcome = worker.receive()
            if outcome is not None:
                ended.append((worker, outcome))
        elif time.monotonic() >= worker.deadline:
            ended.append((worker, worker.overran()))
    return ended


def _end(process: subprocess.Popen[bytes], connection: Connection, errors: IO[bytes]) -> None:
    connection.close()
    process.kill()
    process.wait()
    errors.close()


def _pickled(job: Any) -> bytes:
    try:
        return pickle.dumps(job, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise WorkerError(
            f"a worker process cannot be given this function or argument: {error}; functions must "
            "be defined at the top level of a module that can be imported"
        ) from error


def _last_lines(text: str, count: int) -> str:
    return "\n".join(text.splitlines()[-count:])
