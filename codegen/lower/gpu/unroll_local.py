"""Loops over memory of a thread are written out, for registers have no addresses."""

from __future__ import annotations

from typing import Final

from codegen.lower.rewriters import StatementRewriter
from codegen.lower.thread_axes import tensor_core_of
from codegen.target.gpu import WARP
from tensorir.function import PrimFunc
from tensorir.memory.storage_scopes import is_fragment, memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, IntImm
from tensorir.nodes.stmt import BufferStore, ForKind
from tensorir.rewriting.visit import collect_vars, walk

_MOST_BYTES: Final = 1024
"""The 256 registers of a thread. Some elements of a buffer of this size spill; a larger one lies in
memory."""


def unroll_local(func: PrimFunc) -> PrimFunc:
    """Leave it to LLVM to write out the loops that index buffers of scope `local`.

    Before: for i in range(4): C[t * 4 + i] = acc[i]
    After:  for i in T.unroll(4): C[t * 4 + i] = acc[i]

    Loops without a constant extent stay, and so do those over buffers larger than the registers.
    """
    return func.with_body(_Unroll()(func.body))


class _Unroll(StatementRewriter):
    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        inside = self.generic(node)
        is_constant = node.kind is ForKind.SERIAL and isinstance(node.extent, IntImm)
        if is_constant and _indexes_registers(node):
            return inside.changed(kind=ForKind.UNROLLED)
        return inside

    def rewrite_AttrStmt(self, node: s.AttrStmt) -> s.Stmt:  # noqa: N802
        return node if tensor_core_of(node) is not None else self.generic(node)


def _indexes_registers(loop: s.For) -> bool:
    return any(
        isinstance(part, (BufferLoad, BufferStore))
        and memory_of(part.buffer.data) == "local"
        and _nbytes(part.buffer) <= _MOST_BYTES
        and any(loop.loop_var in collect_vars(index) for index in part.indices)
        for part in walk(loop.body)
    )


def _nbytes(buffer: Buffer) -> int:
    count = buffer.dtype.nbytes
    for extent in buffer.shape:
        count *= extent.value if isinstance(extent, IntImm) else _MOST_BYTES
    # A fragment is spread over the threads of a warp.
    return count // WARP if is_fragment(buffer.data) else count
