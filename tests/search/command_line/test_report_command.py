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
