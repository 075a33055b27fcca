"""The version of the distribution: the one place where it is written."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
