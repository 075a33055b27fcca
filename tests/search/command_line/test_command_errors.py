"""What a command says that cannot do what it is asked to: the cases of `errors.txt`."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from search.command_line.main import main
from tests.search.models.network_programs import X
from tests.text_cases import check_lines

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
    (folder / "sorted.py").write_text(
        "@R.function\n"
        'def main(x: R.Tensor((8,), "float32")):\n'
        "    return (R.sort(x), R.nonzero(x))\n"
    )
    np.save("doubles.npy", X.astype("float64"))
    np.save("row.npy", X[:1])
    (folder / "empty").mkdir()
    there = sorted(folder.rglob("*"))

    def said(arguments: str) -> str:
        code = main(shlex.split(arguments))
        output = capsys.readouterr()
        *doing, error = output.err.splitlines()
        assert (output.out, error[: len(START)]) == ("", START), arguments
        assert all(line.startswith("tensorir: ") for line in doing), output.err
        assert sorted(folder.rglob("*")) == there, arguments
        return f"{code}: {error.removeprefix(START)}"

    check_lines(CASES, "$ tensorir", said, request.config)
