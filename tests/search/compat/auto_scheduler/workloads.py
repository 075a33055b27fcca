"""Registered workloads, their records, and options with a simulated builder and runner."""

from pathlib import Path

from schedule import Schedule
from search import auto_scheduler
from search.runner import Runner, RunnerFuture, RunnerResult
from tensorir import T, te
from tests.search.made_up_runs import ScriptFiles, TimesOfScripts

TARGET = "llvm -num-cores=1"


@auto_scheduler.register_workload("demo_mm")
def demo_mm(n, m, k):
    """Tensors: A (n, k) times B (k, m) is C (n, m)."""
    A = te.placeholder((n, k), name="A")
    B = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="r")
    return [A, B, te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")]


@auto_scheduler.register_workload("demo_packed_mm")
def demo_packed_mm(n, m, k):
    """`demo_mm` whose B may have any layout."""
    A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="r")
    free = {"layout_free_placeholders": [B]}
    product = te.compute(
        (n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C", attrs=free
    )
    return [A, B, product]


@auto_scheduler.register_workload("demo_add")
def demo_add(n):
    """A function in script."""

    @T.prim_func
    def add(A: T.Buffer((n,)), B: T.Buffer((n,))):
        for i in range(n):
            with T.block("B"):
                v = T.axis.spatial(n, i)
                B[v] = A[v] + T.float32(1.0)

    return add


LINE = (
    '{"i": [["[\\"demo_mm\\", 64, 32, 96]", "llvm -keys=cpu", [4, 64, 64, 0, 0, 0, 0, 0], "", 1, '
    '[]], [[], [["SP", 2, 0, 64, [4, 1, 8], 1], ["SP", 2, 4, 32, [1, 2, 8], 1], ["SP", 2, 8, 96, '
    '[4], 1], ["RE", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]], ["FU", 2, [0, 1]], ["AN", 2, 0, 3], '
    '["PR", 2, 0, "auto_unroll_max_step$64"], ["AN", 2, 8, 2]]]], "r": [[0.00012], 0, 0.4, '
    '1712345678], "v": "v0.6"}'
)
"""A line as Ansor writes it."""


def task_of(name, *args, target="llvm -num-cores=4", **options):
    return auto_scheduler.SearchTask(name, args, target=target, **options)


def tiled(task, block, lanes, parallel=True):
    """A schedule of a task: its outer loop in parts of `lanes`, in parallel."""
    sch = Schedule(task.mod)
    outer, _ = sch.split(sch.get_loops(sch.get_block(block))[0], [None, lanes])
    if parallel:
        sch.parallel(outer)
    return sch


def measured(task, block, lanes, *costs, error=0):
    """An input and the result of its measurement."""
    result = auto_scheduler.MeasureResult(costs, error, "", 0.5, 1)
    return auto_scheduler.MeasureInput(task, tiled(task, block, lanes)), result


def write(path, *records):
    """Append measurements to a log."""
    auto_scheduler.save_records(path, [r[0] for r in records], [r[1] for r in records])
    return path


class Milliseconds(Runner):
    """Returns these times in order, and the last one for all later programs."""

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
    """Return options for some trials, whose times depend on the text of each program."""
    return auto_scheduler.TuningOptions(
        trials,
        verbose=0,
        builder=ScriptFiles(folder / "artifacts"),
        runner=runner or TimesOfScripts(),
        measure_callbacks=list(callbacks),
        **options,
    )
