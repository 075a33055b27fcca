"""Builders, which compile candidates."""

from search.builder.builder import Builder, BuilderFuture, BuilderInput, BuilderResult, PyBuilder
from search.builder.local_builder import LocalBuilder

__all__ = [
    "Builder",
    "BuilderFuture",
    "BuilderInput",
    "BuilderResult",
    "LocalBuilder",
    "PyBuilder",
]
