"""Errors for invalid text point at the place and say what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorir import DiagnosticError, R, T, parse
from tensorir.function import IRModule, PrimFunc
from tests.tensorir.script.test_spellings import PROGRAM, body
from tests.text_cases import TextCase, each_case

# ------------------------- Errors for invalid text point at the place and say what to write instead

# Texts that are too long or too odd for `refused.txt`.
LONG = {
    "x = " + "9" * 5000: ("Exceeds the limit", "9" * 5000),
    "x = n\0": ("an unexpected character", "\0"),
    "x = " + "-" * 5000 + "n": ("too many signs in a row", "-"),
    "x = " + "(" * 1100 + "n" + ")" * 1100: ("brackets are nested too deeply", "("),
    "x = " + "+".join(["n"] * 5000): ("nested too deeply", "n+n+n"),
    "if n < 3:\n\tA[0, 0] = 1.0\n    A[0, 1] = 1.0": ("tabs and spaces are mixed", None),
}


@pytest.mark.parametrize("suite", LONG, ids=lambda suite: repr(suite)[:60])
def test_long_and_odd_texts(suite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorir.recursion._CALLS", 3000)
    message, underlined = LONG[suite]
    error = refusal(body(suite))
    assert message in error.message
    assert f"demo.py:{error.line}:{error.column}" in str(error)
    if underlined is not None:
        assert error.source_line[error.column - 1 :].startswith(underlined)


def refusal(text: str) -> DiagnosticError:
    """Return the error of a text, which shows the line that it is about."""
    with pytest.raises(DiagnosticError) as caught:
        parse(text, filename="demo.py")
    error = caught.value
    assert error.source_line == text.split("\n")[error.line - 1]
    return error


@each_case(Path(__file__).with_name("refused.txt"))
def test_what_is_wrong_is_shown(case: TextCase, pytestconfig: pytest.Config) -> None:
    """The call is where the text belongs, and the part of its line that is underlined."""
    kind, _, underlined = case.call.partition(" ")
    texts = {
        "text": case.before,
        "script": body(case.before),
        "graph": graph_text(case.before),
        "signature": graph_text("return x", case.before),
    }
    error = refusal(texts[kind])
    assert marked(error).startswith(underlined)
    case.check(error.message, pytestconfig)


def test_another_name_for_a_buffer_is_no_second_value() -> None:
    parse(body("C = A\nC = A\nC[0, n] = 1.0"))


def test_a_size_has_its_own_name_in_buffers() -> None:
    text = "@T.prim_func\ndef f(a: T.handle):\n    n = T.int32()\n    m = n\n"
    with pytest.raises(DiagnosticError, match="before any assignment"):
        parse(text + "    A = T.match_buffer(a, (m,))\n    A[0] = T.float32(1)\n")


def test_deep_suites_end_in_a_sentence() -> None:
    lines = ["@T.prim_func", "def f(n: T.int32):"]
    lines += [" " * (k + 1) + "if n < 3:" for k in range(1100)]
    with pytest.raises(DiagnosticError, match="blocks of statements are nested too deeply"):
        parse("\n".join([*lines, " " * 1101 + "T.evaluate(n)"]))


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


def test_of_a_size_in_quotes_the_size_is_shown() -> None:
    with pytest.raises(DiagnosticError, match="expected an expression") as caught:
        parse('@T.prim_func\ndef f(A: T.Buffer(("n +",))):\n    pass\n')
    assert caught.value.source_line == "n +"


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


def graph_text(body: str, params: str = PARAMS) -> str:
    """Return the text of a module with a graph function of this body."""
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    return f"{HEAD}    def main({params}):\n        cls = Module\n{lines}"


def marked(error: DiagnosticError) -> str:
    """Return the part of the line that the carets stand under."""
    return error.source_line[error.column - 1 : error.end_column - 1]


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
