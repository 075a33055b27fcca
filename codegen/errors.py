"""The errors of code generation and of calls into compiled code.

Wrong arguments are the IR's own `IRTypeError` and `IRValueError`, so that callers catch what Python
users expect: TypeError for a wrong count, kind or dtype, ValueError for a wrong shape or layout.
"""

from __future__ import annotations

from tensorir.errors import IRValueError, TensorIRError


class TargetError(IRValueError):
    """A target description names an unknown kind or option, or gives it an impossible value."""


class CodegenError(TensorIRError):
    """A program cannot be turned into machine code."""


class LoweringError(CodegenError):
    """A program asks for what its target does not have, or what lowering cannot give."""


class LinkError(CodegenError):
    """Compiled code cannot be linked or loaded: a symbol, a linker or a file is missing."""


class ExecutionError(TensorIRError):
    """Compiled code stopped by itself, for lack of memory or another condition it reports."""


class AssertionFailedError(ExecutionError, AssertionError):
    """An `assert` of the program did not hold; the message is the program's own."""


class LibraryFunctionError(ExecutionError):
    """A library function raised an error, which is the cause of this one."""
