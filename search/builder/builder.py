"""Builders: the base class with its input and result, and the one with processes of its own."""

from __future__ import annotations

import logging
import os
import statistics
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future as PoolFuture
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import codegen
from codegen import Target
from codegen.target import host
from search.builder.artifact_directory import ArtifactDirectory
from search.builder.core_split import CoreSplit, core_split
from search.builder.externs import check_externs, checked_names
from search.builder.future import Future
from search.builder.worker import Ending, Outcome
from search.builder.worker_pool import WorkerPool
from search.errors import TuningError
from search.kinds import Registry
from search.runner.measure_candidate import with_separate_layout_rewrite
from tensorir.function import IRModule

logger = logging.getLogger("tensorir.search")

_HOPELESS: Final = 20
_LEAST_LIMIT: Final = 5.0
"""Seconds that every build may take."""

BuildFunction = Callable[[IRModule, Target, Mapping[str, Any] | None], codegen.Module]
ExportFunction = Callable[[codegen.Module], str]


@dataclass(frozen=True, eq=False)
class BuilderInput:
    """A program to build: the module, the target, and constant parameters by name if any."""

    mod: IRModule
    target: Target
    params: Mapping[str, Any] | None = None
    allow_externs: frozenset[str] = frozenset()
    """The C functions that it may call beside those that the builder allows."""


@dataclass(frozen=True)
class BuilderResult:
    """The path of the artifact, or the error; exactly one of the two is set."""

    artifact_path: str | None = None
    error_msg: str | None = None
    seconds: float = 0.0
    """The wall time that the build took."""
    ending: Ending = "value"
    """The end of the job that the build was, where it was one."""


class BuilderFuture(Future[BuilderResult]):
    """A build that may still be on its way."""


class Builder(ABC):
    """Turns programs into something that a runner can load."""

    kinds: ClassVar[Registry[Builder]] = Registry(
        "builder", {"dask": "search.runner.distributed.dask_runner"}
    )

    beside_measuring: bool = True
    """True if programs are measured while these are built, so that a core has to stay quiet."""

    @staticmethod
    def create(kind: str | type[Builder] | Builder = "local", *args: Any, **kwargs: Any) -> Builder:
        """Return a builder: `"local"`, or `"dask"` beside a runner of that."""
        return Builder.kinds.part(kind, *args, **kwargs)

    @abstractmethod
    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """Build programs; one that cannot be built costs nothing but its own result."""

    def start(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderFuture]:
        """Start to build programs, in this order, and return at once where a builder can.

        This one builds them all first.
        """
        return [BuilderFuture.ready(result) for result in self.build(build_inputs)]

    def remove_artifact(self, path: str) -> None:
        """Delete an artifact of this builder that nobody needs any more: the file, nothing else."""
        Path(path).unlink(missing_ok=True)

    def clean_up(self) -> None:
        """Delete the files of this builder that are still in the temporary directory."""

    def warm_up(self) -> None:
        """Start worker processes and the like, without waiting for them."""

    def close(self) -> None:
        """Free the resources of the builder; it can be used again."""


PyBuilder = Builder
"""The base class under the name that it has for user classes in TVM."""


