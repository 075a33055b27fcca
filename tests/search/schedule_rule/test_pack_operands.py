"""Operands that are read again are copied to panels in the order in which their readers go."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import pytest

import search as ms
from codegen import Target
from schedule import Schedule
from search.feature_extractor.execution import execution
from search.feature_extractor.footprints import CACHES, PAGES, footprints
from search.feature_extractor.machine import Machine
from search.feature_extractor.nests import nests
from search.feature_extractor.read_nests import read_nests
from search.postproc import RewritePanels
from search.schedule_rule import PackOperands
from search.space_generator.annotations import PACKED
from tensorir import assert_structural_equal, parse
from tensorir.function import IRModule
from tensorir.interp import interpret, random_arguments
from tests.schedule.transformation import apply, assert_replays
from tests.search.anchored_programs import TARGET
from tests.search.compatible_programs import product

ONE_CORE = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=1"  # registers of 8 floats
FOUR_CORES = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=4"


def packed(text: str, target: str = ONE_CORE, **options: int) -> list[Schedule]:
    """Return the designs that the rule makes of block C of a program."""
    rule = PackOperands(**{"min_bytes": 0, **options})
    rule._initialize_with_tune_context(ms.TuneContext(None, target=Target(target)))
    sch = Schedule(parse(text), seed=1)
    designs = rule.apply(sch, sch.get_block("C"))
    assert designs[0] is sch
    assert_structural_equal(sch.mod["main"], parse(text))
    for design in designs:
        assert_replays(design, parse(text))
    return designs


def panels(target: str = ONE_CORE) -> Callable[[Schedule], None]:
    """Return what gives packed operands their layout."""
    postproc = RewritePanels()
    postproc._initialize_with_tune_context(ms.TuneContext(None, target=Target(target)))

    def rewrite(sch: Schedule) -> None:
        assert postproc.apply(sch)

    return rewrite


# ----------------------------------------------------------------------------------------- the rule

TILED = """
@T.prim_func
def main(A: T.Buffer((16, 12), "float32"), B: T.Buffer((12, 8), "float32"), C: T.Buffer((16, 8), "float32")):
    for i_0, j_0, k_0, i_1, j_1, k_1 in T.grid(4, 2, 3, 4, 4, 4):
        with T.block("C"):
            vi = T.axis.spatial(16, i_0 * 4 + i_1)
            vj = T.axis.spatial(8, j_0 * 4 + j_1)
            vk = T.axis.reduce(12, k_0 * 4 + k_1)
            T.block_attr({"meta_schedule.tiling_structure": "SRSR"})
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
AT_ROOT = """
@T.prim_func
def main(A: T.Buffer((16, 12), "float32"), B: T.Buffer((12, 8), "float32"), C: T.Buffer((16, 8), "float32")):
    B_global = T.alloc_buffer((12, 8))
    for ax0, ax1 in T.grid(12, 8):
        with T.block("B_global"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            T.block_attr({"meta_schedule.packed_operand": 1})
            B_global[v0, v1] = B[v0, v1]
    for i_0, j_0, k_0, i_1, j_1, k_1 in T.grid(4, 2, 3, 4, 4, 4):
        with T.block("C"):
            vi = T.axis.spatial(16, i_0 * 4 + i_1)
            vj = T.axis.spatial(8, j_0 * 4 + j_1)
            vk = T.axis.reduce(12, k_0 * 4 + k_1)
            T.block_attr({"meta_schedule.tiling_structure": "SRSR"})
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B_global[vk, vj]
"""
INSIDE = """
@T.prim_func
def main(A: T.Buffer((16, 12), "float32"), B: T.Buffer((12, 8), "float32"), C: T.Buffer((16, 8), "float32")):
    B_global = T.alloc_buffer((12, 8))
    for i_0, j_0, k_0 in T.grid(4, 2, 3):
        for ax0, ax1 in T.grid(4, 4):
            with T.block("B_global"):
                v0 = T.axis.spatial(12, k_0 * 4 + ax0)
                v1 = T.axis.spatial(8, j_0 * 4 + ax1)
                T.block_attr({"meta_schedule.packed_operand": 1})
                B_global[v0, v1] = B[v0, v1]
        for i_1, j_1, k_1 in T.grid(4, 4, 4):
            with T.block("C"):
                vi = T.axis.spatial(16, i_0 * 4 + i_1)
                vj = T.axis.spatial(8, j_0 * 4 + j_1)
                vk = T.axis.reduce(12, k_0 * 4 + k_1)
                T.block_attr({"meta_schedule.tiling_structure": "SRSR"})
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B_global[vk, vj]
"""


