"""Parsing script text to a syntax tree.

A tree node is a tuple: its kind, its place `(line, column, end line, end column)`, its parts.
"""

from __future__ import annotations

import ast
import warnings
from functools import lru_cache
from typing import Any, Final, TypeAlias

from tensorir.recursion import may_go_deeper
from tensorir.script.lalr import Parser, UnexpectedToken
from tensorir.script.lexer import Lexeme, lex
from tensorir.script.source import BEGINNING, Misread, Place, Source
from tensorir.script.syntax_errors import misread

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
"""How tightly the operators bind that stand between operands."""
PREFIX: Final = {"not": 3, "-": 11, "~": 11}
"""How tightly those bind that stand in front of one."""
_CONSTANTS: Final = {"True": True, "False": False, "None": None}


def parse_module(source: Source) -> list[Tree]:
    """Return the statements of a script; DiagnosticError with the place and what was expected."""
    try:
        return _parser().parse(lex(source.text))  # type: ignore[no-any-return]
    except UnexpectedToken as error:
        problem = misread(error)
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
    """Return the names that an expression mentions, each as often as it does."""
    match tree:
        case ("name", _, name):
            return [name]
        case tuple() | list():
            return [name for part in tree for name in names_in(part)]
    return []


@lru_cache(maxsize=1)
def _parser() -> Parser:
    """Return the parser, whose tables are read once."""
    return Parser(_Builder())


def _span(first: Any, last: Any) -> Place:
    """Return the place from the first part, a token or a tree, to the end of the last."""
    if type(first) is Lexeme:
        line, column = first.line, first.column
    else:
        line, column = first[1][:2]
    if type(last) is Lexeme:
        return line, column, last.line, last.column + len(last.text)
    return line, column, last[1][2], last[1][3]


