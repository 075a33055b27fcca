"""What a machine measures with: it builds and times the candidates of requests.

Both happen in the child processes of a `LocalBuilder` and of `LocalRunner`s, with hard limits that
begin when a process has the work: a candidate that crashes, hangs or eats the memory costs only
itself, and the bench goes on. While one is measured the next are built, on other cores where the
target has one core; those of other targets are measured alone.
"""

from __future__ import annotations

import hashlib
import logging
import os
import queue
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from numpy.typing import NDArray

from codegen import Target, why_not_here
from search.arg_info import ArgInfo
from search.builder import BuilderInput, BuilderResult, LocalBuilder
from search.distributed.machine import Machine
from search.distributed.messages import MeasureAnswer, MeasureRequest
from search.distributed.turns import Turns
from search.errors import TuningError
from search.runner import energy
from search.runner.runner import LocalRunner, RunnerInput, RunnerResult
from search.runner.time_call import EvaluatorConfig
from search.workers.core_split import core_splits
from tensorir import parse, workloads
from tensorir.errors import TensorIRError
from tensorir.function import IRModule

logger = logging.getLogger("tensorir.search")

_KEPT_BUILDS: Final = 64
_KEPT_INPUTS: Final = 4
_MOST_REFERENCES: Final = 16
_LEAST_SPACE: Final = 64 << 20
"""Bytes that have to be free where objects are written."""
_PACE_SECONDS: Final = 30.0
"""How long the time of the reference kernel holds for the machine."""
_PACE_SIZE: Final = 96
_PACE_CONFIG: Final = EvaluatorConfig(number=1, min_repeat_ms=5)


class Bench(Protocol):
    """Whatever answers requests; texts of JSON, see `search.distributed.messages`."""

    machine: Machine

    def answer(self, text: str, worker: str = "") -> str:
        """Return the answer of a worker at an address to a request; nothing is raised."""

    def warm_up(self) -> None:
        """Start what takes a while, without waiting for it."""

    def close(self) -> None:
        """Free what there is."""


@dataclass(eq=False)
class _Slot:
    """A core to measure on, and how fast it was."""

    runner: LocalRunner
    pace: float | None = None
    pace_at: float = -_PACE_SECONDS


