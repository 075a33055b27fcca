"""What is current inside of `with`: a database, and what is done about what it does not have."""

import logging
from pathlib import Path

import pytest

import codegen
import search as ms
from codegen import Target
from codegen.history import with_history
from schedule import Schedule
from search.database import Database, JSONDatabase, MemoryDatabase, TuningRecord, Workload
from search.transform import ApplyDatabase
from tensorir import assert_structural_equal
from tensorir.function import IRModule
from tests.search.anchored_programs import TARGET, assert_same_results
from tests.search.compatible_programs import commit, convolution, product, tiled_product

SMALL, LARGE = product(16, 16, 16), product(32, 64, 16)


class Rows(ms.Sampler):
    """Runs the rows of a program in parallel, and counts how often it is asked."""

    def __init__(self, gives_up: bool = False) -> None:
        self.asked: list[str] = []
        self._gives_up = gives_up

    def sample(self, mod: IRModule, target: Target, task_name: str = "main") -> TuningRecord | None:
        self.asked.append(f"{task_name} for {target.num_cores}")
        sch = Schedule(mod)
        sch.parallel(sch.get_loops("C")[0])
        return None if self._gives_up else TuningRecord(sch.trace, Workload(mod), target=target)


@pytest.fixture
def database() -> MemoryDatabase:
    made = MemoryDatabase()
    commit(made, SMALL, tiled_product(SMALL), 1e-6)
    return made


# ------------------------------------------------------------------------------------ what is current


def test_the_innermost_is_current(database: MemoryDatabase) -> None:
    history = ms.History(database, include_compatible=True)
    with history:
        assert Database.current() is database
        with MemoryDatabase() as inner:
            assert Database.current() is inner
            assert ms.History.current() is not history
        assert ms.History.current() is history
    with pytest.raises(codegen.CodegenError, match="is left before another one"), history:
        MemoryDatabase().__enter__()
    Database.current().__exit__()  # type: ignore[union-attr]
    history.__exit__()


def test_a_pass_takes_the_options_of_the_history(database: MemoryDatabase) -> None:
    mod = IRModule({"dense": LARGE["main"]})
    with ms.History(database, include_compatible=True):
        applied = ApplyDatabase(target=TARGET)(mod)
    assert_structural_equal(applied, ApplyDatabase(database, TARGET, include_compatible=True)(mod))
    assert applied["dense"] is not mod["dense"]
    assert ApplyDatabase(database, TARGET)(mod)["dense"] is mod["dense"]
    with database:
        assert ApplyDatabase(target=TARGET)(mod)["dense"] is mod["dense"]
        again = ApplyDatabase(target=TARGET, include_compatible=True)(mod)
    assert_structural_equal(again, applied)


# ----------------------------------------------------------------------------------- what is sampled


def test_a_program_is_sampled_once_for_each_target(
    database: MemoryDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tensorir.search")
    rows = Rows()
    mod = IRModule({"dense0": LARGE["main"], "dense1": LARGE["main"], "known": SMALL["main"]})
    with ms.History(database, sample_on_miss=rows) as history:
        first, second = with_history(mod, TARGET), with_history(mod, TARGET)
        assert_structural_equal(first, second)
        found = [history.find(LARGE, TARGET) for _ in range(2)]
        assert rows.asked == ["dense0 for 1"]
        history.find(LARGE, "llvm -num-cores=2")
        assert rows.asked == ["dense0 for 1", "main for 2"]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].how == "sampled"
    assert found[0].expected_seconds is None
    assert_structural_equal(found[0].schedule.mod, found[1].schedule.mod)
    assert len(database) == 1, "it is not written to"
    assert caplog.messages[:3] == [
        'Function "dense0": a sampled schedule, not measured',
        'Function "dense1": a sampled schedule, not measured',
        'Function "known": the schedule recorded for it, with 1 us',
    ]


def test_that_nothing_came_of_sampling_is_remembered_too(database: MemoryDatabase) -> None:
    rows = Rows(gives_up=True)
    history = ms.History(database, sample_on_miss=rows)
    assert history.find(LARGE, TARGET) is None
    assert history.find(LARGE, TARGET) is None
    assert len(rows.asked) == 1


# ----------------------------------------------------------------------- records that do not replay


def of_another_program() -> Schedule:
    """Return a schedule of another program."""
    sch = Schedule(convolution())
    sch.compute_inline("p")
    return sch


def test_a_record_that_does_not_replay_gives_way_to_the_next(
    database: MemoryDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    commit(database, SMALL, of_another_program(), 1e-7)
    found = ms.find_schedule(database, SMALL, TARGET, "dense")
    assert found is not None
    assert found.record.run_secs == [1e-6]
    (message,) = caplog.messages
    assert message.startswith(
        "left out 1 record(s) whose traces do not apply any more: a record of workload "
        f"{Workload(SMALL).shash} with 0.1 us: "
    )
    assert message.endswith("see database.validate() for all such records")
    ms.find_schedule(database, SMALL, TARGET, "dense")
    assert len(caplog.messages) == 1, "it is said once"
    assert len(database.validate()) == 1


def test_a_build_goes_on_as_if_nothing_were_known(caplog: pytest.LogCaptureFixture) -> None:
    database = MemoryDatabase()
    commit(database, LARGE, of_another_program())
    plain = codegen.build(LARGE, TARGET)
    with database:
        assert codegen.build(LARGE, TARGET).get_source() == plain.get_source()
    assert "whose traces do not apply any more" in caplog.text
    commit(database, SMALL, tiled_product(SMALL))
    with ms.History(database, include_compatible=True):
        assert codegen.build(LARGE, TARGET).get_source() != plain.get_source()


def test_a_broken_line_of_a_file_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = JSONDatabase(work_dir=tmp_path)
    commit(database, SMALL, tiled_product(SMALL), 1e-6)
    path = tmp_path / "database_tuning_record.json"
    line = path.read_text()
    path.write_text(line + line.replace('"Reorder"', '"Recorder"').replace("1e-06", "1e-07"))
    found = ms.find_schedule(JSONDatabase(work_dir=tmp_path), SMALL, TARGET)
    assert found is not None
    assert found.record.mean_seconds == 1e-6
    assert f"{path}:2: " in caplog.text
    assert_same_results(found.schedule.mod, SMALL)
