"""A run of the search: its tasks, and everything that works on them."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from codegen import why_not_here
from codegen.history import without_history
from codegen.machine import learn_speed
from schedule import Schedule
from search.builder import Builder, BuilderResult
from search.context import TuneContext
from search.cost_model.cost_model import CostModel
from search.database import Database
from search.database.module_equality import ModuleEquality
from search.errors import DatabaseError, TuningError
from search.measure_callback import MeasureCallback
from search.measuring.measure_candidate import MeasureCandidate
from search.records.energy_log import EnergyLog
from search.reports.interrupts import checked_on_interrupt, uninterrupted
from search.reports.live_display import Progress, live_display
from search.reports.logs import Logs
from search.runner import EvaluatorConfig, Runner, RunnerResult
from search.runs.baselines import BASELINE_SECONDS
from search.runs.claims import Claims
from search.runs.name_winner import confirmation_seconds, name_winner
from search.runs.report_task import report_of, report_task
from search.runs.run_journal import RunJournal, differences, plan_of
from search.task_scheduler import TaskScheduler
from search.trials.report import RunReport, by_program
from search.trials.run_directory import ReportLog, TrialLog
from search.trials.task_list import ListedTask, TaskList
from search.trials.trial import Stage, Trial
from search.tune_config import TuneConfig

logger = logging.getLogger("tensorir.search")

PathLike: TypeAlias = "str | os.PathLike[str]"

MODEL_FILE: Final = "cost_model.xgb"
_IN_FILES: Final = ("json", "sql")
"""The databases that are made with a directory."""
_PROBE_BYTES: Final = 1 << 16
_FOR_WINNERS: Final = 0.1
"""The share of a bounded time that measuring the best again may take, at most."""
_FOR_REPORTS: Final = 0.05
"""The share of it for what the reports compare them with, at most."""


@dataclass(frozen=True, eq=False)
class TuningRun:
    """The parts of a run, from `open` until the end of its `with`.

    `spaces` are the design spaces of each task, `trials_done` the trials of each that were made
    before the run was interrupted. `failures` has why tasks were left out that the run goes on
    without.
    """

    tasks: Sequence[TuneContext]
    task_weights: Sequence[float]
    config: TuneConfig
    work_dir: Path
    builder: Builder
    runner: Runner
    database: Database
    cost_model: CostModel | None
    measure_callbacks: list[MeasureCallback]
    scheduler: TaskScheduler
    logs: Logs
    progress: Progress
    trial_log: TrialLog
    report_log: ReportLog
    journal: RunJournal
    claims: Claims
    spaces: list[list[Schedule]]
    trials_done: list[int]
    failures: dict[int, Exception]
    started: float = field(default_factory=lambda: time.monotonic())
    """The time from which its seconds count, by the monotonic clock."""
    seconds_after: float = 0.0
    """The seconds of the time of the run that are kept for what the caller does after it."""

    @staticmethod
    @contextlib.contextmanager
    def open(
        tasks: Sequence[TuneContext],
        task_weights: Sequence[float],
        work_dir: PathLike,
        config: TuneConfig,
        *,
        builder: str | type[Builder] | Builder = "local",
        runner: str | type[Runner] | Runner = "local",
        database: str | Database = "json",
        cost_model: str | CostModel | None = "xgb",
        measure_callbacks: str | Sequence[MeasureCallback] = "default",
        task_scheduler: str | TaskScheduler | None = None,
        module_equality: str = "structural",
        verbose: int = 1,
        began: float | None = None,
        seconds_after: float = 0.0,
    ) -> Iterator[TuningRun]:
        """Return a run with parts that are given themselves, by class or by short name.

        Those made here have as many workers or threads as the first task says, and are closed at
        the end. Without `task_scheduler` it is the one of `config`. The seconds of the run count
        from `began`, by default from now, and `seconds_after` of them are left for the caller.
        TuningError if there is nothing to tune, if the runner cannot measure for a target or if
        `work_dir` cannot be written to.
        """
        began = time.monotonic() if began is None else began
        if not tasks:
            raise TuningError("there is nothing to tune: the list of tasks is empty")
        if len(tasks) != len(task_weights):
            raise TuningError(f"{len(tasks)} tasks need as many weights, got {len(task_weights)}")
        _check_tasks(tasks)
        Builder.kinds.check(builder)
        Runner.kinds.check(runner)
        Database.kinds.check(database)
        if cost_model != "none":
            CostModel.kinds.check(cost_model)
        TaskScheduler.kinds.check(task_scheduler)
        ModuleEquality.kinds.check(module_equality)
        callbacks = MeasureCallback.create(measure_callbacks)
        _refuse_targets_of_other_machines(tasks, runner)
        folder = _writable(work_dir)
        threads = tasks[0].num_threads
        with contextlib.ExitStack() as stack:
            stack.enter_context(without_history())
            journal = stack.enter_context(contextlib.closing(RunJournal(folder)))
            db = open_database(database, folder, module_equality=module_equality)
            stack.callback(_settle, db)
            model = _cost_model(cost_model, config, tasks[0])
            progress = live_display(config.bounded_trials, verbose)
            stack.enter_context(contextlib.closing(progress))
            names = [task.task_name for task in tasks]
            logs = stack.enter_context(Logs(folder, names, progress, verbose))
            if tasks[0].objective.reads_energy:
                energy = EnergyLog(folder)
                for task in tasks:
                    task.objective = task.objective.kept_in(energy)
            for task, logger in zip(tasks, logs.tasks, strict=True):
                task.logger = logger
            if not isinstance(runner, Runner):
                timed = tasks[0].objective.evaluator() if isinstance(runner, str) else {}
                timing = {"evaluator_config": EvaluatorConfig(**timed)} if timed else {}
                runner = Runner.create(runner, **timing)
                stack.callback(runner.close)
                _refuse_targets_of_other_machines(tasks, runner)
            if builder == "local":
                builder = runner.own_builder() or builder
            if not isinstance(builder, Builder):
                workers = {"max_workers": threads} if isinstance(builder, str) else {}
                builder = Builder.create(builder, **workers)
                stack.callback(builder.close)
            for task in tasks:
                if task.target is not None and runner.measures_here(task.target):
                    learn_speed(task.target)
            builder.warm_up()
            runner.warm_up()
            failures: dict[int, Exception] = {}
            spaces = [
                _design_spaces(task, place, failures if config.keep_going else None)
                for place, task in enumerate(tasks)
            ]
            plan = plan_of(tasks, spaces, config, model)
            # a trial whose record is gone is made again
            made = zip(tasks, journal.begin(plan, len(tasks)), strict=True)
            done = [min(count, _record_count(db, task)) for task, count in made]
            progress.resumed(sum(done))
            run = TuningRun(
                tasks=tasks,
                task_weights=task_weights,
                config=config,
                work_dir=folder,
                builder=builder,
                runner=runner,
                database=db,
                cost_model=model,
                measure_callbacks=callbacks,
                scheduler=TaskScheduler.create(
                    task_scheduler or config.task_scheduler,
                    **({} if task_scheduler else config.task_scheduler_config or {}),
                ),
                logs=logs,
                progress=progress,
                trial_log=TrialLog(folder),
                report_log=ReportLog(folder),
                journal=journal,
                claims=stack.enter_context(contextlib.closing(Claims(db))),
                spaces=spaces,
                trials_done=done,
                failures=failures,
                started=began,
                seconds_after=seconds_after,
            )
            run._list_tasks()
            run._say_how_it_starts(plan)
            run._resume_model(made_here=not isinstance(cost_model, CostModel))
            yield run

    @property
    def seconds(self) -> float:
        """The seconds that the run has been going on."""
        return time.monotonic() - self.started

    @property
    def seconds_left(self) -> float:
        """The seconds until the time of the run is over, at least 0; infinite for any time."""
        most = self.config.max_seconds
        return math.inf if most is None else max(0.0, most - self.seconds_after - self.seconds)

    @property
    def is_over_time(self) -> bool:
        """True if no further trial is to begin."""
        return not self.has_time_for()

    def has_time_for(self, seconds: float = 0.0) -> bool:
        """Say whether a trial that begins in so many seconds can end in time.

        It is expected to take as long as those before it. The best are to be measured again then,
        and what the report compares them with.
        """
        at_the_end = self.seconds_for_winners + self.seconds_for_reports
        needed = seconds + self._usual_trial_seconds + at_the_end
        return self.seconds_left > needed

    @property
    def _usual_trial_seconds(self) -> float:
        tasks = self.scheduler.tasks
        count = sum(len(task.latency_ms) for task in tasks)
        return sum(task.measure_seconds for task in tasks) / count if count else 0.0

    @property
    def seconds_for_winners(self) -> float:
        """The seconds at the end of a run of bounded time in which no trial begins."""
        most = self.config.max_seconds
        if most is None or self.config.num_confirmed == 0:
            return 0.0
        return min(_FOR_WINNERS * most, confirmation_seconds(most, len(self.tasks)))

    @property
    def seconds_for_reports(self) -> float:
        """The seconds after that, in which unscheduled programs are measured."""
        most = self.config.max_seconds
        if most is None or self.config.num_confirmed == 0:
            return 0.0
        return min(_FOR_REPORTS * most, BASELINE_SECONDS * len(self.tasks))

    def tune(self, on_interrupt: str = "raise", finish: Callable[[], object] | None = None) -> None:
        """Search, and name the winner of each task; `finish` is called before the run is over.

        Ctrl-C ends it, and raises KeyboardInterrupt when what was measured is kept; with
        `on_interrupt="return"` it does not.
        """
        checked_on_interrupt(on_interrupt)
        try:
            self.scheduler.tune(self)
            self._name_winners()
            self._require_one_that_is_left()
            if len(self.tasks) > 1:
                self.logs.scheduler.info("All tasks, by weight: %s", self.report.in_a_sentence())
            self.scheduler.print_tuning_statistics()
            self.scheduler.say_what_failed()
            if finish is not None:
                finish()
            self.journal.end()
            self.database.report = self.report
        except KeyboardInterrupt:
            self.logs.scheduler.warning(
                "Interrupted: what has been measured is kept, and the same call goes on from there"
            )
            self.database.report = self.report
            if on_interrupt == "raise":
                raise
        finally:
            with uninterrupted():
                self.builder.clean_up()

    def _name_winners(self) -> None:
        """Measure the best of each task again, as far as there is time, and report on it."""
        tasks, trials = self.scheduler.tasks, by_program(self.trial_log.read())
        in_vain = 0
        for index, task in enumerate(tasks):
            is_over = self.seconds_left == 0
            in_vain += is_over and task.best_ms is not None
            if not is_over:
                rest = 1 - index / len(tasks)
                left = max(0.0, self.seconds_left - self.seconds_for_reports * rest)
                with self.scheduler.leaving_out(index):
                    name_winner(self, task, left / (len(tasks) - index))
            if index not in self.failures:
                with self.scheduler.leaving_out(index):
                    report_task(self, task, trials)
        if in_vain and self.config.num_confirmed:
            self.logs.scheduler.info(
                "Time was too short to measure the best of %d task(s) again: their winners are the "
                "fastest of the search, measured once",
                in_vain,
            )

    @property
    def report(self) -> RunReport:
        """The report of the run; of tasks that it did not come to the end of, what is known."""
        tasks = self.scheduler.tasks
        is_complete = all(task.report is not None for task in tasks)
        trials = {} if is_complete else by_program(self.trial_log.read())
        return RunReport([task.report or report_of(self, task, trials) for task in tasks])

    def _require_one_that_is_left(self) -> None:
        """Raise TuningError if every task was left out."""
        if len(self.failures) == len(self.tasks):
            place = min(self.failures)
            raise TuningError(
                f'no task could be tuned; the first one, "{self.tasks[place].task_name}", failed '
                f"with: {self.failures[place]}"
            ) from self.failures[place]

    def note_trial(
        self, place: int, candidate: MeasureCandidate, build: BuilderResult, result: RunnerResult
    ) -> None:
        """Enter a trial of a task, which was measured or has failed, into the log and journal."""
        task = self.scheduler.tasks[place]
        assert task.ctx.mod is not None
        stage: Stage = "stopped" if result.stopped else "done"
        if build.error_msg is not None:
            stage = "build"
        elif result.error_msg is not None:
            stage = result.stage
        trial = Trial(
            task=task.ctx.task_name,
            workload=self.database.workload_key(task.ctx.mod),
            target=str(task.ctx.target),
            batch=task.batches - 1,
            number=task.trials,
            stage=stage,
            error=build.error_msg or result.error_msg,
            build_secs=build.seconds + result.build_seconds,
            measure_secs=result.seconds,
            run_secs=result.run_secs or (),
            predicted=candidate.predicted,
            time=time.time(),
            space=candidate.space_index,
            decisions=None if candidate.decisions is None else list(candidate.decisions),
            machine=result.machine,
        )
        self.trial_log.append(trial)
        if result.median_secs is not None:
            task.ctx.objective.note(result.run_secs or (), [result])
        self.journal.note_trial(place)

    def save_model(self) -> None:
        """Write the state of the cost model to `work_dir`, for a run that goes on with it."""
        if self.cost_model is None:
            return
        path = self.work_dir / MODEL_FILE
        try:
            self.cost_model.save(path)
            self.journal.keep_model(path)
        except OSError as error:
            self.logs.scheduler.warning("The cost model cannot be saved: %s", error)

    def _list_tasks(self) -> None:
        """Write down the tasks and their weights, for whoever reads the directory."""
        listed = []
        for task, weight in zip(self.tasks, self.task_weights, strict=True):
            assert task.mod is not None
            key = self.database.workload_key(task.mod)
            listed.append(ListedTask(task.task_name, key, str(task.target), float(weight)))
        TaskList(self.work_dir).add(listed)

    def _say_how_it_starts(self, plan: Mapping[str, Any]) -> None:
        self.logs.scheduler.info("Working directory: %s", self.work_dir)
        if self.journal.is_running_elsewhere and not self.database.has_claims:
            self.logs.scheduler.warning(
                "Another process runs the same search in %s, and both measure the same candidates: "
                'stop one of them, or use a database whose runs share their work (database="sql")',
                self.work_dir,
            )
        done = sum(self.trials_done)
        if done:
            total = self.config.bounded_trials
            of = "" if total is None else f" of {total}"
            self.logs.scheduler.info("Resuming after %d%s trials", done, of)
        for other in () if done else self.journal.others():
            self.logs.scheduler.info(
                "This run starts beside an unfinished one of %s, which goes on when it is started "
                "with its settings again; the two differ in %s",
                _names(other),
                ", ".join(differences(plan, other)) or "the process, where that one goes on",
            )
        for place, task in enumerate(self.tasks):
            assert task.mod is not None
            workload = self.database.commit_workload(task.mod)
            others = self.database.count(workload) - self.database.count(workload, task.target)
            if others:
                self.logs.scheduler.info(
                    'Task #%d "%s": %d records of the database are for other targets than %s, and '
                    "not used",
                    place,
                    task.task_name,
                    others,
                    task.target,
                )

    def _resume_model(self, made_here: bool) -> None:
        """Let a cost model that was made for this run go on where the interrupted one was.

        One that the user gave is as the user wants it. Without a file that can be read, the model
        learns from the database like that of any other run.
        """
        path = self.journal.model
        if self.cost_model is None or not made_here or path is None or not sum(self.trials_done):
            return
        try:
            self.cost_model.load(path)
        except (TuningError, OSError) as error:
            self.logs.scheduler.warning("The cost model starts anew: %s", error)
        else:
            self.logs.scheduler.info("The cost model goes on from %s", path)


def open_database(
    database: str | Database, work_dir: PathLike, *, module_equality: str = "structural"
) -> Database:
    """Return a database that is given itself, by short name or by URL.

    One in files is in `work_dir`; one on a server keeps there what it is told, too.
    """
    if not isinstance(database, str):
        return Database.create(database)
    where = {"work_dir": work_dir} if database in _IN_FILES or "://" in database else {}
    return Database.create(database, module_equality=module_equality, **where)


def _settle(database: Database) -> None:
    try:
        database.settle()
    except DatabaseError as error:
        logger.warning("Not all records were entered: %s", error)


def _design_spaces(
    task: TuneContext, place: int, failures: dict[int, Exception] | None
) -> list[Schedule]:
    """Return the design spaces of a task; an error goes to `failures`, where it is given."""
    if failures is None:
        return task.generate_design_space()
    try:
        return task.generate_design_space()
    except Exception as error:  # noqa: BLE001  a rule may raise anything, and costs its task only
        failures[place] = error
        return []


def _cost_model(
    kind: str | CostModel | None, config: TuneConfig, task: TuneContext
) -> CostModel | None:
    if kind is None:
        return None
    options: dict[str, Any] = {}
    if kind == "xgb":
        options["num_tuning_cores"] = task.num_threads
        if config.adaptive_training is not None:
            options["adaptive_training"] = config.adaptive_training
    elif kind == "random":
        options["seed"] = task.fork_seed()
    return CostModel.create(kind, **options)


def _record_count(database: Database, task: TuneContext) -> int:
    assert task.mod is not None
    return database.count(database.commit_workload(task.mod), task.target)


def _names(plan: Mapping[str, Any]) -> str:
    """Return the names of the tasks of an unfinished run, as far as its file has them."""
    tasks = plan.get("tasks")
    names = [str(task["name"]) for task in tasks or () if isinstance(task, dict) and "name" in task]
    return ", ".join(f'"{name}"' for name in names[:3]) + (" ..." if len(names) > 3 else "")


def _refuse_targets_of_other_machines(
    tasks: Sequence[TuneContext], runner: str | type[Runner] | Runner
) -> None:
    for task in tasks:
        if task.target is None:
            continue
        if isinstance(runner, Runner):
            reason = runner.why_not(task.target)
        else:
            reason = why_not_here(task.target) if runner == "local" else None
        if reason is not None:
            elsewhere = isinstance(runner, Runner) and not runner.measures_here(task.target)
            raise TuningError(
                f"candidates for {task.target} cannot be measured: {reason}"
                if elsewhere
                else f"candidates for {task.target} cannot be measured on this machine: {reason}, "
                "or pass a runner that measures them where they can run"
            )


def _check_tasks(tasks: Sequence[object]) -> None:
    """Raise TuningError for what is no task, or has nothing to tune it with."""
    for place, task in enumerate(tasks):
        if not isinstance(task, TuneContext):
            raise TuningError(f"tasks[{place}] is no TuneContext but {type(task).__name__}")
        needed = {
            "mod": task.mod,
            "target": task.target,
            "space_generator": task.space_generator,
            "search_strategy": task.search_strategy,
        }
        missing = [name for name, part in needed.items() if part is None]
        if task.objective != tasks[0].objective:  # type: ignore[attr-defined]
            raise TuningError(
                f'task "{task.task_name}" has the objective {task.objective}, and others of the '
                "run another: they share trials and a cost model, so give all the same"
            )
        if missing:
            raise TuningError(
                f'task "{task.task_name}" has no {" and no ".join(missing)}: pass '
                f"{'it' if len(missing) == 1 else 'them'} to TuneContext"
            )


def _writable(work_dir: PathLike) -> Path:
    """Return a directory, made if need be, in which files can be written; TuningError if not."""
    if not isinstance(work_dir, (str, os.PathLike)):
        raise TuningError(f"work_dir is the path of a directory, got {work_dir!r}")
    folder = Path(work_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
    except OSError as error:
        reason = "it is a file" if folder.is_file() else error.strerror
        raise TuningError(
            f"nothing can be written to work_dir {folder}: {reason}; give a directory that "
            "may be written to, with space left on its disk"
        ) from error
    return folder
