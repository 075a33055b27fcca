"""Builders and runners that make things up, so that a run takes no time and can be repeated."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import search as ms
from schedule import Schedule
from search.builder import Builder, BuilderFuture, BuilderInput, BuilderResult
from search.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from tensorir.function import IRModule
from tests.search.programs import Matmul, split_all

TARGET = "llvm -num-cores=1"
UNSCHEDULED = re.compile(rb"for \w, \w, \w in T\.grid\((\d+), \1, \1\)")
SLOW = RunnerResult((1.0,))


class ScriptFiles(Builder):
    """Builds a file with the script of the program, which takes 2 seconds as it says."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.count = 0

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [self._built(entry) for entry in build_inputs]

    def _built(self, entry: BuilderInput) -> BuilderResult:
        path = self.folder / str(self.count)
        self.count += 1
        path.write_text(entry.mod.script())
        return BuilderResult(str(path), seconds=2.0)


class LateFiles(ScriptFiles):
    """Builds when it is asked for a result, not before."""

    def start(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderFuture]:
        return [self._late(entry) for entry in build_inputs]

    def _late(self, entry: BuilderInput) -> BuilderFuture:
        return LateFuture(partial(self._built, entry))


class LateFuture(BuilderFuture):
    def __init__(self, build: Callable[[], BuilderResult]) -> None:
        super().__init__()
        self.build = build

    def result(self, timeout: float | None = None) -> BuilderResult:
        if not self.done():
            self.set_result(self.build())
        return super().result()


class TimesOfScripts(Runner):
    """Gives a program the time that follows from its text, or what `result_of` says of its place.

    `log` gets the artifacts in the order in which they were measured. A product of square
    matrices as it was given has the result `unscheduled`, and no place.
    """

    def __init__(
        self,
        result_of: Callable[[int], RunnerResult | None] = lambda _: None,
        *,
        overlap: bool = False,
        unscheduled: RunnerResult = SLOW,
    ) -> None:
        self.unscheduled = unscheduled
        self.result_of = result_of
        self.overlap = overlap
        self.log: list[str] = []

    def may_overlap(self, target: object) -> bool:
        return self.overlap

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        return [RunnerFuture.ready(self._result(entry)) for entry in runner_inputs]

    def _result(self, entry: RunnerInput) -> RunnerResult:
        text = Path(entry.artifact_path).read_bytes()
        if UNSCHEDULED.search(text):
            return self.unscheduled
        made_up = self.result_of(len(self.log))
        self.log.append(Path(entry.artifact_path).name)
        return made_up or RunnerResult(((1 + zlib.crc32(text) % 1000) * 1e-6,), seconds=3.0)


def task(
    name: str = "main",
    *,
    target: str = TARGET,
    seed: int = 1,
    strategy: str | ms.SearchStrategy = "evolutionary",
    program: IRModule = Matmul,
    space: Callable[[Schedule], object] = split_all,
) -> ms.TuneContext:
    return ms.TuneContext(
        program,
        target=target,
        space_generator=space,
        search_strategy=strategy,
        task_name=name,
        rand_state=seed,
    )
