"""What depends on weights only is a function of its own."""

from __future__ import annotations

import numpy as np
import pytest
from graph_modules import assert_graph, is_same, module_of

from tensorir import IRModule, IRValueError, parse, verify_well_formed
from tensorir.interp.graphs import interpret_graph
from tensorir.transform import LiftTransformParams, SplitLayoutRewritePreproc

X, W, V = (np.arange(k, k + 4, dtype="float32") for k in range(3))


def lifted(graph: str) -> IRModule:
    mod = module_of(graph)
    after = LiftTransformParams()(mod)
    assert verify_well_formed(after)
    return after


def test_what_weights_decide_is_computed_once() -> None:
    mod = lifted("""
        @R.function
        def main(x: F4, w: F4, v: F4):
            R.func_attr({"num_input": 1})
            cls = Module
            with R.dataflow():
                a = R.call_tir(cls.double, (w,), out_sinfo=F4)
                b = R.call_tir(cls.add, (x, v), out_sinfo=F4)
                pair = R.call_tir(cls.both, (a,), out_sinfo=[F4, F4])
                c = pair[1]
                d = R.call_tir(cls.add, (b, c), out_sinfo=F4)
                R.output(d)
            return d
    """)
    assert_graph(
        mod,
        """
        @R.function
        def main(x: F4, v: F4, c: F4):
            R.func_attr({"num_input": 1})
            cls = Module
            with R.dataflow():
                b = R.call_tir(cls.add, (x, v), out_sinfo=F4)
                d = R.call_tir(cls.add, (b, c), out_sinfo=F4)
                R.output(d)
            return d
        """,
    )
    assert_graph(
        mod,
        """
        @R.function
        def main_transform_params(params: R.Tuple(F4, F4)):
            cls = Module
            with R.dataflow():
                w: F4 = params[0]
                v: F4 = params[1]
                a = R.call_tir(cls.double, (w,), out_sinfo=F4)
                pair = R.call_tir(cls.both, (a,), out_sinfo=[F4, F4])
                c: F4 = pair[1]
                gv = (v, c)
                R.output(gv)
            return gv
        """,
        "main_transform_params",
    )
    weights = interpret_graph(mod, "main_transform_params", (W, V))
    assert interpret_graph(mod, "main", X, *weights).tolist() == (X + V + 2 * W - 1).tolist()


def test_effects_branches_and_checks_stay_with_what_depends_on_them() -> None:
    mod = lifted("""
        @R.function
        def main(x: F4, w: F4, c: R.Tensor((), "bool")):
            R.func_attr({"num_input": 1})
            cls = Module
            seen: F4 = R.call_packed("log", w, sinfo_args=(F4,))
            known = R.match_cast(w, F4)
            if c:
                some = R.call_tir(cls.double, (w,), out_sinfo=F4)
            else:
                some = w
            a = R.call_tir(cls.add, (seen, known), out_sinfo=F4)
            b = R.call_tir(cls.add, (a, some), out_sinfo=F4)
            return b
    """)
    assert [param.name for param in mod["main"].params] == ["x", "w", "c"]
    assert len(mod["main"].body.bindings) == 5
    assert len(mod["main_transform_params"].ret_struct_info) == 2


def test_a_weight_that_says_what_a_size_is_stays() -> None:
    mod = lifted("""
        @R.function
        def main(x: F4, w: R.Tensor(("n",), "float32")):
            R.func_attr({"num_input": 1})
            n = T.int64()
            cls = Module
            a = R.call_tir(cls.double_any, (w,), out_sinfo=R.Tensor((n,), "float32"))
            b = R.call_tir(cls.double_any, (a,), out_sinfo=R.Tensor((n,), "float32"))
            c = R.call_tir(cls.add_scalar, (x,), out_sinfo=F4, tir_vars=R.shape([n]))
            return (b, c)
    """)
    assert [param.name for param in mod["main"].params] == ["x", "b"]
    mod = lifted("""
        @R.function
        def main(x: F4, w: R.Tensor(("n",), "float32"), v: F4):
            R.func_attr({"num_input": 1})
            n = T.int64()
            cls = Module
            a = R.call_tir(cls.add_scalar, (v,), out_sinfo=F4, tir_vars=R.shape([n]))
            c = R.call_tir(cls.add_scalar, (x,), out_sinfo=F4, tir_vars=R.shape([n]))
            return (a, c)
    """)
    assert [param.name for param in mod["main"].params] == ["x", "w", "a"]
    weights = interpret_graph(mod, "main_transform_params", (W, V))
    a, c = interpret_graph(mod, "main", X, *weights)
    assert (a.tolist(), c.tolist()) == ((V + 4).tolist(), (X + 4).tolist())


