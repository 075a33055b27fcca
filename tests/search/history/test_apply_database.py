"""The functions of a module get the schedules that a database has of them."""

import logging
import re
from pathlib import Path

import pytest

import search as ms
from codegen import Target
from schedule import Schedule
from search.database import (
    Database,
    JSONDatabase,
    KeyedDatabase,
    MemoryDatabase,
    OrderedUnionDatabase,
    SQLDatabase,
    UnionDatabase,
)
from tensorir import assert_structural_equal, parse
from tensorir.function import IRModule, PrimFunc
from tests.search import programs
from tests.search.anchored_programs import (
    TARGET,
    adds_one,
    assert_same_results,
    commit,
    dense,
    graph_function,
    matmul,
    product,
    tiled,
)

MODEL = IRModule({"main": graph_function(), "linear0": product, "shift": adds_one})


def of_matmul(kind: type[Database] = MemoryDatabase, *args: Path) -> Database:
    """Return a database with a record of `matmul`."""
    database = kind(*args)
    commit(database, tiled(cached=True), IRModule({"main": matmul}))
    return database


# ------------------------------------------------------------------------------- what is replaced


@pytest.mark.parametrize("equality", ["structural", "anchor-block"])
def test_traces_call_the_function_that_they_were_recorded_on(equality: str) -> None:
    database = MemoryDatabase(equality)
    mod = IRModule({"gemm": matmul})
    sch = Schedule(mod)
    i, j, k = sch.get_loops(sch.get_block("C", "gemm"))
    sch.reorder(i, k, j)
    sch.vectorize(j)
    commit(database, sch, mod)
    asked = IRModule({"linear0": product, "act": dense})
    applied = ms.apply_database(asked, database, TARGET)
    assert applied["linear0"] is not product
    assert (applied["act"] is not dense) is (equality == "anchor-block")
    assert_same_results(applied, asked)


def test_all_else_stays_as_it_is() -> None:
    before = MODEL.clone()
    applied = ms.apply_database(MODEL, of_matmul(), TARGET)
    assert applied["main"] is MODEL["main"]
    assert applied["shift"] is MODEL["shift"]
    assert all(MODEL[name] is before[name] for name in before)
    again = ms.apply_database(applied, of_matmul(), TARGET)
    assert again["linear0"] is applied["linear0"], "its schedule is final"


@pytest.mark.parametrize("kind", [JSONDatabase, SQLDatabase, MemoryDatabase])
@pytest.mark.parametrize(
    ("attrs", "found"),
    [
        ({}, True),
        ({"tir.noalias": True}, True),
        ({"tir.noalias": False}, False),
        ({"op_pattern": 4, "global_symbol": "fused"}, True),
        ({"layout_free_buffers": [1]}, True),  # a schedule need not make use of it
        ({"tir.no_contraction": True}, False),
    ],
)
def test_attributes_that_change_no_schedule_do_not_count(
    kind: type[KeyedDatabase], attrs: dict[str, object], found: bool, tmp_path: Path
) -> None:
    database = kind() if kind is MemoryDatabase else kind(work_dir=tmp_path)
    commit(database, tiled(cached=False), IRModule({"main": matmul}))
    asked = matmul.with_(attrs=attrs)
    assert (ms.find_schedule(database, asked, TARGET) is not None) is found


def test_indices_of_other_types_make_another_program() -> None:
    wide = parse(
        matmul.script().replace(
            "T.grid(16, 16, 16)", "T.grid(T.int64(16), T.int64(16), T.int64(16))"
        )
    )
    assert isinstance(wide, PrimFunc)
    assert ms.find_schedule(of_matmul(), wide, TARGET) is None


def test_records_of_another_target_are_not_applied() -> None:
    with Target("llvm -mcpu=skylake-avx512 -num-cores=1"):
        assert ms.apply_database(MODEL, of_matmul())["linear0"] is product
    with TARGET:
        assert ms.apply_database(MODEL, of_matmul())["linear0"] is not product


