"""The candidates of a search that are sent to the machines of a Dask scheduler.

Dask queues them, moves waiting ones to machines that are idle or come late, and sends those of a
machine that died to another one. This module handles the other cases while the search waits for an
answer: a machine that is unable to measure, a machine that is too slow for comparable times, and a
restarted scheduler, which has lost all candidates.
"""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import time
import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from search.errors import TuningError
from search.runner.distributed.connection import Connection, Machine, describe_machines
from search.runner.distributed.credentials import package
from search.runner.distributed.messages import Arrays, MeasureAnswer, MeasureRequest, packed_arrays
from search.runner.distributed.servers import measure_here
from search.runner.runner import RunnerFuture, RunnerResult

logger = logging.getLogger("tensorir.search")

_TICK_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 2.0
"""The interval between two listings of the machines."""
_GATHER_SECONDS: Final = 10.0
"""The time limit for fetching an answer from the machine that has it."""
_SLOW: Final = 1.3
"""The ratio of two times of the reference kernel above which machines are not comparable.

The kernel takes 5 ms. On a machine with other users its time varies by ten or twenty per cent.
"""
_SLOW_SECONDS: Final = 60.0
"""The time for which a slow machine is left out."""


class _LeftOut(NamedTuple):
    reason: str
    until: float


@dataclass
class Pin:
    """The address of the machine that measures several requests; None while undecided."""

    address: str | None = None


class SentCandidate(RunnerFuture):
    """A request to the machines that offer a resource, and the answer once there is one."""

    def __init__(
        self, dispatcher: Dispatcher, request: MeasureRequest, resource: str, pin: Pin | None
    ) -> None:
        super().__init__(self._is_done, self._wait, lambda: dispatcher.give_up(self))
        self.request = request
        self.resource = resource
        self.pin = pin
        self.answer: RunnerResult | TuningError | None = None
        self.future: Any = None
        """The future of Dask while the request is sent."""
        self.only: frozenset[str] = frozenset()
        """The addresses to which it was sent; empty for any machine with the resource."""
        self._dispatcher = dispatcher

    def _is_done(self) -> bool:
        if self.answer is None:
            self._dispatcher.proceed(0)
        return self.answer is not None

    def _wait(self) -> RunnerResult:
        while self.answer is None:
            self._dispatcher.proceed()
        if isinstance(self.answer, TuningError):
            raise self.answer
        return self.answer


