"""Errors say in which function they arose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def naming_function(name: str) -> Iterator[None]:
    """Let errors say in which function they arose."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the function {name}")
        raise
