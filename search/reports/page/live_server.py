"""The live report: a server on this machine for the page of a running search.

An open page asks every second for its latest version, for which the files of the search are read
again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import threading
import time
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from search.database import Database
from search.errors import ArgumentError, TuningError
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
_PAUSE_SECONDS: Final = 1.0
"""The minimum time between two versions of the page."""
_SHARE: Final = 0.03
"""The maximum fraction of a core for making versions, unless the last one is a minute old."""
_LONGEST_PAUSE: Final = 60.0


class LiveReport:
    """The report of a working directory, served at `url` until the end of its `with`.

    It answers requests from this machine that name it `localhost` or `127.0.0.1`, so pages of other
    sites cannot read it. With port 0 the system chooses a free port; `database` is as for `report`.
    Raises ArgumentError for an invalid port, TuningError for a port in use, NoDatabaseError if the
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
        self._latest = _LatestPage(WatchedSearch(work_dir, database))
        try:
            self._server = ThreadingHTTPServer((_HOST, port), partial(_Handler, self._latest))
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
        return len(self._latest.search.trials)

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


class _LatestPage:
    """The page of a running search, for requests from several threads."""

    def __init__(self, search: WatchedSearch) -> None:
        self.search = search
        self._lock = threading.Lock()
        self._state: object = None
        """The state of the search in the latest version of the page."""
        self._body = b""
        self._next = 0.0

    def body(self) -> bytes:
        """Return the page, made again if the search went on, as often as its cost allows."""
        with self._lock:
            search = self.search
            search.catch_up()
            state = (search.trials[-1:], len(search.trials), search.tasks.known, search.plans)
            if state != self._state and time.monotonic() >= self._next:
                began = time.thread_time()
                self._body = page(Findings(search), live=True).encode(errors="replace")
                self._state = state
                pause = max(_PAUSE_SECONDS, (time.thread_time() - began) / _SHARE)
                self._next = time.monotonic() + min(pause, _LONGEST_PAUSE)
            return self._body


class _Handler(BaseHTTPRequestHandler):
    timeout = _REQUEST_SECONDS

    def __init__(self, latest: _LatestPage, *connection: Any) -> None:
        self._latest = latest
        super().__init__(*connection)

    def handle(self) -> None:
        """Answer a request, unless the page was closed."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle()

    def do_GET(self) -> None:
        """Answer with the page, or with 304 if the browser has its latest version."""
        if (self.headers.get("Host") or "").rpartition(":")[0] not in _NAMES:
            self.send_error(HTTPStatus.FORBIDDEN, "This report is for this machine only")
            return
        if self.path != "/":
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        try:
            body = self._latest.body()
        except (TensorIRError, OSError) as error:
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, explain=str(error))
            return
        version = hashlib.sha256(body).hexdigest()
        is_known = self.headers.get("If-None-Match") == version
        self.send_response(HTTPStatus.NOT_MODIFIED if is_known else HTTPStatus.OK)
        self.send_header("ETag", version)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(b"" if is_known else body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests."""
