"""`tensorir worker`, as far as it comes without a scheduler."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from search.command_line.main import main

pytest.importorskip("distributed")


@pytest.mark.parametrize("address", ["nowhere", "dask://127.0.0.1:1", "http://127.0.0.1:1"])
def test_an_address_that_is_none_is_told(capsys: pytest.CaptureFixture[str], address: str) -> None:
    assert main(["worker", address]) == 1
    assert f"'{address}' is no address of a Dask scheduler, as in tcp://host:8786" in (
        capsys.readouterr().err
    )


def test_tls_needs_all_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worker", "tls://host:1", "--tls-cert", "me.pem"]) == 1
    assert "TLS needs three files" in capsys.readouterr().err


def test_it_says_what_it_offers_and_waits_for_the_scheduler() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "search.command_line", "worker", "tcp://127.0.0.1:1"],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert "measures on 1" in process.stderr.readline()
        assert "waiting for the scheduler tcp://127.0.0.1:1; Ctrl-C" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_a_scheduler_says_where_it_is() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "search.command_line", "scheduler", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert "scheduler at tcp://" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
