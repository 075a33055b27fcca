"""The names in a script."""

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
    """Names and their values by level, the innermost last."""

    def __init__(self, outer: Mapping[str, Any], *, trusted: bool) -> None:
        self.outer = outer
        self.trusted = trusted
        """True if the outer names are those of a Python program, whose functions may be called."""
        self.levels: list[dict[str, Any]] = [{}]

    def push(self) -> None:
        """Open a level."""
        self.levels.append({})

    def pop(self) -> None:
        """Close the innermost level."""
        self.levels.pop()

    def define(self, name: str, value: Any) -> None:
        """Define `name` in the innermost level.

        Raises IRValueError if it has another value there.
        """
        level = self.levels[-1]
        if name in level and not _same(level[name], value):
            raise IRValueError(
                f"Variable {name} already defined in current scope; a name keeps its value: take "
                f"another name, or declare `{name}: T.<dtype>` without a value to store to it"
            )
        level[name] = value

    def rebind(self, name: str, value: Any) -> None:
        """Define `name` in the innermost level, in place of an earlier value."""
        self.levels[-1][name] = value

    def lookup(self, name: str) -> Any:
        """Return the value of `name`. Raises KeyError for an undefined name."""
        for level in reversed(self.levels):
            if name in level:
                return level[name]
        if name in self.outer:
            return self.outer[name]
        return _BUILTINS[name]

    def near(self, name: str) -> str | None:
        """Return the defined name that is most similar to an undefined one, if any."""
        known = {key: None for level in reversed(self.levels) for key in level}
        found = difflib.get_close_matches(name, known, 1, cutoff=0.7)
        return found[0] if found and len(name) > 1 else None

    def knows(self, name: str) -> bool:
        """Return True if `name` is defined."""
        return any(name in names for names in (*self.levels, self.outer, _BUILTINS))

    def visible(self) -> dict[str, Any]:
        """Return all defined names with their values."""
        names = dict(self.outer)
        for level in self.levels:
            names.update(level)
        return names


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, (int, float, str)) and type(a) is type(b) and a == b)
