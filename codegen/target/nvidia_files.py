"""The files of NVIDIA's compiler that a package of Python installs: its assembler and libraries."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

_PACKAGE: Final = "nvidia-cuda-nvcc-cu12"


@cache
def nvidia_file(name: str) -> Path | None:
    """Return the path of a file such as `ptxas`; None if the package or the file is missing."""
    try:
        files = distribution(_PACKAGE).files or []
    except PackageNotFoundError:
        return None
    found = (Path(str(f.locate())) for f in files if f.name == name)
    return next((path for path in found if path.exists()), None)
