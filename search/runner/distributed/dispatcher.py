"""Has requests measured by the machines of a Dask scheduler, and judges their answers.

Dask queues requests, moves waiting ones to machines that are idle or come late, and sends those of
a machine that died to another one. The rest is done here while somebody waits for an answer: a
machine may be unable to measure, or have times that cannot be compared with those of others, and a
scheduler comes back without what was sent to it.
"""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import statistics
import threading
import time
import uuid
from collections import deque
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from search.errors import TuningError
from search.runner.distributed.connection import Connection
from search.runner.distributed.credentials import package
from search.runner.distributed.machine import Machine, described
from search.runner.distributed.messages import Arrays, MeasureAnswer, MeasureRequest, packed_arrays
from search.runner.distributed.servers import measure_here
from search.runner.runner import RunnerResult

logger = logging.getLogger("tensorir.search")

_LOOK_SECONDS: Final = 2.0
"""How often the machines are listed."""
_GATHER_SECONDS: Final = 10.0
"""How long an answer may be on its way from the machine that has it."""
_SAY_SECONDS: Final = 60.0
"""How often the same warning is given."""
_SLOW: Final = 1.3
"""The factor between times of the reference kernel from which two machines are not comparable.

It takes 5 ms of a machine that others may use, too: its times vary by a few per cent, on shared
machines by ten or twenty.
"""
_SLOW_SECONDS: Final = 60.0
"""How long a slow machine is left out; then it may show what it is now."""
_KEPT_PACES: Final = 15


class _LeftOut(NamedTuple):
    reason: str
    until: float


@dataclass
class Pin:
    """The one machine that is to measure several requests, by its address; None if undecided."""

    address: str | None = None


@dataclass(eq=False)
class Job:
    """A request to machines with a resource, and the answer when it is there."""

    request: MeasureRequest
    resource: str
    pin: Pin | None = None
    answer: MeasureAnswer | TuningError | None = None
    future: Any = None
    """That of Dask, while the request is sent."""
    only: frozenset[str] = frozenset()
    """The addresses to which it was sent, empty for any machine with the resource."""