def test_an_operand_is_packed_as_a_whole_or_in_each_outer_step_or_not_at_all() -> None:
    _, root, inside = packed(TILED)
    assert_structural_equal(root.mod["main"], parse(AT_ROOT))
    assert_structural_equal(inside.mod["main"], parse(INSIDE))


def test_a_copy_at_the_root_is_shared_by_the_cores() -> None:
    _, root, inside = packed(TILED, FOUR_CORES)
    assert '"meta_schedule.packed_operand": 64' in root.mod.script()
    assert '"meta_schedule.packed_operand": 1}' in inside.mod.script()


def test_a_copy_has_the_order_of_the_result() -> None:
    transposed = TILED.replace("B: T.Buffer((12, 8)", "B: T.Buffer((8, 12)")
    _, root, inside = packed(transposed.replace("B[vk, vj]", "B[vj, vk]"))
    for design in (root, inside):
        assert "B_global[vk, vj] = B[vj, vk]" in design.mod.script()
    # One loop for each axis, where the reader has two.
    assert len(root.get_loops(root.get_block("B_global"))) == 2


STRIDED = """
@T.prim_func
def main(X: T.Buffer((8, 31), "float32"), W: T.Buffer((16, 8, 3), "float32"), C: T.Buffer((16, 15), "float32")):
    for o, w, c, r in T.grid(16, 15, 8, 3):
        with T.block("C"):
            vo, vw, vc, vr = T.axis.remap("SSRR", [o, w, c, r])
            T.block_attr({"meta_schedule.tiling_structure": "SR"})
            with T.init():
                C[vo, vw] = T.float32(0)
            C[vo, vw] = C[vo, vw] + X[vc, STEP] * W[vo, vc, vr]
"""


def test_lanes_that_are_apart_in_a_window_become_neighbours() -> None:
    _, root, _ = packed(STRIDED.replace("STEP", "vw * 2 + vr"))
    script = root.mod.script()
    assert "X_global[v0, v1 % 2, v1 // 2] = X[v0, v1]" in script
    assert "X_global[vc, vr % 2, vw + vr // 2]" in script


def test_of_an_image_only_what_is_read_is_copied() -> None:
    text = STRIDED.replace("STEP", "vw * 2").replace(", vr]", "]").replace(", 3)", ")")
    text = text.replace(", r in", " in").replace(", 3):", "):").replace(", vr =", " =")
    _, root, _ = packed(text.replace('"SSRR", [o, w, c, r]', '"SSR", [o, w, c]'))
    assert "X_global = T.alloc_buffer((8, 15))" in root.mod.script()
    assert "X_global[vc, vw] = X[vc, vw * 2]" in root.mod.script()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(STRIDED.replace("STEP", "vw + vr"), id="windows along memory"),
        pytest.param(TILED.replace("SRSR", "").replace("tiling_structure", "x"), id="not tiled"),
        pytest.param(
            TILED.replace("16", "4").replace("T.grid(4, 2", "T.grid(1, 2"), id="read four times"
        ),
        pytest.param(TILED.replace("B[vk, vj]", "B[vk, 0]"), id="one element for all lanes"),
    ],
)
def test_what_a_copy_does_not_better_stays(text: str) -> None:
    assert len(packed(text)) == 1


def test_what_a_cache_holds_stays() -> None:
    assert len(packed(TILED, min_bytes=12 * 8 * 4)) == 3
    assert len(packed(TILED, min_bytes=12 * 8 * 4 + 1)) == 1


def test_panels_that_memory_does_not_hold_are_refused_with_their_size(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "tensorir.search"):
        assert len(packed(TILED, max_bytes=383)) == 1
    assert caplog.messages == [
        "The operand B of block 'C' is not packed: its panels need 384 bytes, and "
        "PackOperands(max_bytes=...) allows 383"
    ]


# --------------------------------------------------------------------------------------- the layout

READ = """
@T.prim_func
def main(A: T.Buffer((8, 12), "float32"), B: T.Buffer(({m}, 12), "float32"), C: T.Buffer((8, {m}), "float32")):
    B_global = T.alloc_buffer((12, {m}))
    {copy}
    for {loops}:
        with T.block("C"):
            vi = T.axis.spatial(8, {i})
            vj = T.axis.spatial({m}, {j})
            vk = T.axis.reduce(12, {k})
            T.where({where})
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B_global[vk, vj]
"""
COPY = """for ax0, ax1 in T.grid(12, {m}):
        with T.block("B_global"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            T.block_attr({{"meta_schedule.packed_operand": {jobs}}})
            B_global[v0, v1] = {source}"""


