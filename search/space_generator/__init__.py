"""Generators of design spaces."""

from search.space_generator.post_order_apply import PostOrderApply
from search.space_generator.space_generator import (
    PySpaceGenerator,
    ScheduleFn,
    SpaceGenerator,
    SpaceGeneratorUnion,
)

__all__ = [
    "PostOrderApply",
    "PySpaceGenerator",
    "ScheduleFn",
    "SpaceGenerator",
    "SpaceGeneratorUnion",
]
