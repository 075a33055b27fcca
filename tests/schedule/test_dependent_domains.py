"""Axes whose domains depend on a loop: what replaces the loop replaces it there, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from schedule import Schedule
from tensorir import parse
from tests.schedule.transformation import apply, refused

TRIANGLE = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8, 8))
    for i in range(8):
        for j in range(i + 1):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
    for i in range(8):
        for j in range(i + 1):
            with T.block("C"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] += A[vi, vj]
"""


def loops(sch: Schedule, block: str) -> list:
    return sch.get_loops(sch.get_block(block))


SPLIT = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i_0, i_1 in T.grid(2, 4):
        for j in range(i_0 * 4 + i_1 + 1):
            with T.block("B"):
                vi = T.axis.spatial(8, i_0 * 4 + i_1)
                vj = T.axis.spatial(i_0 * 4 + i_1 + 1, j)
                B[vi, vj] = A[vi, vj] + T.float32(1)
"""

ONE = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i in range(8):
        for j in range(i + 1):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
"""


def test_a_split_loop_is_split_in_the_domains_of_axes() -> None:
    apply(ONE, lambda sch: sch.split(loops(sch, "B")[0], [2, 4]), SPLIT)


def copied_then_split(sch: Schedule) -> None:
    sch.read_at(loops(sch, "C")[1], sch.get_block("C"), 0, "local")
    sch.split(loops(sch, "C")[0], [2, 4])


@pytest.mark.parametrize(
    "call",
    [
        copied_then_split,
        lambda sch: sch.merge(loops(sch, "B")[0], loops(sch, "C")[0]),
        lambda sch: sch.loop_partition(loops(sch, "C")[0], [3, None]),
    ],
    ids=["read_at", "merge", "loop_partition"],
)
def test_domains_follow_the_loops_that_a_primitive_makes(
    call: Callable[[Schedule], object],
) -> None:
    apply(TRIANGLE, call)


SUMS = """\
@T.prim_func
def main(A: T.Buffer((8, 8, 4)), C: T.Buffer((8, 8))):
    for i in range(8):
        for j in range(i + 1):
            for k in range(4):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] += A[vi, vj, vk]
"""


def test_a_block_below_copied_loops_is_found_though_its_domains_name_them() -> None:
    sch = Schedule(parse(SUMS), debug_mask="all", enable_check=False)
    init = sch.decompose_reduction(sch.get_block("C"), loops(sch, "C")[0])
    assert sch.get(init).name_hint == "C_init"


@pytest.mark.parametrize(
    "call",
    [
        lambda sch: sch.pad_einsum(sch.get_block("B"), [1, 4]),
        lambda sch: sch.reindex(sch.get_block("B"), ("read", 0)),
        lambda sch: sch.cache_index(sch.get_block("B"), "local"),
        lambda sch: sch.reindex_cache_read(sch.get_block("B"), 0, "local", lambda i, j: (j, i)),
    ],
    ids=["pad_einsum", "reindex", "cache_index", "reindex_cache_read"],
)
def test_a_copy_outside_of_the_loops_needs_domains_without_them(
    call: Callable[[Schedule], object],
) -> None:
    program = ONE.replace("A[vi, vj]", "A[vi, 7 - vj]")
    refused(program, call, "DependentLoopError", "axis vj", ["block B"])
