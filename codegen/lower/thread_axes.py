"""Loops that run on the threads of a GPU, and the memory that threads share."""

from __future__ import annotations

from typing import Final

from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import Call, StringImm
from tensorir.nodes.intrin import Op
from tensorir.rewriting.visit import statements

_SYNC: Final = Op.get("tvm_storage_sync")
TENSOR_CORE: Final = Op.get("tensor_core")

BLOCK: Final = "blockIdx"
THREAD: Final = "threadIdx"
VIRTUAL: Final = "vthread"
LANES: Final = "threadIdx.x"
"""The axis of the threads of a warp, where a program uses warps."""
TILE_ALIGNMENT: Final = 32
"""The alignment in bytes of shared memory, from which tensor cores load tiles."""
AXES: Final = tuple(f"{kind}.{dim}" for kind in (BLOCK, THREAD) for dim in "xyz")
"""The axes of a launch, in the order in which its loops are nested."""


def axis_of(node: object) -> str:
    """Return the axis that a loop is bound to, such as `threadIdx.x`; "" for any other node."""
    return node.thread_tag if isinstance(node, s.For) else ""


def kind_of(node: object) -> str:
    """Return `blockIdx`, `threadIdx` or `vthread` for a loop bound to such an axis, else ""."""
    return axis_of(node).split(".")[0]


def padded_bytes(nbytes: int) -> int:
    """Return the bytes that an allocation of shared memory takes, up to the next one."""
    return -(-nbytes // TILE_ALIGNMENT) * TILE_ALIGNMENT


def is_barrier(node: object) -> bool:
    """Say whether a statement has all threads of a block wait for one another."""
    return isinstance(node, s.Evaluate) and isinstance(node.value, Call) and node.value.op is _SYNC


def tensor_core_of(node: object) -> Call | None:
    """Return the `T.tensor_core` of a statement that a warp computes at once, None for others."""
    if isinstance(node, s.AttrStmt) and isinstance(node.value, Call):
        return node.value if node.value.op is TENSOR_CORE else None
    return None


def barrier() -> s.Stmt:
    """Return a barrier, after which a thread sees what others stored to shared or global memory."""
    return s.Evaluate(Call("int32", _SYNC, (StringImm("shared"),)))


def thread_loops(node: s.Stmt) -> list[s.For]:
    """Return the loops in a statement that are bound to blocks or threads, outermost first."""
    return [n for n in statements(node) if isinstance(n, s.For) and kind_of(n) in (BLOCK, THREAD)]


def is_kernel(node: s.Stmt) -> bool:
    """Return True for the outermost statement of a lowered kernel.

    That is a loop over blocks, or over threads, or the shared memory around them.
    """
    if isinstance(node, s.Allocate):
        return memory_of(node.buffer_var) == "shared"
    return isinstance(node, s.For) and node.kind is s.ForKind.THREAD_BINDING


def is_shared_by(loop: object, scope: str) -> bool:
    """Say whether the iterations of a loop have one copy of memory of a scope.

    Blocks share global memory, the threads of a block what is called shared, too, and virtual
    threads are iterations of one thread.
    """
    kind = kind_of(loop)
    if kind == BLOCK:
        return scope == "global"
    return kind != THREAD or scope != "local"
