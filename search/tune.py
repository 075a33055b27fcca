"""Tuning programs: `tune_tir` for one function, `tune_module` for many, `tune_tasks` for any."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Final, Unpack

import numpy as np

from codegen import Target
from schedule import Schedule
from search.context import TuneContext, functions_to_tune
from search.database import Database
from search.database.best_records import with_schedules
from search.dispatch.find_schedule import find_schedule, say_if_missing
from search.errors import TuningError
from search.kinds import nearest
from search.measuring.objective import SECONDS
from search.networks.extract_tasks import tasks_of_functions
from search.options import (
    DEFAULTS,
    Extent,
    ModuleOptions,
    OptionsOfOne,
    OptionsOfTasks,
    RunOptions,
    SharedParts,
    TaskOptions,
    TaskWishes,
    chosen,
    functions_with_wishes,
    takes,
    wishes_for,
)
from search.reports.interrupts import checked_on_interrupt
from search.runs.name_winner import best_for
from search.runs.tuned_schedule import TunedSchedule
from search.runs.tuning_run import PathLike, TuningRun, open_database
from search.search_strategy import SearchStrategy
from search.space_generator import SpaceGenerator
from search.space_generator.space_generator import (
    MutatorProbs,
    Postprocs,
    Rules,
    SpaceArg,
    space_from_parts,
)
from search.trials.report import TaskReport
from search.tune_config import UNLIMITED, TuneConfig
from tensorir.errors import IRTypeError
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk


class OptionsOfEither(OptionsOfTasks, TaskWishes, total=False):
    """What `tune_tir` takes: its own options, and those of `tune_module` for a call of that."""

    max_trials_global: int | None
    special_space: Mapping[str, SpaceArg | None] | None


_OF_ONE: Final = frozenset(
    [*OptionsOfOne.__annotations__, *TaskWishes.__annotations__, "space", "seed"]
)


@takes(OptionsOfEither, space=None, special_space=None, max_trials_global=None)
def tune_tir(
    mod: IRModule | PrimFunc,
    target: str | Target,
    config: TuneConfig | None = None,
    work_dir: PathLike | None = None,
    *,
    blocks: Sequence[str] | None = None,
    sch_rules: Rules | None = None,
    postprocs: Postprocs | None = None,
    mutator_probs: MutatorProbs | None = None,
    task_name: str = "main",
    num_threads: int | str = "physical",
    **options: Unpack[OptionsOfEither],
) -> TunedSchedule | None:
    """Search for the best schedule of a function and return it.

    `mod` is a function, or a module with one to tune (beside those of a graph). `config` says how
    much to search, in trials, seconds, or both; with `max_trials_global` 0 nothing is measured. The
    result is None if no trial has succeeded, now or in an earlier run on `work_dir`.
    `print(best.report)` says what a call took before and takes now, and which share of what the
    machine can do that is.

    `space` is a space generator, its short name, or a schedule function; without it schedules come
    from rules that suit the target. `blocks` restricts those to blocks of these names; `sch_rules`,
    `postprocs` and `mutator_probs` take the place of theirs. `seed` makes the sampling
    reproducible, though measurements never are.

    Candidates are checked and measured on arrays that are made up: numbers that the program uses as
    indices lie inside of what they index. `input_data` has arrays of your own in place of some, by
    the names of parameters or their buffers (`{"indices": array}`), of the shapes and dtypes of the
    parameters; or it is a function without parameters that returns them.

    `initial_schedules` are measured first, and the strategy goes on from them: schedules, traces,
    the JSON texts of traces, or records of a database. One that is a point of the design spaces is
    completed as any other; one that is not is measured as it is given, a schedule by hand say.
    `constraint` is a function of the decisions of a schedule by name (`decisions_of` has an
    example) that says whether it may be tried: `lambda decisions: decisions["tile of loop 0 of
    C"][-1] <= 16`. It is asked before anything is built, and what is returned satisfies it, or is
    one of the `initial_schedules`. `objective` is what is minimised: `"seconds"` is the median of
    the runs of a trial, `"p90"` a percentile of 64 calls that are timed one by one, and a function
    of the seconds of the runs is any other number; `"energy"` are joules, where RAPL's counters can
    be read. The records have the seconds.

    Everything is kept in `work_dir`: the database, the log of trials, text logs, and the cost
    model. Ctrl-C ends the search: what was measured is kept, and KeyboardInterrupt is raised again,
    so that a script ends too; with `on_interrupt="return"` the best so far is returned. A run that
    was interrupted, or killed, goes on where it was, and with the model that it had, when it is
    started again with the same program, target, space, seed, strategy and number of trials. Another
    run on the same directory starts anew beside it, from what is known: its cost model learns from
    it, and it is not measured again.

    TVM calls two functions by this name. Its other one, `tune_tir(mod, target, work_dir,
    max_trials_global, ...) -> Database`, is `tune_module` here, and a call like that ends up there.

    Messages of the logger `tensorir.search` and a table of the progress go to standard error;
    `verbose=0` leaves warnings alone, `verbose=2` shows every message.

    Raises TuningError for a program that cannot be built or measured, for arguments that make no
    sense, a `work_dir` that cannot be written to, an initial schedule that does not replay and a
    constraint that allows nothing; DatabaseError if `work_dir` holds files that
    are no database; IRTypeError for arguments that there are not.
    """
    checked_on_interrupt(options.get("on_interrupt", DEFAULTS["on_interrupt"]))
    module_call = _call_of_tune_module(config, work_dir, options)
    space = _space(mod, options.pop("space", None), blocks, sch_rules, postprocs, mutator_probs)
    if module_call is not None:
        if task_name != "main":
            raise IRTypeError(
                "tune_module calls each task by the name of its function: leave out task_name, or "
                "pass a TuneConfig to tune one function"
            )
        rest: dict[str, Any] = {"num_tuning_cores": num_threads, **options, "space": space}
        rest |= _wishes_by_function(mod, chosen(options, TaskWishes))
        return tune_module(mod, target, *module_call, **rest)  # type: ignore[return-value]
    assert config is not None
    parts = chosen(options, OptionsOfOne)
    on_interrupt = parts.pop("on_interrupt")
    with contextlib.ExitStack() as stack:
        if work_dir is None:
            work_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="tune_"))
        context = TuneContext(
            mod,
            target=target,
            space_generator=space,
            search_strategy=SearchStrategy.create(
                config.strategy, **(config.search_strategy_config or {})
            ),
            task_name=task_name,
            rand_state=seeds_of(options.get("seed"), 1)[0],
            num_threads=num_threads,
            **chosen(options, TaskWishes),
        )
        if config.max_trials_global == 0:
            known = open_database(parts["database"], work_dir)
            found = find_schedule(known, mod, target)
            say_if_missing(known, mod, target, "main", found)
            return None if found is None else TunedSchedule.of_record(found, task_name)
        with TuningRun.open([context], [1.0], work_dir, config, **parts) as run:
            run.tune(on_interrupt)
        report = next(iter(run.report), TaskReport(task_name, str(context.target)))
        winners = [task.winner for task in run.scheduler.tasks if task.winner is not None]
        if winners:
            return TunedSchedule.of(winners[0].record.schedule(), report)
        if context.constraint is not None or context.objective is not SECONDS:
            best = _best_allowed(run.database, context)
            return None if best is None else TunedSchedule.of(best, report)
        found = find_schedule(run.database, mod, context.target)
        if found is None:  # the scheduler has said how the trials ended
            return None
        say_if_missing(run.database, mod, context.target, task_name or "main", found)
        return TunedSchedule.of(found.schedule, report)


def _call_of_tune_module(
    config: object, work_dir: object, options: OptionsOfEither
) -> tuple[PathLike, int | None] | None:
    """Return directory and trials of a call of `tune_tir` that means `tune_module`, else None.

    Such a call has a path where `config` is and the trials after it, or gives them by name.
    IRTypeError, with what to write instead, for a call that is neither.
    """
    if isinstance(config, TuneConfig):
        others = [name for name in options if name not in _OF_ONE]
        if others:
            raise IRTypeError(
                f"tune_tir does not take {', '.join(others)}: say it in TuneConfig(...), or call "
                "tune_module(mod, target, work_dir, max_trials_global, ...)"
            )
        return None
    by_name = options.pop("max_trials_global", None)
    folder, trials = (work_dir, by_name) if config is None else (config, work_dir or by_name)
    is_bounded = isinstance(trials, int) or (trials is None and options.get("max_seconds"))
    if isinstance(folder, (str, os.PathLike)) and is_bounded:
        assert trials is None or isinstance(trials, int)
        return folder, trials
    remedy = "say how much to search, as in config=TuneConfig(max_trials_global=64); " * (
        config is None
    )
    raise IRTypeError(
        f"the third argument of tune_tir is a TuneConfig, got {type(config).__name__}; {remedy}to "
        "tune every function of a module call tune_module(mod, target, work_dir, "
        "max_trials_global, ...)"
    )


def _space(
    mod: IRModule | PrimFunc,
    space: SpaceArg | None,
    blocks: Sequence[str] | None,
    sch_rules: Rules | None,
    postprocs: Postprocs | None,
    mutator_probs: MutatorProbs | None,
) -> SpaceGenerator:
    """Return the space that the arguments describe; TuningError for blocks that there are not."""
    if blocks is not None:
        if isinstance(blocks, str):
            raise TuningError(f"blocks is a list of names of blocks, got the text {blocks!r}")
        functions = {"main": mod} if isinstance(mod, PrimFunc) else functions_to_tune(mod)
        nodes = (node for func in functions.values() for node in walk(func.body))
        known = dict.fromkeys(node.name_hint for node in nodes if isinstance(node, Block))
        for name in blocks:
            if name not in known:
                raise TuningError(
                    f"blocks has {name!r}, and no block is called so; there are "
                    f"{', '.join(known)}{nearest(name, known)}"
                )
    return space_from_parts(space, blocks, sch_rules, postprocs, mutator_probs)


def _wishes_by_function(mod: IRModule | PrimFunc, wishes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the wishes of one function as `tune_module` takes them."""
    given = {wish: v for wish, v in wishes.items() if v is not None and wish != "objective"}
    names = ["main"] if isinstance(mod, PrimFunc) else sorted(functions_to_tune(mod))
    if given and len(names) != 1:
        wish = next(iter(given))
        raise TuningError(
            f"{wish} is for one function, and the module has {names}: call tune_module with "
            f"{wish}={{function: ...}}"
        )
    by_name = {wish: {names[0]: value} for wish, value in given.items() if wish != "objective"}
    return {**dict.fromkeys(wishes), **by_name, "objective": wishes["objective"]}


