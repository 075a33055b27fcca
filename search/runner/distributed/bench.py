"""The builds and measurements of a machine that answers requests.

Both happen in the child processes of a `LocalBuilder` and of `LocalRunner`s, with hard limits that
begin when a process has the work: a candidate that crashes, hangs or exhausts the memory affects no
other candidate. While a candidate for a target of one core is measured, the next ones are built on
other cores; candidates for other targets are measured alone.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Final, NamedTuple, Protocol

from codegen import Target, why_not_here
from search.arg_info import ArgInfo
from search.builder import BuilderInput, BuilderResult, LocalBuilder
from search.builder.core_split import core_splits
from search.errors import TuningError
from search.runner.distributed.connection import Machine
from search.runner.distributed.messages import MeasureAnswer, MeasureRequest, Status
from search.runner.local_runner import LocalRunner
from search.runner.runner import RunnerInput, RunnerResult
from search.runner.time_call import EvaluatorConfig, energy_refusal
from tensorir import parse, workloads
from tensorir.errors import TensorIRError
from tensorir.function import IRModule

logger = logging.getLogger("tensorir.search")

_KEPT_REFERENCES: Final = 16
_LEAST_SPACE: Final = 64 << 20
"""The minimum number of free bytes in the folder of objects."""
_PACE_SECONDS: Final = 30.0
"""The seconds after which the reference kernel is timed again."""
_PACE_SIZE: Final = 96
_PACE_TARGET: Final = Target("llvm -num-cores=1")
_PACE_CONFIG: Final = EvaluatorConfig(number=1, repeat=3, min_repeat_ms=5)


class Bench(Protocol):
    """Answers requests: texts of JSON and packed arrays, see `messages` next to this module."""

    machine: Machine

    def answer(self, text: str, worker: str = "", arrays: bytes = b"") -> str:
        """Return the answer of a worker at an address to a request; nothing is raised."""

    def start(self) -> None:
        """Start worker processes and the like, without waiting for them."""

    def close(self) -> None:
        """Free the resources."""


class _Reference(NamedTuple):
    """The build of an unscheduled program, and the best times of its candidates, by searches."""

    path: str
    best: dict[str, float]


class LocalBench:
    """Builds and measures on this machine, `measuring` candidates at the same time.

    `name` is the name of the worker, for answers; `allow_externs` is as for a `LocalBuilder`.
    Raises TuningError if no core would be left for builds.
    """

    def __init__(
        self, measuring: int = 1, name: str = "", allow_externs: Collection[str] = ()
    ) -> None:
        splits = core_splits(measuring)
        if len(splits) < measuring > 1:
            raise TuningError(
                f"this machine can measure on {max(1, len(splits))} core(s) at the same time, not "
                f"on {measuring}: one has to be left that builds, and other searches may have some"
            )
        there = Machine.this()
        builders = max(1, there.cores - measuring)
        self.machine = replace(
            there, measuring=measuring, at_once=measuring + min(builders, measuring)
        )
        self.name = name
        self._builder = LocalBuilder(max_workers=builders, allow_externs=allow_externs)
        self._builder.split = splits[0] if splits else None
        self._runners = [LocalRunner(split=split) for split in splits] or [LocalRunner()]
        self._idle: queue.SimpleQueue[LocalRunner] = queue.SimpleQueue()
        for runner in self._runners:
            self._idle.put(runner)
        self._turn = threading.Lock()
        self._slots = threading.Semaphore(self.machine.at_once)
        self._lock = threading.Lock()
        self._references: dict[str, _Reference] = {}
        self._pace: float | None = None
        self._paced_at = -_PACE_SECONDS

    def start(self) -> None:
        """Start the processes that build and measure, and leave the cores that measure to them."""
        if self._builder.split is not None:
            os.sched_setaffinity(0, self._builder.split.building)
        self._builder.warm_up()
        for runner in self._runners:
            runner.warm_up()

    def close(self) -> None:
        """End the processes and delete their files."""
        self._builder.clean_up()
        self._builder.close()
        for runner in self._runners:
            runner.close()

    def answer(self, text: str, worker: str = "", arrays: bytes = b"") -> str:
        """Return the answer of a worker at an address to a request; nothing is raised."""
        status: Status
        try:
            status, result = self._answer(MeasureRequest.from_text(text, arrays))
        except (TensorIRError, OSError) as error:
            status, result = "unable", RunnerResult(error_msg=str(error))
        except Exception as error:
            logger.exception("A request could not be answered")
            status, result = "unable", RunnerResult(error_msg=f"{type(error).__name__}: {error}")
        where = f"{self.machine.host} {self.name}".strip()
        answer = MeasureAnswer(status, replace(result, machine=where), worker, self._pace)
        return answer.as_text()

    def _answer(self, request: MeasureRequest) -> tuple[Status, RunnerResult]:
        reason = why_not_here(request.target) or _full_disk_reason()
        if reason is None and request.evaluator.energy:
            reason = energy_refusal()
        if reason is not None:
            return "unable", RunnerResult(error_msg=reason)
        build = self._build(request, request.program)
        if build.artifact_path is None:
            result = RunnerResult(error_msg=build.error_msg, stage="build", ending=build.ending)
            return "done", replace(result, build_seconds=build.seconds)
        try:
            result = self._measure(request, build.artifact_path)
        except TuningError as error:
            return "program", RunnerResult(error_msg=str(error))
        finally:
            self._builder.remove_artifact(build.artifact_path)
        return "done", replace(result, build_seconds=build.seconds)

    @contextlib.contextmanager
    def _slot(self, *, alone: bool = False) -> Iterator[None]:
        """Acquire one of the slots for requests; with `alone`, acquire all slots.

        While a request waits for all slots, no other request gets one: otherwise it would wait
        forever.
        """
        count = self.machine.at_once if alone else 1
        with self._turn:
            for _ in range(count):
                self._slots.acquire()
        try:
            yield
        finally:
            self._slots.release(count)

    def _build(self, request: MeasureRequest, program: str) -> BuilderResult:
        """Build a program of a request, next to other builds."""
        mod = parse(program)
        if not isinstance(mod, IRModule):
            raise TuningError("the program of the request is a function, not a module")
        with self._slot():
            self._builder.timeout_sec = request.build_seconds
            entry = BuilderInput(mod, request.target, allow_externs=request.allow_externs)
            return self._builder.build([entry])[0]

    def _reference(self, request: MeasureRequest) -> _Reference:
        """Return the unscheduled program of a request, built once for all of its candidates.

        Raises TuningError if it cannot be built.
        """
        if request.reference is None:
            return _Reference("", {})
        about = f"{request.target}\n{sorted(request.allow_externs)}\n{request.reference}"
        with self._lock:
            found = self._references.pop(about, None)
            if found is None:
                build = self._build(request, request.reference)
                if build.artifact_path is None:
                    raise TuningError(
                        f"the program cannot be built even unscheduled:\n{build.error_msg}"
                    )
                found = _Reference(build.artifact_path, {})
            self._references[about] = found  # the last entry is the most recent
            if len(self._references) > _KEPT_REFERENCES:
                oldest = self._references.pop(next(iter(self._references)))
                self._builder.remove_artifact(oldest.path)
            return found

    def _measure(self, request: MeasureRequest, path: str) -> RunnerResult:
        """Measure when the machine is free for it; the time limit begins then."""
        reference_path, best = self._reference(request)
        overlaps = not request.evaluator.energy and all(
            runner.may_overlap(request.target) for runner in self._runners
        )
        with self._slot(alone=not overlaps):
            runner = self._idle.get()
            try:
                self._time_reference_kernel(runner)
                runner.evaluator_config = request.evaluator
                runner.alloc_repeat = request.alloc_repeat
                runner.timeout_sec = request.run_seconds
                own = best.get(request.search) if request.search else None
                known = [s for s in (request.best_seconds, own) if s]
                entry = RunnerInput(
                    path,
                    request.target.kind,
                    request.args_info,
                    reference_path or None,
                    min(known, default=None),
                    request.facts,
                    request.input_data,
                )
                result = runner.measure(entry)
                if result.median_secs is not None and not result.stopped:
                    fastest = min(best.get(request.search, math.inf), result.median_secs)
                    best[request.search] = fastest
                return result
            finally:
                self._idle.put(runner)

    def _time_reference_kernel(self, runner: LocalRunner) -> None:
        """Time the reference kernel if its last time is too old: an unscheduled matmul."""
        if time.monotonic() - self._paced_at < _PACE_SECONDS:
            return
        self._paced_at = time.monotonic()
        if self._pace_program is not None:
            runner.evaluator_config, runner.alloc_repeat = _PACE_CONFIG, 1
            self._pace = runner.measure(self._pace_program).median_secs

    @cached_property
    def _pace_program(self) -> RunnerInput | None:
        func = workloads.create("GMM", n=_PACE_SIZE, m=_PACE_SIZE, k=_PACE_SIZE)
        mod = IRModule({"main": func})
        build = self._builder.build([BuilderInput(mod, _PACE_TARGET)])[0]
        if build.artifact_path is None:
            return None
        return RunnerInput(build.artifact_path, _PACE_TARGET.kind, ArgInfo.from_entry_func(mod))


def _full_disk_reason() -> str | None:
    """Return a sentence if the disk for objects is full, else None."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if free >= _LEAST_SPACE:
        return None
    return f"there are {free >> 20} MiB left in {folder}; free some space there"
