"""Reductions that may have no step: their init runs all the same, whatever primitives do.

What is refused is in `primitives/reductions_without_steps.txt`.
"""

from __future__ import annotations

import numpy as np
import pytest

from schedule import Schedule
from tensorir import parse, simplify
from tensorir.interp import interpret

SUM = """\
@T.prim_func
def main(a: T.handle, c: T.handle, n: T.int32):
    A = T.match_buffer(a, {shape})
    C = T.match_buffer(c, (4,))
    P = T.alloc_buffer({shape})
    B = T.alloc_buffer((4,))
    for i, k in T.grid(4, {size}):
        with T.block("P"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.spatial({size}, k)
            P[vi, vk] = A[vi, vk] * T.float32(2)
    for i in range(4):
        for k in range({extent}):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                vk = T.axis.reduce({size}, k)
                T.where({predicate})
                with T.init():
                    B[vi] = T.float32(2)
                B[vi] = B[vi] + P[vi, vk]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi] + T.float32(1)
"""
NEVER = "T.bool(True)"
PROGRAMS = {
    "extent": SUM.format(shape="(4, n)", size="n", extent="n", predicate=NEVER),
    "triangle": SUM.format(shape="(4, 8)", size="8", extent="i", predicate=NEVER),
    "predicate": SUM.format(shape="(4, 8)", size="8", extent="8", predicate="k < n"),
    "mixed": SUM.format(shape="(4, 8)", size="8", extent="8", predicate="k + i < n"),
}


def loops(sch, name="B"):
    return sch.get_loops(name)


def split(sch, depth=1, factors=(None, 2)):
    return sch.split(loops(sch)[depth], list(factors))


def split_and_swapped(sch):
    split(sch)
    sch.reorder(*reversed(loops(sch)[-2:]))


def split_and_decomposed(sch):
    split(sch)
    sch.decompose_reduction("B", loops(sch)[1])


def written_and_moved(sch):
    copy = sch.cache_write("B", 0, "local")
    sch.reverse_compute_at(copy, loops(sch)[0])


