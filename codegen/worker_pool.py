"""Worker processes, which isolate jobs: a job that breaks its process loses only itself.

Compared with loky 3.7 and pebble 5.2 (two workers, a 2-core machine). All three start in 0.4 to
0.6 s (ours with codegen imported), do 64 small jobs in 4 to 25 ms, and end a job that overruns its
time limit. In addition, here:

- A job that kills its process costs 10 ms. loky gives up all its workers, needs 0.4 s for the next
  job, and ends a worker that hangs only together with all others.
- No process outlives its owner. Ours exit at once while two jobs hang; loky waits for the jobs, and
  after a SIGKILL of the owner the workers of both libraries continue.
- Functions of a script without `if __name__ == "__main__"` work, as with loky. pebble uses
  `multiprocessing` spawn workers, which run the script again and fail.
- The error of a crash has the signal and the output of the process, and a spare worker takes over.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, Pipe
from typing import Any, Final, Literal, TypeAlias

from codegen.errors import WorkerError

_STARTUP_SECONDS: Final = 60.0
_STARTUP_INTERVAL: Final = 0.1
"""The seconds after which a starting process is looked at again."""
_MAX_STARTS: Final = 4
"""The maximum number of restarts of a worker that is killed before its first job."""

Job = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments.

Functions and classes of a notebook or a script travel by value, functions of modules by name.
"""
Ending = Literal["value", "error", "timeout", "crash", "lost", "cancelled"]
"""The outcome of a job."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a job: a value, an exception, a timeout, or the death of its process.

    A job is "lost" if its worker died before the job arrived; another worker then gets the job.
    """

    status: Ending
    value: Any = None
    """The value of the job, else a text with the reason."""
    seconds: float = 0.0
    """The wall time for which the job had a worker."""
    ended_by: signal.Signals | None = None
    """The signal that ended the process, if a signal caused the crash."""

    def failure(self, part: str, what: str) -> str:
        """Return the text of a failure in a part of the search, such as a builder."""
        if self.status == "error":
            return f"{part}: An exception occurred in {what}\n{self.value}"
        return f"{part}: {self.status.capitalize()} of {what}, {self.value}"


class WorkerPool:
    """Up to `size` worker processes, started when there is work and kept for the next job.

    Each process calls `initializer` once, after it has imported the module of `loads`, a function
    that the jobs will call. A process that dies or overruns its time is replaced, immediately with
    `spare`: then each worker has a second process that waits idle, started when the first is up.
    Processes start on the cores `cores`, where the system can bind them.
    """

    def __init__(
        self,
        size: int,
        initializer: Callable[[], object] | None = None,
        spare: bool = False,
        cores: Collection[int] | None = None,
        loads: Callable[..., object] | None = None,
    ) -> None:
        self.size = size
        start = partial(Worker, _pickle((loads, initializer)), cores)
        self._crew = _Crew(start, spare)
        self._finalizer = weakref.finalize(self, self._crew.stop)

    def submit(self, job: Job, timeout_sec: float, alone: bool = False) -> Future[Outcome]:
        """Queue a job and return at once; the time limit starts when a worker has the job.

        A job that measures `alone` waits until the spare process has started, which takes a core.
        The future raises WorkerError if no worker can be started. Raises WorkerError if the job
        cannot be pickled.
        """
        task = _Task(_pickle(job), timeout_sec, alone)
        with self._crew.changed:
            self._crew.todo.append(task)
            self._crew.hire(min(self.size, self._crew.unfinished))
        return task.future

    def run(self, jobs: Sequence[Job], timeout_sec: float, alone: bool = False) -> list[Outcome]:
        """Do the jobs and return their outcomes in order; see `submit`."""
        futures = [self.submit(job, timeout_sec, alone) for job in jobs]
        try:
            return [future.result() for future in futures]
        except BaseException:  # an interrupted job would run next to the following jobs
            self.cancel()
            raise

    def start(self, count: int | None = None) -> None:
        """Start `count` workers, by default all, ahead of need and without waiting for them."""
        with self._crew.changed:
            self._crew.hire(self.size if count is None else min(count, self.size))

    def cancel(self) -> None:
        """Cancel all unfinished jobs and end their workers."""
        self._crew.cancel("its result is not needed")

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        members = self._crew.members
        return [worker.pid for member in members for worker in member.workers() if worker.alive]

    def close(self) -> None:
        """End the workers; the next job starts new ones."""
        self._crew.stop()


@dataclass(eq=False)
class _Task:
    message: bytes
    timeout_sec: float
    alone: bool
    future: Future[Outcome] = field(default_factory=Future)

    def settle(self, outcome: Outcome | WorkerError) -> None:
        """Set the outcome, unless the task was cancelled."""
        with contextlib.suppress(InvalidStateError):
            if isinstance(outcome, Outcome):
                self.future.set_result(outcome)
            else:
                self.future.set_exception(outcome)


