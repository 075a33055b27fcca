"""Walking and rebuilding programs: the common traversal mechanism.

`children` returns the parts of a node, `pre_order_visit` and `post_order_visit` walk them. To
rebuild a program, subclass `Rewriter` and define `rewrite_<ClassName>` for the nodes that change.
Other nodes are rebuilt only if a part of them changed, so `result is node` means that nothing
changed. Rebuilding uses the raw constructors, so a substitution does not fold constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from tensorir.errors import IRTypeError
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.node import Attrs, ByKind, Node, same_or_new
from tensorir.nodes.ops import as_expr
from tensorir.nodes.stmt import BufferStore, Stmt
from tensorir.rewriting.rebuild import (
    DEFINED,
    INSIDE,
    OUTSIDE,
    PARTS,
    REBUILD,
    SCOPED,
    USED_BUFFERS,
    Row,
)

N = TypeVar("N", bound=Node)

# ------------------------------------------------------------------------------------------ walking


def children(node: Node) -> Sequence[Node]:
    """Return the parts of `node` in program order.

    Definitions (loop variables, buffers, pointers) are not parts; a block's `init` comes before
    its body.
    """
    return PARTS[type(node)](node)


def outside(node: Node) -> Sequence[Node]:
    """Return the parts of `node` that are outside of the scope of its definitions and facts."""
    return OUTSIDE[type(node)](node)


def inside(node: Node) -> Sequence[Node]:
    """Return the parts of `node` in the scope of its definitions and facts: its bodies."""
    return INSIDE[type(node)](node)


def defined(node: Node) -> Sequence[Any]:
    """Return the variables that `node` itself defines: one for a loop, none for a block (its axes
    define them).
    """
    return DEFINED[type(node)](node)


def used_buffers(node: Node) -> Sequence[Any]:
    """Return the buffer that `node` itself accesses, if any."""
    return USED_BUFFERS[type(node)](node)


def pre_order_visit(node: Node, visit: Callable[[Node], bool | None]) -> None:
    """Call `visit` on `node`, then on its parts unless it returned False."""
    stack = [node]
    while stack:
        current = stack.pop()
        if visit(current) is not False:
            stack.extend(reversed(PARTS[type(current)](current)))


def post_order_visit(node: Node, visit: Callable[[Node], object]) -> None:
    """Call `visit` on the parts of `node` before `node` itself."""
    for child in PARTS[type(node)](node):
        post_order_visit(child, visit)
    visit(node)


def walk(node: Node) -> Iterator[Node]:
    """Yield `node` and all nodes in it; a node comes before its parts."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        parts = PARTS[type(current)](current)
        if parts:
            stack.extend(parts[::-1])


def walk_once(node: Node) -> Iterator[Node]:
    """Yield `node` and all nodes in it; a node that occurs several times is yielded once."""
    seen: set[Node] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        parts = PARTS[type(current)](current)
        if parts:
            if current in seen:
                continue
            seen.add(current)
            stack.extend(parts[::-1])
        yield current


