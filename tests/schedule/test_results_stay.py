"""Sequences that once changed a result: they are refused now, or done right."""

import numpy as np
import pytest

from schedule import Schedule, ScheduleError
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret, random_arguments

MATMUL = """
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), B: T.Buffer((8, 7), "float32"), C: T.Buffer((6, 7), "float32")):
    for i, j, k in T.grid(6, 7, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] += A[vi, vk] * B[vk, vj]
"""
PADDED = """
@T.prim_func
def main(A: T.Buffer((7,), "float32"), P: T.Buffer((11,), "float32")):
    for i in T.grid(11):
        with T.block("P"):
            vi = T.axis.spatial(11, i)
            P[vi] = T.if_then_else(2 <= vi and vi < 9, A[vi - 2], T.float32(0))
"""
TRANSPOSE = """
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((6, 4), "int32")):
    B = T.alloc_buffer((6, 4), "int32")
    for i, j in T.grid(6, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] * 3
    for i, j in T.grid(6, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + vi
"""


def program(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def assert_same_result(func: PrimFunc, sch: Schedule) -> None:
    expected = random_arguments(func)
    actual = [array.copy() for array in expected]
    interpret(func, *expected)
    interpret(sch.mod, *actual)
    for got, wanted in zip(actual, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_a_reduction_does_not_move_below_a_parallel_loop_over_its_axis() -> None:
    sch = Schedule(program(MATMUL))
    block = sch.get_block("C")
    copy = sch.cache_read(block, 0, "local")
    _, over_k = sch.get_loops(copy)
    sch.parallel(over_k)
    with pytest.raises(ScheduleError, match="its axis vk, which is not data-parallel"):
        sch.reverse_compute_at(block, over_k)


def test_a_consumer_that_runs_further_than_its_producer_is_not_inlined() -> None:
    sch = Schedule(program(PADDED))
    block = sch.get_block("P")
    sch.cache_read(block, 0, "local")
    with pytest.raises(ScheduleError, match="it runs where 'A_local' stores nothing"):
        sch.reverse_compute_inline(block)


def test_a_cache_inside_a_loop_does_not_copy_beyond_the_buffer() -> None:
    func = program(TRANSPOSE)
    sch = Schedule(func)
    producer, consumer = sch.get_block("B"), sch.get_block("C")
    outer, _ = sch.split(sch.get_loops(producer)[0], [None, 4])
    sch.reverse_compute_at(consumer, outer)
    sch.cache_read(consumer, 0, "global")
    assert "T.where(i_0 * 4 + ax0 < 6)" in sch.mod.script()
    assert_same_result(func, sch)


def test_a_consumer_that_runs_further_than_its_producer_does_not_follow_it() -> None:
    sch = Schedule(program(PADDED))
    block = sch.get_block("P")
    copy = sch.cache_read(block, 0, "local")
    with pytest.raises(ScheduleError, match="read beyond the elements that"):
        sch.reverse_compute_at(block, sch.get_loops(copy)[0])


REPEATED = """
@T.prim_func
def main(A: T.Buffer((5, 4), "float32"), D: T.Buffer((5, 6), "float32")):
    C = T.alloc_buffer((5,))
    for j in range(6):
        for i, k in T.grid(5, 4):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
        for i in range(5):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = C[vi]
"""


def test_the_init_of_a_repeated_reduction_stays_inside_the_loop_that_repeats_it() -> None:
    func = program(REPEATED)
    sch = Schedule(func)
    block = sch.get_block("C")
    j, i, _ = sch.get_loops(block)
    with pytest.raises(ScheduleError, match="runs the same steps several times"):
        sch.decompose_reduction(block, j)
    sch.decompose_reduction(block, i)
    assert_same_result(func, sch)


def test_a_cache_of_what_is_read_under_a_condition_stays_in_bounds() -> None:
    func = program(PADDED)
    sch = Schedule(func)
    block = sch.get_block("P")
    copy = sch.cache_read(block, 0, "global")
    sch.compute_at(copy, sch.get_loops(block)[0])
    sch.cache_write(copy, 0, "local")
    assert_same_result(func, sch)


def test_a_loop_that_repeats_a_reduction_does_not_move_inside_it() -> None:
    nest = Schedule(
        program(
            """
@T.prim_func
def main(A: T.Buffer((5, 4), "float32"), C: T.Buffer((5,), "float32")):
    for j, i, k in T.grid(6, 5, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""
        )
    )
    j, i, k = nest.get_loops(nest.get_block("C"))
    nest.reorder(i, j)
    with pytest.raises(ScheduleError, match="runs the same steps several times"):
        nest.reorder(k, j)
