"""The live report: a server on this machine for the page of a running search.

An open page asks for news every second; the files of the search are read again for each question.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
import time
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from search.database import Database
from search.errors import ArgumentError, TuningError
from search.reports.page.chart_data import rows_of, tasks_of
from search.reports.page.page import page
from search.reports.page.sections import Findings
from search.reports.page.watched_search import WatchedSearch
from tensorir.errors import TensorIRError

PORT: Final = 8765
_HOST: Final = "127.0.0.1"
_NAMES: Final = frozenset(["127.0.0.1", "localhost"])
_LARGEST_PORT: Final = 65535
_REQUEST_SECONDS: Final = 10
"""The time limit for sending a request and for accepting an answer."""
_PAUSE_SECONDS: Final = 3.0
"""The minimum time between two versions of the tables."""
_SHARE: Final = 0.01
"""The maximum fraction of a core for making tables, unless they are a minute old."""
_LONGEST_PAUSE: Final = 60.0


class LiveReport:
    """The report of a working directory, served at `url` until the end of its `with`.

    It answers requests from this machine that name it `localhost` or `127.0.0.1`, so pages of other
    sites cannot read it. With port 0 the system chooses a free port; `database` is as for `report`.
    ArgumentError for an invalid port, TuningError for a port in use, NoDatabaseError if the
    directory does not exist.
    """

    def __init__(
        self,
        work_dir: str | os.PathLike[str],
        port: int = PORT,
        *,
        database: str | Database | None = None,
    ) -> None:
        if not 0 <= port <= _LARGEST_PORT:
            raise ArgumentError(f"a port is a number from 0 to {_LARGEST_PORT}, got {port}")
        self._news = _News(WatchedSearch(work_dir, database))
        try:
            self._server = ThreadingHTTPServer((_HOST, port), partial(_Handler, self._news))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            reason = "is in use" if error.errno == errno.EADDRINUSE else "needs more rights"
            raise TuningError(f"port {port} {reason}: give another port, or 0 for any") from error
        self.port: int = self._server.server_address[1]
        self.url = f"http://{_HOST}:{self.port}/"

    @property
    def trials(self) -> int:
        """The number of trials read so far."""
        return len(self._news.search.trials)

    def serve(self) -> None:
        """Answer requests until `stop` or KeyboardInterrupt."""
        self._server.serve_forever()

    def stop(self) -> None:
        """Make `serve` return, which runs in another thread."""
        self._server.shutdown()

    def __enter__(self) -> LiveReport:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()


class _News:
    """A search and the versions of its tables, for requests from several threads."""

    def __init__(self, search: WatchedSearch) -> None:
        self.search = search
        self._lock = threading.Lock()
        self._reads = 0
        """The number of times that all files were read from the start."""
        self._parts: dict[str, tuple[int, Any]] = {}
        """The tables of the page by id, and the tasks, with the versions that changed them."""
        self._version = 0
        self._state: object = None
        """The state of the search in the last version."""
        self._next = 0.0

    def page(self) -> str:
        """Return the page."""
        with self._lock:
            self._catch_up()
            return page(Findings(self.search), self._reads)

    def since(self, reads: int, trials: int, version: int) -> dict[str, Any]:
        """Return the trials and the tables that a page lacks, or `reload` if it is outdated."""
        with self._lock:
            self._catch_up()
            count = len(self.search.trials)
            if reads != self._reads or trials > count:
                return {"reload": True}
            self._remake()
            parts = {name: new for name, (at, new) in self._parts.items() if at > version}
            rows = rows_of(self.search.tasks, range(trials, count))
            return {"rows": rows, "parts": parts, "version": self._version}

    def _catch_up(self) -> None:
        if not self.search.catch_up():
            self._reads += 1

    def _remake(self) -> None:
        """Make the tables again if the search went on, as often as their cost allows."""
        search = self.search
        state = (self._reads, len(search.trials), len(search.tasks), search.plans, search.notes)
        if state == self._state or time.monotonic() < self._next:
            return
        began = time.thread_time()
        findings = Findings(search)
        made = {**findings.parts, "tasks": tasks_of(search.tasks, findings.winners)}
        self._version += 1
        for name, new in made.items():
            if self._parts.get(name, (0, None))[1] != new:
                self._parts[name] = (self._version, new)
        self._state = state
        pause = max(_PAUSE_SECONDS, (time.thread_time() - began) / _SHARE)
        self._next = time.monotonic() + min(pause, _LONGEST_PAUSE)


class _Handler(BaseHTTPRequestHandler):
    timeout = _REQUEST_SECONDS

    def __init__(self, news: _News, *connection: Any) -> None:
        self._news = news
        super().__init__(*connection)

    def handle(self) -> None:
        """Answer a request, unless the page was closed."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle()

    def do_GET(self) -> None:
        """Answer with the page or with the news for a page."""
        url = urlsplit(self.path)
        asked = parse_qs(url.query)
        if (self.headers.get("Host") or "").rpartition(":")[0] not in _NAMES:
            self.send_error(HTTPStatus.FORBIDDEN, "This report is for this machine only")
        elif url.path not in ("/", "/news"):
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            try:
                if url.path == "/":
                    self._send("text/html; charset=utf-8", self._news.page())
                    return
                have = [int(asked[name][0]) for name in ("reads", "trials", "version")]
                self._send("application/json", json.dumps(self._news.since(*have)))
            except (TensorIRError, OSError) as error:
                self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, explain=str(error))
            except (KeyError, ValueError):
                self.send_error(HTTPStatus.BAD_REQUEST)

    def _send(self, kind: str, text: str) -> None:
        body = text.encode(errors="replace")
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests."""
