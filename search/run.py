"""The resources of a run of the search: its tasks, parts, files and time."""

from __future__ import annotations

import contextlib
import logging
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from codegen import why_not_here
from codegen.errors import WorkerError
from codegen.history import without_history
from codegen.machine import learn_speed
from search.builder import Builder
from search.context import TuneContext
from search.cost_model.cost_model import CostModel
from search.cost_model.xgb_model import XGBModel
from search.database import Database
from search.database.line_store import EnergyLog, LineStore
from search.errors import DatabaseError, TuningError
from search.measure_callback import MeasureCallback
from search.options import TuneConfig
from search.reports.live_display import Progress, live_display
from search.reports.logs import Logs
from search.reports.report import TaskReport
from search.reports.run_directory import add_tasks
from search.runner import EvaluatorConfig, Runner
from search.runs.leases import Leases
from search.runs.run_journal import RunJournal, plan_of
from search.task_scheduler.task_scheduler import TaskScheduler
from search.task_scheduler.task_state import DONE, TaskState
from tensorir.errors import TensorIRError
from tensorir.paths import PathLike, as_path

logger = logging.getLogger("tensorir.search")


MODEL_FILE: Final = "cost_model.xgb"
IN_FILES: Final = ("json", "sql")
"""The databases whose files are in the working directory."""
_PROBE_BYTES: Final = 1 << 16