class LocalBench:
    """Builds and measures on this machine, `measuring` candidates at the same time.

    `name` is that of the worker, for answers; `allow_externs` are those of a `LocalBuilder`.
    TuningError if the machine has no core that builds
    beside so many that measure.
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
        self._slots: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        self._all: list[_Slot] = []
        for number in range(measuring):
            slot = _Slot(LocalRunner(split=splits[number] if splits else None))
            self._all.append(slot)
            self._slots.put(slot)
        self._turns = Turns()
        self._lock = threading.Lock()
        self._builds: OrderedDict[str, Future[BuilderResult]] = OrderedDict()
        self._inputs: OrderedDict[str, Mapping[int, NDArray[Any]]] = OrderedDict()

    def keep_off(self) -> None:
        """Have this process, and what it starts, compute where nothing is measured."""
        if self._builder.split is not None:
            os.sched_setaffinity(0, self._builder.split.building)

    def warm_up(self) -> None:
        """Start the processes that build and measure."""
        self._builder.warm_up()
        for slot in self._all:
            slot.runner.warm_up()

    def close(self) -> None:
        """End the processes and delete what they made."""
        self._builder.clean_up()
        self._builder.close()
        for slot in self._all:
            slot.runner.close()

    def answer(self, text: str, worker: str = "") -> str:
        """Return the answer of a worker at an address to a request; nothing is raised."""
        try:
            answer = self._answer(MeasureRequest.from_text(text))
        except (TensorIRError, OSError) as error:
            answer = MeasureAnswer("unable", error=str(error))
        except Exception as error:
            logger.exception("A request could not be answered")
            answer = MeasureAnswer("unable", error=f"{type(error).__name__}: {error}")
        where = f"{self.machine.host} {self.name}".strip()
        return replace(answer, machine=where, worker=worker, kind=self.machine.kind).as_text()

    def _answer(self, request: MeasureRequest) -> MeasureAnswer:
        reason = why_not_here(request.target) or _why_no_space()
        if reason is None and request.evaluator.energy:
            reason = energy.why_not()
        if reason is not None:
            return MeasureAnswer("unable", error=reason)
        build = self._built(request, request.program)
        if build.artifact_path is None:
            return MeasureAnswer(
                "failed",
                error=build.error_msg,
                stage="build",
                build_seconds=build.seconds,
                ending=build.ending,
            )
        reference = None
        if request.reference is not None:
            found = self._built(request, request.reference)
            if found.artifact_path is None:
                return MeasureAnswer(
                    "program",
                    error=f"the program cannot be built even unscheduled:\n{found.error_msg}",
                )
            reference = found.artifact_path
        entry = RunnerInput(
            build.artifact_path,
            request.target.kind,
            request.args_info,
            reference,
            request.best_seconds,
            request.facts,
            self._same_arrays(request.input_data),
        )
        try:
            result, pace = self._measured(request, entry)
        except TuningError as error:
            return MeasureAnswer("program", error=str(error))
        return MeasureAnswer(
            "measured" if result.error_msg is None else "failed",
            run_secs=result.run_secs or (),
            error=result.error_msg,
            stage=result.stage,
            stopped=result.stopped,
            build_seconds=build.seconds,
            seconds=result.seconds,
            ending=result.ending,
            joules=result.joules,
            pace=pace,
        )

    # ------------------------------------------------------------------------------------- building

    def _built(self, request: MeasureRequest, program: str) -> BuilderResult:
        """Return the build of a program of a request, perhaps of an earlier one."""
        target, externs = request.target, request.allow_externs
        key = hashlib.sha256(f"{target}\n{sorted(externs)}\n{program}".encode()).hexdigest()

        def build() -> BuilderResult:
            with self._turns.beside_others():
                self._builder.timeout_sec = request.build_seconds
                entry = BuilderInput(_module(program), target, allow_externs=externs)
                return self._builder.build([entry])[0]

        return self._once(key, build)

    def _once(self, key: str, build: Callable[[], BuilderResult]) -> BuilderResult:
        """Return the result of a build that is done once, also where several ask for it."""
        with self._lock:
            known = self._builds.get(key)
            found = self._builds[key] = known or Future()
            self._builds.move_to_end(key)
        if known is not None:
            return found.result()
        try:
            found.set_result(build())
        except BaseException as error:
            found.set_exception(error)
            raise
        finally:
            if found.exception() is not None or found.result().artifact_path is None:
                with self._lock:
                    self._builds.pop(key, None)
            self._forget_old_builds()
        return found.result()

    def _forget_old_builds(self) -> None:
        with self._lock:
            while len(self._builds) > _KEPT_BUILDS and next(iter(self._builds.values())).done():
                _, oldest = self._builds.popitem(last=False)
                path = oldest.result().artifact_path
                if path is not None:
                    self._builder.remove_artifact(path)

    def _same_arrays(self, arrays: Mapping[int, NDArray[Any]]) -> Mapping[int, NDArray[Any]]:
        """Return the mapping of an earlier request with the same arrays, if there was one.

        A runner knows arrays again by their identity.
        """
        if not arrays:
            return arrays
        digest = hashlib.sha256()
        for place, array in sorted(arrays.items()):
            digest.update(f"{place} {array.dtype} {array.shape}".encode())
            digest.update(array.tobytes())
        with self._lock:
            known = self._inputs.setdefault(digest.hexdigest(), arrays)
            while len(self._inputs) > _KEPT_INPUTS:
                self._inputs.popitem(last=False)
            return known

    # ------------------------------------------------------------------------------------ measuring

    def _measured(
        self, request: MeasureRequest, entry: RunnerInput
    ) -> tuple[RunnerResult, float | None]:
        """Measure when the machine is free for it; the time limit begins then."""
        overlaps = not request.evaluator.energy and all(
            slot.runner.may_overlap(request.target) for slot in self._all
        )
        with self._turns.beside_others() if overlaps else self._turns.alone():
            slot = self._slots.get()
            try:
                pace = self._pace(slot)
                self._prepare(slot, request)
                return slot.runner.measure(entry), pace
            finally:
                self._slots.put(slot)

    def _prepare(self, slot: _Slot, request: MeasureRequest) -> None:
        runner = slot.runner
        runner.evaluator_config = request.evaluator
        runner.alloc_repeat = request.alloc_repeat
        runner.timeout_sec = request.run_seconds
        if runner.known_references > _MOST_REFERENCES:
            runner.close()  # a worker lives long, and results of programs are large

    def _pace(self, slot: _Slot) -> float | None:
        """Return how long the reference kernel takes on a core, now or a few seconds ago.

        It is a product of matrices as it is written, built for the machine itself.
        """
        if time.monotonic() - slot.pace_at < _PACE_SECONDS:
            return slot.pace
        func = workloads.create("GMM", n=_PACE_SIZE, m=_PACE_SIZE, k=_PACE_SIZE)
        mod = IRModule({"main": func})
        target = Target("llvm -num-cores=1")
        build = self._once("pace", lambda: self._builder.build([BuilderInput(mod, target)])[0])
        if build.artifact_path is None:
            return None
        runner = slot.runner
        runner.evaluator_config, runner.alloc_repeat = _PACE_CONFIG, 1
        args = ArgInfo.from_entry_func(mod)
        result = runner.measure(RunnerInput(build.artifact_path, target.kind, args))
        slot.pace, slot.pace_at = result.median_secs, time.monotonic()
        return slot.pace


def _module(program: str) -> IRModule:
    try:
        mod = parse(program)
    except TensorIRError as error:
        raise TuningError(f"the program of the request cannot be read: {error}") from error
    if not isinstance(mod, IRModule):
        raise TuningError("the program of the request is a function, not a module")
    return mod


def _why_no_space() -> str | None:
    """Return a sentence if the disk is full, on which objects are written."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if free >= _LEAST_SPACE:
        return None
    return f"there are {free >> 20} MiB left in {folder}; free some space there"
