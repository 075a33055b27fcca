"""The resources of a run of the search: its tasks, and everything that works on them."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from codegen import why_not_here
from codegen.history import without_history
from codegen.machine import learn_speed
from search.builder import Builder
from search.context import TuneContext
from search.cost_model.cost_model import CostModel
from search.database import Database
from search.database.line_store import EnergyLog, LineStore
from search.errors import DatabaseError, TuningError, WorkerError
from search.measure_callback import MeasureCallback
from search.options import TuneConfig
from search.reports.live_display import Progress, live_display
from search.reports.logs import Logs
from search.reports.report import TaskReport
from search.reports.run_directory import add_tasks
from search.runner import EvaluatorConfig, Runner
from search.runs.claims import Claims
from search.runs.run_journal import RunJournal, differences, plan_of
from search.runs.time_budget import TimeBudget
from search.task_scheduler.task_scheduler import TaskScheduler
from search.task_scheduler.task_state import DONE, TaskState
from tensorir.errors import TensorIRError

logger = logging.getLogger("tensorir.search")

PathLike: TypeAlias = "str | os.PathLike[str]"

MODEL_FILE: Final = "cost_model.xgb"
_IN_FILES: Final = ("json", "sql")
"""The databases that are made with a directory."""
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
    logs: Logs
    progress: Progress
    store: LineStore
    journal: RunJournal
    claims: Claims

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
        """Return a run with the parts that `config` says.

        Those made here have as many workers or threads as the first task says, and are closed at
        the end. The seconds of the run count from `began`, by default from now, and `seconds_after`
        of them are left for the caller. TuningError if there is nothing to tune, if the runner
        cannot measure for a target or if `work_dir` cannot be written to.
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
        _refuse_targets_of_other_machines(tasks, config.runner)
        folder = _writable(work_dir)
        with contextlib.ExitStack() as stack:
            stack.enter_context(without_history())
            journal = stack.enter_context(contextlib.closing(RunJournal(folder)))
            database = open_database(
                config.database, folder, module_equality=config.module_equality
            )
            stack.callback(_settle, database)
            model = _cost_model(config, tasks[0])
            bounded = config.max_trials_global
            progress = stack.enter_context(
                contextlib.closing(live_display(bounded, config.verbose))
            )
            names = [task.task_name for task in tasks]
            logs = stack.enter_context(Logs(folder, names, progress, config.verbose))
            for task, of_task in zip(tasks, logs.tasks, strict=True):
                task.logger, task.progress = of_task, progress
            if tasks[0].objective.reads_energy:
                energy = EnergyLog(folder)
                for task in tasks:
                    task.objective = task.objective.kept_in(energy)
            builder, runner = _measuring_parts(config, tasks, stack)
            for task in tasks:
                if task.target is not None and runner.measures_here(task.target):
                    learn_speed(task.target)
            builder.warm_up()
            runner.warm_up()
            states = [
                _task_state(task, weight, k, config.keep_going)
                for k, (task, weight) in enumerate(zip(tasks, task_weights, strict=True))
            ]
            plan = plan_of(tasks, [state.spaces for state in states], config, model)
            for state, made in zip(states, journal.begin(plan, len(tasks)), strict=True):
                # a trial whose record is gone is made again
                state.trials_before = min(made, _record_count(database, state.ctx))
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
                logs=logs,
                progress=progress,
                store=LineStore(folder),
                journal=journal,
                claims=stack.enter_context(contextlib.closing(Claims(database))),
            )
            run._list_tasks()
            run._say_how_it_starts(plan)
            run._resume_model()
            yield run

    @property
    def log(self) -> logging.Logger:
        """The logger of the run; each task has its own."""
        return self.logs.scheduler

    @contextlib.contextmanager
    def leaving_out(self, task: TaskState) -> Iterator[None]:
        """Go on without a task on which the body of this `with` fails, if the run is to keep going.

        The time that the body takes counts as that of the task.
        What ends any task ends the run: files that cannot be written, processes that do not start.
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
            known = isinstance(error, TensorIRError)
            text = error if known else f"{type(error).__name__}: {error}"
            self.log.error("%s is left out: %s", task.title, text)
            task.ctx.logger.error("The task is left out", exc_info=error)
        finally:
            task.seconds += time.monotonic() - began

    def save_model(self) -> None:
        """Write the state of the cost model to `work_dir`, for a run that goes on with it."""
        if self.cost_model is None:
            return
        path = self.work_dir / MODEL_FILE
        try:
            self.cost_model.save(path)
            self.journal.keep_model(path)
        except OSError as error:
            self.log.warning("The cost model cannot be saved: %s", error)

    def _list_tasks(self) -> None:
        """Write down the tasks and their weights, for whoever reads the directory."""
        listed = []
        for task in self.tasks:
            assert task.ctx.mod is not None
            key = self.database.workload_key(task.ctx.mod)
            target = str(task.ctx.target)
            listed.append(TaskReport(task.ctx.task_name, target, key, float(task.task_weight)))
        add_tasks(self.store, listed)

    def _say_how_it_starts(self, plan: Mapping[str, Any]) -> None:
        self.log.info("Working directory: %s", self.work_dir)
        if self.journal.is_running_elsewhere and not self.database.has_claims:
            self.log.warning(
                "Another process runs the same search in %s, and both measure the same candidates: "
                'stop one of them, or use a database whose runs share their work (database="sql")',
                self.work_dir,
            )
        done = sum(task.trials_before for task in self.tasks)
        if done:
            total = self.config.max_trials_global
            of = "" if total is None else f" of {total}"
            self.log.info("Resuming after %d%s trials", done, of)
        for other in () if done else self.journal.others():
            self.log.info(
                "This run starts beside an unfinished one of %s, which goes on when it is started "
                "with its settings again; the two differ in %s",
                _names(other),
                ", ".join(differences(plan, other)) or "the process, where that one goes on",
            )
        for task in self.tasks:
            assert task.ctx.mod is not None
            workload = self.database.commit_workload(task.ctx.mod)
            others = self.database.count(workload)
            others -= self.database.count(workload, task.ctx.target)
            if others:
                self.log.info(
                    "%s: %d records of the database are for other targets than %s, and not used",
                    task.title,
                    others,
                    task.ctx.target,
                )

    def _resume_model(self) -> None:
        """Let a cost model that was made for this run go on where the interrupted one was.

        One that the user gave is as the user wants it. Without a file that can be read, the model
        learns from the database like that of any other run.
        """
        path = self.journal.model
        resumes = any(task.trials_before for task in self.tasks)
        made_here = self.config.cost_model is not self.cost_model
        if self.cost_model is None or not made_here or path is None or not resumes:
            return
        try:
            self.cost_model.load(path)
        except (TuningError, OSError) as error:
            self.log.warning("The cost model starts anew: %s", error)
        else:
            self.log.info("The cost model goes on from %s", path)


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


def _measuring_parts(
    config: TuneConfig, tasks: Sequence[TuneContext], stack: contextlib.ExitStack
) -> tuple[Builder, Runner]:
    """Return the builder and the runner of a run; `stack` closes those that are made here."""
    builder, runner = config.builder, config.runner
    if not isinstance(runner, Runner):
        timed = tasks[0].objective.evaluator() if isinstance(runner, str) else {}
        timing = {"evaluator_config": EvaluatorConfig(**timed)} if timed else {}
        runner = Runner.create(runner, **timing)
        stack.callback(runner.close)
        _refuse_targets_of_other_machines(tasks, runner)
    if builder == "local":
        builder = runner.own_builder() or builder
    if not isinstance(builder, Builder):
        workers = {"max_workers": tasks[0].num_threads} if isinstance(builder, str) else {}
        builder = Builder.create(builder, **workers)
        stack.callback(builder.close)
    return builder, runner


def _task_state(task: TuneContext, weight: float, index: int, keep_going: bool) -> TaskState:
    """Return a task with its design spaces; with `keep_going` an error in them is kept, too."""
    state = TaskState(task, weight, index)
    try:
        state.spaces = task.generate_design_space()
    except Exception as error:
        if not keep_going:
            raise
        state.failure = error
    return state


def _cost_model(config: TuneConfig, task: TuneContext) -> CostModel | None:
    kind = config.cost_model
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


def _check_tasks(tasks: Sequence[object], weights: Sequence[float]) -> None:
    """Raise TuningError for what is no task, or has nothing to tune it with."""
    if not tasks:
        raise TuningError("there is nothing to tune: the list of tasks is empty")
    if len(tasks) != len(weights):
        raise TuningError(f"{len(tasks)} tasks need as many weights, got {len(weights)}")
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
