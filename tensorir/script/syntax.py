"""Parsing script text to a syntax tree.

A tree node is a tuple: its kind, its place `(line, column, end line, end column)`, its parts.
"""

from __future__ import annotations

import ast
import warnings
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tensorir.recursion import may_go_deeper
from tensorir.script.source import BEGINNING, Misread, Place, Source, misread, place_of

if TYPE_CHECKING:
    from lark import Token

Tree: TypeAlias = tuple[Any, ...]

PRECEDENCE: Final = {
    **dict.fromkeys(("if", "else"), 0),
    "or": 1,
    "and": 2,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), 4),
    "|": 5,
    "^": 6,
    "&": 7,
    **dict.fromkeys(("<<", ">>"), 8),
    **dict.fromkeys(("+", "-"), 9),
    **dict.fromkeys(("*", "/", "//", "%"), 10),
    "**": 12,
}
"""The precedence of binary operators."""
PREFIX: Final = {"not": 3, "-": 11, "~": 11}
"""The precedence of unary operators."""
_CONSTANTS: Final = {"True": True, "False": False, "None": None}


def parse_module(source: Source) -> list[Tree]:
    """Return the statements of a script. Raises DiagnosticError for text outside the grammar."""
    lark, parser = _parser()
    try:
        return parser.parse(source.text.removeprefix("\ufeff"))  # type: ignore[no-any-return]
    except lark.UnexpectedToken as error:
        problem = misread(error, parser)
    except lark.UnexpectedCharacters as error:
        what = "a string that does not end" if error.char in "\"'" else "an unexpected character"
        line, column = error.line, error.column
        problem = Misread(f"{what}: {error.char!r}", (line, column, line, column + 1))
    except Misread as error:
        problem = error
    raise source.error(problem.message, problem.place)


def parse_expression(source: Source) -> Tree:
    """Return the tree of a single expression."""
    statements = parse_module(source)
    if len(statements) != 1 or statements[0][0] != "expression_statement":
        place = statements[1][1] if len(statements) > 1 else BEGINNING
        raise source.error("expected one expression", place)
    tree: Tree = statements[0][2]
    return tree


def names_in(tree: Any) -> list[str]:
    """Return the names in an expression, one for each occurrence."""
    match tree:
        case ("name", _, name):
            return [name]
        case tuple() | list():
            return [name for part in tree for name in names_in(part)]
    return []


@cache
def _parser() -> tuple[Any, Any]:
    """Return the module lark and the parser, which are loaded on the first call."""
    grammar = import_module("tensorir.script.grammar")
    return grammar.lark, grammar.load_parser(_Builder())


def _span(first: Any, last: Any) -> Place:
    """Return the place from the first to the last of two tokens or trees."""
    line, column = first[1][:2] if type(first) is tuple else (first.line, first.column)
    if type(last) is tuple:
        return line, column, last[1][2], last[1][3]
    return line, column, last.end_line, last.end_column


