"""The kernels of a graph pass tensors to one another in layouts that are chosen together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from search.errors import TuningError
from search.models.graph_tuner import tune_layouts
from tensorir import IRModule, PrimFunc, assert_structural_equal, parse
from tensorir.transform import BindParams
from tests.search.models.graph_tuner.graphs import (
    BLOCKED,
    KERNELS,
    TARGET,
    assert_same_results,
    form,
    graph,
    made_up,
    module,
)

CHAIN = module("""
@R.function
def main(x: R.Tensor((16, 16), "float32"), w: R.Tensor((16, 16), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        a = R.call_tir(Module.relu, (x,), out_sinfo=R.Tensor((16, 16), "float32"))
        b = R.call_tir(Module.dense, (a, w), out_sinfo=R.Tensor((16, 16), "float32"))
        R.output(b)
    return b
""")


def test_a_kernel_writes_what_the_next_one_reads_in_blocks() -> None:
    tuning = tune_layouts(CHAIN, None, TARGET, measure=made_up(X_W_Y=5, X_b_W_Y=2))
    assert graph(tuning.mod) == (
        "    with R.dataflow():\n"
        '        a_blocked = R.call_tir(cls.relu_blocked, (x,), out_sinfo=R.Tensor((2, 2, 8, 8), dtype="float32"))\n'
        '        b = R.call_tir(cls.dense_blocked, (a_blocked, w), out_sinfo=R.Tensor((16, 16), dtype="float32"))\n'
        "        R.output(b)\n"
        "    return b"
    )
    assert sorted(tuning.mod.functions) == ["dense_blocked", "main", "relu_blocked"]
    expected = parse("""
@T.prim_func(private=True)
def dense(X: T.Buffer((2, 2, 8, 8), "float32"), W: T.Buffer((16, 16), "float32"), Y: T.Buffer((16, 16), "float32")):
    T.func_attr({"tir.noalias": True})
    for i0, k0, j, i1, k1 in T.grid(2, 2, 16, 8, 8):
        with T.block("Y"):
            vi = T.axis.spatial(16, i0 * 8 + i1)
            vj = T.axis.spatial(16, j)
            vk = T.axis.reduce(16, k0 * 8 + k1)
            with T.init():
                Y[vi, vj] = T.float32(0)
            Y[vi, vj] = Y[vi, vj] + X[vi // 8, vk // 8, vi % 8, vk % 8] * W[vj, vk]
""")
    assert_structural_equal(tuning.mod["dense_blocked"], expected)
    assert (round(tuning.before * 1e6, 3), round(tuning.after * 1e6, 3)) == (6, 3)
    assert tuning.exact


def test_nothing_changes_where_nothing_is_gained() -> None:
    tuning = tune_layouts(CHAIN, None, TARGET, measure=made_up(X_W_Y=3, X_b_W_Y=2.95))
    assert_structural_equal(tuning.mod, CHAIN)
    assert tuning.before == tuning.after
    assert tuning.transforms == ()


def test_a_module_is_not_changed() -> None:
    before = CHAIN.script()
    tune_layouts(CHAIN, None, TARGET, measure=made_up(X_W_Y=5))
    assert CHAIN.script() == before


SHARED = module("""
@R.function
def main(x: R.Tensor((16, 16), "float32"), v: R.Tensor((16, 16), "float32"), w: R.Tensor((16, 16), "float32")):
    R.func_attr({"num_input": 1})
    a = R.call_tir(Module.dense, (x, v), out_sinfo=R.Tensor((16, 16), "float32"))
    b = R.call_tir(Module.dense, (a, v), out_sinfo=R.Tensor((16, 16), "float32"))
    c = R.call_tir(Module.dense, (a, w), out_sinfo=R.Tensor((16, 16), "float32"))
    return (b, c)
""")


def test_readers_share_a_transform_and_it_counts_once() -> None:
    """Alone, neither of the two kernels behind would pay for it."""
    times = made_up(X_W_Y=3, X_b_W_Y=2, X_W_Y_b=8, X_b_W_Y_b=8, tensor_transformed_b=1.5)
    tuning = tune_layouts(SHARED, None, TARGET, measure=times)
    assert [step.tensor for step in tuning.transforms] == ["a"]
    assert round(tuning.after * 1e6, 3) == 3 + 1.5 + 2 + 2
    assert_same_results(tuning.mod, SHARED, 3)


def test_a_tensor_is_used_in_branches() -> None:
    mod = module("""
@R.function
def main(x: R.Tensor((16, 16), "float32"), w: R.Tensor((16, 16), "float32"), flag: R.Tensor((), "bool")):
    R.func_attr({"num_input": 1})
    a = R.call_tir(Module.relu, (x,), out_sinfo=R.Tensor((16, 16), "float32"))
    if flag:
        b = R.call_tir(Module.dense, (a, w), out_sinfo=R.Tensor((16, 16), "float32"))
        r = b
    else:
        c = R.call_tir(Module.relu, (a,), out_sinfo=R.Tensor((16, 16), "float32"))
        r = c
    return r
""")
    tuning = tune_layouts(mod, None, TARGET, measure=made_up(X_W_Y=9, A_B=1))
    text = graph(tuning.mod)
    assert text.index("a_blocked = ") < text.index("if flag:") < text.index("(a_blocked, w)")


def test_several_results_and_other_calls_stay_row_major() -> None:
    mod = module("""
@R.function
def main(x: R.Tensor((16, 16), "float32"), w: R.Tensor((16, 16), "float32")):
    R.func_attr({"num_input": 1})
    both = R.call_tir(Module.halves, (x,), out_sinfo=[R.Tensor((16, 16), "float32"), R.Tensor((16, 16), "float32")])
    p = both[0]
    a = R.call_tir(Module.dense, (p, w), out_sinfo=R.Tensor((16, 16), "float32"))
    b = R.call_tir_inplace(Module.relu_inplace, (a,), inplace_indices=[0], out_sinfo=R.Tensor((16, 16), "float32"))
    return b
""", KERNELS + """
    @T.prim_func(private=True)
    def relu_inplace(A: T.Buffer((16, 16), "float32")):
        for i, j in T.grid(16, 16):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.max(A[vi, vj], T.float32(0))
""")  # fmt: skip
    tuning = tune_layouts(mod, None, TARGET, measure=made_up(X_W_Y=9, X_b_W_Y=2, X_W_Y_b=0.1))
    text = graph(tuning.mod)
    assert "both = R.call_tir(cls.halves, (x,)" in text
    assert "p_blocked = R.call_tir(cls.layout_transform, (p,)" in text
    assert "a = R.call_tir(cls.dense_blocked, (p_blocked, w)" in text
    assert_same_results(tuning.mod, mod, 2)


def test_kernels_without_fixed_shapes_are_no_part_of_it() -> None:
    mod = module("""
@R.function
def main(x: R.Tensor(("n", 16), "float32")):
    n = T.int64()
    a = R.call_tir(Module.negate, (x,), out_sinfo=R.Tensor((n, 16), "float32"))
    return a
""", """
    @T.prim_func(private=True)
    def negate(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 16))
        B = T.match_buffer(b, (n, 16))
        for i, j in T.grid(n, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = -A[vi, vj]
""")  # fmt: skip
    tuning = tune_layouts(mod, None, TARGET, measure=made_up())
    assert_structural_equal(tuning.mod, mod)
    assert (tuning.kernels, tuning.before, tuning.after) == ((), 0, 0)


def test_constants_are_not_given_layouts() -> None:
    mod = BindParams("main", {"w": np.eye(16, dtype="float32")})(CHAIN)
    forms: set[str] = set()

    def measure(kernels: Sequence[PrimFunc]) -> list[float]:
        forms.update(map(form, kernels))
        return [1e-6] * len(kernels)

    tune_layouts(mod, None, TARGET, measure=measure)
    assert {name for name in forms if "W" in name} == {"X W Y", "X* W Y"}


def test_a_form_that_fails_is_not_chosen() -> None:
    times = made_up(X_W_Y=5, X_b_W_Y=math.inf)
    tuning = tune_layouts(CHAIN, None, TARGET, measure=times)
    assert_structural_equal(tuning.mod, CHAIN)
    assert tuning.kernels[1].candidates == 1


def test_a_kernel_that_cannot_be_measured_stays_and_counts_as_nothing() -> None:
    tuning = tune_layouts(CHAIN, None, TARGET, measure=made_up(X_W_Y=math.inf, A_B=2))
    assert_structural_equal(tuning.mod, CHAIN)
    assert tuning.kernels[1].before is None
    assert round(tuning.before * 1e6, 3) == round(tuning.after * 1e6, 3) == 2
    assert "?" in tuning.table


def test_no_more_candidates_than_wanted_are_measured() -> None:
    counts: list[int] = []

    def measure(kernels: Sequence[PrimFunc]) -> list[float]:
        counts.append(len(kernels))
        return [1e-6] * len(kernels)

    tuning = tune_layouts(CHAIN, None, TARGET, max_candidates=1, measure=measure)
    assert counts == [2]
    assert_structural_equal(tuning.mod, CHAIN)


def test_what_was_chosen_prints_as_tables() -> None:
    times = made_up(X_W_Y=5, X_b_W_Y=2, A_B_b=4)
    tuning = tune_layouts(CHAIN, None, TARGET, measure=times)
    assert str(tuning) == tuning.table
    assert [" ".join(line.split()) for line in tuning.table.splitlines()] == [
        "function result kernel layouts choices us before us after",
        "main a relu row-major 4 1.00 1.00",
        f"main b dense X: {BLOCKED} 2 5.00 2.00",
        "",
        "function tensor transform us",
        f"main a row-major => {BLOCKED} 1.00",
        "",
        "sum: 6.00 us before, 4.00 us after, 1.50 times as fast (exact)",
    ]
    assert tuning._repr_html_().count("<table>") == 2


def test_times_that_are_none_are_refused() -> None:
    with pytest.raises(TuningError, match="a measure returns a time for each kernel"):
        tune_layouts(CHAIN, None, TARGET, measure=lambda kernels: [1.0])
    with pytest.raises(TuningError, match="a measure returns a time for each kernel"):
        tune_layouts(CHAIN, None, TARGET, measure=lambda kernels: [math.nan] * len(kernels))


def test_what_cannot_be_tuned_is_refused() -> None:
    kernels = IRModule(dict(CHAIN.prim_funcs()))
    with pytest.raises(TuningError, match=r"no graph function, only \['dense', 'relu'\]"):
        tune_layouts(kernels, None, TARGET, measure=made_up())
    with pytest.raises(TuningError, match="max_candidates is at least 1, got 0"):
        tune_layouts(CHAIN, None, TARGET, max_candidates=0, measure=made_up())


def test_the_result_round_trips() -> None:
    mod = tune_layouts(CHAIN, None, TARGET, measure=made_up(X_W_Y=5, A_B_b=9)).mod
    again = parse(mod.script())
    assert isinstance(again, IRModule)
    assert_structural_equal(again, mod)
    assert_same_results(mod, CHAIN, 2)


def test_what_no_block_accesses_keeps_its_layout() -> None:
    """A kernel of loops alone has no block at all; `ones` does not read what it takes."""
    mod = module("""
@R.function
def main(x: R.Tensor((16, 16), "float32"), w: R.Tensor((16, 16), "float32")):
    R.func_attr({"num_input": 1})
    z = R.call_tir(Module.relu, (x,), out_sinfo=R.Tensor((16, 16), "float32"))
    one = R.call_tir(Module.ones, (z,), out_sinfo=R.Tensor((16, 16), "float32"))
    a = R.call_tir(Module.dense, (one, w), out_sinfo=R.Tensor((16, 16), "float32"))
    twice = R.call_tir(Module.double, (a,), out_sinfo=R.Tensor((16, 16), "float32"))
    b = R.call_tir(Module.dense, (twice, w), out_sinfo=R.Tensor((16, 16), "float32"))
    c = R.call_tir(Module.dense, (z, b), out_sinfo=R.Tensor((16, 16), "float32"))
    return c
""", KERNELS + """
    @T.prim_func(private=True)
    def ones(L: T.Buffer((16, 16), "float32"), M: T.Buffer((16, 16), "float32")):
        for i, j in T.grid(16, 16):
            with T.block("M"):
                vi, vj = T.axis.remap("SS", [i, j])
                M[vi, vj] = T.float32(1)

    @T.prim_func(private=True)
    def double(F: T.Buffer((16, 16), "float32"), G: T.Buffer((16, 16), "float32")):
        for i, j in T.grid(16, 16):
            G[i, j] = F[i, j] * T.float32(2)
""")  # fmt: skip
    times = made_up(X_W_Y=9, L_M=5, F_G=5, A_B=5)
    tuning = tune_layouts(mod, None, TARGET, measure=times)
    text = graph(tuning.mod)
    assert "z = R.call_tir(cls.layout_transform, (z_blocked,)" in text
    assert "one_blocked = R.call_tir(cls.ones_blocked, (z,)" in text
    assert "twice = R.call_tir(cls.double, (a,)" in text
    assert_same_results(tuning.mod, mod, 2)


def test_a_public_kernel_stays_although_another_form_is_called() -> None:
    public = KERNELS.replace("(private=True)", "")
    mod = module("""
@R.function
def main(x: R.Tensor((16, 16), "float32"), w: R.Tensor((16, 16), "float32")):
    b = R.call_tir(Module.dense, (x, w), out_sinfo=R.Tensor((16, 16), "float32"))
    return b
""", public)  # fmt: skip
    tuned = tune_layouts(mod, None, TARGET, measure=made_up(X_W_Y=5)).mod
    assert "cls.dense_blocked" in graph(tuned)
    assert_structural_equal(tuned["dense"], mod["dense"])


def test_a_tensor_without_elements_stays() -> None:
    mod = module("""
@R.function
def main(x: R.Tensor((0, 16), "float32")):
    a = R.call_tir(Module.columns, (x,), out_sinfo=R.Tensor((0, 16), "float32"))
    return a
""", """
    @T.prim_func(private=True)
    def columns(A: T.Buffer((0, 16), "float32"), B: T.Buffer((0, 16), "float32")):
        for j, i in T.grid(16, 0):
            with T.block("B"):
                vj, vi = T.axis.remap("SS", [j, i])
                B[vi, vj] = A[vi, vj]
""")  # fmt: skip
    tuning = tune_layouts(mod, None, TARGET, measure=made_up())
    assert_structural_equal(tuning.mod, mod)
