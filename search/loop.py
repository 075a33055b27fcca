"""The search: generate candidates of a task, build and measure them, learn, and choose the next."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from search.database.best_records import with_traces
from search.errors import TuningError, blamed_on
from search.options import delay_interrupt
from search.reports.profiler import Profiler
from search.reports.report import NOT_BEGUN, TIME_OVER
from search.run import Run
from search.runner import RunnerResult
from search.runner.measure_candidate import MeasureCandidate, describe_candidates
from search.runs.measuring import Batch, disturbs_measuring
from search.runs.name_winner import name_winners, report_of_run
from search.runs.next_batch import learn_from_records, next_batch
from search.runs.note_trial import (
    count_trial,
    enter_trial,
    log_batch,
    log_failed_tasks,
    show_statistics,
)
from search.search_strategy.initial_schedules import initial_candidates
from search.task_scheduler.task_state import DONE, FAILED_MS, TaskState

_INTERRUPTED: Final = "Interrupted: all measurements are kept, and the same call resumes"


def tune_run(run: Run, finish: Callable[[], object] | None = None) -> None:
    """Search the tasks of a run, and name the winner of each.

    `finish` is called after that, as the last step that an interrupted run makes again. Ctrl-C ends
    the search, and raises KeyboardInterrupt after all measurements are kept; with
    `on_interrupt="return"` this function returns instead. Raises TuningError if every task failed.
    """
    try:
        _Search(run).tune()
        name_winners(run)
        _require_a_tuned_task(run)
        if len(run.tasks) > 1:
            run.log.info("All tasks, by weight: %s", report_of_run(run).in_a_sentence())
        show_statistics(run)
        log_failed_tasks(run)
        if finish is not None:
            finish()
        run.journal.end()
        run.database.report = report_of_run(run)
    except KeyboardInterrupt:
        run.database.report = report_of_run(run)
        if run.config.on_interrupt == "raise":
            # Without the place of the interrupt, which says nothing to whoever interrupts.
            raise KeyboardInterrupt(_INTERRUPTED) from None
        run.log.warning(_INTERRUPTED)
    finally:
        with delay_interrupt():
            run.builder.clean_up()


class _Search:
    """The search of a run: its pending batches, and the trials since the last improvement."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.pending: dict[TaskState, Batch] = {}
        """The batches that are being built and measured, in the order in which they were sent."""
        self.send_seconds = 0.0
        """The seconds of choosing the last batch and of starting its builds."""
        self.patience = Patience(run.config.early_stopping)

    def tune(self) -> None:
        """Search all tasks until the trials are used up or the tasks are exhausted."""
        run = self.run
        run.scheduler.begin(run.tasks)
        # the time of `Run.open`, mostly for design spaces, is shared equally
        setup_seconds = run.budget.seconds / len(run.tasks)
        try:
            for task in run.tasks:
                with run.isolate_failure(task):
                    _start(run, task)
                task.seconds += setup_seconds
            run.save_model()
            show_statistics(run)
            is_time_over = self.send_batches()
            for task in run.tasks:
                self.join(task)
                if not is_time_over:
                    _end(run, task)
                else:
                    _end(run, task, TIME_OVER if task.trials else NOT_BEGUN)
        finally:
            for task in run.tasks:
                if task.ctx.search_strategy is not None:
                    task.ctx.search_strategy.post_tuning()

    def send_batches(self) -> bool:
        """Send one batch after another; return True if time ran out before the trials."""
        run = self.run
        trials_left = run.config.most_trials - sum(task.trials_before for task in run.tasks)
        while trials_left > 0:
            self.join_before_choosing()
            index = run.scheduler.next_task_id()
            if index < 0:
                break
            task = run.tasks[index]
            if not run.budget.has_time_for(self.send_seconds + _usual_trial_seconds(run)):
                _log_time_over(run)
                return True
            if self.patience.is_over:
                run.log.info(
                    "The search ends early: none of the last %d trials was better than the best",
                    self.patience.trials_since_best,
                )
                break
            if task.trials >= run.config.trials_of_a_task or _ends_early(run, task):
                _end(run, task)
                continue
            run.log.debug('TaskScheduler picks Task #%d: "%s"', index, task.ctx.task_name)
            trials_left -= self.send(task, trials_left)
        return False

    def join_before_choosing(self) -> None:
        """Measure the pending batches, so that the task scheduler knows their results.

        While some tasks have had no batch, the last batch stays pending and is built meanwhile: the
        next task is such a task in any case. Earlier batches are measured, because a run of many
        tasks may have no time left after the first batch of each.
        """
        some_are_new = any(not task.batches and not task.is_terminated for task in self.run.tasks)
        sent = list(self.pending)
        for task in sent[:-1] if some_are_new else sent:
            self.join(task)

    def send(self, task: TaskState, most: int) -> int:
        """Start to build the next batch of a task, up to `most` trials; return their number.

        A task without another candidate ends. Pending batches are measured before the builds start,
        if builds would disturb measurements.
        """
        run = self.run
        candidates: list[MeasureCandidate] = []
        began = time.monotonic()
        with run.isolate_failure(task):
            candidates = next_batch(run, task, most)
        self.send_seconds = time.monotonic() - began
        if not candidates:
            _end(run, task)
            return 0
        if disturbs_measuring(task, run.runner):
            for other in list(self.pending):
                self.join(other)
        began = time.monotonic()
        with run.isolate_failure(task):
            task.batches += 1
            run.progress.phase(f"building {len(candidates)} candidates")
            run.log.debug("Sending %d sample(s) to builder", len(candidates))
            self.pending[task] = Batch(task, candidates, run.builder, run.runner)
            if most > len(candidates) and run.cost_model is not None:
                run.cost_model.warm_up()  # while the builder works: another batch follows
        self.send_seconds += time.monotonic() - began
        return len(candidates) if task in self.pending else 0

    def join(self, task: TaskState) -> None:
        """Measure the pending batch of a task, if there is one, and learn from it.

        When the time of the run is over, the rest of the batch is not measured.
        """
        batch = self.pending.pop(task, None)
        if batch is None:
            return
        results: dict[int, RunnerResult] = {}
        with self.run.isolate_failure(task):
            try:
                self.measure(task, batch, results)
            except BaseException:  # Ctrl-C too: keep the results of the measured part
                with delay_interrupt():
                    self.finish(task, batch, results)
                raise
            self.finish(task, batch, results)

    def measure(self, task: TaskState, batch: Batch, results: dict[int, RunnerResult]) -> None:
        """Measure a batch, and log each trial at its end; `results` gets them by candidate.

        Ctrl-C waits while a trial is written to the trial log and to the database.
        """
        run, futures = self.run, batch.runner_futures

        def is_over() -> bool:
            return not run.budget.has_time_for(_usual_trial_seconds(run))

        for k in run.runner.as_they_end(futures, is_over):
            run.progress.phase("measuring", len(results), len(batch.candidates))
            result = futures[k].result().checked()
            with delay_interrupt():
                results[k] = result
                candidate, build = batch.candidates[k], batch.builds[k].result()
                trial = enter_trial(run, task, candidate, build, result)
                for callback in run.measure_callbacks:
                    with blamed_on(callback, partial(describe_candidates, [candidate])):
                        callback.apply_to_trial(run, task.index, candidate, build, result)
                count_trial(run, task, candidate, trial)

    def finish(self, task: TaskState, batch: Batch, measured: dict[int, RunnerResult]) -> None:
        """Give the results of a batch to the strategy and to the callbacks.

        `measured` has them by candidate. Candidates that were not measured are given up.
        """
        run = self.run
        for future in batch.runner_futures:
            future.give_up()
        order = sorted(measured)  # trials may end in another order
        results = [measured[k] for k in order]
        candidates = [batch.candidates[k] for k in order]
        builds = [batch.builds[k].result() for k in order]
        task.ctx.notify_runner_results(candidates, results)
        run.leases.release(task.ctx)
        run.progress.phase("learning")
        for callback in run.measure_callbacks:
            with (
                Profiler.timeit(f"MeasureCallback/{type(callback).__name__}"),
                blamed_on(callback, lambda: describe_candidates(candidates)),
            ):
                callback.apply(run, task.index, candidates, builds, results)
        if results:
            run.save_model()
            task.best_history_ms.append(FAILED_MS if task.best_ms is None else task.best_ms)
            self.patience.note(run.scheduler.objective_now(), len(results))
            log_batch(run, task, results)


