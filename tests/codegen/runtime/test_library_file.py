"""Files of libraries are looked at before the system maps them into memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import codegen
from codegen import LinkError, Target
from codegen.target import host
from tensorir import parse

FOREIGN, NUMBER = ("aarch64", 183) if host.machine() == "x86_64" else ("x86_64", 62)
DOUBLE = """
@T.prim_func
def double(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = A[i] * T.float32(2)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("library") / "whole.so"
    codegen.build(parse(DOUBLE)).export_library(path)
    return path.read_bytes()


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_a_library_that_is_cut_short_is_refused(
    tmp_path: Path, library: bytes, part: float
) -> None:
    path = tmp_path / "half.so"
    path.write_bytes(library[: int(len(library) * part)])
    with pytest.raises(LinkError, match=rf"half\.so cannot be .* of {len(library)} bytes; export"):
        codegen.load_module(path)


def test_a_library_for_another_architecture_is_refused(tmp_path: Path, library: bytes) -> None:
    path = tmp_path / "foreign.so"
    path.write_bytes(library[:18] + NUMBER.to_bytes(2, "little") + library[20:])
    with pytest.raises(LinkError, match=f"its code is for {FOREIGN}, and this machine is"):
        codegen.load_module(path)


@pytest.mark.parametrize("content", [b"", b"hello\n", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(58)])
def test_what_is_no_library_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "text.so"
    path.write_bytes(content)
    with pytest.raises(LinkError, match=r"text\.so"):
        codegen.load_module(path)


def test_a_directory_is_neither_read_nor_written(tmp_path: Path) -> None:
    module = codegen.build(parse(DOUBLE))
    with pytest.raises(LinkError, match=r"there is no library .*: it is a directory"):
        codegen.load_module(tmp_path)
    with pytest.raises(LinkError, match=r"no library can be written to .* is a directory; name a"):
        module.export_library(tmp_path)
    with pytest.raises(LinkError, match=r"there is no directory .*nowhere; name a file"):
        module.export_library(tmp_path / "nowhere" / "lib.so")


def test_a_library_for_another_architecture_holds_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM has an assembler for this machine only: asked for another, it ends the process."""
    linker = tmp_path / "linker.py"  # puts the last object in the place of the library
    linker.write_text(
        "import shutil, sys\n"
        "words = sys.argv[1:]\n"
        "out = words[words.index('-o') + 1]\n"
        "shutil.copy([w for w in words if w.endswith('.o')][-1], out)\n"
    )
    monkeypatch.setenv("CC", f"{sys.executable} {linker}")
    module = codegen.build(parse(DOUBLE), Target(f"llvm -mtriple={FOREIGN}-linux-gnu"))
    module.export_library(
        tmp_path / "lib.so", {"weights": [bytes(range(100)), bytes(range(100, 256))]}
    )
    written = (tmp_path / "lib.so").read_bytes()
    assert int.from_bytes(written[18:20], "little") == NUMBER
    assert bytes(range(256)) in written
    assert b'"double"' in written  # the description that load_module reads