class _Builder:
    """Builds tree nodes while lark parses, by a method for each rule that gets its parts."""

    # ------------------------------------------------------------------------------- statements

    def start(self, statements: list[Tree]) -> list[Tree]:
        """Return the statements of a body or a text; several of them may share a line."""
        flat: list[Tree] = []
        for statement in statements:
            flat.extend(statement[2] if statement[0] == "several" else (statement,))
        return flat

    body = start

    def for_loop(self, parts: list[Any]) -> Tree:
        targets, iterable, body = parts
        return ("for", _span(targets, iterable), targets, iterable, body)

    def while_loop(self, parts: list[Any]) -> Tree:
        condition, body = parts
        return ("while", condition[1], condition, body)

    def with_block(self, parts: list[Any]) -> Tree:
        return ("with", parts[0][1], parts[:-1], parts[-1])

    def with_item(self, parts: list[Any]) -> Tree:
        frame, target = parts
        return ("with_item", frame[1], frame, target)

    def if_else(self, parts: list[Any]) -> Tree:
        condition, body, *elifs, otherwise = parts
        for branch in reversed(elifs):
            otherwise = [("if", branch[0][1], branch[0], branch[1], otherwise)]
        return ("if", condition[1], condition, body, otherwise)

    def several(self, parts: list[Tree]) -> Tree:
        return ("several", parts[0][1], parts)

    def decorated(self, parts: list[Any]) -> Tree:
        return ("decorated", parts[0][1], tuple(parts[:-1]), parts[-1])

    def alone(self, parts: list[Any]) -> Any:
        return parts[0]

    def function(self, parts: list[Any]) -> Tree:
        name, sizes, parameters, result, body = parts
        place = place_of(name)
        return ("def", place, name.value, parameters or [], result, body, sizes or [])

    def items(self, parts: list[Any]) -> list[Any]:
        return [part for part in parts if type(part) is tuple]

    def parameter(self, parts: list[Any]) -> Tree:
        *stars, name, annotation, default = parts
        star = stars[0].value if stars else ""
        return ("parameter", place_of(name), star, name.value, annotation, default)

    def class_body(self, parts: list[Any]) -> Tree:
        name, body = parts
        return ("class", place_of(name), name.value, body)

    def expression_statement(self, parts: list[Tree]) -> Tree:
        (value,) = parts
        return ("expression_statement", value[1], value)

    def assign(self, parts: list[Tree]) -> Tree:
        return ("assign", _span(parts[0], parts[-1]), parts[:-1], parts[-1])

    def augmented(self, parts: list[Any]) -> Tree:
        target, operator, value = parts
        return ("augmented", _span(target, value), target, operator.value[:-1], value)

    def annotated(self, parts: list[Any]) -> Tree:
        target, annotation, value = parts
        return ("annotated", _span(target, value or annotation), target, annotation, value)

    def return_value(self, parts: list[Any]) -> Tree:
        word, value = parts
        return ("return", _span(word, value or word), value)

    def assertion(self, parts: list[Any]) -> Tree:
        condition, message = parts
        return ("assert", condition[1], condition, message)

    def nothing(self, parts: list[Token]) -> Tree:
        return ("pass", place_of(parts[0]))

    def import_line(self, parts: list[Any]) -> Tree:
        return ("import", place_of(parts[0]), self.items(parts))

    def dotted(self, parts: list[Token]) -> str:
        return str(parts[0].value)

    def import_name(self, parts: list[Any]) -> tuple[str, str]:
        name, alias = parts
        return (name, name if alias is None else alias.value)

    # ------------------------------------------------------------------------------ expressions

    def expressions(self, parts: list[Any]) -> Tree:
        *kept, trailing = parts
        if len(kept) == 1 and trailing is None:
            return kept[0]  # type: ignore[no-any-return]
        return ("tuple", _span(kept[0], kept[-1]), kept)

    def starred(self, parts: list[Any]) -> Tree:
        star, value = parts
        return ("starred", _span(star, value), value)

    def lambda_function(self, parts: list[Any]) -> Tree:
        word, names, body = parts
        return ("lambda", _span(word, body), names or [], body)

    def name_item(self, parts: list[Token]) -> tuple[bool, str]:
        return (len(parts) == 2, parts[-1].value)

    def operators(self, parts: list[Any]) -> Tree:
        try:
            return _PrecedenceParser(parts).conditional()
        except RecursionError:
            if may_go_deeper():
                raise
            place = _span(parts[0], parts[0])
            raise Misread("too many signs in a row", place) from None

    def name(self, parts: list[Token]) -> Tree:
        (token,) = parts
        line = token.line
        return ("name", (line, token.column, line, token.end_column), token.value)

    def dotted_name(self, parts: list[Any]) -> Tree:
        (token,) = parts
        first, _, rest = token.value.partition(".")
        line, column = token.line, token.column
        name = ("name", (line, column, line, column + len(first)), first)
        return _attributes(name, rest, column + len(first) + 1)

    def number(self, parts: list[Token]) -> Tree:
        (token,) = parts
        text = token.value
        plain = text.isdecimal() and len(text) < 10 and (text[0] != "0" or len(text) == 1)
        return ("constant", _span(token, token), int(text) if plain else _literal(token))

    def string(self, parts: list[Token]) -> Tree:
        value = "".join([_string(token) for token in parts])
        return ("constant", _span(parts[0], parts[-1]), value)

    def constant(self, parts: list[Token]) -> Tree:
        (token,) = parts
        return ("constant", _span(token, token), _CONSTANTS[token.value])

    def parenthesized(self, parts: list[Any]) -> Tree:
        opening, value, closing = parts
        place = _span(opening, closing)
        if value is None:
            return ("tuple", place, [])
        if value[0] == "tuple":
            return ("tuple", place, value[2])
        return ("parenthesized", place, value)

    def list_display(self, parts: list[Any]) -> Tree:
        opening, value, closing = parts
        items = [] if value is None else value[2] if value[0] == "tuple" else [value]
        return ("list", _span(opening, closing), items)

    def dict_display(self, parts: list[Any]) -> Tree:
        opening, *pairs, closing = parts
        return ("dict", _span(opening, closing), [pair for pair in pairs if pair is not None])

    def pair(self, parts: list[Any]) -> tuple[Tree, Any]:
        key, value = parts
        return (key, value)

    def attribute(self, parts: list[Any]) -> Tree:
        value, name = parts
        return ("attribute", _span(value, name), value, name.value)

    def attributes(self, parts: list[Any]) -> Tree:
        value, names = parts
        return _attributes(value, names.value, names.column)

    def call(self, parts: list[Any]) -> Tree:
        function, *arguments, closing = parts
        if arguments[-1] is None:
            arguments.pop()
        return ("call", _span(function, closing), function, arguments)

    def index(self, parts: list[Any]) -> Tree:
        value, *subscripts, comma, closing = parts
        several = comma is not None or len(subscripts) > 1 or subscripts[0][0] == "starred"
        return ("index", _span(value, closing), value, subscripts, several)

    def keyword(self, parts: list[Any]) -> Tree:
        name, value = parts
        return ("keyword", _span(name, value), name.value, value)

    def unpacked(self, parts: list[Any]) -> Tree:
        star, value = parts
        return ("unpacked", _span(star, value), value)

    def slice(self, parts: list[Any]) -> Tree:
        low, colon, high, step = parts
        return ("slice", _span(low or colon, step or high or colon), low, high, step)