@dataclass(frozen=True, eq=False)
class Run:
    """The tasks of a run, its parts and its files, from `open` until the end of its `with`."""

    tasks: list[TaskState]
    config: TuneConfig
    budget: TimeBudget
    work_dir: Path
    builder: Builder
    runner: Runner
    database: Database
    cost_model: CostModel | None
    measure_callbacks: list[MeasureCallback]
    scheduler: TaskScheduler
    log: logging.Logger
    """The logger of the run; each task has its own."""
    progress: Progress
    store: LineStore
    journal: RunJournal
    leases: Leases

    @staticmethod
    @contextlib.contextmanager
    def open(
        tasks: Sequence[TuneContext],
        task_weights: Sequence[float],
        work_dir: PathLike,
        config: TuneConfig,
        *,
        began: float | None = None,
        seconds_after: float = 0.0,
    ) -> Iterator[Run]:
        """Yield a run with the parts of `config`, and close what was created here at the end.

        Parts that are created here have the number of workers or threads of the first task. The
        seconds of the run count from `began`, by default from now, and `seconds_after` of them are
        left for the caller. Raises TuningError if there is nothing to tune, if the runner cannot
        measure for a target, or if `work_dir` cannot be written to.
        """
        budget = TimeBudget(
            config.max_seconds,
            len(tasks),
            config.num_confirmed > 0,
            time.monotonic() if began is None else began,
            seconds_after,
        )
        _check_tasks(tasks, task_weights)
        callbacks = MeasureCallback.create(config.measure_callbacks)
        _refuse_unmeasurable_targets(tasks, config.runner)
        folder = _writable(work_dir)
        with contextlib.ExitStack() as stack:
            # schedules of earlier searches must not be applied to candidates
            stack.enter_context(without_history())
            journal = stack.enter_context(contextlib.closing(RunJournal(folder)))
            database = open_database(
                config.database, folder, module_equality=config.module_equality
            )
            stack.callback(_commit_remaining, database)
            model = _cost_model(config, tasks[0])
            display = live_display(config.max_trials_global, config.verbose)
            progress = stack.enter_context(contextlib.closing(display))
            names = [task.task_name for task in tasks]
            logs = stack.enter_context(Logs(folder, names, progress, config.verbose))
            for task, task_log in zip(tasks, logs.tasks, strict=True):
                task.logger, task.progress = task_log, progress
            if tasks[0].objective.reads_energy:
                energy = EnergyLog(folder)
                for task in tasks:
                    task.objective = task.objective.kept_in(energy)
            builder, runner = _measuring_parts(config, tasks, stack)
            progress.phase("measuring the machine")
            for task in tasks:
                if runner.measures_here(task.known_target):
                    learn_speed(task.known_target)
            builder.warm_up()  # processes start while the design spaces are generated
            runner.warm_up()
            states = []
            for k, (task, weight) in enumerate(zip(tasks, task_weights, strict=True)):
                progress.phase("generating design spaces", k, len(tasks))
                states.append(_task_state(task, weight, k, config.keep_going))
            plan = plan_of(tasks, [state.spaces for state in states], config, model)
            for state, trials in zip(states, journal.begin(plan, len(tasks)), strict=True):
                # a trial in the journal without a record is repeated
                state.trials_before = min(trials, _record_count(database, state.ctx))
            progress.resumed(sum(state.trials_before for state in states))
            run = Run(
                tasks=states,
                config=config,
                budget=budget,
                work_dir=folder,
                builder=builder,
                runner=runner,
                database=database,
                cost_model=model,
                measure_callbacks=callbacks,
                scheduler=config.made_scheduler(),
                log=logs.scheduler,
                progress=progress,
                store=LineStore(folder),
                journal=journal,
                leases=stack.enter_context(contextlib.closing(Leases(database))),
            )
            run._list_tasks()
            run._log_start()
            if any(state.trials_before for state in states) and model is not config.cost_model:
                run._load_model()
            yield run

    @contextlib.contextmanager
    def isolate_failure(self, task: TaskState) -> Iterator[None]:
        """With `keep_going`, an error in the body of this `with` ends the task and not the run.

        The time of the body counts as that of the task. Files that cannot be written and processes
        that do not start end the run in any case.
        """
        began = time.monotonic()
        try:
            yield
        except (DatabaseError, WorkerError, OSError):
            raise
        except Exception as error:
            if not self.config.keep_going:
                raise
            task.failure = error
            task.ended = task.ended or DONE
            is_ours = isinstance(error, TensorIRError)
            text = error if is_ours else f"{type(error).__name__}: {error}"
            self.log.error("%s is left out: %s", task.title, text)
            task.ctx.logger.error("The task is left out", exc_info=error)
        finally:
            task.seconds += time.monotonic() - began

    def save_model(self) -> None:
        """Write the state of the cost model to `work_dir`, where the same run resumes with it."""
        path = self.work_dir / MODEL_FILE
        if self.cost_model is not None:
            try:
                self.cost_model.save(path)
                self.journal.note_model(path)
            except OSError as error:
                self.log.warning("The cost model cannot be saved: %s", error)

    def _load_model(self) -> None:
        """Load the cost model that this run saved; without one it learns from the database."""
        path = self.work_dir / MODEL_FILE
        if self.cost_model is not None:
            try:
                self.journal.check_model(path)
                self.cost_model.load(path)
            except (TuningError, OSError) as error:
                self.log.warning("The cost model is trained again: %s", error)
            else:
                self.log.info("The cost model is loaded from %s", path)

    def _list_tasks(self) -> None:
        """Write the tasks and their weights to `work_dir`, for the report page."""
        reports = []
        for task in self.tasks:
            key = self.database.workload_key(task.ctx.program)
            target = str(task.ctx.target)
            reports.append(TaskReport(task.ctx.task_name, target, key, float(task.task_weight)))
        add_tasks(self.store, reports)

    def _log_start(self) -> None:
        """Log the directory, resumed trials, unfinished runs, and records for other targets."""
        self.log.info("Working directory: %s", self.work_dir)
        if self.journal.is_running_elsewhere and not self.database.has_claims:
            self.log.warning(
                "Another process runs the same search in %s, and both measure the same candidates: "
                'stop one of them, or use a database whose runs share their work (database="sql")',
                self.work_dir,
            )
        resumed = sum(task.trials_before for task in self.tasks)
        if resumed:
            total = self.config.max_trials_global
            of = "" if total is None else f" of {total}"
            self.log.info("Resuming after %d%s trials", resumed, of)
        elif self.journal.others():
            self.log.info(
                "This run is new: an unfinished run in %s has another program, target, space, "
                "seed, strategy or number of trials, and resumes when it is started with those",
                self.work_dir,
            )
        for task in self.tasks:
            workload = self.database.commit_workload(task.ctx.program)
            others = self.database.count(workload)
            others -= self.database.count(workload, task.ctx.target)
            if others:
                self.log.info(
                    "%s: %d records of the database are for other targets than %s, and not used",
                    task.title,
                    others,
                    task.ctx.target,
                )


