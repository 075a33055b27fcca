"""Programs in files of Python: what is read of them, and that nothing runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorir import assert_structural_equal, parse
from tensorir.errors import DiagnosticError
from tensorir.function import IRModule, PrimFunc
from tensorir.script.script_file import read_script_file

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
