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
from typing import Any

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


def news(live: LiveReport, trials: int, version: int = 0, reads: int = 0) -> Any:
    """Return what the server tells a page with so many trials."""
    path = f"/news?reads={reads}&trials={trials}&version={version}"
    return json.loads(answer(live, path).read())


def test_the_page_has_what_there_is_and_may_ask_its_server(tmp_path: Path) -> None:
    write_search(tmp_path)
    with served(tmp_path) as live:
        page = page_of(live)
    assert len(json.loads(page.text("data"))["rows"]["task"]) == 20
    (policy,) = (a["content"] or "" for tag, a in page.attributes if "http-equiv" in a)
    assert "connect-src 'self'" in policy


def test_a_page_gets_the_trials_that_it_lacks(tmp_path: Path) -> None:
    write(tmp_path, trials(3))
    with served(tmp_path) as live:
        assert news(live, 2)["rows"]["number"] == [2], "the page has the first two"
        LineStore(tmp_path).add(TRIALS, replace(TRIAL, number=3, run_secs=(1e-9,)))
        answered = news(live, 3)
        assert answered["rows"]["number"] == [3]
        assert "0.001 us" in answered["parts"]["summary"]


def test_a_page_gets_the_tables_that_changed(tmp_path: Path) -> None:
    write_search(tmp_path)
    with served(tmp_path) as live:
        first = news(live, 20)
        assert first["parts"]["tasks"][0]["label"] == "matmul"
        assert "T.block" in first["parts"]["winners"]
        assert news(live, 20, first["version"])["parts"] == {}
        LineStore(tmp_path).add(TRIALS, replace(TRIAL, number=20, stage="build", run_secs=()))
        changed = news(live, 20, first["version"])["parts"]
        assert "winners" in first["parts"].keys() - changed.keys()
        assert "failed" in changed


def test_tables_of_a_large_search_are_made_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_server, "_SHARE", 1e-9)
    write(tmp_path, trials(5))
    with served(tmp_path) as live:
        version = news(live, 5)["version"]
        LineStore(tmp_path).add(TRIALS, TRIAL)
        later = news(live, 5, version)
        assert (later["version"], later["parts"]) == (version, {})
        assert later["rows"]["number"] == [0], "trials are sent at once"


def test_a_directory_that_begins_anew_is_loaded_anew(tmp_path: Path) -> None:
    write(tmp_path, trials(5))
    with served(tmp_path) as live:
        assert news(live, 0)["rows"]["number"] == [*range(5)]
        (tmp_path / TRIALS.file).unlink()
        write(tmp_path, trials(1))
        assert news(live, 5) == {"reload": True}
        page = page_of(live)
        assert "trials1" in page.text("summary")
        assert "rows" in news(live, 1, reads=json.loads(page.text("data"))["reads"])


def test_a_page_of_a_server_that_was_started_again_is_loaded_anew(tmp_path: Path) -> None:
    write(tmp_path, trials(5))
    with served(tmp_path) as live:
        assert news(live, 9) == {"reload": True}


def test_a_search_that_has_not_begun_is_waited_for(tmp_path: Path) -> None:
    with served(tmp_path) as live:
        assert "No trial has ended yet." in page_of(live).text("summary")
        write(tmp_path, trials(1))
        assert news(live, 0)["rows"]["number"] == [0]


def test_a_line_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    write(tmp_path, trials(2))
    path = tmp_path / TRIALS.file
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:40])
    with served(tmp_path) as live:
        assert news(live, 0)["rows"]["number"] == [0]
        with path.open("ab") as file:
            file.write(second[40:])
        answered = news(live, 1)
        assert answered["rows"]["number"] == [1]
        assert "could not be read" not in answered["parts"]["summary"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example:80"])
def test_a_page_of_another_site_is_not_answered(tmp_path: Path, host: str) -> None:
    with served(tmp_path) as live:
        assert answer(live, "/", Host=host).status == 403
        assert answer(live, "/news?reads=0&trials=0&version=0", Host=host).status == 403


def test_questions_of_another_form_are_refused(tmp_path: Path) -> None:
    with served(tmp_path) as live:
        assert answer(live, "/", Host=f"localhost:{live.port}").status == 200
        assert answer(live, "/../../etc/passwd").status == 404
        for query in ("", "?reads=0&trials=x&version=0", "?reads=0&version=0&trials=" + "9" * 5000):
            assert answer(live, f"/news{query}").status == 400


def test_files_that_cannot_be_read_are_named_to_the_page(tmp_path: Path) -> None:
    with served(tmp_path) as live:
        (tmp_path / TRIALS.file).write_text("no trials")
        refused = answer(live, "/news?reads=0&trials=0&version=0")
        assert refused.status == 503
        assert "this is no file of records" in refused.read().decode()


def test_a_client_that_sends_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_server._Handler, "timeout", 0.1)
    with (
        served(tmp_path) as live,
        socket.create_connection(("127.0.0.1", live.port), timeout=20) as silent,
    ):
        assert silent.recv(1) == b""


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TuningError, match=f"port {port} is in use: give another port, or 0"):
            LiveReport(tmp_path, port)
    with pytest.raises(TuningError, match="a port is a number from 0 to 65535, got 70000"):
        LiveReport(tmp_path, 70000)


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="is not there: give the directory"):
        LiveReport(tmp_path / "nowhere", 0)