def open_database(
    database: str | Database, work_dir: PathLike, *, module_equality: str = "structural"
) -> Database:
    """Return a database from an instance, a short name or a URL.

    A database in files is in `work_dir`; a database on a server has its log there.
    """
    if not isinstance(database, str):
        return Database.create(database)
    where = (
        {"work_dir": as_path(work_dir, "work_dir")}
        if database in IN_FILES or "://" in database
        else {}
    )
    return Database.create(database, module_equality=module_equality, **where)


def _check_tasks(tasks: Sequence[object], weights: Sequence[float]) -> None:
    """Raise TuningError unless each task is complete and has a weight."""
    if not tasks:
        raise TuningError("there is nothing to tune: the list of tasks is empty")
    if len(tasks) != len(weights):
        raise TuningError(
            f"task_weights has {len(weights)} weights for {len(tasks)} task(s); give one for each"
        )
    for place, task in enumerate(tasks):
        if not isinstance(task, TuneContext):
            raise TuningError(
                f"tasks[{place}] is a TuneContext, got {type(task).__name__}; pass "
                "TuneContext(mod, target=...), or call tune_module(mod, ...)"
            )
        for name in ("mod", "target", "space_generator", "search_strategy"):
            if getattr(task, name) is None:
                raise TuningError(f'task "{task.task_name}" has no {name}: pass one to TuneContext')
        if task.objective != tasks[0].objective:  # type: ignore[attr-defined]
            raise TuningError(
                f'task "{task.task_name}" has the objective {task.objective}, another task a '
                "different one: tasks of a run share a cost model, so give all the same objective"
            )


def _refuse_unmeasurable_targets(
    tasks: Sequence[TuneContext], runner: str | type[Runner] | Runner
) -> None:
    """Raise TuningError if a runner cannot measure for the target of a task.

    A runner that is given by name or class is checked again when it exists.
    """
    for target in (task.known_target for task in tasks):
        if isinstance(runner, Runner):
            reason, is_here = runner.why_not(target), runner.measures_here(target)
        else:
            reason, is_here = why_not_here(target) if runner == "local" else None, True
        if reason is not None:
            reason = reason.rstrip(".")
            raise TuningError(
                f"candidates for {target} cannot be measured on this machine: {reason}, or pass a "
                "runner that measures them where they can run"
                if is_here
                else f"candidates for {target} cannot be measured: {reason}"
            )


def _writable(work_dir: PathLike) -> Path:
    """Create a directory if need be; TuningError unless files can be written in it."""
    folder = as_path(work_dir, "work_dir")
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


def _commit_remaining(database: Database) -> None:
    """Commit the remaining records; a failure is only logged, because the search is over."""
    try:
        database.settle()
    except DatabaseError as error:
        logger.warning("Not all records were committed: %s", error)


def _cost_model(config: TuneConfig, task: TuneContext) -> CostModel | None:
    """Return the cost model of a run, None for strategies without one."""
    kind = config.cost_model
    if kind is None:
        return None
    options: dict[str, Any] = {}
    if kind == "xgb":
        options["num_tuning_cores"] = task.num_threads
        if config.adaptive_training is not None:
            options["adaptive_training"] = config.adaptive_training
        return XGBModel.of(task.known_target, **options)
    if kind == "random":
        options["seed"] = task.fork_seed()
    return CostModel.create(kind, **options)