class Dispatcher:
    """Sends candidates through a connection, for one thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waiting: deque[SentCandidate] = deque()
        self._sent: dict[Any, SentCandidate] = {}
        self._machines: dict[str, Machine] = {}
        self._looked_at = -math.inf
        self._left_out: dict[str, _LeftOut] = {}
        self._paces: dict[str, float] = {}
        """The latest time of the reference kernel in seconds, by addresses."""
        self._arrays: dict[int, tuple[Arrays, Any]] = {}
        """Arrays of the user, and their futures, by identity."""
        self._warning = ""

    def send(self, jobs: Sequence[SentCandidate]) -> None:
        """Send requests to be measured."""
        self._waiting.extend(jobs)
        self.proceed(0)

    def proceed(self, seconds: float = _TICK_SECONDS) -> None:
        """Process the answers that have arrived; wait up to `seconds` for the first one."""
        ended = []
        with contextlib.suppress(queue.Empty):
            ended.append(self._ended.get(timeout=seconds))
            while True:
                ended.append(self._ended.get_nowait())
        self._list_machines()
        for future in ended:
            job = self._sent.pop(future, None)
            if job is not None:
                self._take(job, future)
                future.release()
        self._send_waiting()

    def give_up(self, job: SentCandidate) -> None:
        """Forget a request that has no answer."""
        if self._sent.pop(job.future, None) is not None:
            job.future.release()
        with contextlib.suppress(ValueError):
            self._waiting.remove(job)

    def close(self) -> None:
        """Give up all requests, and disconnect until the next one."""
        for job in [*self._sent.values(), *self._waiting]:
            job.answer = TuningError("the runner was closed")
            self.give_up(job)
        self._arrays.clear()
        self._looked_at = -math.inf
        self._connection.close()

    def _machines_with(self, resource: str) -> set[str]:
        """Return the machines with a resource that are not left out, as last listed."""
        there = {a for a, machine in self._machines.items() if machine.resource == resource}
        return there - self._left_out.keys()

    def _pace(self, address: str) -> float:
        return self._paces.get(address, math.inf)

    # ------------------------------------------------------------------------------------- answers

    def _take(self, job: SentCandidate, future: Any) -> None:
        try:
            if future.status == "error":
                job.answer = _refusal(future.exception(timeout=_GATHER_SECONDS))
            else:
                text = future.result(timeout=_GATHER_SECONDS)
                self._accept_or_resend(job, MeasureAnswer.from_text(text))
        except (CancelledError, OSError):  # the request was lost with the scheduler or the machine
            self._waiting.appendleft(job)
        except TuningError as error:
            job.answer = error

    def _accept_or_resend(self, job: SentCandidate, answer: MeasureAnswer) -> None:
        """Accept an answer, or send the request again if the machine is at fault."""
        message = answer.result.error_msg or ""
        if answer.status == "program":
            job.answer = TuningError(message)
        elif answer.status == "unable":
            self._leave_out(answer.worker, message)
            self._list_machines(now=True)
            if self._machines_with(job.resource):
                self._waiting.appendleft(job)
            else:
                reasons = "; ".join(f"{a}: {out.reason}" for a, out in self._left_out.items())
                job.answer = TuningError(f"no remaining machine can measure this: {reasons}")
        elif job.pin is not None or self._is_comparable(job, answer):
            job.answer = answer.result
        else:
            self._waiting.appendleft(job)

    def _is_comparable(self, job: SentCandidate, answer: MeasureAnswer) -> bool:
        """Return False if the machine is too slow to compare; it is then left out for a while."""
        address = answer.worker
        if not answer.pace:
            return True
        self._paces[address] = answer.pace
        others = self._machines_with(job.resource) - {address}
        ratio = answer.pace / min(map(self._pace, {address, *others}))
        if ratio <= _SLOW:
            return True
        del self._paces[address]
        reason = (
            f"it takes {ratio:.2f} times as long for the reference kernel as the fastest "
            "machine of its kind, so that times cannot be compared"
        )
        self._leave_out(address, reason, _SLOW_SECONDS)
        return False

    def _leave_out(self, address: str, reason: str, seconds: float = math.inf) -> None:
        """Stop using a machine; requests that wait at a slow machine are sent elsewhere."""
        if address in self._left_out:
            return
        self._left_out[address] = _LeftOut(reason, time.monotonic() + seconds)
        host = self._machines[address].host if address in self._machines else address
        a_while = " for a while" * (seconds < math.inf)
        logger.warning("%s is left out%s: %s", host, a_while, reason)
        if seconds < math.inf:
            there = set(self._connection.client.processing([address]).get(address, ()))
            self._send_again(future for future in list(self._sent) if future.key in there)

    # ------------------------------------------------------------------------------------- sending

    def _list_machines(self, now: bool = False) -> None:
        """List the machines from time to time, and send lost requests again."""
        clock = time.monotonic()
        if not now and clock - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = clock
        try:
            if not self._connection.is_up():
                self._send_again(list(self._sent))
                self._warn(
                    f"The scheduler {self._connection.address} is gone; waiting until it is back"
                )
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
        """Use slow machines if all others are gone; warn if there are none at all."""
        if self._machines_with(resource):
            return
        self._left_out = {a: out for a, out in self._left_out.items() if out.until == math.inf}
        if self._machines_with(resource):
            return
        left_out = [f"{self._machines[a].host}: {o.reason}" for a, o in self._left_out.items()]
        self._warn(
            f"No machine measures at the moment; waiting for a {resource}; "
            + "; left out of this search is ".join([describe_machines(self._machines), *left_out])
        )

    def _warn(self, text: str) -> None:
        """Log a warning, unless it was the last one."""
        if text != self._warning:
            self._warning = text
            logger.warning("%s", text)

    def _send_again(self, futures: Iterable[Any]) -> None:
        for future in futures:
            self._waiting.append(self._sent.pop(future))
            future.release()

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for job in waiting:
            machines = self._machines_with(job.resource)
            if not self._connection.is_connected or (self._left_out and not machines):
                self._waiting.append(job)
                continue
            job.only = frozenset(machines if self._left_out else ())
            if job.pin is not None and machines:
                if job.pin.address not in machines:
                    job.pin.address = min(machines, key=lambda a: (self._pace(a), a))
                job.only = frozenset([job.pin.address])
            job.future = self._connection.client.submit(
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


def _refusal(error: object) -> RunnerResult | TuningError:
    """Return the answer to a request that Dask gave up."""
    if isinstance(error, package("distributed").KilledWorker):
        text = f"DaskRunner: every machine that measured it died: {error}"
        return RunnerResult(error_msg=text, ending="crash")
    return TuningError(
        f"Dask cannot execute the request: {error!r}; scheduler and workers need the same version "
        'of tensorir as this process: pip install "tensorir[distributed]"'
    )
