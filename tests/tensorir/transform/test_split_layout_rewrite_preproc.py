"""What brings weights into the layout of a schedule is a function of its own."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from graph_modules import is_same

import tensorir
from tensorir import IRModule, assert_structural_equal
from tensorir.interp.graphs import interpret_graph
from tensorir.transform import BindParams, FoldConstant, SplitLayoutRewritePreproc

PACK = """
    for i, j in T.grid(4, 6):
        with T.block("pack"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
            W_global[vj, vi] = W[vi, vj]
"""
USE = """
    for i, j in T.grid(4, 6):
        with T.block("use"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] * W_global[vj, vi]
"""
KERNEL = (
    """
@T.prim_func
def dense(X: T.Buffer((4, 6), "float32"), W: T.Buffer((4, 6), "float32"), Y: T.Buffer((4, 6), "float32")):
    T.func_attr({"tir.noalias": True, "layout_free_buffers": [1]})
    W_global = T.alloc_buffer((6, 4))
"""
    + PACK
    + USE
)
MAIN = """
@R.function
def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((4, 6), "float32")):
    cls = Module
    with R.dataflow():
        y = R.call_tir(cls.dense, (x, w), out_sinfo=R.Tensor((4, 6), "float32"))
        R.output(y)
    return y
"""
PREPACK = """
@T.prim_func
def dense_weight_prepack(W: T.Buffer((4, 6), "float32"), W_global: T.Buffer((6, 4), "float32")):
    T.func_attr({"tir.noalias": True})
    for i, j in T.grid(4, 6):
        with T.block("pack"):
            vi, vj = T.axis.remap("SS", [i, j])
            W_global[vj, vi] = W[vi, vj]
"""
PREPACKED = (
    """
@T.prim_func
def dense_prepacked(X: T.Buffer((4, 6), "float32"), W_global: T.Buffer((6, 4), "float32"), Y: T.Buffer((4, 6), "float32")):
    T.func_attr({"tir.noalias": True})
"""
    + USE
)
MAIN_AFTER = """
@R.function
def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((4, 6), "float32")):
    cls = Module
    with R.dataflow():
        packed = R.call_tir(cls.dense_weight_prepack, (w,), out_sinfo=R.Tensor((6, 4), "float32"))
        y = R.call_tir(cls.dense_prepacked, (x, packed), out_sinfo=R.Tensor((4, 6), "float32"))
        R.output(y)
    return y
"""
TWO_WEIGHTS = """
@T.prim_func
def dense(X: T.Buffer((4, 6), "float32"), W: T.Buffer((4, 6), "float32"), V: T.Buffer((24,), "float32"), Y: T.Buffer((4, 6), "float32")):
    W_global = T.alloc_buffer((6, 4))
    V_global = T.alloc_buffer((6, 4))
    for k in range(24):
        with T.block("pack_v"):
            vk = T.axis.spatial(24, k)
            T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
            V_global[vk % 6, vk // 6] = V[vk]
    for i, j in T.grid(4, 6):
        with T.block("pack_w"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
            W_global[vj, vi] = W[vi, vj]
    for i, j in T.grid(4, 6):
        with T.block("use"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] * W_global[vj, vi] + V_global[vj, vi]
"""
MAIN_OF_TWO = """
@R.function
def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((4, 6), "float32"), v: R.Tensor((24,), "float32")):
    cls = Module
    y = R.call_tir(cls.dense, (x, w, v), out_sinfo=R.Tensor((4, 6), "float32"))
    return y
"""
BODY_OF_TWO_AFTER = """\
        packed = R.call_tir(cls.dense_weight_prepack, (w, v), out_sinfo=[R.Tensor((6, 4), dtype="float32"), R.Tensor((6, 4), dtype="float32")])
        packed_0: R.Tensor((6, 4), dtype="float32") = packed[0]
        packed_1: R.Tensor((6, 4), dtype="float32") = packed[1]
        y = R.call_tir(cls.dense_prepacked, (x, packed_0, packed_1), out_sinfo=R.Tensor((4, 6), dtype="float32"))
        return y
"""
X = np.arange(24, dtype="float32").reshape(4, 6)
W = X[::-1].copy()
V = np.arange(24, dtype="float32")


def module(*functions: str) -> IRModule:
    body = textwrap.indent("\n".join(functions), "    ")
    mod = tensorir.parse(f"@I.ir_module\nclass Module:\n{body}")
    assert isinstance(mod, IRModule)
    tensorir.verify_well_formed(mod)
    return mod


def split(mod: IRModule) -> IRModule:
    after = SplitLayoutRewritePreproc()(mod)
    tensorir.verify_well_formed(after)
    return after


def test_a_scheduled_function_becomes_two() -> None:
    before = module(KERNEL, MAIN)
    after = split(before)
    assert_structural_equal(after, module(PREPACK, PREPACKED, MAIN_AFTER))
    assert sorted(before.functions) == ["dense", "main"]
    assert is_same(split(after), after)
    np.testing.assert_array_equal(interpret_graph(after, "main", X, W), X * W)


def test_constants_are_packed_while_the_module_is_transformed() -> None:
    after = FoldConstant()(split(BindParams("main", {"w": W})(module(KERNEL, MAIN))))
    expected = """
@R.function
def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((6, 4), "float32")):
    cls = Module
    with R.dataflow():
        y = R.call_tir(cls.dense_prepacked, (x, w), out_sinfo=R.Tensor((4, 6), "float32"))
        R.output(y)
    return y
