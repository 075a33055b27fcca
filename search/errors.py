"""The errors of the search."""

from __future__ import annotations

from tensorir.errors import IRValueError, TensorIRError


class TuningError(TensorIRError):
    """A search was set up or driven in a way that cannot work."""


class DatabaseError(IRValueError):
    """A database file holds something that is no record; the text names file, line and field."""


class WorkerError(TensorIRError):
    """A worker process cannot be started or cannot do its job as it was set up."""
