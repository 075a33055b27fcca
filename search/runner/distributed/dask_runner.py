"""The builder and the runner of a search that measures on the machines of a Dask scheduler."""

from __future__ import annotations

import logging
import uuid
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Final

from codegen import Target
from search.builder.builder import Builder, BuilderInput, BuilderResult, checked_names
from search.database.target_key import target_key
from search.errors import TuningError
from search.runner.arguments import ProgramFacts
from search.runner.distributed.connection import (
    Connection,
    Machine,
    describe_machines,
    this_release,
)
from search.runner.distributed.credentials import Credentials
from search.runner.distributed.dispatcher import Dispatcher, Pin, SentCandidate
from search.runner.distributed.messages import MeasureRequest
from search.runner.local_runner import LocalRunner
from search.runner.runner import Runner, RunnerFuture, RunnerInput
from search.runner.time_call import EvaluatorConfig
from tensorir.paths import PathLike

logger = logging.getLogger("tensorir.search")

_SCHEME: Final = "dask"


@Builder.kinds.register("dask")
class DaskBuilder(Builder):
    """Leaves building to the machines of a `DaskRunner`: an artifact is the text of a request.

    So a machine builds the next candidates while it measures, and only text is sent. A build that
    runs longer than `timeout_sec` there is ended.
    """

    beside_measuring = False

    def __init__(self, *, timeout_sec: float = 15.0) -> None:
        self.timeout_sec = timeout_sec

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """Return each program as the text of a request, in place of the path of an artifact."""
        requests = (
            MeasureRequest(entry.mod.script(), entry.target, build_seconds=self.timeout_sec)
            for entry in build_inputs
        )
        return [BuilderResult(artifact_path=request.as_text()) for request in requests]

    def remove_artifact(self, path: str) -> None:
        """Do nothing: the artifact is a text, not a file."""


@Runner.kinds.register(f"{_SCHEME}://")
class DaskRunner(Runner):
    """Measures candidates on the machines that `tensorir worker` offers to a Dask scheduler.

    `address` is the address of the scheduler, `dask://host:8786`, and `credentials` the file that
    the scheduler made; the default is the file of `Credentials.read`, and `Credentials.of_files`
    reads user-defined certificates. Whoever has the credentials can run programs as this user.

    The machines build, check and time candidates as a `LocalRunner` does with the same options. The
    time limits start when a machine has the candidate. `allow_externs` is as for a `LocalBuilder`;
    a worker may allow more.

    Times of different machines cannot be compared. So all candidates for a target are measured on
    machines of one kind (CPU model, features, caches) and release: machines of the CPU model in the
    target, else the kind with the most measuring cores. `machines` overrides this; it is a kind, as
    `tensorir worker` prints it, or a CPU model. A target without a CPU model means this machine.
    Machines with another release of this project, or another state of its lowering, are left out
    unless `allow_other_versions`.

    Raises TuningError if no scheduler with these credentials answers within `connect_sec`.
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
        self._connection = Connection(address, credentials, connect_sec)
        self._dispatcher = Dispatcher(self._connection)
        self._resources: dict[str, str] = {}
        """The resource of the machines that measure for a target, by its key."""
        self._pin: Pin | None = None
        self._search = uuid.uuid4().hex
        self._finalizer = weakref.finalize(self, self._dispatcher.close)

    # ------------------------------------------------------------------------------------ measuring

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Send candidates to the scheduler, which assigns them to machines."""
        sent = [self._candidate(entry) for entry in runner_inputs]
        self._dispatcher.send(sent)
        return list(sent)

    def _candidate(self, entry: RunnerInput) -> SentCandidate:
        reference = entry.reference_path and _request(entry.reference_path).program
        request = replace(
            _request(entry.artifact_path),
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
        resource = self._resource_for(request.target)
        return SentCandidate(self._dispatcher, request, resource, self._pin)

    def as_they_end(
        self, futures: Sequence[RunnerFuture], is_over: Callable[[], bool]
    ) -> Iterator[int]:
        """Yield the indices of futures in the order in which they end."""
        waiting = dict(enumerate(futures))
        while waiting and not is_over():
            ended = [k for k, f in waiting.items() if getattr(f, "answer", True)]
            for place in ended:
                del waiting[place]
                yield place
            if not ended:
                self._dispatcher.proceed()

    def in_one_place(self) -> DaskRunner:
        """Return a runner that measures all its candidates on one machine.

        This is the fastest machine; if it disappears, the next fastest. Close the original runner.
        """
        runner = copy(self)
        runner._pin = Pin()
        return runner

    def own_builder(self) -> DaskBuilder:
        """Return a builder that leaves building to the machines."""
        return DaskBuilder()

    # ------------------------------------------------------------------------------------- machines

    def machines(self) -> dict[str, Machine]:
        """Return the machines of the scheduler by the addresses of their workers."""
        return self._connection.machines()

    def why_not(self, target: Target) -> str | None:
        """Return the reason if no machine can measure for a target, else None."""
        found = self.machines()
        reasons = {address: self._refusal(m, target) for address, m in found.items()}
        if None in reasons.values():
            return None
        each = "".join(f"; not by {found[a].host}: {why}" for a, why in reasons.items())
        return f"at {self._connection.address} {describe_machines(found)}{each}"

    def _refusal(self, machine: Machine, target: Target) -> str | None:
        if self.only not in (None, machine.kind, machine.cpu):
            return f"machines={self.only!r} leaves it out"
        if machine.release != this_release() and not self.allow_other_versions:
            return (
                f"it runs tensorir {machine.release} and this process {this_release()}: install "
                "the same version on both, or allow others by "
                "DaskRunner(..., allow_other_versions=True)"
            )
        return machine.why_not(target)

    def _resource_for(self, target: Target) -> str:
        """Return the resource of the machines that measure for a target; TuningError if none do."""
        key = target_key(target)
        if key not in self._resources:
            self._resources[key] = self._best_resource(target)
        return self._resources[key]

    def _best_resource(self, target: Target) -> str:
        reason = self.why_not(target)
        if reason is not None:
            raise TuningError(f"candidates for {target} cannot be measured: {reason}")
        fitting = [m for m in self.machines().values() if self._refusal(m, target) is None]
        cores: dict[tuple[bool, str], int] = {}
        for machine in fitting:
            entry = (machine.cpu == target.mcpu, machine.resource)
            cores[entry] = cores.get(entry, 0) + machine.measuring
        _, resource = max(cores, key=lambda entry: (entry[0], cores[entry], entry[1]))
        others = {m.resource for m in fitting} - {resource}
        logger.info(
            "Candidates for %s are measured on each %s, currently on %d core(s)%s",
            target,
            resource,
            sum(m.measuring for m in fitting if m.resource == resource),
            f"; not on any {', '.join(sorted(others))}, which would have other times"
            if others
            else "",
        )
        return resource

    def close(self) -> None:
        """Cancel all measurements, and disconnect from the scheduler until the next run."""
        self._resources.clear()
        self._dispatcher.close()


def _request(artifact: str) -> MeasureRequest:
    """Return the request that a `DaskBuilder` made; TuningError for a file of another builder."""
    if not artifact.startswith("{"):
        raise TuningError(
            f"the artifact {artifact} was built on this machine, but the machines of a DaskRunner "
            "build what they measure: leave out builder=, or give builder=DaskBuilder()"
        )
    return MeasureRequest.from_text(artifact)