@dataclass
class Patience:
    """Counts the trials since a number last fell, and is over after `most` of them.

    With `most` None it is never over. A search uses it for early stopping.
    """

    most: int | None
    best: float = math.inf
    trials_since_best: int = 0

    def note(self, value: float | None, trials: int) -> None:
        """Update with the number after so many more trials; None while it is unknown."""
        if value is not None and value < self.best:
            self.best, self.trials_since_best = value, 0
        else:
            self.trials_since_best += trials

    @property
    def is_over(self) -> bool:
        """True if the search has to end; never while the number is unknown."""
        is_known = self.best < math.inf
        return is_known and self.most is not None and self.trials_since_best >= self.most


def _start(run: Run, task: TaskState) -> None:
    """Begin the search of a task with its records in the database."""
    ctx = task.ctx
    run.log.debug('Initializing Task #%d: "%s"', task.index, ctx.task_name)
    with Profiler.timeit("InitializeTask"):
        if task.failure is not None:  # with `keep_going`: its design spaces
            raise task.failure
        known = run.leases.known(ctx)
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
        measured = (trace for _, trace in with_traces(known))
        task.initial = initial_candidates(ctx, task.spaces, measured)
        per_iter = run.config.num_trials_per_iter
        ctx.pre_tuning(most, per_iter, task.spaces, run.database, run.cost_model)


