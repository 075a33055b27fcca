"""What a database knows teaches a cost model before the first trial."""

from collections.abc import Sequence

import pytest

import search as ms
from codegen import Target
from schedule import Schedule, Trace
from search.cost_model import CostModel, RandomModel, XGBModel
from search.database import Database, MemoryDatabase, TuningRecord
from search.database.records import FAILED
from search.runner import RunnerResult
from search.runner.measure_candidate import MeasureCandidate
from search.runs.next_batch import learn_from_records
from search.task import normalize_mod
from tensorir import workloads
from tensorir.function import IRModule
from tests.search.programs import Matmul

TARGET = "llvm -num-cores=1"
LARGER = normalize_mod(workloads.create("GMM", n=64, m=64, k=64))
NORM = normalize_mod(workloads.create("NRM"))


class Pupil(RandomModel):
    """Remembers the times that it was shown, None for failures."""

    def __init__(self) -> None:
        super().__init__(seed=0)
        self.shown: list[list[float | None]] = []

    def knows(self, context: ms.TuneContext, trace: Trace) -> bool:
        return False

    def update(
        self,
        context: ms.TuneContext,
        candidates: Sequence[MeasureCandidate],
        results: Sequence[RunnerResult],
    ) -> None:
        self.shown.append([result.median_secs for result in results])


def commit(
    database: Database,
    mod: IRModule,
    seconds: Sequence[float],
    target: str = TARGET,
) -> None:
    """Record schedules that only annotate a loop, each with a time."""
    for k, time in enumerate(seconds):
        sch = Schedule(mod)
        block = sch.get_child_blocks(sch.get_block("root"))[0]
        sch.annotate(sch.get_loops(block)[0], "number", k)
        workload = database.commit_workload(mod)
        args = ms.arg_info.ArgInfo.from_entry_func(mod)
        record = TuningRecord(sch.trace, workload, (time,), Target(target), args)
        database.commit_tuning_record(record)


def task(mod: IRModule = Matmul) -> ms.TuneContext:
    return ms.TuneContext(mod, target=TARGET)


def test_records_of_the_task_and_of_other_workloads_teach() -> None:
    database, model = MemoryDatabase(), Pupil()
    commit(database, Matmul, [3e-6, 2e-6])
    commit(database, LARGER, [5e-6])
    commit(database, NORM, [7e-6, 8e-6])
    assert learn_from_records(model, database, task()) == 5
    assert model.shown == [[3e-6, 2e-6], [5e-6], [7e-6, 8e-6]]


def test_failures_teach() -> None:
    database, model = MemoryDatabase(), Pupil()
    commit(database, Matmul, [3e-6, FAILED])
    learn_from_records(model, database, task())
    assert model.shown == [[3e-6, None]]


def test_times_on_other_targets_do_not_teach() -> None:
    database, model = MemoryDatabase(), Pupil()
    commit(database, Matmul, [3e-6], target="llvm -num-cores=4")
    commit(database, LARGER, [3e-6], target="llvm -num-cores=4")
    assert learn_from_records(model, database, task()) == 0


def test_other_workloads_share_a_bounded_number_of_replays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("search.runs.next_batch._MOST_OF_OTHERS", 4)
    database, model = MemoryDatabase(), Pupil()
    for mod in (LARGER, NORM):
        commit(database, mod, [1e-6, 2e-6, 3e-6, 4e-6, 5e-6])
    assert learn_from_records(model, database, task()) == 4
    assert model.shown == [[4e-6, 5e-6], [4e-6, 5e-6]], "the latest of each"


def test_a_record_is_learned_once() -> None:
    database, model = MemoryDatabase(), XGBModel()
    commit(database, Matmul, [k * 1e-6 for k in range(1, 8)])
    commit(database, LARGER, [k * 1e-6 for k in range(1, 8)])
    assert learn_from_records(model, database, task()) == 14
    assert learn_from_records(model, database, task(LARGER)) == 0
    assert model.data_size == 14


def test_a_model_of_the_base_class_has_nothing_to_learn() -> None:
    database = MemoryDatabase()
    commit(database, Matmul, [3e-6])
    model: CostModel = RandomModel(seed=0)
    assert learn_from_records(model, database, task()) == 0