ALWAYS = [
    split,
    lambda sch: split(sch, 0, [None, 3]),
    lambda sch: sch.cache_write("B", 0, "local"),
    lambda sch: sch.cache_read("B", 0, "local"),
    lambda sch: sch.add_unit_loop(loops(sch)[0]),
]
PIPELINES = [
    lambda sch: sch.write_at(loops(sch)[0], "B", 0, "local"),
    lambda sch: sch.reindex("B", ("read", 0)),
    lambda sch: sch.reindex_cache_write("B", 0, "local", lambda i, k: (i,)),
    lambda sch: sch.reverse_compute_at("C", loops(sch)[0]),
    lambda sch: sch.compute_inline("P"),
]
SYMBOLIC = [
    split_and_swapped,
    split_and_decomposed,
    written_and_moved,
    lambda sch: sch.parallel(loops(sch)[0]),
    lambda sch: sch.blockize(loops(sch)[0]),
    lambda sch: sch.reorder(*reversed(loops(sch))),
    lambda sch: sch.decompose_reduction("B", loops(sch)[0]),
    lambda sch: sch.decompose_reduction("B", loops(sch)[1]),
    lambda sch: sch.reindex("B", ("write", 0)),
    lambda sch: sch.blockize(loops(sch)[1]),
    lambda sch: sch.compute_at("B", loops(sch, "C")[0]),
    lambda sch: sch.compute_at("P", loops(sch)[0]),
    lambda sch: sch.reverse_compute_at("B", loops(sch, "P")[0]),
    lambda sch: sch.pad_einsum("B", [3, 4]),
    lambda sch: sch.loop_partition(loops(sch)[0], [1, None]),
    lambda sch: sch.transform_layout("B", ("write", 0), lambda i: (i // 3, i % 3), 0.0),
    lambda sch: sch.transform_block_layout("B", lambda i, k: (3 - i, k)),
    lambda sch: sch.merge(loops(sch, "P")[0], loops(sch)[0]),
]
PREDICATED = [
    lambda sch: sch.blockize(loops(sch)[0]),
    lambda sch: sch.decompose_reduction("B", loops(sch)[0]),
    lambda sch: sch.decompose_reduction("B", loops(sch)[1]),
    lambda sch: sch.blockize(loops(sch)[1]),
    split_and_decomposed,
]
CASES = [
    *((name, call) for name in PROGRAMS for call in ALWAYS),
    *((name, call) for name in ("extent", "triangle", "predicate") for call in PIPELINES),
    *(("extent", call) for call in SYMBOLIC),
    *(("predicate", call) for call in PREDICATED),
]


@pytest.mark.parametrize(("name", "call"), CASES)
def test_an_empty_sum_stays_what_its_init_says(name, call):
    func = parse(PROGRAMS[name])
    sch = Schedule(func, debug_mask="all")
    call(sch)
    for n in (0, 1, 5):
        a = np.random.default_rng(n).standard_normal((4, n if name == "extent" else 8))
        a = a.astype("float32")
        taken = {"extent": [n] * 4, "triangle": range(4), "predicate": [n] * 4}
        steps = taken.get(name, [max(0, n - i) for i in range(4)])
        expected = [3 + 2 * a[i, :k].sum() for i, k in enumerate(steps)]
        c = np.full(4, np.nan, "float32")
        interpret(sch.mod["main"], a, c, n)
        np.testing.assert_allclose(c, expected, rtol=1e-5)


def test_partial_results_without_a_step_are_the_identity():
    before = PROGRAMS["extent"].replace("B[vi] = T.float32(2)", "B[vi] = T.float32(0)")
    sch = Schedule(parse(before), debug_mask="all")
    sch.rfactor(split(sch)[1], 0)
    for n in (0, 1, 5):
        a, c = np.ones((4, n), "float32"), np.full(4, np.nan, "float32")
        interpret(sch.mod["main"], a, c, n)
        np.testing.assert_array_equal(c, [1 + 2 * n] * 4)


def same_for(before, call, sizes, shapes):
    """Check that a program computes the same after a call, for several sizes."""
    func = parse(before)
    sch = Schedule(func, debug_mask="all")
    call(sch)
    for n in sizes:
        expected = [np.full(shape, 7, "float32") for shape in shapes(n)]
        actual = [array.copy() for array in expected]
        interpret(func, *expected)
        interpret(sch.mod["main"], *actual)
        np.testing.assert_array_equal(actual[-1], expected[-1])


@pytest.mark.parametrize("factors", [[None, 3], [1, None, 3]])
def test_a_piece_of_the_instances_without_a_step_keeps_its_init(factors):
    def call(sch):
        i, k = loops(sch)
        sch.split(k, factors, preserve_unit_iters=False)
        sch.loop_partition(i, [1, None])

    same_for(TRIANGLE, call, [0], lambda _: [(4, 6), (4,)])


TRIANGLE = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((4,))):
    for i in range(4):
        for k in range(i * 2):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                vk = T.axis.reduce(6, k)
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
"""

PIECES = """\
@T.prim_func
def main(A: T.Buffer((4, 24)), C: T.Buffer((4,))):
    for i, r in T.grid(4, 3):
        for k in range(r * 2):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                vk = T.axis.reduce(24, r * 8 + k)
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
"""


def test_only_a_piece_that_starts_after_the_first_step_loses_its_init():
    sch = Schedule(parse(PIECES))
    sch.loop_partition(loops(sch)[1], [1, None])
    inits = [sch.get(sch.get_block(name)).init is not None for name in ("B_r0", "B_r1")]
    assert inits == [True, False]


GUARDED = """\
@T.prim_func
def main(a: T.handle, C: T.Buffer((4,))):
    n = T.int32()
    A = T.match_buffer(a, (4, n, 2))
    for i, k, r in T.grid(4, n, 2):
        with T.block("B"):
            vi, vk, vr = T.axis.remap("SRR", [i, k, r])
            T.where({where})
            with T.init():
                C[vi] = {start}
            C[vi] = C[vi] + A[vi, vk, vr]
"""


@pytest.mark.parametrize("where", ["r < n * 2", "i < n * 4", "i * 2 + r < n * 8"])
def test_conditions_that_follow_from_a_step_stay_on_partial_results(where):
    before = GUARDED.format(where=where, start="T.float32(0)")
    call = lambda sch: sch.rfactor(loops(sch)[2], 0)  # noqa: E731
    same_for(before, call, [0, 1, 3], lambda n: [(4, n, 2), (4,)])


def test_conditions_that_follow_from_a_step_stay_on_moved_blocks():
    before = """\
@T.prim_func
def main(a: T.handle, D: T.Buffer((4,))):
    n = T.int32()
    A = T.match_buffer(a, (n, n))
    P = T.alloc_buffer((n,))
    for k, i in T.grid(n, n):
        with T.block("P"):
            vk, vi = T.axis.remap("RS", [k, i])
            with T.init():
                P[vi] = T.float32(0)
            P[vi] = P[vi] + A[vi, vk]
    for j in range(4):
        with T.block("D"):
            vj = T.axis.spatial(4, j)
            T.where(0 < n)
            D[vj] = P[0]
"""
    call = lambda sch: sch.compute_at("P", loops(sch, "D")[0])  # noqa: E731
    same_for(before, call, [0, 1, 3], lambda n: [(n, n), (4,)])


@pytest.mark.parametrize("where", ["i < n * 4", "i * 2 + r < 4", "r < 5", "T.bool(True)"])
@pytest.mark.parametrize(
    "start", ["T.float32(0)", "T.if_then_else(0 < n, T.float32(1), T.float32(2))"]
)
def test_simplification_keeps_the_conditions_of_inits(where, start):
    func = parse(GUARDED.format(where=where, start=start))
    simpler = simplify(func)
    for n in (0, 1, 3):
        a, c, d = np.ones((4, n, 2), "float32"), np.full(4, 7, "float32"), np.full(4, 7, "float32")
        interpret(func, a, c)
        interpret(simpler, a, d)
        np.testing.assert_array_equal(d, c)


def test_a_later_piece_of_the_steps_does_not_start_anew():
    def call(sch):
        sch.split(loops(sch)[1], [8, None, 8])
        sch.loop_partition(loops(sch)[1], [3, None])

    same_for(TRIANGLE, call, [0], lambda _: [(4, 6), (4,)])
