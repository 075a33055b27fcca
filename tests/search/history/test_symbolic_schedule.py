"""Schedules of functions whose sizes are known when they are called."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import codegen
import search as ms
from schedule import Schedule
from search.database import MemoryDatabase, TuningRecord
from search.errors import ArgumentError
from search.history.adapted_replay import ReplayError
from search.history.any_size import schedule_for_any_size
from search.history.default_schedules import DefaultSchedules
from search.history.find_schedule import find_schedule
from search.history.size_dispatch import dispatch_on_sizes
from search.history.size_records import find_schedules_of_sizes
from search.history.symbolic_sizes import (
    check_sizes,
    open_sizes,
    representative_sizes,
    sizes_in,
    with_sizes,
)
from search.task import normalize_mod
from tensorir import assert_structural_equal, parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret
from tensorir.memory.layout_rewrite import layout_rewrites
from tests.search.anchored_programs import TARGET

PRODUCT = parse(
    """
@T.prim_func
def main(a: T.handle, B: T.Buffer((32, 64)), c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 32))
    C = T.match_buffer(c, (n, 64))
    Y = T.alloc_buffer((n, 64))
    for i, j, k in T.grid(n, 64, 32):
        with T.block("Y"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Y[vi, vj] = T.float32(0)
            Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(n, 64):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(Y[vi, vj], T.float32(0))
"""
)


@cache
def scheduled() -> Schedule:
    """Return the schedule of the product, which tests only look at."""
    return ms.default_schedule(PRODUCT, TARGET)


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 64])
def test_any_number_of_rows_is_computed(rows: int) -> None:
    sch = scheduled()
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((rows, 32), np.float32), rng.standard_normal((32, 64), np.float32)
    c = np.zeros((rows, 64), np.float32)
    codegen.build(sch.mod, TARGET)["main"](a, b, c)
    np.testing.assert_allclose(c, np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5)


def test_what_cannot_be_done_for_any_number_leaves_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from search.history import default_designs  # noqa: PLC0415

    def refuses(*_: object) -> Schedule:
        raise ReplayError("no")

    monkeypatch.setattr(default_designs, "schedule_for_any_size", refuses)
    assert ms.default_schedule(PRODUCT, TARGET).trace.insts == []


POOL = parse(
    """
@T.prim_func
def main(a: T.handle, c: T.handle):
    h = T.int64()
    w = T.int64()
    A = T.match_buffer(a, (16, h, w))
    C = T.match_buffer(c, (16, (h - 3) // 2 + 1, w // 8))
    P = T.alloc_buffer((16, (h - 3) // 2 + 1, w // 8))
    for i, j, k, rh, rw in T.grid(16, (h - 3) // 2 + 1, w // 8, 3, 8):
        with T.block("P"):
            vi, vj, vk, vrh, vrw = T.axis.remap("SSSRR", [i, j, k, rh, rw])
            with T.init():
                P[vi, vj, vk] = T.float32(0)
            P[vi, vj, vk] = P[vi, vj, vk] + A[vi, vj * 2 + vrh, vk * 8 + vrw]
    for i, j, k in T.grid(16, (h - 3) // 2 + 1, w // 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            C[vi, vj, vk] = P[vi, vj, vk] / T.float32(24)
"""
)


def test_sizes_of_which_one_element_gives_an_empty_result_are_tried_as_larger_ones() -> None:
    sch = ms.default_schedule(POOL, TARGET)
    assert sch.trace.insts
    built = codegen.build(sch.mod, TARGET)["main"]
    for h, w in [(3, 8), (5, 31), (20, 64)]:
        a = np.random.default_rng(h).random((16, h, w), np.float32)
        rows, columns = (h - 3) // 2 + 1, w // 8
        c = np.zeros((16, rows, columns), np.float32)
        built(a, c)
        windows = np.lib.stride_tricks.sliding_window_view(a, (3, 8), (1, 2))[:, ::2, ::8]
        np.testing.assert_allclose(c, windows.mean((-1, -2)), rtol=1e-5)


# ------------------------------------------------------------------------- one schedule for any size

SCALE = parse(
    """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 32))
    B = T.match_buffer(b, (n, 32))
    for i, j in T.grid(n, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""
)


def scheduled_for(func: PrimFunc, number: int) -> Schedule:
    """Return an empty schedule of a function with a number for its only size."""
    (size,) = open_sizes(func)
    return Schedule(with_sizes(func, {size: number}))


def tiled(number: int) -> Schedule:
    """Return the schedule of SCALE for a number of rows with a tile of four rows."""
    sch = scheduled_for(SCALE, number)
    i, j = sch.get_loops(sch.get_block("B"))
    tile = sch.sample_perfect_tile(i, n=2, decision=[number // 4, 4])
    outer, inner = sch.split(i, tile)
    sch.reorder(outer, j, inner)
    return sch


def unrolled(number: int) -> Schedule:
    """Return the schedule of SCALE that unrolls all of a number of rows."""
    sch = scheduled_for(SCALE, number)
    i, j = sch.get_loops(sch.get_block("B"))
    sch.reorder(j, i)
    sch.unroll(i)
    return sch


def test_a_call_runs_the_first_schedule_that_is_large_enough() -> None:
    (n,) = open_sizes(SCALE)
    variants = [({n: 2}, unrolled(2)), ({n: 16}, tiled(16))]
    func = dispatch_on_sizes(normalize_mod(SCALE), variants)
    assert func is not None
    expected = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n, 32))
    B = T.match_buffer(b, (n, 32))
    if n <= T.int64(2):
        with T.block("root"):
            T.reads()
            T.writes()
            for i_0, j in T.grid((n + T.int64(1)) // T.int64(2), 32):
                for i_1 in T.unroll(T.int64(2)):
                    with T.block("B"):
                        vi = T.axis.spatial(n, i_0 * T.int64(2) + i_1)
                        vj = T.axis.spatial(32, j)
                        T.where(i_0 * T.int64(2) + i_1 < n)
                        B[vi, vj] = A[vi, vj] * T.float32(2)
    else:
        with T.block("root"):
            T.reads()
            T.writes()
            for i_0, j, i_1 in T.grid((n + T.int64(3)) // T.int64(4), 32, T.int64(4)):
                with T.block("B"):
                    vi = T.axis.spatial(n, i_0 * T.int64(4) + i_1)
                    vj = T.axis.spatial(32, j)
                    T.where(i_0 * T.int64(4) + i_1 < n)
                    B[vi, vj] = A[vi, vj] * T.float32(2)
"""
    assert_structural_equal(func, parse(expected))
    built = codegen.build(func, TARGET)["main"]
    for rows in range(22):
        a = np.arange(rows * 32, dtype="float32").reshape(rows, 32)
        in_machine_code, step_by_step = np.empty_like(a), np.empty_like(a)
        built(a, in_machine_code)
        interpret(func, a, step_by_step)
        np.testing.assert_array_equal(in_machine_code, a * 2)
        np.testing.assert_array_equal(step_by_step, a * 2)


def test_equal_schedules_are_one() -> None:
    (n,) = open_sizes(SCALE)
    func = dispatch_on_sizes(normalize_mod(SCALE), [({n: 8}, tiled(8)), ({n: 16}, tiled(16))])
    assert func is not None
    assert_structural_equal(
        func, schedule_for_any_size(normalize_mod(SCALE), tiled(16), {}).mod["main"]
    )


def test_a_schedule_that_a_gpu_cannot_run_for_any_size_is_left_out() -> None:
    (n,) = open_sizes(SCALE)
    bound = scheduled_for(SCALE, 4)
    i, j = bound.get_loops(bound.get_block("B"))
    bound.bind(i, "blockIdx.x")
    bound.bind(j, "threadIdx.x")
    staged = bound.copy()
    copy = staged.cache_read(staged.get_block("B"), 0, "shared")
    staged.bind(staged.get_loops(copy)[1], "threadIdx.x")  # a kernel of its own
    program, target = normalize_mod(SCALE), codegen.Target("opencl")
    for variant, runs in ((bound, True), (staged, False)):
        assert (dispatch_on_sizes(program, [({n: 4}, variant)], target) is not None) == runs


def test_a_layout_for_one_element_alone_is_left_out() -> None:
    """The static map is injective, as the rule that wrote it claimed; for more rows it is not."""
    static = scheduled_for(SCALE, 1)
    copy = static.cache_read(static.get_block("B"), 0, "global")
    static.transform_layout(
        copy, ("write", 0), lambda i, j: (0, j), assume_injective_transform=True
    )
    sch = schedule_for_any_size(normalize_mod(SCALE), static, {})
    expected = Schedule(normalize_mod(SCALE))
    expected.cache_read(expected.get_block("B"), 0, "global")
    assert_structural_equal(sch.mod["main"], expected.mod["main"])


# ------------------------------------------------------------------ choices in the program by sizes

CHOICE = parse(
    """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 32))
    B = T.match_buffer(b, (n, 32))
    if n <= T.int64(3):
        for i, j in T.grid(n, 32):
            with T.block("few"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + A[vi, vj]
    else:
        for i, j in T.grid(n, 32):
            with T.block("many"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
"""
)


def unrolled_rows(block: str, number: int) -> Schedule:
    """Return the schedule of a case of CHOICE that unrolls all of a number of rows."""
    sch = scheduled_for(CHOICE, number)
    sch.unroll(sch.get_loops(sch.get_block(block))[0])
    return sch


def test_each_case_of_a_choice_is_a_program_of_its_own() -> None:
    (n,) = open_sizes(CHOICE)
    expected = """
@T.prim_func
def main(A: T.Buffer((T.int64(3), 32)), B: T.Buffer((T.int64(3), 32))):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    for i, j in T.grid(T.int64(3), 32):
        with T.block("few"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + A[vi, vj]
"""
    assert_structural_equal(with_sizes(CHOICE, {n: 3})["main"], parse(expected))
    variants = [
        ({n: 2}, unrolled_rows("few", 2)),
        ({n: 4}, unrolled_rows("many", 4)),
        ({n: 6}, unrolled_rows("many", 6)),
    ]
    func = dispatch_on_sizes(normalize_mod(CHOICE), variants)
    assert func is not None
    expected = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n, 32))
    B = T.match_buffer(b, (n, 32))
    if n <= T.int64(3):
        with T.block("root"):
            T.reads()
            T.writes()
            for i_0 in range((n + T.int64(1)) // T.int64(2)):
                for i_1 in T.unroll(T.int64(2)):
                    for j in range(32):
                        with T.block("few"):
                            vi = T.axis.spatial(n, i_0 * T.int64(2) + i_1)
                            vj = T.axis.spatial(32, j)
                            T.where(i_0 * T.int64(2) + i_1 < n)
                            B[vi, vj] = A[vi, vj] + A[vi, vj]
    else:
        if n <= T.int64(4):
            with T.block("root"):
                T.reads()
                T.writes()
                for i_0 in range((n + T.int64(3)) // T.int64(4)):
                    for i_1 in T.unroll(T.int64(4)):
                        for j in range(32):
                            with T.block("many"):
                                vi = T.axis.spatial(n, i_0 * T.int64(4) + i_1)
                                vj = T.axis.spatial(32, j)
                                T.where(i_0 * T.int64(4) + i_1 < n)
                                B[vi, vj] = A[vi, vj] * T.float32(2)
        else:
            with T.block("root"):
                T.reads()
                T.writes()
                for i_0 in range((n + T.int64(5)) // T.int64(6)):
                    for i_1 in T.unroll(T.int64(6)):
                        for j in range(32):
                            with T.block("many"):
                                vi = T.axis.spatial(n, i_0 * T.int64(6) + i_1)
                                vj = T.axis.spatial(32, j)
                                T.where(i_0 * T.int64(6) + i_1 < n)
                                B[vi, vj] = A[vi, vj] * T.float32(2)
"""
    assert_structural_equal(func, parse(expected))
    assert dispatch_on_sizes(normalize_mod(CHOICE), variants[1:]) is None, "a case is missing"


def test_each_case_of_a_choice_has_representative_sizes() -> None:
    assert numbers(CHOICE) == [[1], [128]]
    assert numbers(CHOICE, {"n": [2, 3, 16]}) == [[2], [3], [16]]
    assert numbers(CHOICE, {"n": [16, 64]}) == [[1], [16], [64]]
    far = parse(CHOICE.script().replace("n <= T.int64(3)", "n <= T.int64(300)"))
    assert numbers(far) == [[1], [512]], "128 rows take the first case"


def test_records_of_a_case_are_found_by_its_own_programs() -> None:
    (n,) = open_sizes(CHOICE)
    database = MemoryDatabase()
    recorded = [1, 2, 5, 8, 16, 64, 256]
    for number in recorded:
        mod = with_sizes(CHOICE, {n: number})
        workload = database.commit_workload(mod)
        record = TuningRecord(Schedule(mod).trace, workload, [1.0], TARGET)
        database.commit_tuning_record(record)
    found = find_schedules_of_sizes(
        database, CHOICE, lambda mod: find_schedule(database, mod, TARGET)
    )
    assert [one.sizes[n] for one in found] == [2, 16, 64, 256]


# -------------------------------------------------------------------------------- default schedules


def by_default(func: PrimFunc, target: codegen.Target = TARGET) -> PrimFunc:
    """Return a function with its default schedules."""
    return DefaultSchedules().schedules_of({"main": func}, target)["main"]


@cache
def product() -> PrimFunc:
    """Return the scheduled product, whose weights may have any layout."""
    return by_default(PRODUCT.with_attr("layout_free_buffers", [1]))


def test_schedules_of_few_and_many_rows_share_the_layout_of_weights() -> None:
    text = product().script()
    assert text.count("if n <= T.int64(1):") == 1
    assert len(layout_rewrites(product())) == 1
    assert text.count("meta_schedule.layout_rewrite_preproc") == 1


def test_each_number_of_rows_is_computed_by_one_of_the_schedules() -> None:
    built = codegen.build(product(), TARGET)["main"]
    for rows in [*range(20), 127, 128, 129]:
        rng = np.random.default_rng(rows)
        a = rng.standard_normal((rows, 32), np.float32)
        b = rng.standard_normal((32, 64), np.float32)
        c = np.zeros((rows, 64), np.float32)
        built(a, b, c)
        np.testing.assert_allclose(c, np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5)


SCORES = parse(
    """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n, 32))
    B = T.match_buffer(b, (32, n))
    C = T.match_buffer(c, (n, n))
    for i, j, k in T.grid(n, n, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
)


def test_sums_whose_rows_are_at_symbolic_distances_are_kept_in_registers() -> None:
    target = codegen.Target("llvm -mcpu=x86-64-v4 -num-cores=1")
    func = by_default(SCORES, target)
    explained = str(codegen.explain(func, target=target))
    assert "C_global" in explained
    assert "its places may overlap" not in explained
    built = codegen.build(func, TARGET)["main"]
    for n in [0, 1, 5, 16, 63, 130]:
        rng = np.random.default_rng(n)
        a, b = rng.standard_normal((n, 32), np.float32), rng.standard_normal((32, n), np.float32)
        c = np.zeros((n, n), np.float32)
        built(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------- numbers


def numbers(func: PrimFunc, given: dict[str, list[int]] | None = None) -> list[list[int]]:
    return [list(sizes.values()) for sizes in representative_sizes(func, given)]


def test_sizes_that_change_the_schedule_are_represented_by_one_and_many() -> None:
    assert numbers(PRODUCT) == [[1], [128]]
    assert numbers(SCALE) == [[1]], "a larger size only repeats the loops"
    assert numbers(POOL) == [[4, 8], [128, 128]]
    assert numbers(POOL, {"w": [8, 64]}) == [[4, 8], [4, 64]]
    assert numbers(POOL, {"h": [16], "w": [8, 64]}) == [[16, 8], [16, 64]]


def test_the_sizes_of_a_static_program_are_read_from_its_shapes() -> None:
    (n,) = open_sizes(PRODUCT)
    assert sizes_in(PRODUCT, with_sizes(PRODUCT, {n: 7})["main"]) == {n: 7}
    assert sizes_in(PRODUCT, with_sizes(SCALE, {open_sizes(SCALE)[0]: 7})["main"]) is None


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"m": [8]}, "sizes names 'm', which is no symbolic size of a kernel; expected h, w"),
        ({"h": [8, 4]}, r"the sizes of 'h' are \[8, 4\]; expected increasing integers"),
        ({"h": []}, r"the sizes of 'h' are \[\]; expected increasing integers"),
        ({"h": [4, 5, 6, 7, 8]}, "'h' has 5 sizes; expected at most 4, as each is one more"),
        ({"h": [2, 8]}, "size 2 of 'h' is below 4, the smallest one without an empty loop"),
    ],
)
def test_sizes_that_cannot_be_used(sizes: dict[str, list[int]], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        check_sizes(sizes, {"main": POOL})