def statements(node: Stmt) -> Iterator[Stmt]:
    """Yield `node` and the statements in it; a statement comes before its parts."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if type(current) is not BufferStore:
            parts = PARTS[type(current)](current)
            stack.extend(part for part in parts[::-1] if isinstance(part, Stmt))


def uses_var(node: Node, wanted: Callable[[Var], bool] | Var) -> bool:
    """Return True if a variable, or any variable that satisfies a predicate, occurs in `node`."""
    single = isinstance(wanted, Var)
    stack = [node]
    while stack:
        current = stack.pop()
        kind = type(current)
        if kind is e.Var or kind is e.SizeVar:
            if current is wanted if single else wanted(current):  # type: ignore[arg-type,operator]
                return True
        elif kind is not e.IntImm:
            stack.extend(PARTS[kind](current))
    return False


def collect_vars(node: Node) -> list[Var]:
    """Return the variables that occur in `node`, each once, in order of first use."""
    if type(node) is Var:
        return [node]
    return list(dict.fromkeys(n for n in walk(node) if isinstance(n, Var)))


# --------------------------------------------------------------------------------------- rebuilding


class Rewriter:
    """Rebuilds a program; define `rewrite_<ClassName>(self, node)` for the nodes that change.

    An overriding method calls `self.generic(node)` to rewrite the parts first. If a class has a
    method `within(node, field)`, the bodies of nodes are rewritten inside the context manager that
    it returns, which can set facts that hold in the body.
    """

    _method_rows: ClassVar[Mapping[type, Row]] = REBUILD
    """The function that rewrites nodes of each class."""
    _part_rows: ClassVar[Mapping[type, Row]] = REBUILD
    """The function that rewrites parts of nodes: the same, unless the class overrides `__call__`.
    """
    _generic_rows: ClassVar[Mapping[type, Row]] = REBUILD

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._generic_rows = SCOPED if hasattr(cls, "within") else REBUILD
        cls._method_rows = cls._part_rows = ByKind(cls._method)
        if cls.__call__ is not Rewriter.__call__:
            cls._part_rows = ByKind(lambda _: cls.__call__)

    @classmethod
    def _method(cls, kind: type[Node]) -> Row:
        for base in kind.__mro__:
            own: Row | None = getattr(cls, "rewrite_" + base.__name__, None)
            if own is not None:
                return own
        return cls._generic_rows[kind]

    def __call__(self, node: N) -> N:
        """Return `node` rewritten."""
        return self._method_rows[type(node)](self, node)  # type: ignore[no-any-return]

    def generic(self, node: N) -> N:
        """Return `node` with its parts rewritten."""
        return self._generic_rows[type(node)](self, node)  # type: ignore[no-any-return]

    def each(self, nodes: tuple[N, ...]) -> tuple[N, ...]:
        """Return the rewritten nodes; the same tuple if none changed."""
        # A plain loop, because comprehensions and `all` take nearly twice as long for few parts.
        rows = self._part_rows
        changed = False
        result = []
        for node in nodes:
            new = rows[type(node)](self, node)
            changed = changed or new is not node
            result.append(new)
        return tuple(result) if changed else nodes

    def maybe(self, node: N | None) -> N | None:
        """Return the rewritten node; None for None."""
        return None if node is None else self(node)

    def value(self, value: Any) -> Any:
        """Return an annotation value with the nodes in it rewritten."""
        if isinstance(value, Buffer):
            return self.buffer(value)
        if isinstance(value, Node):
            return self(value)
        if isinstance(value, tuple):
            return same_or_new(value, [self.value(v) for v in value])
        if isinstance(value, dict) and value:
            mapped = {k: self.value(v) for k, v in value.items()}
            return Attrs(mapped) if any(mapped[k] is not value[k] for k in mapped) else value
        return value

    def buffer(self, buffer: Buffer) -> Buffer:
        """Return the buffer that replaces a buffer at its uses; override it to replace buffers."""
        return buffer

    def define(self, var: Any) -> Any:
        """Return the variable that a node defines instead of `var`."""
        return var

    def define_buffer(self, buffer: Buffer) -> Buffer:
        """Return the buffer that a node defines instead of `buffer`."""
        return self.buffer(buffer)


class Substitution(Rewriter):
    """Replaces variables by expressions, and buffers by other buffers.

    A buffer with a replaced variable in its pointer, shape, strides or offset becomes a new buffer,
    the same one at all its uses.
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

    def layout_expr(self, expr: PrimExpr) -> PrimExpr:
        """Return the expression that replaces a dimension, stride or offset of a buffer."""
        return self(expr)

    def _with_layout(self, buffer: Buffer) -> Buffer:
        data, new = self(buffer.data), tuple(map(self.layout_expr, buffer.layout))
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
    """Return `node` with variables replaced, all at once, without folding constants.

    A buffer with a replaced variable in its shape, strides or offset becomes a new buffer, the same
    one at all its uses in `node`. Raises IRTypeError if the dtypes of a value and its variable
    differ.
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
    """Return `node` with every use of a buffer, and of its pointer, replaced by another buffer."""
    return Substitution(buffers=buffers)(node) if buffers else node


# ---------------------------------------------------------------------------------- rewriting rules

Rule: TypeAlias = Callable[[Any], Any]
"""Returns the replacement of a node whose parts are rewritten; None keeps the node."""
RuleBefore: TypeAlias = Callable[[Any, Rewriter], Any]
"""Returns the replacement of an original node, using the rewriter on its parts.

