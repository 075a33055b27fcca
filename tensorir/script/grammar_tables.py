"""The tables of the parser, computed from `grammar.lark` when that changes.

    python -m tensorir.script.grammar_tables           # after a change of the grammar
    python -m tensorir.script.grammar_tables --check   # fails if that was forgotten

Computing them needs lark, and takes longer than reading many scripts; reading scripts needs them
alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from lark import Lark, Token
from lark.grammar import Rule, Symbol
from lark.lexer import Lexer
from lark.parsers.lalr_analysis import Shift

from tensorir.script.lalr import TABLES

_GRAMMAR: Final = Path(__file__).with_name("grammar.lark")


class _NoLexer(Lexer):
    """Stands for the lexer of scripts, which the tables do not depend on."""

    def __init__(self, lexer_conf: Any) -> None:
        del lexer_conf

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Token]:
        raise NotImplementedError


def tables_text() -> str:
    """Return the tables of the grammar as JSON.

    `states` has for every state what follows a symbol: state s as s, the reduction of rule r as
    -1 - r. `rules` has what a rule makes, how many symbols it takes, the method that builds it ("":
    a list, which becomes part of the rule around it) and what that is given of the symbols: place
    p as p, the items of the list at place p as -1 - p, null for one that is left out. A rule that
    makes what its first symbol is has null for all that.
    """
    grammar = _GRAMMAR.read_text(encoding="utf-8")
    lark: Any = Lark(grammar, parser="lalr", lexer=_NoLexer, maybe_placeholders=True)
    table = lark.parser.parser._parse_table
    start, end = table.start_states["start"], table.end_states["start"]
    # States are numbered as they are reached, the same on every machine.
    numbers = {start: 0}
    rules: dict[Rule, int] = {}
    rows: list[dict[str, int]] = []
    for state in (reached := [start]):
        row: dict[str, int] = {}
        for symbol, (action, target) in sorted(table.states[state].items(), key=lambda it: it[0]):
            if action is Shift:
                if target not in numbers:
                    numbers[target] = len(numbers)
                    reached.append(target)
                row[symbol] = numbers[target]
            else:
                row[symbol] = -1 - rules.setdefault(target, len(rules))
        rows.append(row)
    states = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    built = ",\n".join(json.dumps(_rule(rule), separators=(",", ":")) for rule in rules)
    return (
        f'{{"start": 0, "end": {numbers[end]},\n"rules": [\n{built}\n],\n'
        f'"states": [\n{states}\n]}}\n'
    )


def _rule(rule: Rule) -> tuple[str, int, str, list[int | None] | None]:
    made = str(rule.origin.name)
    method = rule.alias or ("" if made.startswith("_") else made)
    given = list(_given(rule))
    if rule.options.expand1 and not rule.alias and len(given) == 1:
        assert given == [0]
        return made, len(rule.expansion), "", None
    return made, len(rule.expansion), str(method), given


def _given(rule: Rule) -> Iterator[int | None]:
    """Yield the positions of the symbols that a rule builds from, None for missing ones."""
    symbols: Iterator[tuple[int, Symbol]] = iter(enumerate(rule.expansion))
    for missing in rule.options.empty_indices or [False] * len(rule.expansion):
        if missing:
            yield None
            continue
        place, symbol = next(symbols)
        if symbol.is_term and getattr(symbol, "filter_out", False):
            continue
        inlined = not symbol.is_term and symbol.name.startswith("_")
        yield -1 - place if inlined else place


def main() -> int:
    """Write the tables, or say with `--check` whether they are those of the grammar."""
    text = tables_text()
    if "--check" not in sys.argv[1:]:
        TABLES.write_text(text, encoding="utf-8")
        return 0
    if TABLES.read_text(encoding="utf-8") == text:
        return 0
    print(f"{TABLES} is stale: run python -m tensorir.script.grammar_tables")  # noqa: T201
    return 1


if __name__ == "__main__":
    sys.exit(main())
