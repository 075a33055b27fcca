"""Functions that rebuild each kind of node: the rows of `tensorir.rewriting.visit.Rewriter`.

A row gives the node itself if the rewriter changed no part. It uses the raw constructors, so
nothing is folded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import BufferRegion, MatchBufferRegion, Range
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.node import Node

if TYPE_CHECKING:
    from tensorir.rewriting.visit import Rewriter

N = TypeVar("N", bound=Node)

LEAVES = (e.Var, e.SizeVar, e.IntImm, e.FloatImm, e.StringImm, e.GlobalVar)


def _leaf(_: Rewriter, node: N) -> N:
    return node


def _binary(r: Rewriter, n: e.BinaryOp) -> PrimExpr:
    a, b = r(n.a), r(n.b)
    return n if a is n.a and b is n.b else type(n)(a, b)


def _not(r: Rewriter, n: e.Not) -> PrimExpr:
    a = r(n.a)
    return n if a is n.a else e.Not(a)


def _cast(r: Rewriter, n: e.Cast) -> PrimExpr:
    value = r(n.value)
    return n if value is n.value else e.Cast(n.dtype, value)


def _select(r: Rewriter, n: e.Select) -> PrimExpr:
    c, t, f = r(n.condition), r(n.true_value), r(n.false_value)
    same = c is n.condition and t is n.true_value and f is n.false_value
    return n if same else e.Select(c, t, f)


def _ramp(r: Rewriter, n: e.Ramp) -> PrimExpr:
    base, stride = r(n.base), r(n.stride)
    return n if base is n.base and stride is n.stride else e.Ramp(base, stride, n.lanes)


def _broadcast(r: Rewriter, n: e.Broadcast) -> PrimExpr:
    value = r(n.value)
    return n if value is n.value else e.Broadcast(value, n.lanes)


def _shuffle(r: Rewriter, n: e.Shuffle) -> PrimExpr:
    vectors, indices = r.each(n.vectors), r.each(n.indices)
    same = vectors is n.vectors and indices is n.indices
    return n if same else e.Shuffle(vectors, indices)


def _let(r: Rewriter, n: e.Let) -> PrimExpr:
    value, body = r(n.value), r(n.body)
    return n if value is n.value and body is n.body else e.Let(n.var, value, body)


def _load(r: Rewriter, n: e.BufferLoad) -> PrimExpr:
    buffer, indices, predicate = r.buffer(n.buffer), r.each(n.indices), r.maybe(n.predicate)
    same = buffer is n.buffer and indices is n.indices and predicate is n.predicate
    return n if same else e.BufferLoad(buffer, indices, predicate)


def _call(r: Rewriter, n: e.Call) -> PrimExpr:
    args = r.each(n.args)
    return n if args is n.args else e.Call(n.dtype, n.op, args)


def _comm_reducer(r: Rewriter, n: e.CommReducer) -> e.CommReducer:
    result, identity = r.each(n.result), r.each(n.identity_element)
    same = result is n.result and identity is n.identity_element
    return n if same else e.CommReducer(n.lhs, n.rhs, result, identity)


def _reduce(r: Rewriter, n: e.Reduce) -> PrimExpr:
    parts = (r(n.combiner), r.each(n.source), r.each(n.axis), r(n.condition), r.each(n.init))
    old = (n.combiner, n.source, n.axis, n.condition, n.init)
    if all(a is b for a, b in zip(parts, old, strict=True)):
        return n
    return e.Reduce(parts[0], parts[1], parts[2], parts[3], n.value_index, parts[4])


def _iter_var(r: Rewriter, n: e.IterVar) -> e.IterVar:
    dom = r.maybe(n.dom)
    return n if dom is n.dom else e.IterVar(dom, n.var, n.iter_type, n.thread_tag)


def _range(r: Rewriter, n: Range) -> Range:
    low, extent = r(n.min), r(n.extent)
    return n if low is n.min and extent is n.extent else Range.from_min_extent(low, extent)


def _region(r: Rewriter, n: BufferRegion) -> BufferRegion:
    buffer, region = r.buffer(n.buffer), r.each(n.region)
    return n if buffer is n.buffer and region is n.region else BufferRegion(buffer, region)


def _match_buffer(r: Rewriter, n: MatchBufferRegion) -> MatchBufferRegion:
    buffer, source = r.buffer(n.buffer), r(n.source)
    same = buffer is n.buffer and source is n.source
    return n if same else MatchBufferRegion(buffer, source)


def _store(r: Rewriter, n: s.BufferStore) -> s.Stmt:
    buffer, value = r.buffer(n.buffer), r(n.value)
    indices, predicate = r.each(n.indices), r.maybe(n.predicate)
    if (
        buffer is n.buffer
        and value is n.value
        and indices is n.indices
        and predicate is n.predicate
    ):
        return n
    return s.BufferStore(buffer, value, indices, predicate)


def _for(r: Rewriter, n: s.For) -> s.Stmt:
    low, extent, body = r(n.min), r(n.extent), r(n.body)
    annotations = r.value(n.annotations) if n.annotations else n.annotations
    if low is n.min and extent is n.extent and body is n.body and annotations is n.annotations:
        return n
    return s.For(n.loop_var, low, extent, n.kind, body, n.thread_binding, annotations)


def _while(r: Rewriter, n: s.While) -> s.Stmt:
    condition, body = r(n.condition), r(n.body)
    return n if condition is n.condition and body is n.body else s.While(condition, body)


def _if(r: Rewriter, n: s.IfThenElse) -> s.Stmt:
    c, t, f = r(n.condition), r(n.then_case), r.maybe(n.else_case)
    same = c is n.condition and t is n.then_case and f is n.else_case
    return n if same else s.IfThenElse(c, t, f)


def _seq(r: Rewriter, n: s.SeqStmt) -> s.Stmt:
    parts = r.each(n.seq)
    return n if parts is n.seq else s.sequence(parts)


def _let_stmt(r: Rewriter, n: s.LetStmt) -> s.Stmt:
    value, body = r(n.value), r(n.body)
    return n if value is n.value and body is n.body else s.LetStmt(n.var, value, body)


def _assert(r: Rewriter, n: s.AssertStmt) -> s.Stmt:
    c, message, body = r(n.condition), r(n.message), r(n.body)
    same = c is n.condition and message is n.message and body is n.body
    return n if same else s.AssertStmt(c, message, body)


def _evaluate(r: Rewriter, n: s.Evaluate) -> s.Stmt:
    value = r(n.value)
    return n if value is n.value else s.Evaluate(value)


def _allocate(r: Rewriter, n: s.Allocate) -> s.Stmt:
    extents, condition, body = r.each(n.extents), r(n.condition), r(n.body)
    annotations = r.value(n.annotations)
    if (
        extents is n.extents
        and condition is n.condition
        and body is n.body
        and annotations is n.annotations
    ):
        return n
    return s.Allocate(n.buffer_var, n.dtype, extents, condition, body, annotations)


def _allocate_const(r: Rewriter, n: s.AllocateConst) -> s.Stmt:
    extents, body, annotations = r.each(n.extents), r(n.body), r.value(n.annotations)
    if extents is n.extents and body is n.body and annotations is n.annotations:
        return n
    return s.AllocateConst(n.buffer_var, n.dtype, extents, n.data, body, annotations)


def _decl_buffer(r: Rewriter, n: s.DeclBuffer) -> s.Stmt:
    buffer, body = r.buffer(n.buffer), r(n.body)
    return n if buffer is n.buffer and body is n.body else s.DeclBuffer(buffer, body)


def _attr(r: Rewriter, n: s.AttrStmt) -> s.Stmt:
    node, value, body = r.value(n.node), r(n.value), r(n.body)
    same = node is n.node and value is n.value and body is n.body
    return n if same else s.AttrStmt(node, n.attr_key, value, body)


def _block(r: Rewriter, n: s.Block) -> s.Block:
    iter_vars, reads, writes = r.each(n.iter_vars), r.each(n.reads), r.each(n.writes)
    alloc_buffers = tuple(r.buffer(b) for b in n.alloc_buffers)
    match_buffers, annotations = r.each(n.match_buffers), r.value(n.annotations)
    init, body = r.maybe(n.init), r(n.body)
    if (
        body is n.body
        and init is n.init
        and iter_vars is n.iter_vars
        and reads is n.reads
        and writes is n.writes
        and match_buffers is n.match_buffers
        and annotations is n.annotations
        and all(a is b for a, b in zip(alloc_buffers, n.alloc_buffers, strict=True))
    ):
        return n
    return s.Block(
        iter_vars, reads, writes, n.name_hint, body, init, alloc_buffers, match_buffers, annotations
    )


def _block_realize(r: Rewriter, n: s.BlockRealize) -> s.Stmt:
    values, predicate, block = r.each(n.iter_values), r(n.predicate), r(n.block)
    same = values is n.iter_values and predicate is n.predicate and block is n.block
    return n if same else s.BlockRealize(values, predicate, block)


REBUILD: dict[type, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(LEAVES, _leaf),
    **dict.fromkeys(e.BINARY_OPS, _binary),
    e.Not: _not,
    e.Cast: _cast,
    e.Select: _select,
    e.Ramp: _ramp,
    e.Broadcast: _broadcast,
    e.Shuffle: _shuffle,
    e.Let: _let,
    e.BufferLoad: _load,
    e.Call: _call,
    e.CommReducer: _comm_reducer,
    e.Reduce: _reduce,
    e.IterVar: _iter_var,
    Range: _range,
    BufferRegion: _region,
    MatchBufferRegion: _match_buffer,
    s.BufferStore: _store,
    s.For: _for,
    s.While: _while,
    s.IfThenElse: _if,
    s.SeqStmt: _seq,
    s.LetStmt: _let_stmt,
    s.AssertStmt: _assert,
    s.Evaluate: _evaluate,
    s.Allocate: _allocate,
    s.AllocateConst: _allocate_const,
    s.DeclBuffer: _decl_buffer,
    s.AttrStmt: _attr,
    s.Block: _block,
    s.BlockRealize: _block_realize,
}
