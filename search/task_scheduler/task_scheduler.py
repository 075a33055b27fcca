"""What a task scheduler is: the loop that generates, builds, runs and learns."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from search.builder import Builder, BuilderInput, BuilderResult
from search.cost_model.cost_model import CostModel
from search.cost_model.learn_from_records import learn_from_records
from search.database.database import Database
from search.errors import TuningError, blamed_on
from search.kinds import Kinds
from search.measure_callback import MeasureCallback
from search.measure_candidate import described
from search.profiler import Profiler
from search.progress import Progress
from search.reference_program import reference_program
from search.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from search.task_scheduler.statistics_table import statistics_table
from search.task_scheduler.task_record import FAILED_MS, TaskRecord

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.measure_candidate import MeasureCandidate


class TaskScheduler(ABC):
    """Shares trials among tasks. Subclasses say which task is next."""

    kinds: ClassVar[Kinds[TaskScheduler]] = Kinds("task scheduler")

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self.logger = logger or logging.getLogger("tvm.meta_schedule")
        self.tasks: list[TaskRecord] = []
        self.measure_callbacks: list[MeasureCallback] = []
        self.builder: Builder | None = None
        self.database: Database | None = None
        self.cost_model: CostModel | None = None
        self.remaining_tasks = 0
        self.progress = Progress()
        self.interrupted = False
        """Whether the last `tune` was ended by Ctrl-C."""

    @staticmethod
    def create(kind: str | TaskScheduler = "gradient", *args: Any, **kwargs: Any) -> TaskScheduler:
        """Return a scheduler: `"gradient"` or `"round-robin"`."""
        made: TaskScheduler = TaskScheduler.kinds.part(TaskScheduler, kind, *args, **kwargs)
        return made

    @abstractmethod
    def next_task_id(self) -> int:
        """Return the index of the task to work on, -1 when none is left."""

    # ------------------------------------------------------------------------------------ the loop

    def tune(
        self,
        tasks: Sequence[TuneContext],
        task_weights: Sequence[float],
        max_trials_global: int,
        max_trials_per_task: int,
        num_trials_per_iter: int,
        builder: Builder,
        runner: Runner,
        measure_callbacks: Sequence[MeasureCallback] = (),
        database: Database | None = None,
        cost_model: CostModel | None = None,
        trials_done: Sequence[int] | None = None,
    ) -> None:
        """Search all tasks until the trials are used up or the tasks are exhausted.

        `trials_done` says for each task how many of its trials an interrupted run made already.
        Ctrl-C ends the search after the trial at hand; what was measured is kept.
        """
        if len(tasks) != len(task_weights):
            raise TuningError(f"{len(tasks)} tasks need as many weights, got {len(task_weights)}")
        done = list(trials_done or [0] * len(tasks))
        self.tasks = []
        self.measure_callbacks = list(measure_callbacks)
        self.builder = builder
        self.database = database
        self.cost_model = cost_model
        self.remaining_tasks = len(tasks)
        self.interrupted = False
        builder.warm_up()
        runner.warm_up()
        try:
            for ctx, weight, made in zip(tasks, task_weights, done, strict=True):
                self._start(ctx, weight, max(0, max_trials_per_task - made), num_trials_per_iter)
            self._search(max_trials_global - sum(done), max_trials_per_task, builder, runner)
        except KeyboardInterrupt:
            self.interrupted = True
            self.logger.warning("Interrupted: what has been measured is kept")
        finally:
            for task in self.tasks:
                if task.ctx.search_strategy is not None:
                    task.ctx.search_strategy.post_tuning()
            builder.clean_up()
            self.progress.close()

    def _start(self, ctx: TuneContext, weight: float, max_trials: int, per_iter: int) -> None:
        index = len(self.tasks)
        self.logger.info('Initializing Task #%d: "%s"', index, ctx.task_name)
        with Profiler.timeit("InitializeTask"):
            ctx.progress = self.progress
            record = TaskRecord.of(ctx, weight)
            self.tasks.append(record)
            ctx.logger.info("\n%s", ctx.mod)
            spaces = ctx.generate_design_space()
            if not spaces:
                raise TuningError(f'Task #{index} "{ctx.task_name}" has no design space')
            ctx.logger.info("Total %d design space(s) generated", len(spaces))
            for k, space in enumerate(spaces):
                ctx.logger.info(
                    "Design space #%d:\n%s\n%s", k, space.mod, space.trace.simplified(True)
                )
            if max_trials == 0:
                self.terminate_task(index)
            elif self.cost_model is not None and self.database is not None:
                learned = learn_from_records(self.cost_model, self.database, ctx)
                ctx.logger.info("The cost model learned from %d record(s)", learned)
            ctx.pre_tuning(max_trials, per_iter, spaces, self.database, self.cost_model)

    def _search(self, max_trials: int, max_per_task: int, builder: Builder, runner: Runner) -> None:
        self.print_tuning_statistics()
        sent = 0
        while sent < max_trials:
            index = self.next_task_id()
            if index < 0:
                break
            task = self.tasks[index]
            if len(task.latency_ms) >= max_per_task:
                self.terminate_task(index)
                continue
            self.logger.info('TaskScheduler picks Task #%d: "%s"', index, task.ctx.task_name)
            candidates = task.ctx.generate_measure_candidates()
            if candidates is None:
                self._say_why_nothing(index)
                self.terminate_task(index)
                continue
            candidates = candidates[: max_trials - sent]
            sent += len(candidates)
            self._send(task, candidates, builder, runner)
        for index, task in enumerate(self.tasks):
            if task.measure_candidates is not None:
                self.join_running_task(index)
            if not task.is_terminated:
                self.terminate_task(index)

    def _say_why_nothing(self, index: int) -> None:
        task = self.tasks[index]
        strategy = task.ctx.search_strategy
        reason = None if strategy is None or task.batches else strategy.why_nothing()
        if reason is not None:
            self.logger.warning(
                'Task #%d "%s" cannot be tuned: %s', index, task.ctx.task_name, reason
            )

    def _send(
        self,
        task: TaskRecord,
        candidates: list[MeasureCandidate],
        builder: Builder,
        runner: Runner,
    ) -> None:
        task.batches += 1
        task.measure_candidates = candidates
        task.builder_results, task.runner_futures = [], []
        target = task.ctx.target
        assert target is not None
        self.progress.phase(f"building {len(candidates)} candidates")
        self.logger.info("Sending %d sample(s) to builder", len(candidates))
        with Profiler.timeit("SendToBuilder"):
            inputs = [BuilderInput(c.sch.mod, target) for c in candidates]
            if task.reference_path is None:
                assert task.ctx.mod is not None
                inputs.append(BuilderInput(reference_program(task.ctx.mod), target))
            results = builder.build(inputs)
            if task.reference_path is None:
                task.reference_path = _reference(task, results.pop())
        self.logger.info("Sending %d sample(s) to runner", len(candidates))
        with Profiler.timeit("SendToRunner"):
            best = None if task.best_ms is None else task.best_ms * 1e-3
            built = [
                RunnerInput(
                    result.artifact_path,
                    target.kind,
                    candidate.args_info,
                    task.reference_path,
                    best,
                    task.facts,
                )
                for candidate, result in zip(candidates, results, strict=True)
                if result.artifact_path is not None
            ]
            futures = iter(runner.run(built))
        task.builder_results = results
        task.runner_futures = [
            RunnerFuture.ready(RunnerResult(error_msg=result.error_msg))
            if result.artifact_path is None
            else next(futures)
            for result in results
        ]

    def join_running_task(self, task_id: int) -> list[RunnerResult]:
        """Wait for the batch of a task, tell everybody who wants to know, return the results."""
        task = self.tasks[task_id]
        candidates = task.measure_candidates
        if candidates is None:
            raise TuningError(f"Task #{task_id} has nothing that runs")
        results: list[RunnerResult] = []
        try:
            with Profiler.timeit("JoinRunnerFutures"):
                for k, future in enumerate(task.runner_futures):
                    self.progress.phase("measuring", k, len(candidates))
                    result = future.result().checked()
                    results.append(result)
                    self._tell(task_id, candidates[k], task.builder_results[k], result)
                    self._note(task_id, candidates[k], task.builder_results[k], result)
        finally:
            self._finish_batch(task_id, candidates[: len(results)], results)
        return results

    def _tell(
        self,
        task_id: int,
        candidate: MeasureCandidate,
        build: BuilderResult,
        result: RunnerResult,
    ) -> None:
        for callback in self.measure_callbacks:
            with blamed_on(callback, lambda: described([candidate])):
                callback.apply_to_trial(self, task_id, candidate, build, result)

    def _finish_batch(
        self,
        task_id: int,
        candidates: list[MeasureCandidate],
        results: list[RunnerResult],
    ) -> None:
        task = self.tasks[task_id]
        task.ctx.notify_runner_results(candidates, results)
        self.progress.phase("learning")
        for callback in self.measure_callbacks:
            with (
                Profiler.timeit(f"MeasureCallback/{type(callback).__name__}"),
                blamed_on(callback, lambda: described(candidates)),
            ):
                builds = task.builder_results[: len(results)]
                callback.apply(self, task_id, candidates, builds, results)
        task.measure_candidates = None
        task.builder_results, task.runner_futures = [], []
        if results:
            task.best_history_ms.append(FAILED_MS if task.best_ms is None else task.best_ms)
            self.logger.info('[Updated] Task #%d: "%s"', task_id, task.ctx.task_name)
            self.print_tuning_statistics()

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
        number = len(task.latency_ms) + 1
        prefix = f"[Task #{task_id}: {name}] Trial #{number}: "
        seconds = result.median_secs
        if seconds is not None:
            latency = seconds * 1e3
            task.latency_ms.append(latency)
            task.ctx.logger.info(
                "%sGFLOPs: %.4f. Time: %.4f us. Best GFLOPs: %.4f",
                prefix,
                task.flop / latency / 1e6,
                latency * 1e3,
                task.best_gflops,
            )
        else:
            task.latency_ms.append(FAILED_MS)
            building = build.error_msg is not None
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
        self.progress.trial("" if best is None else f"{best * 1e3:.2f} us")

    def touch_task(self, task_id: int) -> None:
        """Join a task if all that runs of it is done."""
        task = self.tasks[task_id]
        if task.measure_candidates is not None and all(f.done() for f in task.runner_futures):
            self.join_running_task(task_id)

    def terminate_task(self, task_id: int) -> None:
        """Take a task out of the search."""
        task = self.tasks[task_id]
        if task.is_terminated:
            raise TuningError(f"Task #{task_id} has finished before")
        task.is_terminated = True
        self.remaining_tasks -= 1
        self.logger.info(
            "Task #%d has finished. Remaining task(s): %d", task_id, self.remaining_tasks
        )

    def print_tuning_statistics(self) -> None:
        """Log the table of all tasks."""
        self.logger.info("\n%s\n", statistics_table(self.tasks))


def _reference(task: TaskRecord, result: BuilderResult) -> str:
    if result.artifact_path is None:
        raise TuningError(
            f'the program of task "{task.ctx.task_name}" cannot be built even unscheduled:\n'
            f"{result.error_msg}"
        )
    return result.artifact_path


PyTaskScheduler = TaskScheduler
"""The base class under the name that it has for user classes in TVM."""
