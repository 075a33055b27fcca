"""`tensorir report`: what it writes and says, and how a live one ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
import webbrowser
from pathlib import Path

import pytest

from search.command_line.main import main
from tests.search.reports.searches_for_pages import trials, write

ROOT = Path(__file__).parents[3]


def test_a_report_is_written_into_the_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, trials(12))
    assert main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/report.html: 12 trials\n"
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_a_report_is_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    write(tmp_path, trials(1))
    output = tmp_path / "a page.html"
    assert main(["report", str(tmp_path), "--output", str(output), "--open", "--json"]) == 0
    assert opened == [f"file://{tmp_path}/a%20page.html"]
    said = json.loads(capsys.readouterr().out)
    assert said == {"path": str(output), "trials": 1, "bytes": output.stat().st_size}


@pytest.mark.parametrize(
    ("code", "arguments", "message"),
    [
        (
            2,
            ["nowhere"],
            "nowhere is not a directory: it does not exist; give the work_dir of a search",
        ),
        (1, ["{folder}"], "there are no trials in {folder}"),
        (1, ["{folder}", "--task", "conv"], "there are no trials in {folder}"),
        (
            2,
            ["{folder}", "--live", "--port", "-1"],
            "'--port': Input should be greater than or equal to 0",
        ),
        (2, ["{folder}", "--live", "--task", "x"], "leave out --output and --task"),
        (2, ["{folder}", "--port", "80"], "--port is for --live: give both or none"),
        (2, ["{folder}", "--database", "{folder}/no"], "there is no database {folder}/no"),
    ],
)
def test_what_does_not_work_is_said(
    code: int,
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["report", *(text.format(folder=tmp_path) for text in arguments)]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert message.format(folder=tmp_path) in said.err


def test_a_page_that_cannot_be_written_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, trials(1))
    assert main(["report", str(tmp_path), "--output", str(tmp_path / "no" / "page.html")]) == 2
    assert f"{tmp_path}/no/page.html" in capsys.readouterr().err


def test_ctrl_c_ends_a_live_report(tmp_path: Path) -> None:
    write(tmp_path, trials(12))
    command = ["report", str(tmp_path), "--live", "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "search.command_line", *command],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        url = process.stderr.readline().split()[-3]
        with urllib.request.urlopen(url, timeout=30) as page:
            assert b"Best over time" in page.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr.read() == "tensorir: the report has ended; the search is unchanged\n"
    finally:
        process.kill()
        process.stderr.close()
