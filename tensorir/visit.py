"""Walking and rebuilding programs: the one traversal mechanism.

`children` gives the parts of a node, `pre_order_visit` and `post_order_visit` walk them. `Rewriter`
rebuilds: subclass it and define `rewrite_<ClassName>` for the nodes that change; everything else is
rebuilt only if a part of it changed, so `result is node` means that nothing did. Rebuilding uses
the raw constructors, so a substitution does not fold constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any, ClassVar, TypeVar

from tensorir import expr as e
from tensorir import stmt as s
from tensorir.buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from tensorir.errors import IRTypeError
from tensorir.expr import PrimExpr, Var
from tensorir.node import Attrs, Node
from tensorir.ops import as_expr

N = TypeVar("N", bound=Node)

# ------------------------------------------------------------------------------------------ walking


_BINARY: tuple[type[e.BinaryOp], ...] = (
    e.Add, e.Sub, e.Mul, e.Div, e.Mod, e.FloorDiv, e.FloorMod, e.Min, e.Max,
    e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE, e.And, e.Or,
)  # fmt: skip
_LEAVES = (e.Var, e.SizeVar, e.IntImm, e.FloatImm, e.StringImm, e.GlobalVar)


def _optional(*nodes: Node | None) -> tuple[Node, ...]:
    return tuple(n for n in nodes if n is not None)


_CHILDREN: dict[type, Callable[[Any], Sequence[Node]]] = {
    **{leaf: lambda n: () for leaf in _LEAVES},
    **{binary: lambda n: (n.a, n.b) for binary in _BINARY},
    e.Not: lambda n: (n.a,),
    e.Cast: lambda n: (n.value,),
    e.Select: lambda n: (n.condition, n.true_value, n.false_value),
    e.Ramp: lambda n: (n.base, n.stride),
    e.Broadcast: lambda n: (n.value,),
    e.Shuffle: lambda n: (*n.vectors, *n.indices),
    e.Let: lambda n: (n.value, n.body),
    e.BufferLoad: lambda n: n.indices if n.predicate is None else (*n.indices, n.predicate),
    e.Call: lambda n: n.args,
    e.CommReducer: lambda n: (*n.result, *n.identity_element),
    e.Reduce: lambda n: (n.combiner, *n.source, *n.axis, n.condition, *n.init),
    e.IterVar: lambda n: () if n.dom is None else (n.dom,),
    Range: lambda n: (n.min, n.extent),
    BufferRegion: lambda n: n.region,
    MatchBufferRegion: lambda n: (n.source,),
    s.BufferStore: lambda n: (n.value, *n.indices, *_optional(n.predicate)),
    s.For: lambda n: (n.min, n.extent, n.body),
    s.While: lambda n: (n.condition, n.body),
    s.IfThenElse: lambda n: (n.condition, n.then_case, *_optional(n.else_case)),
    s.SeqStmt: lambda n: n.seq,
    s.LetStmt: lambda n: (n.value, n.body),
    s.AssertStmt: lambda n: (n.condition, n.message, n.body),
    s.Evaluate: lambda n: (n.value,),
    s.Allocate: lambda n: (*n.extents, n.condition, n.body),
    s.AllocateConst: lambda n: (*n.extents, n.body),
    s.DeclBuffer: lambda n: (n.body,),
    s.AttrStmt: lambda n: (n.value, n.body),
    s.Block: lambda n: (
        *n.iter_vars, *n.reads, *n.writes, *n.match_buffers, *_optional(n.init), n.body
    ),
    s.BlockRealize: lambda n: (*n.iter_values, n.predicate, n.block),
}  # fmt: skip


def register_node(
    kind: type, parts: Callable[[Any], Sequence[Node]], rebuild: Callable[[Any, Any], Any]
) -> None:
    """Let nodes of another kind be walked and rebuilt.

    `parts(node)` gives what `children` does, `rebuild(rewriter, node)` the node with its parts
    rewritten, itself if none changed. Rewriters that exist already do not know the kind.
    """
    _CHILDREN[kind] = parts
    _REBUILD[kind] = rebuild


def children(node: Node) -> Sequence[Node]:
    """Return the parts of `node` in program order.

    Definitions (loop variables, buffers, pointers) are not parts; a block's `init` comes before
    its body.
    """
    return _CHILDREN[type(node)](node)


def pre_order_visit(node: Node, visit: Callable[[Node], bool | None]) -> None:
    """Call `visit` on `node`, then on its parts unless it returned False."""
    stack = [node]
    while stack:
        current = stack.pop()
        if visit(current) is not False:
            stack.extend(reversed(_CHILDREN[type(current)](current)))


def post_order_visit(node: Node, visit: Callable[[Node], object]) -> None:
    """Call `visit` on the parts of `node` before `node` itself."""
    for child in _CHILDREN[type(node)](node):
        post_order_visit(child, visit)
    visit(node)


def walk(node: Node) -> Iterator[Node]:
    """Yield `node` and everything in it, a node before its parts."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        parts = _CHILDREN[type(current)](current)
        if parts:
            stack.extend(parts[::-1])