def _attributes(owner: Tree, names: str, column: int) -> Tree:
    """Return the tree of `owner.names`; the dotted names begin at `column`."""
    for name in names.split("."):
        line, start = owner[1][2], owner[1][:2]
        owner = ("attribute", (*start, line, column + len(name)), owner, name)
        column += len(name) + 1
    return owner


def _string(token: Any) -> str:
    """Return the value of a string literal."""
    text = token.value
    if text[0] in "\"'" and "\\" not in text and text[:3] not in ('"""', "'''"):
        return str(text[1:-1])
    prefix = text.partition(text[-1])[0].lower()
    if "f" in prefix:
        raise Misread("f-strings are not supported; write the text out", _span(token, token))
    if "b" in prefix:
        raise Misread("bytes are not supported; write a string", _span(token, token))
    return str(_literal(token))


def _literal(token: Token) -> Any:
    """Return the value of a number or string literal. Raises Misread for an invalid literal."""
    try:
        with warnings.catch_warnings(action="error"):
            return ast.literal_eval(token.value)
    except (SyntaxError, ValueError, MemoryError, Warning) as error:
        reason = getattr(error, "msg", "") or str(error)
        raise Misread(f"this cannot be read: {reason}", _span(token, token)) from None


class _PrecedenceParser:
    """Builds a tree from a list of operands and operators (precedence climbing)."""

    def __init__(self, items: list[Any]) -> None:
        self._items = items
        self._at = 0

    def conditional(self) -> Tree:
        """Return the tree of the remaining items, including `a if c else b`."""
        value = self.binary(1)
        if self._at == len(self._items):
            return value
        self._expect_word("if")
        condition = self.binary(1)
        self._expect_word("else")
        otherwise = self.conditional()
        return ("conditional", _span(value, otherwise), value, condition, otherwise)

    def _expect_word(self, expected: str) -> None:
        at = min(self._at, len(self._items) - 1)
        found = self._items[at]
        if type(found) is tuple or found.value != expected:
            raise Misread(
                f"a condition reads `a if c else b`; '{expected}' is missing", _span(found, found)
            )
        self._at += 1

    def binary(self, lowest: int) -> Tree:
        """Return the tree of the following items whose operators have a precedence of at least
        `lowest`.
        """
        item = self._items[self._at]
        self._at += 1
        if type(item) is tuple:
            left: Tree = item
        else:
            operand = self.binary(PREFIX[item.value])
            left = ("unary", _span(item, operand), item.value, operand)
        items = self._items
        while self._at < len(items):
            operator = items[self._at].value
            precedence = PRECEDENCE[operator]
            if precedence < lowest:
                break
            self._at += 1
            right = self.binary(precedence + 1)
            left = ("binary", _span(left, right), operator, left, right)
        return left
