"""The logs of a search: a few lines for the user, everything in files."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from search.reports.live_display import Progress

ROOT: Final = "tensorir.search"
_ROOT_IN_TVM: Final = "tvm.meta_schedule"
_FORMAT: Final = "%(asctime)s [%(levelname)s] %(message)s"
_DATES: Final = "%Y-%m-%d %H:%M:%S"
_LEVELS: Final = {0: logging.WARNING, 2: logging.DEBUG}
_MOST_BYTES: Final = 240
"""Of the name of a file, which systems limit to 255."""


_runs: ContextVar[tuple[Logs, ...]] = ContextVar("runs that log", default=())
_lock: Final = threading.Lock()
_taken: Final[dict[logging.Logger, _Taken]] = {}


@dataclass
class _Taken:
    """A logger that runs have to themselves, how many, and how it was before."""

    level: int
    propagate: bool
    runs: int = 0


class Logs:
    """Log handlers for the duration of a run.

    Messages of level INFO and above are shown by `progress`, with `verbose` 0 those of level
    WARNING, with 2 all. For `verbose` 1 the level of the logger `tensorir.search` replaces INFO if
    it has one, else that of `tvm.meta_schedule`, as scripts that were written for TVM set it. All
    messages but those of a task go to
    `work_dir/logs/tvm.meta_schedule.logging.task_scheduler.log`, those of a task only to
    `...task_<i>_<name>.log`, in full: files have the names that they have there. Files are appended
    to.

    Of several runs in threads each has its own messages; those of threads that serve all of them go
    to each.
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
        self._root = logging.getLogger(ROOT)
        self._shown = _Shown(progress)
        self._added: list[tuple[logging.Logger, logging.Handler]] = []
        self._loggers: list[logging.Logger] = []
        self.scheduler = logging.getLogger(f"{ROOT}.logging.task_scheduler")
        digits = len(str(len(task_names) - 1))
        self.tasks = [
            logging.getLogger(f"{ROOT}.logging.task_{k:0{digits}}_{name[:100]}")
            for k, name in enumerate(task_names)
        ]

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        _runs.set((*_runs.get(), self))
        level = _LEVELS.get(self._verbose) or _level_before(self._root)
        level = level or logging.getLogger(_ROOT_IN_TVM).level or logging.INFO
        self._shown.setLevel(level)
        self._open(self._root, self._shown, self._file(self.scheduler))
        for logger in self.tasks:
            self._open(logger, self._file(logger))
        if level > logging.INFO and self._verbose:
            self.scheduler.warning(
                "The level of logger %s is above INFO: the course of the search is not shown", ROOT
            )
        self.scheduler.debug("Logging directory: %s", self.directory)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        place: TracebackType | None,
    ) -> None:
        for logger, handler in self._added:
            logger.removeHandler(handler)
            handler.close()
        with _lock:
            for logger in self._loggers:
                before = _taken[logger]
                before.runs -= 1
                if not before.runs:
                    logger.setLevel(before.level)
                    logger.propagate = before.propagate
                    del _taken[logger]
        self._added, self._loggers = [], []
        _runs.set(tuple(run for run in _runs.get() if run is not self))

    def _open(self, logger: logging.Logger, *handlers: logging.Handler) -> None:
        """Give all messages of a logger to the handlers and to nobody else."""
        with _lock:
            _taken.setdefault(logger, _Taken(logger.level, logger.propagate)).runs += 1
            logger.setLevel(logging.DEBUG)
            logger.propagate = False
        self._loggers.append(logger)
        for handler in handlers:
            handler.addFilter(self._is_mine)
            handler.setFormatter(logging.Formatter(_FORMAT, _DATES))
            logger.addHandler(handler)
            self._added.append((logger, handler))

    def _is_mine(self, record: logging.LogRecord) -> bool:
        """Say whether a message, of the thread that asks, is none of another run."""
        mine = _runs.get()
        return not mine or self in mine

    def _file(self, logger: logging.Logger) -> logging.Handler:
        return logging.FileHandler(self.directory / _file_name(logger.name), encoding="utf-8")


def _file_name(name: str) -> str:
    """Return the name of the file of a logger; a task may have any name."""
    plain = "".join(one if one.isprintable() and one != os.sep else "_" for one in name)
    kept = plain.replace(ROOT, _ROOT_IN_TVM, 1).encode(errors="replace")[:_MOST_BYTES]
    return kept.decode(errors="ignore") + ".log"


def _level_before(logger: logging.Logger) -> int:
    """Return the level of a logger as it is while no run has it."""
    with _lock:
        return _taken[logger].level if logger in _taken else logger.level


class _Shown(logging.Handler):
    """Gives messages to the display on the screen."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        self._progress.message(self.format(record))