def _best_allowed(database: Database, context: TuneContext) -> Schedule | None:
    """Return the schedule of a database that the constraint allows and the objective ranks best."""
    ranked = with_schedules(best_for(context, database))
    return next((sch for _, sch in ranked if context.allows(sch)), None)


@takes(ModuleOptions)
def tune_module(
    mod: IRModule | PrimFunc,
    target: str | Target,
    work_dir: PathLike,
    max_trials_global: int | None = None,
    *,
    special_space: Mapping[str, SpaceArg | None] | None = None,
    **options: Unpack[ModuleOptions],
) -> Database:
    """Tune each function of a module, sharing the trials; `apply_database` puts the results in.

    Functions that are the same are tuned once, and count as often as the graph of the module runs
    them (`extract_tasks`; `tune_model` does more for a model). Functions of a graph and those with
    `tir.is_scheduled` are left alone. `special_space` names spaces for some functions; those with
    None are left out. `input_data`, `initial_schedules` and `constraint` have for some functions
    what they are for `tune_tir`; one constraint may be for all. The search ends after
    `max_trials_global` trials, after `max_seconds`, or where the first of both is used up.
    Otherwise as `tune_tir`. TuningError for names of other functions, and without a budget.
    """
    functions = {"main": mod} if isinstance(mod, PrimFunc) else functions_to_tune(mod)
    apart = functions_with_wishes({**options, "special_space": special_space}, functions)
    if isinstance(mod, PrimFunc):
        mod = IRModule(functions)
    of_run, of_task = chosen(options, RunOptions), chosen(options, TaskOptions)
    found = tasks_of_functions(mod, target, of_run["module_equality"], apart)
    found.sort(key=lambda task: task.task_name)
    tasks, weights = [], []
    for task, task_seed in zip(found, seeds_of(of_task["seed"], len(found)), strict=True):
        own_space = (special_space or {}).get(task.task_name, of_task["space"])
        if own_space is None:
            continue
        context = TuneContext(
            task.mod,
            target=target,
            space_generator=own_space,
            search_strategy=of_task["strategy"],
            task_name=task.task_name,
            rand_state=task_seed,
            num_threads=of_task["num_tuning_cores"],
            **wishes_for(task.task_name, options),
        )
        tasks.append(context.clone())
        weights.append(float(task.weight))
    return tune_tasks(
        tasks=tasks,
        task_weights=weights,
        work_dir=work_dir,
        max_trials_global=max_trials_global,
        **of_run,
    )


