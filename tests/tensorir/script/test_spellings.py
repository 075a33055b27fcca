"""Other spellings of a program, and the namespace in Python, read as the program itself."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tensorir import PrimFunc, T, Var, assert_structural_equal, parse
from tensorir.errors import DiagnosticError, IRValueError
from tensorir.nodes.expr import FloatImm, IntImm, PointerType
from tensorir.nodes.ops import const
from tests.tensorir.script.test_graph_forms import module as graph_module
from tests.text_cases import TextCase, each_case

# ---------- Other spellings of a program, older, newer and shorter ones, read as the program itself

HEADER = (
    "@T.prim_func\n"
    'def f(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32"), n: T.int32):\n'
)


def body(text: str) -> str:
    return HEADER + "".join(f"    {line}\n" for line in text.split("\n"))


@each_case(Path(__file__).with_name("spellings.txt"))
def test_spellings_of_one_program(case: TextCase) -> None:
    read = graph_module if case.call == "graph" else lambda text: parse(body(text))
    written, meant = read(case.before), read(case.after)
    assert_structural_equal(written, meant)
    assert_structural_equal(parse(written.script()), written)


@pytest.mark.parametrize(
    "parameter", ["p: T.Ptr[T.float32]", "p: T.Ptr(T.float32)", 'p: T.Ptr["float32", "global"]']
)
def test_spellings_of_a_pointer(parameter: str) -> None:
    func = parse(f"@T.prim_func\ndef f({parameter}):\n    T.evaluate(p)\n")
    meant = parse('@T.prim_func\ndef f(p: T.handle("float32")):\n    T.evaluate(p)\n')
    assert_structural_equal(func, meant)


NAMED = """
@T.prim_func
def f(A: T.Buffer((8,)), n: T.int32):
    {name}
    for i in range(8):
        {copy}
        A[j] = T.Cast("float32", m)
"""


def test_a_variable_under_another_name_is_a_let() -> None:
    brief = parse(NAMED.format(name="m = n", copy="j = i"))
    whole = parse(NAMED.format(name="m: T.int32 = n", copy="j: T.int32 = i"))
    assert_structural_equal(brief, whole)


def test_a_buffer_under_another_name_is_no_let() -> None:
    named = "@T.prim_func\ndef f(A: T.Buffer((8,))):\n    B = A\n    B[0] = T.float32(1)\n"
    plain = "@T.prim_func\ndef f(A: T.Buffer((8,))):\n    A[0] = T.float32(1)\n"
    assert_structural_equal(parse(named), parse(plain))


def test_lanes_count_in_pointers_to_vectors() -> None:
    func = parse(
        body('T.evaluate(T.call_extern("int32", "f", A.access_ptr("w", content_lanes=4)))')
    )
    assert 'T.tvm_access_ptr(T.type_annotation("float32x4"), A.data, 0, 32, 2)' in func.script()


def test_index_maps_are_annotations() -> None:
    func = parse(
        body(
            'with T.block("b"):\n'
            '    T.block_attr({"map": T.index_map(lambda i, j: (j, i)), "split": [T.index_map('
            "lambda i: (i // 4, i % 4), inverse_index_map=lambda i, j: i * 4 + j)]})\n"
            "    A[0, 0] = 1.0"
        )
    )
    text = func.script()
    assert '"map": T.index_map(lambda i, j: (j, i,))' in text
    assert "inverse_index_map=lambda i, j: (i * T.int64(4) + j,))]" in text
    assert_structural_equal(parse(text), func)


# ------------------------------------------------------------------------------ headers, sizes

PROGRAM = """\
{header}
{decorator}
def main(A: {T}.Buffer((4,), "float32")) -> None:
    with {T}.sblock("root"):
        B = {T}.sblock_alloc_buffer((4,))
        with {T}.sblock("copy"):
            {T}.sblock_attr({{"a": 1}})
            B[0] = A[0]
"""


@pytest.mark.parametrize(
    "header",
    [
        "",
        "# from tvm.script import tir as T",
        "from tvm.script import ir as I, tir as T",
        "from tensorir import I, T",
        "import tvm\nfrom tvm.script import tir as T, ir_module",
        "from tvm.script import (\n    ir as I,\n    tirx as T,\n)\n",
    ],
)
@pytest.mark.parametrize(
    "decorator",
    [
        "@T.prim_func",
        "@prim_func",
        "@tvm.script.tir.prim_func",
        "@T.prim_func(check_well_formed=False)",
        "@T.prim_func(private=False, s_tir=True)",
    ],
)
def test_headers_and_decorators(header: str, decorator: str) -> None:
    plain = parse(PROGRAM.format(header="", decorator="@T.prim_func", T="T"))
    assert_structural_equal(parse(PROGRAM.format(header=header, decorator=decorator, T="T")), plain)


def test_the_namespace_under_another_name() -> None:
    header = "from tvm.script import tir as dialect"
    text = PROGRAM.format(header=header, decorator="@dialect.prim_func", T="dialect")
    plain = parse(PROGRAM.format(header="", decorator="@T.prim_func", T="T"))
    assert_structural_equal(parse(text), plain)


SIZES = """\
@T.prim_func
def main(a: T.handle, b: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n * m,), "float32")
    for i, j in T.grid(n, m):
        B[i * m + j] = A[i, j]
"""


@pytest.mark.parametrize(
    "head",
    [
        'n = TypeVar("n")\nm = TypeVar("m")\n@T.prim_func\n'
        'def main(A: T.Buffer((n, m), "float32"), B: T.Buffer((n * m,), "float32")):\n',
        '@T.prim_func\ndef main[n, m](A: T.Buffer((n, m), "float32"), B: T.Buffer((n * m,), "float32")):\n',
        'n = TypeVar("n")\nm = TypeVar("m")\n@T.prim_func\n'
        'def main(A: T.Buffer((n, m), "float32"), B: T.Buffer(("n * m",), "float32")):\n',
    ],
)
def test_sizes_as_type_variables(head: str) -> None:
    func = parse(head + "    for i, j in T.grid(n, m):\n        B[i * m + j] = A[i, j]\n")
    assert_structural_equal(func, parse(SIZES))


# ------------------------------------------------------------------------------------- results


def test_the_type_of_a_result_follows_from_what_is_returned() -> None:
    module = parse("""\
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "int64")):
        A[0] = Module.twice(A[1])

    @T.prim_func(private=True)
    def next(n: T.int64):
        T.ret(n + T.int64(1))

    @T.prim_func(private=True)
    def twice(n: T.int64):
        return Module.next(Module.next(n))
""")
    assert "def next(n: T.int64) -> T.int64:" in module.script()
    assert "def twice(n: T.int64) -> T.int64:" in module.script()
    assert module["main"].body.value.dtype == "int64"
    assert_structural_equal(parse(module.script()), module)


# ------------------------------------- The functions of `T` in a Python program, outside of scripts


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


def namespace_body(line, dtype="float32"):
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
        parse(namespace_body(f'A[0] = T.{call}("float32", "{name}", T.uint32(1), A[1])'))


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
    func = parse(namespace_body(f"A[0] = T.float64({value!r})", "float64"))
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
    func = parse(namespace_body(line))
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
