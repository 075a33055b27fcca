"""The buffer parameters that a function writes."""

from __future__ import annotations

from collections.abc import Mapping

from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import MatchBufferRegion
from tensorir.nodes.expr import Call, GlobalVar, IntImm, PrimExpr, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.node import Node
from tensorir.rewriting.visit import collect_vars, walk_once

_ACCESS_PTR = Op.get("tvm_access_ptr")
_MAY_WRITE = 2
"""The bit of the mask of `tvm_access_ptr` that marks a write."""


def written_parameters(
    func: PrimFunc, functions: IRModule | Mapping[str, BaseFunc] | None = None
) -> list[Var]:
    """Return the buffer parameters that a function writes.

    Writes are stores (also through a view or a bound pointer), a `tvm_access_ptr` whose mask has
    the write bit, and calls of `functions` that write. A pointer that is passed to a library
    function without such a mask is not counted as a write.
    """
    written = written_pointers(func, functions)
    return [p for p in func.params if p in func.buffer_map and p in written]


def written_pointers(
    func: PrimFunc,
    functions: IRModule | Mapping[str, BaseFunc] | None = None,
    known: dict[PrimFunc, set[Var]] | None = None,
) -> set[Var]:
    """Return the parameters and the data pointers of buffers through which a function writes.

    The rules are those of `written_parameters`; `known` caches the result for each function.
    """
    known = {} if known is None else known
    if func in known:
        return known[func]
    known[func] = set()  # a recursive call writes no further parameters
    stored: set[Var] = set()
    behind: dict[Var, Var] = {}
    """The origin of each pointer."""
    for node in walk_once(func.body):
        if isinstance(node, s.BufferStore):
            stored.add(node.buffer.data)
        elif isinstance(node, MatchBufferRegion):
            behind[node.buffer.data] = node.source.buffer.data
        elif isinstance(node, s.LetStmt) and node.var.dtype.is_handle:
            behind.update((node.var, pointer) for pointer in _pointers(node.value))
        elif isinstance(node, Call):
            stored.update(_written_by_call(node, functions, known))
    for pointer in list(stored):
        while pointer in behind:
            pointer = behind[pointer]
            stored.add(pointer)
    stored.update(p for p, buffer in func.buffer_map.items() if buffer.data in stored)
    known[func] = stored
    return stored


def _written_by_call(
    call: Call,
    functions: IRModule | Mapping[str, BaseFunc] | None,
    known: dict[PrimFunc, set[Var]],
) -> list[Var]:
    if call.op is _ACCESS_PTR:
        mask = call.args[-1]
        writes = isinstance(mask, IntImm) and mask.value & _MAY_WRITE
        return _pointers(call.args[1]) if writes else []
    if not isinstance(call.op, GlobalVar) or functions is None or call.op.name not in functions:
        return []
    callee = functions[call.op.name]
    if not isinstance(callee, PrimFunc):
        return []
    written = written_pointers(callee, functions, known)
    pairs = zip(callee.params, call.args, strict=False)
    return [pointer for param, arg in pairs if param in written for pointer in _pointers(arg)]


def _pointers(value: PrimExpr | Node) -> list[Var]:
    return [var for var in collect_vars(value) if var.dtype.is_handle]
