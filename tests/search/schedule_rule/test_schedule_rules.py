"""Schedule rules, apart from their cases: limits, arguments, later calls, and custom rules."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import search as ms
from schedule import Schedule
from schedule.primitives.sample_compute_location import INLINE_INDEX, location_domain
from search.errors import TuningError
from search.schedule_rule import (
    AddRFactor,
    ApplyCustomRule,
    MultiLevelTiling,
    MultiLevelTilingWideVector,
    RandomComputeLocation,
    ReuseType,
    ScheduleRule,
    StreamRows,
    register_custom_rule,
)
from tensorir import assert_structural_equal, workloads
from tensorir.rewriting.visit import walk
from tests.search.schedule_rule.programs import program
from tests.search.schedule_rule.test_rule_cases import gpu_tiling, inlining, tiling


def designs(
    rule: ScheduleRule, text: str, block: str, target: str | None = "llvm -num-cores=4"
) -> list[Schedule]:
    """Apply a rule to one block."""
    func = program(text)
    rule._initialize_with_tune_context(ms.TuneContext(func, target=target, rand_state=1))
    sch = Schedule(func, seed=1, debug_mask="all")
    return rule.apply(sch, sch.get_block(block))


def kinds(sch: Schedule) -> list[str]:
    return [inst.kind.name for inst in sch.trace.simplified(True).insts]


def nest(sch: Schedule, block: str) -> list[str]:
    """Return the names of the loops around a block."""
    return [sch.get(loop).loop_var.name for loop in sch.get_loops(sch.get_block(block))]


def unchanged(made: list[Schedule], text: str) -> bool:
    (sch,) = made
    assert_structural_equal(sch.mod["main"], program(text))
    return True


def test_a_reduction_may_be_longer_inside_than_a_tile_is_wide() -> None:
    (sch,) = designs(tiling(max_innermost_steps=512), "matmul", "C")
    drawn = [inst for inst in sch.trace.insts if inst.kind.name == "SamplePerfectTile"]
    assert [(i.value_of("n"), i.value_of("max_innermost_factor")) for i in drawn] == [
        (4, 64),
        (4, 64),
        (2, 512),
    ]


def test_tiled_blocks_are_not_tiled_again() -> None:
    rule = tiling()
    (sch,) = designs(rule, "matmul", "C")
    before = sch.mod
    assert rule.apply(sch, sch.get_block("C")) == [sch]
    assert sch.mod is before


def test_rows_are_cut_for_the_first_cache() -> None:
    design = designs(StreamRows(), "vector and matrix\n128 => 16384", "y")[0]
    assert design.get(design.get_loops("y")[0]).extent.value >= 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"structure": "SXR"}, "letters S and R"),
        ({"structure": "SR", "reuse_read": ReuseType("may", (1,), "global")}, "reuse_read"),
        ({"structure": "SR", "vector_length_in_bits": 0}, "vector_length_in_bits 0; it is pos"),
    ],
)
def test_arguments_that_make_no_sense(options: dict[str, Any], words: str) -> None:
    wide = "vector_length_in_bits" in options
    with pytest.raises(TuningError, match=words):
        (MultiLevelTilingWideVector if wide else MultiLevelTiling)(**options)


def test_threads_need_a_gpu() -> None:
    rule = MultiLevelTiling("SR", tile_binds=["blockIdx.x"])
    with pytest.raises(TuningError, match="bind loops to GPU threads; leave them out on a CPU"):
        designs(rule, "matmul", "C")


@pytest.mark.parametrize(("stride", "seed"), [(2, 1), (2, 12), (3, 14)])
def test_copies_whose_extents_depend_on_a_loop(stride: int, seed: int) -> None:
    """A tile of a transposed convolution reads a number of rows that depends on the step.

    For stride 2 the copy is proved to hold them. For stride 3 it is not, and the rule samples other
    tiles.
    """
    func = workloads.create("T2D", ci=32, co=32, kernel=stride + 2, stride=stride, padding=1)
    rule = gpu_tiling()
    rule._initialize_with_tune_context(ms.TuneContext(func, target="cuda", rand_state=1))
    sch = Schedule(func, seed=seed)
    design = rule.apply(sch, sch.get_block("conv2d_transpose_nhwc"))[0]
    names = [block.block.name_hint for block in design.state.blocks("main")]
    assert {"PadInput_shared", "weight_shared"} <= set(names)


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
    sch = Schedule(program("\n".join(lines)))
    for k in range(1, count):
        inlining(into_producer=True).apply(sch, sch.get_block(f"B{k}"))
    left = list(sch.state.blocks("main"))[1:]
    assert 1 < len(left) < count
    assert max(sum(1 for _ in walk(sref.block)) for sref in left) < 2000
    for sref in left[:-1]:
        assert INLINE_INDEX not in location_domain(sch.state, sref).values


def test_tiled_blocks_have_no_location_to_choose() -> None:
    (tiled,) = designs(tiling(), "matmul and relu", "C")
    before = tiled.mod
    RandomComputeLocation().apply(tiled, tiled.get_block("C"))
    assert tiled.mod is before


def test_the_partial_results_of_a_reduction_follow_it() -> None:
    outer, _, _ = designs(AddRFactor(16, 64), "row sums", "C")
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
    mark = f'T.block_attr({{"schedule_rule": "{rule}"}})'
    return f"row sums\nD[vi] = => {mark}\\n            D[vi] ="


def test_a_block_asks_for_a_rule() -> None:
    split, whole = designs(ApplyCustomRule(), asking_for("test_split_in_two"), "D")
    assert nest(split, "D") == ["i_0", "i_1"]
    assert nest(whole, "D") == ["i"]
    for text in (asking_for("None"), "row sums"):
        assert unchanged(designs(ApplyCustomRule(), text, "D"), text)


def test_an_unknown_rule_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("tensorir.search")
    propagate, logger.propagate = logger.propagate, True
    try:
        made = designs(ApplyCustomRule(), asking_for("no_such_rule"), "D")
    finally:
        logger.propagate = propagate
    assert unchanged(made, "row sums"), "the annotation is gone"
    assert "meta_schedule.cpu.no_such_rule" in caplog.text


def test_custom_rules_need_a_target() -> None:
    with pytest.raises(TuningError, match="target"):
        designs(ApplyCustomRule(), "row sums", "D", target=None)
