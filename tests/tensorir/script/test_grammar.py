"""Lark reads scripts: from a saved parser, in several threads, and only where something is read."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tensorir import parse, parse_expr
from tensorir.errors import DiagnosticError
from tensorir.script import grammar, syntax
from tensorir.script.source import Source
from tests.tensorir.script.test_spellings import body

TEXT = body("for i in range(8):\n    A[i, 0] = [A[i, 0],\n  B[i, 0]][0]\n\n    A[i, 1] = 1.0")


def test_the_saved_parser_is_of_the_grammar():
    saved = json.loads(grammar.SAVED.read_text(encoding="utf-8"))
    message = "run python -m tensorir.script.grammar"
    assert saved["grammar"] == grammar.GRAMMAR.read_text(encoding="utf-8"), message


def test_a_parser_saved_by_another_lark_is_built_anew(tmp_path, monkeypatch):
    expected = syntax.parse_module(Source(TEXT))
    saved = json.loads(grammar.SAVED.read_text(encoding="utf-8"))
    other = tmp_path / "grammar.json"
    other.write_text(json.dumps({**saved, "lark": "0.0", "data": {}}), encoding="utf-8")
    monkeypatch.setattr(grammar, "SAVED", other)
    assert grammar.load_parser(syntax._Builder()).parse(TEXT) == expected


def test_several_threads_parse_at_once():
    texts = [TEXT, TEXT.replace("    ", "\t"), "x = (\n", TEXT + "]"] * 10

    def read(text):
        try:
            return parse(text).script()
        except DiagnosticError as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, texts)) == list(map(read, texts))


def test_what_reads_no_text_loads_no_lark():
    code = """
import sys
from tensorir import te, parse_expr
A = te.placeholder((8,), name="A")
te.create_prim_func([A, te.compute((8,), lambda i: A[i] + 1.0, name="B")]).script()
print("lark" in sys.modules, parse_expr("1 + 2"), "lark" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False 3 True\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", "unexpected end of the line; expected an expression"),
        ("for i in", "unexpected end of the line; expected an expression"),
        ("x = 1 2", "unexpected `2`"),
        ("@T.prim_func\n", "unexpected end of the text; expected '@', 'class' or 'def'"),
        ("def f[", "a function in a script is decorated"),
        ("@T.prim_func\ndef f[", "'[' was never closed"),
        ("@T.prim_func\ndef f(x) 3", "unexpected `3`; expected '->' or ':'"),
        ("@T.prim_func\ndef f(3", "unexpected `3`; expected ')', '*', '**' or a name"),
        ('x = "a\\"', "a string that does not end"),
    ],
)
def test_what_can_be_next(text, message):
    with pytest.raises(DiagnosticError) as caught:
        parse(text)
    assert message in caught.value.message


def test_a_number_may_begin_with_its_point():
    assert parse_expr("T.max(.5, 1.)").value == 1.0
