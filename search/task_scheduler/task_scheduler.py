"""The base class of task schedulers: the loop that generates, builds, runs and learns."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from search.database.best_records import with_traces
from search.errors import DatabaseError, TuningError, WorkerError, blamed_on
from search.kinds import Kinds
from search.measuring.measure_candidate import MeasureCandidate, described
from search.reports.interrupts import uninterrupted
from search.reports.profiler import Profiler
from search.search_strategy.initial_schedules import initial_candidates
from search.task_scheduler.learn_from_records import MOST_OF_TASK, learn, learn_from_records
from search.task_scheduler.task_record import (
    DONE,
    FAILED_MS,
    Batch,
    TaskRecord,
    statistics_table,
)
from search.trials.report import NOT_BEGUN, TIME_OVER
from tensorir.errors import TensorIRError

if TYPE_CHECKING:
    from search.builder import Builder, BuilderResult
    from search.cost_model.cost_model import CostModel
    from search.database.database import Database
    from search.measure_callback import MeasureCallback
    from search.runner import RunnerResult
    from search.runs.tuning_run import TuningRun

_EMPTY_BATCHES: Final = 3
"""The number of empty batches in a row after which a strategy counts as exhausted."""

Objective: TypeAlias = Callable[[Sequence[float]], float]
"""The number to minimise, from the best latency of each task in seconds, in their order."""


@dataclass
class Patience:
    """Counts trials since a number last fell; over after `most` of them in vain, None never."""

    most: int | None
    best: float = math.inf
    in_vain: int = 0

    def note(self, value: float | None, trials: int) -> None:
        """Take note of the number after so many more trials; None while it is not known."""
        if value is not None and value < self.best:
            self.best, self.in_vain = value, 0
        else:
            self.in_vain += trials

    @property
    def is_over(self) -> bool:
        """True if the search is to give up; never before the number is known."""
        return self.most is not None and self.in_vain >= self.most and self.best < math.inf


class TaskScheduler(ABC):
    """Shares trials among tasks. Subclasses say which task is next.

    What is minimised is `objective_func`, without one the sum of latencies by the weights of the
    tasks.
    """

    kinds: ClassVar[Kinds[TaskScheduler]] = Kinds("task scheduler")

    def __init__(
        self, logger: logging.Logger | None = None, objective_func: Objective | None = None
    ) -> None:
        self.objective_func = objective_func
        self.logger = logger or logging.getLogger("tensorir.search")
        self.tasks: list[TaskRecord] = []
        self.remaining_tasks = 0
        self._patience = Patience(None)
        self.run: TuningRun | None = None
        """The run that is being tuned, from `tune` on."""

    @staticmethod
    def create(kind: str | TaskScheduler = "gradient", *args: Any, **kwargs: Any) -> TaskScheduler:
        """Return a scheduler: `"gradient"` or `"round-robin"`."""
        return TaskScheduler.kinds.part(kind, *args, **kwargs)

    @abstractmethod
    def next_task_id(self) -> int:
        """Return the index of the task to work on, -1 when none is left."""

    def objective(self, latencies: Sequence[float]) -> float:
        """Return the objective at a latency in seconds for each task; a run makes it smaller."""
        if self.objective_func is not None:
            return float(self.objective_func(latencies))
        weights = [task.task_weight for task in self.tasks]
        return sum(w * seconds for w, seconds in zip(weights, latencies, strict=True))

    # ----------------------------------------------------------------------------- parts of the run

    @property
    def builder(self) -> Builder | None:
        """The builder of candidates, None before `tune`."""
        return None if self.run is None else self.run.builder

    @property
    def database(self) -> Database | None:
        """The database that records go to, None before `tune`."""
        return None if self.run is None else self.run.database

    @property
    def cost_model(self) -> CostModel | None:
        """The predictor of speeds, None before `tune` and in a run without."""
        return None if self.run is None else self.run.cost_model

    @property
    def measure_callbacks(self) -> list[MeasureCallback]:
        """The callbacks that are told about measurements."""
        return [] if self.run is None else self.run.measure_callbacks

    # ------------------------------------------------------------------------------------ the loop

    def tune(self, run: TuningRun) -> None:
        """Search all tasks of a run until its trials are used up or the tasks are exhausted."""
        self.run = run
        self.logger = run.logs.scheduler
        self.tasks = []
        self.remaining_tasks = len(run.tasks)
        self._patience = Patience(run.config.early_stopping)
        opening = run.seconds / len(run.tasks)
        try:
            for place in range(len(run.tasks)):
                with self.leaving_out(place):
                    self._start(run, place)
                self.tasks[place].seconds += opening
            run.save_model()
            self._search(run)
        finally:
            for task in self.tasks:
                if task.ctx.search_strategy is not None:
                    task.ctx.search_strategy.post_tuning()

    def _start(self, run: TuningRun, index: int) -> None:
        ctx, before = run.tasks[index], run.trials_done[index]
        self.logger.debug('Initializing Task #%d: "%s"', index, ctx.task_name)
        with Profiler.timeit("InitializeTask"):
            ctx.progress = run.progress
            assert ctx.mod is not None
            known = run.claims.known(ctx)
            weight, size = run.task_weights[index], run.config.num_trials_per_iter
            self.tasks.append(TaskRecord(ctx, weight, trials_before=before))
            if index in run.failures:
                raise run.failures[index]
            self.tasks[index] = TaskRecord.of(ctx, weight, before, known, size)
            ctx.logger.info("\n%s", ctx.mod)
            spaces = run.spaces[index]
            if not spaces:
                raise TuningError(
                    f'Task #{index} "{ctx.task_name}" has no design space: its space generator '
                    "gave none"
                )
            ctx.logger.info("Design spaces: %d", len(spaces))
            for k, space in enumerate(spaces):
                ctx.logger.info(
                    "Design space #%d:\n%s\n%s", k, space.mod, space.trace.simplified(True)
                )
            max_trials = max(0, run.config.trials_of_a_task - before)
            if max_trials == 0:
                self.terminate_task(index)
            elif run.cost_model is not None:
                learned = learn_from_records(run.cost_model, run.database, ctx)
                ctx.logger.info("Records that the cost model learned from: %d", learned)
            if ctx.initial_schedules:
                measured = [trace for _, trace in with_traces(known)]
                self.tasks[index].initial = initial_candidates(ctx, spaces, measured)
            ctx.pre_tuning(
                max_trials, run.config.num_trials_per_iter, spaces, run.database, run.cost_model
            )

    def _search(self, run: TuningRun) -> None:
        self.print_tuning_statistics()
        left = run.config.max_trials_global - sum(run.trials_done)
        choosing, is_late = 0.0, False
        while left > 0:
            index = self.next_task_id()
            if index < 0:
                break
            if not run.has_time_for(choosing):
                is_late = True
                begun = sum(task.trials > 0 for task in self.tasks)
                self.logger.info(
                    "The search stops: its %g seconds are over%s%s",
                    run.config.max_seconds,
                    ", but for measuring the best again" if run.seconds_left else "",
                    f"; {len(self.tasks) - begun} of {len(self.tasks)} tasks were not begun"
                    if begun < len(self.tasks)
                    else "",
                )
                break
            if self._patience.is_over:
                self.logger.info(
                    "The search ends early: none of the last %d trials was better than the best",
                    self._patience.in_vain,
                )
                break
            task = self.tasks[index]
            if task.is_terminated:  # while its last batch was measured
                continue
            most_in_vain = run.config.early_stopping_per_task
            is_in_vain = most_in_vain is not None and task.trials_in_vain >= most_in_vain
            if is_in_vain:
                self.logger.info(
                    'Task #%d "%s" ends early: none of its last %d trials was better than its best',
                    index,
                    task.ctx.task_name,
                    task.trials_in_vain,
                )
            if task.trials >= run.config.trials_of_a_task or is_in_vain:
                self.terminate_task(index)
                continue
            self.logger.debug('TaskScheduler picks Task #%d: "%s"', index, task.ctx.task_name)
            began = time.monotonic()
            with self.leaving_out(index):
                left -= self._send_batch(run, index, left)
            choosing = time.monotonic() - began
        for index, task in enumerate(self.tasks):
            if task.batch is not None:
                self.join_running_task(index)
            if not task.is_terminated:
                late = TIME_OVER if task.trials else NOT_BEGUN
                self.terminate_task(index, late if is_late else DONE)

    def _send_batch(self, run: TuningRun, index: int, most: int) -> int:
        """Begin the next batch of a task, or end the task; return how many trials it will be."""
        task = self.tasks[index]
        with Profiler.timeit("TakeNewsOfOthers"):
            self._take_news(run, task)
        candidates = self._initial_of(run, task, most) or self._candidates_of(run, task, most)
        if not candidates:
            self._say_why_nothing(index)
            self.terminate_task(index)
            return 0
        task.batches += 1
        run.progress.phase(f"building {len(candidates)} candidates")
        self.logger.debug("Sending %d sample(s) to builder", len(candidates))
        task.batch = Batch(task, candidates, run.builder, run.runner)
        if most > len(candidates) and run.cost_model is not None:
            run.cost_model.warm_up()
        return len(candidates)

    def _take_news(self, run: TuningRun, task: TaskRecord) -> None:
        """Tell the strategy and the model what other runs on the database have measured."""
        records = run.claims.news(task.ctx)
        if not records:
            return
        assert task.ctx.search_strategy is not None
        task.ctx.search_strategy.notify_records(records)
        if run.cost_model is not None:
            learn(run.cost_model, task.ctx, records[-MOST_OF_TASK:])
        task.ctx.logger.info("Records of other runs: %d", len(records))

    def _initial_of(self, run: TuningRun, task: TaskRecord, most: int) -> list[MeasureCandidate]:
        """Return the next batch of schedules that the user wants measured first."""
        left = min(most, run.config.num_trials_per_iter, run.config.trials_of_a_task - task.trials)
        batch, task.initial = task.initial[:left], task.initial[left:]
        return run.claims.take(task.ctx, batch) if batch else []

    def _candidates_of(self, run: TuningRun, task: TaskRecord, most: int) -> list[MeasureCandidate]:
        """Return the next batch of a task, an empty one if its strategy has none.

        A strategy may give an empty batch, or one that others on the database are measuring, after
        which it is asked again, but not for ever.
        """
        candidates = run.claims.left_behind(task.ctx, most)
        if candidates:
            return candidates
        empty = 0
        while empty < _EMPTY_BATCHES and not run.claims.is_exhausted(task.ctx):
            generated = task.ctx.generate_measure_candidates()
            if generated is None:
                return []
            candidates = run.claims.take(task.ctx, generated[:most])
            if candidates:
                return candidates
            empty += not generated
            task.ctx.notify_runner_results([], [])
        self.logger.warning(
            'Task #%d "%s" ends: its search strategy gave %s one after another',
            self.tasks.index(task),
            task.ctx.task_name,
            f"{empty} empty batches" if empty else "batches that others have measured",
        )
        return []

    def _say_why_nothing(self, index: int) -> None:
        task = self.tasks[index]
        strategy = task.ctx.search_strategy
        reason = None if strategy is None or task.batches else strategy.why_nothing()
        if reason is not None:
            self.logger.warning(
                'Task #%d "%s" cannot be tuned: %s', index, task.ctx.task_name, reason
            )
        else:
            task.is_exhausted = True
            self.logger.info(
                'Task #%d "%s" ends after %s: %s',
                index,
                task.ctx.task_name,
                "1 trial" if task.trials == 1 else f"{task.trials} trials",
                "its design space has 1 schedule"
                if self._has_one_schedule(index)
                else "its strategy finds no candidate that was not measured",
            )

    def _has_one_schedule(self, index: int) -> bool:
        assert self.run is not None
        spaces = self.tasks[index].ctx.points_of(self.run.spaces[index])
        known = all(site.domain is not None for space in spaces for site in space.sites)
        return known and sum(space.num_points for space in spaces) == 1

    def join_running_task(self, task_id: int) -> list[RunnerResult]:
        """Measure the batch of a task, tell everybody who wants to know, return the results.

        Where the time of the run is over, those that are not measured yet are left out.
        """
        task, run = self.tasks[task_id], self.run
        batch = task.batch
        if batch is None or run is None:
            raise TuningError(f"Task #{task_id} has no batch that is being measured")
        results: dict[int, RunnerResult] = {}
        with self.leaving_out(task_id):
            self._measure_batch(run, task_id, batch, results)
        return [results[k] for k in sorted(results)]

    def _measure_batch(
        self, run: TuningRun, task_id: int, batch: Batch, results: dict[int, RunnerResult]
    ) -> None:
        """Take the results of a batch as they come; they go to `results`, by their candidates."""
        futures = batch.runner_futures
        try:
            for k in run.runner.as_they_end(futures, lambda: run.is_over_time):
                run.progress.phase("measuring", len(results), len(batch.candidates))
                result = futures[k].result().checked()
                with uninterrupted():
                    results[k] = result
                    candidate, build = batch.candidates[k], batch.builds[k].result()
                    run.note_trial(task_id, candidate, build, result)
                    for callback in self.measure_callbacks:
                        with blamed_on(callback, partial(described, [candidate])):
                            callback.apply_to_trial(self, task_id, candidate, build, result)
                    self._note(task_id, candidate, build, result)
        except BaseException:
            with uninterrupted():
                self._finish_batch(task_id, batch, results)
            raise
        self._finish_batch(task_id, batch, results)

    def _finish_batch(self, task_id: int, batch: Batch, measured: dict[int, RunnerResult]) -> None:
        """End a batch, of which some may be all that was measured."""
        task, run = self.tasks[task_id], self.run
        assert run is not None
        for future in batch.runner_futures:
            future.give_up()
        places = sorted(measured)
        results = [measured[k] for k in places]
        candidates = [batch.candidates[k] for k in places]
        builds = [batch.builds[k].result() for k in places]
        task.ctx.notify_runner_results(candidates, results)
        run.claims.release(task.ctx)
        run.progress.phase("learning")
        for callback in self.measure_callbacks:
            with (
                Profiler.timeit(f"MeasureCallback/{type(callback).__name__}"),
                blamed_on(callback, lambda: described(candidates)),
            ):
                callback.apply(self, task_id, candidates, builds, results)
        task.batch = None
        if results:
            run.save_model()
            task.best_history_ms.append(FAILED_MS if task.best_ms is None else task.best_ms)
            self._patience.note(self.objective_now(), len(results))
            self._say_what_came_out(task_id, results)
            self.print_tuning_statistics()

    def objective_now(self) -> float | None:
        """Return the objective at the best latencies so far, None while some task has none."""
        best = [task.best_ms for task in self.tasks]
        known = [ms / 1e3 for ms in best if ms is not None]
        return self.objective(known) if len(known) == len(best) else None

    def _say_what_came_out(self, task_id: int, results: Sequence[RunnerResult]) -> None:
        task = self.tasks[task_id]
        failed = sum(result.error_msg is not None for result in results)
        best = task.best_ms
        speed = f", {task.best_gflops:.2f} GFLOPS" if task.flop > 1 and task.best_gflops else ""
        stopped = sum(result.stopped for result in results)
        self.logger.info(
            'Task #%d "%s": %s measured%s%s, %d in all; %s',
            task_id,
            task.ctx.task_name,
            "1 trial" if len(results) == 1 else f"{len(results)} trials",
            f", {failed} failed" if failed else "",
            f", {stopped} ended early as too slow" if stopped else "",
            task.trials,
            "none has succeeded so far"
            if best is None
            else f"the best so far takes {best * 1e3:.2f} us" + speed,
        )
        if failed == len(results):
            reason = _last_line(results[0].error_msg)
            self.logger.warning(
                'Task #%d "%s": every trial of the batch failed, the first with: %s',
                task_id,
                task.ctx.task_name,
                reason,
            )

    def _note(
        self,
        task_id: int,
        candidate: MeasureCandidate,
        build: BuilderResult,
        result: RunnerResult,
    ) -> None:
        """Enter one trial into the statistics and the log of the task."""
        task = self.tasks[task_id]
        name = task.ctx.task_name
        number = task.trials + 1
        task.build_seconds += build.seconds + result.build_seconds
        task.measure_seconds += result.seconds
        prefix = f"[Task #{task_id}: {name}] Trial #{number}: "
        seconds = result.median_secs
        if seconds is not None:
            latency = seconds * 1e3
            task.latency_ms.append(FAILED_MS if result.stopped else latency)
            task.ctx.logger.info(
                "%sGFLOPs: %.4f. Time: %.4f us%s. Best GFLOPs: %.4f",
                prefix,
                task.flop / latency / 1e6,
                latency * 1e3,
                " or more, ended early" if result.stopped else "",
                task.best_gflops,
            )
        else:
            task.latency_ms.append(FAILED_MS)
            task.errors[_last_line(build.error_msg or result.error_msg)] += 1
            building = build.error_msg is not None or result.stage == "build"
            if building:
                task.build_error_count += 1
            else:
                task.run_error_count += 1
            task.ctx.logger.info(
                "%sError in %s:\n%s\n%s\n%s",
                prefix,
                "building" if building else "running",
                build.error_msg or result.error_msg,
                candidate.sch.mod,
                candidate.sch.trace,
            )
        best = task.best_ms
        assert self.run is not None
        self.run.progress.trial("" if best is None else f"{best * 1e3:.2f} us")

    def touch_task(self, task_id: int) -> None:
        """Join a task if all builds of its batch are done.

        A scheduler that calls this decides by how long builds take, and does not do the same again
        with the same seed and the same measured times.
        """
        batch = self.tasks[task_id].batch
        if batch is not None and all(build.done() for build in batch.builds):
            self.join_running_task(task_id)

    def terminate_task(self, task_id: int, ended: str = DONE) -> None:
        """Take a task out of the search."""
        task = self.tasks[task_id]
        if task.is_terminated:
            raise TuningError(f"Task #{task_id} is finished already")
        task.is_terminated = True
        task.ended = ended
        self.remaining_tasks -= 1
        self.logger.debug(
            "Task #%d has finished. Remaining task(s): %d", task_id, self.remaining_tasks
        )

    @contextlib.contextmanager
    def leaving_out(self, task_id: int) -> Iterator[None]:
        """Go on without a task on which the body of this `with` fails, if the run is to keep going.

        The time that the body takes counts as that of the task.
        What ends any task ends the run: files that cannot be written, processes that do not start.
        """
        run = self.run
        assert run is not None
        began = time.monotonic()
        try:
            yield
        except (DatabaseError, WorkerError, OSError):
            raise
        except Exception as error:
            if not run.config.keep_going:
                raise
            task = self.tasks[task_id]
            run.failures[task_id] = error
            task.batch = None
            if not task.is_terminated:
                self.terminate_task(task_id)
            self.logger.error(
                'Task #%d "%s" is left out: %s',
                task_id,
                task.ctx.task_name,
                error if isinstance(error, TensorIRError) else f"{type(error).__name__}: {error}",
            )
            task.ctx.logger.error("The task is left out", exc_info=error)
        finally:
            self.tasks[task_id].seconds += time.monotonic() - began

    def say_what_failed(self) -> None:
        """Say of each task without any result why that is: what most of its trials ended with."""
        for index, task in enumerate(self.tasks):
            if task.best_ms is not None or not task.errors:
                continue
            (error, count), *others = task.errors.most_common()
            self.logger.warning(
                'Task #%d "%s" has no schedule: all of its %d trials failed, %s with: %s',
                index,
                task.ctx.task_name,
                task.errors.total(),
                f"{count} of them" if others else "each",
                error,
            )

    def print_tuning_statistics(self) -> None:
        """Show the table of all tasks in place of the one before, and log it."""
        table = statistics_table(self.tasks)
        self.logger.debug("\n%s\n", table)
        if self.run is not None:
            self.run.progress.table(table)


def _last_line(text: str | None) -> str:
    *_, last = (text or "").strip().splitlines() or [""]
    return last


PyTaskScheduler = TaskScheduler
"""The base class under the name that it has for user classes in TVM."""
