"""Reshapes become views (RewriteDataflowReshape); equal values are computed once."""

from __future__ import annotations

import numpy as np
import pytest
from graph_modules import assert_graph, module_of

import tensorir
from tensorir import IRTypeError, IRValueError, relax, verify_well_formed
from tensorir.interp.graphs import interpret_graph
from tensorir.relax.calls import view
from tensorir.te.index_dtype import with_index_dtype
from tensorir.transform import (
    CanonicalizeBindings,
    DeadCodeElimination,
    EliminateCommonSubexpr,
    FoldConstant,
    RewriteDataflowReshape,
    SinkViews,
)

RESHAPES = """
    @T.prim_func(private=True)
    def reshape(A: T.Buffer((2, 6), "float32"), C: T.Buffer((3, 4), "float32")):
        for i, j in T.grid(3, 4):
            with T.block("reshape"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[(vi * 4 + vj) // 6, (vi * 4 + vj) % 6]

    @T.prim_func(private=True)
    def flatten(A: T.Buffer((3, 4), "float32"), C: T.Buffer((12,), "float32")):
        for i in range(12):
            with T.block("flatten"):
                vi = T.axis.spatial(12, i)
                C[vi] = A[vi // 4, vi % 4]

    @T.prim_func(private=True)
    def back(A: T.Buffer((12,), "float32"), C: T.Buffer((2, 6), "float32")):
        for i, j in T.grid(2, 6):
            with T.block("back"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi * 6 + vj]

    @T.prim_func(private=True)
    def transpose(A: T.Buffer((2, 6), "float32"), C: T.Buffer((6, 2), "float32")):
        for i, j in T.grid(6, 2):
            with T.block("transpose"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vj, vi]
"""


def reshapes(graph: str):
    """Return a module of these functions; `S26` stands for `R.Tensor((2, 6), "float32")`."""
    for shape in ("(2, 6)", "(3, 4)", "(6, 2)", "(12,)"):
        graph = graph.replace(
            "S" + "".join(c for c in shape if c.isdigit()), f'R.Tensor({shape}, "float32")'
        )
    return tensorir.parse(f"@I.ir_module\nclass Module:\n{RESHAPES}\n{graph}")


BEFORE = """
    @R.function
    def main(x: S26):
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.reshape, (x,), S34)
            b = R.call_tir(cls.flatten, (a,), S12)
            c = R.call_tir(cls.back, (b,), S26)
            d = R.call_tir(cls.transpose, (c,), S62)
            R.output(b, d)
        return (b, d)
"""
AFTER = """
    @R.function
    def main(x: S26):
        cls = Module
        with R.dataflow():
            a = R.memory.view(x, R.shape([3, 4]))
            b = R.memory.view(x, R.shape([12]))
            d = R.call_tir(cls.transpose, (x,), S62)
            R.output(b, d)
        return (b, d)
"""


def test_reshapes_become_views_of_the_tensor_behind_them():
    before = reshapes(BEFORE)
    after = CanonicalizeBindings()(RewriteDataflowReshape()(before))
    tensorir.assert_structural_equal(after["main"], reshapes(AFTER)["main"])
    x = np.arange(12, dtype="float32").reshape(2, 6)
    for old, new in zip(
        interpret_graph(before, "main", x), interpret_graph(after, "main", x), strict=True
    ):
        np.testing.assert_array_equal(old, new)


def test_a_view_is_printed_and_read():
    mod = reshapes(AFTER)
    text = mod.script()
    assert "R.memory.view(x, R.shape([12]))" in text
    tensorir.assert_structural_equal(tensorir.parse(text), mod)


def test_a_view_of_a_variable_of_another_block_stays_behind_what_that_gives_out():
    mod = reshapes("""
    @R.function
    def main(x: S26):
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.transpose, (x,), S62)
            b = R.memory.view(a, R.shape([3, 4]))
            R.output(b)
        c = R.call_tir(cls.flatten, (b,), S12)
        return c
    """)
    after = RewriteDataflowReshape()(mod)
    assert verify_well_formed(after)
    assert "R.memory.view(b, R.shape([12]))" in after.script()


