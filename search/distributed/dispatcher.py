"""Sends requests to the machines of a Dask scheduler, as many as they take, and sees to answers.

Dask assigns tasks that ask for a resource to workers as soon as it has them, so that a machine that
comes late finds nothing to do. So only as many are sent as the machines take at once, and the next
when one is back. A thread of its own does that; everything else asks it through a queue.

Whatever happens on the way, a request is sent again: the scheduler goes away and comes back, a
machine dies, a machine cannot measure what it said it could, its pace drifts. Only a candidate
with which several machines died in turn fails of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import queue
import statistics
import threading
import time
import uuid
from collections import deque
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from search.distributed.connection import Connection
from search.distributed.machine import Machine, described
from search.distributed.messages import MeasureAnswer, MeasureRequest
from search.distributed.paces import Paces
from search.distributed.worker import measure_here
from search.errors import TuningError

logger = logging.getLogger("tensorir.search")

_LOOK_SECONDS: Final = 2.0
"""How often the dispatcher looks which machines there are."""
_TICK_SECONDS: Final = 0.5
_GATHER_SECONDS: Final = 10.0
"""How long an answer may be on its way from the machine that has it."""
_SAY_SECONDS: Final = 60.0
"""How often it says what it is waiting for."""
_SLOW_SECONDS: Final = 60.0
"""How long a machine that was slower than others is not asked; then it may show what it is now."""
_MOST_DEATHS: Final = 2
"""How often Dask may give a request up, each time after several machines died with it."""
_MOST_DRIFTS: Final = 2
"""How often a candidate is measured again because the pace of a machine drifted."""


@dataclass(frozen=True)
class _LeftOut:
    """Why a machine is not asked, and until when on the monotonic clock."""

    reason: str
    until: float = math.inf


@dataclass(eq=False)
class Job:
    """A request that is waiting or on its way, and what happened to it so far."""

    request: MeasureRequest
    pinned: str | None = None
    """The address of the only machine that is to measure it, if there is one."""
    answer: Future[MeasureAnswer] = field(default_factory=Future)
    only: Collection[str] | None = None
    """The addresses to which it was sent, None for any machine of the kind."""
    deaths: int = 0
    """How often Dask gave it up because several machines had died with it."""
    drifts: int = 0
    """How often it was measured while the pace of the machine was not the usual one."""

    def settle(self, answer: MeasureAnswer | Exception) -> None:
        """Answer, unless nobody waits any more."""
        if self.answer.cancelled() or self.answer.done():
            return
        if isinstance(answer, Exception):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


class BestTimes:
    """The best times of the candidates of unscheduled programs, in seconds.

    They become known while other candidates wait to be sent.
    """

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def note(self, request: MeasureRequest, answer: MeasureAnswer) -> None:
        """Take note of an answer."""
        if request.reference is None or answer.status != "measured" or answer.stopped:
            return
        seconds = statistics.median(answer.run_secs) if answer.run_secs else math.inf
        known = self._seconds.get(request.reference, math.inf)
        self._seconds[request.reference] = min(known, seconds)

    def of(self, request: MeasureRequest) -> float | None:
        """Return the best time that is known of the candidates of the same program."""
        known = (request.best_seconds, self._seconds.get(request.reference or ""))
        return min((seconds for seconds in known if seconds is not None), default=None)


class Dispatcher:
    """Has requests measured by the machines with one `Machine.resource`.

    `machines` are those that there are at first, by address.
    """

    def __init__(
        self,
        connection: Connection,
        resource: str,
        best: BestTimes,
        machines: Mapping[str, Machine],
    ) -> None:
        self.resource = resource
        self.paces = Paces()
        self._connection = connection
        self._client = connection.client
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waiting: deque[Job] = deque()
        self._sent: dict[Any, Job] = {}
        """The Dask futures that are on their way."""
        self._machines = self._fitting(machines)
        self._looked_at = -_LOOK_SECONDS
        self._left_out: dict[str, _LeftOut] = {}
        """The machines that are not asked, by address."""
        self._said_at: dict[str, float] = {}
        self._closing = False
        self._best = best
        self._thread = threading.Thread(target=self._serve, name="dask dispatcher", daemon=True)
        self._thread.start()

    def add(self, job: Job) -> None:
        """Have a request measured after those that were added before."""
        self._events.put(job)

    def machines(self) -> Mapping[str, Machine]:
        """Return the machines that are asked, by address, as of the last look."""
        return {a: m for a, m in self._machines.items() if a not in self._left_out}

    def _fitting(self, machines: Mapping[str, Machine]) -> dict[str, Machine]:
        return {a: m for a, m in machines.items() if m.resource == self.resource}

    def close(self) -> None:
        """Give up what nobody has answered yet."""
        self._closing = True
        self._events.put(None)
        self._thread.join(timeout=10)

    # --------------------------------------------------------------------------- called by its own

    def _serve(self) -> None:
        answer = TuningError("the runner was closed")
        try:
            while not self._closing:
                self._take_events()
                self._look()
                self._fill()
        except Exception as error:
            logger.exception("Measuring on many machines ended")
            answer = TuningError(f"measuring on many machines ended: {error!r}")
        finally:
            self._give_up(answer)

    def _give_up(self, answer: TuningError) -> None:
        with contextlib.suppress(Exception):
            self._connection.client.cancel(list(self._sent))
        jobs = [*self._sent.values(), *self._waiting]
        while not self._events.empty():
            event = self._events.get()
            jobs += [event] if isinstance(event, Job) else []
        for job in jobs:
            job.settle(answer)
        self._sent.clear()

    def _take_events(self) -> None:
        """Wait for something to happen, and take in all that has happened."""
        events = []
        with contextlib.suppress(queue.Empty):
            events.append(self._events.get(timeout=_TICK_SECONDS))
            while True:
                events.append(self._events.get_nowait())
        ended = []
        for event in events:
            if isinstance(event, Job):
                self._waiting.append(event)
            elif event in self._sent:
                ended.append(event)
        if ended:
            self._take_answers(ended)
        for future in [f for f, job in self._sent.items() if job.answer.cancelled()]:
            del self._sent[future]
            future.cancel()

    def _take_answers(self, ended: list[Any]) -> None:
        finished = [future for future in ended if future.status == "finished"]
        texts = dict(zip(finished, self._gathered(finished), strict=True))
        for future in ended:
            job = self._sent.pop(future)
            if future in texts and texts[future] is not None:
                self._take_answer(job, texts[future])
            elif future.status == "error":
                self._take_error(job, future)
            else:  # cancelled with the connection, or lost with the machine that had it
                self._again(job)
            future.release()

    def _gathered(self, futures: list[Any]) -> list[Any]:
        """Return the results of finished tasks, None for those that cannot be had."""
        if not futures:
            return []
        client = self._connection.client
        try:
            together = client.gather(futures, errors="raise", asynchronous=True)
            waiting = asyncio.run_coroutine_threadsafe(_within(together), client.loop.asyncio_loop)
            return list(waiting.result())
        except Exception as error:
            logger.debug("Answers were lost on their way", exc_info=error)
            return [None] * len(futures)

    def _take_answer(self, job: Job, text: str) -> None:
        try:
            answer = MeasureAnswer.from_text(text)
        except TuningError as error:
            job.settle(error)
            return
        address = answer.worker
        if answer.status == "unable":
            self._leave_out(address, answer.error or "", job)
            return
        verdict = self.paces.note(address, answer.pace) if answer.status == "measured" else "fine"
        if verdict == "slow" and self._leave_out_slow(address, answer):
            self._again(job)
        elif verdict == "drifted" and job.drifts < _MOST_DRIFTS and job.pinned is None:
            job.drifts += 1
            self._again(job)
        else:
            self._best.note(job.request, answer)
            job.settle(answer)

    def _leave_out_slow(self, address: str, answer: MeasureAnswer) -> bool:
        """Ask a slow machine for a while no more, unless it is the last one; say whether so."""
        if len(self.machines()) < 2 or address not in self.machines():
            return address in self._left_out
        until = time.monotonic() + _SLOW_SECONDS
        self._left_out[address] = _LeftOut("it is slower than the others", until)
        logger.warning(
            "%s is left out for a while: it takes %.2f times as long for the reference kernel as "
            "the fastest machine of its kind, so that times cannot be compared",
            answer.machine,
            self.paces.ratio(address),
        )
        return True

    def _leave_out(self, address: str, reason: str, job: Job) -> None:
        """Ask a machine no more that cannot do what it said it could."""
        if address not in self._left_out:
            self._left_out[address] = _LeftOut(reason)
            logger.warning("The machine at %s is left out: %s", address, reason)
        self._look(now=True)
        if not self.machines():
            reasons = "; ".join(f"{a}: {out.reason}" for a, out in self._left_out.items())
            job.settle(TuningError(f"no machine can measure this any more: {reasons}"))
        else:
            self._again(job)

    def _take_error(self, job: Job, future: Any) -> None:
        error = future.exception(timeout=_GATHER_SECONDS)
        if type(error).__name__ != "KilledWorker":
            job.settle(
                TuningError(
                    f"Dask cannot execute the request: {error!r}; scheduler and workers need the "
                    'same version of tensorir as this process: pip install "tensorir[distributed]"'
                )
            )
            return
        job.deaths += 1
        if job.deaths > _MOST_DEATHS:
            text = f"DaskRunner: every machine that measured it died: {error}"
            job.settle(MeasureAnswer("failed", error=text, ending="crash"))
        else:
            self._again(job)

    def _again(self, job: Job) -> None:
        if not job.answer.cancelled():
            self._waiting.appendleft(job)

    def _look(self, now: bool = False) -> None:
        """Look which machines there are, from time to time."""
        if not now and time.monotonic() - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = time.monotonic()
        if not self._connection.is_up():
            self._machines = {}
            self._say(f"The scheduler {self._connection.address} is gone; waiting until it is back")
            for future in list(self._sent):
                if future.status != "pending":
                    self._events.put(future)
            return
        try:
            found = self._connection.machines()
        except Exception as error:
            logger.debug("The scheduler does not answer", exc_info=error)
            return
        if self._client is not self._connection.client:  # what the other one had sent is lost
            self._client = self._connection.client
            for job in self._sent.values():
                self._again(job)
            self._sent.clear()
        gone = self._machines.keys()
        self._machines = self._fitting(found)
        for address in gone - self._machines.keys():
            self.paces.forget(address)
        self._left_out = {a: out for a, out in self._left_out.items() if a in self._machines}
        self._ask_slow_ones_again()
        self._take_back_what_waits_for_the_dead()
        if not self.machines() and (self._waiting or self._sent):
            left_out = [
                f"{self._machines[a].host}: {out.reason}" for a, out in self._left_out.items()
            ]
            self._say(
                f"No machine measures at the moment; waiting for a {self.resource}; "
                + described(found)
                + (f"; left out of this search is {', '.join(left_out)}" if left_out else "")
            )

    def _ask_slow_ones_again(self) -> None:
        """Ask machines that were slow, when their time is over or no other one is left."""
        is_alone = not self.machines()
        for address, out in list(self._left_out.items()):
            if out.until < math.inf and (is_alone or out.until <= time.monotonic()):
                del self._left_out[address]
                self.paces.forget(address)

    def _take_back_what_waits_for_the_dead(self) -> None:
        """Send again what Dask keeps for machines that it was told by address and that are gone."""
        for future, job in list(self._sent.items()):
            if job.only is not None and not any(a in self._machines for a in job.only):
                del self._sent[future]
                future.cancel()
                self._again(job)

    def _say(self, text: str) -> None:
        """Warn, but not of the same all the time."""
        if time.monotonic() - self._said_at.get(text, -_SAY_SECONDS) >= _SAY_SECONDS:
            self._said_at[text] = time.monotonic()
            logger.warning("%s", text)

    def _fill(self) -> None:
        """Send as many requests as the machines can take."""
        machines = self.machines()
        most = sum(machine.at_once for machine in machines.values())
        while self._waiting and len(self._sent) < most:
            job = self._waiting.popleft()
            if not job.answer.cancelled():
                self._send(job, machines)

    def _send(self, job: Job, machines: Mapping[str, Machine]) -> None:
        client = self._connection.client
        job.only = list(machines) if self._left_out else None
        if job.pinned is not None and job.pinned in machines:
            job.only = [job.pinned]
        try:
            future = client.submit(
                measure_here,
                job.request.with_best(self._best.of(job.request)).as_text(),
                key=f"measure-{uuid.uuid4().hex}",
                pure=False,
                resources={self.resource: 1},
                workers=job.only,
            )
        except Exception as error:
            logger.debug("A request cannot be sent", exc_info=error)
            self._waiting.appendleft(job)
            time.sleep(_TICK_SECONDS)
            return
        self._sent[future] = job
        future.add_done_callback(self._events.put)


async def _within(waiting: Any) -> Any:
    return await asyncio.wait_for(waiting, _GATHER_SECONDS)
