"""The forms in which a graph function may be written, and macros in it."""

from __future__ import annotations

from typing import Any

import pytest

import tensorir
from tensorir import (
    DiagnosticError,
    I,
    IRModule,
    R,
    T,
    assert_structural_equal,
    parse,
    relax,
    te,
)
from tensorir.relax import Function, If, MatchCast

# ------------ The forms in which a graph function may be written; each pair of texts means the same

KERNEL = """
    @T.prim_func
    def relu(X: T.Buffer((1, 4), "float32"), Y: T.Buffer((1, 4), "float32")):
        for i, j in T.grid(1, 4):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))
"""
ROW = 'R.Tensor((1, 4), "float32")'


def module(body: str, signature: str = f"x: {ROW}", more: str = "") -> IRModule:
    """Return the module of `relu` and a graph function `main`; `cls` is the module."""
    lines = "\n".join(f"        {line}" for line in body.strip().split("\n"))
    head = f"@I.ir_module\nclass Module:\n{KERNEL}{more}\n    @R.function(pure=False)\n"
    read = parse(f"{head}    def main({signature}):\n        cls = Module\n{lines}")
    assert isinstance(read, IRModule)
    return read


def main_of(mod: IRModule) -> Function:
    func = mod["main"]
    assert isinstance(func, Function)
    return func


def function(text: str) -> Function:
    func = parse(text)
    assert isinstance(func, Function)
    return func


CALL = f"y = R.call_tir(cls.relu, (x,), out_sinfo={ROW})\nreturn y"


def test_the_oldest_module() -> None:
    old = parse("""
@tvm.script.ir_module
class Mixture:
    @R.function(pure=False)
    def main(x: Tensor((1, 4), "float32")):
        with R.dataflow():
            lv0 = R.call_tir(relu, (x,), (1, 4), dtype="float32")
            out = R.call_tir("env.swish", (lv0,), (1, 4), dtype="float32")
            R.output(out)
        return out

    @T.prim_func
    def relu(x: T.handle, y: T.handle) -> None:
        T.func_attr({"global_symbol": "relu"})
        X = T.match_buffer(x, [1, 4])
        Y = T.match_buffer(y, [1, 4])
        for i, j in T.grid(1, 4):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))
""")
    new = module(f"""
with R.dataflow():
    lv0 = R.call_tir(cls.relu, (x,), out_sinfo={ROW})
    out = R.call_dps_packed("env.swish", (lv0,), out_sinfo={ROW})
    R.output(out)
return out
""")
    assert_structural_equal(old, new)


def test_sizes_in_quotes_are_variables_of_the_function() -> None:
    func = function("""
@R.function
def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n * 2", "m")), s: R.Shape(["m"])
         ) -> R.Tensor(ndim=2, dtype="float32"):
    n = T.int64()
    k = T.int64()
    z = R.match_cast(y, R.Tensor((k, k), "float32"))
    v = R.call_dps_packed("f", (x, z), out_sinfo=R.Tensor((n, k + 1), "float32"))
    m = T.int64()
    w = R.match_cast(v, R.Tensor((n, m), "float32"))
    return w
""")
    x, y, s = (param.struct_info for param in func.params)
    assert isinstance(x, relax.TensorStructInfo)
    assert isinstance(y, relax.TensorStructInfo)
    assert isinstance(s, relax.ShapeStructInfo)
    assert x.shape is not None
    assert y.shape is not None
    assert s.values is not None
    n, m = x.shape[0], y.shape[1]
    assert_structural_equal(y.shape[0], n * 2)
    assert s.values[0] is m
    cast, call, _ = func.body.bindings
    assert isinstance(cast, MatchCast)
    assert isinstance(cast.struct_info, relax.TensorStructInfo)
    assert cast.struct_info.shape is not None
    k = cast.struct_info.shape[0]
    result = call.var.struct_info
    assert isinstance(result, relax.TensorStructInfo)
    assert result.shape is not None
    assert result.shape[0] is n
    assert_structural_equal(result.shape[1], k + 1)


