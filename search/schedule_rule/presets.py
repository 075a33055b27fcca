"""The presets of schedule rules, by target kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict, Unpack

from search.schedule_rule.axis_splits import SeparateGroups, SkipNeutralTerms
from search.schedule_rule.compute_location import (
    AutoInline,
    InlineConstantScalars,
    RandomComputeLocation,
)
from search.schedule_rule.multi_level_tiling import MultiLevelTiling, ReuseType
from search.schedule_rule.multi_level_tiling_with_intrin import MultiLevelTilingWithIntrin
from search.schedule_rule.pack_operands import PackOperands
from search.schedule_rule.rfactor import AddRFactor, RFactorOverLanes
from search.schedule_rule.root_marks import ParallelizeVectorizeUnroll, SampleRegisterTile
from search.schedule_rule.schedule_rule import ApplyCustomRule, ScheduleRule
from search.schedule_rule.stream_rows import StreamRows
from search.schedule_rule.tile_channels import TileChannels
from search.schedule_rule.tile_spatial import TileSpatial
from tensorir.tensor_intrin.matrix_tile import STEPS


class OtherSign(str):
    """The name of an intrinsic for factors of the other sign: signed instead of unsigned."""


class CpuNumbers(TypedDict, total=False):
    """The numbers of a preset for CPUs."""

    jobs: int
    """The maximum number of iterations of a parallel loop per core."""
    innermost: int
    """The maximum extent of an innermost tile."""
    steps: int
    """The maximum number of innermost steps of a reduction."""
    vector: int
    """The maximum extent of a vector loop."""
    unroll: Sequence[int]
    """The unroll limits to choose from."""
    structure: str
    """The tile levels, such as `"SSRSRS"`."""
    intrins: Sequence[str | OtherSign]
    """Intrinsics; a block is tiled for the first intrinsic that fits it and the target."""


_X86: Final[CpuNumbers] = {
    "jobs": 16,
    "innermost": 64,
    "steps": 512,
    "vector": 64,
    "unroll": [0, 16, 64, 512],
    "structure": "SSRSRS",
    "intrins": [],
}
_ARM: Final[CpuNumbers] = {
    **_X86,
    "jobs": 8,
    "innermost": 32,
    "steps": 512,
    "vector": 32,
    "unroll": [0, 8, 32, 256],
    "intrins": ["dot_4x4_i8i8s32_neon"],
}
_PAIRS: Final = ["dot_16x2_i16i16s32_avx512", "dot_8x2_i16i16s32_avx2"]
_BFLOATS: Final = ["dot_16x2_bf16bf16f32_avx512", "dot_8x2_bf16bf16f32_avx512"]
_BYTES: Final = ["dot_8x4_i8i8s32_vnniint8", "dot_16x4_vnni", "dot_8x4_vnni"]
_OTHER_BYTES: Final = [OtherSign("dot_16x4_vnni"), OtherSign("dot_8x4_vnni")]
_VNNI: Final = [*_BYTES, *_OTHER_BYTES, *_BFLOATS, *_PAIRS]
_TILES: Final = [
    f"amx_32x32x{lanes * steps}_{types}"
    for types, lanes in (("u8i8i32", 64), ("i8i8i32", 64), ("bf16bf16f32", 32))
    for steps in STEPS
]
_ARM_DOTS: Final = [
    "dot_4x4_i8i8s32_sdot",
    "dot_4x4_u8u8u32_udot",
    "dot_4x4_u8u8i32_hdot",
    "dot_4x4_u8i8s32_usdot",
    "dot_4x2_bf16bf16f32_bfdot",
    OtherSign("dot_4x4_i8i8s32_sdot"),
]

PRESETS: Final[Mapping[str, CpuNumbers]] = {
    # Any other CPU.
    "llvm": _X86,
    # X86 with AMX, longest sums first.
    "amx": {**_X86, "intrins": [*_TILES, *_VNNI]},
    # X86 with an instruction for dot products of bytes.
    "vnni": {**_X86, "intrins": _VNNI},
    # X86 with AVX-512, where a dot product of bytes is two instructions.
    "avx512": {**_X86, "intrins": [*_PAIRS, "dot_16x4_avx512"]},
    # X86 with AVX2, which multiplies pairs of 16-bit integers.
    "avx2": {**_X86, "intrins": _PAIRS},
    # ARM, with shorter vectors and smaller caches.
    "asimd": _ARM,
    # ARM with instructions for dot products of bytes.
    "dotprod": {**_ARM, "intrins": _ARM_DOTS},
}
"""The numbers of each preset, by name."""


def _register(name: str, numbers: CpuNumbers) -> None:
    def rules(**changed: Unpack[CpuNumbers]) -> list[ScheduleRule]:
        return _cpu_rules({**numbers, **changed})

    ScheduleRule.kinds.register(name)(rules)


def _cpu_rules(numbers: CpuNumbers) -> list[ScheduleRule]:
    """Return the rules for a CPU."""
    jobs, innermost = numbers["jobs"], numbers["innermost"]
    tiling: dict[str, Any] = {
        "structure": numbers["structure"],
        "max_innermost_factor": innermost,
        "reuse_write": ReuseType("may", (1, 2), "global"),
    }
    return [
        ApplyCustomRule(),
        InlineConstantScalars(),
        AutoInline(
            into_producer=False,
            into_consumer=True,
            inline_const_tensor=True,
            disallow_if_then_else=True,
            require_injective=True,
            require_ordered=True,
            disallow_op=["tir.exp"],
        ),
        SkipNeutralTerms(),
        SeparateGroups(),
        AddRFactor(max_jobs_per_core=jobs, max_innermost_factor=innermost),
        *(
            MultiLevelTilingWithIntrin(
                str(intrin), other_sign=isinstance(intrin, OtherSign), **tiling
            )
            for intrin in numbers["intrins"]
        ),
        RFactorOverLanes(),
        StreamRows(),
        TileChannels(**tiling, max_innermost_steps=numbers["steps"]),
        MultiLevelTiling(**tiling, max_innermost_steps=numbers["steps"]),
        PackOperands(max_jobs_per_core=jobs),
        TileSpatial(max_lanes=numbers["vector"]),
        ParallelizeVectorizeUnroll(
            max_jobs_per_core=jobs,
            max_vectorize_extent=numbers["vector"],
            unroll_max_steps=numbers["unroll"],
            unroll_explicit=True,
        ),
        # A smaller tile also hides the latency, and leaves registers for its operands.
        SampleRegisterTile((1, 0.75), (0.75, 0.25)),
        RandomComputeLocation(),
    ]


for _name, _numbers in PRESETS.items():
    _register(_name, _numbers)
