"""The runner that measures on the machines of a Dask scheduler."""

from __future__ import annotations

import concurrent.futures
import logging
import math
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final

from codegen import Target
from search.builder.externs import checked_names
from search.database.target_key import target_key
from search.distributed.connection import Connection, other_release
from search.distributed.credentials import Credentials, PathLike
from search.distributed.dask_builder import DaskBuilder, WrittenProgram
from search.distributed.dispatcher import BestTimes, Dispatcher, Job
from search.distributed.machine import Machine, described, this_release
from search.distributed.messages import MeasureRequest
from search.errors import TuningError
from search.runner.program_facts import ProgramFacts
from search.runner.runner import LocalRunner, Runner, RunnerFuture, RunnerInput, RunnerResult
from search.runner.time_call import EvaluatorConfig

logger = logging.getLogger("tensorir.search")

_SCHEME: Final = "dask"
_TICK_SECONDS: Final = 0.5


@Runner.kinds.register_scheme(_SCHEME)
class DaskRunner(Runner):
    """Measures candidates on the machines that `tensorir worker` offers to a Dask scheduler.

    `address` is that of the scheduler, `dask://host:8786`, and `credentials` the file that it made,
    by default what `TENSORIR_CREDENTIALS` names or that of this user (`Credentials.read`);
    `Credentials.of_files` has certificates of one's own. Whoever has them can run programs as this
    user.

    Machines build what they measure (`DaskBuilder`), check it and time it as a `LocalRunner` does
    with the same options; limits begin when a machine has the candidate. `allow_externs` are those
    of a `LocalBuilder`; a worker may allow more.

    A target is measured for on machines of one kind (CPU model, features, caches) and release,
    since times of different ones cannot be compared: by default on those of the CPU model that the
    target names, else on the kind of which most cores measure. `machines` says which instead: a
    kind as `tensorir worker` prints it, or a CPU model. A target that names no CPU model is this
    machine. Machines of another release of this project, or another state of its lowering, are
    left out unless `allow_other_versions`.

    TuningError if no scheduler answers at the address within `connect_sec`, or not with these
    credentials.
    """

    takes_batches = True

    def __init__(
        self,
        address: str,
        *,
        timeout_sec: float = 30.0,
        evaluator_config: EvaluatorConfig | None = None,
        alloc_repeat: int = 1,
        machines: str | None = None,
        credentials: PathLike | Credentials | None = None,
        allow_externs: Collection[str] = (),
        allow_other_versions: bool = False,
        connect_sec: float = 5.0,
    ) -> None:
        self.timeout_sec = timeout_sec
        self.evaluator_config = evaluator_config or LocalRunner.default_evaluator()
        self.alloc_repeat = alloc_repeat
        self.only = machines
        self.allow_externs = checked_names(allow_externs)
        self.allow_other_versions = allow_other_versions
        self._connection = Connection(address, credentials, connect_sec, allow_other_versions)
        self._dispatchers: dict[str, Dispatcher] = {}
        """By the keys of targets."""
        self._best = BestTimes()
        self._programs: dict[str, WrittenProgram] = {}
        self._finalizer = weakref.finalize(self, _close, self._dispatchers, self._connection)

    # ------------------------------------------------------------------------------------ measuring

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Send candidates to machines, as many as those can take, and the others after them."""
        return [self.send(entry) for entry in runner_inputs]

    def send(self, entry: RunnerInput, pinned: str | None = None) -> RunnerFuture:
        """Send a candidate, to the machine at the address `pinned` if there is one."""
        written = WrittenProgram.read(entry.artifact_path)
        reference = None
        if entry.reference_path is not None:
            reference = self._reference(entry.reference_path)
        job = Job(
            MeasureRequest(
                program=written.program,
                target=written.target,
                args_info=tuple(entry.args_info),
                evaluator=self.evaluator_config,
                alloc_repeat=self.alloc_repeat,
                build_seconds=written.build_seconds,
                run_seconds=self.timeout_sec,
                best_seconds=entry.best_seconds,
                reference=reference,
                facts=entry.facts or ProgramFacts(),
                allow_externs=self.allow_externs,
                input_data=entry.input_data,
            ),
            pinned,
        )
        self.dispatcher(written.target).add(job)
        return _SentFuture(job, self._result)

    def _reference(self, path: str) -> str:
        if path not in self._programs:
            self._programs[path] = WrittenProgram.read(path)
        return self._programs[path].program

    def _result(self, job: Job) -> RunnerResult:
        answer = job.answer.result()
        if answer.status == "program":
            raise TuningError(answer.error or "the program cannot be measured")
        return RunnerResult(
            run_secs=answer.run_secs if answer.error is None else None,
            error_msg=answer.error,
            seconds=answer.seconds,
            stopped=answer.stopped,
            stage=answer.stage,
            ending=answer.ending,
            build_seconds=answer.build_seconds,
            machine=answer.machine,
            joules=answer.joules,
        )

    def as_they_end(
        self, futures: Sequence[RunnerFuture], is_over: Callable[[], bool]
    ) -> Iterator[int]:
        """Yield the places of measurements as they end, so that none waits for a slower one."""
        waiting = {
            future.job.answer: place
            for place, future in enumerate(futures)
            if isinstance(future, _SentFuture)
        }
        yield from (p for p, future in enumerate(futures) if not isinstance(future, _SentFuture))
        while waiting and not is_over():
            ended, _ = concurrent.futures.wait(
                waiting, timeout=_TICK_SECONDS, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for answer in sorted(ended, key=waiting.__getitem__):
                yield waiting.pop(answer)

    def in_one_place(self) -> Runner:
        """Return a runner all of whose candidates are measured by the same machine."""
        return _OneMachine(self)

    def own_builder(self) -> DaskBuilder:
        """Return a builder that leaves building to the machines."""
        return DaskBuilder()

    # ------------------------------------------------------------------------------------- machines

    def machines(self) -> dict[str, Machine]:
        """Return the machines that measure for the scheduler, by the addresses of their workers."""
        return self._connection.machines()

    def why_not(self, target: Target) -> str | None:
        """Return why no machine measures for a target, None if one does."""
        found = self.machines()
        reasons = {address: self._why_not(m, target) for address, m in found.items()}
        if None in reasons.values():
            return None
        each = "".join(f"; not by {found[a].host}: {why}" for a, why in reasons.items())
        return f"at {self._connection.address} {described(found)}{each}"

    def _why_not(self, machine: Machine, target: Target) -> str | None:
        if self.only not in (None, machine.kind, machine.cpu):
            return f"machines={self.only!r} leaves it out"
        if machine.release != this_release() and not self.allow_other_versions:
            return f"it {other_release(machine.release)}"
        return machine.why_not(target)

    def dispatcher(self, target: Target) -> Dispatcher:
        """Return what sends the candidates for a target to machines of one kind.

        TuningError if there is no machine for it.
        """
        key = target_key(target)
        if key not in self._dispatchers:
            resource = self._resource_for(target)
            there = self.machines()
            self._dispatchers[key] = Dispatcher(self._connection, resource, self._best, there)
        return self._dispatchers[key]

    def _resource_for(self, target: Target) -> str:
        """Return the resource of the machines that measure for a target."""
        reason = self.why_not(target)
        if reason is not None:
            raise TuningError(f"candidates for {target} cannot be measured: {reason}")
        fitting = [m for m in self.machines().values() if self._why_not(m, target) is None]
        cores: dict[tuple[bool, str], int] = {}
        for machine in fitting:
            entry = (machine.cpu == target.mcpu, machine.resource)
            cores[entry] = cores.get(entry, 0) + machine.measuring
        _, resource = max(cores, key=lambda entry: (entry[0], cores[entry], entry[1]))
        others = {m.resource for m in fitting} - {resource}
        logger.info(
            "Candidates for %s are measured on each %s, by now on %d core(s)%s",
            target,
            resource,
            sum(m.measuring for m in fitting if m.resource == resource),
            f"; not on any {', '.join(sorted(others))}, whose times are others" if others else "",
        )
        return resource

    def close(self) -> None:
        """Give up what is not measured yet, and let go of the scheduler until the next run."""
        self._programs.clear()
        _close(self._dispatchers, self._connection)


class _SentFuture(RunnerFuture):
    """A candidate that was sent, or waits to be."""

    def __init__(self, job: Job, result: Callable[[Job], RunnerResult]) -> None:
        super().__init__(job.answer.done, partial(result, job), job.answer.cancel)
        self.job = job


class _OneMachine(Runner):
    """Measures on one machine of those of a runner; on another one if that goes away."""

    def __init__(self, runner: DaskRunner) -> None:
        self._runner = runner
        self._address: str | None = None

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Send candidates to the machine, the usually fastest one when the first was sent."""
        futures = []
        for entry in runner_inputs:
            dispatcher = self._runner.dispatcher(WrittenProgram.read(entry.artifact_path).target)
            there = dispatcher.machines()
            if self._address not in there:
                pace = dispatcher.paces.usual
                self._address = min(there, key=lambda a: (pace(a) or math.inf, a), default=None)
            futures.append(self._runner.send(entry, self._address))
        return futures


def _close(dispatchers: dict[str, Dispatcher], connection: Connection) -> None:
    for dispatcher in dispatchers.values():
        dispatcher.close()
    dispatchers.clear()
    connection.close()
