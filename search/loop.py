"""The search: generate candidates of a task, build and measure them, learn, and choose the next."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from search.database.best_records import with_traces
from search.errors import TuningError, blamed_on
from search.reports.interrupts import uninterrupted
from search.reports.profiler import Profiler
from search.reports.report import NOT_BEGUN, TIME_OVER
from search.run import Run
from search.runner import RunnerResult
from search.runner.measure_candidate import described
from search.runs.batch import Batch
from search.runs.learn_from_records import learn_from_records
from search.runs.name_winner import name_winners
from search.runs.next_batch import next_batch
from search.runs.note_trial import (
    count_trial,
    enter_trial,
    say_what_came_out,
    say_what_failed,
    show_statistics,
)
from search.runs.report_task import report_of_run
from search.search_strategy.initial_schedules import initial_candidates
from search.task_scheduler.task_state import DONE, FAILED_MS, TaskState


def tune_run(run: Run, finish: Callable[[], object] | None = None) -> None:
    """Search the tasks of a run, and name the winner of each.

    `finish` is called before the run is over. Ctrl-C ends it, and raises KeyboardInterrupt when
    what was measured is kept; with `on_interrupt="return"` it does not. TuningError if no task is
    left.
    """
    try:
        _Search(run).tune()
        name_winners(run)
        _require_one_that_is_left(run)
        if len(run.tasks) > 1:
            run.log.info("All tasks, by weight: %s", report_of_run(run).in_a_sentence())
        show_statistics(run)
        say_what_failed(run)
        if finish is not None:
            finish()
        run.journal.end()
        run.database.report = report_of_run(run)
    except KeyboardInterrupt:
        run.log.warning(
            "Interrupted: what has been measured is kept, and the same call goes on from there"
        )
        run.database.report = report_of_run(run)
        if run.config.on_interrupt == "raise":
            raise
    finally:
        with uninterrupted():
            run.builder.clean_up()


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


class _Search:
    """The search of a run: what was sent to be measured, and how long nothing got better."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.pending: dict[TaskState, Batch] = {}
        """The batches that are being built and measured, in the order in which they were sent."""
        self.patience = Patience(run.config.early_stopping)

    def tune(self) -> None:
        """Search all tasks until the trials are used up or the tasks are exhausted."""
        run = self.run
        run.scheduler.begin(run.tasks)
        opening = run.budget.seconds / len(run.tasks)
        try:
            for task in run.tasks:
                with run.leaving_out(task):
                    _start(run, task)
                task.seconds += opening
            run.save_model()
            show_statistics(run)
            is_late = self.send_batches()
            for task in run.tasks:
                self.join(task)
                if not task.is_terminated:
                    late = TIME_OVER if task.trials else NOT_BEGUN
                    _end(run, task, late if is_late else DONE)
        finally:
            for task in run.tasks:
                if task.ctx.search_strategy is not None:
                    task.ctx.search_strategy.post_tuning()

    def send_batches(self) -> bool:
        """Send one batch after another; return True if the time of the run was over first."""
        run = self.run
        left = run.config.most_trials - sum(task.trials_before for task in run.tasks)
        choosing = 0.0
        while left > 0:
            self.join_before_choosing()
            index = run.scheduler.next_task_id()
            if index < 0:
                break
            task = run.tasks[index]
            if not run.budget.has_time_for(choosing + _usual_trial_seconds(run)):
                _say_that_time_is_over(run)
                return True
            if self.patience.is_over:
                run.log.info(
                    "The search ends early: none of the last %d trials was better than the best",
                    self.patience.in_vain,
                )
                break
            most_in_vain = run.config.early_stopping_per_task
            is_in_vain = (
                most_in_vain is not None
                and task.best_ms is not None
                and task.trials_in_vain >= most_in_vain
            )
            if is_in_vain:
                run.log.info(
                    "%s ends early: none of its last %d trials was better than its best",
                    task.title,
                    task.trials_in_vain,
                )
            if task.trials >= run.config.trials_of_a_task or is_in_vain:
                _end(run, task)
                continue
            name = task.ctx.task_name
            run.log.debug('TaskScheduler picks Task #%d: "%s"', index, name)
            began = time.monotonic()
            with run.leaving_out(task):
                left -= self.send(task, left)
            choosing = time.monotonic() - began
        return False

    def join_before_choosing(self) -> None:
        """Measure what was sent, so that the choice of the next task knows it.

        While some tasks had no batch yet, the last one that was sent is built meanwhile: nothing
        has to be known for the choice. Those before it are measured, because a run over many tasks
        may have no time left when all of them have a batch.
        """
        some_are_new = any(not task.batches and not task.is_terminated for task in self.run.tasks)
        sent = list(self.pending)
        for task in sent[:-1] if some_are_new else sent:
            self.join(task)

    def send(self, task: TaskState, most: int) -> int:
        """Begin the next batch of a task, or end the task; return how many trials it will be."""
        run = self.run
        candidates = next_batch(run, task, most)
        if not candidates:
            _end(run, task)
            return 0
        task.batches += 1
        run.progress.phase(f"building {len(candidates)} candidates")
        run.log.debug("Sending %d sample(s) to builder", len(candidates))
        self.pending[task] = Batch(task, candidates, run.builder, run.runner)
        if most > len(candidates) and run.cost_model is not None:
            run.cost_model.warm_up()
        return len(candidates)

    def join(self, task: TaskState) -> None:
        """Measure the batch of a task, if it has one, and tell everybody who wants to know.

        Where the time of the run is over, those that are not measured yet are left out.
        """
        batch = self.pending.pop(task, None)
        if batch is None:
            return
        results: dict[int, RunnerResult] = {}
        with self.run.leaving_out(task):
            try:
                self.measure(task, batch, results)
            except BaseException:
                with uninterrupted():
                    self.finish(task, batch, results)
                raise
            self.finish(task, batch, results)

    def measure(self, task: TaskState, batch: Batch, results: dict[int, RunnerResult]) -> None:
        """Take the results of a batch as they come; they go to `results`, by their candidates."""
        run, futures = self.run, batch.runner_futures

        def is_over() -> bool:
            return not run.budget.has_time_for(_usual_trial_seconds(run))

        for k in run.runner.as_they_end(futures, is_over):
            run.progress.phase("measuring", len(results), len(batch.candidates))
            result = futures[k].result().checked()
            with uninterrupted():
                results[k] = result
                candidate, build = batch.candidates[k], batch.builds[k].result()
                enter_trial(run, task, candidate, build, result)
                for callback in run.measure_callbacks:
                    with blamed_on(callback, partial(described, [candidate])):
                        callback.apply_to_trial(run, task.index, candidate, build, result)
                count_trial(run, task, candidate, build, result)

    def finish(self, task: TaskState, batch: Batch, measured: dict[int, RunnerResult]) -> None:
        """End a batch, of which some may be all that was measured."""
        run = self.run
        for future in batch.runner_futures:
            future.give_up()
        places = sorted(measured)
        results = [measured[k] for k in places]
        candidates = [batch.candidates[k] for k in places]
        builds = [batch.builds[k].result() for k in places]
        task.ctx.notify_runner_results(candidates, results)
        run.claims.release(task.ctx)
        run.progress.phase("learning")
        for callback in run.measure_callbacks:
            with (
                Profiler.timeit(f"MeasureCallback/{type(callback).__name__}"),
                blamed_on(callback, lambda: described(candidates)),
            ):
                callback.apply(run, task.index, candidates, builds, results)
        if results:
            run.save_model()
            task.best_history_ms.append(FAILED_MS if task.best_ms is None else task.best_ms)
            self.patience.note(run.scheduler.objective_now(), len(results))
            say_what_came_out(run, task, results)


