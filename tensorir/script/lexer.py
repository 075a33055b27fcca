"""Tokens of the script dialect, indentation included, in one pass with one regular expression."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tensorir.script.source import Misread, Place

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
_REFUSED: Final = {
    "break": "write the condition of a while loop",
    "continue": "put what it would skip under an if",
    "del": "names end with the suite that defines them",
    "try": "the dialect has no exceptions; use assert",
    "except": "the dialect has no exceptions; use assert",
    "finally": "the dialect has no exceptions; use assert",
    "raise": "use assert with a message",
    "global": "values of the program around are seen as they are",
    "nonlocal": "values of the program around are seen as they are",
    "yield": "a function returns at most one value, by return",
    "async": "use T.parallel for loops whose iterations are independent",
    "await": "use T.parallel for loops whose iterations are independent",
    "is": "compare with == or !=",
    ":=": "give the value its name on a line of its own",
}
_KINDS: Final = {
    **dict.fromkeys(_REFUSED, "REFUSED"),
    **KEYWORDS,
    "not": "PREFIX",
    "and": "OPERATOR",
    "or": "OPERATOR",
    "True": "CONSTANT",
    "False": "CONSTANT",
    "None": "CONSTANT",
    "(": "LPAR",
    ")": "RPAR",
    "[": "LSQB",
    "]": "RSQB",
    "{": "LBRACE",
    "}": "RBRACE",
    ",": "COMMA",
    ":": "COLON",
    ";": "SEMICOLON",
    ".": "DOT",
    "=": "EQUAL",
    "@": "AT",
    "->": "_ARROW",
    "-": "MINUS",
    "~": "PREFIX",
    "*": "STAR",
    "**": "POWER",
    **dict.fromkeys(
        ["+", "/", "//", "%", "<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&", "|", "^"],
        "OPERATOR",
    ),
    **dict.fromkeys(
        ["//=", "<<=", ">>=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="], "AUGMENTED"
    ),
}
_OPENING: Final = {")": "(", "]": "[", "}": "{"}
_DEEPEST: Final = 1000
"""The number of brackets, or of levels of indentation, that may be open at a time."""
_TOKEN: Final = re.compile(
    r"""[ \t\f]*(?:
        (?P<name>(?![bBfFrRuU]{1,2}["'])[^\W\d]\w*(?:\.[^\W\d]\w*)*)
      | (?P<symbol>->|\*\*|(?://|<<|>>|[-+*/%&|^<>=!:])=|//|<<|>>|[-+*/%&|^<>=~()\[\]{},:;.@])
      | (?P<newline>(?:(?:\#[^\n]*)?\r?\n[ \t\f]*)+)
      | (?P<number>0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+
                   |(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?)
      | (?P<string>[bBfFrRuU]{0,2}(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}
                   |\"(?:\\.|[^\\\"\n])*\"|'(?:\\.|[^\\'\n])*'))
      | (?P<continuation>\\\r?\n)
      | (?P<comment>\#[^\n]*)
      | (?P<end>\Z)
      | (?P<unknown>.))""",
    re.VERBOSE | re.DOTALL,
)


class Lexeme:
    """A token: its kind, its text and where it begins."""

    __slots__ = ("column", "line", "text", "type")

    def __init__(self, type: str, text: str, line: int, column: int) -> None:
        self.type = type
        self.text = text
        self.line = line
        self.column = column


def lex(text: str) -> Iterator[Lexeme]:
    """Yield the tokens of `text`; Misread where there is none.

    Brackets join lines, and indentation becomes tokens.
    """
    # With a line before the first, the first is like the others.
    source = "\n" + text.removeprefix("\ufeff")
    line, line_start = 0, 0
    open_brackets: list[Lexeme] = []
    indents: list[str] = []
    in_line = False
    for found in _TOKEN.finditer(source):
        group = found.lastgroup
        assert group is not None
        value = found[group]
        column = found.end() - len(value) - line_start + 1
        if group == "name":
            kind = _KINDS.get(value) or ("DOTTED" if "." in value else "NAME")
            if kind != "REFUSED":
                in_line = True
                yield Lexeme(kind, value, line, column)
                continue
        elif group == "symbol":
            kind = _KINDS[value]
        elif group == "newline":
            if in_line and not open_brackets:
                in_line = False
                yield Lexeme("_NEWLINE", "", line, column)
            line += value.count("\n")
            line_start = found.end() - len(value) + value.rindex("\n") + 1
            if not open_brackets and source[found.end() : found.end() + 1] not in ("", "#"):
                yield from _indentation(line, source[line_start : found.end()], indents)
            continue
        elif group == "number" or group == "string":
            kind = group.upper()
        elif group == "continuation":
            line, line_start = line + 1, found.end()
            continue
        elif group == "comment":
            continue
        elif group == "end":
            break
        else:
            what = "a string that does not end" if value in "\"'" else "an unexpected character"
            raise Misread(f"{what}: {value!r}", _place(line, column, value))
        if kind == "REFUSED":
            message = f"`{value}` is not supported; {_REFUSED[value]}"
            raise Misread(message, _place(line, column, value))
        token = Lexeme(kind, value, line, column)
        in_line = True
        if group == "symbol":
            if value in "([{":
                open_brackets.append(token)
                if len(open_brackets) > _DEEPEST:
                    place = _place(line, column, value)
                    raise Misread("brackets are nested too deeply", place)
            elif value in _OPENING and (
                not open_brackets or open_brackets.pop().text != _OPENING[value]
            ):
                raise Misread(f"'{value}' closes nothing", _place(line, column, value))
        yield token
        if group == "string" and "\n" in value:
            line += value.count("\n")
            line_start = found.end() - len(value) + value.rindex("\n") + 1
    if open_brackets:
        token = open_brackets[-1]
        place = _place(token.line, token.column, token.text)
        raise Misread(f"'{token.text}' was never closed", place)
    if in_line:
        yield Lexeme("_NEWLINE", "", line, len(source) - line_start + 1)
    for _ in indents[1:]:
        yield Lexeme("_DEDENT", "", line, 1)


def _indentation(line: int, indent: str, indents: list[str]) -> Iterator[Lexeme]:
    """Yield the tokens of a line's indentation; `indents` are those of the open suites."""
    if not indents:
        indents.append(indent)
    if indent == indents[-1]:
        return
    if indent.startswith(indents[-1]):
        indents.append(indent)
        if len(indents) > _DEEPEST:
            raise Misread("suites are nested too deeply", _place(line, 1, indent))
        yield Lexeme("_INDENT", "", line, 1)
    elif indent not in indents:
        mixed = "".join([*indents, indent])
        advice = "; tabs and spaces are mixed" if "\t" in mixed and " " in mixed else ""
        raise Misread(
            f"inconsistent indentation: no suite that is open is indented like this{advice}",
            _place(line, 1, indent),
        )
    while indents[-1] != indent:
        indents.pop()
        yield Lexeme("_DEDENT", "", line, 1)


def _place(line: int, column: int, text: str) -> Place:
    return line, column, line, column + max(1, len(text))
