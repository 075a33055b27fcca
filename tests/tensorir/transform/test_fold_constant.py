"""What depends on constants only is computed."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from graph_modules import is_same, module_of

from tensorir import assert_structural_equal
from tensorir.interp.graphs import interpret_graph
from tensorir.transform import BindParams, FoldConstant
from tensorir.transform.kernel_runner import interpreted

W = np.arange(4, dtype="float32")


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    """The interpreter runs functions, whether a package that compiles them is installed or not."""
    monkeypatch.setattr("tensorir.transform.kernel_runner._runner", lambda: interpreted)


def folded(graph):
    before = BindParams("main", {"w": W})(module_of(graph))
    kept = before.clone()
    after = FoldConstant()(before)
    assert is_same(before, kept)
    return after


def assert_folds_to(graph, expected, array):
    want = BindParams("main", {"w": np.asarray(array, "float32")})(module_of(expected))
    assert_structural_equal(folded(graph)["main"], want["main"])


def test_a_chain_of_calls_on_constants_is_one_constant():
    assert_folds_to(
        """
        @R.function
        def main(x: F4, w: F4):
            cls = Module
            with R.dataflow():
                a = R.call_tir(cls.double, (w,), out_sinfo=F4)
                b = R.call_tir(cls.add, (a, w), out_sinfo=F4)
                gv = R.call_tir(cls.add, (x, b), out_sinfo=F4)
                R.output(gv)
            return gv
        """,
        """
        @R.function
        def main(x: F4, w: F4):
            cls = Module
            with R.dataflow():
                gv = R.call_tir(cls.add, (x, w), out_sinfo=F4)
                R.output(gv)
            return gv
        """,
        [0, 3, 6, 9],
    )


def test_several_outputs_fields_and_aliases_are_folded():
    assert_folds_to(
        """
        @R.function
        def main(x: F4, w: F4):
            cls = Module
            pair = R.call_tir(cls.both, (w,), out_sinfo=[F4, F4])
            same = pair
            low = same[1]
            y = R.call_tir(cls.add, (x, low), out_sinfo=F4)
            return y
        """,
        """
        @R.function
        def main(x: F4, w: F4):
            cls = Module
            y = R.call_tir(cls.add, (x, w), out_sinfo=F4)
            return y
        """,
        [-1, 0, 1, 2],
    )


def test_integers_that_are_known_are_passed():
    assert_folds_to(
        """
        @R.function
        def main(w: F4):
            cls = Module
            y = R.call_tir(cls.add_scalar, (w,), out_sinfo=F4, tir_vars=R.shape([2]))
            return y
        """,
        """
        @R.function
        def main(w: F4):
            return w
        """,
        [2, 3, 4, 5],
    )


def test_an_in_place_call_leaves_its_constant_as_it_is():
    before = W.copy()
    mod = folded("""
        @R.function
        def main(w: F4):
            cls = Module
            y = R.call_tir_inplace(cls.increment, (w,), inplace_indices=[0], out_sinfo=F4)
            return (w, y)
    """)
    w, y = interpret_graph(mod, "main")
    assert "call_tir" not in mod["main"].script()
    assert W.tolist() == w.tolist() == before.tolist()
    assert y.tolist() == (before + 1).tolist()


@pytest.mark.parametrize(
    "call",
    [
        'R.call_dps_packed("f", (w,), out_sinfo=F4)',
        'R.call_pure_packed("f", w, sinfo_args=(F4,))',
        "R.call_tir(cls.add, (w, x), out_sinfo=F4)",
    ],
)
def test_library_calls_and_what_depends_on_inputs_stay(call):
    mod = BindParams("main", {"w": W})(
        module_of(f"""
        @R.function
        def main(x: F4, w: F4):
            cls = Module
            y: F4 = {call}
            return y
    """)
    )
    assert is_same(FoldConstant()(mod), mod)


CONSTANT = """
        @R.function
        def main():
            cls = Module
            y = R.call_tir(cls.ones, (), out_sinfo=R.Tensor((64, 64), "float32"))
            return y

        @T.prim_func(private=True)
        def ones(A: T.Buffer((64, 64), "float32")):
            for i, j in T.grid(64, 64):
                with T.block("ones"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[vi, vj] = T.float32(1)
"""


def test_a_program_does_not_grow_beyond_a_limit():
    mod = module_of(CONSTANT)
    assert is_same(FoldConstant(small=64 * 64 * 4 - 1)(mod), mod)
    assert "call_tir" not in FoldConstant(small=64 * 64 * 4)(mod)["main"].script()


@pytest.mark.parametrize("around", ["for k in range(1000):", "while A[0, 0] < T.float32(0):"])
def test_a_function_that_may_run_too_long_for_the_interpreter_stays(around):
    nest = textwrap.dedent(CONSTANT[CONSTANT.index("            for i, j") :])
    inner = textwrap.indent(nest, " " * 16)
    mod = module_of(
        CONSTANT.replace(textwrap.indent(nest, " " * 12), f"            {around}\n{inner}")
    )
    assert is_same(FoldConstant()(mod), mod)


def test_a_function_that_the_interpreter_refuses_stays():
    mod = module_of("""
        @R.function
        def main():
            cls = Module
            y = R.call_tir(cls.divide, (), out_sinfo=R.Tensor((1,), "int32"))
            return y

        @T.prim_func(private=True)
        def divide(A: T.Buffer((1,), "int32")):
            with T.block("divide"):
                A[0] = A[0] // (A[0] - A[0])
    """)
    assert is_same(FoldConstant()(mod), mod)