def test_what_depends_on_the_size_of_an_input_stays() -> None:
    mod = lifted("""
        @R.function
        def main(x: R.Tensor(("n",), "float32"), w: R.Tensor(("n + 1",), "float32"), v: F4):
            R.func_attr({"num_input": 1})
            n = T.int64()
            cls = Module
            a = R.call_tir(cls.double_any, (w,), out_sinfo=R.Tensor((n + 1,), "float32"))
            b = R.call_tir(cls.add_scalar, (v,), out_sinfo=F4, tir_vars=R.shape([n]))
            return (x, a, b)
    """)
    assert [param.name for param in mod["main"].params] == ["x", "w", "v"]
    info = mod["main_transform_params"].params[0].struct_info
    assert str(info.elements[0]) == 'R.Tensor(dtype="float32", ndim=1)'


def test_layouts_that_a_schedule_wants_are_rewritten_once() -> None:
    mod = parse("""
        @I.ir_module
        class Module:
            @T.prim_func
            def dense(X: T.Buffer((2, 4), "float32"), W: T.Buffer((2, 4), "float32"), Y: T.Buffer((2, 4), "float32")):
                P = T.alloc_buffer((4, 2))
                for i, j in T.grid(2, 4):
                    with T.block("pack"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                        P[vj, vi] = W[vi, vj]
                for i, j in T.grid(2, 4):
                    with T.block("use"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        Y[vi, vj] = X[vi, vj] * P[vj, vi]

            @R.function
            def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((2, 4), "float32")):
                R.func_attr({"num_input": 1})
                cls = Module
                y = R.call_tir(cls.dense, (x, w), out_sinfo=R.Tensor((2, 4), "float32"))
                return y
    """)
    mod = LiftTransformParams()(SplitLayoutRewritePreproc()(mod))
    x = np.arange(8, dtype="float32").reshape(2, 4)
    w = x[::-1].copy()
    (packed,) = interpret_graph(mod, "main_transform_params", (w,))
    assert packed.shape == (4, 2)
    assert interpret_graph(mod, "main", x, packed).tolist() == (x * w).tolist()


def test_functions_without_weights_or_with_callers_are_kept() -> None:
    mod = module_of("""
        @R.function
        def plain(x: F4):
            return x

        @R.function
        def inputs(x: F4):
            R.func_attr({"num_input": 1})
            return x

        @R.function
        def inner(x: F4, w: F4):
            R.func_attr({"num_input": 1})
            cls = Module
            a = R.call_tir(cls.double, (w,), out_sinfo=F4)
            return a

        @R.function
        def outer(x: F4) -> F4:
            cls = Module
            y = cls.inner(x, x)
            return y
    """)
    assert is_same(LiftTransformParams()(mod), mod)


def test_weights_are_lifted_once() -> None:
    mod = lifted("""
        @R.function
        def main(x: F4, w: F4):
            R.func_attr({"num_input": 1})
            return (x, w)
    """)
    with pytest.raises(IRValueError, match="has a function main_transform_params already"):
        LiftTransformParams()(mod)


@pytest.mark.parametrize("count", ["3", "-1", '"all"'])
def test_a_number_of_inputs_that_cannot_be_is_refused(count: str) -> None:
    mod = parse(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")):
        R.func_attr({{"num_input": {count}}})
        return x
""")
    with pytest.raises(
        IRValueError, match="num_input must be the number of parameters before the weights"
    ):
        LiftTransformParams()(mod)
