"""The parser that lark generates from `grammar.lark`, loaded from `grammar.json`.

    python -m tensorir.script.grammar    # writes grammar.json, after a change of the grammar

Generating the parser takes a quarter of a second; loading it takes a tenth of that time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import lark
from lark.grammar import Rule
from lark.lark import PostLex
from lark.lexer import TerminalDef, Token

from tensorir.script.source import Misread, place_of

GRAMMAR: Final = Path(__file__).with_name("grammar.lark")
SAVED: Final = GRAMMAR.with_suffix(".json")
_BRACKETS: Final = frozenset({"LPAR", "RPAR", "LSQB", "RSQB", "LBRACE", "RBRACE"})
_OPENING: Final = {")": "(", "]": "[", "}": "{"}
_DEEPEST: Final = 1000
"""The number of brackets, or of levels of indentation, that may be open at a time."""
_UNSUPPORTED: Final = {
    "break": "write the condition of a while loop",
    "continue": "put the statements that would be skipped under an if",
    "del": "names end with the block of statements that defines them",
    **dict.fromkeys(("try", "except", "finally"), "exceptions are not supported; use assert"),
    "raise": "use assert with a message",
    **dict.fromkeys(
        ("global", "nonlocal"), "names of the surrounding program can be read without it"
    ),
    "yield": "a function returns at most one value, by return",
    **dict.fromkeys(
        ("async", "await"), "use T.parallel for loops whose iterations are independent"
    ),
    "is": "compare with == or !=",
    ":=": "assign the value on a separate line",
}


class Layout(PostLex):
    """Turns indentation into tokens, and joins the lines inside brackets.

    Lark's own `Indenter` keeps its state in the parser, but several threads may parse at once. It
    also gives tabs a width; here, indentation is compared as text.
    """

    always_accept = ("_NEWLINE", "REFUSED")

    def process(self, stream: Iterator[Any]) -> Iterator[Token]:
        """Yield the tokens of a text; raise Misread for unbalanced brackets and indentation."""
        open_brackets: list[Token] = []
        indents: list[str] = []
        indent: str | None = ""
        """The indentation of a line, until its first token."""
        line, column = 1, 1
        for token in stream:
            kind = token.type
            if kind == "_NEWLINE":
                if not open_brackets:
                    if indent is None:
                        yield _mark("_NEWLINE", token.line, token.column)
                    indent = token.value.rpartition("\n")[2]
                continue
            if indent is not None:
                if not indents:
                    indents.append(indent)
                elif indent != indents[-1]:
                    yield from _indentation(token.line, indent, indents)
                indent = None
            if kind in _BRACKETS:
                if token.value not in _OPENING:
                    open_brackets.append(token)
                    if len(open_brackets) > _DEEPEST:
                        raise Misread("brackets are nested too deeply", place_of(token))
                elif not open_brackets or open_brackets.pop().value != _OPENING[token.value]:
                    raise Misread(f"'{token}' has no opening bracket", place_of(token))
            elif kind == "REFUSED":
                message = f"`{token}` is not supported; {_UNSUPPORTED[token.value]}"
                raise Misread(message, place_of(token))
            yield token
            line, column = token.end_line, token.end_column
        if open_brackets:
            raise Misread(f"'{open_brackets[-1]}' was never closed", place_of(open_brackets[-1]))
        if indent is None:
            yield _mark("_NEWLINE", line, column)
        for _ in indents[1:]:
            yield _mark("_DEDENT", line, 1)


def _indentation(line: int, indent: str, indents: list[str]) -> Iterator[Token]:
    """Yield the tokens of a line's indentation; `indents` are those of the open blocks."""
    place = (line, 1, line, 1 + max(1, len(indent)))
    if indent.startswith(indents[-1]):
        indents.append(indent)
        if len(indents) > _DEEPEST:
            raise Misread("blocks of statements are nested too deeply", place)
        yield _mark("_INDENT", line, 1)
    elif indent not in indents:
        mixed = "".join([*indents, indent])
        advice = "; tabs and spaces are mixed" if "\t" in mixed and " " in mixed else ""
        raise Misread(
            f"inconsistent indentation: no open block of statements is indented like this{advice}",
            place,
        )
    while indents[-1] != indent:
        indents.pop()
        yield _mark("_DEDENT", line, 1)


def _mark(kind: str, line: int, column: int) -> Token:
    return Token(kind, "\n", 0, line, column, line, column)


def load_parser(builder: object) -> lark.Lark:
    """Return the parser; `builder` has a method for each rule, which is called with its parts.

    The parser is generated again if `grammar.json` is from another grammar or lark version.
    """
    grammar = GRAMMAR.read_text(encoding="utf-8")
    saved = _parse_json(SAVED.read_text(encoding="utf-8"))
    if (saved["lark"], saved["grammar"]) != (lark.__version__, grammar):
        saved = _parse_json(parser_text(grammar))
    load: Any = lark.Lark._load_from_dict
    parser: lark.Lark = load(saved["data"], saved["memo"], postlex=Layout(), transformer=builder)
    return parser


def parser_text(grammar: str) -> str:
    """Return the parser of a grammar as JSON, with the grammar and the version of lark."""
    # The basic lexer suffices, because no token depends on its context.
    parser = lark.Lark(grammar, parser="lalr", lexer="basic", postlex=Layout())
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    del data["options"]["postlex"]
    saved = {"lark": lark.__version__, "grammar": grammar, "data": data, "memo": memo}
    return json.dumps(saved, separators=(",", ":")) + "\n"


def _parse_json(text: str) -> dict[str, Any]:
    """Return the data in JSON text; digit strings as keys are converted back to numbers."""

    def with_numbers(values: dict[str, Any]) -> dict[Any, Any]:
        return {int(key) if key.isdecimal() else key: value for key, value in values.items()}

    saved: dict[str, Any] = json.loads(text, object_hook=with_numbers)
    return saved


if __name__ == "__main__":
    SAVED.write_text(parser_text(GRAMMAR.read_text(encoding="utf-8")), encoding="utf-8")
