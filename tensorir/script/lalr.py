"""The parser of scripts: shifts tokens and reduces rules as the tables of the grammar say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

from tensorir.script.lexer import Lexeme

TABLES: Final = Path(__file__).with_name("grammar_tables.json")
"""Written by `tensorir.script.grammar_tables`, which says what is in it."""
END: Final = "$END"
_NONE: Final = -(1 << 20)
"""Stands for the action that there is not."""

_Rule: TypeAlias = tuple[str, int, Callable[..., Any] | None, list[int | None] | None]


class UnexpectedToken(Exception):  # noqa: N818  it becomes an error when the text is known
    """A token that cannot stand where it does; `accepted` are the kinds of those that can."""

    def __init__(self, token: Lexeme, accepted: set[str]) -> None:
        super().__init__(token.text)
        self.token = token
        self.accepted = accepted


class Parser:
    """Reads tokens by the grammar; what a rule means is a method of `builder`."""

    def __init__(self, builder: object) -> None:
        tables = json.loads(TABLES.read_text(encoding="utf-8"))
        self._states: list[dict[str, int]] = tables["states"]
        self._start: int = tables["start"]
        self._end: int = tables["end"]
        self._rules = [_rule(builder, *row) for row in tables["rules"]]

    def parse(self, tokens: Iterable[Lexeme]) -> Any:
        """Return the tree of the grammar's first rule for a text; raise UnexpectedToken."""
        states = [self._start]
        values: list[Any] = []
        table, rules = self._states, self._rules
        token = None
        for token in tokens:
            kind = token.type
            while (action := table[states[-1]].get(kind, _NONE)) < 0:
                if action == _NONE:
                    raise UnexpectedToken(token, self._accepted(states))
                rule = rules[-1 - action]
                made, count, build, given = rule
                if count == 1 and given is None:
                    if build is not None:
                        values[-1] = build(values[-1])
                    states[-1] = table[states[-2]][made]
                else:
                    _reduce(rule, states, values, table)
            states.append(action)
            values.append(token)
        line, column = (token.line, token.column) if token is not None else (1, 1)
        while states[-1] != self._end:
            action = table[states[-1]].get(END, _NONE)
            if action == _NONE:
                raise UnexpectedToken(Lexeme(END, "", line, column), self._accepted(states))
            _reduce(rules[-1 - action], states, values, table)
        return values[-1]

    def _accepted(self, states: list[int]) -> set[str]:
        """Return the kinds of tokens that can be next."""
        return {kind for kind in self._states[states[-1]] if self._accepts(list(states), kind)}

    def _accepts(self, states: list[int], kind: str) -> bool:
        """Say whether a token can be next; what a state reduces for it may lead to one that no."""
        if not kind.isupper():
            return False
        while states[-1] != self._end:
            action = self._states[states[-1]].get(kind)
            if action is None or action >= 0:
                return action is not None
            made, count, _, _ = self._rules[-1 - action]
            del states[len(states) - count :]
            states.append(self._states[states[-1]][made])
        return kind == END


def _rule(
    builder: object, made: str, count: int, method: str, given: list[int | None] | None
) -> _Rule:
    """Return a rule of the tables; most give one symbol another name, or build from one."""
    build = getattr(builder, method) if method else None
    alone = count == 1 and given == [0] and build is not None
    return made, count, build, None if alone else given


def _reduce(rule: _Rule, states: list[int], values: list[Any], table: list[dict[str, int]]) -> None:
    """Replace the last values by what a rule makes of them."""
    made, count, build, given = rule
    if given is not None:
        first = len(values) - count
        chosen: list[Any] = []
        for place in given:
            if place is None:
                chosen.append(None)
            elif place >= 0:
                chosen.append(values[first + place])
            elif chosen:
                chosen += values[first - 1 - place]
            else:
                # A list belongs to the rule around it, which may as well go on with it.
                chosen = values[first - 1 - place]
        del values[first:]
        values.append(chosen if build is None else build(*chosen))
    else:
        del values[len(values) - count + 1 :]
    del states[len(states) - count :]
    states.append(table[states[-1]][made])