def _start(run: Run, task: TaskState) -> None:
    """Begin the search of a task with what is known of it."""
    ctx = task.ctx
    run.log.debug('Initializing Task #%d: "%s"', task.index, ctx.task_name)
    with Profiler.timeit("InitializeTask"):
        if task.failure is not None:
            raise task.failure
        known = run.claims.known(ctx)
        task.begin(known, run.config.num_trials_per_iter)
        ctx.logger.info("\n%s", ctx.mod)
        if not task.spaces:
            raise TuningError(f"{task.title} has no design space: its space generator gave none")
        ctx.logger.info("Design spaces: %d", len(task.spaces))
        for k, space in enumerate(task.spaces):
            trace = space.trace.simplified(True)
            ctx.logger.info("Design space #%d:\n%s\n%s", k, space.mod, trace)
        most = max(0, run.config.trials_of_a_task - task.trials_before)
        if most == 0:
            _end(run, task)
        elif run.cost_model is not None:
            learned = learn_from_records(run.cost_model, run.database, ctx)
            ctx.logger.info("Records that the cost model learned from: %d", learned)
        if ctx.initial_schedules:
            measured = [trace for _, trace in with_traces(known)]
            task.initial = initial_candidates(ctx, task.spaces, measured)
        per_iter = run.config.num_trials_per_iter
        ctx.pre_tuning(most, per_iter, task.spaces, run.database, run.cost_model)


def _end(run: Run, task: TaskState, why: str = DONE) -> None:
    """Take a task out of the search, unless that is done."""
    if task.is_terminated:
        return
    task.ended = why
    left = sum(not other.is_terminated for other in run.tasks)
    run.log.debug("Task #%d has finished. Remaining task(s): %d", task.index, left)


def _usual_trial_seconds(run: Run) -> float:
    count = sum(len(task.latency_ms) for task in run.tasks)
    return sum(task.measure_seconds for task in run.tasks) / count if count else 0.0


def _say_that_time_is_over(run: Run) -> None:
    begun = sum(task.trials > 0 for task in run.tasks)
    run.log.info(
        "The search stops: its %g seconds are over%s%s",
        run.config.max_seconds,
        ", but for measuring the best again" if run.budget.left else "",
        f"; {len(run.tasks) - begun} of {len(run.tasks)} tasks were not begun"
        if begun < len(run.tasks)
        else "",
    )


def _require_one_that_is_left(run: Run) -> None:
    """Raise TuningError if every task was left out."""
    first = run.tasks[0]
    if all(task.failure is not None for task in run.tasks):
        raise TuningError(
            f'no task could be tuned; the first one, "{first.ctx.task_name}", failed with: '
            f"{first.failure}"
        ) from first.failure