def test_type_variables_of_newer_releases_are_sizes_of_each_function() -> None:
    mod = parse("""
n = TypeVar("n")

@I.ir_module
class Module:
    @R.function
    def f(x: R.Tensor((n, 4), "float32")) -> R.Tensor((n, 4), "float32"):
        return x

    @R.function
    def main(x: R.Tensor((n, 4), "float32"), k: T.int64):
        cls = Module
        y: R.Tensor((n, 4), "float32") = cls.f(x)
        return y
""")
    older = parse("""
@I.ir_module
class Module:
    @R.function
    def f(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        return x

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), k: R.Prim("int64")):
        n = T.int64()
        y: R.Tensor((n, 4), "float32") = f(x)
        return y
""")
    assert_structural_equal(mod, older)


def test_functions_may_call_each_other_and_themselves() -> None:
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def even(c: R.Tensor((), "bool"), x: R.Tensor((4,))) -> R.Tensor((4,)):
        if c:
            y = odd(c, x)
        else:
            y = x
        return y

    @R.function
    def odd(c: R.Tensor((), "bool"), x: R.Tensor((4,))) -> R.Tensor((4,)):
        y = even(c, x)
        return y
""")
    assert isinstance(mod, IRModule)
    assert sorted(mod.functions) == ["even", "odd"]


def test_an_if_has_the_value_that_both_suites_bind_last() -> None:
    func = main_of(
        module(
            f"""
if c:
    a = R.call_tir(cls.relu, (x,), out_sinfo={ROW})
    y = a
else:
    y = R.call_packed("f", x, sinfo_args={ROW})
return y
""",
            f'x: {ROW}, c: R.Tensor((), "bool")',
        )
    )
    (binding,) = func.body.bindings
    value = binding.value
    assert isinstance(value, If)
    for branch in (value.true_branch, value.false_branch):
        (inner,) = branch.bindings
        assert branch.body is inner.var
    assert str(binding.var.struct_info) == 'R.Tensor((1, 4), dtype="float32")'


# ------------------------------------------------------------------------------- decorated functions


def test_a_function_of_another_place_is_put_in_the_class() -> None:
    @T.prim_func
    def relu(X: T.Buffer((1, 4), "float32"), Y: T.Buffer((1, 4), "float32")):
        for i, j in T.grid(1, 4):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    first = relu

    @I.ir_module
    class Net:
        relu = first

        @R.function(pure=False)
        def main(x: R.Tensor((1, 4), "float32")):
            return R.call_tir(relu, (x,), out_sinfo=R.Tensor((1, 4), "float32"))

    assert_structural_equal(Net, module(CALL))


def test_formulas_become_functions_of_the_module() -> None:
    def double(a: te.Tensor, times: int = 2) -> te.Tensor:
        return te.compute(a.shape, lambda i, j: a[i, j] * float(times), name="C")

    @I.ir_module
    class Net:
        @R.function
        def main(x: R.Tensor((1, "n"), "float32")):
            with R.dataflow():
                a = R.emit_te(double, x)
                b = R.emit_te(double, a)
                c = R.emit_te(double, b, times=3)
                R.output(c)
            return c

    assert sorted(Net.functions) == ["double", "double1", "main"]
    called = [b.value.args[0].name for b in main_of(Net).body.bindings]
    assert called == ["double", "double", "double1"]
    assert_structural_equal(parse(Net.script()), Net)


def test_the_namespace_completes_its_names() -> None:
    assert "R" in tensorir.__all__
    assert {"call_tir", "Tensor", "dataflow", "memory", "builtin"} <= set(dir(R))
    assert {"alloc_storage", "copy_into"} <= set(dir(R.memory))
    assert "Call" in R.call_tir.__doc__


# Macros of graph functions: bindings that are read in place of a call, and what they lead to

HEAD = """@I.ir_module
class Module:
    @T.prim_func
    def double(X: T.Buffer((4,), "float32"), Y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("double"):
                vi = T.axis.spatial(4, i)
                Y[vi] = X[vi] + X[vi]

"""


@R.macro
def twice(f, x, out=R.Tensor((4,), "float32")):  # noqa: B008
    a = R.call_tir(f, (x,), out_sinfo=out)
    return R.call_tir(f, (a,), out_sinfo=out)


@R.macro(hygienic=False)
def log_what_is_called_x():
    R.call_packed("log", x)  # noqa: F821


def read(text: str) -> Any:
    return parse(text, {"twice": twice, "log_what_is_called_x": log_what_is_called_x})


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
        "the macro nothing returns no value; use its call as a statement",
    ),
    "no end": ("y = endless()", "y = endless()", "the recursion of macro endless does not end"),
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
