"""Syntax trees of Python texts, built by one thread at a time.

CPython 3.11 has one counter of the recursion depth for all threads that build syntax trees, and
raises SystemError if two build trees at once. Garbage collection may switch between them.
"""

from __future__ import annotations

import ast
import threading
from typing import Final

_making: Final = threading.RLock()


def syntax_tree(text: str, place: str = "<unknown>") -> ast.Module:
    """Return the syntax tree of a text.

    Raises SyntaxError, which names the place, for invalid Python.
    """
    with _making:
        return ast.parse(text, place)
