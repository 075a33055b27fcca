"""Generators of design spaces."""

from search.space_generator.post_order_apply import PostOrderApply
from search.space_generator.schedule_fn import ScheduleFn
from search.space_generator.space_generator import PySpaceGenerator, SpaceGenerator
from search.space_generator.space_generator_union import SpaceGeneratorUnion

__all__ = [
    "PostOrderApply",
    "PySpaceGenerator",
    "ScheduleFn",
    "SpaceGenerator",
    "SpaceGeneratorUnion",
]
