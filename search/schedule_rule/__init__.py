"""Rules that turn a program into design spaces, block by block."""

from typing import TYPE_CHECKING

from search.schedule_rule import presets
from search.schedule_rule.axis_splits import SeparateGroups, SkipNeutralTerms
from search.schedule_rule.compute_location import (
    AutoInline,
    InlineConstantScalars,
    RandomComputeLocation,
)
from search.schedule_rule.multi_level_tiling import (
    MultiLevelTiling,
    MultiLevelTilingWideVector,
    ReuseType,
)
from search.schedule_rule.multi_level_tiling_with_intrin import MultiLevelTilingWithIntrin
from search.schedule_rule.pack_operands import PackOperands
from search.schedule_rule.rfactor import AddRFactor, RFactorOverLanes
from search.schedule_rule.root_marks import ParallelizeVectorizeUnroll, SampleRegisterTile
from search.schedule_rule.schedule_rule import (
    ApplyCustomRule,
    PyScheduleRule,
    ScheduleRule,
    register_custom_rule,
)
from search.schedule_rule.stream_rows import StreamRows
from search.schedule_rule.tile_spatial import TileSpatial
from tensorir.lazy_names import names_on_use

if TYPE_CHECKING:
    from search.schedule_rule.auto_bind import AutoBind
    from search.schedule_rule.cross_thread_reduction import CrossThreadReduction
    from search.schedule_rule.multi_level_tiling_tensor_core import MultiLevelTilingTensorCore

__all__ = [
    "AddRFactor",
    "ApplyCustomRule",
    "AutoBind",
    "AutoInline",
    "CrossThreadReduction",
    "InlineConstantScalars",
    "MultiLevelTiling",
    "MultiLevelTilingTensorCore",
    "MultiLevelTilingWideVector",
    "MultiLevelTilingWithIntrin",
    "PackOperands",
    "ParallelizeVectorizeUnroll",
    "PyScheduleRule",
    "RFactorOverLanes",
    "RandomComputeLocation",
    "ReuseType",
    "SampleRegisterTile",
    "ScheduleRule",
    "SeparateGroups",
    "SkipNeutralTerms",
    "StreamRows",
    "TileSpatial",
    "presets",
    "register_custom_rule",
]

if not TYPE_CHECKING:
    __getattr__ = names_on_use(__name__)
