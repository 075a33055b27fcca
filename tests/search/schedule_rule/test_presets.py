"""The rules, postprocessors and mutators of each target."""

from __future__ import annotations

import pytest

import search as ms
from codegen import Target
from search.errors import TuningError
from search.mutator import MutateParallel, Mutator
from search.postproc import Postproc, RewriteTensorize
from search.schedule_rule import (
    AddRFactor,
    AutoInline,
    MultiLevelTiling,
    MultiLevelTilingWithIntrin,
    ParallelizeVectorizeUnroll,
    ReuseType,
    ScheduleRule,
)
from search.space_generator.space_generator import preset_kind
from tensorir.errors import IRValueError
from tests.search.programs import Matmul

CPU_KINDS = ["llvm", "amx", "vnni", "avx512", "avx2", "asimd", "dotprod"]


def only(rules: list[ScheduleRule], kind: type) -> ScheduleRule:
    (rule,) = [r for r in rules if type(r) is kind]
    return rule


@pytest.mark.parametrize("kind", CPU_KINDS)
def test_order(kind: str) -> None:
    intrinsics = {
        "llvm": 0,
        "amx": 24,
        "vnni": 9,
        "avx512": 3,
        "avx2": 2,
        "asimd": 1,
        "dotprod": 6,
    }[kind]
    assert [str(rule) for rule in ScheduleRule.create(kind)] == [
        "ApplyCustomRule()",
        "InlineConstantScalars()",
        "AutoInline()",
        "SkipNeutralTerms()",
        "SeparateGroups()",
        "AddRFactor()",
        *["MultiLevelTilingWithIntrin()"] * intrinsics,
        "RFactorOverLanes()",
        "StreamRows()",
        "TileChannels()",
        "MultiLevelTiling()",
        "PackOperands()",
        "TileSpatial()",
        "ParallelizeVectorizeUnroll()",
        "SampleRegisterTile()",
        "RandomComputeLocation()",
    ]
    assert [str(postproc) for postproc in Postproc.create(kind)] == [
        "DisallowDynamicLoop()",
        "RewriteParallelVectorizeUnroll()",
        "RewriteRegisterTile()",
        "RewritePanels()",
        "RewriteReductionBlock()",
        *(["RewriteTensorize()"] if kind != "llvm" else []),
        "RewriteLayout()",
    ]
    assert {str(mutator): weight for mutator, weight in Mutator.create(kind).items()} == {
        "MutateTileSize()": 0.88,
        "MutateComputeLocation()": 0.05,
        "MutateUnroll()": 0.03,
        "MutateRegisterTile()": 0.02,
        "MutateParallel()": 0.02,
    }


@pytest.mark.parametrize(
    ("kind", "intrin"),
    [
        ("vnni", "dot_16x4_vnni"),
        ("avx512", "dot_16x2_i16i16s32_avx512"),
        ("avx2", "dot_8x2_i16i16s32_avx2"),
        ("asimd", "dot_4x4_i8i8s32_neon"),
        ("dotprod", "dot_4x4_i8i8s32_sdot"),
    ],
)
def test_intrinsics(kind: str, intrin: str) -> None:
    rules = ScheduleRule.create(kind)
    around = [rule for rule in rules if isinstance(rule, MultiLevelTilingWithIntrin)]
    plain = only(rules, MultiLevelTiling)
    assert isinstance(plain, MultiLevelTiling)
    assert intrin in [rule.intrin_name for rule in around]
    for name in ("structure", "max_innermost_factor", "reuse_read", "reuse_write", "filter_fn"):
        assert {getattr(rule, name) for rule in around} == {getattr(plain, name)}
    (tensorize,) = [p for p in Postproc.create(kind) if isinstance(p, RewriteTensorize)]
    assert tensorize.vectorize_init_loop