def _ends_early(run: Run, task: TaskState) -> bool:
    """Return True, and log it, if a task has had too many trials since its best one."""
    most = run.config.early_stopping_per_task
    if most is None or task.best_ms is None or task.trials_since_best < most:
        return False
    run.log.info(
        "%s ends early: none of its last %d trials was better than its best",
        task.title,
        task.trials_since_best,
    )
    return True


def _end(run: Run, task: TaskState, why: str = DONE) -> None:
    """Take a task out of the search, unless it has ended already."""
    if task.is_terminated:
        return
    task.ended = why
    left = sum(not other.is_terminated for other in run.tasks)
    run.log.debug("Task #%d has finished. Remaining task(s): %d", task.index, left)


def _usual_trial_seconds(run: Run) -> float:
    """Return the mean seconds of measuring a trial, 0 before the first one."""
    count = sum(len(task.latency_ms) for task in run.tasks)
    return sum(task.measure_seconds for task in run.tasks) / count if count else 0.0


def _log_time_over(run: Run) -> None:
    """Log that the search stops for its time, and the number of tasks without a trial."""
    begun = sum(task.trials > 0 for task in run.tasks)
    run.log.info(
        "The search stops: its %g seconds are over%s%s",
        run.config.max_seconds,
        "; the best candidates are measured again" if run.budget.left else "",
        f"; {len(run.tasks) - begun} of {len(run.tasks)} tasks were not begun"
        if begun < len(run.tasks)
        else "",
    )


def _require_a_tuned_task(run: Run) -> None:
    """Raise TuningError if every task failed."""
    first = run.tasks[0]
    if all(task.failure is not None for task in run.tasks):
        raise TuningError(
            f'no task could be tuned; the first one, "{first.ctx.task_name}", failed with: '
            f"{first.failure}"
        ) from first.failure
