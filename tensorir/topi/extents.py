"""Checks of what a formula is given: ranks, dtypes, and extents that have to be equal."""

from __future__ import annotations

from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.te.tensor import Tensor


def check_rank(name: str, tensor: Tensor, rank: int) -> None:
    """Raise IRValueError unless the operand called `name` has a rank."""
    if tensor.ndim != rank:
        raise IRValueError(f"{name} must have {rank} dimensions, got {tensor.ndim}")


def check_floats(name: str, tensor: Tensor) -> None:
    """Raise IRTypeError unless the operand called `name` holds floating-point numbers."""
    if not tensor.dtype.is_floating:
        raise IRTypeError(
            f"{name} must be of floating-point numbers, got {tensor.dtype}; astype converts"
        )


def check_equal(a: PrimExpr, what_a: str, b: PrimExpr, what_b: str) -> None:
    """Raise IRValueError unless two extents are known to be equal."""
    if Analyzer().can_prove_equal(a, b):
        return
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        raise IRValueError(f"{what_a} is {a.value}, but {what_b} is {b.value}")
    raise IRValueError(f"{what_a} is {a} and may differ from {what_b}, {b}; match_cast states it")


def known_extent(extent: PrimExpr, what: str) -> int:
    """Return an extent that has to be a number; IRValueError for a symbolic one."""
    if not isinstance(extent, IntImm):
        raise IRValueError(f"{what} must be a known number, got {extent}; match_cast states it")
    return extent.value


def simplified(extent: PrimExpr) -> PrimExpr:
    """Return an extent in its simplest form."""
    return Analyzer().simplify(extent)
