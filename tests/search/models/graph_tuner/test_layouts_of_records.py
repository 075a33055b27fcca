"""Layouts of graphs whose kernels have schedules in a database."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import codegen
import search as ms
from schedule import Schedule
from search.database import Database, MemoryDatabase
from search.models.graph_tuner import tune_layouts
from search.postproc import RewriteLayout
from tensorir import IRModule, PrimFunc, assert_structural_equal, parse
from tensorir.transform import BindParams
from tests.search.anchored_programs import TARGET, commit
from tests.search.models.graph_tuner.graphs import form, made_up

MODEL = parse("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def dense(X: T.Buffer((16, 16), "float32"), W: T.Buffer((16, 16), "float32"), Y: T.Buffer((16, 16), "float32")):
        T.func_attr({"tir.noalias": True})
        for i, j, k in T.grid(16, 16, 16):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]

    @R.function
    def main(x: R.Tensor((16, 16), "float32"), w: R.Tensor((16, 16), "float32")):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.dense, (x, w), out_sinfo=R.Tensor((16, 16), "float32"))
            z = R.call_tir(cls.dense, (y, w), out_sinfo=R.Tensor((16, 16), "float32"))
            R.output(z)
        return z
""")
assert isinstance(MODEL, IRModule)
X, W = np.random.default_rng(0).random((2, 16, 16), "float32")
BOUND = BindParams("main", {"w": W})(MODEL)

READS = made_up(X_W_Y=9, X_W_Y_b=9)
"""Times that depend on reading in blocks alone."""


def scheduled(mod: IRModule, rows: int, columns: int) -> Schedule:
    """Return the product in tiles of rows, which reads a weight in their order if it may."""
    sch = Schedule(mod)
    block = sch.get_block("Y")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, rows])
    j0, j1 = sch.split(j, [None, columns])
    k0, k1 = sch.split(k, [None, 8])
    sch.reorder(i0, j0, k0, k1, i1, j1)
    sch.enter_postproc()
    assert RewriteLayout().apply(sch)
    return sch


def database(*records: tuple[Sequence[int], int, float]) -> Database:
    """Return a database with records of `dense`: which weights are free, rows of a tile, times."""
    result = MemoryDatabase()
    dense = MODEL.prim_func("dense").with_attr("global_symbol", "main")
    for free, rows, seconds in records:
        program = IRModule(
            {"main": dense.with_attr("layout_free_buffers", free) if free else dense}
        )
        commit(result, scheduled(program, rows, 8), program, seconds)
    return result


def blocked_shape(kernel: PrimFunc, name: str) -> tuple[int, ...]:
    (buffer,) = (b for b in kernel.buffer_map.values() if b.name == name)
    return tuple(map(int, buffer.shape))


def test_the_schedule_says_in_which_layout_it_would_read() -> None:
    tuning = tune_layouts(BOUND, database(([1], 4, 1e-6)), TARGET, measure=READS)
    kernel = tuning.mod.prim_func("dense_blocked")
    assert blocked_shape(kernel, "X") == (4, 2, 8, 4)
    assert kernel.attrs["tir.is_scheduled"]


def test_weights_are_packed_as_well_when_the_graph_is_built() -> None:
    tuning = tune_layouts(BOUND, database(([1], 4, 1e-6)), TARGET, measure=READS)
    executable = codegen.vm_build(tuning.mod, TARGET)
    vm = codegen.VirtualMachine(executable, profile=True)
    np.testing.assert_allclose(vm["main"](X), X @ W.T @ W.T, rtol=1e-4)
    names = [row.name for row in vm.profile("main", X).rows]
    assert names == ["layout_transform", "dense_blocked_prepacked", "dense_blocked1_prepacked"]


def test_a_schedule_that_a_kernel_was_given_stays() -> None:
    given = scheduled(IRModule({"main": MODEL["dense"]}), 8, 4).mod["main"]
    mod = MODEL.clone()
    mod["dense"] = given.with_attr("tir.is_scheduled", True)
    tuning = tune_layouts(mod, database(([], 4, 1e-6)), TARGET, measure=made_up())
    assert_structural_equal(tuning.mod, mod)


def test_the_current_database_answers_the_pass() -> None:
    taken = ms.transform.TuneLayouts(target=TARGET, measure=made_up(X_W_Y=9))
    with database(([1], 4, 1e-6)):
        mod = taken(BOUND)
    assert any(func.attrs.get("tir.is_scheduled") for func in mod.prim_funcs().values())
    assert not any(func.attrs.get("tir.is_scheduled") for func in taken(BOUND).prim_funcs().values() if "X" in form(func))  # fmt: skip


def test_what_is_measured_computes_the_same() -> None:
    """The only test of layouts that builds and runs kernels for their times."""
    tuning = tune_layouts(BOUND, database(([1], 4, 1e-6)), TARGET)
    assert 0 < tuning.after <= tuning.before < 1
    vm = codegen.VirtualMachine(codegen.vm_build(tuning.mod, TARGET))
    np.testing.assert_allclose(vm["main"](X), X @ W.T @ W.T, rtol=1e-4)
