"""Worker processes: whatever a job does to its process, only that job is lost.

Measured beside loky 3.7 and pebble 5.2 (two workers, a 2-core machine). All start in 0.4 to 0.6 s
(ours with codegen imported), do 64 small jobs in 4 to 25 ms, and time a job out. In addition, here:

- a job that kills its process costs 10 ms; loky gives up all its workers, 0.4 s for the next job,
  and cannot end one that hangs but by ending all;
- nothing is left when the owner ends: ours exits at once with two jobs that hang, loky waits for
  them, and after a SIGKILL of the owner the workers of both libraries go on with their jobs;
- functions of a script without `if __name__ == "__main__"` work, as with loky; pebble has
  `multiprocessing` spawn workers, which run the script again and fail;
- a crash is told with its signal and what the process wrote, and a spare worker takes over.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any, Final

from search.builder.worker import Outcome, Worker
from search.errors import WorkerError

_MOST_KILLED: Final = 3

Job = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments.

Functions and classes of a notebook or a script travel by value, those of modules by name.
"""


class WorkerPool:
    """Up to `size` worker processes, started when there is work and kept for the next.

    `initializer` is called once in each, after the module of `loads`, a function that jobs will
    call, was imported. A process that dies or overruns its time is replaced, at once if there are
    `spares`: idle processes beside the `size` that work, which start when the first job is done.
    Processes start on `cores`, where the system can bind them; a job may bind its own elsewhere.
    """

    def __init__(
        self,
        size: int,
        initializer: Callable[[], object] | None = None,
        spares: int = 0,
        cores: Collection[int] | None = None,
        loads: Callable[..., object] | None = None,
    ) -> None:
        self.size = size
        self._dispatcher = _Dispatcher(size, spares, _pickled((loads, initializer)), cores)
        self._finalizer = weakref.finalize(self, self._dispatcher.stop)

    def submit(self, job: Job, timeout_sec: float) -> Future[Outcome]:
        """Have a job done after those submitted before, and return at once.

        It may take `timeout_sec`, which begins when a worker has it. The future raises WorkerError
        if a worker cannot be started. Raises WorkerError if the job cannot be sent to one.
        """
        task = _Task(_pickled(job), timeout_sec)
        self._dispatcher.add(task)
        return task.future

    def run(self, jobs: Sequence[Job], timeout_sec: float) -> list[Outcome]:
        """Do the jobs and return their outcomes in order; see `submit`."""
        futures = [self.submit(job, timeout_sec) for job in jobs]
        try:
            return [future.result() for future in futures]
        except BaseException:  # an interrupted job would go on beside the next
            self.cancel()
            raise

    def start(self) -> None:
        """Start the workers ahead of need, without waiting until they are up."""
        self._dispatcher.start_workers()

    def cancel(self) -> None:
        """Give up all jobs that have no outcome yet; workers that have one are ended."""
        self._dispatcher.cancel()

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers that are there, those with a job first."""
        return self._dispatcher.pids()

    def close(self) -> None:
        """End the workers; the next job starts new ones."""
        self._dispatcher.stop()


@dataclass(eq=False)
class _Task:
    message: bytes
    timeout_sec: float
    future: Future[Outcome] = field(default_factory=Future)

    def settle(self, outcome: Outcome | WorkerError) -> None:
        """Answer, unless the task was given up before; for one thread at a time."""
        if self.future.done():
            return
        if isinstance(outcome, Outcome):
            self.future.set_result(outcome)
        else:
            self.future.set_exception(outcome)


class _Dispatcher:
    """Gives tasks to workers and takes their outcomes, in a thread of its own.

    Workers are children of the thread that starts them and die with it, so one thread starts all
    of them and lives until `stop`.
    """

    def __init__(
        self, size: int, spares: int, initializer: bytes, cores: Collection[int] | None
    ) -> None:
        self._size = size
        self._spares = spares
        self._initializer = initializer
        self._cores = cores
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake_end, self._wait_end = -1, -1
        self._todo: deque[_Task] = deque()
        self._busy: dict[Worker, _Task] = {}
        self._idle: list[Worker] = []
        self._starting: list[Worker] = []
        self._wanted = 0
        self._killed = 0
        """The number of workers in a row that were killed while they started."""
        self._stopping = False
        self._has_worked = False
        """True once a job was done: before, starting spares would delay it."""

    # ------------------------------------------------------------------------ called by any thread

    def add(self, task: _Task) -> None:
        with self._lock:
            self._todo.append(task)
            self._wanted = min(self._size, max(self._wanted, len(self._todo) + len(self._busy)))
            self._wake()

    def start_workers(self) -> None:
        with self._lock:
            self._wanted = self._size
            self._wake()

    def cancel(self) -> None:
        with self._lock:
            self._give_up(Outcome("cancelled", "nobody waits for its result any more"))

    def _give_up(self, answer: Outcome | WorkerError) -> None:
        for task in (*self._busy.values(), *self._todo):
            task.settle(answer)
        self._todo.clear()
        for worker in self._busy:
            worker.end_process()  # the thread, which waits for its answer, does the rest

    def pids(self) -> list[int]:
        with self._lock:
            return [worker.pid for worker in self._workers() if worker.alive]

    def stop(self) -> None:
        # Takes no lock: the collector may call this in the thread that serves, which may have it.
        thread = self._thread
        if thread is None:
            return
        self._stopping = True
        os.write(self._wake_end, b".")
        if thread is not threading.current_thread():
            thread.join()

    def _wake(self) -> None:
        if self._wake_end < 0:
            # The pipe lives as long as this object: `stop`, which takes no lock, may write to it
            # when the thread has ended, and a number that was closed may be another file's by then.
            self._wait_end, self._wake_end = os.pipe()
            for end in (self._wait_end, self._wake_end):
                closing = weakref.finalize(self, os.close, end)
                closing.atexit = False  # it would run before the pool's, which stops this
        if self._thread is None:
            self._stopping = False
            self._thread = threading.Thread(target=self._serve, name="worker pool", daemon=True)
            self._thread.start()
        os.write(self._wake_end, b".")

    # --------------------------------------------------------------------------- called by its own

    def _serve(self) -> None:
        answer: Outcome | WorkerError = Outcome("cancelled", "the pool was closed")
        try:
            self._listen()
        except Exception as error:  # noqa: BLE001  else whoever waits for an answer waits forever
            answer = WorkerError(f"worker processes cannot be started or do not answer: {error}")
        with self._lock:
            self._give_up(answer)
            for worker in self._workers():
                worker.kill()
            self._busy, self._idle, self._starting, self._wanted = {}, [], [], 0
            self._thread, self._stopping = None, False

    def _listen(self) -> None:
        while True:
            with self._lock:
                if self._stopping:
                    return
                self._fill()
                awaited = [*self._busy, *self._starting]
            deadline = min((worker.deadline for worker in awaited), default=None)
            patience = None if deadline is None else max(0.0, deadline - time.monotonic())
            told = wait([self._wait_end, *(worker.connection for worker in awaited)], patience)
            if self._wait_end in told:
                os.read(self._wait_end, 4096)
            with self._lock:
                for worker in awaited:
                    if worker.connection in told or time.monotonic() >= worker.deadline:
                        self._hear(worker)

    def _workers(self) -> list[Worker]:
        return [*self._busy, *self._idle, *self._starting]

    def _fill(self) -> None:
        """Start the workers that are missing and give tasks to those that are idle."""
        self._idle = [worker for worker in self._idle if worker.alive]
        if self._wanted:
            spares = self._spares if self._has_worked else 0
            missing = self._wanted + spares - len(self._workers())
            self._starting += [Worker(self._initializer, self._cores) for _ in range(missing)]
        while self._todo and self._idle and len(self._busy) < self._size:
            worker, task = self._idle.pop(0), self._todo.popleft()
            self._busy[worker] = task
            worker.begin(task.message, task.timeout_sec)

    def _started(self, worker: Worker, outcome: Outcome | None) -> None:
        """Take in a worker that is up; another takes the place of one that somebody killed."""
        self._killed = 0 if outcome is None else self._killed + 1
        if outcome is None:
            self._idle.append(worker)
        elif self._killed > _MOST_KILLED:
            raise WorkerError(
                f"{outcome.value}, {self._killed} times in a row; the system may be short of memory"
            )

    def _hear(self, worker: Worker) -> None:
        """Take the message of a worker, or end the worker if its time is over."""
        is_new = worker in self._starting
        if is_new:
            self._starting.remove(worker)
        try:
            outcome = worker.receive() if worker.connection.poll() else worker.overran()
            if is_new:
                self._started(worker, outcome)
                return
        except WorkerError as error:
            self._wanted = 0  # until somebody asks again
            while self._todo:
                self._todo.popleft().settle(error)
            return
        if outcome is not None:
            task = self._busy.pop(worker)
            self._has_worked = True
            if worker.alive:
                self._idle.insert(0, worker)
            if outcome.status == "lost" and not task.future.done():
                self._todo.appendleft(task)
            else:
                task.settle(outcome)


def _pickled(job: Any) -> bytes:
    import cloudpickle  # noqa: PLC0415  slow to import, and needed only where processes are

    try:
        return bytes(cloudpickle.dumps(job))
    except Exception as error:
        raise WorkerError(
            f"a worker process cannot be given this function or argument: {error}"
        ) from error
