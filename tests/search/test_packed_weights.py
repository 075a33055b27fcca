"""Models whose weights lie as the schedules of a database read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codegen
import search as ms
from schedule import Schedule
from search.database import Database, MemoryDatabase
from search.postproc import RewriteLayout
from tensorir import IRModule, parse
from tensorir.relax.expr import Constant
from tensorir.rewriting.fresh_copy import renew_defs
from tensorir.rewriting.visit import walk
from tensorir.transform import AttachAttrLayoutFreeBuffers, BindParams
from tests.search.anchored_programs import TARGET, commit

MODEL = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def dense(X: T.Buffer((16, 16), "float32"), W: T.Buffer((16, 16), "float32"), B: T.Buffer((16,), "float32"), Z: T.Buffer((16, 16), "float32")):
        T.func_attr({"tir.noalias": True})
        Y = T.alloc_buffer((16, 16))
        for i, j, k in T.grid(16, 16, 16):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(16, 16):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(x: R.Tensor((16, 16), "float32"), w: R.Tensor((16, 16), "float32"), b: R.Tensor((16,), "float32")):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.dense, (x, w, b), out_sinfo=R.Tensor((16, 16), "float32"))
            z = R.call_tir(cls.dense, (y, w, b), out_sinfo=R.Tensor((16, 16), "float32"))
            R.output(z)
        return z
""")
assert isinstance(MODEL, IRModule)
X, W = np.random.default_rng(0).random((2, 16, 16), "float32")
B = np.arange(16, dtype="float32")
BOUND = BindParams("main", {"w": W, "b": B})(MODEL)


def program(free: Sequence[int] = ()) -> IRModule:
    """Return `dense`, with parameters that may have any layout."""
    func = MODEL["dense"].with_attr("global_symbol", "main")
    return IRModule({"main": func.with_attr("layout_free_buffers", free) if free else func})


def tiled(mod: IRModule) -> Schedule:
    """Return the product in tiles, which reads a weight that may have any layout in their order."""
    sch = Schedule(mod)
    block = sch.get_block("Y")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 8])
    sch.reorder(j0, i, k, j1)
    sch.enter_postproc()
    sch.vectorize(j1)
    assert RewriteLayout().apply(sch)
    return sch


def recorded(*programs: tuple[Sequence[int], float]) -> Database:
    """Return a database with a record for each list of free parameters, with its seconds."""
    database = MemoryDatabase()
    for free, seconds in programs:
        commit(database, tiled(program(free)), program(free), seconds)
    return database


def kernels(executable: codegen.Executable, *args: np.ndarray) -> list[str]:
    """Return the kernels that a call runs, having checked what it computes."""
    vm = codegen.VirtualMachine(executable, codegen.cpu(), profile=True)
    np.testing.assert_allclose(vm["main"](*args), (X @ W.T + B) @ W.T + B, rtol=1e-4)
    return [row.name for row in vm.profile("main", *args).rows]


def constants(executable: codegen.Executable) -> list[tuple[int, ...]]:
    nodes = walk(executable.mod["main"].body)
    return sorted({node.data.shape for node in nodes if isinstance(node, Constant)})


def test_weights_are_packed_when_the_model_is_built() -> None:
    with recorded(([1], 1e-6)):
        executable = codegen.vm_build(BOUND, TARGET)
    assert kernels(executable, X) == ["dense_prepacked", "dense_prepacked"]
    assert sorted(executable.mod.functions) == ["dense_prepacked", "main"]
    assert constants(executable) == [(2, 16, 8), (16,)]
    assert executable.mod["dense_prepacked"].attrs["tir.is_scheduled"]


def test_an_exported_model_holds_them_packed(tmp_path: Path) -> None:
    with recorded(([1], 1e-6)):
        executable = codegen.vm_build(BOUND, TARGET)
    executable.export_library(tmp_path / "model.so")
    vm = codegen.VirtualMachine(codegen.load_module(tmp_path / "model.so"))
    np.testing.assert_allclose(vm["main"](X), (X @ W.T + B) @ W.T + B, rtol=1e-4)


