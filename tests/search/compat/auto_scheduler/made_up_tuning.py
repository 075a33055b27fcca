"""Tuning whose builder and runner make things up, so that it takes no time and can be repeated."""

from pathlib import Path

from search.compat.auto_scheduler import TuningOptions
from search.runner import Runner, RunnerFuture, RunnerResult
from tests.search.made_up_runs import ScriptFiles, TimesOfScripts

TARGET = "llvm -num-cores=1"


class Milliseconds(Runner):
    """Gives the measured programs these times, one after the other; the last one to all that follow."""

    def __init__(self, *times):
        self.times = times
        self.count = 0

    def run(self, runner_inputs):
        return [RunnerFuture.ready(self._next()) for _ in runner_inputs]

    def _next(self):
        time = self.times[min(self.count, len(self.times) - 1)]
        self.count += 1
        return RunnerResult(run_secs=(time * 1e-3,), seconds=0.25)


def made_up(folder: Path, trials: int, *callbacks, runner=None, **options):
    """Options for so many trials, whose times follow from the text of each program."""
    return TuningOptions(
        trials,
        verbose=0,
        builder=ScriptFiles(folder / "artifacts"),
        runner=runner or TimesOfScripts(),
        measure_callbacks=list(callbacks),
        **options,
    )
