"""The page about the command line prints what it says."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from search.command_line.main import main

DOCS = Path(__file__).parents[3] / "docs"
BLOCKS = re.findall(r"```console\n(.*?)```", (DOCS / "command-line.md").read_text(), re.DOTALL)

_spec = importlib.util.spec_from_file_location("pages", DOCS / "pages.py")
assert _spec is not None
assert _spec.loader is not None
pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pages)


def test_every_example_prints_what_stands_behind_it(
    folder: Path, quick: None, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = [example for block in BLOCKS for example in block.split("$ ") if example]
    assert len(shown) > 15
    wrong = []
    for example in shown:
        line, expected = example.split("\n", 1)
        line = line.replace("--trials 64", "--trials 2").replace("--seconds 600", "--trials 3")
        assert main(shlex.split(line)[1:]) == 0, (line, capsys.readouterr().err)
        printed = capsys.readouterr().out
        printed = "\n".join(row.rstrip() for row in printed.splitlines())
        if not pages.agrees(expected.rstrip("\n"), printed):
            wrong.append(f"$ {line}\n{printed}")
    assert not wrong, "\n\n".join(wrong)
