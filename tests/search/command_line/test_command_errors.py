"""What a command says that cannot do what it is asked to: the cases of `errors.txt`."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from search.command_line.main import main

CASES = Path(__file__).with_name("errors.txt")
START = "tensorir: error: "


def test_each_error_is_one_line_after_which_nothing_is_left(
    folder: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    (folder / "text.json").write_text("text")
    (folder / "dump.json").write_text('{"root": 1, "nodes": []}')
    (folder / "other.json").write_text('[[["GetBlock", [], ["X", "main"], ["b0"]]], []]')
    (folder / "autotvm.log").write_text('{"input": [], "config": {}, "version": 0.2}\n')
    (folder / "model.txt").write_text("")
    (folder / "empty").mkdir()
    there = sorted(folder.rglob("*"))
    text = CASES.read_text()
    wrong = []
    for case in re.finditer(r"\$ tensorir(.*)\n(.*)\n", text):
        code = main(shlex.split(case[1]))
        said = capsys.readouterr()
        *doing, error = said.err.splitlines()
        assert (said.out, error[: len(START)]) == ("", START), case[1]
        assert all(line.startswith("tensorir: ") for line in doing), said.err
        assert sorted(folder.rglob("*")) == there, case[1]
        found = f"{code}: {error.removeprefix(START)}"
        if not doctest.OutputChecker().check_output(case[2], found, doctest.ELLIPSIS):
            wrong.append(case[0].replace(case[2], found))
            text = text.replace(case[0], wrong[-1])
    if request.config.getoption("--update"):
        CASES.write_text(text)
    else:
        assert not wrong, "\n".join(wrong)
