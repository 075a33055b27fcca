"""The logs of a search: a few lines for the user, everything in files."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Final, Self

from search.reports.live_display import Progress

ROOT: Final = "tensorir.search"
_ROOT_IN_TVM: Final = "tvm.meta_schedule"
_FORMAT: Final = "%(asctime)s [%(levelname)s] %(message)s"
_DATES: Final = "%Y-%m-%d %H:%M:%S"
_LEVELS: Final = {0: logging.WARNING, 2: logging.DEBUG}
_MOST_BYTES: Final = 240
"""The maximum length of the name of a file, which systems limit to 255."""

_current: ContextVar[Logs | None] = ContextVar("the run that logs", default=None)
_lock: Final = threading.Lock()
_users: Final[dict[logging.Logger, tuple[int, int, bool]]] = {}
"""The number of runs that use a logger, and its level and propagation without them."""


class Logs:
    """Log handlers for the duration of a run.

    `progress` shows messages of level INFO and above, with `verbose` 0 of level WARNING, with 2 all
    messages. With `verbose` 1 the level of the logger `tensorir.search` replaces INFO if it is set,
    otherwise the level of `tvm.meta_schedule`, as scripts for TVM set it. Messages of a task are
    appended to `work_dir/logs/tvm.meta_schedule.logging.task_<i>_<name>.log`, all others to
    `tvm.meta_schedule.logging.task_scheduler.log`, as in TVM.

    Runs in several threads have separate messages, and a run inside of another run has its own;
    messages of threads that serve all runs go to each.
    """

    def __init__(
        self,
        work_dir: str | os.PathLike[str],
        task_names: Sequence[str],
        progress: Progress,
        verbose: int = 1,
    ) -> None:
        self._verbose = verbose
        self.directory = Path(work_dir) / "logs"
        self._shown = _DisplayHandler(progress)
        self._outer: Logs | None = None
        self._stack = contextlib.ExitStack()
        self.scheduler = logging.getLogger(f"{ROOT}.logging.task_scheduler")
        digits = len(str(len(task_names) - 1))
        self.tasks = [
            logging.getLogger(f"{ROOT}.logging.task_{k:0{digits}}_{name[:100]}")
            for k, name in enumerate(task_names)
        ]

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._outer = _current.get()
        _current.set(self)
        root = logging.getLogger(ROOT)
        with _lock:
            own_level = _users[root][1] if root in _users else root.level
        level = _LEVELS.get(self._verbose) or own_level
        level = level or logging.getLogger(_ROOT_IN_TVM).level or logging.INFO
        self._shown.setLevel(level)
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._handled(root, self._shown, self._file(self.scheduler)))
            for logger in self.tasks:
                stack.enter_context(self._handled(logger, self._file(logger)))
            self._stack = stack.pop_all()
        if level > logging.INFO and self._verbose:
            self.scheduler.warning(
                "The level of logger %s is above INFO: the course of the search is not shown", ROOT
            )
        self.scheduler.debug("Logging directory: %s", self.directory)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        _current.set(self._outer)

    @contextlib.contextmanager
    def _handled(self, logger: logging.Logger, *handlers: logging.Handler) -> Iterator[None]:
        """Send all messages of a logger only to the handlers, and to those of other runs."""
        with _lock:
            users, level, propagate = _users.get(logger, (0, logger.level, logger.propagate))
            _users[logger] = (users + 1, level, propagate)
            logger.setLevel(logging.DEBUG)
            logger.propagate = False
        for handler in handlers:
            handler.addFilter(self._is_mine)
            handler.setFormatter(logging.Formatter(_FORMAT, _DATES))
            logger.addHandler(handler)
        try:
            yield
        finally:
            for handler in handlers:
                logger.removeHandler(handler)
                handler.close()
            with _lock:
                users, level, propagate = _users.pop(logger)
                if users > 1:
                    _users[logger] = (users - 1, level, propagate)
                else:
                    logger.setLevel(level)
                    logger.propagate = propagate

    def _is_mine(self, record: logging.LogRecord) -> bool:
        """Return True unless the current thread works for another run."""
        return _current.get() in (None, self)

    def _file(self, logger: logging.Logger) -> logging.Handler:
        plain = "".join(c if c.isprintable() and c != os.sep else "_" for c in logger.name)
        name = plain.replace(ROOT, _ROOT_IN_TVM, 1).encode(errors="replace")[:_MOST_BYTES]
        path = self.directory / f"{name.decode(errors='ignore')}.log"
        return logging.FileHandler(path, encoding="utf-8")


class _DisplayHandler(logging.Handler):
    """Sends messages to the display on the screen."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        self._progress.message(self.format(record))
