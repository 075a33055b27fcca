"""The help of each command: its examples run, and it takes no time."""

from __future__ import annotations

import inspect
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import tensorir
from search.command_line import db
from search.command_line.main import COMMANDS, MODULES, main

ROOT = Path(__file__).parents[3]

FUNCTIONS = {
    **{
        name: getattr(import_module(f"search.command_line.{MODULES.get(name, name)}"), name)
        for name in COMMANDS
        if name != "db"
    },
    **{f"db {name}": function for name, function in db.COMMANDS.items()},
}
SERVING = ("scheduler", "worker")
"""Commands that run until somebody ends them, and what needs them; `test_worker` runs those."""


def examples(text: str) -> list[str]:
    """Return the commands among the lines of a help."""
    rows = [line for line in text.splitlines() if line.startswith("    tensorir ")]
    rows = [row.strip().replace("--trials 64", "--trials 2") for row in rows]
    # The page about the command line runs those of models, and tests of the report the live one.
    left_out = ("--live", ":8786", "model.onnx")
    return [row for row in rows if not any(part in row for part in left_out)]


HELPS = {name: inspect.getdoc(function) or "" for name, function in FUNCTIONS.items()}
HELPS["db"] = inspect.getdoc(db) or ""


@pytest.mark.parametrize("name", [name for name in HELPS if name not in SERVING])
def test_the_examples_of_a_help_run(
    name: str,
    folder: Path,
    quick: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = examples(HELPS[name])
    assert shown
    monkeypatch.setattr("webbrowser.open", lambda url: True)
    for line in shown:
        (folder / "other").mkdir(exist_ok=True)
        for file in (folder / "tuned").glob("database_*"):
            (folder / "other" / file.name).write_bytes(file.read_bytes())
        assert main(shlex.split(line)[1:]) == 0, (line, capsys.readouterr().err)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_help_of_a_command_shows_its_example_and_options(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*name.split(), "--help"]) == 0
    said = capsys.readouterr().out
    assert f"      tensorir {name} " in said
    assert "--json" in said
    assert "--traceback" in said


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_summary_of_a_command_is_a_sentence(name: str) -> None:
    summary = COMMANDS.get(name) or HELPS[name].partition("\n\n")[0]
    assert summary[0].isupper()
    assert summary.endswith(".")
    assert len(summary) <= 62  # longer ones are cut short where they are listed


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("tensorir sh", ["show"]),
        ("tensorir db pr", ["prune"]),
        ("tensorir show --sp", ["--space"]),
    ],
)
def test_completion_offers_commands_and_options(
    words: str,
    offered: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("_TENSORIR_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out.split() == offered


def test_help_loads_nothing_that_takes_long() -> None:
    """Neither what builds and measures nor what reads models; typer loads Pydantic for values."""
    program = (
        "import sys; from search.command_line.main import main; main(['--help'])\n"
        "heavy = {'llvmlite', 'xgboost', 'torch', 'onnx', 'pydantic', 'rich', 'schedule', 'tqdm'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "[]\n"


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tensorir {tensorir.__version__}\n"
