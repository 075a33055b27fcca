"""Errors in graph functions point at the place and say what to write instead."""

from __future__ import annotations

import pytest

from tensorir import DiagnosticError, IRModule, R, T, WellFormedError, parse, verify_well_formed

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