def read(
    m: int,
    loops: str,
    j: str,
    i: str = "i",
    k: str = "k",
    *,
    where: str = "True",
    transposed: bool = False,
    jobs: int = 1,
) -> str:
    """Return a matmul with a packed operand."""
    copy = COPY.format(m=m, jobs=jobs, source="B[v1, v0]" if transposed else "B[v0, v1]")
    text = READ.format(m=m, copy=copy, loops=loops, i=i, j=j, k=k, where=where)
    return text if transposed else text.replace(f"B: T.Buffer(({m}, 12)", f"B: T.Buffer((12, {m})")


def lines(sch: Schedule, *words: str) -> list[str]:
    """Return the lines of a program in which one of some words occurs, from where it starts."""
    found = []
    for line in sch.mod.script().splitlines():
        found += [line.strip() for word in words if word in line][:1]
    return found


def test_panels_follow_the_loops_that_read_them() -> None:
    after = """
@T.prim_func
def main(A: T.Buffer((8, 12), "float32"), B: T.Buffer((12, 32), "float32"), C: T.Buffer((8, 32), "float32")):
    B_global = T.alloc_buffer((2, 12, 16))
    for ax1_0 in range(2):
        for ax0 in T.unroll(12):
            for ax1_1 in T.vectorized(16):
                with T.block("B_global"):
                    v0 = T.axis.spatial(12, ax0)
                    v1 = T.axis.spatial(32, ax1_0 * 16 + ax1_1)
                    B_global[v1 // 16, v0, v1 % 16] = B[v0, v1]
    for i, j_0, k, j_1, j_2 in T.grid(8, 2, 12, 2, 8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.spatial(32, j_0 * 16 + j_1 * 8 + j_2)
            vk = T.axis.reduce(12, k)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B_global[vj // 16, vk, vj % 16]
"""
    before = read(32, "i, j_0, k, j_1, j_2 in T.grid(8, 2, 12, 2, 8)", "j_0 * 16 + j_1 * 8 + j_2")
    apply(before, panels(), after.replace("T.unroll(12)", "range(12)"))


def test_the_last_panel_is_as_long_as_the_others() -> None:
    before = read(
        29,
        "j_0, i, k, j_1, j_2 in T.grid(2, 8, 12, 3, 8)",
        "j_0 * 24 + j_1 * 8 + j_2",
        where="j_0 * 24 + j_1 * 8 + j_2 < 29",
    )
    sch = apply(before, panels())
    assert lines(sch, "alloc", "B_global[v1") == [
        "B_global = T.alloc_buffer((2, 12, 24))",
        "T.writes(B_global[v1 // 24, v0, v1 % 24])",
        "B_global[v1 // 24, v0, v1 % 24] = B[v0, v1]",
    ]


def test_a_block_that_panels_do_not_divide_is_a_panel() -> None:
    before = read(
        40,
        "j_0, i, j_1, k, j_2 in T.grid(2, 8, 3, 12, 8)",
        "j_0 * 20 + (j_1 * 8 + j_2)",
        where="j_1 * 8 + j_2 < 20",
    )
    sch = apply(before, panels())
    assert lines(sch, "alloc", "B_global[v1")[::2] == [
        "B_global = T.alloc_buffer((2, 12, 20))",
        "B_global[v1 // 20, v0, v1 % 20] = B[v0, v1]",
    ]


def test_panels_follow_fused_loops() -> None:
    before = read(32, "i_j, k, j_1 in T.grid(16, 12, 16)", "i_j % 2 * 16 + j_1", "i_j // 2")
    assert "B_global = T.alloc_buffer((2, 12, 16))" in apply(before, panels()).mod.script()


def test_tiles_of_a_transposed_operand_go_through_registers() -> None:
    before = read(32, "i, j_0, k, j_1 in T.grid(8, 4, 12, 8)", "j_0 * 8 + j_1", transposed=True)
    sch = apply(before, panels())
    assert lines(sch, "ax0", "ax1", "B[v1") == [
        "for ax1_0 in range(4):",
        "for ax0_0 in T.unroll(2):",
        "for ax0_1 in T.unroll(8):",
        "for ax1_1 in T.vectorized(8):",
        "v0 = T.axis.spatial(12, ax0_0 * 8 + ax0_1)",
        "v1 = T.axis.spatial(32, ax1_0 * 8 + ax1_1)",
        "T.where(ax0_0 * 8 + ax0_1 < 12)",
        "T.reads(B[v1, v0])",
        "B_global[v1 // 8, v0, v1 % 8] = B[v1, v0]",
    ]


