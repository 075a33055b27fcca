"""The functions of `T` in a Python program, outside of scripts."""

from __future__ import annotations

import math

import pytest

from tensorir import Buffer, PrimFunc, T, Var, assert_structural_equal, parse
from tensorir.errors import DiagnosticError, IRValueError
from tensorir.nodes.expr import FloatImm, IntImm, PointerType
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import BufferStore


def test_a_buffer_is_an_object_to_build_programs_of():
    A, B = T.Buffer((128,), "float32"), T.Buffer((4, 8), "int8", scope="shared", strides=(16, 1))
    assert isinstance(A, Buffer)
    assert (A.dtype, [int(n) for n in A.shape]) == ("float32", [128])
    assert (B.scope(), [int(n) for n in B.strides]) == ("shared", [16, 1])
    func = PrimFunc([A], BufferStore(A, A[3] + 1.0, [const(3)]))
    assert "buffer[3] = buffer[3] + T.float32(1.0)" in func.script()


def test_variables_and_pointers_are_variables():
    assert isinstance(T.int32(), Var)
    assert T.handle().dtype == "handle"
    pointer = T.handle("float32", "shared").type_annotation
    assert isinstance(pointer, PointerType)
    assert (pointer.element_type.dtype, pointer.storage_scope) == ("float32", "shared")
    n = T.int64()
    assert T.Buffer((n, 4), "int32").shape[0] is n


ROW = T.Buffer((8,), "int32")
SIZE = T.int32()


@T.prim_func
def twice(A: ROW, B: ROW, n: SIZE):
    for i in range(8):
        B[i] = A[i] * n


def test_a_buffer_of_python_annotates_parameters_each_with_a_buffer_of_its_own():
    first, second = (twice.buffer_map[param] for param in twice.params[:2])
    assert first is not second
    assert (first.name, second.name) == ("A", "B")
    assert first.data is not second.data
    assert 'def twice(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):' in (
        twice.script()
    )


@pytest.mark.parametrize(
    ("function", "value", "rounded"),
    [
        (T.round, 2.5, 2.0),
        (T.round, -0.5, -0.0),
        (T.ceil, 2.1, 3.0),
        (T.trunc, -2.7, -2.0),
        (T.floor, -2.1, -3.0),
        (T.nearbyint, 3.5, 4.0),
        (T.ceil, math.inf, math.inf),
        (T.trunc, 7, 7),
    ],
)
def test_constants_are_rounded_at_once(function, value, rounded):
    found = function(const(value, "float32" if isinstance(value, float) else "int32"))
    assert isinstance(found, (FloatImm, IntImm))
    assert repr(found.value) == repr(rounded)


def body(line, dtype="float32"):
    return f'@T.prim_func\ndef main(A: T.Buffer((8,), "{dtype}"), n: T.int32):\n    {line}\n'


@pytest.mark.parametrize("call", ["call_llvm_intrin", "call_llvm_pure_intrin"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("llvm.sqr.f32", "unknown LLVM intrinsic 'llvm.sqr.f32'; did you mean llvm.sqrt?"),
        ("llvm.fnuladd", "did you mean llvm.fmuladd?"),
        ("sqrt", "unknown LLVM intrinsic 'sqrt'; did you mean llvm.sqrt?"),
        ("llvm.qqqq", "names begin with llvm."),
    ],
)
def test_an_unknown_llvm_intrinsic_is_refused(call, name, message):
    with pytest.raises(IRValueError) as raised:
        getattr(T, call)("float32", name, T.uint32(1), T.float32(2))
    assert message in str(raised.value)
    with pytest.raises(DiagnosticError, match="unknown LLVM intrinsic"):
        parse(body(f'A[0] = T.{call}("float32", "{name}", T.uint32(1), A[1])'))


@pytest.mark.parametrize(
    "name",
    ["llvm.sqrt", "llvm.sqrt.f32", "llvm.fma.v4f32", "llvm.sadd.sat.i32", "llvm.x86.tdpbusd",
     "llvm.vector.reduce.fadd.v4f32", "llvm.memcpy.p0.p0.i64"],
)  # fmt: skip
def test_known_llvm_intrinsics_pass(name):
    assert name in str(T.call_llvm_pure_intrin("float32", name, T.uint32(1), T.float32(2)))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-5, "1e-05"),
        (0.1, "0.1"),
        (1 / 3, "0.3333333333333333"),
        (-3.4028234663852886e38, "-3.4028234663852886e+38"),
        (16777216.0, "16777216.0"),
        (1e22, "1e+22"),
        (-0.0, "-0.0"),
        (5e-324, "5e-324"),
    ],
)
def test_floats_print_as_the_shortest_text_that_reads_back(value, text):
    func = parse(body(f"A[0] = T.float64({value!r})", "float64"))
    assert f"A[0] = T.float64({text})" in func.script()
    assert_structural_equal(parse(func.script()), func)


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("x = 1\n    A[x] = 1.0", "x: T.int32 = 1"),
        ("x: T.int32 = n\n    A[x] = 1.0", "x: T.int32 = n"),
        ("with T.LetStmt(n) as x:\n        A[x] = 1.0", "x: T.int32 = n"),
        ("x = T.int32()\n    A[T.Let(x, where={x: n})] = 1.0", "A[T.Let(x, where={x: n})]"),
        ("x = T.int32()\n    A[T.Let(0, where={x: 1})] = 1.0", "A[T.Let(0, where={x: 1})]"),
    ],
)
def test_a_let_of_a_variable_or_constant_is_kept(line, printed):
    func = parse(body(line))
    assert printed in func.script()
    assert_structural_equal(parse(func.script()), func)


def test_a_function_has_a_name():
    assert twice.__name__ == "twice"
    assert twice.without_attr("global_symbol").__name__ == "main"
    assert PrimFunc.__name__ == "PrimFunc"


def test_a_program_is_shown_in_a_style(capsys):
    pytest.importorskip("pygments")
    twice.show()
    assert capsys.readouterr().out == twice.script() + "\n"
    shown = set()
    for style in ("light", "dark", "ansi", "vim"):
        twice.show(style)
        shown.add(capsys.readouterr().out)
    assert len(shown) == 4
    assert all("\x1b[" in text for text in shown)
    with pytest.raises(IRValueError, match=r"unknown style 'gold'; expected light, dark, ansi or"):
        twice.show(style="gold")
