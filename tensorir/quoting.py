"""Strings of a program in printed text: as literals, and as names.

Programs, traces and error messages print every string by these functions. So no name or annotation
can terminate its literal and become code.
"""

from __future__ import annotations

import keyword
import re
from typing import Final

_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_]")
RESERVED: Final = frozenset({*keyword.kwlist, "I", "T", "R", "cls", "range", "metadata"})
"""Names that variables must not have, since they have another meaning in a script."""


def quote(text: str) -> str:
    """Return a string as a double-quoted literal of printable characters."""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    if not text.isprintable():
        text = "".join([c if c.isprintable() else _escaped(c) for c in text])
    return f'"{text}"'


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def identifier(hint: str) -> str:
    """Return a valid identifier: invalid characters are replaced by underscores."""
    return _FOREIGN.sub("_", hint)


def is_name(text: str) -> bool:
    """Return True if a definition in a script can have the name `text`."""
    return text.isidentifier() and not keyword.iskeyword(text)