class _Crew:
    """The threads of a pool and the tasks that wait for one.

    It does not refer to the pool, so that a pool without users is garbage-collected, which stops
    the crew.
    """

    def __init__(self, start: Callable[[], Worker], spare: bool) -> None:
        self.start = start
        self.spare = spare
        self.todo: deque[_Task] = deque()
        self.members: list[_Member] = []
        self.stopping = False
        self.changed = threading.Condition()
        """Guards these attributes; its lock is reentrant, as the collector may call `stop`."""

    @property
    def unfinished(self) -> int:
        """The number of tasks without an outcome."""
        return len(self.todo) + sum(member.task is not None for member in self.members)

    def hire(self, count: int) -> None:
        """Start threads until there are `count`, and wake a waiting thread."""
        while len(self.members) < count:
            self.members.append(_Member(self))
            self.members[-1].start()
        self.changed.notify()

    def drop(self, outcome: Outcome | WorkerError, *tasks: _Task | None) -> None:
        """Settle tasks, and clear the queue: these include all waiting tasks."""
        self.todo.clear()
        for task in tasks:
            if task is not None:
                task.settle(outcome)

    def cancel(self, reason: str) -> None:
        with self.changed:
            outcome = Outcome("cancelled", reason)
            self.drop(outcome, *self.todo, *(member.task for member in self.members))
            for member in self.members:
                if member.task is not None:
                    member.end_processes()

    def stop(self) -> None:
        with self.changed:
            self.stopping = True
            self.cancel("the pool was closed")
            members = list(self.members)
            for member in members:
                member.end_processes()
            self.changed.notify_all()
        if threading.current_thread() in members:
            return  # the last user of the pool was a task of this thread
        for member in members:
            member.join()
        with self.changed:
            self.cancel("the pool was closed")  # the tasks that were added meanwhile
            self.stopping = False


class _Member(threading.Thread):
    """A thread that passes tasks to its worker process, one after another.

    Linux ends a worker together with the thread that started it, so the thread lives as long as the
    worker.
    """

    def __init__(self, crew: _Crew) -> None:
        super().__init__(name="worker pool", daemon=True)
        self._crew = crew
        self._worker: Worker | None = None
        self._spare: Worker | None = None
        self.task: _Task | None = None

    def run(self) -> None:
        error: WorkerError | None = None
        try:
            while self._ready_worker() and self._next_task():
                self._do_task()
        except WorkerError as caught:
            error = caught
        except Exception as caught:  # noqa: BLE001  else futures would wait forever
            error = WorkerError(f"worker processes cannot be started or do not answer: {caught}")
        with self._crew.changed:
            self._crew.members.remove(self)
            if error is not None:
                self._crew.drop(error, self.task, *self._crew.todo)
        for worker in self.workers():
            worker.kill()

    def _next_task(self) -> bool:
        """Wait for a task; return False if there will be none."""
        with self._crew.changed:
            while not self._crew.todo and not self._crew.stopping:
                self._crew.changed.wait()
            if self._crew.todo:
                self.task = self._crew.todo.popleft()
            return self.task is not None

    def _do_task(self) -> None:
        task, outcome = self.task, Outcome("lost")
        assert task is not None
        while outcome.status == "lost":
            worker = self._ready_worker()
            if worker is None or task.future.done():
                break
            if task.alone and self._spare is not None:
                self._spare.is_up()
            outcome = worker.do(task.message, task.timeout_sec)
        with self._crew.changed:
            self.task = None
        task.settle(outcome)

    def _replace_dead(self) -> None:
        if self._worker is not None and not self._worker.alive:
            self._worker.kill()
            self._worker, self._spare = self._spare, None

    def _ready_worker(self) -> Worker | None:
        """Return a worker that is up, None if the crew stops; WorkerError if it cannot start."""
        for _ in range(_MAX_STARTS):
            if self._crew.stopping:
                return None
            self._replace_dead()
            self._worker = self._worker or self._crew.start()
            self._end_if_stopping()
            if self._worker.is_up():
                if self._crew.spare and self._spare is None:
                    self._spare = self._crew.start()
                    self._end_if_stopping()
                return self._worker
        raise WorkerError(
            "a worker process was killed before it had a job, "
            f"{_MAX_STARTS} times in a row; the system may be short of memory"
        )

    def workers(self) -> list[Worker]:
        return [worker for worker in (self._worker, self._spare) if worker is not None]

    def _end_if_stopping(self) -> None:
        """End a process that was not there yet when the crew began to stop."""
        if self._crew.stopping:
            self.end_processes()

    def end_processes(self) -> None:
        """End the processes; the thread, which waits for an answer, notices that."""
        for worker in self.workers():
            worker.end_process()


