"""A program without records gets the schedule of one with shorter loops."""

import logging
from pathlib import Path

import pytest

import search as ms
from schedule import Schedule
from search.context import TuneContext
from search.database import (
    Database,
    MemoryDatabase,
    OrderedUnionDatabase,
    SQLDatabase,
    UnionDatabase,
)
from search.history.adapted_replay import ReplayError, schedule_by_compatible
from search.run import open_database
from search.task import normalize_mod
from tensorir import assert_structural_equal, parse, workloads
from tensorir.function import IRModule
from tensorir.nodes.expr import IntImm
from tests.search.anchored_programs import TARGET, assert_same_results
from tests.search.compatible_programs import commit, convolution, product, tiled_product
from tests.search.test_whole_run import Lists

SMALL, LARGE = product(16, 16, 16), product(32, 64, 16)


def adapted(recorded: IRModule, sch: Schedule, mod: IRModule) -> Schedule:
    """Replay a schedule on a larger program, and see that the result computes the same."""
    result = schedule_by_compatible(mod, sch.trace, recorded, TARGET)
    assert_same_results(result.mod, mod)
    again = Schedule(mod)
    result.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, result.mod)
    return result


def extents(sch: Schedule, block: str) -> list[int]:
    """Return the lengths of the loops around a block."""
    lengths = [sch.get(loop).extent for loop in sch.get_loops(sch.get_block(block))]
    return [length.value for length in lengths if isinstance(length, IntImm)]


# ------------------------------------------------------------------------------- what is replayed


def test_tiles_keep_their_inner_parts() -> None:
    sch = tiled_product(SMALL)
    assert extents(sch, "C") == [4, 2, 4, 4, 4, 8]
    assert extents(adapted(SMALL, sch, LARGE), "C") == [8, 8, 4, 4, 4, 8]


@pytest.mark.parametrize(
    ("factors", "wanted"),
    [
        ([4, 4], [8, 4]),
        ([None, 4], [8, 4]),
        ([4, None], [4, 8]),
        ([2, 2, 4], [4, 2, 4]),
        ([6, 3], [11, 3]),
        ([64, 4], [64, 4]),
    ],
)
def test_the_first_number_of_a_split_is_what_the_others_leave(
    factors: list[int | None], wanted: list[int]
) -> None:
    sch = Schedule(SMALL)
    sch.split(sch.get_loops("C")[0], factors)
    assert extents(adapted(SMALL, sch, LARGE), "C")[: len(wanted)] == wanted


def test_blocks_are_found_by_their_place() -> None:
    """The program calls its blocks and its function otherwise; `y` is another block of it."""
    text = convolution(batch=4).script()
    renamed = text.replace('T.block("y")', 'T.block("out")').replace('T.block("p")', 'T.block("y")')
    large = parse(renamed)
    assert isinstance(large, IRModule)
    asked = IRModule({"conv": large["main"]})
    small = convolution()
    sch = Schedule(small)
    sch.compute_inline("p")
    sch.parallel(sch.get_loops("y")[1])
    result = schedule_by_compatible(asked, sch.trace, small, TARGET)
    assert 'T.block("y")' not in result.mod.script()
    assert "T.parallel" in result.mod.script()


def test_whatever_the_search_samples_keeps_its_inner_tiles() -> None:
    for space in ms.design_spaces(SMALL, TARGET):
        for seed in range(1, 9):
            sch = Schedule(SMALL, seed=seed)
            space.trace.apply_to_schedule(sch, False, decision_provider=lambda *_: None)
            result = schedule_by_compatible(LARGE, sch.trace, SMALL, TARGET)
            before, after = (
                [t.decisions[i] for i in t.insts if i.kind.name == "SamplePerfectTile"]
                for t in (sch.trace, result.trace)
            )
            assert before
            assert [tile[1:] for tile in before] == [tile[1:] for tile in after]


def test_convolutions_of_more_and_larger_images() -> None:
    small = convolution()
    sch = Schedule(small)
    block = sch.get_block("y")
    n, i, j, f, *_ = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, n=2, decision=[4, 2]))
    sch.reorder(n, i0, j, i1)
    sch.compute_at("p", i0)
    sch.vectorize(f)
    result = adapted(small, sch, convolution(batch=8))
    assert extents(result, "y")[:4] == [8, 4, 8, 2]
    result = adapted(small, sch, convolution(size=16))
    assert extents(result, "y")[:4] == [1, 8, 16, 2]


# -------------------------------------------------------------------------------- what is found


