"""The best schedule of a task: the best candidates are measured again, in turns.

In a search each candidate is measured once, at its own time, and the best of many is often one that
was lucky. Measured in turns (A B C A B C ...), all of them meet the same machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from codegen.machine import core_share
from codegen.target import host
from search.builder import Builder, BuilderInput
from search.database.best_records import RIVAL, usable, with_schedules
from search.database.records import TuningRecord
from search.errors import TuningError, blamed_on
from search.measuring.objective import SECONDS, Objective
from search.reports.profiler import Profiler
from search.runner import Runner, RunnerInput, RunnerResult
from search.runner.program_facts import ProgramFacts
from search.runs.baselines import measure_baselines
from tensorir.nodes.stmt import For, ForKind
from tensorir.rewriting.visit import walk

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.database import Database
    from search.runs.tuning_run import TuningRun
    from search.task_scheduler import TaskRecord

_LEAST_ROUNDS: Final = 3
"""However little time there is: fewer say nothing of how certain the result is."""
_FEWEST_ROUNDS: Final = 5
_MOST_ROUNDS: Final = 15
_ENOUGH: Final = 0.95
_RESAMPLES: Final = 2000

_FIRST_TRIALS: Final = 16
"""The trials that a search begins with, at most: the default first, then samples."""
_EARLIER_RIVAL: Final = 2.0
"""The factor to the best time up to which one of them, or a baseline, may be as good: each was
measured once, at another time than the best."""
_MOST_COMPARISONS: Final = 4
"""The comparisons after which a winner is named although others are faster on record."""
_QUIET: Final = 0.9
"""The share of the time for which threads have a core on a machine without other work."""
_TIME_SLICE: Final = 4e-3
"""The seconds for which a system lets another program have a core."""
_SHARE: Final = 0.02
_LEAST_SECONDS: Final = 0.5
"""The time it may take: a share of the search, but enough for a few rounds with quick kernels."""


@dataclass(frozen=True)
class Confirmation:
    """A record that was measured again: what the rounds gave, and how sure its rank is."""

    record: TuningRecord
    """The record, with one time for each round in place of those that it had."""
    median: float
    """Seconds per call."""
    spread: float
    """Half of the distance between the quartiles of the rounds, in seconds."""
    rounds: int
    """How often it was measured again."""
    ratio: float
    """The factor to the fastest: 1 for the fastest, whose runner-up is the second.

    Compared are medians of times relative to their rounds: a round in which the whole machine was
    slow counts like the others.
    """
    certainty: float
    """Probability that it is the fastest of those that were measured.

    It is the share of 2,000 random choices of as many rounds, repetitions allowed (the bootstrap),
    in which that median is the least.
    """


def confirm_best(
    records: Sequence[TuningRecord],
    builder: Builder,
    runner: Runner,
    context: TuneContext,
    max_seconds: float = 10.0,
) -> list[Confirmation]:
    """Measure the records of a task again, in turns, and return them fastest first.

    There are 5 to 15 rounds: they end when one is the fastest with a certainty of 0.95, or, after
    three at the least, at the end of the round in which `max_seconds` are over. Records that cannot
    be built or run any more are left out. Results are not checked again. TuningError for a context
    without a target.
    """
    target = context.target
    if target is None:
        raise TuningError("the task has no target: pass one to TuneContext")
    objective = context.objective
    replayed = list(usable(records, TuningRecord.as_measure_candidate))
    records = [record for record, _ in replayed]
    candidates = [candidate for _, candidate in replayed]
    built = builder.build([BuilderInput(c.mod, target) for c in candidates])
    facts = None if context.mod is None else ProgramFacts.of(context.mod)
    contenders = {
        place: RunnerInput(
            result.artifact_path,
            target.kind,
            candidate.args_info,
            facts=facts,
            input_data=context.input_data,
        )
        for place, (candidate, result) in enumerate(zip(candidates, built, strict=True))
        if result.artifact_path is not None
    }
    try:
        rounds = _rounds(contenders, runner, max_seconds, objective)
    finally:
        for entry in contenders.values():
            builder.remove_artifact(entry.artifact_path)
    return _ranked({place: records[place] for place in rounds}, rounds, objective)


def summary(confirmations: Sequence[Confirmation]) -> str:
    """Return in a sentence which is the fastest and how sure that is; fastest come first."""
    if not confirmations:
        return "none of the best could be measured again"
    best, *others = confirmations
    time = f"{best.median * 1e6:.4g} us +- {best.spread * 1e6:.2g} us in {best.rounds} rounds"
    if not others:
        return f"the best, measured again, takes {time}"
    second = others[0].ratio / best.ratio
    text = (
        f"the best {len(confirmations)} were measured again in turns: the fastest takes {time}, "
        f"the second {second:.3f} times as long"
    )
    close = best.certainty < _ENOUGH
    return f"{text}, which is too close to tell which of the two is faster" if close else text


def _rounds(
    contenders: dict[int, RunnerInput], runner: Runner, max_seconds: float, objective: Objective
) -> dict[int, list[RunnerResult]]:
    """Return the results of each contender in each round, without those that failed in one."""
    rounds: dict[int, list[RunnerResult]] = {place: [] for place in contenders}
    runner = runner.in_one_place()
    end = time.monotonic() + max_seconds
    for number in range(1, _MOST_ROUNDS + 1):
        for place in list(rounds):
            (future,) = runner.run([contenders[place]])
            found = future.result()
            if found.median_secs is None:
                del rounds[place]
            else:
                rounds[place].append(found)
        if not rounds or (number >= _LEAST_ROUNDS and time.monotonic() >= end):
            break
        if number < _FEWEST_ROUNDS:
            continue
        if _certainties(_relative(_table(rounds, objective))).max() >= _ENOUGH:
            break
    return rounds


def _ranked(
    records: dict[int, TuningRecord], rounds: dict[int, list[RunnerResult]], objective: Objective
) -> list[Confirmation]:
    if not rounds:
        return []
    low, middle, high = np.quantile(_table(rounds, SECONDS), (0.25, 0.5, 0.75), axis=0)
    relative = _relative(_table(rounds, objective))
    kept = {place: _kept(results, objective) for place, results in rounds.items()}
    for place, results in rounds.items():
        objective.note(kept[place], results)
    ratios = np.median(relative, axis=0) / np.median(relative, axis=0).min()
    certainties = _certainties(relative)
    confirmations = [
        Confirmation(
            replace(records[place], run_secs=kept[place]),
            float(middle[column]),
            float(high[column] - low[column]) / 2,
            len(rounds[place]),
            float(ratios[column]),
            float(certainties[column]),
        )
        for column, place in enumerate(rounds)
    ]
    return sorted(confirmations, key=lambda c: c.ratio)


def _table(rounds: dict[int, list[RunnerResult]], objective: Objective) -> NDArray[np.float64]:
    """Return what the objective makes of the results, as an array of [rounds, contenders]."""
    values = [[objective.of_result(result) for result in of_one] for of_one in rounds.values()]
    return np.array(values).T


def _kept(rounds: Sequence[RunnerResult], objective: Objective) -> tuple[float, ...]:
    """Return the seconds to be stored: one of each round, or all for an objective of all."""
    every = [result.run_secs or () for result in rounds]
    if objective is SECONDS:
        return tuple(SECONDS.value(times) for times in every)
    return tuple(seconds for times in every for seconds in times)


def _relative(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the times relative to the middle one of their rounds."""
    return np.asarray(table / np.median(table, axis=1, keepdims=True))