@Builder.kinds.register("local")
class LocalBuilder(Builder):
    """Builds in up to `max_workers` processes (default: the logical cores).

    A build that takes longer than `timeout_sec` is killed, and so is one that takes 5 seconds and
    20 times as long as the median of the builds before. `f_build(mod, target, params)` returns a
    `codegen.Module` of the program as it is measured, in which what packs a weight is a function of
    its own, and `f_export(module)` the path it wrote it to; `initializer` is called once in each
    worker. They may be functions of a notebook or a script.

    A program that calls a C function (`T.call_extern`) is not built, but for the mathematical ones
    (`search.builder.externs`) and those that `allow_externs` names.
    """

    def __init__(
        self,
        *,
        max_workers: int | None = None,
        timeout_sec: float = 15.0,
        f_build: BuildFunction | None = None,
        f_export: ExportFunction | None = None,
        initializer: Callable[[], object] | None = None,
        allow_externs: Collection[str] = (),
    ) -> None:
        if max_workers is not None and max_workers < 1:
            raise TuningError(f"LocalBuilder needs at least 1 worker, got {max_workers}")
        self.max_workers = max_workers or host.logical_cores()
        self.timeout_sec = timeout_sec
        self.f_build = f_build
        self.f_export = f_export
        self.allow_externs = checked_names(allow_externs)
        self.split: CoreSplit | None = None
        """The cores that build; without one, those that this process does not measure on."""
        self._pool = WorkerPool(self.max_workers, initializer, loads=build_and_export)
        self._directory: ArtifactDirectory | None = None
        self._making = threading.Lock()
        self._seconds: list[float] = []
        """The wall times of the builds that succeeded."""
        logger.info(
            "Candidates are built by %s on this machine",
            "one process" if self.max_workers == 1 else f"{self.max_workers} processes",
        )

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """Build each program to an object file of its own, which is there until `clean_up`."""
        futures = self._started(build_inputs)
        try:
            return [future.result() for future in futures]
        except BaseException:
            self._pool.cancel()
            raise

    def start(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderFuture]:
        """Start to build, in this order, and return at once; see `build`.

        A subclass with a `build` of its own builds with that, all at once.
        """
        if type(self).build is not LocalBuilder.build:
            return super().start(build_inputs)
        return self._started(build_inputs)

    def _started(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderFuture]:
        with self._making:
            self._directory = self._directory or ArtifactDirectory()
            folder = str(self._directory.path)
        where = (self.split or core_split(), self.beside_measuring)
        limit = self._limit()
        futures = []
        for i in build_inputs:
            externs = self.allow_externs | i.allow_externs
            own = (self.f_build, self.f_export, folder)
            args = (i.mod, i.target, i.params, *own, *where, externs)
            outcome = self._pool.submit((build_and_export, args), limit)
            outcome.add_done_callback(self._took)
            futures.append(BuilderFuture(outcome.done, partial(_finished, outcome)))
        return futures

    def _limit(self) -> float:
        """Return how many seconds a build may take."""
        if not self._seconds:
            return self.timeout_sec
        usual = statistics.median(self._seconds)
        return min(self.timeout_sec, max(_LEAST_LIMIT, _HOPELESS * usual))

    def _took(self, outcome: PoolFuture[Outcome]) -> None:
        if not outcome.cancelled() and outcome.result().status == "value":
            self._seconds.append(outcome.result().seconds)

    def clean_up(self) -> None:
        """Give up what is still being built and delete all but what `f_export` put elsewhere."""
        self._pool.cancel()
        if self._directory is not None:
            self._directory.remove()
            self._directory = None

    def warm_up(self) -> None:
        """Start the workers."""
        self._pool.start()

    def close(self) -> None:
        """End the workers; the next build starts new ones."""
        self._pool.close()


def build_and_export(
    mod: IRModule,
    target: Target,
    params: Mapping[str, Any] | None,
    f_build: BuildFunction | None,
    f_export: ExportFunction | None,
    folder: str,
    split: CoreSplit | None = None,
    beside_measuring: bool = False,
    allow_externs: frozenset[str] = frozenset(),
) -> str:
    """Build a program and return the path of the artifact; this is a worker's job.

    Without `f_export` it is an object file in `folder`. The process keeps off the core that
    measures if somebody measures meanwhile.
    """
    if split is not None:
        split.release()
        if beside_measuring:
            split.bind_building(target)
    mod = with_separate_layout_rewrite(mod)
    module = None if f_build is None else f_build(mod, target, params)
    data = codegen.compile_object(mod, target) if module is None else module.object_code
    check_externs(data, allow_externs)
    if f_export is None:
        return export_object(data, folder)
    return f_export(codegen.Module.from_object(data) if module is None else module)


def export_object(data: bytes, folder: str) -> str:
    """Write a fresh object file into a directory and return its path."""
    handle, path = tempfile.mkstemp(suffix=".o", dir=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    return path


def _finished(future: PoolFuture[Outcome]) -> BuilderResult:
    outcome = future.result()
    if outcome.status == "value":
        return BuilderResult(artifact_path=outcome.value, seconds=outcome.seconds)
    text = outcome.value
    if outcome.status == "error":
        text = f"An exception occurred\n{text}"
    else:
        text = f"{outcome.status.capitalize()}, {text}"
    return BuilderResult(
        error_msg=f"LocalBuilder: {text}", seconds=outcome.seconds, ending=outcome.status
    )
