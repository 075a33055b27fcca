"""The command `tensorir` with its commands, errors and exit codes.

    tensorir tune matmul.py --trials 64 --work-dir tuned
    tensorir run matmul.py --work-dir tuned
    tensorir explain tuned

The exit code is 0; 1 for a program, a file or a search that does not work, which a line on standard
error names; 2 for a bad argument, a file that does not exist among them; 130 after Ctrl-C. Standard
output has the result alone; progress goes to standard error.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from typer.main import get_command

import tensorir
from search.command_line.error_line import error_line
from search.command_line.loaded_commands import Asked, commands
from search.command_line.result import Result
from search.errors import ArgumentError, NoDatabaseError

FAILED: Final = 1
NOT_TAKEN: Final = 2
INTERRUPTED: Final = 130

COMMANDS: Final = {
    "tune": "Search for the schedules that make a program or a model fast.",
    "run": "Build a program or a model, call it, and print its results.",
    "show": "Show a program, a trace, or what a search has found.",
    "explain": "Say why a kernel is slow, or what a trace or a search did.",
    "report": "Show a search as a page to look at, or live while it runs.",
    "replay": "Apply a saved trace to a program, print it, and time it.",
    "db": "List, check, combine and copy the records of searches.",
    "worker": "Measure on this machine for searches elsewhere.",
    "scheduler": "Let searches find the machines that measure for them.",
}
"""The commands, each a module of this package, and what they do."""

HELP: Final = """\
Tune, run, show and explain tensor programs and trained models.

    tensorir tune matmul.py --trials 64 --work-dir tuned
    tensorir run matmul.py --work-dir tuned

    tensorir tune model.onnx --seconds 600 --work-dir tuned
    tensorir run model.onnx --work-dir tuned --input x=image.npy --profile

The exit code is 0; 1 for a program, a file or a search that does not work; 2 for a bad argument;
130 after Ctrl-C, which keeps what was measured. `tensorir COMMAND --help` lists the options of a
command and shows an example."""

_UsageError: Final[Any] = typer.BadParameter.__mro__[1]
"""The class of errors of the arguments, which typer has under no name of its own."""


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"tensorir {tensorir.__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version."),
]


def _options(version: Version = False) -> None:
    """Take the options of the command itself."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say, without any those of the process; return the exit code."""
    if sys.stderr is None:  # closed: what is said there would go to standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  it is open to the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files may be any bytes
    given = list(sys.argv[1:] if arguments is None else arguments)
    shows_traceback = "--traceback" in given
    try:
        asked = _asked(given or ["--help"])
        if asked == INTERRUPTED:  # while what the command needs was loaded
            raise KeyboardInterrupt
        if not isinstance(asked, Asked):
            return int(asked or (0 if given else NOT_TAKEN))
        with contextlib.redirect_stdout(sys.stderr):
            result = asked.do()
        return _print(result, asked.as_json)
    except (KeyboardInterrupt, typer.Abort):
        return _failed("interrupted", INTERRUPTED)
    except _UsageError as error:
        return _failed(_usage(error), NOT_TAKEN)
    except (ArgumentError, NoDatabaseError) as error:
        return _failed(f"error: {error_line(error)}", NOT_TAKEN)
    except OSError as error:
        if error.errno == errno.EPIPE:
            return _without_reader()
        if shows_traceback:
            traceback.print_exc()
        return _failed(f"error: {error_line(error)}", FAILED)
    except Exception as error:  # noqa: BLE001  whatever it is, it is one line and an exit code
        if shows_traceback:
            traceback.print_exc()
        return _failed(f"error: {error_line(error)}", FAILED)


def _asked(arguments: list[str]) -> Any:
    """Return what the arguments ask for; the exit code where typer has answered, as to `--help`."""
    rich = sys.stdout is not None and sys.stdout.isatty()
    app = commands(__package__, COMMANDS, HELP, rich=rich, completion=True, options=_options)
    return get_command(app).main(arguments, prog_name="tensorir", standalone_mode=False)


def _print(result: Result, as_json: bool) -> int:
    """Write a result to standard output; OSError where that cannot be written to."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed", "standard output")
    try:
        if as_json:
            sys.stdout.write(f"{result.as_json()}\n")
        else:
            result.write(sys.stdout)
        sys.stdout.flush()
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        _drop_output()
        raise OSError(error.errno, error.strerror, "standard output") from error
    return result.exit_code


def _usage(error: Any) -> str:
    """Return in a line what is wrong with the arguments, and where to look."""
    context = getattr(error, "ctx", None)
    path = "tensorir" if context is None else context.command_path
    return f"error: {' '.join(error.format_message().split())} (see {path} --help)"


def _failed(text: str, code: int) -> int:
    with contextlib.suppress(OSError, ValueError):  # nobody may be there to read it
        print(f"tensorir: {text}", file=sys.stderr)  # noqa: T201  it is what the command says
    return code


def _without_reader() -> int:
    """End quietly, as commands do whose reader has gone: `tensorir db list tuned | head -1`."""
    _drop_output()
    return FAILED


def _drop_output() -> None:
    """Keep Python from trying once more to write at its end what could not be written."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
