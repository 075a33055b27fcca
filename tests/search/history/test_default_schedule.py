"""The schedule that rules and estimates give a program without a search."""

import gc
from functools import cache

import pytest

import search as ms
from schedule import Schedule
from search.errors import TuningError
from search.postproc import Postproc
from search.space_generator import PostOrderApply
from tensorir import IRModule, assert_structural_equal, te, topi
from tensorir.function import PrimFunc
from tests.search.anchored_programs import TARGET
from tests.search.compatible_programs import product

MOD = product(32, 32, 32)


@cache
def default() -> Schedule:
    """Return the schedule of `MOD`, which tests only look at."""
    return ms.default_schedule(MOD, TARGET)


class Refuses(Postproc):
    """Rejects the first so many schedules that it sees."""

    def __init__(self, first: int) -> None:
        self.left = first
        self.seen: list[str] = []

    def apply(self, sch: Schedule) -> bool:
        self.seen.append(str(sch.trace))
        self.left -= 1
        return self.left < 0


def refusing(first: int) -> tuple[Refuses, PostOrderApply]:
    postproc = Refuses(first)
    return postproc, PostOrderApply(postprocs=[postproc])


def test_where_a_postprocessor_rejects_the_best_the_next_best_is_taken() -> None:
    none, accepting = refusing(0)
    best = ms.default_schedule(MOD, TARGET, accepting)
    postproc, space = refusing(2)
    third = ms.default_schedule(MOD, TARGET, space)
    assert postproc.seen[0] == none.seen[0] == str(best.trace)
    assert postproc.seen[2] == str(third.trace)
    assert len(set(postproc.seen)) == 3


def test_where_all_are_rejected_the_program_stays() -> None:
    _, space = refusing(1 << 30)
    sch = ms.default_schedule(MOD, TARGET, space)
    assert not sch.trace.insts
    assert_structural_equal(sch.mod, MOD)


def test_a_module_of_several_functions_is_scheduled_function_by_function() -> None:
    mod = IRModule({"first": product(16, 16, 16)["main"], "second": MOD["main"]})
    scheduled = ms.apply_default_schedules(mod, TARGET)
    assert_structural_equal(scheduled["second"].body, default().mod["main"].body)
    assert scheduled["first"].attrs["tir.is_scheduled"]


def test_steps_that_have_an_order_keep_it() -> None:
    """Rows that are added to rows that indices name: some of them to the same one."""
    data = te.placeholder((8, 16, 24), name="data")
    places = te.placeholder((40, 1), "int64", "places")
    rows = te.placeholder((40, 16, 24), name="rows")
    added = topi.scatter_nd(data, places, rows, "add")
    mod = IRModule.from_expr(te.create_prim_func([data, places, rows, added]))
    assert "T.axis.opaque" in ms.default_schedule(mod, TARGET).mod.script()


def window_sums(before: te.Tensor, name: str) -> te.Tensor:
    window = te.reduce_axis((0, 4), f"w_{name}")
    return te.compute(
        (8, 64),
        lambda i, j: te.sum(before[i, (j + window) % 64] * before[i, j], axis=window),
        name=name,
    )


def chain_of_sums(length: int) -> PrimFunc:
    """Sums of windows of four, one after the other: each block has several designs."""
    data = last = te.placeholder((8, 64), name="x")
    for k in range(length):
        last = window_sums(last, f"sum{k}")
    return te.create_prim_func([data, last])


def test_the_choice_ends_however_many_blocks_have_several_designs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    applied: list[str] = []
    invoke = Schedule.invoke

    def counted(sch, kind, *args, **options):
        applied.append(kind.name)
        return invoke(sch, kind, *args, **options)

    monkeypatch.setattr(Schedule, "invoke", counted)
    assert ms.default_schedule(chain_of_sums(4), TARGET).trace.insts
    assert len(applied) < 4000


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_of_garbage_is_afterwards_as_it_was(collects: bool) -> None:
    (gc.enable if collects else gc.disable)()
    try:
        ms.default_schedule(product(16, 16, 16), TARGET)
        assert gc.isenabled() == collects
        with pytest.raises(TuningError):
            ms.default_schedule(IRModule({"a": MOD["main"], "b": MOD["main"]}), TARGET)
        assert gc.isenabled() == collects
    finally:
        gc.enable()
