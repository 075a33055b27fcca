"""From script text to a syntax tree.

A tree node is a tuple: its kind, its place `(line, column, end line, end column)`, its parts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from lark import Lark, UnexpectedInput, UnexpectedToken

from tensorir.errors import DiagnosticError
from tensorir.script.lalr import TableParser, Unparsable
from tensorir.script.lexer import KEYWORDS, Lexeme, ScriptLexer, tokens

Place: TypeAlias = tuple[int, int, int, int]
Tree: TypeAlias = tuple[Any, ...]

_PRECEDENCE: Final = {
    "or": 1,
    "and": 2,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "==": 4,
    "!=": 4,
    "|": 5,
    "^": 6,
    "&": 7,
    "<<": 8,
    ">>": 8,
    "+": 9,
    "-": 9,
    "*": 10,
    "/": 10,
    "//": 10,
    "%": 10,
    "**": 12,
}
_PREFIX: Final = {"not": 3, "-": 11, "~": 11, "+": 11}
_CONSTANTS: Final = {"True": True, "False": False, "None": None}


def parse_module(text: str, filename: str = "<script>") -> list[Tree]:
    """Return the statements of a script; DiagnosticError with the place and what was expected."""
    try:
        return _table_parser().parse(tokens(text))  # type: ignore[no-any-return]
    except Unparsable:
        try:
            _parser(None).parse(text)
        except UnexpectedInput as error:
            raise _diagnose(error, text, filename) from None
        raise
    except DiagnosticError as error:
        raise DiagnosticError(
            error.message,
            filename=filename,
            line=error.line,
            column=error.column,
            end_column=error.end_column,
            source_line=error.source_line,
        ) from None


def parse_expression(text: str, filename: str = "<expression>") -> Tree:
    """Return the tree of a single expression."""
    statements = parse_module(text.strip(), filename)
    if len(statements) != 1 or statements[0][0] != "expression_statement":
        raise DiagnosticError(
            "expected one expression",
            filename=filename,
            line=1,
            column=1,
            end_column=len(text) + 1,
            source_line=text,
        )
    tree: Tree = statements[0][2]
    return tree


@lru_cache(maxsize=1)
def _table_parser() -> TableParser:
    return TableParser(_parser(_Inline(_Builder())))


def _parser(transformer: _Inline | None) -> Lark:
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer=ScriptLexer,
        transformer=transformer,
        maybe_placeholders=True,
        propagate_positions=False,
    )


def _span(first: Any, last: Any) -> Place:
    return (*_start(first), *_end(last))


def _start(part: Any) -> tuple[int, int]:
    if isinstance(part, Lexeme):
        return part.line, part.column
    return part[1][0], part[1][1]


def _end(part: Any) -> tuple[int, int]:
    if isinstance(part, Lexeme):
        return part.line, part.column + len(part)
    return part[1][2], part[1][3]


NOWHERE: Final[Place] = (0, 0, 0, 0)


class _Inline:
    """What lark calls for each rule: a method of the builder, with the parts as arguments."""

    def __init__(self, builder: _Builder) -> None:
        self._builder = builder

    def __getattr__(self, rule: str) -> Callable[[list[Any]], Any]:
        method = getattr(self._builder, rule)
        return lambda parts: method(*parts)


class _Builder:
    """Builds tree nodes while the text is being parsed."""

    def start(self, *statements: Tree) -> list[Tree]:
        return list(statements)

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

    def elif_(self, condition: Tree, body: Any) -> Any:
        return (condition, body)

    def else_(self, body: Any) -> Any:
        return body

    def suite(self, *statements: Tree) -> list[Tree]:
        return list(statements)

    def decorated(self, *parts: Any) -> Tree:
        return ("decorated", parts[0][1], parts[:-1], parts[-1])

    def decorator(self, value: Tree) -> Tree:
        return value

    def function(self, name: Lexeme, parameters: Any, result: Any, body: Any) -> Tree:
        return ("def", _span(name, name), str(name), parameters or [], result, body)

    def parameters(self, *items: Any) -> list[Any]:
        return [item for item in items if isinstance(item, tuple)]

    def parameter(self, *parts: Any) -> Tree:
        star = ""
        if isinstance(parts[0], Lexeme) and parts[0].type in ("STAR", "POWER"):
            star, parts = str(parts[0]), parts[1:]
        name, annotation, default = parts
        return ("parameter", _span(name, name), star, str(name), annotation, default)

    def class_body(self, name: Lexeme, body: Any) -> Tree:
        return ("class", _span(name, name), str(name), body)

    def expression_statement(self, value: Tree) -> Tree:
        return ("expression_statement", value[1], value)

    def assign(self, *sides: Tree) -> Tree:
        return ("assign", _span(sides[0], sides[-1]), sides[:-1], sides[-1])

    def augmented(self, target: Tree, operator: Lexeme, value: Tree) -> Tree:
        return ("augmented", _span(target, value), target, str(operator)[:-1], value)

    def annotated(self, target: Tree, annotation: Tree, value: Any) -> Tree:
        return ("annotated", _span(target, value or annotation), target, annotation, value)

    def return_value(self, value: Any) -> Tree:
        return ("return", NOWHERE if value is None else value[1], value)

    def assertion(self, condition: Tree, message: Any) -> Tree:
        return ("assert", condition[1], condition, message)

    def nothing(self) -> Tree:
        return ("pass", NOWHERE)

    def import_line(self, *_: Any) -> Tree:
        return ("import", NOWHERE)

    def dotted(self, *names: Lexeme) -> list[str]:
        return [str(name) for name in names]

    def import_name(self, name: Lexeme, alias: Any) -> str:
        return str(alias or name)

    # ------------------------------------------------------------------------------ expressions

    def targets(self, *items: Any) -> Tree:
        return self.expressions(*items)

    def expressions(self, *items: Any) -> Tree:
        *kept, trailing = items
        if len(kept) == 1 and trailing is None:
            return kept[0]  # type: ignore[no-any-return]
        return ("tuple", _span(kept[0], kept[-1]), kept)

    def starred(self, *parts: Any) -> Tree:
        return ("starred", parts[-1][1], parts[-1])

    def conditional(self, value: Tree, condition: Tree, otherwise: Tree) -> Tree:
        return ("conditional", _span(value, otherwise), value, condition, otherwise)

    def lambda_function(self, names: Any, body: Tree) -> Tree:
        return ("lambda", body[1], names or [], body)

    def names(self, *items: Any) -> list[Any]:
        return [item for item in items if isinstance(item, tuple)]

    def name_item(self, *parts: Lexeme) -> Any:
        return (len(parts) == 2, str(parts[-1]))

    def operators(self, *items: Any) -> Tree:
        if len(items) == 1:
            return items[0]  # type: ignore[no-any-return]
        return _Climber(items).parse(0)

    def name(self, token: Lexeme) -> Tree:
        return ("name", _span(token, token), str(token))

    def dotted_name(self, token: Lexeme) -> Tree:
        first, _, rest = token.partition(".")
        line, column = token.line, token.column
        name = ("name", (line, column, line, column + len(first)), first)
        return _attributes(name, rest, column + len(first) + 1)

    def number(self, token: Lexeme) -> Tree:
        text = str(token)
        value = int(text) if text.isdecimal() else ast.literal_eval(text.replace("_", ""))
        return ("constant", _span(token, token), value)

    def string(self, *tokens: Lexeme) -> Tree:
        value = "".join([_string(str(token)) for token in tokens])
        return ("constant", _span(tokens[0], tokens[-1]), value)

    def constant(self, token: Lexeme) -> Tree:
        return ("constant", _span(token, token), _CONSTANTS[str(token)])

    def parenthesized(self, value: Any) -> Tree:
        if value is None:
            return ("tuple", NOWHERE, [])
        return ("parenthesized", value[1], value) if value[0] != "tuple" else value

    def list_display(self, value: Any) -> Tree:
        if value is None:
            return ("list", NOWHERE, [])
        return ("list", value[1], value[2] if value[0] == "tuple" else [value])

    def dict_display(self, *pairs: Any) -> Tree:
        kept = [pair for pair in pairs if isinstance(pair, tuple)]
        place = kept[0][0][1] if kept else NOWHERE
        return ("dict", place, kept)

    def pair(self, key: Tree, value: Tree) -> tuple[Tree, Tree]:
        return (key, value)

    def attribute(self, value: Tree, name: Lexeme) -> Tree:
        return ("attribute", _span(value, name), value, str(name))

    def attributes(self, value: Tree, names: Lexeme) -> Tree:
        return _attributes(value, str(names), names.column)

    def call(self, function: Tree, *arguments: Any) -> Tree:
        kept = [a for a in arguments if a is not None]
        return ("call", _span(function, kept[-1] if kept else function), function, kept)

    def index(self, value: Tree, *subscripts: Any) -> Tree:
        kept = [item for item in subscripts if item is not None]
        return ("index", _span(value, kept[-1]), value, kept, subscripts[-1] is not None)

    def keyword(self, name: Lexeme, value: Tree) -> Tree:
        return ("keyword", _span(name, value), str(name), value)

    def unpacked(self, _: Lexeme, value: Tree) -> Tree:
        return ("unpacked", value[1], value)

    def slice(self, *parts: Any) -> Tree:
        low, high, step = (*parts, None, None, None)[:3]
        known = [p for p in parts if p is not None]
        place = _span(known[0], known[-1]) if known else NOWHERE
        return ("slice", place, low, high, step)


setattr(_Builder, "else", _Builder.else_)
setattr(_Builder, "elif", _Builder.elif_)


def _attributes(owner: Tree, names: str, column: int) -> Tree:
    """Return the tree of `owner.names`, where the names, with dots, begin at `column`."""
    for name in names.split("."):
        line, start = owner[1][2], owner[1][:2]
        owner = ("attribute", (*start, line, column + len(name)), owner, name)
        column += len(name) + 1
    return owner


def _string(text: str) -> str:
    """Return the value of a string literal."""
    if text[0] in "\"'" and "\\" not in text and text[:3] not in ('"""', "'''"):
        return text[1:-1]
    return str(ast.literal_eval(text))


