"""Making and compiling the configurations that are measured."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import codegen
from codegen import Target
from search.arg_info import ArgInfo
from search.autotvm.errors import InstantiationError, TemplateError
from search.autotvm.measure.measurement import BuildResult, MeasureInput, MeasureResult
from search.builder import Builder as ProgramBuilder
from search.builder import BuilderFuture, BuilderInput, BuilderResult
from search.builder import LocalBuilder as BuilderProcesses
from search.errors import TuningError
from search.records.measure_error_no import MeasureErrorNo
from tensorir.function import IRModule

if TYPE_CHECKING:
    from search.autotvm.task import Task

logger = logging.getLogger("autotvm")

Built: TypeAlias = "BuildResult | MeasureResult"
"""A build, or the result of a configuration that cannot be built."""
BuildFunction: TypeAlias = Callable[..., codegen.Module]


def build_with(
    build_func: str | BuildFunction, kwargs: Mapping[str, Any], error: type[TuningError]
) -> Callable[..., codegen.Module] | None:
    """Return the `f_build` of builder processes that calls a function; None where that is usual.

    `build_func` is `"default"` or a function; `error` is raised for anything else.
    """
    if build_func == "default":
        if not kwargs:
            return None
        build_func = codegen.build
    if not callable(build_func):
        raise error(f"build_func is 'default' or a function of (mod, target), got {build_func!r}")
    return partial(_build, build_func, dict(kwargs))


def _build(
    function: BuildFunction, kwargs: Mapping[str, Any], mod: IRModule, target: Target, _: Any
) -> codegen.Module:
    return function(mod, target, **kwargs)


class Builder(ABC):
    """Turns configurations into something that a runner can load."""

    n_parallel: int = 1
    """The number of configurations that are built at once."""
    build_kwargs: Mapping[str, Any]

    def set_task(self, task: Task, build_kwargs: Mapping[str, Any] | None = None) -> None:
        """Take note of what is built next, and of what the runner wants of builds."""
        self.task = task
        self.build_kwargs = build_kwargs or {}

    @abstractmethod
    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Built]:
        """Build configurations; one that cannot be built costs nothing but its own result."""

    def start(
        self, measure_inputs: Sequence[MeasureInput], beside_measuring: bool = False
    ) -> Iterator[Built]:
        """Yield the results of `build`, each as soon as it is there, where a builder can.

        `beside_measuring`: others are measured meanwhile, and not to be disturbed.
        """
        return iter(self.build(measure_inputs))

    def clean_up(self) -> None:
        """Give up what is still being built, and delete what was."""

    def close(self) -> None:
        """Give back what the builder holds; it can be used again."""


class TemplateBuilder(Builder):
    """Runs templates in this process, and has their programs built by a builder of the search."""

    def __init__(self, programs: ProgramBuilder, n_parallel: int = 1) -> None:
        self.programs = programs
        self.n_parallel = n_parallel

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Built]:
        """Build all; what is built is there until `clean_up`."""
        return list(self.start(measure_inputs))

    def start(
        self, measure_inputs: Sequence[MeasureInput], beside_measuring: bool = False
    ) -> Iterator[Built]:
        """Start to build all, and yield each when it is built, in the order of the inputs."""
        self.programs.beside_measuring = beside_measuring
        started = [self._started(inp) for inp in measure_inputs]
        return (wait() for wait in started)

    def _started(self, inp: MeasureInput) -> Callable[[], Built]:
        """Start the build of a configuration; return what waits for it."""
        began = time.monotonic()
        try:
            mod = inp.task.instantiate(inp.config).mod
            args = [info.as_json() for info in ArgInfo.from_entry_func(mod)]
        except InstantiationError as error:
            error_no, text = MeasureErrorNo.INSTANTIATION_ERROR, str(error)
        except TuningError:
            raise
        except Exception as error:  # noqa: BLE001  whatever a template raises for some values
            error_no = MeasureErrorNo.COMPILE_HOST
            text = f"the template fails: {type(error).__name__}: {error}"
        else:
            (future,) = self.programs.start([BuilderInput(mod, inp.target)])
            return partial(_built, args, future, time.monotonic() - began)
        failure = MeasureResult.failed(error_no, text, time.monotonic() - began)
        return lambda: failure

    def clean_up(self) -> None:
        """Give up what is still being built, and delete what was."""
        self.programs.clean_up()

    def close(self) -> None:
        """Give back what the builder holds; it can be used again."""
        self.programs.close()


class LocalBuilder(TemplateBuilder):
    """Builds in `n_parallel` processes of this machine (None: one for each logical core).

    A template runs in this process; what compiles its program is another one, which is killed after
    `timeout` seconds. `build_func(mod, target, **build_kwargs)` compiles in place of
    `codegen.build`; it may be a function of a notebook or a script. What `build_kwargs` says counts
    before what the runner wants of builds, which is warned of. `do_fork` is accepted and
    unused: workers are always processes of their own. `runtime` is None. `allow_externs` names the
    C functions that programs may call beside mathematical ones.
    """

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: Mapping[str, Any] | None = None,
        build_func: str | BuildFunction = "default",
        do_fork: bool = False,
        runtime: None = None,
        *,
        allow_externs: Collection[str] = (),
    ) -> None:
        if runtime is not None:
            raise TemplateError(f"there are no runtimes to choose from, got {runtime!r}")
        self.timeout = timeout
        self._function = build_func
        self._own_kwargs = self.build_kwargs = dict(build_kwargs or {})
        own = build_with(build_func, self.build_kwargs, TemplateError)
        self._processes = BuilderProcesses(
            max_workers=n_parallel, timeout_sec=timeout, f_build=own, allow_externs=allow_externs
        )
        super().__init__(self._processes, self._processes.max_workers)

    @property
    def builds_as_usual(self) -> bool:
        """True if it is `codegen.build` that compiles, without options."""
        return self._function == "default" and not self._own_kwargs

    def set_task(self, task: Task, build_kwargs: Mapping[str, Any] | None = None) -> None:
        """Take note of what is built next, and of what the runner wants of builds."""
        wanted = dict(build_kwargs or {})
        for name in sorted(wanted.keys() & self._own_kwargs):
            logger.warning(
                "the runner wants builds with %s=%r, the builder builds with %r",
                *(name, wanted[name], self._own_kwargs[name]),
            )
        super().set_task(task, {**wanted, **self._own_kwargs})

    def start(
        self, measure_inputs: Sequence[MeasureInput], beside_measuring: bool = False
    ) -> Iterator[Built]:
        """Start to build all, and yield each when it is built, in the order of the inputs."""
        self._processes.f_build = build_with(self._function, self.build_kwargs, TemplateError)
        return super().start(measure_inputs, beside_measuring)


def _built(args: list[Any], future: BuilderFuture, spent: float) -> Built:
    result: BuilderResult = future.result()
    seconds = spent + result.seconds
    if result.artifact_path is not None:
        return BuildResult(result.artifact_path, args, None, seconds)
    return MeasureResult.failed(MeasureErrorNo.of_build(result), result.error_msg or "", seconds)
