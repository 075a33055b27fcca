"""The base class of builders, the builder in local processes, and the files that it makes.

A program of unknown origin, in a file or a database, could do anything by
`T.call_extern("int32", "system", ...)`. So measured programs may call C functions of known names
only (`check_externs`). This is not a sandbox: a program reads and writes memory as well.
"""

from __future__ import annotations

import logging
import os
import shutil
import statistics
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import codegen
from codegen import Target
from codegen.kept_files import check_private
from codegen.signature import read_object_code
from codegen.target import host
from codegen.worker_pool import Ending, Outcome, WorkerPool
from search.builder.core_split import CoreSplit, core_split
from search.errors import TuningError
from search.kinds import Registry
from search.lines import take_lock
from search.runner.measure_candidate import with_separate_layout_rewrite
from tensorir.function import IRModule

logger = logging.getLogger("tensorir.search")

_HOPELESS: Final = 20
_LEAST_LIMIT: Final = 5.0
"""The minimum time limit of a build in seconds."""

BuildFunction = Callable[[IRModule, Target, Mapping[str, Any] | None], codegen.Module]
ExportFunction = Callable[[codegen.Module], str]


@dataclass(frozen=True, eq=False)
class BuilderInput:
    """A program to build: the module, the target, and constant parameters by name if any."""

    mod: IRModule
    target: Target
    params: Mapping[str, Any] | None = None
    allow_externs: frozenset[str] = frozenset()
    """C functions that the program may call, in addition to the builder's `allow_externs`."""


@dataclass(frozen=True)
class BuilderResult:
    """The path of the artifact, or the error; exactly one of the two is set."""

    artifact_path: str | None = None
    error_msg: str | None = None
    seconds: float = 0.0
    """The wall time of the build."""
    ending: Ending = "value"
    """The outcome of the job in the worker process."""


BuilderFuture: TypeAlias = Future[BuilderResult]
"""The result of a build, which may still run."""


class Builder(ABC):
    """Turns programs into artifacts that a runner can load."""

    kinds: ClassVar[Registry[Builder]] = Registry(
        "builder", {"dask": "search.runner.distributed.dask_runner"}
    )

    beside_measuring: bool = True
    """True if builds must leave a core to programs that are measured at the same time."""

    @staticmethod
    def create(kind: str | type[Builder] | Builder = "local", *args: Any, **kwargs: Any) -> Builder:
        """Return a builder: `"local"`, or `"dask"` for a `DaskRunner`."""
        return Builder.kinds.part(kind, *args, **kwargs)

    @abstractmethod
    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """Build programs. A failed program has a result, and does not affect the others."""

    def start(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderFuture]:
        """Start to build programs in this order. This default builds all of them first."""
        futures = []
        for result in self.build(build_inputs):
            futures.append(BuilderFuture())
            futures[-1].set_result(result)
        return futures

    def remove_artifact(self, path: str) -> None:
        """Delete the file of an artifact of this builder."""
        Path(path).unlink(missing_ok=True)

    def clean_up(self) -> None:
        """Delete the remaining files of this builder in the temporary directory."""

    def warm_up(self) -> None:
        """Start worker processes and the like, without waiting for them."""

    def close(self) -> None:
        """Free the resources of the builder; it can be used again."""


PyBuilder = Builder
"""The name of the base class for user classes in TVM."""