class _Climber:
    """Applies precedence to operands and operators in a row (precedence climbing)."""

    def __init__(self, items: tuple[Any, ...]) -> None:
        self._items = items
        self._at = 0

    def parse(self, lowest: int) -> Tree:
        """Return the tree of what binds at least as tightly as `lowest`."""
        item = self._items[self._at]
        self._at += 1
        if isinstance(item, Lexeme):
            operand = self.parse(_PREFIX[item])
            left: Tree = ("unary", _span(item, operand), str(item), operand)
        else:
            left = item
        items = self._items
        while self._at < len(items):
            operator = items[self._at]
            precedence = _PRECEDENCE[operator]
            if precedence < lowest:
                break
            self._at += 1
            right = self.parse(precedence + 1)
            left = ("binary", _span(left, right), str(operator), left, right)
        return left


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


def _diagnose(error: UnexpectedInput, text: str, filename: str) -> DiagnosticError:
    lines = text.splitlines()
    line, column = max(error.line or 1, 1), max(error.column or 1, 1)
    message, width = "the text cannot be read here", 1
    if isinstance(error, UnexpectedToken):
        token = error.token
        expected = set(error.accepts or error.expected)
        got = _READABLE.get(token.type, repr(str(token)))
        if token.type in ("NAME", "DOTTED", "NUMBER", "STRING", "OPERATOR", "CONSTANT"):
            got = f"`{token}`"
        width = max(1, len(str(token).split("\n", 1)[0]))
        if token.type == "$END":
            line, column = len(lines), len(lines[-1]) + 1 if lines else 1
        message = f"unexpected {got}; expected {_alternatives(expected)}"
    source = lines[line - 1] if 0 < line <= len(lines) else ""
    return DiagnosticError(
        message,
        filename=filename,
        line=line,
        column=column,
        end_column=column + width,
        source_line=source,
    )


def _alternatives(expected: set[str]) -> str:
    words: list[str] = []
    if expected >= _OPERAND_START:
        words.append("an expression")
        expected = expected - _OPERAND_START - {"PREFIX", "MINUS", "STAR", "LAMBDA"}
    if "OPERATOR" in expected and "DOT" in expected:
        expected = expected - {"OPERATOR", "MINUS", "STAR", "POWER", "DOT", "LPAR", "LSQB", "IF"}
        words.append("an operator")
    keywords = {name: word for word, name in KEYWORDS.items()}
    words.extend(
        sorted(f"'{keywords[n]}'" if n in keywords else _READABLE.get(n, n) for n in expected)
    )
    if len(words) > 6:
        return "another token"
    return " or ".join(words) if len(words) < 3 else ", ".join(words[:-1]) + " or " + words[-1]
