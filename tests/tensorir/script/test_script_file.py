"""Scripts in files, and the grammar of scripts."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tensorir import assert_structural_equal, parse, parse_expr
from tensorir.errors import DiagnosticError
from tensorir.function import IRModule, PrimFunc
from tensorir.script import grammar, syntax
from tensorir.script.script_file import read_script_file
from tensorir.script.source import Source
from tests.tensorir.script.test_spellings import body

# ------------------------- Programs in files of Python: what is read of them, and that nothing runs

PROGRAM = """
@I.ir_module
class {name}:
    @T.prim_func
    def main(A: T.Buffer(({size},), "float32"), B: T.Buffer(({size},), "float32")):
        for i in range({size}):
            with T.block("B"):
                v = T.axis.spatial({size}, i)
                B[v] = A[v] + T.float32(1)
"""
ORDINARY = f'''"""A file of a user, with more than the program."""
import os
import numpy as np
from tensorir import I, T

N: int = 8
os.remove(__file__)
rows = [np.zeros(N) for _ in range(3)]

{PROGRAM.format(name="One", size="N")}

if __name__ == "__main__":
    raise SystemExit("this must not run")
'''


def test_of_a_python_file_only_the_program_is_read(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(ORDINARY)
    found = read_script_file(path)
    expected = parse(f"from tensorir import I, T\n{PROGRAM.format(name='One', size=8)}")
    assert_structural_equal(found, expected)
    assert path.exists()  # os.remove was not called


def test_what_is_printed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "printed.py"
    program = parse(f"from tensorir import I, T\n{PROGRAM.format(name='One', size=8)}")
    path.write_text(program.script())
    assert_structural_equal(read_script_file(path), program)


def test_one_of_several_programs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(PROGRAM.format(name="One", size=8) + PROGRAM.format(name="Two", size=16))
    found = read_script_file(path, "Two")
    assert isinstance(found, IRModule)
    assert "(16,)" in found.script()
    with pytest.raises(
        DiagnosticError, match=r"defines 2 programs: One, Two; select one, as in .*:One"
    ):
        read_script_file(path)
    with pytest.raises(
        DiagnosticError, match="does not define 'Tow'; it defines One, Two; did you mean"
    ):
        read_script_file(path, "Tow")


def test_a_function_outside_of_a_module(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(
        "from tvm.script import tir as S\n"
        "@S.prim_func\n"
        'def copy(A: S.Buffer((8,), "float32"), B: S.Buffer((8,), "float32")):\n'
        "    for i in range(8):\n"
        "        B[i] = A[i]\n"
    )
    found = read_script_file(path)
    assert isinstance(found, PrimFunc)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"x = 1\n", "does not define a program"),
        (b"\xff\xfe\x00", r"not UTF-8 text \(byte 0\)"),
        (b"def f(:\n", r"kernel.py:1:"),
        (PROGRAM.format(name="One", size="M").encode(), r"kernel.py:5:\d+"),
    ],
)
def test_errors_name_the_file_and_the_place(text: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_bytes(text)
    with pytest.raises(DiagnosticError, match=message):
        read_script_file(path)


# Lark reads scripts: from a saved parser, in several threads, and only where something is read

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
