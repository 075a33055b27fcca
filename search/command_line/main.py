"""The command `tensorir` with its commands, errors and exit codes.

    tensorir tune matmul.py --trials 64 --work-dir tuned
    tensorir run matmul.py --work-dir tuned
    tensorir explain tuned

The exit code is 0; 1 if a program, a file or a search fails, with a line on standard error; 2 for a
bad argument, a missing file among them; 130 after Ctrl-C. Standard output has only the result;
progress goes to standard error.
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

import tensorir
from search.command_line.result import Result, error_line
from search.errors import ArgumentError, NoDatabaseError

FAILED: Final = 1
BAD_ARGUMENT: Final = 2
INTERRUPTED: Final = 130

COMMANDS: Final = {
    "tune": "Search for the schedules that make a program or a model fast.",
    "run": "Build a program or a model, call it, and print its results.",
    "build": "Write a program or a model as a shared library for C.",
    "show": "Show a program, a trace, or what a search has found.",
    "explain": "Explain why a kernel is slow, or what a search did.",
    "report": "Show a search as a page, or live while it runs.",
    "replay": "Apply a saved trace to a program, print it, and time it.",
    "db": "List, check, combine and copy the records of searches.",
    "worker": "Measure on this machine for searches elsewhere.",
    "scheduler": "Connect searches to the machines that measure for them.",
}
"""The commands and their summaries. Each has a module, which is imported when it is called: it has
a function of that name, or `COMMANDS`, the functions of a group of commands."""
MODULES: Final = {"replay": "run", "scheduler": "worker"}
"""The modules of commands that share one with another command."""

HELP: Final = """\
Tune, run, show and explain tensor programs and trained models.

    tensorir tune matmul.py --trials 64 --work-dir tuned
    tensorir run matmul.py --work-dir tuned

    tensorir tune model.onnx --seconds 600 --work-dir tuned
    tensorir run model.onnx --work-dir tuned --input x=image.npy --profile

The exit code is 0; 1 if a program, a file or a search fails; 2 for a bad argument; 130 after
Ctrl-C, which keeps the measurements. `tensorir COMMAND --help` lists the options of a command and
shows an example."""

_UsageError: Final[Any] = typer.BadParameter.__mro__[1]
"""The base class of errors in arguments, which typer does not export."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these or the process's arguments; return the exit code."""
    if sys.stderr is None:  # closed: messages would go to standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  it stays open to the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # file names may be any bytes
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        call = get_command(_app()).main(
            given or ["--help"], prog_name="tensorir", standalone_mode=False
        )
        if call == INTERRUPTED:  # while the modules of the command were imported
            raise KeyboardInterrupt
        if not isinstance(call, tuple):  # typer has printed the answer, for example to --help
            return int(call or (0 if given else BAD_ARGUMENT))
        run, as_json = call
        with contextlib.redirect_stdout(sys.stderr):
            result = run()
        return _print(result, as_json)
    except (KeyboardInterrupt, typer.Abort) as interrupt:
        if arguments is None:  # a second Ctrl-C ends the process at once, without a traceback
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        return _fail(str(interrupt) or "interrupted", INTERRUPTED)
    except _UsageError as error:
        return _fail(_usage(error), BAD_ARGUMENT)
    except (ArgumentError, NoDatabaseError) as error:
        return _fail(f"error: {error_line(error)}", BAD_ARGUMENT)
    except Exception as error:  # noqa: BLE001  every error becomes one line and an exit code
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            _drop_output()  # the reader has gone, as in `tensorir db list tuned | head -1`
            return FAILED
        if "--traceback" in given:
            traceback.print_exc()
        return _fail(f"error: {error_line(error)}", FAILED)


# ---------------------------------------------------------------------------------- the application


class _LazyGroup(TyperGroup):
    """The group of the commands, with placeholders for the modules that are not imported yet.

    So help and completion take no time.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command in place of its placeholder, and the other arguments."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, None if found is None else _load_command(str(found.name)), rest


def _app() -> typer.Typer:
    app = _typer(cls=_LazyGroup, help=_reflow(HELP), add_completion=True)
    app.callback()(_options)
    for name, summary in COMMANDS.items():
        app.command(name, help=summary)(_placeholder)
    return app


def _placeholder() -> None: ...


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tensorir {tensorir.__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
]


def _options(version: Version = False) -> None: ...


def _typer(**settings: Any) -> typer.Typer:
    return typer.Typer(
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **{"add_completion": False, **settings},
    )


def _load_command(name: str) -> Any:
    """Return the command, or the group of commands, in a module of this package."""
    module = import_module(f"{__package__}.{MODULES.get(name, name)}")
    commands = getattr(module, "COMMANDS", None)
    if commands is None:
        app = _typer()
        commands = {name: getattr(module, name)}
    else:
        app = _typer(help=_reflow(inspect.getdoc(module) or ""))
        app.callback()(_placeholder)
    for command, function in commands.items():
        app.command(command, help=_reflow(inspect.getdoc(function) or ""))(_defer(function))
    return get_command(app)


AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]
Traceback = Annotated[bool, typer.Option("--traceback", help="Show where in the code it failed.")]


def _shared(*, as_json: AsJson = False, traceback: Traceback = False) -> None: ...


def _defer(function: Callable[..., Result]) -> Callable[..., Any]:
    """Return a function for typer that returns the call to make, and whether to print JSON.

    It also accepts the options that every command has. The call is made outside of typer, which
    would end the process at any broken pipe.
    """
    signatures = [inspect.signature(one, eval_str=True) for one in (function, _shared)]
    parameters = [one for signature in signatures for one in signature.parameters.values()]

    def defer(*, as_json: bool, traceback: bool, **arguments: Any) -> Any:
        return partial(function, **arguments), as_json

    defer.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    defer.__annotations__ = {one.name: one.annotation for one in parameters}
    return defer


def _reflow(text: str) -> str:
    r"""Return a docstring as help: typer wraps its paragraphs, and `\b` keeps its examples."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        f"\b\n{one}" if one.startswith(" ") else " ".join(one.split()) for one in paragraphs
    )


# ------------------------------------------------------------------------------------------- output


def _print(result: Result, as_json: bool) -> int:
    """Write a result to standard output; the OSError of a failure names standard output."""
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
    """Return one line: what is wrong with the arguments, and which help to read."""
    context = getattr(error, "ctx", None)
    path = "tensorir" if context is None else context.command_path
    return f"error: {' '.join(error.format_message().split())} (see {path} --help)"


def _fail(text: str, code: int) -> int:
    with contextlib.suppress(OSError, ValueError):  # standard error may be closed
        print(f"tensorir: {text}", file=sys.stderr)  # noqa: T201  the output of a command
    return code


def _drop_output() -> None:
    """Discard the unwritten output, so that Python does not try to write it again at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
