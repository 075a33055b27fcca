"""The report of a search that runs: served on this machine, with each trial as it ends.

The search is not involved: what it writes is read again twice a second, in this process.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from search.database import Database
from search.errors import ArgumentError, TuningError
from search.reports.page.followed_search import POLL_SECONDS, FollowedSearch
from search.reports.page.written_report import read_search

PORT: Final = 8765
_HOST: Final = "127.0.0.1"
_NAMES: Final = frozenset(["127.0.0.1", "localhost"])
_LARGEST_PORT: Final = 65535
_CONNECTIONS: Final = 32
"""Pages that are followed at the same time, each by one connection that stays open."""
_REQUEST_SECONDS: Final = 10
"""The time that a client has to send a request, or to take a part of an answer."""
_DIGITS: Final = 15
"""The digits of the largest number of a trial."""

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
            raise ArgumentError(f"a port is a number from 0 to {_LARGEST_PORT}, got {port}")
        self._state = FollowedSearch(read_search(work_dir, database))
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
        self._server.serve_forever(poll_interval=POLL_SECONDS)

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


class _Server(ThreadingHTTPServer):
    """A server with a bounded number of connections; one more is closed at once."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], state: FollowedSearch) -> None:
        self.state = state
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, if one is free."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and free the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong in the log; a page that was closed is none of that."""
        logger.exception("The live report could not answer %s", client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = _REQUEST_SECONDS

    def do_GET(self) -> None:
        """Answer with the page, or with events for one."""
        url = urlsplit(self.path)
        if (self.headers.get("Host") or "").rpartition(":")[0] not in _NAMES:
            self.send_error(HTTPStatus.FORBIDDEN, "This report is for this machine only")
        elif url.path == "/":
            self._send_page()
        elif url.path == "/events":
            given = self.headers.get("Last-Event-ID") or parse_qs(url.query).get("from", ["0"])[0]
            is_number = given.isdecimal() and len(given) <= _DIGITS
            self._send_events(int(given) if is_number else 0)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _send_page(self) -> None:
        text = self.server.state.page().encode(errors="replace")
        self._head("text/html; charset=utf-8", length=len(text))
        with contextlib.suppress(ConnectionError, TimeoutError):
            self.wfile.write(text)

    def _send_events(self, have: int) -> None:
        self._head("text/event-stream; charset=utf-8")
        self.close_connection = True
        with contextlib.suppress(ConnectionError, TimeoutError):
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
