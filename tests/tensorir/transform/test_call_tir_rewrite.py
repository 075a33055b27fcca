"""Explicit memory: outputs are allocated and passed, in-place calls copy what is needed."""

from __future__ import annotations

import numpy as np
from graph_modules import assert_graph, is_same, module_of

from tensorir.interp.graphs import interpret_graph
from tensorir.transform import CallTIRRewrite


def lowered(graph):
    before = module_of(graph)
    kept = before.clone()
    after = CallTIRRewrite()(before)
    assert is_same(before, kept)
    return after


def alloc(var):
    return (
        f"{var} = R.builtin.alloc_tensor"
        '(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))'
    )


def test_an_output_is_allocated_and_passed():
    mod = lowered("""
        @R.function
        def main(x: F4):
            cls = Module
            with R.dataflow():
                lv = R.call_tir(cls.double, (x,), out_sinfo=F4)
                gv = R.call_tir(cls.add, (x, lv), out_sinfo=F4)
                R.output(gv)
            return gv
    """)
    assert_graph(
        mod,
        f"""
        @R.function
        def main(x: F4):
            cls = Module
            {alloc("lv")}
            cls.double(x, lv)
            {alloc("gv")}
            cls.add(x, lv, gv)
            return gv
        """,
    )


def test_a_library_function_is_told_how_many_outputs_it_writes():
    mod = lowered("""
        @R.function
        def main(x: F4):
            y = R.call_dps_packed("split", (x,), out_sinfo=[F4, F4])
            return y
    """)
    assert_graph(
        mod,
        f"""
        @R.function
        def main(x: F4):
            {alloc("a")}
            {alloc("b")}
            R.call_packed("split", x, a, b, num_outputs=2, sinfo_args=(R.Tuple,))
            y = (a, b)
            return y
        """,
    )


def test_several_outputs_are_a_tuple():
    mod = lowered("""
        @R.function
        def main(x: F4):
            cls = Module
            pair = R.call_tir(cls.both, (x,), out_sinfo=[F4, F4])
            return pair
    """)
    assert_graph(
        mod,
        f"""
        @R.function
        def main(x: F4):
            cls = Module
            {alloc("a")}
            {alloc("b")}
            cls.both(x, a, b)
            pair = (a, b)
            return pair
        """,
    )


def test_integers_go_behind_the_buffers():
    mod = lowered("""
        @R.function
        def main(x: F4):
            cls = Module
            y = R.call_tir(cls.add_scalar, (x,), out_sinfo=F4, tir_vars=R.shape([3]))
            return y
    """)
    assert_graph(
        mod,
        f"""
        @R.function
        def main(x: F4):
            cls = Module
            {alloc("y")}
            cls.add_scalar(x, y, R.prim_value(3))
            return y
        """,
    )
    (result,) = [interpret_graph(mod, "main", np.zeros(4, "float32"))]
    assert result.tolist() == [3.0] * 4


IN_PLACE = """
        @R.function
        def main(x: F4):
            cls = Module
            a = R.call_tir(cls.double, (x,), out_sinfo=F4)
            b = R.call_tir_inplace(cls.increment, (a,), inplace_indices=[0], out_sinfo=F4)
            {result}
"""


def test_a_temporary_that_is_dead_is_overwritten():
    mod = lowered(IN_PLACE.format(result="return b"))
    assert_graph(
        mod,
        f"""
        @R.function
        def main(x: F4):
            cls = Module
            {alloc("a")}
            cls.double(x, a)
            cls.increment(a)
            return a
        """,
    )


def test_a_temporary_that_is_needed_later_is_copied():
    mod = lowered(IN_PLACE.format(result="return (a, b)"))
    assert_graph(
        mod,
        f"""
        @R.function
        def main(x: F4):
            cls = Module
            {alloc("a")}
            cls.double(x, a)
            {alloc("b")}
            R.memory.copy_into(a, b)
            cls.increment(b)
            return (a, b)
        """,
    )


def test_a_temporary_that_a_tuple_holds_is_copied():
    mod = lowered("""
        @R.function
        def main(x: F4):
            cls = Module
            a = R.call_tir(cls.double, (x,), out_sinfo=F4)
            t = (a, x)
            b = R.call_tir_inplace(cls.increment, (a,), inplace_indices=[0], out_sinfo=F4)
            c = t[0]
            d = R.call_tir(cls.add, (b, c), out_sinfo=F4)
            return d
    """)
    assert "copy_into" in mod["main"].script()
    assert interpret_graph(mod, "main", np.ones(4, "float32")).tolist() == [5.0] * 4