def test_views_of_constants_are_constants_that_share_data():
    data = np.arange(6, dtype="float32")
    mod = module_of("""
    @R.function
    def main():
        y = R.memory.view(R.const([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "float32"), R.shape([2, 3]))
        return y
    """)
    folded = FoldConstant()(mod)["main"].body.body
    assert folded.struct_info.static_shape == (2, 3)
    np.testing.assert_array_equal(folded.data, data.reshape(2, 3))


def test_what_cannot_be_viewed():
    x = relax.Var("x", relax.TensorStructInfo((2, 3), "float32"))
    assert view(x, [6]).struct_info.static_shape == (6,)
    with pytest.raises(IRValueError, match=r"another number than R.shape\(\[4\]\)"):
        view(x, [4])
    with pytest.raises(IRTypeError, match="whose shape and dtype are known, got"):
        view(relax.Var("x", relax.TensorStructInfo(None, "float32", 2)), [4])
    with pytest.raises(IRTypeError, match="match_cast states them"):
        view(relax.Tuple([x]), [6])


def test_equal_values_are_computed_once():
    before = module_of("""
    @R.function
    def main(x: F4, flag: R.Tensor((), "bool")):
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.double, (x,), out_sinfo=F4)
            b = R.call_tir(cls.double, (x,), out_sinfo=F4)
            c = R.call_tir(cls.add, (a, b), out_sinfo=F4)
            d = R.call_tir(cls.add, (b, a), out_sinfo=F4)
            e = R.call_tir(cls.add, (c, d), out_sinfo=F4)
            R.output(b, e)
        f = R.call_tir(cls.double, (x,), out_sinfo=F4)
        if flag:
            g = R.call_tir(cls.double, (f,), out_sinfo=F4)
            h = R.call_tir(cls.double, (x,), out_sinfo=F4)
            y = R.call_tir(cls.add, (g, h), out_sinfo=F4)
        else:
            y = R.call_tir(cls.double, (f,), out_sinfo=F4)
        z = R.call_tir(cls.double, (f,), out_sinfo=F4)
        return (e, y, z)
    """)
    after = CanonicalizeBindings()(EliminateCommonSubexpr()(before))
    assert_graph(
        after,
        """
        @R.function
        def main(x: F4, flag: R.Tensor((), "bool")):
            cls = Module
            with R.dataflow():
                b = R.call_tir(cls.double, (x,), out_sinfo=F4)
                c = R.call_tir(cls.add, (b, b), out_sinfo=F4)
                e = R.call_tir(cls.add, (c, c), out_sinfo=F4)
                R.output(b, e)
            if flag:
                g = R.call_tir(cls.double, (b,), out_sinfo=F4)
                y = R.call_tir(cls.add, (g, b), out_sinfo=F4)
            else:
                y = R.call_tir(cls.double, (b,), out_sinfo=F4)
            z = R.call_tir(cls.double, (b,), out_sinfo=F4)
            return (e, y, z)
        """,
    )


def test_equal_constants_and_different_ones():
    mod = module_of("""
    @R.function
    def main(x: F4):
        cls = Module
        a = R.call_tir(cls.add, (x, R.const([1.0, 2.0, 3.0, 4.0], "float32")), out_sinfo=F4)
        b = R.call_tir(cls.add, (x, R.const([1.0, 2.0, 3.0, 4.0], "float32")), out_sinfo=F4)
        c = R.call_tir(cls.add, (x, R.const([1.0, 2.0, 3.0, 5.0], "float32")), out_sinfo=F4)
        return (a, b, c)
    """)
    body = CanonicalizeBindings()(EliminateCommonSubexpr()(mod))["main"].body
    assert [v.name for v in body.body.elements] == ["a", "a", "c"]