def _measuring_parts(
    config: TuneConfig, tasks: Sequence[TuneContext], stack: contextlib.ExitStack
) -> tuple[Builder, Runner]:
    """Return the builder and the runner of a run; `stack` closes what is created here."""
    builder, runner = config.builder, config.runner
    if not isinstance(runner, Runner):
        timed = tasks[0].objective.evaluator() if isinstance(runner, str) else {}
        timing = {"evaluator_config": EvaluatorConfig(**timed)} if timed else {}
        runner = Runner.create(runner, **timing)
        stack.callback(runner.close)
        _refuse_unmeasurable_targets(tasks, runner)
    if builder == "local":
        builder = runner.own_builder() or builder
    if not isinstance(builder, Builder):
        workers = {"max_workers": tasks[0].num_threads} if isinstance(builder, str) else {}
        builder = Builder.create(builder, **workers)
        stack.callback(builder.close)
    return builder, runner


def _task_state(task: TuneContext, weight: float, index: int, keep_going: bool) -> TaskState:
    """Return a task with its design spaces, or with `keep_going` with the error of a rule."""
    state = TaskState(task, weight, index)
    try:
        state.spaces = task.generate_design_space()
    except Exception as error:
        if not keep_going:
            raise
        state.failure = error
    return state


def _record_count(database: Database, task: TuneContext) -> int:
    """Return the number of records of a task in the database."""
    return database.count(database.commit_workload(task.program), task.target)


_WINNERS_FRACTION: Final = 0.1
"""The maximum fraction of a bounded time for re-measuring the best candidates."""
_REPORTS_FRACTION: Final = 0.05
"""The maximum fraction of a bounded time for measuring the unscheduled programs."""
_SHARE: Final = 0.02
_LEAST_SECONDS: Final = 0.5
"""The minimum seconds for re-measuring the best candidates of a task."""
BASELINE_SECONDS: Final = 0.3
"""The minimum of the time limit of an unscheduled program in seconds."""


@dataclass(frozen=True)
class TimeBudget:
    """The time budget of a run of `tasks` tasks: `max_seconds` from `began`, None for no limit.

    `began` is a time of the monotonic clock. `after` seconds of the budget are reserved for the
    caller. With `is_confirmed` the best candidates of each task are measured again at the end.
    """

    max_seconds: float | None
    tasks: int
    is_confirmed: bool
    began: float
    after: float = 0.0

    @property
    def seconds(self) -> float:
        """The seconds since the run began."""
        return time.monotonic() - self.began

    @property
    def left(self) -> float:
        """The seconds until the run is over, at least 0; infinite without a limit."""
        if self.max_seconds is None:
            return math.inf
        return max(0.0, self.max_seconds - self.after - self.seconds)

    def has_time_for(self, seconds: float) -> bool:
        """Return True if work of this many seconds ends before the winners are named."""
        return self.left > seconds + self._seconds_for_winners + self._seconds_for_reports

    @property
    def _seconds_for_winners(self) -> float:
        """The seconds at the end of a bounded run that are reserved for naming winners."""
        if self.max_seconds is None or not self.is_confirmed:
            return 0.0
        return min(_WINNERS_FRACTION * self.max_seconds, self._confirmation(self.max_seconds))

    @property
    def _seconds_for_reports(self) -> float:
        """The seconds at the end that are reserved for measuring unscheduled programs."""
        if self.max_seconds is None or not self.is_confirmed:
            return 0.0
        return min(_REPORTS_FRACTION * self.max_seconds, BASELINE_SECONDS * self.tasks)

    @property
    def for_a_winner(self) -> float:
        """The seconds for naming the winner of one task, by the duration of the run so far."""
        return self._confirmation(self.seconds) / self.tasks

    def for_winner_number(self, index: int) -> float:
        """Return the maximum seconds for naming winner `index`."""
        rest = 1 - index / self.tasks
        return max(0.0, self.left - self._seconds_for_reports * rest) / (self.tasks - index)

    def _confirmation(self, seconds: float) -> float:
        return max(_LEAST_SECONDS * self.tasks, _SHARE * seconds)
