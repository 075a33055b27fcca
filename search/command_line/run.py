"""`tensorir run`: a model is built and called once."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

import codegen
from search.command_line.model_files import read_model
from search.database.json_database import JSONDatabase
from search.errors import TuningError
from search.kinds import nearest
from search.networks.made_up_inputs import made_up_inputs
from tensorir.function import IRModule
from tensorir.relax.function import Function

Report: TypeAlias = "tuple[dict[str, Any], str]"
"""The result of a command as plain data and as text."""

_SHOWN: Final = 5


def add_run(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "run",
        parents=[shared],
        help="build a model, call it, and print its results",
        description=(
            "Builds a model, calls it, and prints its results and how long a call takes. Inputs "
            "that are not given are made up."
        ),
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="an input of the model; may be repeated",
    )
    parser.add_argument("--output", metavar="FILE.npz", help="where to write the results")
    parser.add_argument("--repeat", type=int, default=10, help="calls that are timed (default: 10)")
    parser.add_argument("--profile", action="store_true", help="print what each kernel takes")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> Report:
    """Do what the command says; TuningError for inputs that the model does not have."""
    say(f"reading {options.model}")
    mod = read_model(options.model)
    inputs = made_up_inputs("main", _main(mod), _given(mod, options.input))
    database = None if options.work_dir is None else _database_in(options.work_dir)
    say("building; kernels without a record get schedules that are made now")
    start = time.monotonic()
    executable = codegen.vm_build(mod, options.target, database=database)
    built = time.monotonic() - start
    machine = codegen.VirtualMachine(executable)
    results = _arrays_in(machine["main"](*inputs.values()))
    if options.output is not None:
        named: dict[str, Any] = {f"output_{k}": array for k, array in enumerate(results)}
        np.savez(Path(options.output), **named)
    seconds = None
    if options.repeat > 0:
        timed = machine.time_evaluator("main", number=options.repeat)
        seconds = timed(*inputs.values()).mean
    made_up = [name for name in inputs if name not in _names(options.input)]
    report: dict[str, Any] = {
        "model": options.model,
        "build_seconds": built,
        "call_seconds": seconds,
        "made_up_inputs": made_up,
        "outputs": [
            {"shape": list(array.shape), "dtype": str(array.dtype), "values": _first(array)}
            for array in results
        ],
    }
    lines = [f"{options.model}: built in {built:.1f} s"]
    lines += [f"inputs that are made up: {', '.join(made_up)}"] * bool(made_up)
    lines += [
        f"output {k}: {array.dtype}{list(array.shape)} "
        f"{', '.join(f'{value:.6g}' for value in _first(array))}{', ...' * (array.size > _SHOWN)}"
        for k, array in enumerate(results)
    ]
    lines += [] if seconds is None else [f"a call takes {seconds * 1e3:.4g} ms"]
    if options.profile:
        profile = machine.profile("main", *inputs.values())
        report["profile"] = str(profile)
        lines.append(str(profile))
    return report, "\n".join(lines)


def say(what: str) -> None:
    """Say on standard error what is being done, for it may take a while."""
    print(f"tensorir: {what}", file=sys.stderr)  # noqa: T201


def _main(mod: IRModule) -> Function:
    main = mod.functions.get("main")
    if not isinstance(main, Function):
        raise TuningError("the model has no graph function main")
    return main


def _database_in(work_dir: str) -> JSONDatabase:
    database = JSONDatabase(work_dir=work_dir)
    if not len(database):
        raise TuningError(
            f"there is no search in {work_dir} ({database.place} has no records): "
            f"`tensorir tune MODEL --work-dir {work_dir}` writes one; without --work-dir the model "
            "runs with schedules that were not measured"
        )
    return database


def _given(mod: IRModule, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the arrays that are given by `NAME=FILE`."""
    known = [param.name for param in _main(mod).params]
    given: dict[str, NDArray[Any]] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if name in given:
            raise TuningError(f"the input {name!r} is given twice")
        if not equals or not path:
            raise TuningError(f"an input is given as NAME=FILE.npy, got {text!r}")
        if name not in known:
            raise TuningError(
                f"the model has no input {name!r}; it has {', '.join(known)}{nearest(name, known)}"
            )
        try:
            array = np.load(path, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise TuningError(f"{path} is no array file of NumPy: {error}") from error
        if not isinstance(array, np.ndarray):
            raise TuningError(f"{path} holds several arrays; write one by numpy.save")
        given[name] = array
    return given


def _names(texts: Sequence[str]) -> list[str]:
    return [text.partition("=")[0] for text in texts]


def _first(array: NDArray[Any]) -> list[float]:
    return [float(value) for value in array.reshape(-1)[:_SHOWN]]


def _arrays_in(result: Any) -> list[NDArray[Any]]:
    if isinstance(result, (tuple, list)):
        return [array for part in result for array in _arrays_in(part)]
    return [np.asarray(result)]
