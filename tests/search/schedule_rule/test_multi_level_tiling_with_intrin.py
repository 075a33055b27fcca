"""Tiling around a dot product: the tile that becomes the intrinsic, and the blocks left alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codegen
import search as ms
from codegen.target import host
from schedule import Schedule
from schedule.analysis.intrin_match import Mismatch
from search.database import JSONDatabase
from search.postproc import Postproc
from search.schedule_rule import (
    MultiLevelTiling,
    MultiLevelTilingWithIntrin,
    ReuseType,
    ScheduleRule,
)
from search.schedule_rule.multi_level_tiling_with_intrin import IntrinLoop, intrin_loops
from search.search_strategy.trace_application import TraceApplication
from tensorir import TensorIntrin, assert_structural_equal
from tensorir.errors import IRValueError
from tests.search.int8_programs import BLOCKED, DENSE, DENSE_RELU, TRANSPOSED, program
from tests.search.schedule_rule.programs import Reference

VNNI = "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake -num-cores=4"
WRITE_CACHE = ReuseType("may", (1, 2), "global")


def tiling(intrin: str = "dot_16x4_vnni", **options: Any) -> MultiLevelTilingWithIntrin:
    options = {"structure": "SSRSRS", "max_innermost_factor": 64, **options}
    return MultiLevelTilingWithIntrin(intrin, **options)


@cache
def reference(text: str) -> Reference:
    return Reference(program(text))


def assert_same_results(sch: Schedule, text: str) -> None:
    reference(text).check(sch.mod)


def designs(
    rule: ScheduleRule, text: str, block: str = "C", target: str = VNNI, seed: int = 1
) -> list[Schedule]:
    """Apply a rule to one block, and check that every design computes the same."""
    func = program(text)
    rule._initialize_with_tune_context(ms.TuneContext(func, target=target, rand_state=1))
    sch = Schedule(func, seed=seed, debug_mask="all")
    made = rule.apply(sch, sch.get_block(block))
    for design in made:
        assert_same_results(design, text)
    return made


def left_alone(text: str, rule: ScheduleRule | None = None, target: str = VNNI) -> bool:
    (sch,) = designs(rule or tiling(), text, target=target)
    assert_structural_equal(sch.mod["main"], program(text))
    assert all_kinds(sch) == ["GetBlock"]
    return True


def kinds(sch: Schedule) -> list[str]:
    """Return the kinds of the instructions before postprocessing that have an effect."""
    return [inst.kind.name for inst in sch.trace.simplified(True).insts]


def all_kinds(sch: Schedule) -> list[str]:
    return [inst.kind.name for inst in sch.trace.insts]


def nest(sch: Schedule, block: str) -> list[str]:
    """Return the names of the loops around a block."""
    return [sch.get(loop).loop_var.name for loop in sch.get_loops(sch.get_block(block))]


@pytest.fixture
def reasons(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Capture what rules say about the blocks they leave alone."""
    logger = logging.getLogger("tensorir.search")
    propagate, logger.propagate = logger.propagate, True
    with caplog.at_level(logging.DEBUG, logger="tensorir.search"):
        yield caplog
    logger.propagate = propagate


# --------------------------------------------------------------------------------------- the tiles

# One group of loops of each kind, so that nothing is sampled.


def test_what_is_done_is_recorded_in_the_order_of_the_reference() -> None:
    (sch,) = designs(tiling(structure="SR"), DENSE)
    assert kinds(sch) == [
        "GetBlock", "Annotate", "GetLoops", "Split", "Split", "GetLoops", "Reorder", "Blockize",
        "Annotate", "GetLoops", "Reorder",
    ]  # fmt: skip
    again = Schedule(program(DENSE))
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


@pytest.mark.parametrize(
    ("intrin", "text"),
    [("dot_16x4_vnni", DENSE), ("dot_16x4_avx512", BLOCKED), ("dot_16x4_portable", TRANSPOSED)],
    ids=["vnni", "avx512", "portable"],
)
def test_every_design_can_be_tensorized(intrin: str, text: str) -> None:
    made = designs(tiling(intrin, reuse_write=WRITE_CACHE), text)
    assert ["CacheWrite" in kinds(sch) for sch in made] == [False, True, True]
    for sch in made:
        assert sch.get(sch.get_block("C_o")).annotations["meta_schedule.auto_tensorize"] == intrin
        for postproc in Postproc.create("vnni"):
            assert postproc.apply(sch)
        assert "Tensorize" in all_kinds(sch)
        assert_same_results(sch, text)


