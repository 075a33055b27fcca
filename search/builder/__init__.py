"""Builders, which compile candidates."""

from search.builder.builder import Builder, BuilderInput, BuilderResult, PyBuilder
from search.builder.local_builder import LocalBuilder

__all__ = ["Builder", "BuilderInput", "BuilderResult", "LocalBuilder", "PyBuilder"]
