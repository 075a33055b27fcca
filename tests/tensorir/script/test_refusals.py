"""Errors for invalid text point at the place and say what to write instead."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorir import DiagnosticError, parse
from tensorir.function import IRModule, PrimFunc
from tests.tensorir.script.test_spellings import PROGRAM, body

REFUSED = {
    # the values of names
    "x = 0\nwhile x < n:\n    x = x + 1": ("x has a value already", "x = x + 1"),
    "x = T.float32(0)\nfor i in range(8):\n    x += A[i, 0]": ("declare `x: T.float32`", "x += A[i, 0]"),
    "x = n + 1\nx = n + 2": ("Variable x already defined", "x = n + 2"),
    "x = A[y, 0]": ("Undefined variable: y", "y"),
    # meanings that differ from Python's
    "A[0, 0] = T.Select(0 < n < 5, A[0, 0], B[0, 0])": ("write `a < b and b < c`", "0 < n < 5"),
    "if n < 1.5:\n    A[0, 0] = 1.0": ("1.5 is not representable in int32", "n < 1.5"),
    "x: T.int64 = 1.5": ("1.5 is not representable in int64", "x: T.int64 = 1.5"),
    "x: T.int64 = n": ("annotated int64, but the value is int32", "x: T.int64 = n"),
    "for i in range(0, 8, 2):\n    A[i, 0] = 1.0": ("the step of a loop must be 1, not 2", "range(0, 8, 2)"),
    # what Python has and scripts have not
    "x = [i for i in range(3)]": ("comprehensions are not supported", "for"),
    "x = f'{n}'": ("f-strings are not supported", "f'{n}'"),
    "x = b'n'": ("bytes are not supported", "b'n'"),
    "(x := n)": ("`:=` is not supported", ":="),
    "A[0, 0] = A[0, 1] ** 2": ("write T.pow", "A[0, 1] ** 2"),
    "A[0, 0] = A[0, 1] @ B[0, 1]": ("write the loops of the product", "@"),
    "if n in [1, 2]:\n    A[0, 0] = 1.0": ("`in` is not supported", "in"),
    "if n is None:\n    A[0, 0] = 1.0": ("`is` is not supported; compare with ==", "is"),
    "while n < 3:\n    break": ("write the condition of a while loop", "break"),
    "A[0, 0] = B[0, 0] = 1.0": ("write one to a line", "A[0, 0] = B[0, 0] = 1.0"),
    "def g():\n    pass": ("a function in a script is decorated", "def"),
    "@T.macro\ndef g():\n    pass": ("define a macro, or a function of the module, before it", "T.macro"),
    # operands that do not fit, wherever they are found
    "v = n\nA[0, 0] = A[v:v + 2, 0] + 1": ("only the last index of buffer A", "A[v:v + 2, 0]"),
    "x = A[0.5, 0]": ("an index of buffer A is float32, not an integer", "A[0.5, 0]"),
    "with T.block('b'):\n    T.reads(A[0.5:2, 0])": ("the ends of a range must be integers", "A[0.5:2, 0]"),
    "with T.block(n):\n    A[0, 0] = 1.0": ("`name` is a string, got Var", "T.block(n)"),
    "for i in T.thread_binding(8, thread=n):\n    A[i, 0] = 1.0": ("`thread` is a string or None, got Var", "T.thread_binding("),
    "p = T.allocate([8], 'int8', 1)": ("`scope` is a string, got int", "T.allocate("),
    "A[*n] = 1.0": ("'Var' object is not iterable", "A[*n]"),
    "x = *n": ("a starred value is only allowed in", "*n"),
    "A[0] = 1.0": ("buffer A has 2 dimension(s)", "A[0]"),
    "x: T.float32 = T.let": ("cannot use a LetForm as an expression", "x: T.float32 = T.let"),
    "return": ("Expression to be returned", "return"),
    "if n < 3:\n    return 1.0\nreturn n": ("the function returns float32 and int32", "return n"),
    # names and arguments of the dialect
    "for i in T.vectorised(8):\n    A[0, i] = 1.0": ("did you mean T.vectorized?", "T.vectorised"),
    "T.add(grid=1)": ("unknown name T.add", "T.add"),
    "C = T.alloc_buffer((4,), shapo=1)": ("T.alloc_buffer() got an unexpected", "T.alloc_buffer((4,), shapo=1)"),
    "T.evaluate(T.Select(n < 3, 1))": ("T.Select() missing 1 required", "T.Select(n < 3, 1)"),
    "T.evaluate(T.cast(n, dtype='int8', dtype='int16'))": ("given twice", "dtype='int16'"),
    "with T.block('b'):\n    T.block_attr({'a': [T.int32]})": ("is a value, not T.int32", "T.block_attr("),
    "C = A.view(8, 15)": ("a view of 128 elements cannot have a shape of 120", "A.view(8, 15)"),
    "C = A.view('int8')": ("for another dtype write T.decl_buffer", "A.view('int8')"),
    "C = T.alloc_buffer((4,), annotations={'a': 1})": ("written as T.allocate", "T.alloc_buffer("),
    "T.func_attr(3)": ("a dict of names and values", "T.func_attr(3)"),
    "T.evaluate(T.exp())": ("exp takes 1 operand(s), got 0", "T.exp()"),
    # numbers, strings, signs
    "x = 1__0": ("invalid decimal literal", "1__0"),
    "x = 07": ("leading zeros", "07"),
    "x = '\\xZZ'": ("truncated", "'\\xZZ'"),
    "x = " + "9" * 5000: ("Exceeds the limit", "9" * 5000),
    "x = 1 << 99999999999": ("is too long", "1 << 99999999999"),
    "x = [1] * 99999999999": ("too many", "[1] * 99999999999"),
    "x = (n": ("'(' was never closed", "("),
    "x = n)": ("')' closes nothing", ")"),
    "x = 'n": ("a string that does not end", "'"),
    "x = n!": ("an unexpected character: '!'", "!"),
    "x = n\0": ("an unexpected character", "\0"),
    "x = " + "-" * 5000 + "n": ("more signs in a row than can be read", "-"),
    "x = " + "(" * 1100 + "n" + ")" * 1100: ("brackets are nested too deeply", "("),
    "x = " + "+".join(["n"] * 5000): ("nested too deeply", "n+n+n"),
    "if n < 3:\n  A[0, 0] = 1.0\n A[0, 1] = 1.0": ("inconsistent indentation", None),
    "if n < 3:\n\tA[0, 0] = 1.0\n    A[0, 1] = 1.0": ("tabs and spaces are mixed", None),
    # what a newcomer tries
    "x = np.zeros(3)": ("Undefined variable: np; define it before, or pass it to `parse` in", "np"),
    "f = lambda a: a\nx = f(n, n)": ("the lambda takes 1 argument(s), got 2", "f(n, n)"),
    "for i in range(A.size):\n    A[i, 0] = 1.0": ("A has no attribute 'size' in a script; it has", "A.size"),
    "for i in range(A.shap[0]):\n    A[i, 0] = 1.0": ("did you mean shape?", "A.shap"),
    "for i in range(8.0):\n    A[i, 0] = 1.0": ("a loop must run over integers, not over float32", "range(8.0)"),
    "A[0, 0] = 'text'": ("a string cannot be stored", "A[0, 0] = "),
    "x = n[0]": ("n is of type int32 and cannot be indexed", "n[0]"),
    "x = A(0)": ("A, a value of type Buffer, cannot be called", "A(0)"),
    "x = A + A": ("the operator `+` does not take Buffer and Buffer", "A + A"),
    "C = T.alloc_buffer('n')": ("a shape is a tuple of sizes, such as (n, 16), not 'n'", "T.alloc_buffer("),
    "C = T.alloc_buffer((8.0,))": ("a shape is a tuple of sizes", "T.alloc_buffer("),
    "C = T.alloc_buffer((-3,))": ("at least 0, got -3", "T.alloc_buffer("),
    "elif n > 3:\n    A[0, 0] = 1.0": ("right after the body of an `if`", "elif"),
    "x = else": ("right after the body of an `if`, or in", "else"),
    "T.func_attr({[1]: 2})": ("the keys of a dict are strings, not [1]", "{[1]: 2}"),
    "p = T.allocate_const('abc', 'int8', [3])": ("the elements of an array must be a list", "T.allocate_const("),
    "for i in T.thread_binding(8):\n    A[i, 0] = 1.0": ('write T.thread_binding(n, "threadIdx.x")', "T.thread_binding(8)"),
    "with T.block('b'):\n    v = T.axis.spacial(8, 0)": ("did you mean spatial?", "T.axis.spacial"),
    "with T.block('b'):\n    v = T.axis.remap('S', n)": ("takes a list of loop variables", "T.axis.remap("),
    "with T.block('b'):\n    v = T.axis.remap('X', [n])": ("Unknown axis kind: X; S is a", "T.axis.remap("),
}  # fmt: skip


@pytest.mark.parametrize("suite", REFUSED, ids=lambda suite: repr(suite)[:60])
def test_what_is_wrong_is_shown(suite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorir.recursion._CALLS", 3000)
    message, underlined = REFUSED[suite]
    text = body(suite)
    with pytest.raises(DiagnosticError) as caught:
        parse(text, filename="demo.py", check_well_formed=False)
    error = caught.value
    assert message in error.message
    assert f"demo.py:{error.line}:{error.column}" in str(error)
    shown = text.split("\n")[error.line - 1]
    assert shown == error.source_line
    if underlined is not None:
        assert shown[error.column - 1 :].startswith(underlined)
        assert error.end_column >= error.column + len(underlined)


def test_another_name_for_a_buffer_is_no_second_value() -> None:
    parse(body("C = A\nC = A\nC[0, n] = 1.0"))


def test_a_size_has_its_own_name_in_buffers() -> None:
    text = "@T.prim_func\ndef f(a: T.handle):\n    n = T.int32()\n    m = n\n"
    with pytest.raises(DiagnosticError, match="before what is assigned a value"):
        parse(text + "    A = T.match_buffer(a, (m,))\n    A[0] = T.float32(1)\n")


def test_of_a_long_line_the_place_is_shown() -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse(body(f"x = n + {' ' * 400}y + {' ' * 400}1"))
    line, caret = str(caught.value).split("\n")[-2:]
    assert "| ..." in line
    assert line.endswith("...")
    assert len(line) < 220
    assert line[caret.index("^")] == "y"


def test_deep_suites_end_in_a_sentence() -> None:
    lines = ["@T.prim_func", "def f(n: T.int32):"]
    lines += [" " * (k + 1) + "if n < 3:" for k in range(1100)]
    with pytest.raises(DiagnosticError, match="blocks of statements are nested too deeply"):
        parse("\n".join([*lines, " " * 1101 + "T.evaluate(n)"]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got 0"),
        ("x = 1\n", "expected one decorated function"),
        ("class Module:\n    pass\n", "a class in a script is decorated"),
        ("@T.prim_func\ndef f():\n    pass\n@T.prim_func\ndef g():\n    pass\n", "@I.ir_module"),
        ("@T.jit\ndef f():\n    pass\n", "use @T.prim_func or @R.function for functions"),
        ("@T.prim_func(privat=True)\ndef f():\n    pass\n", "unknown option 'privat'"),
        ("@I.ir_module\nclass M:\n    for i in range(3):\n        pass\n", "a module must consist of"),
        ("@I.ir_module\nclass M:\n    @T.prim_func\n    def f(n: T.int32):\n        return M.f(n)\n", "f calls itself"),
        ('n = TypeVar("n")\nn = TypeVar("n")\n@T.prim_func\ndef f():\n    pass\n', "already defined"),
        ("@T.prim_func\ndef f(n):\n    pass\n", "Type annotation required"),
        ("@T.prim_func\ndef f(n: 3):\n    pass\n", "Annotation should be Var"),
        ("@T.prim_func\ndef f(n: T.Buffer):\n    pass\n", "a buffer has a shape and a dtype: T.B"),
        ('@T.prim_func\ndef f(A: T.Buffer("float32", (8,))):\n    pass\n', "a shape is a tuple of"),
        ("@T.prim_func\ndef f(n: T.int32 = 3):\n    pass\n", "only plain parameters"),
        ('@T.prim_func\ndef f(A: T.Buffer(("n +",))):\n    pass\n', "expected an expression"),
    ],
)  # fmt: skip
def test_definitions_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse(text)
    assert message in caught.value.message
    assert caught.value.line
    assert caught.value.column


TEXT = PROGRAM.format(header="", decorator="@T.prim_func", T="T")
PIECES = [
    "(", ")", "[", "]", "{", "}", ",", ":", ";", ".", "=", "*", "**", "-", "not ", "//", "@", "->",
    "\n", "    ", "\t", "\\", "#", "'", '"""', "\0", "\r", "\ufeff", "\u00b2", "\u0663", "1e999", "T.", "A", "A[0]",
    "T.int64", "T.let", "T.grid", "T.meta_var", "lambda x: x", " for ", " if ", " else ", "return",
    "None", "True", "range", "T.index_map(lambda i: i)", "9" * 30,
]  # fmt: skip


@given(
    st.lists(
        st.tuples(
            st.integers(0, len(TEXT)),
            st.integers(0, 12),
            st.one_of(st.sampled_from(PIECES), st.text(max_size=3)),
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=150, deadline=None)
def test_any_text_is_a_program_or_an_error_with_a_place(edits: list[tuple[int, int, str]]) -> None:
    text = TEXT
    for at, length, piece in edits:
        text = text[:at] + piece + text[at + length :]
    try:
        outcome: PrimFunc | IRModule | DiagnosticError = parse(text)
    except DiagnosticError as error:
        outcome = error
    if isinstance(outcome, DiagnosticError):
        assert outcome.line >= 1
        assert outcome.column >= 1
    else:
        assert parse(outcome.script()) is not None


def test_what_is_no_text():
    with pytest.raises(TypeError, match="a script is text, got int: 3"):
        parse(3)