def test_calls_with_effects_and_checks_are_not_merged():
    mod = module_of("""
    @R.function(pure=False)
    def main(x: R.Tensor(None, "float32", ndim=1)):
        cls = Module
        a: F4 = R.call_packed("next", sinfo_args=(F4,))
        b: F4 = R.call_packed("next", sinfo_args=(F4,))
        c = R.match_cast(x, F4)
        d = R.match_cast(x, F4)
        return (a, b, c, d)
    """)
    assert EliminateCommonSubexpr()(mod)["main"] is mod["main"]


ELEMENTS = """
    @T.prim_func(private=True)
    def repeat(A: T.Buffer((2, 6), "float32"), C: T.Buffer((1, 3, 4), "float32")):
        for h, i, j in T.grid(1, 3, 4):
            with T.block("repeat"):
                vh, vi, vj = T.axis.remap("SSS", [h, i, j])
                C[vh, vi, vj] = A[0, vi + vj // 2]

    @T.prim_func(private=True)
    def add(
        A: T.Buffer({shape}, "float32"),
        B: T.Buffer({shape}, "float32"),
        R: T.Buffer((4,), "float32"),
        C: T.Buffer({shape}, "float32"),
    ):
        for {axes} in T.grid{shape}:
            with T.block("add"):
                {blocks} = T.axis.remap("{kinds}", [{axes}])
                C[{blocks}] = A[{blocks}] + B[{blocks}] * R[vj]
"""
FLAT = ELEMENTS.format(shape="(3, 4)", axes="i, j", blocks="vi, vj", kinds="SS")


def test_element_wise_calls_go_in_front_of_views():
    before = reshapes(
        FLAT
        + """
    @R.function
    def main(x: S26, y: S34, r: R.Tensor((4,), "float32")):
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.repeat, (x,), R.Tensor((1, 3, 4), "float32"))
            b = R.memory.view(a, R.shape([3, 4]))
            c = R.call_tir(cls.add, (b, y, r), S34)
            d = R.call_tir(cls.add, (c, b, r), S34)
            R.output(d)
        return d
    """
    )
    after = DeadCodeElimination()(SinkViews()(before))
    high = {"shape": "(1, 3, 4)", "axes": "h, i, j", "blocks": "vh, vi, vj", "kinds": "SSS"}
    expected = reshapes(
        ELEMENTS.format(**high).replace("def add", "def add1")
        + """
    @R.function
    def main(x: S26, y: S34, r: R.Tensor((4,), "float32")):
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.repeat, (x,), R.Tensor((1, 3, 4), "float32"))
            seen = R.memory.view(y, R.shape([1, 3, 4]))
            c = R.call_tir(cls.add1, (a, seen, r), R.Tensor((1, 3, 4), "float32"))
            d = R.call_tir(cls.add1, (c, a, r), R.Tensor((1, 3, 4), "float32"))
            e = R.memory.view(d, R.shape([3, 4]))
            R.output(e)
        return e
    """
    )
    tensorir.assert_structural_equal(after["main"], expected["main"])
    found, wanted = (
        with_index_dtype(m["add1"], "int64").without_attr("tir.noalias") for m in (after, expected)
    )
    tensorir.assert_structural_equal(found, wanted)


def test_views_stay_where_rows_would_be_cut_and_behind_what_is_given():
    mod = reshapes(
        FLAT
        + """
    @R.function
    def main(x: S26, y: S34, r: R.Tensor((4,), "float32")):
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.transpose, (x,), S62)
            b = R.memory.view(a, R.shape([3, 4]))
            c = R.call_tir(cls.add, (b, y, r), S34)
            d = R.memory.view(x, R.shape([3, 4]))
            e = R.call_tir(cls.add, (c, d, r), S34)
            R.output(e)
        return e
    """
    )
    assert SinkViews()(mod)["main"] is mod["main"]
