"""Libraries as files, registered functions, descriptions of modules."""

from __future__ import annotations

import functools
import json
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import codegen
from codegen import LinkError, Target
from codegen.library_functions import call_library
from codegen.signature import ModuleInfo, read_object_code
from codegen.target import host
from tensorir import parse
from tensorir.errors import IRTypeError, IRValueError

# ------------------------- Files of libraries are looked at before the system maps them into memory

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
    with pytest.raises(LinkError, match=f"its code is for {FOREIGN}, but this machine is"):
        codegen.load_module(path)


@pytest.mark.parametrize("content", [b"", b"hello\n", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(58)])
def test_what_is_no_library_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "text.so"
    path.write_bytes(content)
    with pytest.raises(LinkError, match=r"text\.so"):
        codegen.load_module(path)


def test_a_directory_is_neither_read_nor_written(tmp_path: Path) -> None:
    module = codegen.build(parse(DOUBLE))
    with pytest.raises(LinkError, match=r"library .*: it is a directory"):
        codegen.load_module(tmp_path)
    with pytest.raises(LinkError, match=r"no library can be written to .* is a directory; name a"):
        module.export_library(tmp_path)
    with pytest.raises(LinkError, match=r"directory .*nowhere does not exist"):
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


# -------------------------------------- The registry of Python functions that programs call by name


@pytest.fixture(autouse=True)
def own_names() -> Iterator[None]:
    """Take back what a test registers."""
    before = set(codegen.list_global_func_names())
    yield
    for name in set(codegen.list_global_func_names()) - before:
        codegen.remove_global_func(name)


def double(x: np.ndarray, out: np.ndarray) -> None:  # type: ignore[type-arg]
    np.multiply(x, 2, out=out)


def test_three_ways_to_register() -> None:
    @codegen.register_func("test.named")
    def one() -> int:
        return 1

    @codegen.register_func
    def test_own_name() -> int:
        return 2

    assert codegen.register_func("test.called", double) is double
    assert codegen.get_global_func("test.named") is one
    assert codegen.get_global_func("test_own_name") is test_own_name
    assert codegen.get_global_func("test.called") is double
    assert {"test.named", "test.called"} < set(codegen.list_global_func_names())


def test_a_taken_name_needs_override() -> None:
    codegen.register_func("test.taken", double)
    message = r"'test.taken' exists already: double at .*test_library.py:\d+; .*override"
    with pytest.raises(IRValueError, match=message):
        codegen.register_func("test.taken", print)
    assert codegen.get_global_func("test.taken") is double

    @codegen.register_func("test.taken", override=True)
    def other() -> None: ...

    assert codegen.get_global_func("test.taken") is other


@pytest.mark.parametrize(
    ("function", "place"),
    [(len, "<built-in function len>"), (functools.partial(double, 1), "double at .*:")],
)
def test_the_place_of_what_is_no_plain_function(function: object, place: str) -> None:
    codegen.register_func("test.odd", function)  # type: ignore[type-var]
    with pytest.raises(IRValueError, match=f"exists already: {place}"):
        codegen.register_func("test.odd", double)


def test_only_functions_are_registered() -> None:
    with pytest.raises(IRTypeError, match=r"'test\.number' is a int, not"):
        codegen.register_func("test.number", 3)  # type: ignore[type-var]
    with pytest.raises(IRTypeError, match="takes a name or a function, got 3"):
        codegen.register_func(3)  # type: ignore[type-var]
    with pytest.raises(IRTypeError, match=r"partial.* has no __name__; pass a name"):
        codegen.register_func(functools.partial(double, 1))
    with pytest.raises(IRValueError, match="needs a name"):
        codegen.register_func("", double)


def test_missing_names_come_with_names_near_them() -> None:
    codegen.register_func("test.softmax", double)
    with pytest.raises(IRValueError, match=r"not registered: 'test.sofmax' \(near it: test.softm"):
        codegen.get_global_func("test.sofmax")
    with pytest.raises(IRValueError, match=r"not registered: 'nothing like it'; register with"):
        codegen.remove_global_func("nothing like it")
    assert codegen.get_global_func("test.sofmax", allow_missing=True) is None


def test_removed_functions_are_gone() -> None:
    codegen.register_func("test.short", double)
    codegen.remove_global_func("test.short")
    assert codegen.get_global_func("test.short", allow_missing=True) is None
    codegen.register_func("test.short", double)


def test_one_thread_of_many_gets_a_name() -> None:
    won: list[int] = []

    def attempt(number: int) -> None:
        try:
            codegen.register_func("test.race", lambda: number)
        except IRValueError:
            return
        won.append(number)

    threads = [threading.Thread(target=attempt, args=(k,)) for k in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [codegen.get_global_func("test.race")()]


def test_calls_give_the_value_of_the_function() -> None:
    out = codegen.empty((3,))
    assert call_library("test.double", double, (np.ones(3, np.float32), out)) is None
    assert out.tolist() == [2, 2, 2]
    assert call_library("test.len", len, ("four",)) == 4


def test_errors_name_function_arguments_and_binding() -> None:
    def broken(x: object, *rest: object) -> None:
        raise KeyError("inside")

    args = (codegen.empty((1, 784)), 3, ("a", codegen.empty((2,), "int8")), "b" * 60)
    with pytest.raises(codegen.LibraryFunctionError) as caught:
        call_library("env.linear", broken, args, binding="lv0")
    assert str(caught.value) == (
        "library function 'env.linear'(float32[1, 784], 3, ('a', int8[2]), "
        f"'{'b' * 36}...), called for lv0, raised KeyError: 'inside'"
    )
    assert isinstance(caught.value.__cause__, KeyError)
    shown = "".join(traceback.format_exception(caught.value))
    assert 'raise KeyError("inside")' in shown


def test_interrupts_pass_through() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_library("test.interrupted", interrupted, ())


# --------------------------------------------------------------- What object code says about itself

COPY = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
"""


def description() -> dict[str, object]:
    info, _ = read_object_code(codegen.compile_object(parse(COPY)))
    found: dict[str, object] = json.loads(info.to_json())
    return found


def test_a_description_of_another_format_is_refused() -> None:
    with pytest.raises(LinkError, match=r"format 99 .* compile it again"):
        ModuleInfo.from_json(json.dumps(description() | {"version": 99}))


@pytest.mark.parametrize("cut", [0, 5, 100, -1])
def test_what_is_no_compiled_module_is_refused(cut: int) -> None:
    data = codegen.compile_object(parse(COPY))
    with pytest.raises(LinkError, match=r"not an archive .*compile the program again"):
        codegen.Module.from_object(data[:cut])
