"""Weights are stored in the order in which a schedule reads them."""

import numpy as np
import pytest

import search as ms
from schedule import Schedule
from search.postproc import RewriteLayout
from search.runner.measure_candidate import without_layout_rewrite
from search.search_strategy.trace_application import TraceApplication
from tensorir import assert_structural_equal, parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret, random_arguments

BEFORE = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    T.func_attr({"layout_free_buffers": [1]})
    for i0, j, k0, i1, k1 in T.grid(4, 16, 4, 4, 4):
        with T.block("C"):
            vi = T.axis.spatial(16, i0 * 4 + i1)
            vj = T.axis.spatial(16, j)
            vk = T.axis.reduce(16, k0 * 4 + k1)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

AFTER = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    T.func_attr({"layout_free_buffers": [1]})
    B_global = T.alloc_buffer((16, 4, 4))
    for ax0, ax1 in T.grid(16, 16):
        with T.block("B_global"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
            B_global[v1, v0 // 4, v0 % 4] = B[v0, v1]
    for i0, j, k0, i1, k1 in T.grid(4, 16, 4, 4, 4):
        with T.block("C"):
            vi = T.axis.spatial(16, i0 * 4 + i1)
            vj = T.axis.spatial(16, j)
            vk = T.axis.reduce(16, k0 * 4 + k1)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B_global[vj, vk // 4, vk % 4]
"""

CACHED = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    T.func_attr({"layout_free_buffers": [1]})
    B_once = T.alloc_buffer((16, 16))
    B_twice = T.alloc_buffer((16, 16))
    for x, y in T.grid(16, 16):
        with T.block("once"):
            vx, vy = T.axis.remap("SS", [x, y])
            B_once[vx, vy] = B[vx, vy]
    for x, y in T.grid(16, 16):
        with T.block("twice"):
            vx, vy = T.axis.remap("SS", [x, y])
            B_twice[vx, vy] = B_once[vx, vy]
    for j, i, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B_twice[vk, vj]
"""

CACHED_AFTER = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    T.func_attr({"layout_free_buffers": [1]})
    B_once = T.alloc_buffer((16, 16))
    B_twice = T.alloc_buffer((16, 16))
    B_global = T.alloc_buffer((16, 16))
    for ax0, ax1 in T.grid(16, 16):
        with T.block("B_global"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
            B_global[v1, v0] = B[v0, v1]
    for x, y in T.grid(16, 16):
        with T.block("once"):
            vx, vy = T.axis.remap("SS", [x, y])
            B_once[vy, vx] = B_global[vy, vx]
    for x, y in T.grid(16, 16):
        with T.block("twice"):
            vx, vy = T.axis.remap("SS", [x, y])
            B_twice[vy, vx] = B_once[vy, vx]
    for j, i, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B_twice[vj, vk]
"""


COPIED_OUT = """
@T.prim_func
def main(W: T.Buffer((4, 8), "float32"), Y: T.Buffer((4, 8), "float32"), Z: T.Buffer((8, 4), "float32")):
    T.func_attr({"layout_free_buffers": [0]})
    for i, j in T.grid(4, 8):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = W[vi, vj]
    for j, i in T.grid(8, 4):
        with T.block("Z"):
            vj, vi = T.axis.remap("SS", [j, i])
            Z[vj, vi] = Y[vi, vj] + T.float32(1)
"""


AFTER_IN_EACH_CALL = AFTER.replace(
    "    for ax0, ax1 in T.grid(16, 16):",
    "    for ax0 in T.parallel(16):\n      for ax1 in range(16):",
).replace('            T.block_attr({"meta_schedule.layout_rewrite_preproc": True})\n', "")


def rewritten(before: str, *, at_build: bool = True) -> Schedule:
    """Run the postprocessor and check that the program computes the same."""
    func = parse(before)
    sch = Schedule(func, debug_mask="all")
    assert RewriteLayout(at_build=at_build).apply(sch)
    expected = random_arguments(func, 0)
    actual = [a.copy() for a in expected]
    interpret(func, *expected)
    interpret(sch.mod, *actual)
    for got, wanted in zip(actual, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    return sch


@pytest.mark.parametrize(
    ("before", "after"), [(BEFORE, AFTER), (CACHED, CACHED_AFTER)], ids=["plain", "cached"]
)
def test_layout_follows_the_loops(before: str, after: str) -> None:
    assert_structural_equal(rewritten(before).mod["main"], parse(after))


def test_a_copy_that_each_call_makes_is_a_part_of_the_program() -> None:
    after = rewritten(BEFORE, at_build=False).mod
    assert_structural_equal(after["main"], parse(AFTER_IN_EACH_CALL))
    assert without_layout_rewrite(after) is after


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("nothing is free", ('    T.func_attr({"layout_free_buffers": [1]})\n', "")),
        ("reads a part only", ("k0, i1, k1 in T.grid(4, 16, 4,", "k0, i1, k1 in T.grid(4, 16, 2,")),
        ("one loop moves along both axes", ("B[vk, vj]", "B[vk, vk]")),
        ("nobody loads it", ("* B[vk, vj]", "* A[vk, vj]")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_layouts_that_stay(what: str, change: tuple[str, str]) -> None:
    before = BEFORE.replace(*change)
    assert before != BEFORE, what
    sch = rewritten(before)
    assert_structural_equal(sch.mod["main"], parse(before))
    assert not sch.trace.insts


def test_a_copy_that_callers_see_keeps_its_layout() -> None:
    func = rewritten(COPIED_OUT).mod["main"]
    assert [tuple(map(int, b.shape)) for b in func.buffer_map.values()] == [(4, 8), (4, 8), (8, 4)]


def test_placeholders_of_a_block_are_free() -> None:
    marked = BEFORE.replace('    T.func_attr({"layout_free_buffers": [1]})\n', "").replace(
        "            with T.init",
        '            T.block_attr({"layout_free_placeholders": [B]})\n            with T.init',
    )
    sch = rewritten(marked)
    (copy,) = [b for b in sch.state.blocks("main") if b.block.name_hint == "B_global"]
    assert "meta_schedule.layout_rewrite_preproc" in copy.block.annotations


def test_candidates_of_a_search_compute_the_same() -> None:
    before = parse(
        BEFORE.replace(
            "for i0, j, k0, i1, k1 in T.grid(4, 16, 4, 4, 4)", "for i, j, k in T.grid(16, 16, 16)"
        )
        .replace("i0 * 4 + i1", "i")
        .replace("k0 * 4 + k1", "k")
    )
    assert isinstance(before, PrimFunc)
    task = ms.TuneContext(
        before,
        target="llvm -num-cores=2",
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=7,
    )
    application = TraceApplication(task)
    expected = random_arguments(before, 0)
    interpret(before, *expected)
    for space in task.generate_design_space():
        for _ in range(3):
            sch = application.apply(space.trace, resample=True)
            assert sch is not None
            actual = random_arguments(before, 0)
            interpret(sch.mod, *actual)
            np.testing.assert_allclose(actual[2], expected[2], rtol=1e-5)
            measured = without_layout_rewrite(sch.mod)["main"]
            weight = measured.buffer_map[measured.params[1]]
            assert np.prod([int(n) for n in weight.shape]) == 256
            assert weight.name == "B_global"


BARE = {
    "store": """
    for i in range(16):
        C[i, 0] = B[i, 0]
""",
    "condition": """
    for i in range(16):
        with T.block("D"):
            vi = T.axis.spatial(16, i)
            T.where(B[i, 0] > T.float32(0))
            C[vi, 0] = T.float32(1)
""",
    "pointer": """
    T.evaluate(T.call_extern("int32", "look", B.data))
""",
}


@pytest.mark.parametrize("at_build", [True, False])
@pytest.mark.parametrize("bare", BARE.values(), ids=BARE)
def test_a_weight_that_is_accessed_outside_of_blocks_keeps_its_layout(
    bare: str, at_build: bool
) -> None:
    func = parse(BEFORE + bare.strip("\n") + "\n")
    sch = Schedule(func)
    assert RewriteLayout(at_build=at_build).apply(sch)
    assert_structural_equal(sch.mod["main"], func)
