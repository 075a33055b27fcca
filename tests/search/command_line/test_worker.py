"""`tensorir worker` and `tensorir scheduler`, as far as each comes without the other."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from search.command_line.main import main

pytest.importorskip("distributed")
pytestmark = pytest.mark.usefixtures("credentials")

COMMAND = [sys.executable, "-m", "search.command_line"]


@pytest.mark.parametrize("address", ["nowhere", "tcp://127.0.0.1:1", "http://127.0.0.1:1"])
def test_an_address_that_is_none_is_told(capsys: pytest.CaptureFixture[str], address: str) -> None:
    assert main(["worker", address]) == 1
    assert f"invalid address of a scheduler '{address}': " in capsys.readouterr().err


@pytest.mark.parametrize(
    "options", [["--tls-cert", "me.pem"], ["--credentials", "file", "--tls-ca", "ca.pem"]]
)
def test_certificates_of_ones_own_are_three_files(
    capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    for command in (
        ["scheduler"],
        ["worker", "dask://host:1"],
        ["tune", __file__, "--runner", "dask://host:1", "--trials", "1", "--work-dir", "found"],
    ):
        assert main([*command, *options]) in (1, 2)
        assert "are three files, --tls-ca, --tls-cert and --tls-key" in capsys.readouterr().err


def test_credentials_that_do_not_exist_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["worker", "dask://host:1", "--credentials", str(tmp_path / "none")]) == 1
    error = capsys.readouterr().err
    assert f"no credentials at {tmp_path / 'none'}: `tensorir scheduler` makes" in error


def test_it_says_what_it_offers_and_waits_for_the_scheduler() -> None:
    with subprocess.Popen(
        [*COMMAND, "worker", "dask://127.0.0.1:1"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "measures on 1" in process.stderr.readline()
        assert "waiting for the scheduler tls://127.0.0.1:1; Ctrl-C" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_a_scheduler_makes_credentials_and_says_where_it_is(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    with subprocess.Popen(
        [*COMMAND, "scheduler", "--port", "0", "--credentials", str(file)],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "scheduler at dask://127.0.0.1:" in line
        assert f" for whoever has {file}; Ctrl-C ends" in line
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert file.stat().st_mode & 0o777 == 0o600
