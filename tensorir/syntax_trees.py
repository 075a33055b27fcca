"""Syntax trees of Python texts, made by one thread at a time.

CPython 3.11 counts how deeply it is in a tree for all threads together, and raises SystemError
where another one makes a tree meanwhile, as it may when garbage is collected.
"""

from __future__ import annotations

import ast
import threading
from typing import Final

_making: Final = threading.RLock()


def syntax_tree(text: str, place: str = "<unknown>") -> ast.Module:
    """Return the tree of a text; SyntaxError, which names the place, for invalid Python."""
    with _making:
        return ast.parse(text, place)
