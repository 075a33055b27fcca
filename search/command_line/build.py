"""`tensorir build`: a program or a model as a shared library for C."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import codegen
from search.command_line.files import is_model, read_program
from search.command_line.options import (
    DatabasePlace,
    Program,
    Shape,
    Target,
    WorkDir,
    output_file,
    target_of,
)
from search.command_line.result import Result, say
from search.command_line.run import best_schedule, records_at

Library = Annotated[
    Path,
    output_file("LIBRARY", "The library to write; its C header is next to it.", names=("-o",)),
]


def build(
    program: Program,
    output: Library,
    target: Target = None,
    work_dir: WorkDir = None,
    database: DatabasePlace = None,
    shape: Shape = None,
) -> Result:
    """Write a program or a model as a shared library with a C header, which need no Python.

    With the directory of a search, or a database, kernels have the schedules that were found.
    Weights and steps of a model are in the library, and symbolic lengths stay symbolic. The code is
    for the CPU of --target, by default for this one; OpenMP runs its parallel loops.

        tensorir build matmul.py -o libmatmul.so

        tensorir build model.onnx -o libmodel.so --work-dir tuned
    """
    chosen = target_of(target)
    place = database or work_dir
    records = None if place is None else records_at(program, place)
    mod = read_program(program, shape)
    say("building; kernels without a record get default schedules")
    start = time.monotonic()
    if is_model(mod):
        header = codegen.export(mod, output, chosen, database=records)
    else:
        scheduled = mod if records is None else best_schedule(records, mod, chosen)
        header = codegen.export(scheduled, output, chosen)
    seconds = time.monotonic() - start
    nbytes = output.stat().st_size
    report = {
        "program": program,
        "library": str(output),
        "header": str(header),
        "bytes": nbytes,
        "build_seconds": seconds,
    }
    return Result(
        report,
        [
            f"{program}: built in {seconds:.1f} s",
            f"{output}: {nbytes / 1e6:.2f} MB for {chosen}, declared in {header}",
        ],
    )
