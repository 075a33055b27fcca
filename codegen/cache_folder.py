"""The cache folder that processes share, and folders that only this user may write to."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def cache_folder() -> Path | None:
    """Return `tensorir` in the user's cache directory (`$XDG_CACHE_HOME`, `~/.cache`), if any."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = Path(configured) if os.path.isabs(configured) else Path.home() / ".cache"
    except RuntimeError:
        return None
    return folder / "tensorir"


def private_folder(path: Path) -> Path:
    """Return a folder that only this user may write to; it is made if it does not exist.

    Raises OSError if it cannot be made, and as `check_private` does.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(path)
    return path


def check_private(path: Path) -> None:
    """Raise PermissionError if another user may write to a folder, OSError if it does not exist.

    A symbolic link is rejected, because its target may change.
    """
    if not hasattr(os, "geteuid"):
        raise PermissionError("this system does not report the owner of a folder")
    found = path.lstat()
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid != os.geteuid()
        or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        raise PermissionError(f"{path} is not a folder that only this user may write to")
