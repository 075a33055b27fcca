"""The kind of a tensor function, which decides on its fusion.

The kinds, their numbers and their classification are those of TVM (`analysis.op_pattern`,
`AnnotateTIROpPattern`). The accesses of a function's blocks determine its kind: an element-wise
function reads and writes the same indices, a reduction reads along axes that its writes do not use.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import Final

from tensorir.comparison.equal import structural_equal
from tensorir.function import PrimFunc
from tensorir.memory.written_parameters import written_parameters
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, GlobalVar, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import is_const_int
from tensorir.rewriting.visit import collect_vars, pre_order_visit, walk


class OpPattern(IntEnum):
    """The kind of a function: the dependence of written elements on read elements."""

    ELEMENTWISE = 0
    """They depend on elements at the same indices: `C[i, j] = A[i, j] + B[j]`."""
    BROADCAST = 1
    """They depend on elements at some of the same indices, in the same order: `C[i, j] = A[j]`."""
    INJECTIVE = 2
    """They depend on elements at computed indices: transposes, slices, padding."""
    REDUCTION = 3
    """They depend on elements along other axes, and each element is read once: sums."""
    OUT_ELEMENTWISE_FUSABLE = 4
    """They depend on elements that are read many times: products of matrices, convolutions.

    An element-wise consumer of the result can be fused into the function.
    """
    TUPLE = 7
    OPAQUE = 8
    """The dependence is unknown, or must not change."""


OP_PATTERN: Final = "op_pattern"
"""An attribute of a tensor function: its kind, as a number."""
_FINAL: Final = ("tir.is_scheduled", "tir.no_contraction", "target")
"""Attributes of functions that must not change."""


def op_pattern(func: PrimFunc) -> OpPattern:
    """Return the kind of a tensor function.

    A function is opaque unless it consists of blocks in serial loops: no manual schedule, no
    library calls, and every parameter is compact and either read or written.
    """
    blocks = _leaf_blocks(func)
    if blocks is None:
        return OpPattern.OPAQUE
    written = {func.buffer_map[param] for param in written_parameters(func)}
    extents = [extent for buffer in func.buffer_map.values() for extent in buffer.shape]
    sizes = {*func.params, *(var for extent in extents for var in collect_vars(extent))}
    kind = OpPattern.ELEMENTWISE
    for block in blocks:
        found = _block_pattern(block, sizes)
        if found is OpPattern.OPAQUE:
            return found
        stored = {node.buffer for node in walk(block) if isinstance(node, s.BufferStore)}
        if (
            found <= OpPattern.INJECTIVE
            and kind is OpPattern.REDUCTION
            and not stored.isdisjoint(written)
        ):
            found = OpPattern.OUT_ELEMENTWISE_FUSABLE
        kind = max(kind, found)
    return kind


# -------------------------------------------------------------------------------------- the program


def _leaf_blocks(func: PrimFunc) -> list[s.Block] | None:
    """Return the blocks that contain stores, in order; None for an opaque function."""
    body = func.body
    if not isinstance(body, s.BlockRealize) or not func.attrs.keys().isdisjoint(_FINAL):
        return None
    buffers = list(func.buffer_map.values())
    if len({buffer.data for buffer in buffers}) != len(buffers):
        return None
    if not all(map(_is_compact, buffers)):
        return None
    if any(map(_hides_accesses, walk(body))):
        return None
    root = body.block
    if root_computes(root):
        return [root]
    inside = _directly_inside(root)
    if any(isinstance(node, s.BufferStore) for node in inside):
        return None
    blocks = [n.block for n in inside if isinstance(n, s.BlockRealize)]
    return blocks if blocks and all(map(_is_leaf, blocks)) else None


def root_computes(root: s.Block) -> bool:
    """Return True if the root block itself contains the stores: a function without axes."""
    return isinstance(root.body, s.BufferStore)


def _is_compact(buffer: Buffer) -> bool:
    return not buffer.strides and is_const_int(buffer.elem_offset, 0) and buffer.scope() == "global"


def _hides_accesses(node: Node) -> bool:
    """Return True if a node comes from a schedule, or may do more than load and store elements."""
    if isinstance(node, s.For):
        return node.kind is not s.ForKind.SERIAL or bool(node.annotations)
    if isinstance(node, e.Call):
        return isinstance(node.op, GlobalVar) or any(arg.dtype.is_handle for arg in node.args)
    if isinstance(node, s.Block):
        return bool(node.match_buffers)
    return isinstance(node, (s.Allocate, s.AllocateConst, s.DeclBuffer, s.AttrStmt, s.While))


def _directly_inside(block: s.Block) -> list[Node]:
    """Return the nodes of a block's body, without the nodes of nested blocks."""
    found: list[Node] = []

    def visit(node: Node) -> bool:
        found.append(node)
        return not isinstance(node, s.BlockRealize)

    pre_order_visit(block.body, visit)
    return found


