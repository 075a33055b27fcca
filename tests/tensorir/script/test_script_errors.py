"""Errors for invalid text point at the place and say what to write instead."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorir import DiagnosticError, R, T, WellFormedError, parse, verify_well_formed
from tensorir.function import IRModule, PrimFunc
from tests.tensorir.script.test_spellings import PROGRAM, body

# ------------------------- Errors for invalid text point at the place and say what to write instead

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


# ----------------------- Errors in graph functions point at the place and say what to write instead

HEAD = """@I.ir_module
class Module:
    @T.prim_func
    def relu(X: T.Buffer((1, 4), "float32"), Y: T.Buffer((1, 4), "float32")):
        for i, j in T.grid(1, 4):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    @R.function
    def same(x: R.Tensor((1, 4), "float32")) -> R.Tensor((1, 4), "float32"):
        return x

    @R.function
"""
PARAMS = 'x: R.Tensor((1, 4), "float32"), c: R.Tensor((), "bool"), t: R.Tuple(R.Tensor, R.Tensor)'
OUT = 'out_sinfo=R.Tensor((1, 4), "float32")'


def refused(body: str, params: str = PARAMS) -> DiagnosticError:
    """Return the error that reading a graph function with this body raises."""
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    with pytest.raises(DiagnosticError) as caught:
        parse(f"{HEAD}    def main({params}):\n        cls = Module\n{lines}")
    return caught.value


def marked(error: DiagnosticError) -> str:
    """Return the part of the line that the carets stand under."""
    return error.source_line[error.column - 1 : error.end_column - 1]


CALLS = {
    "an unknown function": (
        f"y = R.call_tir(cls.rely, (x,), {OUT})\nreturn y",
        "cls.rely",
        "Cannot find the function `rely` in the current IRModule; did you mean relu?",
    ),
    "an argument too many": (
        f"y = R.call_tir(cls.relu, (x, x), {OUT})\nreturn y",
        f"y = R.call_tir(cls.relu, (x, x), {OUT})",
        '"relu" takes 2 parameter(s) (X, Y), the call passes 3',
    ),
    "an output of another shape": (
        'y = R.call_tir(cls.relu, (x,), (1, 8), dtype="float32")\nreturn y',
        'y = R.call_tir(cls.relu, (x,), (1, 8), dtype="float32")',
        'parameter Y of "relu" is R.Tensor((1, 4), dtype="float32"), but the output is '
        'R.Tensor((1, 8), dtype="float32")',
    ),
    "an argument of another type": (
        f"y = R.call_tir(cls.relu, (c,), {OUT})\nreturn y",
        f"y = R.call_tir(cls.relu, (c,), {OUT})",
        "but argument 0, c, is",
    ),
    "no output": (
        "y = R.call_tir(cls.relu, (x,))\nreturn y",
        "R.call_tir(cls.relu, (x,))",
        'a call states its outputs: out_sinfo=R.Tensor((...), "<dtype>")',
    ),
    "a shape without its dtype": (
        "y = R.call_tir(cls.relu, (x,), (1, 4))\nreturn y",
        "R.call_tir(cls.relu, (x,), (1, 4))",
        'the shape of an output comes with its dtype: dtype="float32"',
    ),
    "as many shapes as dtypes": (
        'y = R.call_tir("f", (x,), [(1, 4), (4,)], dtype=["float32"])\nreturn y',
        'R.call_tir("f", (x,), [(1, 4), (4,)], dtype=["float32"])',
        "there are 2 shapes of outputs, but 1 dtypes",
    ),
    "a graph function by call_tir": (
        f"y = R.call_tir(cls.same, (x,), {OUT})\nreturn y",
        f"y = R.call_tir(cls.same, (x,), {OUT})",
        '"same" is a graph function; call it directly: same(...)',
    ),
    "a tensor function without its output": (
        "y = cls.relu(x)\nreturn y",
        "cls.relu(x)",
        "R.call_tir(relu, (...), out_sinfo=...) allocates the outputs",
    ),
    "a function as a value": (
        'y = R.call_packed("f", cls.relu)\nreturn y',
        'y = R.call_packed("f", cls.relu)',
        '"relu" is a tensor function, and a library function takes',
    ),
    "a function of the module by call_packed": (
        "y = R.call_packed(relu, x)\nreturn y",
        "R.call_packed(relu, x)",
        'a library function is called by its name in quotes, "relu"',
    ),
    "an unknown operator": (
        "y = R.call_tri(x)\nreturn y",
        "R.call_tri",
        "unknown name R.call_tri; did you mean R.call_tir?",
    ),
    "a value instead of a function": ("y = x(x)\nreturn y", "x(x)", "not a function"),
    "an integer that the type has not": (
        'y = R.const(300, "int8")\nreturn y',
        'R.const(300, "int8")',
        "int8 cannot represent every value of 300",
    ),
    "arrays that were left out": (
        'y = metadata["relax.expr.Constant"][0]\nreturn y',
        'metadata["relax.expr.Constant"]',
        "the arrays of this program are not part of the text; print it by script(show_meta=True)",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_are_refused(name: str) -> None:
    body, place, message = CALLS[name]
    error = refused(body)
    assert message in error.message
    assert marked(error) == place


def test_whether_a_call_tir_fits_is_left_to_the_verifier() -> None:
    text = f"""{HEAD}    def main({PARAMS}):
        cls = Module
        y = R.call_tir(cls.relu, (x, x), {OUT})
        return y