"""
    bound = BindParams("main", {"w": W.T.copy()})(module(PREPACKED, expected))
    assert_structural_equal(after["main"], bound["main"])


def test_several_weights_are_packed_by_one_function() -> None:
    after = split(module(TWO_WEIGHTS, MAIN_OF_TWO))
    text = after.script()
    assert text[text.index("        packed =") :] == BODY_OF_TWO_AFTER.rstrip()
    np.testing.assert_array_equal(interpret_graph(after, "main", X, W, V), X * W + V.reshape(4, 6))
    folded = FoldConstant()(BindParams("main", {"w": W, "v": V})(after))
    assert len(folded["main"].body.bindings) == 1


def test_each_call_packs_what_it_is_given() -> None:
    main = """
@R.function
def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((4, 6), "float32"), p: R.Tensor((), "bool")):
    cls = Module
    y = R.call_tir(cls.dense, (x, w), out_sinfo=R.Tensor((4, 6), "float32"))
    if p:
        with R.dataflow():
            a = R.call_tir(cls.dense, (w, y), out_sinfo=R.Tensor((4, 6), "float32"))
            R.output(a)
        z = a
    else:
        z = R.match_cast(y, R.Tensor((4, 6), "float32"))
    return z
"""
    after = split(module(KERNEL, main))
    assert sorted(after.functions) == ["dense_prepacked", "dense_weight_prepack", "main"]
    for chosen, expected in ((True, X * W * W), (False, X * W)):
        got = interpret_graph(after, "main", X, W, np.array(chosen))
        np.testing.assert_array_equal(got, expected)


def test_names_that_are_taken_stay_what_they_are() -> None:
    taken = PREPACK.replace("W_global[vj, vi] = W[vi, vj]", "W_global[vj, vi] = T.float32(0)")
    after = split(module(KERNEL, taken, MAIN))
    assert sorted(after.functions) == [
        "dense_prepacked",
        "dense_weight_prepack",
        "dense_weight_prepack1",
        "main",
    ]
    np.testing.assert_array_equal(interpret_graph(after, "main", X, W), X * W)


def test_a_function_that_something_else_calls_stays_too() -> None:
    main = """
@R.function(pure=False)
def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((4, 6), "float32")):
    cls = Module
    y = R.call_tir(cls.dense, (x, w), out_sinfo=R.Tensor((4, 6), "float32"))
    z = R.call_tir_inplace(cls.dense, (x, w, y), inplace_indices=[2], out_sinfo=R.Tensor((4, 6), "float32"))
    u = cls.dense(x, w, z)
    return z
"""
    after = split(module(KERNEL, main))
    assert {"dense", "dense_prepacked", "dense_weight_prepack"} <= set(after.functions)
    np.testing.assert_array_equal(interpret_graph(after, "main", X, W), X * W)


FILL = """
    for i, j in T.grid(4, 6):
        with T.block("fill"):
            vi, vj = T.axis.remap("SS", [i, j])
            W_global[vj, vi] = T.float32(1)
"""
IN_THE_LOOP = """
    for i, j in T.grid(4, 6):
        with T.block("pack"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
            W_global[vj, vi] = W[vi, vj]
        with T.block("use"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] * W_global[vj, vi]
"""


@pytest.mark.parametrize(
    ("what", "before", "after"),
    [
        (
            "the weight is read as it is, too",
            "* W_global[vj, vi]",
            "* W_global[vj, vi] * W[vi, vj]",
        ),
        ("something else fills the result", USE, FILL + USE),
        ("it is a part of other loops", PACK + USE, IN_THE_LOOP),
        ("rows lie apart", "T.alloc_buffer((6, 4))", "T.alloc_buffer((6, 4), strides=[8, 1])"),
        ("the flag is off", 'preproc": True', 'preproc": False'),
    ],
    ids=["weight", "filled", "loops", "strides", "flag"],
)
def test_blocks_that_stay(what: str, before: str, after: str) -> None:
    assert before in KERNEL, what
    mod = module(KERNEL.replace(before, after), MAIN)
    assert is_same(split(mod), mod)


def test_a_result_that_callers_see_stays() -> None:
    text = KERNEL.replace("    W_global = T.alloc_buffer((6, 4))\n", "").replace(
        "Y: T.Buffer", 'W_global: T.Buffer((6, 4), "float32"), Y: T.Buffer'
    )
    mod = module(text)
    assert is_same(split(mod), mod)


def test_a_size_that_is_a_parameter_stays() -> None:
    kernel = """
@T.prim_func
def dense(X: T.Buffer((4, 6), "float32"), w: T.handle, Y: T.Buffer((4, 6), "float32")):
    n = T.int64()
    W = T.match_buffer(w, (n, 6), "float32")
    W_global = T.alloc_buffer((6, n))
    for i, j in T.grid(n, 6):
        with T.block("pack"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
            W_global[vj, vi] = W[vi, vj]
"""
    mod = module(kernel + USE, MAIN)
    assert is_same(split(mod), mod)