def uses_var(node: Node, wanted: Callable[[Var], bool] | Var) -> bool:
    """Say whether a variable (or one that satisfies the predicate) occurs in `node`."""
    single = isinstance(wanted, Var)
    stack = [node]
    while stack:
        current = stack.pop()
        kind = type(current)
        if kind is e.Var or kind is e.SizeVar:
            if current is wanted if single else wanted(current):  # type: ignore[arg-type,operator]
                return True
        elif kind is not e.IntImm:
            stack.extend(_CHILDREN[kind](current))
    return False


def collect_vars(node: Node) -> list[Var]:
    """Return the variables that occur in `node`, each once, in order of first use."""
    if type(node) is Var:
        return [node]
    return list(dict.fromkeys(n for n in walk(node) if isinstance(n, Var)))


# --------------------------------------------------------------------------------------- rebuilding


class Rewriter:
    """Rebuilds a program; define `rewrite_<ClassName>(self, node)` for the nodes that change.

    An overriding method calls `self.generic(node)` to have the parts rewritten first.
    """

    _table: ClassVar[dict[type, Callable[[Any, Any], Any]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        table = dict(_REBUILD)
        for node_class in table:
            for base in node_class.__mro__:
                own = getattr(cls, "rewrite_" + base.__name__, None)
                if own is not None:
                    table[node_class] = own
                    break
        cls._table = table

    def __call__(self, node: N) -> N:
        """Return `node` rewritten."""
        return self._table[type(node)](self, node)  # type: ignore[no-any-return]

    def generic(self, node: N) -> N:
        """Return `node` with its parts rewritten."""
        return _REBUILD[type(node)](self, node)  # type: ignore[no-any-return]

    def each(self, nodes: tuple[N, ...]) -> tuple[N, ...]:
        """Return the rewritten nodes; the same tuple if none changed."""
        table = self._table
        changed = False
        result = []
        for node in nodes:
            new = table[type(node)](self, node)
            changed = changed or new is not node
            result.append(new)
        return tuple(result) if changed else nodes

    def maybe(self, node: N | None) -> N | None:
        """Return the rewritten node, None for None."""
        return None if node is None else self(node)

    def value(self, value: Any) -> Any:
        """Return an annotation value with the nodes in it rewritten."""
        if isinstance(value, Buffer):
            return self.buffer(value)
        if isinstance(value, Node) and type(value) in _REBUILD:
            return self(value)
        if isinstance(value, tuple):
            new = tuple(self.value(v) for v in value)
            return new if any(a is not b for a, b in zip(new, value, strict=True)) else value
        if isinstance(value, dict) and value:
            mapped = {k: self.value(v) for k, v in value.items()}
            return Attrs(mapped) if any(mapped[k] is not value[k] for k in mapped) else value
        return value

    def buffer(self, buffer: Buffer) -> Buffer:
        """Return the buffer that replaces a used one; override to replace buffers."""
        return buffer


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


_REBUILD: dict[type, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(_LEAVES, _leaf),
    **dict.fromkeys(_BINARY, _binary),
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


class Substitution(Rewriter):
    """Puts expressions in the place of variables, and buffers in that of buffers.

    A buffer whose pointer, shape, strides or offset has a replaced variable becomes a new one, the
    same wherever the program has it.
    """

    def __init__(
        self,
        values: Mapping[Var, PrimExpr] | None = None,
        buffers: Mapping[Buffer, Buffer] | None = None,
    ) -> None:
        self._values: dict[Var, PrimExpr] = dict(values) if values else {}
        self._buffers: dict[Buffer, Buffer] = {}
        for old, new in buffers.items() if buffers else ():
            self._buffers[old] = new
            self._values[old.data] = new.data

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        """Return what a variable stands for."""
        return self._values.get(node, node)

    def buffer(self, buffer: Buffer) -> Buffer:
        """Return what stands for a buffer."""
        new = self._buffers.get(buffer)
        if new is not None:
            return new
        if buffer.has_constant_layout and buffer.data not in self._values:
            return buffer
        new = self._buffers[buffer] = self._with_layout(buffer)
        return new

    def size(self, size: PrimExpr) -> PrimExpr:
        """Return what stands for a dimension, stride or offset of a buffer."""
        return self(size)

    def _with_layout(self, buffer: Buffer) -> Buffer:
        data, new = self(buffer.data), tuple(map(self.size, buffer.layout))
        if data is buffer.data and all(map(is_, new, buffer.layout)):
            return buffer
        if not isinstance(data, Var):
            raise IRTypeError(
                f"the pointer {buffer.data.name} of buffer {buffer.name} can be replaced by a "
                f"variable only, got {data}"
            )
        rank = len(buffer.shape)
        return buffer.with_(data=data, shape=new[:rank], strides=new[rank:-1], elem_offset=new[-1])


def substitute(node: N, values: Mapping[Var, e.ExprLike]) -> N:
    """Return `node` with variables replaced, all at once; raw, so nothing is folded.

    This reaches the layouts of buffers: one that has a replaced variable in its shape, strides or
    offset becomes a new buffer, the same at each of its uses in `node`. Raises IRTypeError if a
    value has not the dtype of its variable.
    """
    kind = type(node)
    if not values or kind is e.IntImm:
        return node
    if kind is Var:
        value = values.get(node)  # type: ignore[call-overload]
        return node if value is None else as_expr(value)  # type: ignore[return-value]
    if isinstance(node, Range):
        low, extent = substitute(node.min, values), substitute(node.extent, values)
        if low is node.min and extent is node.extent:
            return node
        return Range.from_min_extent(low, extent)  # type: ignore[return-value]
    return Substitution({var: as_expr(value) for var, value in values.items()})(node)


def substitute_buffers(node: N, buffers: Mapping[Buffer, Buffer]) -> N:
    """Return `node` with every use of a buffer (and of its pointer) going to another one."""
    return Substitution(buffers=buffers)(node) if buffers else node


class _Map(Rewriter):
    def __init__(self, fn: Callable[[Node], Node | None]) -> None:
        self.fn = fn

    def __call__(self, node: N) -> N:
        rebuilt = self.generic(node)
        new = self.fn(rebuilt)
        return rebuilt if new is None else new  # type: ignore[return-value]

    def each(self, nodes: tuple[N, ...]) -> tuple[N, ...]:
        new = tuple(self(n) for n in nodes)
        return new if any(a is not b for a, b in zip(new, nodes, strict=True)) else nodes


def rewrite(node: N, fn: Callable[[Node], Node | None]) -> N:
    """Return `node` rebuilt bottom-up; `fn` gives the replacement of a node, or None to keep it."""
    return _Map(fn)(node)