def _is_leaf(block: s.Block) -> bool:
    return not any(isinstance(node, s.BlockRealize) for node in walk(block.body))


# --------------------------------------------------------------------------------------- its blocks


def _block_pattern(block: s.Block, sizes: Collection[Var]) -> OpPattern:
    """Return the pattern of one block, without its init."""
    stores = [node for node in walk(block.body) if isinstance(node, s.BufferStore)]
    if not stores or not all(_same_indices(store, stores[0]) for store in stores):
        return OpPattern.OPAQUE
    indices = stores[0].indices
    loads = [node for node in walk(block.body) if isinstance(node, BufferLoad)]
    kinds = [_access_pattern(load, stores[0], sizes) for load in loads]
    known = [kind for kind in kinds if kind is not None]
    if len(known) == len(kinds):
        highest = max(known, default=OpPattern.ELEMENTWISE)
        if highest is OpPattern.BROADCAST and OpPattern.ELEMENTWISE in known:
            return OpPattern.ELEMENTWISE
        return highest
    axes = [axis for axis in block.iter_vars if axis.iter_type != e.IterVar.DATA_PAR]
    if not axes or any(axis.iter_type != e.IterVar.COMM_REDUCE for axis in axes):
        return OpPattern.OPAQUE
    steps = {axis.var for axis in axes}
    spatial = [n for n in indices if isinstance(n, Var)]
    if all(_reuses_elements(store, spatial) for store in stores):
        return OpPattern.OUT_ELEMENTWISE_FUSABLE
    if all(_is_plain_index(index, steps) for load in loads for index in load.indices):
        return OpPattern.REDUCTION
    return OpPattern.OUT_ELEMENTWISE_FUSABLE


def _same_indices(a: s.BufferStore, b: s.BufferStore) -> bool:
    return a is b or (
        len(a.indices) == len(b.indices)
        and all(x is y or structural_equal(x, y) for x, y in zip(a.indices, b.indices, strict=True))
    )


def _access_pattern(
    load: BufferLoad, store: s.BufferStore, sizes: Collection[Var]
) -> OpPattern | None:
    """Return the pattern between a load and a store; None if the store reduces over the load."""
    stored = store.indices
    if _is_same_place(load, store):
        return OpPattern.ELEMENTWISE
    if not all(isinstance(index, Var) for index in stored):
        return None
    dims = zip(load.indices, load.buffer.shape, strict=True)
    left = [index for index, size in dims if not (is_const_int(size, 1) and is_const_int(index, 0))]
    order = iter(stored)
    if all(any(index is other for other in order) for index in left):
        return OpPattern.BROADCAST
    used = {var for index in load.indices for var in collect_vars(index)}
    return OpPattern.INJECTIVE if used <= {*stored, *sizes} else None


def _is_same_place(load: BufferLoad, store: s.BufferStore) -> bool:
    """Return True if a load has the indices of a store.

    A dimension of extent 1 has only index 0.
    """
    if len(load.indices) != len(store.indices):
        return False
    dims = zip(load.indices, load.buffer.shape, store.indices, store.buffer.shape, strict=True)
    return all(
        index is own or (is_const_int(index, 0) and is_const_int(size, 1) and is_const_int(wide, 1))
        for index, size, own, wide in dims
    )


def _reuses_elements(store: s.BufferStore, spatial: Sequence[Var]) -> bool:
    """Return True if a store adds a product whose factors both contribute to several elements."""
    total = store.value
    while isinstance(total, e.Cast):
        total = total.value
    if not isinstance(total, e.Add):
        return False
    for term, rest in ((total.a, total.b), (total.b, total.a)):
        while isinstance(term, e.Cast):
            term = term.value
        is_sum = isinstance(rest, BufferLoad) and rest.buffer is store.buffer
        if is_sum and isinstance(term, e.Mul):
            return all(_is_reused(factor, spatial) for factor in (term.a, term.b))
    return False


def _is_reused(factor: PrimExpr, spatial: Sequence[Var]) -> bool:
    loads = [node for node in walk(factor) if isinstance(node, BufferLoad)]
    used = set(collect_vars(factor))
    return bool(loads) and any(var not in used for var in spatial)


def _is_plain_index(index: PrimExpr, steps: Collection[Var]) -> bool:
    return index in steps or not any(var in steps for var in collect_vars(index))