@Builder.kinds.register("local")
class LocalBuilder(Builder):
    """Builds in up to `max_workers` processes (default: the logical cores).

    A build is killed after `timeout_sec`, or earlier, after 5 seconds and 20 times the median of
    the successful builds. `f_build(mod, target, params)` returns a `codegen.Module` of the program,
    in which the packing of a weight is a separate function, and `f_export(module)` the path of the
    file that it wrote. Each worker calls `initializer` once. They may be functions of a notebook or
    a script.

    A program may call only mathematical C functions (`MATHEMATICAL`) and the functions
    named in `allow_externs`; other programs with `T.call_extern` are not built.
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
        """The division of the cores; None if builds use the cores on which this process does not
        measure.
        """
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
        """Build each program to an object file, which exists until `clean_up`."""
        futures = self._start_builds(build_inputs)
        try:
            return [future.result() for future in futures]
        except BaseException:
            self._pool.cancel()
            raise

    def start(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderFuture]:
        """Start to build in this order and return at once; see `build`.

        If a subclass overrides `build`, that method builds all programs first.
        """
        if type(self).build is not LocalBuilder.build:
            return super().start(build_inputs)
        return self._start_builds(build_inputs)

    def _start_builds(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderFuture]:
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
            futures.append(BuilderFuture())
            outcome = self._pool.submit((build_and_export, args), limit)
            outcome.add_done_callback(partial(self._finish, futures[-1]))
        return futures

    def _finish(self, future: BuilderFuture, outcome: Future[Outcome]) -> None:
        error = outcome.exception()
        if error is not None:
            future.set_exception(error)
            return
        found = outcome.result()
        if found.status == "value":
            self._seconds.append(found.seconds)
            future.set_result(BuilderResult(found.value, seconds=found.seconds))
            return
        text = found.failure("LocalBuilder", "the build")
        future.set_result(BuilderResult(None, text, found.seconds, found.status))

    def _limit(self) -> float:
        """Return the time limit of a build in seconds."""
        if not self._seconds:
            return self.timeout_sec
        usual = statistics.median(self._seconds)
        return min(self.timeout_sec, max(_LEAST_LIMIT, _HOPELESS * usual))

    def clean_up(self) -> None:
        """Cancel running builds and delete the artifacts, unless `f_export` put them elsewhere."""
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
    """Build a program in a worker process and return the path of the artifact.

    Without `f_export` the artifact is an object file in `folder`. With `beside_measuring` the
    process does not use the core that measures.
    """
    if split is not None:
        split.release()
        if beside_measuring:
            split.bind_building(target)
    mod = with_separate_layout_rewrite(mod)
    module = None if f_build is None else f_build(mod, target, params)
    data = codegen.compile_object(mod, target) if module is None else module.object_code
    check_externs(data, allow_externs)
    if f_export is not None:
        return f_export(codegen.Module.from_object(data) if module is None else module)
    handle, path = tempfile.mkstemp(suffix=".o", dir=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    return path


_OF_DOUBLES: Final = (  # the float32 versions end with an f
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 "
    "fabs fdim floor fma fmax fmin fmod hypot ldexp lgamma log log10 log1p log2 nearbyint "
    "nextafter pow remainder rint round sin sinh sqrt tan tanh tgamma trunc"
)
MATHEMATICAL: Final = frozenset(
    name + suffix for name in _OF_DOUBLES.split() for suffix in ("", "f")
)
"""The functions of C's math.h whose arguments are all numbers."""


def checked_names(names: Collection[str]) -> frozenset[str]:
    """Return `allow_externs` as a set; TuningError if it is a single string."""
    if isinstance(names, str):
        raise TuningError(f"allow_externs is a collection of C function names, as in ({names!r},)")
    return frozenset(names)


def check_externs(object_code: bytes, allowed: frozenset[str]) -> None:
    """Raise TuningError if compiled code calls a C function outside of math.h and `allowed`."""
    info, _ = read_object_code(object_code)
    for name in sorted({*info.externs} - MATHEMATICAL - allowed):
        raise TuningError(
            f"the program calls the C function {name!r}, but measured programs may call only "
            "mathematical ones; if you trust it, allow it by LocalBuilder or DaskRunner(..., "
            f"allow_externs=({name!r},)), or by --allow-extern {name} of `tensorir tune` and "
            "`tensorir worker`"
        )


_PREFIX: Final = "tune_artifacts_"
_LOCK: Final = "in_use"


class ArtifactDirectory:
    """A directory in the temporary directory that is removed with its owner.

    It is removed by `remove`, or when the owner is collected or exits. An owner that is killed
    leaves the directory without the lock that it held on a file in it. The next owner finds it in
    this state and removes it.
    """

    def __init__(self) -> None:
        _remove_abandoned(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        unlocked = self.path / f"{_LOCK}.new"
        lock = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
        take_lock(lock)
        unlocked.rename(self.path / _LOCK)  # the file is never visible without its lock
        self.remove = weakref.finalize(self, _remove, self.path, lock)


def _remove(path: Path, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def _remove_abandoned(parent: Path) -> None:
    """Remove the directories of owners that were killed."""
    for lock_path in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            check_private(lock_path.parent)
            lock = os.open(lock_path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue  # its owner has just removed it, or it belongs to another user
        try:
            take_lock(lock, wait=False)
        except BlockingIOError:
            os.close(lock)
        else:
            _remove(lock_path.parent, lock)
