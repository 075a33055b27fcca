"""`tensorir report`: show a search as a page, or live while it runs."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path
from typing import Annotated, Final

import typer

from search.command_line.options import DatabasePlace, output_file
from search.command_line.result import Result, count_text, say
from search.errors import ArgumentError
from search.reports.page.live_server import PORT, LiveReport
from search.reports.page.page import REPORT_FILE
from search.reports.page.page import report as write_report

_NICENESS: Final = 10
"""Lets the system prefer the search that is shown."""

SearchDir = Annotated[str, typer.Argument(metavar="WORK_DIR", help="The directory of a search.")]
Output = Annotated[
    Path | None, output_file("FILE.html", "The file to write.", f"{REPORT_FILE} in WORK_DIR")
]
Tasks = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        metavar="NAME",
        help="Show the programs of this task; may be repeated.",
        show_default="the most expensive ones",
    ),
]
Open = Annotated[bool, typer.Option("--open", help="Open it in a browser.")]
Live = Annotated[
    bool, typer.Option("--live", help="Serve it on this machine, with each trial as it ends.")
]
Port = Annotated[
    int | None,
    typer.Option(
        help="The port of --live, 0 for any free one.", min=0, max=65535, show_default=str(PORT)
    ),
]


def report(
    work_dir: SearchDir,
    output: Output = None,
    task: Tasks = None,
    database: DatabasePlace = None,
    open_: Open = False,
    live: Live = False,
    port: Port = None,
) -> Result:
    """Show a search as one page: its winners, where the time goes, what matters, what failed.

    The page is a file that needs no network. With --live it is served on this machine, and new
    trials appear while the search runs, until Ctrl-C.

        tensorir report tuned --open

        tensorir report tuned --live
    """
    if live and (output is not None or task):
        raise ArgumentError("--live serves the whole search: leave out --output and --task")
    if port is not None and not live:
        raise ArgumentError("--port is for --live: give both or none")
    if live:
        return _serve(work_dir, PORT if port is None else port, database, open_)
    written = write_report(work_dir, output, tasks=task, database=database)
    if open_:
        webbrowser.open(written.path.resolve().as_uri())
    facts = {
        "path": str(written.path),
        "trials": written.trials,
        "bytes": Path(written).stat().st_size,
    }
    return Result(facts, [f"{written.path}: {count_text(written.trials, 'trial')}"])


def _serve(work_dir: str, port: int, database: str | None, open_: bool) -> Result:
    with LiveReport(work_dir, port, database=database) as live:
        if hasattr(os, "nice"):  # not on Windows
            os.nice(_NICENESS)
        say(f"{work_dir} is shown at {live.url} until Ctrl-C")
        if open_:
            webbrowser.open(live.url)
        try:
            live.serve()
        except KeyboardInterrupt:
            say("the report has ended; the search is unchanged")
        return Result({"url": live.url, "trials": live.trials}, [])
