"""Tensor functions say which of their parameters are weights."""

from __future__ import annotations

import numpy as np
from graph_modules import module_of

from tensorir import IRModule, assert_structural_equal
from tensorir.relax.calls import CALL_TIR
from tensorir.relax.expr import GraphCall
from tensorir.rewriting.visit import walk
from tensorir.transform import AttachAttrLayoutFreeBuffers, BindParams

W = np.arange(4, dtype="float32")


def attached(graph: str, **weights: np.ndarray) -> IRModule:
    return AttachAttrLayoutFreeBuffers()(BindParams("main", weights)(module_of(graph)))


def called(mod: IRModule, name: str = "main") -> list[str]:
    """Return the tensor functions that a graph function calls, in order."""
    calls = (n for n in walk(mod[name].body) if isinstance(n, GraphCall) and n.op is CALL_TIR)
    return [call.args[0].name for call in calls]


def free(mod: IRModule, name: str) -> list[int] | None:
    positions = mod[name].attrs.get("layout_free_buffers")
    return None if positions is None else [int(k) for k in positions]


def test_constants_may_have_any_layout() -> None:
    graph = """
        @R.function
        def main(x: F4, w: F4):
            cls = Module
            y = R.call_tir(cls.add, (x, w), out_sinfo=F4)
            z = R.call_tir(cls.double, (y,), out_sinfo=F4)
            return z
        """
    before = BindParams("main", {"w": W})(module_of(graph))
    after = AttachAttrLayoutFreeBuffers()(before)
    expected = before.clone()
    expected["add"] = before["add"].with_attr("layout_free_buffers", [1])
    assert_structural_equal(after, expected)
    assert free(before, "add") is None


def test_so_may_parameters_behind_the_inputs() -> None:
    graph = """
        @R.function
        def main(w: F4, x: F4, b: F4):
            R.func_attr({"num_input": 2})
            cls = Module
            y = R.call_tir(cls.add, (b, x), out_sinfo=F4)
            return y
        """
    assert free(attached(graph), "add") == [0]
    assert free(AttachAttrLayoutFreeBuffers(constants_only=True)(module_of(graph)), "add") is None


def test_a_function_called_with_weights_in_different_places_becomes_several() -> None:
    mod = attached(
        """
        @R.function
        def main(x: F4, w: F4):
            cls = Module
            a = R.call_tir(cls.add, (x, w), out_sinfo=F4)
            b = R.call_tir(cls.add, (w, a), out_sinfo=F4)
            c = R.call_tir(cls.add, (a, b), out_sinfo=F4)
            d = R.call_tir(cls.add, (c, w), out_sinfo=F4)
            return d
        """,
        w=W,
    )
    assert called(mod) == ["add1", "add2", "add", "add1"]
    assert [free(mod, name) for name in ("add", "add1", "add2")] == [None, [1], [0]]
    assert_structural_equal(mod["add1"].without_attr("layout_free_buffers"), mod["add"])


def test_calls_in_other_functions_and_branches_count() -> None:
    mod = attached(
        """
        @R.function
        def main(p: R.Tensor((), "bool"), x: F4, w: F4):
            cls = Module
            if p:
                y = R.call_tir(cls.add, (x, w), out_sinfo=F4)
                z = y
            else:
                z = R.call_tir(cls.double, (w,), out_sinfo=F4)
            return z

        @R.function
        def other(x: F4):
            cls = Module
            y = R.call_tir(cls.double, (x,), out_sinfo=F4)
            return y
        """,
        w=W,
    )
    assert called(mod) == ["add", "double1"]
    assert called(mod, "other") == ["double"]
    assert [free(mod, name) for name in ("add", "double1", "double")] == [[1], [0], None]


def test_what_a_function_states_stays() -> None:
    graph = """
        @R.function
        def main(x: F4, w: F4):
            cls = Module
            y = R.call_tir(cls.add, (x, w), out_sinfo=F4)
            return y
        """
    mod = module_of(graph)
    mod["add"] = mod["add"].with_attr("layout_free_buffers", [0])
    assert free(AttachAttrLayoutFreeBuffers()(mod), "add") == [0]
    bound = BindParams("main", {"w": W})(mod)
    assert free(AttachAttrLayoutFreeBuffers()(bound), "add") == [0, 1]


def test_an_argument_that_is_overwritten_keeps_its_layout() -> None:
    mod = attached(
        """
        @R.function
        def main(x: F4, w: F4):
            cls = Module
            y = R.call_tir_inplace(cls.increment, (w,), inplace_indices=[0], out_sinfo=F4)
            z = R.call_tir(cls.add, (x, y), out_sinfo=F4)
            return z
        """,
        w=W,
    )
    assert free(mod, "increment") is None
    assert free(mod, "add") is None
