"""A tight loop over the parse tables that lark computes.

Lark's own loop is general; this one reads a script in about two thirds of the time. Where a text
does not parse, lark itself is asked again, for its account of what was expected.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from lark import Lark
from lark.parsers.lalr_analysis import Shift

from tensorir.script.lexer import Lexeme

_END: Final = "$END"

_Row: TypeAlias = dict[str, Any]
"""By token or rule: the next state, or a reduction as (length, callback, rule)."""


class Unparsable(Exception):  # noqa: N818  the caller makes the error
    """The text does not follow the grammar."""


class TableParser:
    """Runs the tables of a LALR parser that calls a transformer as it goes."""

    def __init__(self, parser: Lark) -> None:
        inner = parser.parser.parser
        table, callbacks = inner._parse_table, inner.parser.callbacks
        self._start: Any = table.start_states["start"]
        self._end: Any = table.end_states["start"]
        self._rows: dict[Any, _Row] = {
            state: {str(name): _entry(action, callbacks) for name, action in actions.items()}
            for state, actions in table.states.items()
        }

    def parse(self, tokens: Iterable[Lexeme]) -> Any:
        """Return what the transformer makes of the text; Unparsable if it is not in the language.

        What the lexer and the transformer raise passes through.
        """
        rows = self._rows
        states = [self._start]
        values: list[Any] = []
        row = rows[self._start]
        for token in (*tokens, None):
            kind = _END if token is None else token.type
            while True:
                entry = row.get(kind)
                if entry.__class__ is not tuple:
                    break
                size, callback, name = entry
                if size:
                    parts = values[-size:]
                    del states[-size:], values[-size:]
                    values.append(callback(parts))
                else:
                    values.append(callback([]))
                following = rows[states[-1]][name]
                states.append(following)
                row = rows[following]
            if token is None:
                break
            if entry is None:
                raise Unparsable
            states.append(entry)
            values.append(token)
            row = rows[entry]
        if states[-1] != self._end:
            raise Unparsable
        return values[-1]


def _entry(action: tuple[Any, Any], callbacks: Any) -> Any:
    kind, argument = action
    if kind is Shift:
        return argument
    return (len(argument.expansion), callbacks[argument], str(argument.origin.name))
