"""Each result of a call that moves elements has a function of its own."""

from __future__ import annotations

import numpy as np
from graph_modules import is_same, module_of

import codegen
import tensorir
from tensorir import te, verify_well_formed
from tensorir.interp.graphs import interpret_graph
from tensorir.transform import (
    CanonicalizeBindings,
    DeadCodeElimination,
    FuseOps,
    FuseTIR,
    LegalizeOps,
    SeparateOutputs,
    Sequential,
)

SPLIT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((6, 2), "float32")):
        with R.dataflow():
            t = R.split(x, 3)
            a = R.exp(t[0])
            b = R.nn.relu(t[2])
            y = R.add(a, b)
            R.output(y)
        return y
"""


def test_parts_of_a_tensor_are_fused_with_what_uses_them():
    mod = LegalizeOps()(tensorir.parse(SPLIT))
    steps = [SeparateOutputs(), CanonicalizeBindings(), DeadCodeElimination()]
    after = Sequential([*steps, FuseOps(), FuseTIR(), DeadCodeElimination()])(mod)
    assert sorted(after) == ["fused_split_split_exp_relu_add", "main"]
    func = after["fused_split_split_exp_relu_add"]
    assert [str(name) for name in func.attrs["fused_operators"]] == [
        "split", "split", "exp", "relu", "add",
    ]  # fmt: skip
    assert verify_well_formed(after)
    x = np.arange(12, dtype="float32").reshape(6, 2)
    np.testing.assert_array_equal(
        interpret_graph(mod, "main", x), interpret_graph(after, "main", x)
    )


def test_parts_that_nothing_needs_are_not_computed():
    mod = tensorir.parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((6, 2), "float32")):
        with R.dataflow():
            t = R.split(x, 3)
            y = t[1]
            R.output(y)
        return y
""")
    executable = codegen.vm_build(mod, "llvm", default_schedules=False)
    assert [*executable.mod.prim_funcs()] == ["split_1"]


def test_results_that_are_computed_together_stay_so():
    mod = module_of("""
    @R.function
    def main(x: F4):
        cls = Module
        t = R.call_tir(cls.both, (x,), out_sinfo=[F4, F4])
        return t
    """)
    assert is_same(SeparateOutputs()(mod), mod)


def test_symbolic_sizes_go_along():
    n, k = te.var("n", "int64"), te.var("k", "int64")
    x = te.placeholder((n,), name="x")
    parts = [te.compute((n,), lambda i: x[i] * 2.0), te.compute((k,), lambda i: x[i % n])]
    func = te.create_prim_func([x, *parts, k], "int64").without_attr("global_symbol")
    mod = tensorir.parse(
        """
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def parts(X: T.Buffer((4,), "float32")):
            T.evaluate(0)

        @R.function
        def main(x: R.Tensor(("n",), "float32"), s: R.Shape(["k"])):
            n, k = T.int64(), T.int64()
            cls = Module
            t = R.call_tir(cls.parts, (x,), [R.Tensor((n,), "float32"), R.Tensor((k,), "float32")], tir_vars=R.shape([k]))
            return t
    """,
        check_well_formed=False,
    )
    mod["parts"] = func
    after = SeparateOutputs()(mod)
    assert {"parts_0", "parts_1"} <= set(after)
    assert len(after["parts_0"].params) == 2
    assert len(after["parts_1"].params) == 3
    assert verify_well_formed(after)
    args = np.arange(3, dtype="float32"), (5,)
    old, new = (interpret_graph(m, "main", *args) for m in (mod, after))
    for a, b in zip(old, new, strict=True):
        np.testing.assert_array_equal(a, b)
