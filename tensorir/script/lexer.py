"""Tokens of the script dialect, indentation included, in one pass with one regular expression."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from lark import Token
from lark.lexer import Lexer

from tensorir.errors import DiagnosticError

KEYWORDS: Final = {
    word: word.upper()
    for word in [
        "for",
        "in",
        "while",
        "with",
        "as",
        "if",
        "elif",
        "else",
        "def",
        "class",
        "return",
        "assert",
        "pass",
        "import",
        "from",
        "lambda",
    ]
}
_UNSUPPORTED: Final = frozenset(
    [
        "break",
        "continue",
        "del",
        "try",
        "except",
        "finally",
        "raise",
        "global",
        "nonlocal",
        "yield",
        "async",
        "await",
        "match",
    ]
)
_WORDS: Final = {
    **KEYWORDS,
    "not": "PREFIX",
    "and": "OPERATOR",
    "or": "OPERATOR",
    "True": "CONSTANT",
    "False": "CONSTANT",
    "None": "CONSTANT",
}
_PUNCTUATION: Final = {
    "(": "LPAR",
    ")": "RPAR",
    "[": "LSQB",
    "]": "RSQB",
    "{": "LBRACE",
    "}": "RBRACE",
    ",": "COMMA",
    ":": "COLON",
    ".": "DOT",
    "=": "EQUAL",
    "@": "AT",
    "->": "__ANON_0",
    "-": "MINUS",
    "+": "OPERATOR",
    "~": "PREFIX",
    "*": "STAR",
    "**": "POWER",
}
_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\f]+|\\\r?\n)
      | (?P<name>[^\W\d]\w*(?P<dotted>(?:\.[^\W\d]\w*)+)?)
      | (?P<number>0[xX][\da-fA-F_]+|0[bB][01_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?)
      | (?P<string>(?:[rR])?(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}
                   |\"(?:\\.|[^\\\"\n])*\"|'(?:\\.|[^\\'\n])*'))
      | (?P<augmented>(?://|<<|>>|[-+*/%&|^])=)
      | (?P<operator>//|<<|>>|<=|>=|==|!=|[+/%<>&|^])
      | (?P<punctuation>->|\*\*|[-*~()\[\]{},:.=@])
      | (?P<comment>\#[^\n]*)
      | (?P<newline>\r?\n)""",
    re.VERBOSE | re.DOTALL,
)


class Lexeme(str):
    """A token: its text, its kind and where it begins."""

    __slots__ = ("column", "line", "type")
    type: str
    line: int
    column: int

    def __new__(cls, kind: str, text: str, line: int, column: int) -> Lexeme:
        """Return the token `text` of a kind."""
        token = str.__new__(cls, text)
        token.type = kind
        token.line = line
        token.column = column
        return token


class ScriptLexer(Lexer):
    """Feeds the parser; brackets join lines, and indentation becomes tokens."""

    def __init__(self, lexer_conf: Any) -> None:
        del lexer_conf

    def lex(self, text: Any) -> Iterator[Token]:  # type: ignore[override]
        """Yield the tokens of `text`; DiagnosticError where there is none."""
        for token in tokens(str(text)):
            line, column = token.line, token.column
            yield Token(token.type, str(token), 0, line, column, line, column + len(token))


def tokens(text: str) -> Iterator[Lexeme]:
    """Yield the tokens of a script; DiagnosticError where there is none."""
    match = _TOKEN.match
    position, end = 0, len(text)
    line, line_start = 1, 0
    depth = 0
    indents = [0]
    at_line_start = True
    last_was_newline = True
    while position < end:
        if at_line_start and depth == 0:
            at_line_start = False
            width = 0
            while position < end and text[position] in " \t\f":
                width += 1
                position += 1
            if position >= end:
                break
            if text[position] not in "#\r\n":
                if width > indents[-1]:
                    indents.append(width)
                    yield Lexeme("_INDENT", "", line, 1)
                while width < indents[-1]:
                    indents.pop()
                    if width > indents[-1]:
                        raise _error(text, line, 1, width + 1, "inconsistent indentation")
                    yield Lexeme("_DEDENT", "", line, 1)
        found = match(text, position)
        if found is None:
            column = position - line_start + 1
            raise _error(text, line, column, column + 1, f"unexpected character {text[position]!r}")
        kind, value = found.lastgroup, found.group()
        column = position - line_start + 1
        position = found.end()
        if kind == "space":
            if value[0] == "\\":
                line += 1
                line_start = position
            continue
        if kind == "comment":
            continue
        if kind == "newline":
            if depth == 0 and not last_was_newline:
                yield Lexeme("_NEWLINE", "\n", line, column)
                last_was_newline = True
            line += 1
            line_start = position
            at_line_start = depth == 0
            continue
        last_was_newline = False
        if kind == "name":
            kind = "DOTTED" if found["dotted"] else _WORDS.get(value, "NAME")
            if kind == "NAME":
                if value in _UNSUPPORTED:
                    raise _error(
                        text, line, column, column + len(value), f"`{value}` is not supported"
                    )
                if position < end and text[position] in "\"'":
                    raise _error(
                        text, line, column, column + len(value), "string prefixes are not supported"
                    )
        elif kind == "punctuation" or value == "+":
            kind = _PUNCTUATION[value]
            if value in "([{":
                depth += 1
            elif value in ")]}":
                depth -= 1
        elif kind == "operator":
            kind = "OPERATOR"
        elif kind == "augmented":
            kind = "AUGMENTED"
        else:
            assert kind is not None
            kind = kind.upper()
        token = Lexeme(kind, value, line, column)
        if kind == "STRING" and "\n" in value:
            line += value.count("\n")
            line_start = found.start() + value.rindex("\n") + 1
        yield token
    if not last_was_newline:
        yield Lexeme("_NEWLINE", "\n", line, position - line_start + 1)
    while indents.pop() > 0:
        yield Lexeme("_DEDENT", "", line, 1)


def _error(text: str, line: int, column: int, end_column: int, message: str) -> DiagnosticError:
    lines = text.splitlines()
    source = lines[line - 1] if line <= len(lines) else ""
    return DiagnosticError(
        message, line=line, column=column, end_column=end_column, source_line=source
    )