class _Builder:
    """Builds tree nodes while the text is being parsed: a method for each rule."""

    def start(self, *statements: Tree) -> list[Tree]:
        return _flat(statements)

    # ------------------------------------------------------------------------------- statements

    def for_loop(self, targets: Tree, iterable: Tree, body: Any) -> Tree:
        return ("for", _span(targets, iterable), targets, iterable, body)

    def while_loop(self, condition: Tree, body: Any) -> Tree:
        return ("while", condition[1], condition, body)

    def with_block(self, *parts: Any) -> Tree:
        return ("with", parts[0][1], parts[:-1], parts[-1])

    def with_item(self, frame: Tree, target: Any) -> Tree:
        return ("with_item", frame[1], frame, target)

    def if_else(self, condition: Tree, body: Any, *rest: Any) -> Tree:
        *elifs, otherwise = rest
        for branch in reversed(elifs):
            otherwise = [("if", branch[0][1], branch[0], branch[1], otherwise)]
        return ("if", condition[1], condition, body, otherwise)

    def suite(self, *statements: Tree) -> list[Tree]:
        return _flat(statements)

    def several(self, *statements: Tree) -> Tree:
        return ("several", statements[0][1], statements)

    def decorated(self, *parts: Any) -> Tree:
        return ("decorated", parts[0][1], parts[:-1], parts[-1])

    def alone(self, value: Any) -> Any:
        return value

    def function(self, name: Lexeme, sizes: Any, parameters: Any, result: Any, body: Any) -> Tree:
        return ("def", _span(name, name), name.text, parameters or [], result, body, sizes or [])

    def items(self, *items: Any) -> list[Any]:
        return [item for item in items if isinstance(item, tuple)]

    def parameter(self, *parts: Any) -> Tree:
        *stars, name, annotation, default = parts
        star = stars[0].text if stars else ""
        return ("parameter", _span(name, name), star, name.text, annotation, default)

    def class_body(self, name: Lexeme, body: Any) -> Tree:
        return ("class", _span(name, name), name.text, body)

    def expression_statement(self, value: Tree) -> Tree:
        return ("expression_statement", value[1], value)

    def assign(self, *sides: Tree) -> Tree:
        return ("assign", _span(sides[0], sides[-1]), sides[:-1], sides[-1])

    def augmented(self, target: Tree, operator: Lexeme, value: Tree) -> Tree:
        return ("augmented", _span(target, value), target, operator.text[:-1], value)

    def annotated(self, target: Tree, annotation: Tree, value: Any) -> Tree:
        return ("annotated", _span(target, value or annotation), target, annotation, value)

    def return_value(self, word: Lexeme, value: Any) -> Tree:
        return ("return", _span(word, value or word), value)

    def assertion(self, condition: Tree, message: Any) -> Tree:
        return ("assert", condition[1], condition, message)

    def nothing(self, word: Lexeme) -> Tree:
        return ("pass", _span(word, word))

    def import_line(self, word: Lexeme, *names: Any) -> Tree:
        return ("import", _span(word, word), [n for n in names if isinstance(n, tuple)])

    def dotted(self, name: Lexeme) -> str:
        return name.text

    def import_name(self, name: str, alias: Any) -> tuple[str, str]:
        return (name, name if alias is None else alias.text)

    # ------------------------------------------------------------------------------ expressions

    def expressions(self, *items: Any) -> Tree:
        *kept, trailing = items
        if len(kept) == 1 and trailing is None:
            return kept[0]  # type: ignore[no-any-return]
        return ("tuple", _span(kept[0], kept[-1]), kept)

    def starred(self, star: Lexeme, value: Tree) -> Tree:
        return ("starred", _span(star, value), value)

    def lambda_function(self, word: Lexeme, names: Any, body: Tree) -> Tree:
        return ("lambda", _span(word, body), names or [], body)

    def name_item(self, *parts: Lexeme) -> Any:
        return (len(parts) == 2, parts[-1].text)

    def operators(self, *items: Any) -> Tree:
        try:
            return _Climber(items).conditional()
        except RecursionError:
            if may_go_deeper():
                raise
            place = _span(items[0], items[0])
            raise Misread("more signs in a row than can be read", place) from None

    def name(self, token: Lexeme) -> Tree:
        text, line, column = token.text, token.line, token.column
        return ("name", (line, column, line, column + len(text)), text)

    def dotted_name(self, token: Lexeme) -> Tree:
        first, _, rest = token.text.partition(".")
        line, column = token.line, token.column
        name = ("name", (line, column, line, column + len(first)), first)
        return _attributes(name, rest, column + len(first) + 1)

    def number(self, token: Lexeme) -> Tree:
        text = token.text
        plain = text.isdecimal() and len(text) < 10 and (text[0] != "0" or len(text) == 1)
        return ("constant", _span(token, token), int(text) if plain else _literal(token))

    def string(self, *tokens: Lexeme) -> Tree:
        value = "".join([_string(token) for token in tokens])
        return ("constant", _span(tokens[0], tokens[-1]), value)

    def constant(self, token: Lexeme) -> Tree:
        return ("constant", _span(token, token), _CONSTANTS[token.text])

    def parenthesized(self, opening: Lexeme, value: Any, closing: Lexeme) -> Tree:
        place = _span(opening, closing)
        if value is None:
            return ("tuple", place, [])
        return (
            (value[0], place, *value[2:])
            if value[0] == "tuple"
            else ("parenthesized", place, value)
        )

    def list_display(self, opening: Lexeme, value: Any, closing: Lexeme) -> Tree:
        items = [] if value is None else value[2] if value[0] == "tuple" else [value]
        return ("list", _span(opening, closing), items)

    def dict_display(self, opening: Lexeme, *parts: Any) -> Tree:
        *pairs, closing = parts
        return ("dict", _span(opening, closing), [pair for pair in pairs if pair is not None])

    def pair(self, key: Tree, value: Any) -> tuple[Tree, Any]:
        return (key, value)

    def attribute(self, value: Tree, name: Lexeme) -> Tree:
        return ("attribute", _span(value, name), value, name.text)

    def attributes(self, value: Tree, names: Lexeme) -> Tree:
        return _attributes(value, names.text, names.column)

    def call(self, function: Tree, *parts: Any) -> Tree:
        *arguments, closing = parts
        if arguments[-1] is None:
            arguments.pop()
        return ("call", _span(function, closing), function, arguments)

    def index(self, value: Tree, *parts: Any) -> Tree:
        *subscripts, comma, closing = parts
        several = comma is not None or len(subscripts) > 1 or subscripts[0][0] == "starred"
        return ("index", _span(value, closing), value, subscripts, several)

    def keyword(self, name: Lexeme, value: Tree) -> Tree:
        return ("keyword", _span(name, value), name.text, value)

    def unpacked(self, star: Lexeme, value: Tree) -> Tree:
        return ("unpacked", _span(star, value), value)

    def slice(self, low: Any, colon: Lexeme, high: Any, step: Any = None) -> Tree:
        return ("slice", _span(low or colon, step or high or colon), low, high, step)


