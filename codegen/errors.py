"""The errors of code generation and of calls into compiled code.

Wrong arguments raise the IR's `IRTypeError` and `IRValueError`, so that callers can catch the usual
Python errors: TypeError for a wrong count, kind or dtype, ValueError for a wrong shape or layout.
"""

from __future__ import annotations

from tensorir.errors import IRValueError, TensorIRError


class TargetError(IRValueError):
    """A target description has an unknown kind or option, or an invalid value."""


class CodegenError(TensorIRError):
    """A program cannot be turned into machine code."""


class LoweringError(CodegenError):
    """A program uses a feature that its target does not have or that lowering does not support."""


class LinkError(CodegenError):
    """Compiled code cannot be linked or loaded: a symbol, a linker or a file is missing."""


class WorkerError(TensorIRError):
    """A worker process cannot be started, or its configuration prevents its job."""


class ExecutionError(TensorIRError):
    """Compiled code stopped because memory ran out, or for another reason that it reports."""


class AssertionFailedError(ExecutionError, AssertionError):
    """An `assert` of the program did not hold; the message is the program's own."""


class LibraryFunctionError(ExecutionError):
    """A library function raised an error, which is the cause of this one."""
