"""Moving scratch allocations out of loops, so that they are made once."""

from __future__ import annotations

import math
from typing import Final

from codegen.lower.rewriters import StatementRewriter
from codegen.target import as_target
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import Allocate

MAX_REGISTER_BYTES: Final = 4096
"""The maximum size of a machine's vector registers in bytes: a buffer up to this size may be kept
in registers, and stays inside the loops for that.
"""


def hoist_allocations(func: PrimFunc) -> PrimFunc:
    """Move allocations that are too large for registers out of the loops of one thread.

    Before: for i in T.parallel(4): for j in 8: allocate B; B[...] = A[...]; C[...] = B[...]
    After:  for i in T.parallel(4): allocate B; for j in 8: B[...] = A[...]; C[...] = B[...]

    Heap allocations at the start of a parallel loop's body are then made once per thread
    (`codegen.emit.parallel`). `place_allocations` has moved allocations inwards as far as possible,
    which minimises their live size. Allocations of symbolic size stay in place, as a loop that does
    not run needs no memory. A failed allocation is reported before the loop.
    """
    return func.with_body(_Hoist(as_target(None).num_cores == 1)(func.body))


class _Hoist(StatementRewriter):
    def __init__(self, runs_alone: bool) -> None:
        self._runs_alone = runs_alone
        self._hoisted: list[s.Allocate] | None = None
        """The allocations to place before the enclosing loop; None outside of loops."""

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        if node.kind is not s.ForKind.PARALLEL or self._runs_alone:
            return self._hoist_from(node)
        outer, self._hoisted = self._hoisted, None
        self._runs_alone = True
        body = self._hoist_from(node.body)
        self._runs_alone = False
        self._hoisted = outer
        return node.changed(body=body)

    def rewrite_While(self, node: s.While) -> s.Stmt:  # noqa: N802
        return self._hoist_from(node)

    def rewrite_Allocate(self, node: s.Allocate) -> s.Stmt:  # noqa: N802
        size = constant_bytes(node)
        if self._hoisted is None or size is None or size <= MAX_REGISTER_BYTES:
            return self.generic(node)
        self._hoisted.append(node)
        return self(node.body)

    def _hoist_from(self, stmt: s.Stmt) -> s.Stmt:
        """Return a statement inside the allocations that were moved out of its loops."""
        if self._hoisted is not None:
            return self.generic(stmt)
        hoisted: list[s.Allocate] = []
        self._hoisted = hoisted
        result = self.generic(stmt)
        self._hoisted = None
        for node in reversed(hoisted):
            result = node.with_(body=result)
        return result


# -------------------------------------------------------------------------------------------- stack


MOST_BYTES: Final = 1 << 62
"""The maximum size of an allocation in bytes."""
STACK_LIMIT: Final = 32 << 10
"""The maximum size of one allocation on the stack in bytes; threads may have small stacks."""
STACK_TOTAL: Final = 256 << 10
"""The maximum size of all stack allocations of a function in bytes."""


def constant_bytes(node: Allocate) -> int | None:
    """Return the bytes of an allocation, None if they are known only at run time."""
    sizes = [int(n) for n in node.extents if type(n) is IntImm]
    if len(sizes) < len(node.extents):
        return None
    return max(1, math.prod(sizes) * node.dtype.nbytes)


def stack_bytes(node: Allocate, used: int) -> int | None:
    """Return the stack bytes of an allocation after `used` bytes.

    None if it must be on the heap.
    """
    nbytes = constant_bytes(node)
    if nbytes is None or nbytes > STACK_LIMIT or used + nbytes > STACK_TOTAL:
        return None
    return nbytes
