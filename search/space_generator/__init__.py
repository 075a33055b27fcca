"""Design spaces: their generators, their points, and the analyses that rules share."""

from typing import TYPE_CHECKING

from tensorir.lazy_names import names_on_use

if TYPE_CHECKING:
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

if not TYPE_CHECKING:
    __getattr__ = names_on_use(__name__)