@takes(RunOptions)
def tune_tasks(
    *,
    tasks: Sequence[TuneContext],
    task_weights: Sequence[float],
    work_dir: PathLike,
    max_trials_global: int | None = None,
    keep_going: bool = False,
    **options: Unpack[RunOptions],
) -> Database:
    """Tune several tasks, sharing `max_trials_global` measurements; return the database.

    The search minimises the sum of latencies weighted by `task_weights`. Parts given by name are
    made with as many workers or threads as the first task says. For `num_confirmed`, `max_seconds`,
    `keep_going` and when the search or a task ends early see `TuneConfig`, for resuming, errors and
    Ctrl-C `tune_tir`; a task has its `input_data`, `initial_schedules` and `constraint` from
    `TuneContext`.
    """
    parts, extent = chosen(options, SharedParts), chosen(options, Extent)
    on_interrupt = options.get("on_interrupt", DEFAULTS["on_interrupt"])
    checked_on_interrupt(on_interrupt)
    trials = UNLIMITED if max_trials_global is None else max_trials_global
    config = TuneConfig(trials, **extent, keep_going=keep_going)
    with TuningRun.open(tasks, task_weights, work_dir, config, **parts) as run:
        run.tune(on_interrupt)
    return run.database


def compile_tir(
    database: Database, mod: IRModule | PrimFunc, target: str | Target
) -> Schedule | None:
    """Return the best schedule that a database has of a program for a target, None without one.

    `find_schedule` says what is searched for, and how what it returns was found.
    """
    found = find_schedule(database, mod, target)
    say_if_missing(database, mod, target, "main", found)
    return None if found is None else found.schedule


def seeds_of(seed: int | None, count: int) -> list[int]:
    """Return the seeds of so many tasks, -1 for any where none is given."""
    if seed is None:
        return [-1] * count
    return [int(s) for s in np.random.RandomState(seed).randint(1, 2**30, size=count)]
