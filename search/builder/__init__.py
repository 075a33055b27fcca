"""Builders, which compile candidates, and the processes that builders and runners work in."""

from typing import TYPE_CHECKING

from tensorir.lazy_names import names_on_use

if TYPE_CHECKING:
    from search.builder.builder import (
        Builder,
        BuilderFuture,
        BuilderInput,
        BuilderResult,
        LocalBuilder,
        PyBuilder,
    )

__all__ = [
    "Builder",
    "BuilderFuture",
    "BuilderInput",
    "BuilderResult",
    "LocalBuilder",
    "PyBuilder",
]

if not TYPE_CHECKING:
    __getattr__ = names_on_use(__name__)
