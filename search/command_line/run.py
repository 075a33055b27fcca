"""`tensorir run`: a program or a model is built and called."""

from __future__ import annotations

from typing import Annotated

import typer

from search.command_line.options import (
    DatabasePlace,
    Program,
    Shape,
    Target,
    WorkDir,
    check_output,
    database_of,
    target_of,
)
from search.command_line.program_files import is_model, program_file
from search.command_line.result import Result, say
from search.command_line.run_kernel import run_kernel
from search.command_line.run_model import run_model
from search.database import Database
from search.errors import ArgumentError, NoDatabaseError, TuningError

Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=FILE.npy",
        help="An input, as numpy.save wrote it; may be repeated. Others are made up.",
        show_default=False,
    ),
]
Output = Annotated[
    str | None,
    typer.Option(metavar="FILE.npz", help="Where to write the results.", show_default=False),
]
Repeat = Annotated[int, typer.Option(min=0, help="The calls that are timed; 0 for none.")]
Profile = Annotated[bool, typer.Option("--profile", help="Print what each kernel takes.")]


def run(
    program: Program,
    target: Target = None,
    work_dir: WorkDir = None,
    database: DatabasePlace = None,
    shape: Shape = None,
    inputs: Inputs = None,
    output: Output = None,
    repeat: Repeat = 10,
    profile: Profile = False,
) -> Result:
    """Build a program or a model, call it, and print its results and how long a call takes.

    Inputs that are not given are made up. With the directory of a search, or a database, kernels
    have the schedules that were found. Without, a model gets schedules that fit the machine and
    were not measured, and a program runs as it is written.

        tensorir run matmul.py --work-dir tuned

        tensorir run model.onnx --input x=image.npy --output y.npz
    """
    file = program_file(program, shape)
    chosen = target_of(target)
    check_output(output)
    records = _records(program, work_dir, database)
    say(f"reading {program}")
    mod = file.read()
    if is_model(mod):
        return run_model(program, mod, chosen, records, inputs or (), output, repeat, profile)
    if profile:
        raise ArgumentError(
            f"--profile is for models; {program} is a program, and `tensorir explain` says why it "
            "is slow"
        )
    return run_kernel(program, mod, chosen, records, inputs or (), output, repeat)


def _records(program: str, work_dir: str | None, database: str | None) -> Database | None:
    place = database or work_dir
    if place is None:
        return None
    remedy = (
        f"`tensorir tune {program} --work-dir {work_dir or 'DIR'}` writes some; without them the "
        "program runs with schedules that were not measured"
    )
    try:
        found = database_of(place)
    except NoDatabaseError as error:
        raise NoDatabaseError(f"{error}; {remedy}") from error
    if unreadable := found.unreadable():
        more = f" and {len(unreadable) - 1} more" if len(unreadable) > 1 else ""
        say(f"records that cannot be read are left out: {unreadable[0]}{more}")
    if not len(found):
        raise TuningError(f"{found.place} has no records{'' if unreadable else f': {remedy}'}")
    return found
