"""Builds inside of `with database:` take the schedules that it has."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import codegen
import search as ms
from codegen.history import KnownSchedules, with_history
from schedule import Schedule
from search.builder import Builder, BuilderInput, BuilderResult
from search.database import MemoryDatabase, TuningRecord
from search.runner import EvaluatorConfig, LocalRunner
from tensorir import T
from tensorir.function import IRModule, PrimFunc
from tests.search import programs
from tests.search.anchored_programs import (
    TARGET,
    adds_one,
    commit,
    dense,
    graph_function,
    matmul,
    product,
    tiled,
)


class Asked(MemoryDatabase):
    """Counts how often it is asked."""

    count_asked = 0

    def query_tuning_records(
        self, mod: IRModule, target: object, workload_name: str = "main"
    ) -> Sequence[TuningRecord]:
        self.count_asked += 1
        return super().query_tuning_records(mod, TARGET, workload_name)


@pytest.fixture
def database() -> Asked:
    made = Asked("anchor-block")
    commit(made, tiled(cached=True), IRModule({"main": matmul}))
    return made


def call(library: codegen.Module, name: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((16, 16)).astype("float32") for _ in range(2))
    out = np.zeros((16, 16), "float32")
    library[name](x, w, out)
    return out


def test_a_build_takes_the_schedule_of_the_current_database(database: Asked) -> None:
    linear = product.with_attr("global_symbol", "linear0")
    plain = codegen.build(linear, TARGET)
    with database:
        best = codegen.build(linear, TARGET)
    assert list(best) == ["linear0"]
    assert best.get_source() != plain.get_source()
    applied = ms.apply_database(IRModule.from_expr(linear), database, TARGET)
    assert best.get_source() == codegen.build(applied, TARGET).get_source()
    np.testing.assert_allclose(call(best, "linear0"), call(plain, "linear0"), rtol=1e-4, atol=1e-5)
    assert codegen.build(linear, TARGET).get_source() == plain.get_source(), "outside of it"


def test_programs_around_the_same_anchor_are_built_with_its_schedule(database: Asked) -> None:
    with database:
        best = codegen.build(dense, TARGET)
    assert best.get_source() != codegen.build(dense, TARGET).get_source()


def test_functions_of_a_graph_stay_as_they_are(database: Asked) -> None:
    mod = IRModule({"main": graph_function(), "linear0": product}, {"kept": 1})
    with database:
        best = with_history(mod, TARGET)
    assert isinstance(best, IRModule)
    assert best["main"] is mod["main"]
    assert bool(best["linear0"].attrs["tir.is_scheduled"])
    assert best.attrs == mod.attrs


def test_nothing_changes_where_nothing_is_found(database: Asked) -> None:
    mod = IRModule({"shift": adds_one})
    with database:
        assert with_history(mod, TARGET) is mod
    assert database.count_asked == 1


def test_functions_that_are_scheduled_or_have_no_blocks_are_not_looked_up(database: Asked) -> None:
    @T.prim_func
    def loops(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = T.float32(1)

    final = product.with_attr({"tir.is_scheduled": True, "global_symbol": "linear0"})
    with database:
        for func in (final, loops):
            assert (
                codegen.build(func, TARGET).get_source() == codegen.build(func, TARGET).get_source()
            )
    assert database.count_asked == 0


class BuildsHere(Builder):
    """A builder of a user, which calls `codegen.build` in the process of the search."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count_built = 0

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        results = []
        for entry in build_inputs:
            codegen.build(entry.mod, entry.target)
            self.count_built += 1
            path = self.folder / f"{self.count_built}.o"
            path.write_bytes(codegen.compile_object(entry.mod, entry.target))
            results.append(BuilderResult(str(path)))
        return results


def test_a_search_measures_what_the_traces_say(database: Asked, tmp_path: Path) -> None:
    """Neither its candidates nor the program that checks results come from a database."""
    builder = BuildsHere(tmp_path)
    config = ms.TuneConfig(max_trials_global=2, num_trials_per_iter=2)
    with database:
        ms.tune_tir(
            matmul,
            TARGET,
            config,
            tmp_path / "work",
            space=programs.split_all,
            cost_model="random",
            builder=builder,
            runner=LocalRunner(evaluator_config=EvaluatorConfig(1, 1, 1)),
        )

        def as_it_is(sch: Schedule) -> None:
            assert sch.trace.insts == []

        ms.random_search(matmul, as_it_is, 1, TARGET, verbose=False)
    assert builder.count_built > 2
    assert database.count_asked == 0


def test_a_lookup_of_ones_own_is_asked() -> None:
    asked = []

    class Asked(KnownSchedules):
        def scheduled(self, name: str, func: PrimFunc, target: codegen.Target) -> None:
            asked.append((name, target))

    with Asked():
        codegen.build(IRModule({"shift": adds_one}), TARGET)
    assert asked == [("shift", TARGET)]


def test_without_the_search_nothing_is_imported() -> None:
    program = (
        "import sys, codegen\n"
        "from tensorir import te\n"
        "A = te.placeholder((4,), name='A')\n"
        "codegen.build(te.create_prim_func([A, te.compute((4,), lambda i: A[i] + 1)]))\n"
        "assert not [name for name in sys.modules if name.split('.')[0] == 'search']\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_schedule_is_no_program() -> None:
    with pytest.raises(codegen.CodegenError, match=r"got Schedule; pass its \.mod"):
        codegen.build(Schedule(programs.Matmul))