class Worker:
    """One worker process.

    It is a fresh interpreter, because the threads of LLVM and OpenMP do not survive a fork. A
    `multiprocessing` spawn would run the main script of the user again.
    """

    def __init__(self, initializer: bytes, cores: Collection[int] | None = None) -> None:
        self._connection, theirs = Pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by `kill`
        command = "import sys; from codegen.worker_pool import serve; serve(int(sys.argv[1]))"
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
        self.pid = self._process.pid
        self._is_up = False
        self._connection.send_bytes(initializer)

    @property
    def alive(self) -> bool:
        """True if the process exists."""
        return self._process.poll() is None

    def is_up(self) -> bool:
        """Wait until the process is initialised; return False if it was killed before.

        Raises WorkerError if it cannot start.
        """
        if self._is_up:
            return True
        until = time.monotonic() + _STARTUP_SECONDS
        try:
            # A process that was forked meanwhile may hold the other end of the connection open.
            while not self._connection.poll(_STARTUP_INTERVAL):
                if not self.alive and not self._connection.poll():
                    raise EOFError
                if time.monotonic() > until:
                    self.kill()
                    raise WorkerError(
                        f"a worker process did not start within {_STARTUP_SECONDS:g} s"
                    )
            self._connection.recv_bytes()
        except (EOFError, OSError):
            code, text = self._exit_code_and_output()
            if code != -signal.SIGKILL:
                raise WorkerError(
                    f"a worker process cannot start (exit code {code}):\n{text}"
                ) from None
            return False
        self._is_up = True
        return True

    def do(self, message: bytes, timeout_sec: float) -> Outcome:
        """Run a job and return its outcome; the worker must be up."""
        began, since = False, time.monotonic()
        try:
            self._connection.send_bytes(message)
            while self._connection.poll(timeout_sec):
                status, value = pickle.loads(self._connection.recv_bytes())
                if status != "began":
                    return Outcome(status, value, time.monotonic() - since)
                began, since = True, time.monotonic()
        except (EOFError, OSError):
            code, text = self._exit_code_and_output()
            if not began:
                return Outcome("lost")
            by = signal.Signals(-code) if code < 0 else None
            how = f"exited with {code}" if by is None else f"was ended by {by.name}"
            text = "\n".join([f"the worker process {how}", *text.splitlines()[-30:]]).rstrip()
            return Outcome("crash", text, time.monotonic() - since, by)
        self.kill()
        spent = time.monotonic() - since
        return Outcome("timeout", f"killed after {timeout_sec:g} seconds", spent)

    def _exit_code_and_output(self) -> tuple[int, str]:
        """Return the exit code and the output of a process that ends."""
        code = self._process.wait()
        self._errors.seek(0)
        text = self._errors.read().decode("utf-8", "replace").strip()
        self.kill()
        return code, text

    def end_process(self) -> None:
        """End the process, for any thread."""
        self._process.kill()

    def kill(self) -> None:
        """End the process and close its files, for the thread that reads them."""
        self._process.kill()
        self._process.wait()
        self._connection.close()
        self._errors.close()


def _pickle(job: Any) -> bytes:
    import cloudpickle  # noqa: PLC0415  slow to import, and needed only where processes are

    try:
        return bytes(cloudpickle.dumps(job))
    except Exception as error:
        raise WorkerError(
            f"this function or argument cannot be sent to a worker process: {error}"
        ) from error


Answer: TypeAlias = tuple[Literal["ready", "began", "value", "error"], Any]

_PR_SET_PDEATHSIG: Final = 1


def serve(file_descriptor: int) -> None:
    """Serve jobs that arrive on a socket as pickled `(function, args)`.

    The first message is a function that the jobs will call, so that unpickling imports its module,
    and the initializer; each may be None. The process confirms the arrival of each job, which
    tells a crash of the job from a death before it. The answer to a job that raises is a text.
    """
    _die_with_parent()
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(file_descriptor)
    try:
        message = connection.recv_bytes()
    except (EOFError, ConnectionResetError):
        return
    _, initializer = pickle.loads(message)  # an error here, even EOFError, ends the process
    if initializer is not None:
        initializer()
    gc.freeze()  # collections leave out what was imported, which stays as long as the process
    try:
        _answer(connection, ("ready", os.getpid()))
        while True:
            message = connection.recv_bytes()
            _answer(connection, ("began", None))
            _answer(connection, _do(message))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _do(message: bytes) -> Answer:
    try:
        function, args = pickle.loads(message)
    except Exception as error:  # noqa: BLE001  whatever importing the user's module raises
        return "error", (
            f"a worker process cannot import a function given to the search: {error!r}; "
            "define it in a notebook, a script or a module that can be imported"
        )
    try:
        return "value", function(*args)
    except Exception as error:  # noqa: BLE001  whatever a candidate does is its own failure
        return "error", "".join(traceback.format_exception(error, limit=-6))


def _answer(connection: Connection, answer: Answer) -> None:
    try:
        message = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001  an object of the user may raise anything
        text = f"the return value of a function cannot leave its worker process: {error}"
        message = pickle.dumps(("error", text))
    connection.send_bytes(message)


def _die_with_parent() -> None:
    """Make the system end this process with its parent, even when it hangs in native code."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
