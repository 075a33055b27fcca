"""The memory behind a pointer, by its storage scope: that of a device, a block, or a thread."""

from __future__ import annotations

from tensorir.nodes.expr import PointerType, Var


def scope_of(pointer: Var) -> str:
    """Return the storage scope of what a pointer points to, with its tag."""
    kind = pointer.type_annotation
    return kind.storage_scope if isinstance(kind, PointerType) else ""


def is_fragment(pointer: Var) -> bool:
    """Return True for a pointer to fragments of tensor cores."""
    kind = pointer.type_annotation
    return isinstance(kind, PointerType) and kind.is_fragment


def memory_of(pointer: Var) -> str:
    """Return the memory that a pointer points to: `global`, `shared`, or `local` to a thread.

    Fragments of tensor cores are in registers of threads.
    """
    if is_fragment(pointer):
        return "local"
    return scope_of(pointer).split(".")[0] or "global"