MATRIX_TILES = """
@T.prim_func
def main(A: T.Buffer((32, 128), "uint8"), B: T.Buffer((32, 64, 4), "int8"), C: T.Buffer((32, 64), "int32")):
    T.func_attr({"tir.noalias": True})
    for i, j, k in T.grid(32, 64, 128):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vk // 4, vj, vk % 4])
"""


def test_an_intrinsic_with_several_spatial_loops() -> None:
    """Tiles of matrices; compiled only, few machines run them."""
    target = "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=1"
    rule = tiling("amx_16x16x64_u8i8i32", structure="SR")
    sch = Schedule(program(MATRIX_TILES))
    (design,) = rule.apply(sch, sch.get_block("C"))
    assert nest(design, "C_o") == ["i_0", "j_0", "k_0"]
    assert nest(design, "C") == ["i_1", "j_1", "k_1"]
    for postproc in Postproc.create("vnni"):
        assert postproc.apply(design)
    assert "llvm.x86.tdpbusd" in design.mod.script()
    assert codegen.compile_object(design.mod, target)


def test_an_elementwise_consumer_is_the_write_cache() -> None:
    apart, first, second = designs(tiling(reuse_write=WRITE_CACHE), DENSE_RELU)
    assert [len(nest(sch, "D")) for sch in (first, second, apart)] == [4, 6, 2]
    assert all("CacheWrite" not in kinds(sch) for sch in (first, second, apart))


def test_tiled_blocks_are_not_tiled_again() -> None:
    (sch,) = designs(tiling(), DENSE)
    before = sch.mod
    for rule in (MultiLevelTiling("SSRSRS"), tiling()):
        assert rule.apply(sch, sch.get_block("C")) == [sch]
    assert sch.mod is before


def test_loops_are_matched_from_the_last_one_of_each_kind() -> None:
    desc = TensorIntrin.get("dot_16x4_vnni")
    assert desc is not None

    def matched(text: str) -> list[IntrinLoop]:
        sch = Schedule(program(text))
        return intrin_loops(sch.get_sref(sch.get_block("C")), desc.desc)

    assert matched(DENSE) == [IntrinLoop(1, 16), IntrinLoop(2, 4)]
    assert matched(BLOCKED) == [IntrinLoop(3, 16), IntrinLoop(4, 4)]
    reduction_first = DENSE.replace(
        "for i, j, k in T.grid(4, 32, 8)", "for k, i, j in T.grid(8, 4, 32)"
    )
    reduction_first = reduction_first.replace(
        'vi, vj, vk = T.axis.remap("SSR", [i, j, k])', 'vk, vi, vj = T.axis.remap("RSS", [k, i, j])'
    )
    assert matched(reduction_first) == [IntrinLoop(2, 16), IntrinLoop(0, 4)]
    with pytest.raises(Mismatch) as error:
        matched(DENSE.replace("T.grid(4, 32, 8)", "T.grid(4, 24, 8)"))
    assert error.value.reason == "loop j has 24 iterations, not a multiple of 16"


# ------------------------------------------------------------------------------------- left alone

FLOATS = DENSE
for _dtype in ("uint8", "int8", "int32"):
    FLOATS = FLOATS.replace(f'"{_dtype}"', '"float32"')

PLAIN = TRANSPOSED.replace("B[vj, vk]", "B[vk, vj]").replace("(32, 8)", "(8, 39)")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (FLOATS, "the expressions differ"),
        (
            DENSE.replace('"uint8"', '"int8"'),
            "`A` is int8, which uint8 cannot represent exactly",
        ),
        (DENSE.replace("C[vi, vj] + ", "C[vi, vj] - "), "the expressions differ"),
        (DENSE.replace("T.grid(4, 32, 8)", "T.grid(4, 24, 8)"), "loop j has 24 iterations"),
        (PLAIN.replace("B[vk, vj]", "B[vk, vj + vk]"), "`B` has other indices"),
    ],
    ids=["floats", "signed", "difference", "extent", "no dimension of its own"],
)
def test_blocks_that_the_intrinsic_does_not_fit_stay(
    text: str, reason: str, reasons: pytest.LogCaptureFixture
) -> None:
    assert left_alone(text)
    (record,) = reasons.records
    assert record.getMessage().startswith("Block C is not tiled for dot_16x4_vnni: ")
    assert reason in record.getMessage()


