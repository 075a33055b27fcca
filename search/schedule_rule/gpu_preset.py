"""The presets of schedule rules for GPUs."""

from __future__ import annotations

from search.schedule_rule.auto_bind import AutoBind
from search.schedule_rule.compute_location import AutoInline, InlineConstantScalars
from search.schedule_rule.cross_thread_reduction import CrossThreadReduction
from search.schedule_rule.multi_level_tiling import MultiLevelTiling, ReuseType
from search.schedule_rule.multi_level_tiling_tensor_core import (
    MultiLevelTilingTensorCore,
    intrin_group,
)
from search.schedule_rule.root_marks import ParallelizeVectorizeUnroll
from search.schedule_rule.schedule_rule import ApplyCustomRule, ScheduleRule


@ScheduleRule.kinds.register("cuda")
def gpu_rules() -> list[ScheduleRule]:
    """Return the rules for a GPU of any kind, those of MetaSchedule."""
    return [
        ApplyCustomRule(),
        MultiLevelTiling(
            "SSSRRSRS",
            tile_binds=["blockIdx.x", "vthread.x", "threadIdx.x"],
            max_innermost_factor=64,
            vector_load_lens=[1, 2, 3, 4, 8, 16],
            reuse_read=ReuseType("must", (4,), "shared"),
            reuse_write=ReuseType("must", (3,), "local"),
        ),
        InlineConstantScalars(),
        AutoInline(
            into_producer=True,
            into_consumer=True,
            inline_const_tensor=True,
            disallow_if_then_else=False,
            require_injective=False,
            require_ordered=False,
            disallow_op=None,
        ),
        CrossThreadReduction([4, 8, 16, 32, 64, 128, 256, 512]),
        ParallelizeVectorizeUnroll(-1, -1, [0, 16, 32, 64, 128, 256, 512, 1024], True),
        AutoBind(256, [32, 64, 128, 256, 512, 1024]),
    ]


@ScheduleRule.kinds.register("cuda-tensorcore")
def tensor_core_rules() -> list[ScheduleRule]:
    """Return the rules for a GPU with tensor cores, those of MetaSchedule with wmma instructions.

    The groups of intrinsics for bfloat16 are not in MetaSchedule.
    """
    custom, *others = gpu_rules()
    tiling = MultiLevelTilingTensorCore(
        [
            intrin_group(factors, sums, transposed=transposed)
            for factors, sums in (
                ("float16", "float32"),
                ("float16", "float16"),
                ("bfloat16", "float32"),
                ("int8", "int32"),
            )
            for transposed in (False, True)
        ],
        "SSSRRSRS",
        tile_binds=["blockIdx.y", "blockIdx.x", "threadIdx.y"],
        max_innermost_factor=4,
        vector_load_lens=[1, 2, 3, 4, 8, 16],
        reuse_read=ReuseType("must", (4,), "shared.dyn"),
        reuse_write=ReuseType("must", (2,), "shared.dyn"),
    )
    return [custom, tiling, *others]
