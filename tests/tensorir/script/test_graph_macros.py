"""Macros of graph functions: bindings that are read in place of a call, and what they lead to."""

from __future__ import annotations

from typing import Any

import pytest

from tensorir import DiagnosticError, I, R, T, assert_structural_equal, parse

HEAD = """@I.ir_module
class Module:
    @T.prim_func
    def double(X: T.Buffer((4,), "float32"), Y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("double"):
                vi = T.axis.spatial(4, i)
                Y[vi] = X[vi] + X[vi]

"""
EXPANDED = (
    HEAD
    + """
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((4,), "float32"))
            y = R.call_tir(cls.double, (a,), out_sinfo=R.Tensor((4,), "float32"))
            R.output(y)
        return y
"""
)


@R.macro
def twice(f, x, out=R.Tensor((4,), "float32")):  # noqa: B008
    a = R.call_tir(f, (x,), out_sinfo=out)
    return R.call_tir(f, (a,), out_sinfo=out)


@R.macro(hygienic=False)
def log_what_is_called_x():
    R.call_packed("log", x)  # noqa: F821


def read(text: str) -> Any:
    return parse(text, {"twice": twice, "log_what_is_called_x": log_what_is_called_x})


def test_a_macro_is_read_in_place_and_gives_a_value() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def double(X: T.Buffer((4,), "float32"), Y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("double"):
                    vi = T.axis.spatial(4, i)
                    Y[vi] = X[vi] + X[vi]

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Module
            with R.dataflow():
                y = twice(cls.double, x)
                R.output(y)
            return y

    assert_structural_equal(Module, parse(EXPANDED))


def test_a_macro_in_text() -> None:
    text = (
        HEAD
        + """
    @R.macro
    def twice(f, x, out):
        a = R.call_tir(f, (x,), out_sinfo=out)
        return R.call_tir(f, (a,), out_sinfo=out)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Module
        with R.dataflow():
            y = twice(cls.double, x, out=R.Tensor((4,), "float32"))
            R.output(y)
        return y
"""
    )
    assert_structural_equal(parse(text), parse(EXPANDED))


def test_a_macro_may_be_returned_and_may_return_several_values() -> None:
    func = parse("""
@R.macro
def pair(x):
    return (x, x)

@R.function
def main(x: R.Tensor((4,), "float32")):
    a, b = pair(x)
    return pair(b)
""")
    assert str(func).endswith(
        '    a: R.Tensor((4,), dtype="float32") = x\n    b: R.Tensor((4,), dtype="float32") = x\n    return (b, b)'
    )


def test_an_unhygienic_macro_sees_the_names_of_its_caller() -> None:
    body = '@R.function\ndef main(x: R.Tensor((4,), "float32")):\n    {}\n    return x\n'
    found = read(body.format("log_what_is_called_x()"))
    assert_structural_equal(found, parse(body.format('R.call_packed("log", x)')))


REFUSED = {
    "a call that does not fit, in a macro of another text": (
        'y = twice(cls.double, x, R.Tensor((5,), "float32"))',
        'y = twice(cls.double, x, R.Tensor((5,), "float32"))',
        'parameter Y of "double" is R.Tensor((4,)',
    ),
    "the value of a macro without a name": (
        'y = R.call_packed("f", twice(cls.double, x))',
        'R.call_packed("f", twice(cls.double, x))',
        "a call of macro twice cannot be an argument; give it a name first",
    ),
    "an argument that is missing": (
        "y = twice(cls.double)",
        "twice(cls.double)",
        "macro twice(): missing a required argument: 'x'",
    ),
    "no value": (
        "y = nothing()",
        "nothing()",
        "the macro nothing returns no value; let its call stand alone",
    ),
    "no end": ("y = endless()", "y = endless()", "macro endless calls itself without end"),
}
MACROS = """
    @R.macro
    def nothing():
        R.call_packed("f")

    @R.macro(hygienic=False)
    def endless():
        return endless()

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Module
        {}
        return y
"""


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_said_where_the_macro_is_called(name: str) -> None:
    body, place, message = REFUSED[name]
    with pytest.raises(DiagnosticError) as caught:
        read(HEAD + MACROS.format(body))
    error = caught.value
    assert message in error.message
    assert error.source_line[error.column - 1 : error.end_column - 1] == place
