"""Bindings and functions that lead to nothing; other names of values."""

from __future__ import annotations

import pytest
from graph_modules import assert_graph, is_same, module_of

from tensorir import IRTypeError, IRValueError
from tensorir.transform import CanonicalizeBindings, DeadCodeElimination


def transformed(step, graph):
    before = module_of(graph)
    kept = before.clone()
    after = step(before)
    assert is_same(before, kept)
    return after


def test_unused_bindings_and_functions_only_they_call_go():
    mod = transformed(
        DeadCodeElimination(),
        """
        @R.function
        def main(x: F4):
            cls = Module
            with R.dataflow():
                a = R.call_tir(cls.add, (x, x), out_sinfo=F4)
                b = R.call_tir(cls.add, (a, x), out_sinfo=F4)
                gv = R.call_tir(cls.double, (x,), out_sinfo=F4)
                R.output(b, gv)
            c: F4 = cls.part(b)
            return gv

        @R.function(private=True)
        def part(x: F4) -> F4:
            cls = Module
            y = R.call_tir(cls.increment, (), out_sinfo=F4)
            return y
        """,
    )
    assert sorted(mod) == ["double", "main"]
    assert_graph(
        mod,
        """
        @R.function
        def main(x: F4):
            cls = Module
            with R.dataflow():
                gv = R.call_tir(cls.double, (x,), out_sinfo=F4)
                R.output(gv)
            return gv
        """,
    )


def test_effects_stay_with_what_they_need():
    graph = """
        @R.function(pure=False)
        def main(x: F4):
            cls = Module
            a = R.call_tir(cls.double, (x,), out_sinfo=F4)
            b: F4 = R.call_packed("log", a, sinfo_args=(F4,))
            return x
    """
    mod = module_of(graph)
    assert DeadCodeElimination()(mod)["main"] is mod["main"]


def test_a_branch_that_is_needed_loses_what_is_not():
    mod = transformed(
        DeadCodeElimination(),
        """
        @R.function
        def main(x: F4, flag: R.Tensor((), "bool")):
            cls = Module
            if flag:
                a = R.call_tir(cls.add, (x, x), out_sinfo=F4)
                y = R.call_tir(cls.double, (x,), out_sinfo=F4)
            else:
                y = R.call_tir(cls.add, (x, x), out_sinfo=F4)
            if flag:
                z = R.call_tir(cls.double, (x,), out_sinfo=F4)
            else:
                z = R.call_tir(cls.add, (x, x), out_sinfo=F4)
            return y
        """,
    )
    assert_graph(
        mod,
        """
        @R.function
        def main(x: F4, flag: R.Tensor((), "bool")):
            cls = Module
            if flag:
                y = R.call_tir(cls.double, (x,), out_sinfo=F4)
            else:
                y = R.call_tir(cls.add, (x, x), out_sinfo=F4)
            return y
        """,
    )


def test_a_cast_that_may_fail_is_a_check_and_stays():
    mod = module_of("""
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            y = R.match_cast(x, F4)
            return x
    """)
    assert is_same(DeadCodeElimination(["double", "add"])(mod), mod) is False
    assert DeadCodeElimination()(mod)["main"] is mod["main"]


def test_entries_are_named_and_without_entries_everything_stays():
    mod = module_of("""
        @R.function
        def main(x: F4):
            return x
    """)
    assert sorted(DeadCodeElimination(["add"])(mod)) == ["add", "main"]
    private = mod.clone()
    private["main"] = mod["main"].without_attr("global_symbol")
    assert is_same(DeadCodeElimination()(private), private)
    with pytest.raises(IRValueError, match='Cannot find global var "sub"'):
        DeadCodeElimination(["sub"])(mod)
    with pytest.raises(IRTypeError, match="must be a list of names"):
        DeadCodeElimination("add")


def test_other_names_of_values_are_not_needed():
    mod = transformed(
        CanonicalizeBindings(),
        """
        @R.function
        def main(x: F4):
            cls = Module
            y = x
            t = (y, x)
            a = t[0]
            z = R.match_cast(a, F4)
            b = R.call_tir(cls.add, (z, y), out_sinfo=F4)
            return b
        """,
    )
    assert_graph(
        mod,
        """
        @R.function
        def main(x: F4):
            cls = Module
            t = (x, x)
            b = R.call_tir(cls.add, (x, x), out_sinfo=F4)
            return b
        """,
    )


def test_an_output_that_is_a_field_has_its_name_at_once():
    mod = transformed(
        CanonicalizeBindings(),
        """
        @R.function
        def main(x: F4):
            cls = Module
            with R.dataflow():
                lv = R.call_tir(cls.double, (x,), out_sinfo=F4)
                t = (lv, x)
                gv = t[0]
                R.output(gv)
            return gv
        """,
    )
    assert "gv = R.call_tir" in mod["main"].script()


def test_an_output_of_a_dataflow_block_has_its_name_at_once():
    mod = transformed(
        CanonicalizeBindings(),
        """
        @R.function
        def main(x: F4):
            cls = Module
            with R.dataflow():
                lv = R.call_tir(cls.double, (x,), out_sinfo=F4)
                lv1 = R.call_tir(cls.add, (lv, x), out_sinfo=F4)
                gv = lv
                gv1 = lv1
                R.output(gv, gv1)
            return (gv, gv1)
        """,
    )
    assert_graph(
        mod,
        """
        @R.function
        def main(x: F4):
            cls = Module
            with R.dataflow():
                gv = R.call_tir(cls.double, (x,), out_sinfo=F4)
                gv1 = R.call_tir(cls.add, (gv, x), out_sinfo=F4)
                R.output(gv, gv1)
            return (gv, gv1)
        """,
    )


def test_a_variable_of_a_dataflow_block_is_not_used_outside():
    mod = module_of("""
        @R.function
        def main(x: F4):
            cls = Module
            with R.dataflow():
                lv = R.call_tir(cls.double, (x,), out_sinfo=F4)
                t = (lv, x)
                R.output(t)
            y = t[0]
            return y
    """)
    assert is_same(CanonicalizeBindings()(mod), mod)


def test_a_name_that_says_less_and_a_cast_that_says_more_stay():
    mod = module_of("""
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            m = T.int64()
            y = R.match_cast(x, R.Tensor((m,), "float32"))
            return y
    """)
    assert is_same(CanonicalizeBindings()(mod), mod)