def test_an_argument_and_a_constant_are_never_overwritten():
    mod = lowered("""
        @R.function
        def main(x: F4):
            cls = Module
            b = R.call_tir_inplace(cls.increment, (x,), inplace_indices=[0], out_sinfo=F4)
            return b
    """)
    x = np.ones(4, "float32")
    assert interpret_graph(mod, "main", x).tolist() == [2.0] * 4
    assert x.tolist() == [1.0] * 4


def test_a_tensor_that_a_library_function_may_keep_is_not_overwritten():
    mod = lowered("""
        @R.function(pure=False)
        def main(x: F4):
            cls = Module
            a = R.call_tir(cls.double, (x,), out_sinfo=F4)
            y: F4 = R.call_packed("keep", a, sinfo_args=(F4,))
            b = R.call_tir_inplace(cls.increment, (a,), inplace_indices=[0], out_sinfo=F4)
            return (y, b)
    """)
    assert "copy_into" in mod["main"].script()


def test_in_one_branch_a_tensor_may_be_dead_that_the_other_needs():
    mod = lowered("""
        @R.function
        def main(x: F4, flag: R.Tensor((), "bool")):
            cls = Module
            a = R.call_tir(cls.double, (x,), out_sinfo=F4)
            if flag:
                b = R.call_tir_inplace(cls.increment, (a,), inplace_indices=[0], out_sinfo=F4)
                y = b
            else:
                c = R.call_tir(cls.add, (a, x), out_sinfo=F4)
                y = c
            return y
    """)
    text = mod["main"].script()
    assert text.count("alloc_tensor") == 2  # a, and what the `if` gives
    assert text.count("copy_into(a, y)") == 1  # it was overwritten, and is where a is
    x = np.ones(4, "float32")
    assert interpret_graph(mod, "main", x, np.array(True)).tolist() == [3.0] * 4
    assert interpret_graph(mod, "main", x, np.array(False)).tolist() == [3.0] * 4


def test_an_argument_that_is_returned_is_copied():
    mod = lowered("""
        @R.function
        def main(x: F4):
            return x
    """)
    assert_graph(
        mod,
        f"""
        @R.function
        def main(x: F4):
            {alloc("result")}
            R.memory.copy_into(x, result)
            return result
        """,
    )


def test_of_results_in_one_memory_all_but_the_first_are_copied():
    mod = lowered("""
        @R.function
        def main(x: F4):
            cls = Module
            a = R.call_tir(cls.double, (x,), out_sinfo=F4)
            t = (a, a)
            return t
    """)
    first, second = interpret_graph(mod, "main", np.ones(4, "float32"))
    assert first.tolist() == second.tolist() == [2.0] * 4
    assert not np.shares_memory(first, second)


def test_a_result_of_unknown_shape_is_measured_before_it_is_copied():
    mod = lowered("""
        @R.function
        def main(x: R.Tensor(ndim=2, dtype="float32")):
            return x
    """)
    x = np.ones((2, 3), "float32")
    result = interpret_graph(mod, "main", x)
    assert result.tolist() == x.tolist()
    assert not np.shares_memory(result, x)


def test_sizes_that_are_symbolic_stay_so():
    mod = lowered("""
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            n = T.int64()
            cls = Module
            y = R.call_tir(cls.double_any, (x,), out_sinfo=R.Tensor((n,), "float32"))
            return y
    """)
    assert "R.builtin.alloc_tensor(R.shape([n])" in mod["main"].script()
    assert interpret_graph(mod, "main", np.ones(7, "float32")).tolist() == [2.0] * 7


def test_a_lowered_function_is_left_as_it_is():
    once = lowered(IN_PLACE.format(result="return b"))
    assert is_same(CallTIRRewrite()(once), once)


def test_both_branches_compute_where_their_value_is_wanted():
    mod = lowered("""
        @R.function
        def main(x: F4, flag: R.Tensor((), "bool")):
            cls = Module
            if flag:
                a = R.call_tir(cls.double, (x,), out_sinfo=F4)
                y = R.call_tir(cls.double, (a,), out_sinfo=F4)
            else:
                y = R.call_tir(cls.double, (x,), out_sinfo=F4)
            return y
    """)
    assert_graph(
        mod,
        f"""
        @R.function
        def main(x: F4, flag: R.Tensor((), "bool")):
            cls = Module
            {alloc("wanted")}
            if flag:
                {alloc("a")}
                cls.double(x, a)
                cls.double(a, wanted)
                y = wanted
            else:
                cls.double(x, wanted)
                y = wanted
            return y
        """,
    )


