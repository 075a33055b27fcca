"""The parser reads the tables that the grammar gives."""

from __future__ import annotations

import pytest

from tensorir import parse_expr
from tensorir.errors import DiagnosticError
from tensorir.script.grammar_tables import tables_text
from tensorir.script.lalr import TABLES, UnexpectedToken
from tensorir.script.lexer import lex
from tensorir.script.syntax import _parser


def test_the_tables_are_those_of_the_grammar():
    message = "run python -m tensorir.script.grammar_tables"
    assert TABLES.read_text(encoding="utf-8") == tables_text(), message


@pytest.mark.parametrize(
    ("text", "kind", "accepted"),
    [
        ("x =", "_NEWLINE", {"NAME", "NUMBER", "LPAR", "MINUS", "LAMBDA"}),
        ("for i in", "_NEWLINE", {"NAME", "STRING"}),
        ("x = 1 2", "NUMBER", {"OPERATOR", "_NEWLINE", "COMMA"}),
        ("@T.prim_func\n", "$END", {"AT", "DEF", "CLASS"}),
    ],
)
def test_what_can_be_next(text, kind, accepted):
    with pytest.raises(UnexpectedToken) as caught:
        _parser().parse(lex(text))
    assert caught.value.token.type == kind
    assert accepted <= caught.value.accepted
    assert "DEDENT" not in caught.value.accepted


def test_lists_of_one_parse_are_not_those_of_the_next():
    for _ in range(2):
        assert str(parse_expr("T.max(1 + 2, 3)")) == "3"
    with pytest.raises(DiagnosticError, match="unexpected"):
        parse_expr("1 +")
    assert str(parse_expr("1 + 2")) == "3"
