"""Builders, which compile candidates."""

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