def _certainties(relative: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each contender the probability that it is the fastest."""
    rounds, contenders = relative.shape
    chosen = np.random.default_rng(0).integers(0, rounds, (_RESAMPLES, rounds))
    fastest = np.median(relative[chosen], axis=1).argmin(axis=1)
    return np.bincount(fastest, minlength=contenders) / _RESAMPLES


def confirmation_seconds(run_seconds: float, tasks: int) -> float:
    """Return how long a run of so many seconds takes for naming the winners of all its tasks."""
    return max(_LEAST_SECONDS * tasks, _SHARE * run_seconds)


def name_winner(run: TuningRun, task: TaskRecord, max_seconds: float = math.inf) -> None:
    """Measure the best few records of a task again, and keep and log the results.

    It takes a small share of the time of the run, and no more than `max_seconds`, but for the
    least that says anything.

    With them is what the search began with, the default and the best of the first trials, and the
    baselines: the unscheduled program and serial forms of parallel schedules. The winner is not
    slower than these when measured side by side.

    The new times are committed as further records, which count in place of the old ones, that of
    the winner last, so that the database has it for the best. Being chosen for a low time makes the
    new ones higher on average, so that others, measured once, may come out ahead: those are then
    measured again beside the winner, until the best record is one that was. That takes longer than
    the time only where a baseline is ahead.
    """
    ahead = _best(run, task.ctx)
    if not ahead:
        return
    first = _earliest(run, task.ctx)[:1]
    measure_baselines(run, task, [*first, ahead[0]])
    usual = confirmation_seconds(run.seconds, len(run.tasks)) / len(run.tasks)
    end = time.monotonic() + min(max_seconds, usual)
    value = task.ctx.objective.of_record
    tried: set[bytes] = set()
    found: list[Confirmation] = []
    is_busy = _is_busy(run, task.ctx)
    ahead = _best(run, task.ctx)
    ahead += _to_beat(run, task, ahead, _TIME_SLICE * is_busy)
    left_out: list[TuningRecord] = []
    comparisons = 0
    while ahead:
        rivals = [*ahead, *_compared_again(found, task)]
        run.progress.phase(f"measuring the best {len(rivals)} again")
        left = max(0.0, end - time.monotonic())
        with Profiler.timeit("ConfirmBest"):
            found = confirm_best(rivals, run.builder, run.runner, task.ctx, left)
        if not found:
            return
        is_busy = is_busy or _is_busy(run, task.ctx)
        if is_busy:
            found = _without_luck(found)
        for confirmation in reversed(found):
            if first and confirmation.record.trace_key == first[0].trace_key:
                task.first_again = confirmation.median
            _keep(run, task, confirmation.record)
            if not confirmation.record.trace.insts:
                task.unscheduled = RunnerResult(tuple(confirmation.record.run_secs or ()))
        tried.update(record.trace_key for record in rivals)
        best = _best(run, task.ctx)
        ahead = [
            record
            for record in (*best, *_to_beat(run, task, [found[0].record, *best]))
            if record.trace_key not in tried and value(record) < value(found[0].record)
        ]
        comparisons += 1
        baselines = {record.trace_key for record in task.baselines}
        is_over = time.monotonic() >= end or comparisons >= _MOST_COMPARISONS
        left_out = [r for r in ahead if is_over and r.trace_key not in baselines]
        ahead = [r for r in ahead if r not in left_out]
    if found:
        task.winner = found[0]
        unsure = (
            f"; {len(left_out)} more may be faster: the time for measuring them again was over"
            if left_out
            else ""
        )
        run.logs.scheduler.info(
            'Task #%d "%s": %s%s',
            run.scheduler.tasks.index(task),
            task.ctx.task_name,
            summary(found),
            unsure,
        )
        if is_busy:
            run.logs.scheduler.info(
                'Task #%d "%s": the machine is busy with other programs, so that parallel loops '
                "wait for their threads now and then: serial schedules are preferred; tune again "
                "when it is quiet",
                run.scheduler.tasks.index(task),
                task.ctx.task_name,
            )


def _is_busy(run: TuningRun, task: TuneContext) -> bool:
    """Say whether other programs take cores of this machine, where several are measured on it."""
    target = task.target
    assert target is not None
    cores = min(target.num_cores or 1, host.physical_cores())
    if cores == 1 or not run.runner.measures_here(target):
        return False
    return core_share(target, cores) < _QUIET


def _without_luck(found: Sequence[Confirmation]) -> list[Confirmation]:
    """Return what was measured on a busy machine, first the best of what can be relied on.

    A parallel loop waits for a time slice of the system in some calls and not in others: it has to
    be faster by as much.
    """
    serial = [one for one in found if not _has_threads(one.record)]
    if not serial or found[0] in serial or found[0].median + _TIME_SLICE < serial[0].median:
        return list(found)
    return [serial[0], *(one for one in found if one is not serial[0])]


def _has_threads(record: TuningRecord) -> bool:
    functions = record.schedule().mod.prim_funcs().values()
    nodes = (node for func in functions for node in walk(func.body))
    return any(isinstance(node, For) and node.kind is ForKind.PARALLEL for node in nodes)


def _keep(run: TuningRun, task: TaskRecord, record: TuningRecord) -> None:
    run.database.commit_tuning_record(record)
    for callback in run.measure_callbacks:
        with blamed_on(callback, lambda: f"the trace\n{record.trace}"):
            callback.apply_to_confirmed(run.scheduler, run.scheduler.tasks.index(task), record)


def _best(run: TuningRun, task: TuneContext) -> list[TuningRecord]:
    """Return the best records of a task that are nearly as good as the best, best first."""
    if run.config.num_confirmed == 0:
        return []
    value = task.objective.of_record
    best = list(islice(_allowed(task, best_for(task, run.database)), run.config.num_confirmed))
    return [record for record in best if value(record) < RIVAL * value(best[0])]


def best_for(task: TuneContext, database: Database) -> list[TuningRecord]:
    """Return the valid records of a task, best first by its objective."""
    if task.mod is None:
        return []
    workload = database.commit_workload(task.mod)
    ranked = database.top_records(workload, len(database), task.target)
    if task.objective is SECONDS:
        return ranked
    values = {id(record): task.objective.of_record(record) for record in ranked}
    known = [record for record in ranked if values[id(record)] < math.inf]
    return sorted(known, key=lambda record: values[id(record)])


def _allowed(task: TuneContext, records: Sequence[TuningRecord]) -> Iterator[TuningRecord]:
    """Yield the records that replay and that the constraint of the task allows."""
    return (record for record, sch in with_schedules(records) if task.allows(sch))


def _to_beat(
    run: TuningRun, task: TaskRecord, best: Sequence[TuningRecord], seconds: float = 0.0
) -> list[TuningRecord]:
    """Return what a search begins with and its baselines, as far as they may be as good.

    These are the first record and the best of the first few; those in `best` are left out, and so
    are others that take twice as long, and `seconds` longer.
    """
    if not best:
        return []
    value = task.ctx.objective.of_record
    first = _earliest(run, task.ctx)
    found = {
        record.trace_key: record
        for record in [*task.baselines, *first[:1], *sorted(first, key=value)[:1]]
    }
    return [
        record
        for key, record in found.items()
        if key not in {other.trace_key for other in best}
        and (
            value(record) < _EARLIER_RIVAL * value(best[0])
            or record.mean_seconds < best[0].mean_seconds + seconds
        )
    ]


def _earliest(run: TuningRun, task: TuneContext) -> list[TuningRecord]:
    """Return those of the first records of a task that are valid and allowed."""
    assert task.mod is not None
    known = run.database.tuning_records_of(run.database.commit_workload(task.mod), task.target)
    first = [record for record in known[:_FIRST_TRIALS] if record.is_valid]
    if task.constraint is not None:
        first = list(_allowed(task, first))
    return [record for record in first if task.objective.of_record(record) < math.inf]


def _compared_again(found: Sequence[Confirmation], task: TaskRecord) -> list[TuningRecord]:
    """Return what others are compared with: the winner so far, and baselines close to it."""
    baselines = {record.trace_key for record in task.baselines}
    return [
        confirmation.record
        for place, confirmation in enumerate(found)
        if place == 0 or (confirmation.record.trace_key in baselines and confirmation.ratio < RIVAL)
    ]
