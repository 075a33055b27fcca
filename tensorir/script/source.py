"""The text of a script, and errors that point at places in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tensorir.errors import DiagnosticError, IRTypeError
from tensorir.nodes.node import Node

if TYPE_CHECKING:
    from lark import Lark, Token, UnexpectedToken

Place: TypeAlias = tuple[int, int, int, int]
"""Line, column, end line, end column, from 1."""

BEGINNING: Final[Place] = (1, 1, 1, 2)


class Misread(Exception):  # noqa: N818  it becomes a DiagnosticError with the text
    """A text that cannot be read: the message and the place."""

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(message)
        self.message = message
        self.place = place


class Source:
    """The text of a script or of a part of a file."""

    def __init__(self, text: str, filename: str = "<script>", first_line: int = 1) -> None:
        if not isinstance(text, str):
            raise IRTypeError(f"a script is text, got {type(text).__name__}: {text!r}")
        self.text = text
        self.filename = filename
        self.first_line = first_line
        """The line of its file in which the text begins, from 1."""
        self.places: dict[Node, Place] = {}
        """The places where the variables of graph functions are bound."""

    def error(self, message: str, place: Place) -> DiagnosticError:
        """Return the error for a place in the text."""
        line, column, end_line, end_column = place
        lines = self.text.split("\n")
        line = min(line, len(lines))
        shown = lines[line - 1].rstrip("\r")
        return DiagnosticError(
            message,
            filename=self.filename,
            line=line + self.first_line - 1,
            column=column,
            end_column=end_column if end_line == line else len(shown) + 1,
            source_line=shown,
        )


def place_of(token: Token) -> Place:
    """Return the place of a token, which is at least one column wide."""
    places: Any = (token.line, token.column, token.end_line, token.end_column)
    line, column, end_line, end_column = places
    return line, column, end_line, max(end_column, column + (end_line == line))


# ------------------------------------------------------------------- tokens in unexpected places

_DESCRIPTIONS: Final = {
    "_NEWLINE": "the end of the line",
    "_INDENT": "an indented block",
    "_DEDENT": "the end of the block",
    "NAME": "a name",
    "DOTTED": "a name with dots",
    "NUMBER": "a number",
    "STRING": "a string",
    "CONSTANT": "True, False or None",
    "OPERATOR": "an operator",
    "PREFIX": "'not'",
    "AUGMENTED": "an augmented assignment",
    "$END": "the end of the text",
}
"""Descriptions of the types of tokens; a token with a fixed spelling is quoted instead."""
_OPERAND_START: Final = frozenset(
    {"NAME", "DOTTED", "NUMBER", "STRING", "CONSTANT", "LPAR", "LSQB", "LBRACE"}
)
_AFTER_OPERAND: Final = frozenset(
    {"OPERATOR", "MINUS", "STAR", "POWER", "DOT", "LPAR", "LSQB", "IF", "ELSE"}
)
_REMEDIES: Final = {
    "FOR": "comprehensions are not supported; write the items out, or make the list before the "
    "function and use its name",
    "IN": "`in` is not supported outside the head of a for loop",
    "DEF": "a function in a script is decorated: @T.prim_func, @R.function or @T.macro",
    "CLASS": "a class in a script is decorated: @I.ir_module",
    "ELIF": "`elif` must follow right after the body of an `if`, indented like it",
    "ELSE": "`else` must follow right after the body of an `if`, or in `a if c else b`",
    "AT": "`@` is not supported between values; write the loops of the product",
}
"""Advice by the type of the unexpected token."""


def misread(error: UnexpectedToken, parser: Lark) -> Misread:
    """Return the message about a token that the grammar does not allow at its position."""
    token = error.token
    place = place_of(token)
    if token.type in _REMEDIES:
        return Misread(_REMEDIES[token.type], place)
    token_text = f"`{token}`" if token.strip() else _DESCRIPTIONS[token.type].removeprefix("the ")
    expected = _alternatives(error.accepts, parser)
    return Misread(
        f"unexpected {token_text}" + (f"; expected {expected}" if expected else " here"), place
    )


def _alternatives(accepted: set[str], parser: Lark) -> str:
    """Return descriptions of the allowed tokens; empty if nearly all tokens are allowed."""
    words: list[str] = []
    if accepted >= _OPERAND_START:
        words.append("an expression")
        accepted = accepted - _OPERAND_START - {"PREFIX", "MINUS", "STAR", "LAMBDA"}
    if "OPERATOR" in accepted and "DOT" in accepted:
        words.append("an operator")
        accepted = accepted - _AFTER_OPERAND
    words.extend(
        sorted(
            _DESCRIPTIONS.get(kind) or f"'{parser.get_terminal(kind).pattern.value}'"
            for kind in accepted - {"SEMICOLON"}
        )
    )
    if len(words) > 6:
        return ""
    return " or ".join(words) if len(words) < 3 else ", ".join(words[:-1]) + " or " + words[-1]
