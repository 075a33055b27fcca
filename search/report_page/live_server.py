"""The report of a search that runs: served on this machine, with each trial as it ends.

The search is not involved: what it writes is read again twice a second, in this process.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from search.database import Database
from search.errors import TuningError
from search.report_page.followed_search import POLL_SECONDS, FollowedSearch
from search.report_page.written_report import read_search

PORT: Final = 8765
_HOST: Final = "127.0.0.1"
_NAMES: Final = frozenset(["127.0.0.1", "localhost"])
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
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], state: FollowedSearch) -> None:
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
