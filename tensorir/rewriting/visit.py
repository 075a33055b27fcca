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

from tensorir.errors import IRTypeError
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.node import Attrs, Node
from tensorir.nodes.ops import as_expr
from tensorir.rewriting.rebuild import LEAVES, REBUILD

N = TypeVar("N", bound=Node)

# ------------------------------------------------------------------------------------------ walking


def _optional(*nodes: Node | None) -> tuple[Node, ...]:
    return tuple(n for n in nodes if n is not None)


_CHILDREN: dict[type, Callable[[Any], Sequence[Node]]] = {
    **{leaf: lambda n: () for leaf in LEAVES},
    **{binary: lambda n: (n.a, n.b) for binary in e.BINARY_OPS},
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
    REBUILD[kind] = rebuild


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


def walk_once(node: Node) -> Iterator[Node]:
    """Yield `node` and everything in it, parts that occur several times only once."""
    seen: set[Node] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        parts = _CHILDREN[type(current)](current)
        if parts:
            if current in seen:
                continue
            seen.add(current)
            stack.extend(parts[::-1])
        yield current


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
        table = dict(REBUILD)
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
        return REBUILD[type(node)](self, node)  # type: ignore[no-any-return]

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
        if isinstance(value, Node) and type(value) in REBUILD:
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
        """Return the expression that replaces a variable."""
        return self._values.get(node, node)

    def buffer(self, buffer: Buffer) -> Buffer:
        """Return the buffer that replaces a buffer."""
        new = self._buffers.get(buffer)
        if new is not None:
            return new
        if buffer.has_constant_layout and buffer.data not in self._values:
            return buffer
        new = self._buffers[buffer] = self._with_layout(buffer)
        return new

    def size(self, size: PrimExpr) -> PrimExpr:
        """Return the expression that replaces a dimension, stride or offset of a buffer."""
        return self(size)

    def _with_layout(self, buffer: Buffer) -> Buffer:
        data, new = self(buffer.data), tuple(map(self.size, buffer.layout))
        if data is buffer.data and all(map(is_, new, buffer.layout)):
            return buffer
        if not isinstance(data, Var):
            raise IRTypeError(
                f"the pointer {buffer.data.name} of buffer {buffer.name} can only be replaced by a "
                f"variable, got {data}"
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
