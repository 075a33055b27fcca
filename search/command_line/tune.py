"""`tensorir tune`: a model is tuned into a directory."""

from __future__ import annotations

import argparse
import time
from typing import Any

from codegen.target import as_target
from search.command_line.model_files import read_model
from search.command_line.run import Report, say
from search.database.best_records import best_records, those_that_count
from search.errors import TuningError
from search.networks.extract_tasks import extract_tasks
from search.networks.tune_model import tune_model


def add_tune(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "tune",
        parents=[shared],
        help="search for schedules of the kernels of a model",
        description=(
            "Searches for schedules of the kernels of a model and keeps them in a directory, which "
            "`tensorir run --work-dir DIR` takes them from. A search that is interrupted goes on "
            "when it is started again."
        ),
    )
    parser.add_argument("--trials", type=int, help="candidates to measure; 20 for each kernel, say")
    parser.add_argument("--seconds", type=float, help="how long to search")
    parser.add_argument("--seed", type=int, help="makes the sampling reproducible")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="tune kernels with this in their names, as in conv2d; may be repeated",
    )
    parser.set_defaults(command=tune)


def tune(options: argparse.Namespace) -> Report:
    """Do what the command says; TuningError without a directory or a budget."""
    if options.work_dir is None:
        raise TuningError("say where to keep what is found: --work-dir DIR")
    if options.trials is None and options.seconds is None:
        raise TuningError("say how much to search: --trials N, or --seconds S")
    target = as_target(options.target)
    say(f"reading {options.model}")
    mod = read_model(options.model)
    start = time.monotonic()
    database = tune_model(
        mod,
        target,
        options.work_dir,
        max_trials_global=options.trials,
        max_seconds=options.seconds,
        seed=options.seed,
        op_names=options.only,
    )
    seconds = time.monotonic() - start
    tasks = []
    for task in extract_tasks(mod, target):
        workload = database.commit_workload(task.mod)
        records = database.tuning_records_of(workload, task.target)
        best = best_records(records, 1)
        tasks.append(
            {
                "name": task.task_name,
                "weight": task.weight,
                "trials": len(those_that_count(records)),
                "seconds": best[0].mean_seconds if best else None,
            }
        )
    report = {
        "model": options.model,
        "work_dir": options.work_dir,
        "search_seconds": seconds,
        "tasks": tasks,
    }
    return report, (
        f"{options.model}: tuned in {seconds:.0f} s; call it with "
        f"tensorir run {options.model} --work-dir {options.work_dir}"
    )
