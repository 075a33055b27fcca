"""Vectorising innermost loops without an annotation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from codegen.lower.loop_accesses import Aliasing
from codegen.lower.rewriters import StatementRewriter
from tensorir.arith.coefficients import coefficients
from tensorir.comparison.equal import structural_equal
from tensorir.function import PrimFunc
from tensorir.indices.accesses import loads_in, only_stores
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, Call, IntImm, PrimExpr, Select, Var
from tensorir.nodes.intrin import Effect, Op
from tensorir.rewriting.visit import uses_var, walk

_SHORTEST: Final = 4
_LONGEST: Final = 64
"""Longer loops are left to LLVM, which also unrolls and interleaves them."""
_CHOICES: Final = frozenset({"if_then_else", "likely"})


def vectorize_innermost(func: PrimFunc) -> PrimFunc:
    """Vectorise short innermost loops whose iterations are neighbours in memory.

    Before: for k in 128: for j in 16: C[i * 16 + j] = C[i * 16 + j] + A[k] * B[k * 16 + j]
    After:  for k in 128: for j in T.vectorized(16): ...

    LLVM would not vectorise them: it unrolls such a loop first, and its accumulators become
    scalars. A loop qualifies if it has a constant extent that is a multiple of 4 and contains only
    stores. Each access moves by one element or is invariant, each store moves, and a load from a
    stored buffer is of the element that is stored. Parameters that may overlap disqualify a loop.
    """
    return func.with_body(_Mark(Aliasing(func))(func.body))


class _Mark(StatementRewriter):
    def __init__(self, aliasing: Aliasing) -> None:
        self._aliasing = aliasing

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        if _has_shape(node):
            stores = only_stores(node.body)
            if stores and self._qualifies(stores, node.loop_var):
                return node.with_(kind=s.ForKind.VECTORIZED)
        return self.generic(node)

    def _qualifies(self, stores: Sequence[s.BufferStore], var: Var) -> bool:
        written: dict[Buffer, PrimExpr] = {}
        for store in stores:
            if store.predicate is not None or not _steps(store.indices, var, (1,)):
                return False
            place = written.setdefault(store.buffer, store.indices[0])
            if not structural_equal(place, store.indices[0]):
                return False
        memory = {buffer.data for buffer in written}
        if len(memory) < len(written):
            return False
        for part in (part for store in stores for part in walk(store.value)):
            if not isinstance(part, BufferLoad):
                if not _is_plain(part, var):
                    return False
                continue
            if part.predicate is not None or not _steps(part.indices, var, (0, 1)):
                return False
            stored = written.get(part.buffer)
            if stored is None:
                if part.buffer.data in memory:
                    return False
            elif not structural_equal(part.indices[0], stored):
                return False
        loaded = {load.buffer.data for store in stores for load in loads_in(store.value)}
        return not any(
            self._aliasing.may_overlap({pointer}, (loaded | memory) - {pointer})
            for pointer in memory
        )


def _has_shape(loop: s.For) -> bool:
    return (
        loop.kind is s.ForKind.SERIAL
        and isinstance(loop.extent, IntImm)
        and _SHORTEST <= loop.extent.value <= _LONGEST
        and loop.extent.value % _SHORTEST == 0
        and not loop.annotations
    )


def _steps(indices: tuple[PrimExpr, ...], var: Var, allowed: tuple[int, ...]) -> bool:
    """Return True if `var` moves an access by one of the allowed numbers of elements."""
    if len(indices) != 1 or indices[0].dtype.lanes != 1:
        return False
    return coefficients(indices[0]).step(var) in allowed


def _is_plain(part: object, var: Var) -> bool:
    """Return True if an expression is pure, and its selects do not differ between lanes."""
    if isinstance(part, Select):
        return not uses_var(part.condition, var)
    if not isinstance(part, Call):
        return True
    if not isinstance(part.op, Op) or part.op.effect is not Effect.PURE:
        return False
    return part.op.short_name not in _CHOICES or not uses_var(part, var)
