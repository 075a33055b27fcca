"""The report of a search that runs: served on this machine, with each trial as it ends.

The search is not involved: what it writes is read again twice a second, in this process.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from search.database import Database
from search.errors import TuningError
from search.report_page.chart_data import rows_of
from search.report_page.page import offered_tasks, page, parts
from search.report_page.watched_search import WatchedSearch
from search.report_page.winners import ShownWinner
from search.report_page.written_report import read_search, title_of
from tensorir.errors import TensorIRError

PORT: Final = 8765
_HOST: Final = "127.0.0.1"
_NAMES: Final = frozenset(["127.0.0.1", "localhost"])
_POLL_SECONDS: Final = 0.5
_PARTS_SECONDS: Final = 3.0
"""The least time between two versions of the tables, which are made as a whole."""
_SHARE: Final = 0.02
"""The most of a core that this takes, however many trials there are."""
_ALIVE_SECONDS: Final = 15.0
_LARGEST_PORT: Final = 65535

logger = logging.getLogger("tensorir.search")


class LiveReport:
    """The report of a working directory at `url`, until the end of its `with`.

    Only this machine is answered, and only under its own name, so that no page of another site can
    read it. Port 0 is one that is free, and `database` is what it is for `report`. TuningError for
    a port that is in use or none, DatabaseError if there is no directory.
    """

    def __init__(
        self,
        work_dir: str | os.PathLike[str],
        port: int = PORT,
        *,
        database: str | Database | None = None,
    ) -> None:
        if not 0 <= port <= _LARGEST_PORT:
            raise TuningError(f"a port is a number from 0 to {_LARGEST_PORT}, got {port}")
        self._state = _State(read_search(work_dir, database))
        try:
            self._server = _Server((_HOST, port), self._state)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            reason = "is in use" if error.errno == errno.EADDRINUSE else "may not be used"
            raise TuningError(
                f"port {port} {reason}: give another one, or 0 for one that is free"
            ) from error
        self.port: int = self._server.server_address[1]
        self.url = f"http://{_HOST}:{self.port}/"

    @property
    def trials(self) -> int:
        """The number of trials that were read so far."""
        return self._state.trials

    def serve(self) -> None:
        """Answer until `stop` or KeyboardInterrupt."""
        self._server.serve_forever(poll_interval=_POLL_SECONDS)

    def stop(self) -> None:
        """Let `serve` return, which another thread is in."""
        self._state.end()
        self._server.shutdown()

    def close(self) -> None:
        """End all answers; nothing is left behind."""
        self._state.end()
        self._server.server_close()

    def __enter__(self) -> LiveReport:
        self._state.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _State:
    """What is known of the search, kept up to date by one thread for all who ask."""

    def __init__(self, search: WatchedSearch) -> None:
        self._search = search
        self._changed = threading.Condition()
        self._tables: dict[str, str] = {}
        self._tasks = ""
        self._version = 0
        """How often tables or tasks were made."""
        self._life = 0
        """How often the files were replaced."""
        self._next = 0.0
        """When they are made again, by the monotonic clock."""
        self._made_of: tuple[Any, ...] = ()
        self._winners: dict[int, ShownWinner] = {}
        self._listeners = 0
        self.over = threading.Event()

    @property
    def trials(self) -> int:
        """The number of trials."""
        return len(self._search.trials)

    def start(self) -> None:
        """Begin to follow the files."""
        threading.Thread(target=self._follow, daemon=True).start()

    def end(self) -> None:
        """End following, and all events."""
        self.over.set()
        with self._changed:
            self._changed.notify_all()

    def _follow(self) -> None:
        while not self.over.wait(_POLL_SECONDS):
            try:
                self._catch_up()
            except (TensorIRError, OSError) as error:
                logger.warning("The live report waits: %s", error)
                self.over.wait(_PARTS_SECONDS)

    def _catch_up(self) -> None:
        search = self._search
        with self._changed:
            before = len(search.trials)
            if not search.catch_up():
                self._life += 1
            if len(search.trials) != before:
                self._changed.notify_all()
        of = (len(search.trials), len(search.tasks.all), search.is_unfinished, tuple(search.notes))
        now = time.monotonic()
        is_early = now < self._next
        if of == self._made_of or is_early or not self._listeners:
            return
        winners = search.winners()
        tables = {name: str(made) for name, made in parts(search, winners).items()}
        tasks = json.dumps(offered_tasks(search, winners))
        with self._changed:
            self._winners, self._made_of = winners, of
            if (tables, tasks) != (self._tables, self._tasks):
                self._tables, self._tasks = tables, tasks
                self._version += 1
                self._changed.notify_all()
        ended = time.monotonic()
        self._next = ended + max(_PARTS_SECONDS, (ended - now) / _SHARE)

    def page(self) -> str:
        """Return the page as it is now."""
        with self._changed:
            return page(self._search, self._winners, title=title_of(self._search), live=True)

    def events(self, have: int) -> Iterator[str]:
        """Yield what a page that has so many trials has to be told, as server-sent events.

        A comment says that there is nothing new, so that a page that was closed is found out.
        """
        with self._changed:
            self._listeners += 1
        try:
            yield from self._news(have)
        finally:
            with self._changed:
                self._listeners -= 1

    def _news(self, have: int) -> Iterator[str]:
        tables: dict[str, str] = {}
        tasks = ""
        version = -1
        life = self._life
        while not self.over.is_set():
            news: list[str] = []
            with self._changed:
                if len(self._search.trials) <= have and self._version == version:
                    self._changed.wait(_ALIVE_SECONDS)
                trials = self._search.trials
                is_other = life != self._life or have > len(trials)
                remade = self._version != version
                version = self._version
                if remade and tasks != self._tasks:
                    tasks = self._tasks
                    news.append(_event("tasks", tasks, have))
                if len(trials) > have:
                    places = self._search.tasks.places[have:]
                    rows = rows_of(trials[have:], places, self._search.start)
                    have = len(trials)
                    news.append(_event("rows", json.dumps(rows), have))
                changed = {
                    name: html for name, html in self._tables.items() if tables.get(name) != html
                }
                if remade and changed:
                    tables = self._tables
                    news.append(_event("parts", json.dumps(changed), have))
            if is_other:
                yield _event("reload", "", 0)
                return
            yield "".join(news) or ": nothing new\n\n"


def _event(name: str, text: str, have: int) -> str:
    """Return a server-sent event; JSON has no line breaks, so that one line of data is enough."""
    return f"id: {have}\nevent: {name}\ndata: {text}\n\n"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], state: _State) -> None:
        self.state = state
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong in the log; a page that was closed is none of that."""
        logger.exception("The live report could not answer %s", client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with the page, or with events for one."""
        url = urlsplit(self.path)
        if (self.headers.get("Host") or "").rpartition(":")[0] not in _NAMES:
            self.send_error(HTTPStatus.FORBIDDEN, "This report is for this machine only")
        elif url.path == "/":
            self._send_page()
        elif url.path == "/events":
            given = self.headers.get("Last-Event-ID") or parse_qs(url.query).get("from", ["0"])[0]
            self._send_events(int(given) if given.isdecimal() else 0)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _send_page(self) -> None:
        text = self.server.state.page().encode(errors="replace")
        self._head("text/html; charset=utf-8", length=len(text))
        with contextlib.suppress(ConnectionError):
            self.wfile.write(text)

    def _send_events(self, have: int) -> None:
        self._head("text/event-stream; charset=utf-8")
        self.close_connection = True
        with contextlib.suppress(ConnectionError):
            for text in self.server.state.events(have):
                self.wfile.write(text.encode(errors="replace"))
                self.wfile.flush()

    def _head(self, kind: str, length: int | None = None) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if length is None:
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of requests that were answered."""