@pytest.mark.parametrize(
    ("kinds", "jobs", "innermost", "vector", "unroll"),
    [
        (("llvm", "amx", "vnni", "avx512", "avx2"), 16, 64, 64, [0, 16, 64, 512]),
        (("asimd", "dotprod"), 8, 32, 32, [0, 8, 32, 256]),
    ],
)
def test_parameters(
    kinds: tuple[str, ...], jobs: int, innermost: int, vector: int, unroll: list[int]
) -> None:
    for kind in kinds:
        rules = ScheduleRule.create(kind)
        inline = only(rules, AutoInline)
        assert isinstance(inline, AutoInline)
        assert (inline.into_producer, inline.into_consumer) == (False, True)
        assert inline.inline_const_tensor
        assert inline.disallow_if_then_else
        assert inline.require_injective
        assert inline.require_ordered
        assert inline.disallow_op == {"exp"}
        rfactor = only(rules, AddRFactor)
        assert isinstance(rfactor, AddRFactor)
        assert (rfactor.max_jobs_per_core, rfactor.max_innermost_factor) == (jobs, innermost)
        tiling = only(rules, MultiLevelTiling)
        assert isinstance(tiling, MultiLevelTiling)
        assert (tiling.structure, tiling.max_innermost_factor) == ("SSRSRS", innermost)
        assert tiling.reuse_write == ReuseType("may", (1, 2), "global")
        assert tiling.reuse_read.req == "no"
        marks = only(rules, ParallelizeVectorizeUnroll)
        assert isinstance(marks, ParallelizeVectorizeUnroll)
        assert (marks.max_jobs_per_core, marks.max_vectorize_extent) == (jobs, vector)
        assert (marks.unroll_max_steps, marks.unroll_explicit) == (unroll, True)
        (parallel,) = [m for m in Mutator.create(kind) if isinstance(m, MutateParallel)]
        assert parallel.max_jobs_per_core == 16


def test_order_on_gpus() -> None:
    assert list(map(str, ScheduleRule.create("cuda"))) == [
        "ApplyCustomRule()",
        "MultiLevelTiling()",
        "InlineConstantScalars()",
        "AutoInline()",
        "CrossThreadReduction()",
        "ParallelizeVectorizeUnroll()",
        "AutoBind()",
    ]
    assert list(map(str, Postproc.create("cuda"))) == [
        "DisallowDynamicLoop()",
        "RewriteCooperativeFetch()",
        "RewriteUnboundBlock()",
        "RewriteParallelVectorizeUnroll()",
        "RewriteReductionBlock()",
        "VerifyGPUCode()",
    ]
    for kind in ("cuda", "cuda-tensorcore"):
        assert {str(mutator): weight for mutator, weight in Mutator.create(kind).items()} == {
            "MutateTileSize()": 0.9,
            "MutateUnroll()": 0.08,
            "MutateThreadBinding()": 0.02,
        }


def test_tensor_cores_have_a_rule_before_the_others_and_a_postprocessor_after_them() -> None:
    first, *others = map(str, ScheduleRule.create("cuda"))
    assert list(map(str, ScheduleRule.create("cuda-tensorcore"))) == [
        first,
        "MultiLevelTilingTensorCore()",
        *others,
    ]
    assert list(map(str, Postproc.create("cuda-tensorcore"))) == [
        *map(str, Postproc.create("cuda")),
        "RewriteTensorize()",
    ]


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64", "llvm"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell", "avx2"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=sandybridge", "llvm"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512", "avx512"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake", "vnni"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids", "amx"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -mattr=-amx-int8", "vnni"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3 -mattr=+avxvnni", "vnni"),
        ("llvm -mtriple=aarch64-linux-gnu", "asimd"),
        ("llvm -mtriple=arm64-apple-darwin -mcpu=apple-m1", "dotprod"),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=+dotprod", "dotprod"),
        ("nvidia/nvidia-a100", "cuda-tensorcore"),
        ("cuda -arch=sm_70", "cuda-tensorcore"),
        ("cuda -arch=sm_61", "cuda"),
        ("rocm", "cuda"),
        ("opencl", "cuda"),
    ],
)
def test_the_instruction_set_decides(target: str, kind: str) -> None:
    assert preset_kind(Target(target)) == kind


def test_unknown_presets_list_the_known_ones() -> None:
    for part in (ScheduleRule, Postproc, Mutator):
        with pytest.raises(
            IRValueError,
            match="amx, asimd, avx2, avx512, cuda, cuda-tensorcore, dotprod, llvm, vnni",
        ):
            part.create("hexagon")


def test_without_a_target_there_are_no_cores_to_count_on() -> None:
    with pytest.raises(TuningError, match="num-cores"):
        MutateParallel(16)._initialize_with_tune_context(ms.TuneContext(Matmul))


@pytest.mark.parametrize("kind", CPU_KINDS)
def test_a_preset_with_other_numbers(kind: str) -> None:
    rules = ScheduleRule.create(kind, structure="SRS", innermost=8, vector=4, intrins=())
    assert not any(isinstance(rule, MultiLevelTilingWithIntrin) for rule in rules)
    tiling, marks = only(rules, MultiLevelTiling), only(rules, ParallelizeVectorizeUnroll)
    assert isinstance(tiling, MultiLevelTiling)
    assert isinstance(marks, ParallelizeVectorizeUnroll)
    assert (tiling.structure, tiling.max_innermost_factor) == ("SRS", 8)
    assert marks.max_vectorize_extent == 4