def test_threads_share_the_panels() -> None:
    loops = "i, j_0, k, j_1 in T.grid(8, 4, 12, 8)"
    sch = apply(read(32, loops, "j_0 * 8 + j_1", jobs=8), panels())
    assert lines(sch, "parallel") == ["for ax1_0_ax0_fused in T.parallel(48):"]


# ------------------------------------------------------------------------------------- whole spaces

MATMUL = """
@T.prim_func
def main(A: T.Buffer((16, 12), "float32"), B: T.Buffer((12, 20), "float32"), C: T.Buffer((16, 20), "float32")):
    for i, j, k in T.grid(16, 20, 12):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


@pytest.mark.parametrize("target", [ONE_CORE, FOUR_CORES])
@pytest.mark.parametrize("transposed", [False, True])
def test_designs_with_packed_operands_compute_the_same(target: str, transposed: bool) -> None:
    func = parse(MATMUL)
    if transposed:
        func = parse(MATMUL.replace("B[vk, vj]", "B[vj, vk]").replace("(12, 20)", "(20, 12)"))
    rules = ms.schedule_rule.ScheduleRule.create("llvm")
    place = next(k for k, rule in enumerate(rules) if isinstance(rule, PackOperands))
    rules[place] = PackOperands(min_bytes=0)
    context = ms.TuneContext(
        IRModule({"main": func}),
        target=target,
        space_generator=ms.space_generator.PostOrderApply(sch_rules=rules),
        rand_state=1,
    )
    wanted = random_arguments(func)
    given = [a.copy() for a in wanted]
    interpret(func, *wanted)
    count = 0
    for sch in context.generate_design_space():
        if "packed_operand" not in sch.mod.script():
            continue
        count += 1
        sch.enter_postproc()
        assert all(postproc.apply(sch) for postproc in context.space_generator.postprocs)
        assert "B_global[vj // " in sch.mod.script() or "B_global[vk, vj]" in sch.mod.script()
        actual = [a.copy() for a in given]
        interpret(sch.mod, *actual)
        np.testing.assert_allclose(actual[-1], wanted[-1], rtol=1e-4)
    assert count == 2


def test_features_see_panels_as_contiguous() -> None:
    # Each row of 16 columns is in a page of its own, and 256 of them are in one set of the cache.
    wide = TILED.replace("(12, 8)", "(1024, 1024)").replace("16, 12)", "16, 1024)")
    wide = wide.replace("16, 8)", "16, 1024)").replace(
        "(4, 2, 3, 4, 4, 4)", "(4, 64, 4, 4, 16, 256)"
    )
    wide = wide.replace("(8, j_0 * 4", "(1024, j_0 * 16").replace(
        "(12, k_0 * 4", "(1024, k_0 * 256"
    )
    plain, root, _ = packed(wide)
    machine = Machine.of(Target(ONE_CORE))
    fetched = []
    for sch in (plain, root):
        program, numbers = read_nests(sch.mod)
        (nest,) = [n for n in nests(program, numbers[:, None]) if n.store.updates]
        assert nest.packed == [False, False, sch is root]
        cpu = machine.vector_bits, machine.vector_registers, machine.updates_in_flight
        how = execution(nest, *cpu)
        fetched.append(footprints(nest, how, machine).fetched[2, :, 0])
    lines, pages = CACHES.start, PAGES.start
    assert fetched[0][lines] > 1.2 * fetched[1][lines]
    assert fetched[0][pages] > 2 * fetched[1][pages]


@pytest.mark.parametrize(("free", "is_packed"), [([], True), ([1], False)])
def test_weights_with_a_free_layout_are_packed_at_build_time_only(
    free: list[int], is_packed: bool
) -> None:
    func = product(256, 256, 256)["main"].with_attr("layout_free_buffers", free)
    context = ms.TuneContext(func, target=TARGET, space_generator="post-order-apply", rand_state=1)
    packed = [
        sch
        for sch in context.generate_design_space()
        if any(PACKED in sref.block.annotations for sref in sch.state.blocks("main"))
    ]
    assert bool(packed) == is_packed
