"""Detection of tensor functions that only move elements: reshapes and transposes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tensorir.arith import Analyzer
from tensorir.function import PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Range
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import BufferLoad, IterVar, PrimExpr, Var
from tensorir.nodes.ops import cast, const, is_const_int
from tensorir.rewriting.visit import walk


def is_reshape(func: PrimFunc) -> bool:
    """Return True if a function copies its only input to its only output in row-major order.

    Examples: reshapes, squeezes, added dimensions, and transposes of dimensions of extent 1.
    """
    copy = _copy_of(func)
    if copy is None:
        return False
    load, store = copy.load, copy.store
    source, target = load.buffer, store.buffer
    analyzer = Analyzer()
    for axis in copy.axes:
        assert axis.dom is not None
        analyzer.bind(axis.var, Range.from_min_extent(axis.dom.min, axis.dom.extent))
    read, written = (
        flatten_indices(load.indices, source.shape),
        flatten_indices(store.indices, target.shape),
    )
    size, wanted = flat_size(source.shape), flat_size(target.shape)
    return analyzer.can_prove_equal(size, wanted) and analyzer.can_prove_equal(read, written)


def permutation(func: PrimFunc) -> tuple[int, ...] | None:
    """Return the permutation of dimensions that a function of one input and one output computes.

    Dimension `k` of the result is dimension `axes[k]` of the input, as in `numpy.transpose`. None
    for a function that computes something else.
    """
    copy = _copy_of(func)
    if copy is None:
        return None
    load, store = copy.load, copy.store
    if len(set(load.indices)) != len(load.indices) or set(load.indices) != set(store.indices):
        return None
    analyzer = Analyzer()
    axes = tuple(load.indices.index(index) for index in store.indices)
    same = (
        analyzer.can_prove_equal(extent, load.buffer.shape[axis])
        for axis, extent in zip(axes, store.buffer.shape, strict=True)
    )
    return axes if all(same) else None


class _Copy(NamedTuple):
    """A function whose only block copies elements of its input to its output, each once."""

    load: BufferLoad
    store: s.BufferStore
    axes: Sequence[IterVar]


def _copy_of(func: PrimFunc) -> _Copy | None:
    """Return the copy that a function computes; None for other functions."""
    if len(func.params) < 2 or not all(param in func.buffer_map for param in func.params[:2]):
        return None
    if any(param in func.buffer_map for param in func.params[2:]):
        return None
    source, target = (func.buffer_map[param] for param in func.params[:2])
    if source.dtype != target.dtype or any(b.strides for b in (source, target)):
        return None
    nodes = list(walk(func.body))
    realizes = [node for node in nodes if isinstance(node, s.BlockRealize)]
    leaves = [node for node in realizes if isinstance(node.block.body, s.BufferStore)]
    if len(leaves) != 1 or len(realizes) > 2 or any(node.block.alloc_buffers for node in realizes):
        return None
    (realize,) = leaves
    block, store = realize.block, realize.block.body
    loops = {node.loop_var: node for node in nodes if isinstance(node, s.For)}
    if not runs_over_domains(realize, loops):
        return None
    assert isinstance(store, s.BufferStore)
    load = store.value
    if not isinstance(load, BufferLoad) or load.buffer is not source or store.buffer is not target:
        return None
    if any(axis.iter_type != IterVar.DATA_PAR for axis in block.iter_vars):
        return None
    return (
        _Copy(load, store, block.iter_vars) if _covers(store.indices, block, target.shape) else None
    )


def flatten_indices(indices: Sequence[PrimExpr], shape: Sequence[PrimExpr]) -> PrimExpr:
    """Return the position of an element in row-major order, an int64."""
    position: PrimExpr = const(0, INT64)
    for index, extent in zip(indices, shape, strict=True):
        position = position * cast(INT64, extent) + cast(INT64, index)
    return position


def flat_size(shape: Sequence[PrimExpr]) -> PrimExpr:
    """Return the number of elements, an int64."""
    size: PrimExpr = const(1, INT64)
    for extent in shape:
        size = size * cast(INT64, extent)
    return size


def unravel_index(position: PrimExpr, shape: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Return the indices of the element at a position in row-major order.

    The indices of an empty tensor are 0.
    """
    if any(is_const_int(extent, 0) for extent in shape):
        return [const(0, position.dtype) for _ in shape]
    indices: list[PrimExpr] = []
    for extent in shape[:0:-1]:
        indices.append(position % extent)
        position = position // extent
    return [position, *indices[::-1]] if shape else []


def runs_over_domains(realize: s.BlockRealize, loops: Mapping[Var, s.For]) -> bool:
    """Return True if every axis of a block is bound to its own loop over its whole domain."""
    if not is_const_int(realize.predicate, 1):
        return False
    analyzer = Analyzer()
    found = set()
    for value, axis in zip(realize.iter_values, realize.block.iter_vars, strict=True):
        if axis.dom is None:
            return False
        if is_const_int(axis.dom.extent, 1) and analyzer.can_prove_equal(value, axis.dom.min):
            continue
        loop = loops.get(value) if isinstance(value, Var) else None
        if loop is None:
            return False
        found.add(loop)
        if not analyzer.can_prove_equal(loop.min, axis.dom.min):
            return False
        if not analyzer.can_prove_equal(loop.extent, axis.dom.extent):
            return False
    return len(found) == len(loops)


def _covers(indices: Sequence[PrimExpr], block: s.Block, shape: Sequence[PrimExpr]) -> bool:
    """Return True if the instances of a block correspond one to one to the elements of a shape."""
    domains = {axis.var: axis.dom for axis in block.iter_vars}
    analyzer = Analyzer()
    seen: set[Var] = set()
    for index, extent in zip(indices, shape, strict=True):
        domain = domains.get(index) if isinstance(index, Var) else None
        if domain is None:
            zero = e.IntImm(extent.dtype, 0)
            if not (analyzer.can_prove_equal(index, zero) and analyzer.can_prove(extent <= 1)):
                return False
            continue
        assert isinstance(index, Var)
        whole = analyzer.can_prove_equal(domain.extent, extent)
        if index in seen or not whole or not analyzer.can_prove_equal(domain.min, 0):
            return False
        seen.add(index)
    return True