@pytest.mark.parametrize("kind", ["memory", "json", "sql"])
def test_records_of_shorter_programs_are_found(kind: str, tmp_path: Path) -> None:
    database = open_database(kind, tmp_path)
    commit(database, SMALL, tiled_product(SMALL), 1e-6)
    commit(database, convolution(), Schedule(convolution()), 1e-6)
    assert ms.find_schedule(database, LARGE, TARGET) is None
    for _ in range(2):
        found = ms.find_schedule(database, LARGE, TARGET, include_compatible=True)
        assert found is not None
        assert (found.how, found.factor) == ("compatible", 8)
        assert found.expected_seconds == pytest.approx(8e-6)
        assert_same_results(found.schedule.mod, LARGE)
    assert len(database) == 2, "nothing is added"
    middle = product(32, 32, 16)
    commit(database, middle, tiled_product(middle), 1.5e-6)
    found = ms.find_schedule(database, LARGE, TARGET, include_compatible=True)
    assert found is not None
    assert found.expected_seconds == pytest.approx(3e-6), "also those that were added since"


def test_a_file_keeps_what_it_was_asked_for(tmp_path: Path) -> None:
    commit(SQLDatabase(work_dir=tmp_path), SMALL, tiled_product(SMALL))
    for _ in range(2):
        database = SQLDatabase(work_dir=tmp_path)
        assert ms.find_schedule(database, LARGE, TARGET, include_compatible=True) is not None
        assert ms.find_schedule(database, convolution(), TARGET, include_compatible=True) is None


def test_all_databases_of_a_union_are_asked() -> None:
    first, second = MemoryDatabase(), MemoryDatabase()
    commit(first, SMALL, tiled_product(SMALL), 2e-6)
    commit(second, SMALL, tiled_product(SMALL), 1e-6)
    for union, seconds in (
        (UnionDatabase(first, second), 1e-6),
        (OrderedUnionDatabase(MemoryDatabase(), first, second), 2e-6),
    ):
        found = ms.find_schedule(union, LARGE, TARGET, include_compatible=True)
        assert found is not None
        assert found.record.run_secs == [seconds]
    function = Database.create(lambda sch: False)
    assert ms.find_schedule(function, LARGE, TARGET, include_compatible=True) is None


def test_databases_of_users_are_asked() -> None:
    database = Lists()
    commit(database, convolution(), Schedule(convolution()), 1e-7)
    commit(database, SMALL, tiled_product(SMALL))
    found = ms.find_schedule(database, LARGE, TARGET, include_compatible=True)
    assert found is not None
    assert found.how == "compatible"


def test_records_for_another_target_do_not_count() -> None:
    database = MemoryDatabase()
    commit(database, SMALL, tiled_product(SMALL))
    other = "llvm -mcpu=skylake-avx512 -num-cores=1"
    assert ms.find_schedule(database, LARGE, other, include_compatible=True) is None


def test_a_record_that_does_not_fit_gives_way_to_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A copy is called after its buffer, which has another name here."""
    caplog.set_level(logging.DEBUG, "tensorir.search")
    renamed = parse(LARGE.script().replace("C[", "D[").replace("C:", "D:"))
    assert isinstance(renamed, IRModule)
    database = MemoryDatabase()
    sch = Schedule(SMALL)
    sch.cache_write("C", 0, "global")
    sch.vectorize(sch.get_loops(sch.get_block("C_global"))[-1])
    with pytest.raises(ReplayError, match="GetBlock does not apply: "):
        schedule_by_compatible(renamed, sch.trace, SMALL, TARGET)
    commit(database, SMALL, sch, 1e-7)
    assert ms.find_schedule(database, renamed, TARGET, include_compatible=True) is None
    commit(database, SMALL, tiled_product(SMALL), 1e-6)
    found = ms.find_schedule(database, renamed, TARGET, include_compatible=True)
    assert found is not None
    assert found.record.run_secs == [1e-6]
    assert "A record of another program does not apply: GetBlock" in caplog.text


def test_who_asks_is_told_what_to_expect(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tensorir.search")
    database = MemoryDatabase()
    commit(database, SMALL, tiled_product(SMALL), 2e-6)
    mod = IRModule({"dense": LARGE["main"]})
    applied = ms.apply_database(mod, database, TARGET, include_compatible=True)
    assert caplog.messages == [
        'Function "dense": the schedule of a program with shorter loops, 16 us expected: 8 '
        "times that of the other, recorded with 2 us"
    ]
    assert_same_results(applied, mod)
    assert ms.apply_database(mod, database, TARGET)["dense"] is LARGE["main"]


def test_operators_of_networks_in_two_sizes() -> None:
    """What the search finds for one image is applied to eight."""
    small = normalize_mod(workloads.create("C2D", h=16, w=16, co=16))
    large = normalize_mod(workloads.create("C2D", h=16, w=16, co=16, n=8))
    context = TuneContext(small, target=TARGET, space_generator="post-order-apply", rand_state=3)
    assert context.space_generator is not None
    for sch in context.generate_design_space():
        sch.enter_postproc()
        if all(postproc.apply(sch) for postproc in context.space_generator.postprocs):
            adapted(small, sch, large)
