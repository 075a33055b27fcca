"""Commands that are loaded when they are called: help and completion need their names only."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from search.command_line.result import Result

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]
Traceback = Annotated[
    bool, typer.Option("--traceback", help="Show where in the code an error arose.")
]


@dataclass(frozen=True)
class Asked:
    """What the arguments of the process ask for, before it is done."""

    do: Callable[[], Result]
    as_json: bool
    """Whether the result is to be printed as JSON."""


class _Command(TyperCommand):
    """A command whose line of usage names required arguments plainly, as in `PROGRAM`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the line of usage."""
        return [
            piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)
        ]


def commands(
    package: str,
    summaries: Mapping[str, str],
    about: str,
    *,
    rich: bool,
    completion: bool = False,
    options: Callable[..., None] | None = None,
) -> typer.Typer:
    """Return the group of the commands that are modules of a package, each with a line about it.

    The module of a command has a function of the same name, which typer reads; a package in the
    place of a module has a function `group(rich)`, which returns the group of its own commands.
    `about` is the help of the group. With `rich`, help is written for a terminal; with
    `completion` there are options that set up the completion of shells; `options` is a function
    that takes the options of the group.
    """

    class Loaded(TyperGroup):
        """The group, whose commands are stand-ins until one is called."""

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            """Return the name, the command in place of its stand-in, and the other arguments."""
            name, found, rest = super().resolve_command(ctx, args)
            return name, None if found is None else _load(package, found.name, rich), rest

    group = _app(rich, cls=Loaded, help=_for_help(about, rich), add_completion=completion)
    group.callback()(options or _nothing)
    for name, summary in summaries.items():
        group.command(name, help=_for_help(summary, rich))(_nothing)
    return group


def _nothing() -> None:
    """Do nothing: a command is read as a whole before anything is done."""


def _app(rich: bool, **settings: Any) -> typer.Typer:
    return typer.Typer(
        rich_markup_mode="rich" if rich else None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **{"add_completion": False, **settings},
    )


def _load(package: str, name: str | None, rich: bool) -> Any:
    module = import_module(f"{package}.{name}")
    if hasattr(module, "group"):
        return get_command(module.group(rich))
    function = getattr(module, str(name))
    app = _app(rich)
    app.command(name, cls=_Command, help=_for_help(inspect.getdoc(function) or "", rich))(
        _asking(function)
    )
    return get_command(app)


def _asking(function: Callable[..., Result]) -> Callable[..., Asked]:
    """Return a function that typer calls with the arguments; it says what to do, and does nothing.

    It takes the options that every command has besides those of the command.
    """
    own = inspect.signature(function, eval_str=True)
    shared = inspect.signature(_shared, eval_str=True)
    parameters = [*own.parameters.values(), *shared.parameters.values()]

    @wraps(function)
    def ask(as_json: bool, traceback: bool, **arguments: Any) -> Asked:
        del traceback  # it is looked for before the arguments are read, which may fail, too
        return Asked(partial(function, **arguments), as_json)

    ask.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    ask.__annotations__ = {one.name: one.annotation for one in parameters}
    del ask.__wrapped__
    return ask


def _shared(*, as_json: AsJson = False, traceback: Traceback = False) -> None:
    """Take the options of every command."""


def _for_help(text: str, rich: bool) -> str:
    """Return a docstring as the help of a command: its paragraphs flow, its examples do not.

    Rich takes the margin of examples away, so there a prompt tells them from the text.
    """
    paragraphs = []
    for paragraph in text.replace("[", r"\[" if rich else "[").split("\n\n"):
        lines = paragraph.split("\n")
        if not paragraph.startswith(" "):
            paragraphs.append(" ".join(map(str.strip, lines)))
        elif rich:
            paragraphs.append("\n".join(f"[bold]$ {line.strip()}[/bold]" for line in lines))
        else:
            paragraphs.append(f"\b\n{paragraph}")
    return "\n\n".join(paragraphs)
