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
from search.reports.page import LiveReport, followed_search, live_server
from search.reports.run_directory import TRIALS
from tests.search.report_page.made_up_search import (
    TRIAL,
    Parsed,
    trials,
    write,
    write_search,
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_search, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(followed_search, "_PARTS_SECONDS", 0.0)
    monkeypatch.setattr(followed_search, "_SHARE", 1.0)


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


def events(response: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    """Yield the names of events and what they say."""
    name = ""
    while line := response.readline().decode():
        key, _, text = line.rstrip("\n").partition(": ")
        if key == "event":
            name = text
        elif key == "data":
            yield name, json.loads(text or "null")


def until(news: Iterator[tuple[str, Any]], wanted: str) -> Any:
    """Return what the next event of a name says."""
    return next(said for name, said in news if name == wanted)


def test_the_page_has_what_there_is_and_may_ask_its_server(tmp_path: Path) -> None:
    write_search(tmp_path)
    with served(tmp_path) as live:
        response = answer(live, "/")
        page = Parsed(response.read().decode())
    assert response.status == 200
    assert len(json.loads(page.text("data"))["rows"]["task"]) == 20
    (policy,) = (a["content"] or "" for tag, a in page.attributes if "http-equiv" in a)
    assert "connect-src 'self'" in policy


def test_new_trials_are_told_as_they_end(tmp_path: Path) -> None:
    write(tmp_path, trials(3))
    with served(tmp_path) as live:
        news = events(answer(live, "/events?from=2"))
        assert until(news, "rows")["number"] == [2], "the page has the first two"
        LineStore(tmp_path).add(TRIALS, replace(TRIAL, number=3, run_secs=(1e-9,)))
        assert until(news, "rows")["number"] == [3]
        assert "0.001 us" in until(news, "parts")["summary"]


def test_tables_are_made_for_those_who_look(tmp_path: Path) -> None:
    write_search(tmp_path)
    with served(tmp_path) as live:
        news = events(answer(live, "/events?from=20"))
        assert until(news, "tasks")[0]["label"] == "matmul"
        assert "T.block" in until(news, "parts")["winners"]


def test_a_page_that_was_cut_off_goes_on_where_it_was(tmp_path: Path) -> None:
    write(tmp_path, trials(5))
    with served(tmp_path) as live:
        news = events(answer(live, "/events?from=0", **{"Last-Event-ID": "4"}))
        assert until(news, "rows")["number"] == [4]


def test_a_directory_that_begins_anew_is_loaded_anew(tmp_path: Path) -> None:
    write(tmp_path, trials(5))
    with served(tmp_path) as live:
        news = events(answer(live, "/events?from=0"))
        until(news, "rows")
        (tmp_path / TRIALS.file).unlink()
        write(tmp_path, trials(1))
        until(news, "reload")
        assert "trials1" in Parsed(answer(live, "/").read().decode()).text("summary")


def test_a_search_that_has_not_begun_is_waited_for(tmp_path: Path) -> None:
    with served(tmp_path) as live:
        page = Parsed(answer(live, "/").read().decode())
        assert "No trial has ended yet." in page.text("summary")
        news = events(answer(live, "/events?from=0"))
        write(tmp_path, trials(1))
        assert until(news, "rows")["number"] == [0]


def test_a_line_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    write(tmp_path, trials(2))
    path = tmp_path / TRIALS.file
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:40])
    with served(tmp_path) as live:
        news = events(answer(live, "/events?from=0"))
        assert until(news, "rows")["number"] == [0]
        with path.open("ab") as file:
            file.write(second[40:])
        assert until(news, "rows")["number"] == [1]
        assert "could not be read" not in until(news, "parts")["summary"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example:80"])
def test_a_page_of_another_site_is_not_answered(tmp_path: Path, host: str) -> None:
    with served(tmp_path) as live:
        assert answer(live, "/", Host=host).status == 403
        assert answer(live, "/events", Host=host).status == 403
        assert answer(live, "/", Host=f"localhost:{live.port}").status == 200
        assert answer(live, "/../../etc/passwd").status == 404


def test_a_place_to_go_on_from_that_is_no_number_of_a_trial_is_the_beginning(
    tmp_path: Path,
) -> None:
    write(tmp_path, trials(2))
    with served(tmp_path) as live:
        paths = ("/events?from=" + "9" * 5000, "/events?from=0")
        first, second = (until(events(answer(live, path)), "rows") for path in paths)
        assert first == second


def test_a_client_that_sends_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_server._Handler, "timeout", 0.1)
    with (
        served(tmp_path) as live,
        socket.create_connection(("127.0.0.1", live.port), timeout=20) as silent,
    ):
        assert silent.recv(1) == b""


def test_connections_beyond_the_bound_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_server, "_CONNECTIONS", 1)
    write(tmp_path, trials(2))
    with served(tmp_path) as live:
        following = answer(live, "/events")
        assert next(events(following))
        with socket.create_connection(("127.0.0.1", live.port), timeout=20) as another:
            assert another.recv(1) == b""


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TuningError, match=f"port {port} is in use: give another one, or 0"):
            LiveReport(tmp_path, port)
    with pytest.raises(TuningError, match="a port is a number from 0 to 65535, got 70000"):
        LiveReport(tmp_path, 70000)


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="is not there: give the directory"):
        LiveReport(tmp_path / "nowhere", 0)