def test_a_branch_copies_what_it_has_not_computed():
    mod = lowered("""
        @R.function
        def main(x: F4, flag: R.Tensor((), "bool")):
            cls = Module
            if flag:
                a = R.call_tir(cls.double, (x,), out_sinfo=F4)
                y = (a, a)
            else:
                y = (x, x)
            return y
    """)
    text = mod["main"].script()
    assert text.count("alloc_tensor") == 2
    assert text.count("copy_into") == 3  # a is computed in one of the places
    x = np.ones(4, "float32")
    for flag, expected in ((True, 2.0), (False, 1.0)):
        first, second = interpret_graph(mod, "main", x, np.array(flag))
        assert first.tolist() == second.tolist() == [expected] * 4
        assert not np.shares_memory(first, second)


def test_what_both_branches_share_is_not_copied():
    mod = lowered("""
        @R.function
        def main(x: F4, flag: R.Tensor((), "bool")):
            cls = Module
            a = R.call_tir(cls.double, (x,), out_sinfo=F4)
            if flag:
                y = a
            else:
                y = a
            return y
    """)
    assert "copy_into" not in mod["main"].script()


LAYER = """
        @R.function(private=True)
        def layer(x: F4) -> R.Tuple(F4, R.Tuple(F4)):
            cls = Module
            a = R.call_tir(cls.double, (x,), out_sinfo=F4)
            b = R.call_tir(cls.double, (a,), out_sinfo=F4)
            return (a, (b,))
"""


def test_a_graph_function_writes_its_result_to_memory_of_its_caller():
    graph = """
        @R.function
        def main(x: F4):
            cls = Module
            pair = cls.layer(x)
            a = pair[0]
            y = R.call_tir(cls.add, (a, x), out_sinfo=F4)
            return y
    """
    mod = lowered(LAYER + graph)
    assert_graph(
        mod,
        LAYER
        + f"""
        @R.function
        def main(x: F4):
            cls = Module
            {alloc("first")}
            {alloc("second")}
            R.memory.call_into(cls.layer, (x,), (first, second))
            pair = (first, (second,))
            a = pair[0]
            {alloc("y")}
            cls.add(a, x, y)
            return y
        """,
    )
    assert interpret_graph(mod, "main", np.ones(4, "float32")).tolist() == [3.0] * 4


def test_a_result_that_a_library_function_may_keep_stays_the_callees():
    mod = lowered("""
        @R.function(private=True, pure=False)
        def layer(x: F4) -> F4:
            cls = Module
            a = R.call_tir(cls.double, (x,), out_sinfo=F4)
            R.call_packed("keep", a, sinfo_args=(R.Tuple(),))
            return a

        @R.function(pure=False)
        def main(x: F4):
            cls = Module
            y: F4 = cls.layer(x)
            return y
    """)
    assert "call_into" not in mod["main"].script()


def test_a_function_that_calls_itself_writes_where_its_caller_wants_it():
    mod = lowered("""
        @R.function
        def main(x: F4, flag: R.Tensor((), "bool")) -> F4:
            cls = Module
            if flag:
                a = R.call_tir(cls.double, (x,), out_sinfo=F4)
                y: F4 = cls.main(a, R.const(False, "bool"))
            else:
                y = x
            return y
    """)
    text = mod["main"].script()
    assert text.count("copy_into") == 1  # of x
    assert "call_into" in text
    assert interpret_graph(mod, "main", np.ones(4, "float32"), np.array(True)).tolist() == [2.0] * 4


def test_a_view_lies_where_its_tensor_lies():
    mod = lowered("""
        @R.function
        def main(x: F4, flag: R.Tensor((), "bool")):
            cls = Module
            if flag:
                a = R.call_tir(cls.double, (x,), out_sinfo=F4)
                y: R.Tensor((2, 2), "float32") = R.memory.view(a, R.shape([2, 2]))
            else:
                y: R.Tensor((2, 2), "float32") = R.memory.view(x, R.shape([2, 2]))
            return y
    """)
    text = mod["main"].script()
    assert text.count("alloc_tensor") == 1
    assert text.count("copy_into") == 1  # of x
    for flag, expected in ((True, 2.0), (False, 1.0)):
        found = interpret_graph(mod, "main", np.ones(4, "float32"), np.array(flag))
        assert found.tolist() == [[expected] * 2] * 2


def test_the_view_of_an_argument_is_copied_when_it_is_returned():
    mod = lowered("""
        @R.function
        def main(x: F4):
            y: R.Tensor((2, 2), "float32") = R.memory.view(x, R.shape([2, 2]))
            return y
    """)
    x = np.ones(4, "float32")
    assert not np.shares_memory(interpret_graph(mod, "main", x), x)
