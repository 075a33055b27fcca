"""The builder and the runner of a search that measures on the machines of a Dask scheduler."""

from __future__ import annotations

import logging
import uuid
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from codegen import Target
from search.builder.artifact_directory import ArtifactDirectory
from search.builder.builder import Builder, BuilderInput, BuilderResult
from search.builder.externs import checked_names
from search.database.target_key import target_key
from search.errors import TuningError
from search.runner.distributed.connection import Connection, other_release
from search.runner.distributed.credentials import Credentials, PathLike
from search.runner.distributed.dispatcher import Dispatcher, Job, Pin
from search.runner.distributed.machine import Machine, described, this_release
from search.runner.distributed.messages import MeasureRequest
from search.runner.program_facts import ProgramFacts
from search.runner.runner import LocalRunner, Runner, RunnerFuture, RunnerInput, RunnerResult
from search.runner.time_call import EvaluatorConfig

logger = logging.getLogger("tensorir.search")

_SCHEME: Final = "dask"
_SUFFIX: Final = ".program"
_TICK_SECONDS: Final = 0.5


@Builder.kinds.register("dask")
class DaskBuilder(Builder):
    """Writes programs down, which the machines of a `DaskRunner` build when they measure them.

    So a machine builds the next candidates while it measures one, and nothing but a text travels. A
    build that takes longer than `timeout_sec` there is ended. `client` is not needed: it is the
    runner that sends.
    """

    beside_measuring = False

    def __init__(self, client: object = None, *, timeout_sec: float = 15.0) -> None:
        self.timeout_sec = timeout_sec
        self._directory: ArtifactDirectory | None = None

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """Write each program to a file of its own, which is there until `clean_up`."""
        self._directory = self._directory or ArtifactDirectory()
        results = []
        for entry in build_inputs:
            request = MeasureRequest(
                entry.mod.script(), entry.target, build_seconds=self.timeout_sec
            )
            path = self._directory.path / f"{uuid.uuid4().hex}{_SUFFIX}"
            path.write_text(request.as_text(), encoding="utf-8")
            results.append(BuilderResult(artifact_path=str(path)))
        return results

    def clean_up(self) -> None:
        """Delete the programs that were written down."""
        if self._directory is not None:
            self._directory.remove()
            self._directory = None

    def close(self) -> None:
        """Delete the programs that were written down."""
        self.clean_up()


@Runner.kinds.register(f"{_SCHEME}://")
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
        if not isinstance(credentials, Credentials):
            credentials = Credentials.read(credentials)
        self._connection = Connection(address, credentials, connect_sec, allow_other_versions)
        self._dispatcher = Dispatcher(self._connection)
        self._resources: dict[str, str] = {}
        """The resource of the machines that measure for a target, by its key."""
        self._pin: Pin | None = None
        self._search = uuid.uuid4().hex
        self._finalizer = weakref.finalize(self, self._dispatcher.close)

    # ------------------------------------------------------------------------------------ measuring

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Send candidates to the scheduler, which gives them to machines."""
        jobs = [self._job(entry) for entry in runner_inputs]
        self._dispatcher.send(jobs)
        return [_SentFuture(self._dispatcher, job) for job in jobs]

    def _job(self, entry: RunnerInput) -> Job:
        reference = entry.reference_path and _written(entry.reference_path).program
        request = replace(
            _written(entry.artifact_path),
            args_info=tuple(entry.args_info),
            evaluator=self.evaluator_config,
            alloc_repeat=self.alloc_repeat,
            run_seconds=self.timeout_sec,
            best_seconds=entry.best_seconds,
            reference=reference,
            facts=entry.facts or ProgramFacts(),
            allow_externs=self.allow_externs,
            input_data=entry.input_data,
            search=self._search if entry.ends_hopeless else "",
        )
        return Job(request, self._resource_for(request.target), self._pin)

    def as_they_end(
        self, futures: Sequence[RunnerFuture], is_over: Callable[[], bool]
    ) -> Iterator[int]:
        """Yield the places of measurements as they end, so that none waits for a slower one."""
        waiting = dict(enumerate(futures))
        while waiting and not is_over():
            ended = [
                k for k, f in waiting.items() if not isinstance(f, _SentFuture) or f.job.answer
            ]
            for place in ended:
                del waiting[place]
                yield place
            if not ended:
                self._dispatcher.proceed(_TICK_SECONDS)

    def in_one_place(self) -> DaskRunner:
        """Return a runner all of whose candidates are measured by the same machine.

        It is the usually fastest one, and another one if that goes away. `close` is for this one.
        """
        runner = copy(self)
        runner._pin = Pin()
        return runner

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

    def _resource_for(self, target: Target) -> str:
        """Return the resource of the machines that measure for a target.

        TuningError if there is no machine for it.
        """
        key = target_key(target)
        if key not in self._resources:
            self._resources[key] = self._best_resource(target)
        return self._resources[key]

    def _best_resource(self, target: Target) -> str:
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
        self._resources.clear()
        self._dispatcher.close()


def _written(path: str) -> MeasureRequest:
    """Return what a `DaskBuilder` wrote down; TuningError if another builder made the artifact."""
    if not path.endswith(_SUFFIX):
        raise TuningError(
            f"a DaskRunner measures what its machines build, and {path} was built here: leave "
            "out builder=, or give builder=DaskBuilder()"
        )
    return MeasureRequest.from_text(Path(path).read_text(encoding="utf-8"))


class _SentFuture(RunnerFuture):
    """A candidate that was sent, or waits to be."""

    def __init__(self, dispatcher: Dispatcher, job: Job) -> None:
        super().__init__(self._is_done, self._wait, partial(dispatcher.give_up, job))
        self.job = job
        self._dispatcher = dispatcher

    def _is_done(self) -> bool:
        if self.job.answer is None:
            self._dispatcher.proceed(0)
        return self.job.answer is not None

    def _wait(self) -> RunnerResult:
        while self.job.answer is None:
            self._dispatcher.proceed(_TICK_SECONDS)
        answer = self.job.answer
        if isinstance(answer, TuningError):
            raise answer
        if answer.status == "program":
            raise TuningError(answer.result.error_msg or "the program cannot be measured")
        return answer.result
