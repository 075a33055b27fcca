"""A report that follows a search: what its server answers, to whom, and how it ends."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from search import DatabaseError, TuningError
from search.database.line_store import LineStore
from search.reports.page import LiveReport, live_server
from search.reports.run_directory import TRIALS
from tests.search.reports.searches_for_pages import (
    TRIAL,
    Parsed,
    trials,
    write,
    write_search,
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_server, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(live_server, "_SHARE", 1e9)


@contextmanager
def served(folder: Path) -> Iterator[LiveReport]:
    with LiveReport(folder, port=0) as live:
        thread = threading.Thread(target=live.serve)
        thread.start()
        try:
            yield live
        finally:
            live.stop()
            thread.join(10)
            assert not thread.is_alive()


def answer(live: LiveReport, path: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=20)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def page_of(live: LiveReport) -> Parsed:
    return Parsed(answer(live, "/").read().decode())


def numbers(live: LiveReport) -> list[int]:
    """Return the numbers of the trials on the page."""
    found: list[int] = json.loads(page_of(live).text("data"))["rows"]["number"]
    return found


def test_the_page_has_what_there_is_and_may_ask_its_server(tmp_path: Path) -> None:
    write_search(tmp_path)
    with served(tmp_path) as live:
        page = page_of(live)
    assert len(json.loads(page.text("data"))["rows"]["task"]) == 20
    assert json.loads(page.text("data"))["winners"].keys() == {"0"}
    (policy,) = (a["content"] or "" for tag, a in page.attributes if "http-equiv" in a)
    assert "connect-src 'self'" in policy


def test_a_new_trial_is_a_new_version_of_the_page(tmp_path: Path) -> None:
    write(tmp_path, trials(3))
    with served(tmp_path) as live:
        first = answer(live, "/")
        version = first.headers["ETag"]
        assert answer(live, "/", **{"If-None-Match": version}).status == 304
        LineStore(tmp_path).add(TRIALS, replace(TRIAL, number=3, run_secs=(1e-9,)))
        again = answer(live, "/", **{"If-None-Match": version})
        assert again.status == 200
        assert "0.001 us" in Parsed(again.read().decode()).text("summary")
    assert live.trials == 4


def test_versions_of_a_large_page_are_rare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_server, "_SHARE", 1e-9)
    write(tmp_path, trials(5))
    with served(tmp_path) as live:
        assert len(numbers(live)) == 5
        LineStore(tmp_path).add(TRIALS, TRIAL)
        assert len(numbers(live)) == 5


def test_a_directory_that_begins_anew_is_read_anew(tmp_path: Path) -> None:
    write(tmp_path, trials(5))
    with served(tmp_path) as live:
        assert numbers(live) == [*range(5)]
        (tmp_path / TRIALS.file).unlink()
        write(tmp_path, trials(1))
        assert "trials1" in page_of(live).text("summary")


def test_a_search_that_has_not_begun_is_waited_for(tmp_path: Path) -> None:
    with served(tmp_path) as live:
        assert "No trial has ended yet." in page_of(live).text("summary")
        write(tmp_path, trials(1))
        assert numbers(live) == [0]


def test_a_line_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    write(tmp_path, trials(2))
    path = tmp_path / TRIALS.file
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:40])
    with served(tmp_path) as live:
        assert numbers(live) == [0]
        with path.open("ab") as file:
            file.write(second[40:])
        assert numbers(live) == [0, 1]
        assert "could not be read" not in page_of(live).text("summary")


def test_only_the_page_is_served_and_to_pages_of_this_server_alone(tmp_path: Path) -> None:
    with served(tmp_path) as live:
        for host in ("evil.example", "evil.example:80", "localhost.evil.example:80"):
            assert answer(live, "/", Host=host).status == 403
        assert answer(live, "/", Host=f"localhost:{live.port}").status == 200
        assert answer(live, "/../../etc/passwd").status == 404
        (tmp_path / TRIALS.file).write_text("no trials")
        refused = answer(live, "/")
        assert refused.status == 503
        assert "is not a file of records" in refused.read().decode()


def test_a_client_that_sends_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_server._Handler, "timeout", 0.1)
    with (
        served(tmp_path) as live,
        socket.create_connection(("127.0.0.1", live.port), timeout=20) as silent,
    ):
        assert silent.recv(1) == b""


def test_a_port_or_directory_that_cannot_be_served_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TuningError, match=f"port {port} is in use: give another port, or 0"):
            LiveReport(tmp_path, port)
    with pytest.raises(TuningError, match="a port is a number from 0 to 65535, got 70000"):
        LiveReport(tmp_path, 70000)
    with pytest.raises(DatabaseError, match="is not a directory: it does not exist; give"):
        LiveReport(tmp_path / "nowhere", 0)