def test_a_schedule_that_changes_the_parameters_is_not_applied(
    caplog: pytest.LogCaptureFixture,
) -> None:
    database = MemoryDatabase()
    sch = Schedule(matmul)
    sch.transform_layout("C", ("read", 1), lambda k, j: (j // 4, k, j % 4))
    commit(database, sch, IRModule({"main": matmul}))
    mod = IRModule({"linear0": product})
    assert ms.apply_database(mod, database, TARGET)["linear0"] is product
    assert re.search(
        'Function "linear0": its schedule is not applied, as it changes the parameters: '
        "w cannot replace B: it has 2 dimension",
        caplog.text,
    )


# ------------------------------------------------------------------------------ how it was found


def test_who_asks_is_told_what_was_found(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "tensorir.search")
    database = of_matmul()
    mod = IRModule({**MODEL.functions, "act": dense})
    found = ms.find_schedules(mod, database, TARGET, module_equality="anchor-block")
    assert {name: answer and answer.how for name, answer in found.items()} == {
        "linear0": "exact",
        "act": "anchor",
        "shift": None,
    }
    linear = found["linear0"]
    assert linear is not None
    assert linear.record.run_secs == [1e-6]
    assert caplog.messages == [
        'Function "act": the schedule of another program with its main block, recorded with 1 us',
        'Function "linear0": the schedule recorded for it, with 1 us',
        'Function "shift": no record',
        f'Function "shift": no schedule for {TARGET}: a database in memory has 1 record(s), all of '
        "other programs; tune it",
    ]


def test_a_record_of_the_program_itself_comes_before_faster_ones_of_others() -> None:
    database = MemoryDatabase("anchor-block")
    mod = IRModule({"main": dense})
    commit(database, tiled(cached=True), IRModule({"main": matmul}), 1e-6)
    own = Schedule(mod)
    own.parallel(own.get_loops("relu")[0])
    commit(database, own, mod, 5e-6)
    found = ms.find_schedule(database, dense, TARGET)
    assert found is not None
    assert found.how == "exact"
    assert_structural_equal(found.schedule.mod, own.mod)
    assert database.query_tuning_record(mod, TARGET) is found.record
    faster = MemoryDatabase("anchor-block")
    commit(faster, tiled(cached=True), IRModule({"main": matmul}), 1e-6)
    for union in (UnionDatabase(faster, database), UnionDatabase(database, faster)):
        assert union.query_tuning_record(mod, TARGET) is found.record


def test_a_record_of_another_program_is_no_schedule_of_this_one() -> None:
    database = MemoryDatabase("anchor-block")
    commit(database, tiled(cached=True), IRModule({"main": matmul}))
    assert database.query_schedule(IRModule({"main": dense}), TARGET) is None
    best = ms.compile_tir(database, dense, TARGET)
    assert best is not None
    assert_same_results(best.mod, IRModule({"main": dense}))


def test_members_of_a_union_answer_for_other_programs() -> None:
    union = UnionDatabase(MemoryDatabase(), of_matmul())
    mod = IRModule({"act": dense})
    assert ms.apply_database(mod, union, TARGET)["act"] is dense
    applied = ms.apply_database(mod, union, TARGET, module_equality="anchor-block")
    assert applied["act"] is not dense
    assert_same_results(applied, mod)


def test_constants_are_those_of_the_program_that_asks() -> None:
    """A database that ignores the contents of arrays answers; they are not taken from there."""

    def scaled(value: int) -> IRModule:
        made = parse(
            f"""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    K = T.allocate_const([{value}, {value}, {value}, {value}], "float32", [4])
    weights = T.Buffer((4,), "float32", data=K)
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] * weights[vi]
"""
        )
        assert isinstance(made, PrimFunc)
        return IRModule({"main": made})

    database = MemoryDatabase("ignore-ndarray")
    sch = Schedule(scaled(2))
    sch.vectorize(sch.get_loops("B")[0])
    commit(database, sch, scaled(2))
    applied = ms.apply_database(scaled(3), database, TARGET)
    assert "T.vectorized(4)" in applied.script()
    assert_same_results(applied, scaled(3))


def test_databases_that_only_answer_are_applied() -> None:
    def parallel(sch: Schedule) -> bool:
        name = sch.mod["main"].attrs["task_name"]
        if name != "shift":
            return False
        sch.parallel(sch.get_loops(sch.get_block("y"))[0])
        return True

    by_hand = Database.create(parallel)
    applied = ms.apply_database(MODEL, OrderedUnionDatabase(by_hand, of_matmul()), TARGET)
    assert "T.parallel(16)" in IRModule({"f": applied["shift"]}).script()
    assert "task_name" not in applied["shift"].attrs


# ---------------------------------------------------------------------------------------- as a pass


def test_a_pass_takes_what_is_current() -> None:
    database = of_matmul()
    once = ms.transform.ApplyDatabase(database, TARGET)(MODEL)
    with TARGET, database:
        assert_structural_equal(ms.transform.ApplyDatabase()(MODEL)["linear0"], once["linear0"])
    assert ms.transform.ApplyDatabase.name == "ApplyDatabase"


# ----------------------------------------------------------------- tuning beside graph functions


CONFIG = ms.TuneConfig(max_trials_global=2, num_trials_per_iter=2, num_confirmed=0)


def test_the_one_tensor_function_of_a_model_is_tuned(
    tmp_path: Path, measured: dict[str, object]
) -> None:
    mod = IRModule({"main": graph_function(), "linear0": matmul})
    best = ms.tune_tir(
        mod,
        TARGET,
        CONFIG,
        tmp_path,
        space=programs.split_all,
        cost_model="random",
        **measured,
    )
    assert best is not None
    mod.update_func("linear0", best.mod["main"])
    assert_same_results(IRModule({"f": mod["linear0"]}), IRModule({"f": matmul}))
