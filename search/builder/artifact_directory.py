"""The directory for the files of one builder or runner."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Final

from codegen.cache_folder import check_private
from search.lines import take_lock

_PREFIX: Final = "tune_artifacts_"
_LOCK: Final = "in_use"


class ArtifactDirectory:
    """A directory in the temporary directory that is removed with its owner.

    It is removed by `remove`, or when the owner is collected or exits. An owner that is killed
    leaves the directory without the lock that it held on a file in it. The next owner finds it in
    this state and removes it.
    """

    def __init__(self) -> None:
        _remove_abandoned(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        unlocked = self.path / f"{_LOCK}.new"
        lock = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
        take_lock(lock)
        unlocked.rename(self.path / _LOCK)  # the file is never visible without its lock
        self.remove = weakref.finalize(self, _remove, self.path, lock)


def _remove(path: Path, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def _remove_abandoned(parent: Path) -> None:
    """Remove the directories of owners that were killed."""
    for lock_path in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            check_private(lock_path.parent)
            lock = os.open(lock_path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue  # its owner has just removed it, or it belongs to another user
        try:
            take_lock(lock, wait=False)
        except BlockingIOError:
            os.close(lock)
        else:
            _remove(lock_path.parent, lock)
