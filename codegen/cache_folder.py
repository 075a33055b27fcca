"""The folder for what is worth keeping between processes."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path | None:
    """Return `tensorir` in the user's cache directory (`$XDG_CACHE_HOME`, `~/.cache`), if any."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = Path(configured) if os.path.isabs(configured) else Path.home() / ".cache"
    except RuntimeError:
        return None
    return folder / "tensorir"
