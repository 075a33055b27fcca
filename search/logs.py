"""The logs of a search: a few lines on standard output, everything in files."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from search.progress import Progress

ROOT: Final = "tvm.meta_schedule"
_FORMAT: Final = "%(asctime)s [%(levelname)s] %(message)s"
_DATES: Final = "%Y-%m-%d %H:%M:%S"


class Logs:
    """Log handlers for the duration of a run.

    The scheduler's messages go to standard output (through the progress bar, if there is one) and
    to `work_dir/logs/tvm.meta_schedule.logging.task_scheduler.log`, those of a task only to
    `...task_<i>_<name>.log`. Files are appended to. The level on standard output is that of the
    logger `tvm.meta_schedule`, INFO if it has none.
    """

    def __init__(
        self, work_dir: str | os.PathLike[str], task_names: Sequence[str], progress: Progress
    ) -> None:
        self.directory = Path(work_dir) / "logs"
        self._root = logging.getLogger(ROOT)
        self._console = _Console(progress)
        self._console.setFormatter(logging.Formatter(_FORMAT, _DATES))
        self._added: list[tuple[logging.Logger, logging.Handler]] = []
        self._before = (self._root.level, self._root.propagate)
        self.scheduler = logging.getLogger(f"{ROOT}.logging.task_scheduler")
        digits = len(str(len(task_names) - 1))
        self.tasks = [
            logging.getLogger(f"{ROOT}.logging.task_{k:0{digits}}_{name[:100]}")
            for k, name in enumerate(task_names)
        ]

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._root.level == logging.NOTSET:
            self._root.setLevel(logging.INFO)
        self._root.propagate = False
        self._add(self._root, self._console)
        self._add(self.scheduler, self._file(self.scheduler))
        for logger in self.tasks:
            logger.propagate = False
            logger.setLevel(logging.DEBUG)
            self._add(logger, self._file(logger))
        if self._root.level > logging.INFO:
            self.scheduler.warning(
                "The level of logger %s is above INFO: the tables of the search are not shown",
                ROOT,
            )
        self.scheduler.info("Logging directory: %s", self.directory)
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
        self._added = []
        level, self._root.propagate = self._before
        self._root.setLevel(level)

    def _file(self, logger: logging.Logger) -> logging.Handler:
        name = logger.name.replace(os.sep, "_") + ".log"
        handler = logging.FileHandler(self.directory / name, encoding="utf-8")
        handler.setFormatter(logging.Formatter(_FORMAT, _DATES))
        return handler

    def _add(self, logger: logging.Logger, handler: logging.Handler) -> None:
        logger.addHandler(handler)
        self._added.append((logger, handler))


class _Console(logging.Handler):
    """Writes to what is standard output at the moment, without tearing the progress bar."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if type(self._progress) is Progress:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
        else:
            self._progress.message(text)
