"""The error of lowering."""

from __future__ import annotations

from codegen.errors import CodegenError


class LoweringError(CodegenError):
    """A program asks for something that a CPU does not have or that lowering cannot give."""
