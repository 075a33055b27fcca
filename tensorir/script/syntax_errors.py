"""Error messages for scripts that do not follow the grammar."""

from __future__ import annotations

from typing import Final

from tensorir.script.lalr import UnexpectedToken
from tensorir.script.lexer import KEYWORDS
from tensorir.script.source import Misread

_READABLE: Final = {
    "_NEWLINE": "the end of the line",
    "_INDENT": "an indented block",
    "_DEDENT": "the end of the block",
    "NAME": "a name",
    "DOTTED": "a name with dots",
    "NUMBER": "a number",
    "STRING": "a string",
    "CONSTANT": "True, False or None",
    "OPERATOR": "an operator",
    "AUGMENTED": "an augmented assignment",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "COMMA": "','",
    "COLON": "':'",
    "DOT": "'.'",
    "EQUAL": "'='",
    "AT": "'@'",
    "$END": "the end of the text",
}
_OPERAND_START: Final = frozenset(
    {"NAME", "DOTTED", "NUMBER", "STRING", "CONSTANT", "LPAR", "LSQB", "LBRACE"}
)


_REMEDIES: Final = {
    "FOR": "comprehensions are not supported; write the items out, or make the list before the "
    "function and name it here",
    "IN": "`in` is not supported outside the head of a for loop",
    "DEF": "a function in a script is decorated: @T.prim_func, @R.function or @T.macro",
    "CLASS": "a class in a script is decorated: @I.ir_module",
    "ELIF": "`elif` stands right after the suite of an `if`, indented like it",
    "ELSE": "`else` stands right after the suite of an `if`, or in `a if c else b`",
    "AT": "`@` is not supported between values; write the loops of the product",
}
"""By the token that is unexpected, what it was probably meant to be."""


def misread(error: UnexpectedToken) -> Misread:
    """Return the message about a token that cannot stand where it does."""
    token = error.token
    at_end = token.type == "$END"
    text = "" if at_end else token.text
    place = (token.line, token.column, token.line, token.column + max(1, len(text)))
    if token.type in _REMEDIES:
        return Misread(_REMEDIES[token.type], place)
    got = f"`{text}`" if text else _READABLE[token.type].removeprefix("the ")
    expected = _alternatives(error.accepted)
    return Misread(f"unexpected {got}" + (f"; expected {expected}" if expected else " here"), place)


def _alternatives(expected: set[str]) -> str:
    """Return the tokens that can stand in a place, in words; empty where nearly all can."""
    words: list[str] = []
    if expected >= _OPERAND_START:
        words.append("an expression")
        expected = expected - _OPERAND_START - {"PREFIX", "MINUS", "STAR", "LAMBDA"}
    if "OPERATOR" in expected and "DOT" in expected:
        expected = expected - {
            "OPERATOR",
            "MINUS",
            "STAR",
            "POWER",
            "DOT",
            "LPAR",
            "LSQB",
            "IF",
            "ELSE",
        }
        words.append("an operator")
    expected = expected - {"SEMICOLON"}
    keywords = {name: word for word, name in KEYWORDS.items()}
    words.extend(
        sorted(f"'{keywords[n]}'" if n in keywords else _READABLE.get(n, n) for n in expected)
    )
    if len(words) > 6:
        return ""
    return " or ".join(words) if len(words) < 3 else ", ".join(words[:-1]) + " or " + words[-1]