def test_targets_without_the_instruction_get_no_design_that_cannot_be_built(
    reasons: pytest.LogCaptureFixture,
) -> None:
    haswell = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=4"
    assert left_alone(DENSE, target=haswell)
    assert "llvm.x86.avx512.vpdpbusd.512 needs avx512f" in reasons.text
    (sch,) = designs(tiling("dot_16x4_portable"), DENSE, target=haswell)
    assert "Blockize" in kinds(sch)


def test_an_unknown_intrinsic_is_an_error() -> None:
    with pytest.raises(IRValueError, match="unknown tensor intrinsic 'dot_5x5'; registered are"):
        tiling("dot_5x5")


# ------------------------------------------------------------------------------------- the search


def spaces(text: str, kind: str) -> list[Schedule]:
    task = ms.TuneContext(program(text), target=VNNI, space_generator=kind, rand_state=1)
    return task.generate_design_space()


def test_presets_with_an_intrinsic_offer_only_designs_with_it() -> None:
    for kind, intrin in (("vnni", "dot_16x4_vnni"), ("avx512", "dot_16x4_avx512")):
        found = spaces(DENSE, kind)
        assert len(found) == 3
        for sch in found:
            outer = sch.get(sch.get_block("C_o"))
            assert outer.annotations["meta_schedule.auto_tensorize"] == intrin
    assert all("Blockize" not in kinds(sch) for sch in spaces(DENSE, "llvm"))


@pytest.mark.parametrize("text", [FLOATS], ids=["floats"])
def test_other_programs_have_the_same_spaces_as_without(text: str) -> None:
    with_rule, without = (
        [sch.trace.simplified(True).as_json()[0] for sch in spaces(text, kind)]
        for kind in ("vnni", "llvm")
    )
    assert with_rule == without


def test_every_sampled_candidate_of_a_fused_layer_is_tensorized() -> None:
    task = ms.TuneContext(
        program(DENSE_RELU),
        target=VNNI,
        space_generator="vnni",
        search_strategy="replay-trace",
        rand_state=1,
    )
    application = TraceApplication(task)
    for space in task.generate_design_space():
        sch = application.apply(space.trace, resample=True)
        assert sch is not None
        assert "Tensorize" in all_kinds(sch)
        assert_same_results(sch, DENSE_RELU)


def tune(work_dir: Path, text: str, **options: Any) -> Schedule:
    best = ms.tune_tir(
        mod=program(text),
        target="llvm -num-cores=1",
        config=ms.TuneConfig(max_trials_global=2, num_trials_per_iter=2, num_confirmed=0),
        work_dir=work_dir,
        seed=1,
        **options,
    )
    assert best is not None
    records = JSONDatabase(work_dir=work_dir).get_all_tuning_records()
    tried = [record.schedule() for record in records if record.schedules and record.is_valid]
    assert all("Tensorize" in all_kinds(sch) for sch in tried)
    return best


def weights(rng: np.random.Generator) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return a matrix of 8 x 32 bytes, and the same packed."""
    plain = rng.integers(-128, 128, (8, 32), np.int8)
    return plain, plain.reshape(2, 4, 2, 16).transpose(2, 0, 3, 1).copy()


needs_vnni = pytest.mark.skipif(
    "avx512vnni" not in host.cpu_features(), reason="needs a CPU with AVX-512 VNNI"
)


@needs_vnni
def test_the_preset_of_this_machine_is_the_one_with_the_instruction(
    tmp_path: Path, measured: dict[str, Any]
) -> None:
    """Large values: sums of products that 16 bits do not hold."""
    best = tune(tmp_path, DENSE, **measured)
    plain, packed = weights(np.random.default_rng(0))
    a = np.full((4, 8), 255, np.uint8)
    c = np.zeros((4, 32), np.int32)
    library = codegen.build(best.mod, "llvm -num-cores=1")
    library["main"](a, packed, c)
    np.testing.assert_array_equal(c, a.astype(np.int32) @ plain.astype(np.int32))
    assert "vpdpbusd" in library.inspect_asm()
