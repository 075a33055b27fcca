"""Tensor functions whose parameters have another shape, or their dimensions in another order.

An element-wise function applies the same operation to every element, so its tensors may have any
shape with the same number of elements: `exp` of a tensor `(2, 3, 8)` is `exp` of a tensor `(6,
8)`, and a row of 8 can be added to both. Any function can accept a parameter before it is
transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tensorir.arith import Analyzer
from tensorir.function import PrimFunc
from tensorir.memory.op_pattern import OpPattern, op_pattern
from tensorir.memory.reshaping import flatten_indices, runs_over_domains, unravel_index
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, Range, decl_buffer
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import BufferLoad, IterVar, PrimExpr, Var
from tensorir.nodes.ops import TRUE, is_const_int
from tensorir.nodes.stmt import Block
from tensorir.rewriting.element_rewriter import ElementRewriter
from tensorir.rewriting.fresh_copy import renew_defs
from tensorir.rewriting.visit import Rewriter, walk
from tensorir.script.parts import complete_block

Places: TypeAlias = "Callable[[Sequence[Var]], Sequence[PrimExpr]]"
"""Maps the indices of an element in the new shape to its indices in the old shape."""


def for_shape(func: PrimFunc, shape: Sequence[PrimExpr]) -> PrimFunc | None:
    """Return an element-wise function for tensors of another shape with the same number of
    elements.

    The last parameter is the result, and every buffer of its shape gets the new shape; buffers that
    broadcast to it keep theirs. Return None if the function is not element-wise, in the old or new
    shape, or if its shapes are not constant.
    """
    buffers = [func.buffer_map.get(param) for param in func.params]
    result = buffers[-1] if buffers else None
    if result is None or None in buffers or not result.shape:
        return None
    if not all(buffer.has_constant_layout for buffer in buffers if buffer is not None):
        return None
    before = result.shape
    return _reshape_elementwise(
        func, before, shape, lambda axes: unravel_index(flatten_indices(axes, shape), before)
    )


def for_order(func: PrimFunc, axes: Sequence[int]) -> PrimFunc | None:
    """Return an element-wise function for tensors with their dimensions in another order.

    Dimension `k` of the current tensors is dimension `axes[k]` in the result. Return None if the
    function is not element-wise, in the old or new order.
    """
    result = func.buffer_map.get(func.params[-1]) if func.params else None
    if result is None or len(result.shape) != len(axes):
        return None
    shape = [result.shape[axes.index(k)] for k in range(len(axes))]
    return _reshape_elementwise(func, result.shape, shape, lambda new: [new[axis] for axis in axes])


def _reshape_elementwise(
    func: PrimFunc, before: Sequence[PrimExpr], after: Sequence[PrimExpr], places: Places
) -> PrimFunc | None:
    if op_pattern(func) is not OpPattern.ELEMENTWISE:
        return None
    created = _Reshaped(func, before, after, places).function()
    if created is None or op_pattern(created) is not OpPattern.ELEMENTWISE:
        return None
    return renew_defs(created)


class _Reshaped:
    def __init__(
        self,
        func: PrimFunc,
        before: Sequence[PrimExpr],
        after: Sequence[PrimExpr],
        places: Places,
    ) -> None:
        self._func = func
        self._before = before
        self._after = after
        self._places = places
        self._buffers: dict[Buffer, Buffer] = {}

    def function(self) -> PrimFunc | None:
        """Return the function in the new shape; None if its program has an unsupported form."""
        func = self._func
        assert isinstance(func.body, s.BlockRealize)
        root = func.body.block
        buffers = {p: self._buffer(b) for p, b in func.buffer_map.items()}
        local = [self._buffer(buffer) for buffer in root.alloc_buffers]
        nests = root.body.seq if isinstance(root.body, s.SeqStmt) else (root.body,)
        created = [self._nest(nest) for nest in nests]
        known = [nest for nest in created if nest is not None]
        if len(known) != len(created):
            return None
        body = root.with_(body=s.sequence(known), alloc_buffers=local)
        return func.with_(buffer_map=buffers, body=s.BlockRealize((), TRUE, body))

    def _buffer(self, buffer: Buffer) -> Buffer:
        """Return the replacement of a buffer: the buffer of the new shape, or the buffer itself."""
        if not has_shape(buffer, self._before):
            return buffer
        new = decl_buffer(list(self._after), buffer.dtype, buffer.name)
        self._buffers[buffer] = new
        return new

    def _nest(self, nest: s.Stmt) -> s.Stmt | None:
        """Return the loops around a block for the other shape."""
        nodes = list(walk(nest))
        realizes = [node for node in nodes if isinstance(node, s.BlockRealize)]
        if len(realizes) != 1:
            return None
        block = realizes[0].block
        store = block.body
        loops = {node.loop_var: node for node in nodes if isinstance(node, s.For)}
        if not isinstance(store, s.BufferStore) or block.init is not None:
            return None
        axes = [axis.var for axis in block.iter_vars]
        if list(store.indices) != axes or store.buffer not in self._buffers:
            return None
        if not runs_over_domains(realizes[0], loops):
            return None
        new_axes = [Var(f"v_ax{k}", INT64) for k in range(len(self._after))]
        analyzer = Analyzer()
        for var, extent in zip(new_axes, self._after, strict=True):
            analyzer.bind(var, Range(extent))
        places = [analyzer.simplify(place) for place in self._places(new_axes)]
        inside = _ShapeRewriter(
            dict(zip(axes, places, strict=True)), self._buffers, new_axes, analyzer
        )
        body = inside(store)
        visible = {b.data: b for b in (*self._func.buffer_map.values(), *self._buffers.values())}
        iter_vars = [
            IterVar(Range(extent), var, IterVar.DATA_PAR, "")
            for var, extent in zip(new_axes, self._after, strict=True)
        ]
        created = s.Block(iter_vars, (), (), block.name_hint, body, annotations=block.annotations)
        created = complete_block(created, (True, True), visible)
        loop_vars = [Var(f"ax{k}", INT64) for k in range(len(self._after))]
        statement: s.Stmt = s.BlockRealize(loop_vars, TRUE, created)
        for var, extent in reversed(list(zip(loop_vars, self._after, strict=True))):
            statement = s.For(var, e.IntImm(INT64, 0), extent, s.ForKind.SERIAL, statement)
        return statement


def has_shape(buffer: Buffer, shape: Sequence[PrimExpr]) -> bool:
    """Return True if a buffer provably has the given shape."""
    analyzer = Analyzer()
    return len(buffer.shape) == len(shape) and all(
        analyzer.can_prove_equal(a, b) for a, b in zip(buffer.shape, shape, strict=True)
    )


class _ShapeRewriter(Rewriter):
    def __init__(
        self,
        places: Mapping[Var, PrimExpr],
        buffers: Mapping[Buffer, Buffer],
        axes: Sequence[Var],
        analyzer: Analyzer,
    ) -> None:
        self._places = places
        self._buffers = buffers
        self._axes = axes
        self._analyzer = analyzer

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        """Replace an axis of the old shape by its expression in the axes of the new shape."""
        return self._places.get(node, node)

    def rewrite_BufferLoad(self, node: BufferLoad | s.BufferStore) -> BufferLoad | s.BufferStore:  # noqa: N802
        """Access the same element of a buffer in its new shape."""
        new = self._buffers.get(node.buffer)
        value = {"value": self(node.value)} if isinstance(node, s.BufferStore) else {}
        if new is not None and self._is_same_element(node):
            return node.with_(buffer=new, indices=self._axes, **value)
        indices = [self._analyzer.simplify(self(index)) for index in node.indices]
        return node.with_(buffer=node.buffer if new is None else new, indices=indices, **value)

    rewrite_BufferStore = rewrite_BufferLoad  # noqa: N815

    def _is_same_element(self, node: BufferLoad | s.BufferStore) -> bool:
        """Return True if a node accesses the computed element.

        A dimension of extent 1 has only one index.
        """
        return all(
            index is axis or (is_const_int(index, 0) and is_const_int(extent, 1))
            for index, axis, extent in zip(
                node.indices, self._places, node.buffer.shape, strict=True
            )
        )


def with_parameters_in_order(
    func: PrimFunc, orders: Mapping[Var, Sequence[int]]
) -> PrimFunc | None:
    """Return a function that accepts some parameters before they are transposed.

    Dimension `k` of a parameter is dimension `axes[k]` of the new one, as in `numpy.transpose`.
    None if a parameter has strides, or is accessed otherwise than by its elements.
    """
    buffers = {}
    for param, axes in orders.items():
        old = func.buffer_map[param]
        if old.strides:
            return None
        shape = [old.shape[axes.index(k)] for k in range(len(axes))]
        buffers[old] = decl_buffer(shape, old.dtype, old.name), axes
    pointers = {buffer.data for buffer in buffers}
    for node in walk(func.body):
        if isinstance(node, Var) and node in pointers:
            return None
        if isinstance(node, Block) and any(m.source.buffer in buffers for m in node.match_buffers):
            return None
    body = _Reordered(buffers)(func.body)
    buffer_map = {p: buffers[b][0] if b in buffers else b for p, b in func.buffer_map.items()}
    return renew_defs(func.with_(body=body, buffer_map=buffer_map))


class _Reordered(ElementRewriter):
    def __init__(self, buffers: Mapping[Buffer, tuple[Buffer, Sequence[int]]]) -> None:
        self._buffers = buffers

    def buffer(self, buffer: Buffer) -> Buffer:
        """Return the buffer in the other order."""
        return self._buffers[buffer][0] if buffer in self._buffers else buffer

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> Sequence[PrimExpr]:
        """Return the indices in the other order."""
        _, axes = self._buffers[buffer]
        return [indices[axes.index(k)] for k in range(len(axes))]

    def region(self, buffer: Buffer, region: Sequence[Range]) -> Sequence[Range]:
        """Return the region in the other order."""
        _, axes = self._buffers[buffer]
        return [region[axes.index(k)] for k in range(len(axes))]