None rewrites the parts.
"""


def rewrite(
    node: N,
    after: Mapping[type, Rule] | None = None,
    *,
    before: Mapping[type, RuleBefore] | None = None,
    buffer: Callable[[Buffer], Buffer] | None = None,
    over: Rewriter | None = None,
) -> N:
    """Return `node` rewritten by rules, which are functions by class of nodes.

    A rule of `after` receives a node whose parts are rewritten and returns the replacement, or None
    to keep the node. A rule of `before` receives the original node and the rewriter. It calls the
    rewriter on the parts to rewrite, or `generic(node)` for all parts, and returns the replacement;
    None means that the rule does not apply. A rule for a class also applies to derived classes
    without their own rule. `buffer` maps a used buffer to its replacement. Nodes without a rule are
    rewritten by `over`, which may keep track of scopes.

        rewrite(body, {Evaluate: lambda node: None if ... else nothing})
        rewrite(body, before={For: lambda node, r: unrolled(node.with_body(r(node.body)))})
    """
    return ruled(after, before=before, buffer=buffer, over=over)(node)


def ruled(
    after: Mapping[type, Rule] | None = None,
    *,
    before: Mapping[type, RuleBefore] | None = None,
    buffer: Callable[[Buffer], Buffer] | None = None,
    over: Rewriter | None = None,
) -> Rewriter:
    """Return the rewriter that `rewrite` uses, for several programs.

    If `over` is given, it is returned after adding the rules to it.
    """
    rewriter: Any = Rewriter() if over is None else over
    key = type(rewriter), tuple(after or ()), tuple(before or ())
    rows = _RULED.get(key)
    if rows is None:
        rows = _RULED[key] = _ruled(*key)
    rewriter._method_rows = rewriter._part_rows = rows
    rewriter._rules_after, rewriter._rules_before = after, before
    if buffer is not None:
        rewriter.buffer = buffer
    return rewriter  # type: ignore[no-any-return]


_Ruled: TypeAlias = tuple[type[Rewriter], tuple[type, ...], tuple[type, ...]]
_RULED: Final[dict[_Ruled, Mapping[type, Row]]] = {}


def _ruled(
    rewriter: type[Rewriter], after: tuple[type, ...], before: tuple[type, ...]
) -> Mapping[type, Row]:
    """Return the table of functions of a rewriter class with rules for these node classes.

    The rules belong to the instance.
    """

    def row(kind: type[Node]) -> Row:
        bases = kind.__mro__
        last = next((base for base in bases if base in after), None)
        first = next((base for base in bases if base in before), None)
        plain = rewriter._method_rows[kind]
        created = plain if last is None else _after(plain, last)
        return created if first is None else _before(created, first)

    return ByKind(row)


def _after(plain: Row, of: type) -> Row:
    def row(rewriter: Any, node: Node) -> Any:
        rebuilt = plain(rewriter, node)
        new = rewriter._rules_after[of](rebuilt) if isinstance(rebuilt, of) else None
        return rebuilt if new is None else new

    return row


def _before(otherwise: Row, of: type) -> Row:
    def row(rewriter: Any, node: Node) -> Any:
        new = rewriter._rules_before[of](node, rewriter)
        return otherwise(rewriter, node) if new is None else new

    return row