def test_a_schedule_that_a_module_was_given_packs_too() -> None:
    mod = BOUND.clone()
    best = tiled(program([1])).mod
    mod.update_func("dense", best["main"].with_attr("global_symbol", "dense"))
    executable = codegen.vm_build(mod, TARGET)
    assert kernels(executable, X) == ["dense_prepacked", "dense_prepacked"]
    assert constants(executable) == [(2, 16, 8), (16,)]


def test_without_a_schedule_nothing_changes() -> None:
    executable = codegen.vm_build(BOUND, TARGET, default_schedules=False)
    assert kernels(executable, X) == ["dense", "dense"]
    assert "layout_free_buffers" not in executable.mod["dense"].attrs


@pytest.mark.parametrize("attrs", [{}, {"num_input": 1}], ids=["inputs", "weights"])
def test_arguments_are_not_packed_in_each_call(attrs: dict[str, int]) -> None:
    """The record is of a program in which the weight is packed already, so it is not this one."""
    mod = MODEL.clone()
    mod["main"] = mod["main"].with_attr(attrs)
    with recorded(([1], 1e-6)):
        executable = codegen.vm_build(mod, TARGET, default_schedules=False)
    assert kernels(executable, X, W, B) == ["dense", "dense"]
    assert "tir.is_scheduled" not in executable.mod["dense"].attrs


def test_one_function_may_be_called_both_ways() -> None:
    mod = MODEL.clone()
    mod["other"] = renew_defs(BOUND["main"]).with_attr("global_symbol", "other")
    with recorded(([1], 1e-6), ([], 2e-6)):
        executable = codegen.vm_build(mod, TARGET, default_schedules=False)
    assert kernels(executable, X, W, B) == ["dense", "dense"]
    np.testing.assert_allclose(
        codegen.VirtualMachine(executable)["other"](X), (X @ W.T + B) @ W.T + B, rtol=1e-4
    )
    assert sorted(executable.mod.functions) == ["dense", "dense1_prepacked", "main", "other"]


# ------------------------------------------------------------------------- which records are taken


@pytest.mark.parametrize(
    ("asked", "records", "taken"),
    [
        ([1, 2], [([1, 2], 3e-6)], [1, 2]),
        ([1, 2], [([], 3e-6)], []),
        ([1, 2], [([1], 3e-6)], [1]),
        ([1, 2], [([], 3e-6), ([1, 2], 2e-6)], [1, 2]),
        ([1, 2], [([], 2e-6), ([1, 2], 3e-6)], []),
        ([], [([1], 1e-6)], None),
        ([], [([], 3e-6), ([1], 1e-6)], []),
        ([2], [([1], 1e-6)], None),
    ],
    ids=str,
)
def test_the_fastest_record_is_taken_that_asks_for_no_more(
    asked: list[int], records: list[tuple[list[int], float]], taken: list[int] | None
) -> None:
    found = ms.find_schedule(recorded(*records), program(asked), TARGET)
    if taken is None:
        assert found is None
        return
    assert found is not None
    assert found.how == "exact"
    attrs = found.record.workload.mod["main"].attrs
    assert [int(k) for k in attrs.get("layout_free_buffers", ())] == taken


def test_a_function_built_alone_takes_weights_as_they_are() -> None:
    """Without a graph nothing can run before the call: the function packs what it is given."""
    with recorded(([1], 1e-6)):
        library = codegen.build(program([1]), TARGET)
    out = np.zeros((16, 16), "float32")
    library["main"](X, W, B, out)
    np.testing.assert_allclose(out, X @ W.T + B, rtol=1e-4)


def test_a_search_finds_layouts_for_the_weights_of_a_model(
    tmp_path: Path, measured: dict[str, Any]
) -> None:
    told = AttachAttrLayoutFreeBuffers()(BOUND)
    database = ms.tune_module(
        told,
        TARGET,
        tmp_path,
        max_trials_global=1,
        num_trials_per_iter=1,
        seed=1,
        **measured,
    )
    with database:
        executable = codegen.vm_build(BOUND, TARGET)
    assert kernels(executable, X) == ["dense_prepacked", "dense_prepacked"]
