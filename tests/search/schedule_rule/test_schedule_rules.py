"""Each rule: the blocks that it changes, what becomes of them, and the blocks that it leaves."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import search as ms
from schedule import Schedule
from schedule.primitives.sample_compute_location import INLINE_INDEX, location_domain
from search.errors import TuningError
from search.schedule_rule import (
    AddRFactor,
    ApplyCustomRule,
    AutoInline,
    InlineConstantScalars,
    MultiLevelTiling,
    ParallelizeVectorizeUnroll,
    RandomComputeLocation,
    ReuseType,
    ScheduleRule,
    register_custom_rule,
)
from tensorir import assert_structural_equal, parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret, random_arguments
from tensorir.rewriting.visit import walk

MATMUL = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

MATMUL_RELU = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), D: T.Buffer((16, 16), "float32")):
    C = T.alloc_buffer((16, 16))
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(16, 16):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj], T.float32(0))
"""

ROW_SUM = """
@T.prim_func
def main(A: T.Buffer((8, 16, 32), "float32"), C: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    for i, j, k in T.grid(8, 16, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SRR", [i, j, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vj, vk]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = T.sqrt(C[vi])
"""


def program(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def task(func: PrimFunc, target: str | None = "llvm -num-cores=4") -> ms.TuneContext:
    return ms.TuneContext(func, target=target, rand_state=1)


def designs(
    rule: ScheduleRule, text: str, block: str, target: str | None = "llvm -num-cores=4"
) -> list[Schedule]:
    """Apply a rule to one block, and check that every design computes the same."""
    func = program(text)
    rule._initialize_with_tune_context(task(func, target))
    sch = Schedule(func, seed=1, debug_mask="all")
    made = rule.apply(sch, sch.get_block(block))
    expected = random_arguments(func, 0)
    interpret(func, *expected)
    for design in made:
        actual = random_arguments(func, 0)
        interpret(design.mod, *actual)
        for got, wanted in zip(actual, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-5)
    return made


def kinds(sch: Schedule) -> list[str]:
    return [inst.kind.name for inst in sch.trace.simplified(True).insts]


def nest(sch: Schedule, block: str) -> list[str]:
    """Return the names of the loops around a block."""
    return [sch.get(loop).loop_var.name for loop in sch.get_loops(sch.get_block(block))]


def unchanged(made: list[Schedule], text: str) -> bool:
    (sch,) = made
    assert_structural_equal(sch.mod["main"], program(text))
    return True


# ------------------------------------------------------------------------------ multi-level tiling


def tiling(**options: Any) -> MultiLevelTiling:
    return MultiLevelTiling("SSRSRS", max_innermost_factor=64, **options)


def test_tiles_in_the_order_of_the_structure() -> None:
    (sch,) = designs(tiling(), MATMUL, "C")
    expected = ["i_0", "j_0", "i_1", "j_1", "k_0", "i_2", "j_2", "k_1", "i_3", "j_3"]
    assert nest(sch, "C") == expected
    annotations = sch.get(sch.get_block("C")).annotations
    assert annotations["meta_schedule.tiling_structure"] == "SSRSRS"


def test_a_letter_that_stands_alone_does_not_split() -> None:
    (sch,) = designs(MultiLevelTiling("SR"), MATMUL, "C")
    assert nest(sch, "C") == ["i", "j", "k"]


def test_a_reduction_may_be_longer_inside_than_a_tile_is_wide() -> None:
    (sch,) = designs(tiling(max_innermost_steps=512), MATMUL, "C")
    drawn = [inst for inst in sch.trace.insts if inst.kind.name == "SamplePerfectTile"]
    assert [(i.value_of("n"), i.value_of("max_innermost_factor")) for i in drawn] == [
        (4, 64),
        (4, 64),
        (2, 512),
    ]


def test_designs_with_a_write_cache() -> None:
    rule = tiling(reuse_write=ReuseType("may", (1, 2), "global"))
    plain, first, second = designs(rule, MATMUL, "C")
    assert "CacheWrite" not in kinds(plain)
    assert len(nest(first, "C_global")) == 2 + 2, "two loops of level 1, two over the tile"
    assert len(nest(second, "C_global")) == 4 + 2


def test_an_elementwise_consumer_is_the_write_cache() -> None:
    rule = tiling(reuse_write=ReuseType("may", (1, 2), "global"))
    plain, first, second = designs(rule, MATMUL_RELU, "C")
    assert all("CacheWrite" not in kinds(sch) for sch in (first, second, plain))
    assert len(nest(first, "D")) == 4
    assert len(nest(second, "D")) == 6
    assert nest(plain, "D") == ["i", "j"]


def test_a_block_may_fix_the_level_of_its_cache() -> None:
    text = MATMUL.replace(
        "            with T.init",
        '            T.block_attr({"meta_schedule.write_cache_level": [2]})\n            with T.init',
    )
    (sch,) = designs(tiling(reuse_write=ReuseType("may", (1, 2), "global")), text, "C")
    assert len(nest(sch, "C_global")) == 6
    (sch,) = designs(tiling(), text, "C")
    assert "CacheWrite" not in kinds(sch), "a rule without reuse has no caches at all"


def test_read_caches() -> None:
    rule = tiling(reuse_read=ReuseType("must", (4,), "global"))
    (sch,) = designs(rule, MATMUL, "C")
    assert kinds(sch).count("CacheRead") == 2
    assert nest(sch, "A_global")[:-1] == nest(sch, "C")[:7]


def test_the_read_cache_of_a_scalar_has_no_loops_of_its_own() -> None:
    text = MATMUL.replace("(A:", '(S: T.Buffer((), "float32"), A:').replace(
        "+ A[vi, vk]", "+ S[()] * A[vi, vk]"
    )
    (sch,) = designs(tiling(reuse_read=ReuseType("must", (4,), "global")), text, "C")
    assert kinds(sch).count("CacheRead") == 3
    assert nest(sch, "S_global") == nest(sch, "C")[:7]


def test_what_is_not_tiled() -> None:
    assert unchanged(designs(tiling(), ROW_SUM, "C"), ROW_SUM), "nothing is read twice"
    assert unchanged(designs(tiling(), ROW_SUM, "D"), ROW_SUM), "no reduction"
    rule = tiling()
    (sch,) = designs(rule, MATMUL, "C")
    before = sch.mod
    assert rule.apply(sch, sch.get_block("C")) == [sch]
    assert sch.mod is before, "tiled already"


def test_loops_that_are_as_long_as_another_one_says_are_not_tiled() -> None:
    triangular = """\
@T.prim_func
def main(A: T.Buffer((5, 9)), B: T.Buffer((9, 16)), C: T.Buffer((5, 16))):
    for i in range(5):
        for k, j in T.grid(i * 2, 16):
            with T.block("C"):
                vi = T.axis.spatial(5, i)
                vk = T.axis.reduce(9, k)
                vj = T.axis.spatial(16, j)
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
    assert unchanged(designs(tiling(), triangular, "C"), triangular)


def test_a_filter_chooses_blocks() -> None:
    chosen: list[str] = []

    def by_name(sch: Schedule, sref: Any) -> bool:
        chosen.append(sref.block.name_hint)
        return True

    (sch,) = designs(tiling(filter_fn=by_name), ROW_SUM, "D")
    assert chosen == ["D"]
    assert len(nest(sch, "D")) == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"structure": "SXR"}, "letters S and R"),
        ({"structure": "SR", "tile_binds": ["blockIdx.x"]}, "GPU"),
        ({"structure": "SR", "reuse_read": ReuseType("may", (1,), "global")}, "reuse_read"),
    ],
)
def test_arguments_that_make_no_sense(options: dict[str, Any], words: str) -> None:
    with pytest.raises(TuningError, match=words):
        MultiLevelTiling(**options)


# --------------------------------------------------------------------------------------- inlining

CHAIN = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32"), E: T.Buffer((1,), "float32")):
    B = T.alloc_buffer((16,))
    C = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = T.exp(B[vi])
    for i in range(16):
        with T.block("D"):
            vi = T.axis.spatial(16, i)
            D[vi] = C[vi] * T.float32(2)
    for i in range(16):
        with T.block("E"):
            vi = T.axis.reduce(16, i)
            with T.init():
                E[0] = T.float32(0)
            E[0] = E[0] + A[vi]
"""


def inlining(**changes: Any) -> AutoInline:
    options: dict[str, Any] = {
        "into_producer": False,
        "into_consumer": True,
        "inline_const_tensor": True,
        "disallow_if_then_else": True,
        "require_injective": True,
        "require_ordered": True,
        "disallow_op": ["tir.exp"],
    }
    return AutoInline(**{**options, **changes})


def names(sch: Schedule) -> list[str]:
    return [sref.block.name_hint for sref in sch.state.blocks("main")][1:]


def test_cheap_blocks_are_inlined() -> None:
    assert names(designs(inlining(), CHAIN, "B")[0]) == ["C", "D", "E"]
    assert names(designs(inlining(), CHAIN, "C")[0]) == ["B", "C", "D", "E"], "exp is dear"
    assert names(designs(inlining(disallow_op=None), CHAIN, "C")[0]) == ["B", "D", "E"]
    assert names(designs(inlining(), CHAIN, "D")[0]) == ["B", "C", "D", "E"], "an output"


def test_in_a_function_of_spatial_blocks_all_are_inlined() -> None:
    elementwise = CHAIN[: CHAIN.index('    for i in range(16):\n        with T.block("E")')]
    assert names(designs(inlining(), elementwise, "C")[0]) == ["B", "D"]


def test_a_chain_of_blocks_that_read_the_one_before_twice_stays_short() -> None:
    count = 24
    lines = [
        "@T.prim_func",
        f'def main(V0: T.Buffer((16,), "float32"), V{count}: T.Buffer((16,), "float32")):',
        *(f"    V{k} = T.alloc_buffer((16,))" for k in range(1, count)),
    ]
    for k in range(count):
        lines += [
            "    for i in range(16):",
            f'        with T.block("B{k + 1}"):',
            '            vi = T.axis.remap("S", [i])',
            f"            V{k + 1}[vi] = V{k}[vi] * V{k}[vi] + V{k}[vi]",
        ]
    sch = Schedule(parse("\n".join(lines)))
    for k in range(1, count):
        inlining(into_producer=True).apply(sch, sch.get_block(f"B{k}"))
    left = list(sch.state.blocks("main"))[1:]
    assert 1 < len(left) < count
    assert max(sum(1 for _ in walk(sref.block)) for sref in left) < 2000
    for sref in left[:-1]:
        assert INLINE_INDEX not in location_domain(sch.state, sref).values


def test_a_block_can_opt_out() -> None:
    text = CHAIN.replace(
        "            B[vi] =",
        '            T.block_attr({"meta_schedule.inline_rule": "disable"})\n            B[vi] =',
    )
    assert names(designs(inlining(), text, "B")[0]) == ["B", "C", "D", "E"]


def test_conditions_and_transposes_stay() -> None:
    padded = CHAIN.replace("A[vi] + T.float32(1)", "T.if_then_else(vi < 8, A[vi], T.float32(0))")
    assert "B" in names(designs(inlining(), padded, "B")[0])
    assert "B" not in names(designs(inlining(disallow_if_then_else=False), padded, "B")[0])
    transposed = """
    @T.prim_func
    def main(A: T.Buffer((8, 4), "float32"), C: T.Buffer((4,), "float32")):
        B = T.alloc_buffer((4, 8))
        for i, j in T.grid(4, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vj, vi]
        for i, j in T.grid(4, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + B[vi, vj]
    """
    text = "\n".join(line[4:] for line in transposed.splitlines())
    assert "B" in names(designs(inlining(), text, "B")[0])
    assert "B" not in names(designs(inlining(require_ordered=False), text, "B")[0])


def test_into_the_producer() -> None:
    upwards = inlining(into_consumer=False, into_producer=True)
    assert names(designs(upwards, CHAIN, "D")[0]) == ["B", "C", "E"]
    relu = designs(upwards, MATMUL_RELU, "D")
    assert unchanged(relu, MATMUL_RELU), "the producer reduces, it is not complete"


CONSTANT = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    two = T.alloc_buffer(())
    with T.block("two"):
        T.reads()
        T.writes(two[()])
        two[()] = T.float32(2)
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = A[vi] * two[()]
"""


def test_constant_scalars_are_inlined() -> None:
    (sch,) = designs(InlineConstantScalars(), CONSTANT, "two")
    assert names(sch) == ["C"]
    assert unchanged(designs(InlineConstantScalars(), CONSTANT, "C"), CONSTANT)


# ------------------------------------------------------------------------------------- reductions


def test_reductions_are_factored_over_either_half() -> None:
    outer, inner, plain = designs(AddRFactor(16, 64), ROW_SUM, "C")
    assert nest(outer, "C_rf") == ["i", "j_k_fused_0", "j_k_fused_1"]
    assert nest(outer, "C") == ["i", "j_k_fused_0"]
    assert nest(inner, "C") == ["i", "j_k_fused_1"]
    assert unchanged([plain], ROW_SUM)
    for sch in (outer, inner):
        block = sch.get(sch.get_block("C"))
        assert "meta_schedule.random_compute_producer" in block.annotations


def test_reduction_loops_are_brought_together() -> None:
    text = ROW_SUM.replace("for i, j, k in T.grid(8, 16, 32)", "for j, i, k in T.grid(16, 8, 32)")
    text = text.replace('remap("SRR", [i, j, k])', 'remap("RSR", [j, i, k])').replace(
        "vi, vj, vk = T.axis", "vj, vi, vk = T.axis"
    )
    outer, _, _ = designs(AddRFactor(16, 64), text, "C")
    assert "Reorder" in kinds(outer)
    assert nest(outer, "C") == ["i", "j_k_fused_0"]


def test_a_reduction_with_enough_parallelism_is_not_factored() -> None:
    assert unchanged(designs(AddRFactor(16, 64), MATMUL, "C"), MATMUL)
    small = MATMUL.replace("16", "4").replace("T.grid(4, 4, 4)", "T.grid(4, 4, 64)")
    small = small.replace("A: T.Buffer((4, 4)", "A: T.Buffer((4, 64)").replace(
        "B: T.Buffer((4, 4)", "B: T.Buffer((64, 4)"
    )
    assert len(designs(AddRFactor(16, 64), small, "C")) == 3
    assert unchanged(designs(AddRFactor(2, 64), small, "C"), small), "16 iterations for 4 cores"
    assert len(designs(AddRFactor(-1, 64), small, "C")) == 3, "never enough for the cores"
    assert unchanged(designs(AddRFactor(16, 64), ROW_SUM, "D"), ROW_SUM), "no reduction"


@pytest.mark.parametrize(("length", "usual", "above"), [(1, 1, 1), (2, 3, 1), (4, 3, 1), (5, 3, 3)])
def test_a_short_sum_is_factored_as_meta_schedule_or_as_ansor_does(length, usual, above) -> None:
    text = f"""
@T.prim_func
def main(A: T.Buffer((8, {length}), "float32"), B: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, {length}):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""
    assert len(designs(AddRFactor(16, 64), text, "B")) == usual
    four_cores = AddRFactor(16, 64, only_above_cores=True)
    assert len(designs(four_cores, text, "B")) == above


# ----------------------------------------------------------------- parallel, vector, compute location


def test_the_root_block_is_marked() -> None:
    rule = ParallelizeVectorizeUnroll(16, 64, [0, 16], unroll_explicit=True)
    (sch,) = designs(rule, MATMUL, "root")
    marks = dict(sch.get(sch.get_block("root")).annotations)
    assert int(marks["meta_schedule.parallel"]) == 64, "16 jobs for each of 4 cores"
    assert int(marks["meta_schedule.vectorize"]) == 64
    assert int(marks["meta_schedule.unroll_explicit"]) in (0, 16)
    assert unchanged(designs(rule, MATMUL, "C"), MATMUL), "other blocks are not"


def test_marks_that_are_not_wanted() -> None:
    (sch,) = designs(ParallelizeVectorizeUnroll(-1, -1, [8], False), MATMUL, "root")
    marks = sch.get(sch.get_block("root")).annotations
    assert {k: int(v) for k, v in marks.items()} == {"meta_schedule.unroll_implicit": 8}
    elementwise = CHAIN[: CHAIN.index('    for i in range(16):\n        with T.block("E")')]
    rule = ParallelizeVectorizeUnroll(-1, -1, [8], False)
    assert unchanged(designs(rule, elementwise, "root"), elementwise), "nothing to unroll"


def test_a_program_for_one_core_has_no_parallel_loops() -> None:
    """It may be built for more cores later, and has to run as it was measured."""
    rule = ParallelizeVectorizeUnroll(16, 64, [0, 16])
    (sch,) = designs(rule, MATMUL, "root", "llvm -num-cores=1")
    assert "meta_schedule.parallel" not in sch.get(sch.get_block("root")).annotations


def test_a_location_is_sampled_and_taken() -> None:
    (sch,) = designs(RandomComputeLocation(), ROW_SUM, "C")
    assert kinds(sch) == ["GetBlock", "SampleComputeLocation", "ComputeAt"]


def test_what_has_no_location_to_choose() -> None:
    rule = RandomComputeLocation()
    assert unchanged(designs(rule, ROW_SUM, "D"), ROW_SUM), "nobody uses it"
    assert unchanged(designs(rule, ROW_SUM, "root"), ROW_SUM)
    (tiled,) = designs(tiling(), MATMUL_RELU, "C")
    before = tiled.mod
    rule.apply(tiled, tiled.get_block("C"))
    assert tiled.mod is before, "tiled blocks stay"


def test_the_partial_results_of_a_reduction_follow_it() -> None:
    outer, _, _ = designs(AddRFactor(16, 64), ROW_SUM, "C")
    (sch,) = RandomComputeLocation().apply(outer, outer.get_block("C"))
    assert kinds(sch)[-6:] == [
        "GetProducers",
        "Unannotate",
        "SampleComputeLocation",
        "ComputeAt",
        "SampleComputeLocation",
        "ComputeAt",
    ]
    assert not sch.get(sch.get_block("C")).annotations


# ------------------------------------------------------------------------------------ custom rules


@register_custom_rule("meta_schedule.cpu.test_split_in_two")
def split_in_two(sch: Schedule, block: Any) -> list[Schedule]:
    twin = sch.copy()
    sch.split(sch.get_loops(block)[0], [2, None])
    return [sch, twin]


def asking_for(rule: str) -> str:
    return ROW_SUM.replace(
        "            D[vi] =",
        f'            T.block_attr({{"schedule_rule": "{rule}"}})\n            D[vi] =',
    )


def test_a_block_asks_for_a_rule() -> None:
    split, whole = designs(ApplyCustomRule(), asking_for("test_split_in_two"), "D")
    assert nest(split, "D") == ["i_0", "i_1"]
    assert nest(whole, "D") == ["i"]


def test_blocks_without_a_rule_of_their_own() -> None:
    assert unchanged(designs(ApplyCustomRule(), asking_for("None"), "D"), asking_for("None"))
    assert unchanged(designs(ApplyCustomRule(), ROW_SUM, "D"), ROW_SUM)


def test_an_unknown_rule_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("tensorir.search")
    propagate, logger.propagate = logger.propagate, True
    try:
        made = designs(ApplyCustomRule(), asking_for("no_such_rule"), "D")
    finally:
        logger.propagate = propagate
    assert unchanged(made, ROW_SUM), "the annotation is gone"
    assert "meta_schedule.cpu.no_such_rule" in caplog.text


def test_custom_rules_need_a_target() -> None:
    with pytest.raises(TuningError, match="target"):
        designs(ApplyCustomRule(), ROW_SUM, "D", target=None)