"""
    mod = parse(text, check_well_formed=False)
    with pytest.raises(WellFormedError, match=r'binding "y" of function "main": "relu" takes 2'):
        verify_well_formed(mod)


STATEMENTS = {
    "nothing is returned": (
        "y = x",
        "main",
        "a graph function must end in `return` with its value",
    ),
    "a return without a value": ("return", "return", "a graph function must return a value"),
    "more after the return": (
        "return x\ny = x",
        "y = x",
        "the return of a graph function must be its last",
    ),
    "a return in an if": (
        "if c:\n    return x\nelse:\n    return x",
        "return x",
        "bind one name in both branches",
    ),
    "an if without else": ("if c:\n    y = x\nreturn x", "c", "must have an else as well"),
    "an if that binds two names": (
        "if c:\n    y = x\nelse:\n    z = x\nreturn x",
        "c",
        "both branches of an if must end by binding the same name for its value; these end "
        "in y and z",
    ),
    "an if that binds nothing": (
        "if c:\n    y = x\nelse:\n    pass\nreturn x",
        "pass",
        "each branch of an if must end by binding a name",
    ),
    "an if in a dataflow block": (
        "with R.dataflow():\n    if c:\n        y = x\n    else:\n        y = x\n    R.output(y)\n"
        "return y",
        "c",
        "an if must stand outside of dataflow blocks",
    ),
    "a name of one side of an if": (
        "if c:\n    z = x\n    y = z\nelse:\n    y = x\nreturn z",
        "z",
        "z is bound in a branch of an if",
    ),
    "a dataflow block without its output": (
        "with R.dataflow():\n    y = x\nreturn y",
        "y = x",
        "a dataflow block must end in R.output(...) with the names that are used after it",
    ),
    "an output of another place": (
        "with R.dataflow():\n    y = x\n    R.output(x)\nreturn y",
        "x",
        "R.output takes names that the block binds",
    ),
    "a name outside of the outputs": (
        "with R.dataflow():\n    z = x\n    y = z\n    R.output(y)\nreturn z",
        "z",
        "z is bound in a dataflow block; use R.output(z) to read it after the block",
    ),
    "an output without its block": ("R.output(x)\nreturn x", "R.output(x)", "last statement"),
    "a block of a tensor function": (
        'with T.block("Y"):\n    y = x\nreturn y',
        'T.block("Y")',
        "a graph function has `with R.dataflow():` only",
    ),
    "a loop": (
        "for i in range(4):\n    y = x\nreturn x",
        "i in range(4)",
        "loops are not supported",
    ),
    "an assert": ('assert c, "text"\nreturn x', "c", "check shapes by R.match_cast"),
    "a function inside": (
        "@R.function\ndef f(y: R.Tensor):\n    return y\nreturn x",
        "R.function",
        "a function cannot be inside another one; define both in a class",
    ),
    "a value without a use": (
        "x\nreturn x",
        "x",
        "the value of this expression is unused; give it a name",
    ),
    "an annotation that does not fit": (
        'y: R.Tensor((2, 4), "float32") = x\nreturn y',
        'R.Tensor((2, 4), "float32")',
        'y is annotated R.Tensor((2, 4), dtype="float32"), but the value is '
        'R.Tensor((1, 4), dtype="float32")',
    ),
    "a size that is not defined": (
        'y = R.match_cast(x, R.Tensor(("n", 4), "float32"))\nreturn y',
        'y = R.match_cast(x, R.Tensor(("n", 4), "float32"))',
        'the size "n" is not defined; write n = T.int64() before',
    ),
    "a size in quotes in a call": (
        'y = R.call_packed("f", sinfo_args=R.Tensor(("n",)))\nreturn y',
        'y = R.call_packed("f", sinfo_args=R.Tensor(("n",)))',
        'sizes in quotes are only allowed in annotations; write n instead of "n"',
    ),
    "a size as a value": (
        "n = T.int64()\nreturn n",
        "return n",
        "n is a size, not a value; write R.prim_value(n) or R.shape([n])",
    ),
    "too many names": ("a, b, d = t\nreturn a", "a, b, d = t", "there are 2 value(s), but 3 names"),
    "a field beyond the last": (
        "y = t[2]\nreturn y",
        "t[2]",
        "field 2 is out of range for a tuple of 2",
    ),
    "an element of an array": ("y = x[0]\nreturn y", "x[0]", "only a tuple has fields"),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_that_are_refused(name: str) -> None:
    body, place, message = STATEMENTS[name]
    error = refused(body)
    assert message in error.message
    assert marked(error) == place


SIGNATURES = {
    "no annotation": ("x", "x", "the parameter x needs an annotation"),
    "a default": ("x: R.Tensor = 3", "x", "only plain parameters without defaults"),
    "the same name twice": ("x: R.Tensor, x: R.Tensor", "x", "two parameters called x"),
    "a buffer": ('x: T.Buffer((4,), "float32")', 'T.Buffer((4,), "float32")', "not by a buffer"),
    "an unknown size": ("x: R.Tensor((n,))", "n", "Undefined variable: n"),
    "a size below 0": ("x: R.Tensor((-1,))", "R.Tensor((-1,))", "at least 0, got -1"),
    "a shape that is none": ("x: R.Tensor(4)", "R.Tensor(4)", "a tuple of sizes, not 4"),
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_that_are_refused(name: str) -> None:
    params, place, message = SIGNATURES[name]
    error = refused("return x", params)
    assert message in error.message
    assert marked(error) == place


def test_a_binding_that_breaks_a_rule_is_pointed_out() -> None:
    error = refused('with R.dataflow():\n    y = R.call_packed("f", x)\n    R.output(y)\nreturn y')
    assert 'binding "y" of function "main"' in error.message
    assert marked(error) == 'y = R.call_packed("f", x)'


def test_the_result_fits_what_is_annotated() -> None:
    with pytest.raises(DiagnosticError, match=r"main returns R.Tensor\(\(4,\)\), but its result"):
        parse("@R.function\ndef main(x: R.Tensor((4,))) -> R.Tensor((5,)):\n    return x")


def test_a_function_that_calls_itself_says_what_it_gives() -> None:
    with pytest.raises(DiagnosticError, match=r"f calls itself; write the type of its result"):
        parse(
            "@I.ir_module\nclass M:\n    @R.function\n    def f(x: R.Tensor((4,))):\n"
            "        y = f(x)\n        return y"
        )


def test_a_tensor_function_cannot_call_a_graph_function() -> None:
    with pytest.raises(DiagnosticError, match="f is a graph function; tensor functions cannot"):
        parse(
            "@I.ir_module\nclass M:\n    @R.function\n    def f(x: R.Tensor((4,))):\n"
            "        return x\n    @T.prim_func\n    def g():\n        M.f()"
        )


def test_a_captured_function_is_called_by_a_name_of_the_module() -> None:
    @T.prim_func
    def relu(X: T.Buffer((4,), "float32"), Y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("Y"):
                vi = T.axis.spatial(4, i)
                Y[vi] = X[vi]

    with pytest.raises(DiagnosticError, match="write `name = function` in the class"):

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            return R.call_tir(relu, (x,), out_sinfo=R.Tensor((4,), "float32"))


BROKEN_METADATA = {
    "no JSON": "tvm.ir.load_json('x')",
    "no nodes": "tvm.ir.load_json('{}')",
    "bytes that are not base64": 'R.array("int8", (1,), "?")',
    "too few bytes": 'R.array("int8", (4,), "AAAA")',
    "a shape below 0": 'R.array("int8", (-1,), "")',
    "an array cut short": 'tvm.ir.load_json(\'{"root": 1, "b64ndarrays": ["AAAA"], "nodes": ['
    '{"type_key": "relax.expr.Constant", "attrs": {"data": "0"}}, '
    '{"type_key": "Map", "keys": ["a"], "data": [2]}, {"type_key": "Array", "data": [0]}]}\')',
}


@pytest.mark.parametrize("name", BROKEN_METADATA)
def test_damaged_arrays_are_refused(name: str) -> None:
    with pytest.raises(DiagnosticError):
        parse(
            f"metadata = {BROKEN_METADATA[name]}\n@R.function\ndef main(x: R.Tensor):\n    return x"
        )


def test_sizes_of_a_signature_are_known_in_every_suite() -> None:
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        with R.dataflow():
            n = T.int64()
            y = R.call_dps_packed("f", (x,), out_sinfo=R.Tensor((n,), "float32"))
            R.output(y)
        return y
""")
    assert isinstance(mod, IRModule)
    assert mod.script().count("T.int64()") == 1