def _attributes(owner: Tree, names: str, column: int) -> Tree:
    """Return the tree of `owner.names`, where the names, with dots, begin at `column`."""
    for name in names.split("."):
        line, start = owner[1][2], owner[1][:2]
        owner = ("attribute", (*start, line, column + len(name)), owner, name)
        column += len(name) + 1
    return owner


def _flat(statements: tuple[Tree, ...]) -> list[Tree]:
    """Return statements one by one, those too that share a line."""
    flat: list[Tree] = []
    for statement in statements:
        flat.extend(statement[2] if statement[0] == "several" else (statement,))
    return flat


def _string(token: Lexeme) -> str:
    """Return the value of a string literal."""
    text = token.text
    if text[0] in "\"'" and "\\" not in text and text[:3] not in ('"""', "'''"):
        return text[1:-1]
    prefix = text[: min(text.find('"') % len(text), text.find("'") % len(text))].lower()
    if "f" in prefix:
        raise Misread("f-strings are not supported; write the text out", _span(token, token))
    if "b" in prefix:
        raise Misread("bytes are not supported; write a string", _span(token, token))
    return str(_literal(token))


def _literal(token: Lexeme) -> Any:
    """Return the value of a number or string as Python reads it; Misread if it does not."""
    try:
        with warnings.catch_warnings(action="error"):
            return ast.literal_eval(token.text)
    except (SyntaxError, ValueError, MemoryError, Warning) as error:
        reason = getattr(error, "msg", "") or str(error)
        raise Misread(f"this cannot be read: {reason}", _span(token, token)) from None


class _Climber:
    """Applies precedence to operands and operators in a row (precedence climbing)."""

    def __init__(self, items: tuple[Any, ...]) -> None:
        self._items = items
        self._at = 0

    def conditional(self) -> Tree:
        """Return the tree of the rest of the row, which may be `a if c else b`."""
        value = self.binary(1)
        if self._at == len(self._items):
            return value
        self._word("if")
        condition = self.binary(1)
        self._word("else")
        otherwise = self.conditional()
        return ("conditional", _span(value, otherwise), value, condition, otherwise)

    def _word(self, expected: str) -> None:
        at = min(self._at, len(self._items) - 1)
        found = self._items[at]
        if type(found) is not Lexeme or found.text != expected:
            raise Misread(
                f"a condition reads `a if c else b`; '{expected}' is missing", _span(found, found)
            )
        self._at += 1

    def binary(self, lowest: int) -> Tree:
        """Return the tree of what binds at least as tightly as `lowest`."""
        item = self._items[self._at]
        self._at += 1
        if type(item) is Lexeme:
            operand = self.binary(PREFIX[item.text])
            left: Tree = ("unary", _span(item, operand), item.text, operand)
        else:
            left = item
        items = self._items
        while self._at < len(items):
            operator = items[self._at].text
            precedence = PRECEDENCE[operator]
            if precedence < lowest:
                break
            self._at += 1
            right = self.binary(precedence + 1)
            left = ("binary", _span(left, right), operator, left, right)
        return left