class Dispatcher:
    """Sends requests through a connection. Threads may share it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.RLock()
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waiting: deque[Job] = deque()
        self._sent: dict[Any, Job] = {}
        self._machines: dict[str, Machine] = {}
        self._looked_at = -math.inf
        self._left_out: dict[str, _LeftOut] = {}
        self._paces: dict[str, deque[float]] = {}
        """The latest times of the reference kernel in seconds, by addresses."""
        self._arrays: dict[int, tuple[Arrays, Any]] = {}
        """Arrays of the user, and their futures, by identity."""
        self._said_at: dict[str, float] = {}

    def send(self, jobs: Sequence[Job]) -> None:
        """Have requests measured."""
        with self._lock:
            self._waiting.extend(jobs)
        self.proceed(0)

    def proceed(self, seconds: float) -> None:
        """Take in the answers that have come; wait up to so many seconds for the first one."""
        ended = []
        with contextlib.suppress(queue.Empty):
            ended.append(self._ended.get(timeout=seconds))
            while True:
                ended.append(self._ended.get_nowait())
        with self._lock:
            self._look()
            for future in ended:
                job = self._sent.pop(future, None)
                if job is not None:
                    self._take(job, future)
                    future.release()
            self._send_waiting()

    def give_up(self, job: Job) -> None:
        """Have a request forgotten that is not answered."""
        with self._lock:
            if self._sent.pop(job.future, None) is not None:
                job.future.release()
            with contextlib.suppress(ValueError):
                self._waiting.remove(job)

    def close(self) -> None:
        """Give up all requests, and let go of the scheduler until the next one."""
        with self._lock:
            for job in [*self._sent.values(), *self._waiting]:
                job.answer = TuningError("the runner was closed")
                self.give_up(job)
            self._arrays.clear()
            self._connection.close()

    def _fitting(self, resource: str) -> set[str]:
        """Return the machines with a resource that are not left out, as of the last look."""
        there = {a for a, machine in self._machines.items() if machine.resource == resource}
        return there - self._left_out.keys()

    def _usual_pace(self, address: str) -> float:
        paces = self._paces.get(address)
        return statistics.median(paces) if paces else math.inf

    # ------------------------------------------------------------------------------------- answers

    def _take(self, job: Job, future: Any) -> None:
        try:
            if future.status == "error":
                job.answer = _refusal(future.exception(timeout=_GATHER_SECONDS))
            else:
                text = future.result(timeout=_GATHER_SECONDS)
                self._judge(job, MeasureAnswer.from_text(text))
        except (CancelledError, OSError):  # lost with the scheduler, or the machine that had it
            self._waiting.appendleft(job)
        except TuningError as error:
            job.answer = error

    def _judge(self, job: Job, answer: MeasureAnswer) -> None:
        if answer.status == "unable":
            self._leave_out(answer.worker, answer.result.error_msg or "", math.inf)
            self._look(now=True)
            if not self._fitting(job.resource):
                reasons = "; ".join(f"{a}: {out.reason}" for a, out in self._left_out.items())
                job.answer = TuningError(f"no machine can measure this any more: {reasons}")
                return
        elif job.pin is not None or self._is_comparable(job, answer):
            job.answer = answer
            return
        self._waiting.appendleft(job)

    def _is_comparable(self, job: Job, answer: MeasureAnswer) -> bool:
        """Leave out a machine that is slower than others for a while; say whether it is not."""
        address = answer.worker
        if not answer.pace:
            return True
        paces = self._paces.setdefault(address, deque(maxlen=_KEPT_PACES))
        if answer.pace not in paces:  # it holds for some answers
            paces.append(answer.pace)
        others = self._fitting(job.resource) - {address}
        ratio = self._usual_pace(address) / min(map(self._usual_pace, {address, *others}))
        if ratio <= _SLOW or not others:
            return True
        del self._paces[address]
        reason = (
            f"it takes {ratio:.2f} times as long for the reference kernel as the fastest "
            "machine of its kind, so that times cannot be compared"
        )
        self._leave_out(address, reason, time.monotonic() + _SLOW_SECONDS)
        return False

    def _leave_out(self, address: str, reason: str, until: float) -> None:
        """Send nothing more to a machine; what waits there for a slow one is sent elsewhere."""
        if address in self._left_out:
            return
        self._left_out[address] = _LeftOut(reason, until)
        host = self._machines[address].host if address in self._machines else address
        a_while = " for a while" * (until < math.inf)
        logger.warning("%s is left out%s: %s", host, a_while, reason)
        if until < math.inf:
            there = set(self._connection.client.processing([address]).get(address, ()))
            self._send_again(future for future in list(self._sent) if future.key in there)

    # ------------------------------------------------------------------------------------- sending

    def _look(self, now: bool = False) -> None:
        """List the machines from time to time, and send again what was lost."""
        clock = time.monotonic()
        if not now and clock - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = clock
        try:
            if not self._connection.is_up():
                self._send_again(list(self._sent))
                text = f"The scheduler {self._connection.address} is gone; waiting until it is back"
                self._say(text)
                return
            self._machines = self._connection.machines()
        except OSError as error:
            logger.debug("The scheduler does not answer", exc_info=error)
            return
        self._left_out = {
            address: out
            for address, out in self._left_out.items()
            if address in self._machines and out.until > clock
        }
        self._send_again(
            future
            for future, job in list(self._sent.items())
            if job.only and not job.only & self._machines.keys()
        )
        for resource in {job.resource for job in (*self._waiting, *self._sent.values())}:
            self._need_machines(resource)

    def _need_machines(self, resource: str) -> None:
        """Use slow machines if no other one is left, and say so if there is none at all."""
        if self._fitting(resource):
            return
        self._left_out = {a: out for a, out in self._left_out.items() if out.until == math.inf}
        if self._fitting(resource):
            return
        left_out = ", ".join(
            f"{self._machines[a].host}: {out.reason}" for a, out in self._left_out.items()
        )
        self._say(
            f"No machine measures at the moment; waiting for a {resource}; "
            + described(self._machines)
            + (f"; left out of this search is {left_out}" if left_out else "")
        )

    def _say(self, text: str) -> None:
        """Warn, but not of the same all the time."""
        if time.monotonic() - self._said_at.get(text, -math.inf) >= _SAY_SECONDS:
            self._said_at[text] = time.monotonic()
            logger.warning("%s", text)

    def _send_again(self, futures: Any) -> None:
        for future in futures:
            self._waiting.append(self._sent.pop(future))
            future.release()

    def _send_waiting(self) -> None:
        client = self._connection.client
        waiting, self._waiting = self._waiting, deque()
        for job in waiting:
            machines = self._fitting(job.resource)
            if client.status != "running" or (self._left_out and not machines):
                self._waiting.append(job)
                continue
            job.only = frozenset(machines if self._left_out else ())
            if job.pin is not None and machines:
                if job.pin.address not in machines:
                    job.pin.address = min(machines, key=lambda a: (self._usual_pace(a), a))
                job.only = frozenset([job.pin.address])
            job.future = client.submit(
                measure_here,
                job.request.as_text(),
                self._sent_arrays(job.request.input_data),
                key=f"measure-{uuid.uuid4().hex}",
                pure=False,
                resources={job.resource: 1},
                workers=list(job.only) or None,
            )
            self._sent[job.future] = job
            job.future.add_done_callback(self._ended.put)

    def _sent_arrays(self, arrays: Arrays) -> Any:
        """Return Dask's future of arrays: they are copied once to each machine that needs them."""
        if not arrays:
            return b""
        known = self._arrays.get(id(arrays))
        if known is None or known[1].status not in ("pending", "finished"):
            packed = packed_arrays(arrays)
            known = arrays, self._connection.client.submit(bytes, packed, pure=False, priority=1)
            self._arrays[id(arrays)] = known
        return known[1]


def _refusal(error: object) -> MeasureAnswer | TuningError:
    """Return the answer to a request that Dask gave up."""
    if isinstance(error, package("distributed").KilledWorker):
        text = f"DaskRunner: every machine that measured it died: {error}"
        return MeasureAnswer("done", RunnerResult(error_msg=text, ending="crash"))
    return TuningError(
        f"Dask cannot execute the request: {error!r}; scheduler and workers need the same version "
        'of tensorir as this process: pip install "tensorir[distributed]"'
    )
