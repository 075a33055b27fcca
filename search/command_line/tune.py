"""`tensorir tune`: tune a program or a model into a directory."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from codegen import Target as CodegenTarget
from search.builder import LocalBuilder
from search.command_line.files import existing_file, is_model, read_program, read_trace
from search.command_line.options import (
    AllowExtern,
    CaFile,
    Cert,
    CredentialsFile,
    Key,
    Program,
    Shape,
    Target,
    WorkDir,
    checking_arguments,
    credentials_of,
    database_of,
    target_of,
)
from search.command_line.result import Part, Result, Table, microseconds, say
from search.cost_model.cost_model import CostModel as CostModelKinds
from search.database import Database
from search.database.best_records import latest_records, winner_first
from search.errors import ArgumentError, DatabaseError
from search.kinds import suggestion
from search.models.extract_tasks import extract_tasks
from search.models.tune_model import tune_model
from search.options import TuneConfig
from search.reports.report import RunReport
from search.reports.run_directory import load_run
from search.run import IN_FILES, open_database
from search.runner import Runner
from search.tune import tune_tir
from tensorir.function import IRModule

Trials = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="How many candidates to measure, as in 64 for a program, 20 for a kernel of a model.",
    ),
]
Seconds = Annotated[float | None, typer.Option(help="How long to search, in seconds.")]
KeptIn = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="DATABASE",
        help="Where records are stored: json or sql for files in the directory, else a directory, "
        "a file or a URL.",
        show_default="json",
    ),
]
RunnerPlace = Annotated[
    str,
    typer.Option(
        "--runner",
        metavar="RUNNER",
        help="Where to measure: local, or a URL as in dask://host:8786.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, max=2**32 - 1, help="Makes the sampling reproducible."),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Tune the kernels with this in their names, as in conv2d; may be repeated.",
    ),
]
Initial = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="TRACE",
        help="A schedule of the program to start from, as `tensorir db best --save` writes it; "
        "may be repeated.",
        exists=True,
        dir_okay=False,
    ),
]
CostModel = Annotated[
    str, typer.Option(metavar="MODEL", help="The model that ranks candidates: xgb or random.")
]
Strategy = Annotated[
    str,
    typer.Option(
        metavar="STRATEGY", help="The search strategy: evolutionary, replay-trace or replay-func."
    ),
]


DEFAULT_WORK_DIR: Final = "tuned"


def tune(
    program: Program,
    trials: Trials = None,
    seconds: Seconds = None,
    work_dir: WorkDir = None,
    target: Target = None,
    database: KeptIn = None,
    runner: RunnerPlace = "local",
    shape: Shape = None,
    seed: Seed = None,
    only: Only = None,
    initial: Initial = None,
    cost_model: CostModel = "xgb",
    strategy: Strategy = "evolutionary",
    credentials: CredentialsFile = None,
    tls_ca: CaFile = None,
    tls_cert: Cert = None,
    tls_key: Key = None,
    allow_extern: AllowExtern = None,
) -> Result:
    """Search for the schedules that make a program, or the kernels of a model, fast.

    The records are stored in a directory, `tuned` by default, and `tensorir run --work-dir DIR`
    uses them. Ctrl-C ends a search and keeps its measurements; an interrupted search resumes when
    it is started with the same arguments.

        tensorir tune matmul.py --trials 64 --work-dir tuned

        tensorir tune model.onnx --seconds 600 --work-dir tuned --only conv2d
    """
    existing_file(program)
    if trials is None and seconds is None:
        raise ArgumentError("missing option --trials N or --seconds S (how much to search)")
    chosen = target_of(target)
    parts: dict[str, Any] = {"runner": runner, "cost_model": cost_model, "seed": seed}
    with checking_arguments():
        config = TuneConfig(trials, max_seconds=seconds, strategy=strategy)
        Runner.kinds.check(runner)
        CostModelKinds.kinds.check(cost_model)
        known = [read_trace(trace) for trace in initial or ()]
        if runner != "local":
            login = credentials_of(credentials, tls_ca, tls_cert, tls_key)
            externs = allow_extern or ()
            parts["runner"] = Runner.create(runner, credentials=login, allow_externs=externs)
        elif allow_extern:
            parts["builder"] = LocalBuilder(allow_externs=allow_extern)
    if work_dir is None:
        work_dir = DEFAULT_WORK_DIR
        say(f"records go to the directory {work_dir}; --work-dir DIR names another one")
    say(f"reading {program}")
    mod = read_program(program, shape)
    start = time.monotonic()
    kept_in = _database(database)
    if is_model(mod) or len(mod.prim_funcs()) > 1:
        if initial:
            raise ArgumentError(f"--initial is for one program, and {program} has several kernels")
        found = tune_model(
            mod,
            chosen,
            work_dir,
            max_trials_global=trials,
            max_seconds=seconds,
            op_names=only,
            database=kept_in,
            strategy=strategy,
            **parts,
        )
    else:
        if only:
            raise ArgumentError(f"--only is for models: {program} is one program")
        found = open_database(kept_in, work_dir)
        tune_tir(
            mod,
            chosen,
            config,
            work_dir,
            database=found,
            initial_schedules=known or None,
            **parts,
        )
    words = ["tensorir", "run", program]
    is_in_work_dir = isinstance(kept_in, str) and "://" not in kept_in
    # the place of a database is a URL without its password
    words += ["--work-dir", work_dir] if is_in_work_dir else ["--database", found.place]
    words += [] if target is None else ["--target", target]
    words += [word for text in shape or () for word in ("--shape", text)]
    elapsed = time.monotonic() - start
    return _result(program, shlex.join(words), mod, chosen, work_dir, found, elapsed)


def _database(place: str | None) -> str | Database:
    """Return a short name, a URL or a database; ArgumentError for a misspelt short name."""
    if place is None or place in Database.kinds or "://" in place:
        return place or "json"
    if place.isalnum() and not Path(place).exists() and (hint := suggestion(place, IN_FILES)):
        raise ArgumentError(
            f"unknown database {place!r}{hint} For a new directory of this name give ./{place}"
        )
    return database_of(place, may_be_new=True)


def _result(
    path: str,
    call: str,
    mod: IRModule,
    target: CodegenTarget,
    work_dir: str,
    database: Database,
    seconds: float,
) -> Result:
    tasks: list[dict[str, Any]] = []
    keys = set()
    for task in extract_tasks(mod, target):
        workload = database.commit_workload(task.mod)
        keys.add(database.workload_key(task.mod))
        records = database.tuning_records_of(workload, task.target)
        best = winner_first(records)[:1]
        tasks.append(
            {
                "name": task.task_name,
                "weight": task.weight,
                "trials": len(latest_records(records)),
                "seconds": best[0].median_seconds if best else None,
            }
        )
    try:
        known = load_run(work_dir).report
    except DatabaseError:  # another database had records of all programs
        known = RunReport([])
    tuned = RunReport([one for one in known if one.workload in keys])
    report = {
        "program": path,
        "work_dir": work_dir,
        "search_seconds": seconds,
        "tasks": tasks,
        "report": [one.as_json() for one in tuned],
    }
    parts: list[Part] = [_table(tasks)]
    if all(task["seconds"] is None for task in tasks):
        advice = (
            f"tensorir explain {work_dir} lists how they ended"
            if tuned or any(task["trials"] for task in tasks)
            else "give more time: --seconds S"
        )
        line = f"{path}: no working candidate was found within {seconds:.0f} s; {advice}"
        return Result(report, [*parts, line], exit_code=1)
    if len(tuned) == 1:
        parts = [str(tuned), ""]
    elif tuned:
        heading, *rows = tuned.cells()
        parts = [Table(heading, rows)]
    return Result(report, [*parts, f"{path}: tuned in {seconds:.0f} s; call it with {call}"])


def _table(tasks: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (t["name"], f"{t['weight']:g}", str(t["trials"]), microseconds(t["seconds"])) for t in tasks
    ]
    return Table(("Kernel", "Runs", "Trials", "Best (us)"), rows)
