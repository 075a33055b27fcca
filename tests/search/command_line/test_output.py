"""Where the output of a command goes, who reads it, and who does not."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path

import pytest

from search.command_line.main import main
from search.command_line.result import Code, Result, Table

RESULT = Result(
    {"seconds": float("inf"), "of": [float("nan"), 1.5]},
    [
        "A line.",
        "Another.",
        Table(("Name", "us"), [("a", "1"), ("b", "20")], "Times"),
        Code("x = 1"),
    ],
)


class Terminal(io.StringIO):
    """A terminal that keeps what is written to it."""

    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_aligned_text() -> None:
    stream = io.StringIO()
    RESULT.write(stream)
    assert stream.getvalue() == (
        "A line.\nAnother.\n\nTimes\nName  us\na      1\nb     20\n\nx = 1\n"
    )


def test_a_terminal_gets_tables_and_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    RESULT.write(stream)
    assert "\x1b[1mName\x1b[0m \x1b[1mus\x1b[0m \n" in stream.getvalue()
    assert " a     1 \n b    20 \n" in stream.getvalue()


def test_a_narrow_terminal_breaks_lines_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "36")
    stream = Terminal()
    table = Table(("task", "best (us)", "with"), [("fused_conv2d_relu", "0.0792", "unroll=0, x=1")])
    Result({}, [table]).write(stream)
    lines = [line.rstrip() for line in re.sub(r"\x1b\[\d+m", "", stream.getvalue()).splitlines()]
    assert lines == [
        "",
        " task              best (us) with",
        " " + "─" * 40,
        " fused_conv2d_relu    0.0792 unroll=0,",
        "                             x=1",
        "",
    ]


def test_numbers_that_are_not_finite_are_null_in_json() -> None:
    assert json.loads(RESULT.as_json()) == {"seconds": None, "of": [None, 1.5]}


def test_output_that_cannot_be_written_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["show", "matmul.py"]) == 1
    assert capsys.readouterr().err == (
        "tensorir: error: standard output: No space left on device\n"
    )
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["show", "matmul.py"]) == 1
    assert capsys.readouterr().err == "tensorir: error: standard output: it is closed\n"


def test_a_reader_that_has_gone_ends_it_quietly(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["show", "matmul.py"]) == 1
    assert capsys.readouterr().err == ""


def test_names_of_files_may_be_any_bytes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"\xff\xfe.py")
    (folder / "matmul.py").rename(folder / name)
    assert main(["run", name, "--repeat", "0"]) == 0
    assert "\\udcff\\udcfe.py: built" in capsys.readouterr().out
    assert main(["show", f"{name}:One"]) == 1
    assert "\\udcff\\udcfe.py does not define 'One'" in capsys.readouterr().err


def test_what_is_said_to_nobody_stays_out_of_the_result(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["run", "matmul.py", "--repeat", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["program"] == "matmul.py"


def test_a_traceback_is_shown_on_request(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "text.json").write_text("text")
    assert main(["show", "text.json", "--traceback"]) == 1
    *above, error = capsys.readouterr().err.splitlines()
    assert above[0] == "Traceback (most recent call last):"
    assert error.startswith("tensorir: error: text.json is not the JSON of a program")


def test_what_nobody_expected_is_one_line_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("search.command_line.show.read_program", lambda *_: 1 // 0)
    assert main(["show", "matmul.py"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tensorir: error: ZeroDivisionError: ")
    assert "--traceback shows where" in line
