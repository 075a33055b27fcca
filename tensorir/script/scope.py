"""The names that an expression of a script sees."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from tensorir.errors import IRValueError

_BUILTINS: Final[dict[str, Any]] = {
    "len": len,
    "int": int,
    "float": float,
    "bool": bool,
    "tuple": tuple,
    "list": list,
}


class Scope:
    """Names by level; a level is discarded at its end."""

    def __init__(self, outer: Mapping[str, Any], *, trusted: bool) -> None:
        self.outer = outer
        self.trusted = trusted
        """True if outer names are the user's own Python, which may be called."""
        self.levels: list[dict[str, Any]] = [{}]

    def push(self) -> None:
        """Open a level."""
        self.levels.append({})

    def pop(self) -> None:
        """Close the innermost level."""
        self.levels.pop()

    def define(self, name: str, value: Any) -> None:
        """Give `name` a value; IRValueError if the level has another one under that name."""
        level = self.levels[-1]
        if name in level and not _same(level[name], value):
            raise IRValueError(
                f"Variable {name} already defined in current scope; a name keeps its value: take "
                f"another name, or declare `{name}: T.<dtype>` without a value to store to it"
            )
        level[name] = value

    def rebind(self, name: str, value: Any) -> None:
        """Give `name` a value from here on, whatever it had in this level."""
        self.levels[-1][name] = value

    def lookup(self, name: str) -> Any:
        """Return the value of `name`; KeyError if it has none."""
        for level in reversed(self.levels):
            if name in level:
                return level[name]
        if name in self.outer:
            return self.outer[name]
        return _BUILTINS[name]

    def near(self, name: str) -> str | None:
        """Return the name in the script that is most like a name without value, if one is."""
        known = {key: None for level in reversed(self.levels) for key in level}
        found = difflib.get_close_matches(name, known, 1, cutoff=0.7)
        return found[0] if found and len(name) > 1 else None

    def knows(self, name: str) -> bool:
        """Say whether `name` has a value."""
        return any(name in names for names in (*self.levels, self.outer, _BUILTINS))

    def visible(self) -> dict[str, Any]:
        """Return every name that is defined, with its value."""
        names = dict(self.outer)
        for level in self.levels:
            names.update(level)
        return names


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, (int, float, str)) and type(a) is type(b) and a == b)
