"""Shared memory of a kernel, between the loops over blocks and the loops over threads."""

from __future__ import annotations

from codegen.errors import LoweringError
from codegen.lower.gpu.share_bytes import share_bytes
from codegen.lower.rewriters import StatementRewriter
from codegen.lower.thread_axes import THREAD, kind_of
from tensorir.function import PrimFunc
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import IntImm, Var


def hoist_shared(func: PrimFunc) -> PrimFunc:
    """Allocate the shared memory of each kernel once, outside of the loops over threads.

    Before: for bx: for tx: for k: allocate S (shared); ...
    After:  for bx: allocate S (shared); for tx: for k: ...

    Allocations that live one after the other share their bytes (`share_bytes`).
    Raises LoweringError naming a buffer whose size is not constant.
    """
    return func.with_body(_Hoist()(func.body))


class _Hoist(StatementRewriter):
    def __init__(self) -> None:
        self._hoisted: list[s.Allocate] | None = None
        """The shared memory of the kernel around; None outside of loops over threads."""
        self._kernel: set[Var] | None = None
        """The pointers to shared memory that is allocated in the kernel around."""

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        if self._kernel is None and kind_of(node):
            self._kernel = set()
            result: s.Stmt = self(share_bytes(node))
            self._kernel = None
            return result
        if self._hoisted is not None or kind_of(node) != THREAD:
            return self.generic(node)
        hoisted: list[s.Allocate] = []
        self._hoisted = hoisted
        result = self.generic(node)
        self._hoisted = None
        for allocation in reversed(hoisted):
            result = allocation.with_(body=result)
        return result

    def rewrite_Allocate(self, node: s.Allocate) -> s.Stmt:  # noqa: N802
        if memory_of(node.buffer_var) != "shared":
            return self.generic(node)
        for extent in node.extents:
            if not isinstance(extent, IntImm):
                raise LoweringError(
                    f"the shared buffer {node.buffer_var.name} has an extent of {extent}; the size "
                    f"of shared memory must be constant: split the loops around it by constants"
                )
        assert self._kernel is not None
        if node.buffer_var in self._kernel:
            return self(node.body)
        self._kernel.add(node.buffer_var)
        if self._hoisted is None:
            return self.generic(node)
        self._hoisted.append(node)
        return self(node.body)
