"""Cursors: places in the program of a schedule, found by moving about or by a pattern.

    C = find(sch, "C[_] += _")              # the block that updates C
    C.parent.parent.handle                  # the second loop around it, as a handle
    find(sch, "for k in _: _").children     # what the loop over k runs

A pattern is a line of Python, which is parsed and never executed. `_` stands for anything:

| pattern | matches |
| --- | --- |
| `for i in _: _` | loops whose variable is called `i`, also `i_0` and the like after a split |
| `for _ in 16: _` | loops of 16 iterations |
| `for _ in T.parallel(_): _` | loops of a kind |
| `for _ in _: C[_] = _` | loops with a block below them that matches the rest |
| `C[_] += A[_] * _` | blocks that store to `C`; one `_` stands for all indices |
| `C[_] = max(_, 0)` | the same, with the value that is stored |

A cursor belongs to the program as it was: after a primitive has changed the place, find it anew.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from schedule.errors import Problem, fail
from schedule.handles import BlockRV, LoopRV
from schedule.schedule import Schedule
from schedule.sref import StmtSRef, loops_above
from schedule.stmt_cursor import top_nests
from tensorir.comparison.equal import expr_deep_equal
from tensorir.errors import IRValueError
from tensorir.nodes import expr as e
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt
from tensorir.rewriting.visit import children
from tensorir.syntax_trees import syntax_tree

_NO_MATCH = Problem(
    "NoMatchError",
    "the program has no place that matches `{pattern}`",
    "a pattern names loop variables and buffers as the program prints them; `_` stands for any",
)
_WHOLE: Final = "_"
_OPERATORS: Final[dict[type, tuple[type[ast.operator], ...]]] = {
    e.Add: (ast.Add,),
    e.Sub: (ast.Sub,),
    e.Mul: (ast.Mult,),
    e.Div: (ast.Div,),
    e.FloorDiv: (ast.FloorDiv,),
    e.FloorMod: (ast.Mod,),
}
_KINDS: Final = {
    "serial": ForKind.SERIAL,
    "parallel": ForKind.PARALLEL,
    "vectorized": ForKind.VECTORIZED,
    "unroll": ForKind.UNROLLED,
    "thread_binding": ForKind.THREAD_BINDING,
}


@dataclass(frozen=True)
class Cursor:
    """A loop or a block of the program of a schedule."""

    sch: Schedule
    sref: StmtSRef

    @property
    def stmt(self) -> For | Block:
        """The loop or block."""
        assert self.sref.stmt is not None
        return self.sref.stmt

    @property
    def name(self) -> str:
        """The name of the loop variable or of the block."""
        stmt = self.stmt
        return stmt.loop_var.name if isinstance(stmt, For) else stmt.name_hint

    @property
    def handle(self) -> BlockRV | LoopRV:
        """A handle of the place, for primitives; the trace records how it is found."""
        if self.sref.is_block:
            return self.sch.get_block(self.name, self.sch.state.func_name_of(self.sref))
        below = self.children
        while not below[0].sref.is_block:
            below = below[0].children
        block, name = below[0].sref, self.sch.state.func_name_of(self.sref)
        loops = self.sch.get_loops(self.sch.get_block(block.block.name_hint, name))
        return loops[loops_above(block).index(self.sref)]

    @property
    def parent(self) -> Cursor | None:
        """The loop or block around this one; None for the root block of a function."""
        above = self.sref.parent
        return None if above is None else Cursor(self.sch, above)

    @property
    def children(self) -> list[Cursor]:
        """The loops and blocks right below, in program order."""
        state = self.sch.state
        nests = top_nests(self.stmt.body)
        stmts = [nest.block if isinstance(nest, BlockRealize) else nest for nest in nests]
        return [Cursor(self.sch, state.get_sref(stmt)) for stmt in stmts]

    @property
    def next(self) -> Cursor | None:
        """The loop or block that runs after this one below the same parent, None at the end."""
        return self._sibling(1)

    @property
    def previous(self) -> Cursor | None:
        """The loop or block that runs before this one below the same parent, None at the start."""
        return self._sibling(-1)

    def _sibling(self, step: int) -> Cursor | None:
        if self.parent is None:
            return None
        row = self.parent.children
        place = row.index(self) + step
        return row[place] if 0 <= place < len(row) else None

    def walk(self) -> Iterator[Cursor]:
        """Yield this place and all places below it, an outer one before those in it."""
        pending = [self]
        while pending:
            place = pending.pop()
            yield place
            pending.extend(reversed(place.children))

    def find_all(self, pattern: str) -> list[Cursor]:
        """Return the places from here on that match a pattern; IRValueError if it is none."""
        wanted = _parsed(pattern)
        return [place for place in self.walk() if _matches(wanted, place)]

    def find(self, pattern: str) -> Cursor:
        """Return the first place that matches a pattern.

        Raises ScheduleError (NoMatchError) if there is none, IRValueError if it is no pattern.
        """
        wanted = _parsed(pattern)
        for place in self.walk():
            if _matches(wanted, place):
                return place
        fail(_NO_MATCH, pattern=pattern)

    def __str__(self) -> str:
        return f"{'block' if self.sref.is_block else 'loop'} {self.name}"


def cursor(sch: Schedule, handle: BlockRV | LoopRV | str | None = None) -> Cursor:
    """Return the place of a handle, or of the block with a name; by default the root block."""
    if handle is None:
        return Cursor(sch, sch.state.root(sch.function_to_search()))
    if isinstance(handle, str):
        handle = sch.get_block(handle)
    return Cursor(sch, sch.get_sref(handle))


def find(sch: Schedule, pattern: str) -> Cursor:
    """Return the first place that matches a pattern; see `Cursor.find`."""
    return cursor(sch).find(pattern)


def find_all(sch: Schedule, pattern: str) -> list[Cursor]:
    """Return all places that match a pattern; see `Cursor.find_all`."""
    return cursor(sch).find_all(pattern)


# ----------------------------------------------------------------------------------- patterns


def _parsed(pattern: str) -> ast.stmt:
    """Return the tree of a pattern; IRValueError for what is none."""
    try:
        (stmt,) = syntax_tree(pattern).body
    except (SyntaxError, ValueError) as error:
        raise IRValueError(f"`{pattern}` is not a pattern of one statement: {error}") from None
    loop, last = stmt, stmt
    while isinstance(loop, ast.For) and len(loop.body) == 1 and isinstance(loop.target, ast.Name):
        last = loop = loop.body[0]
    is_store = isinstance(last, ast.AugAssign) and isinstance(last.target, ast.Subscript)
    is_store |= isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Subscript)
    if not is_store and not (last is not stmt and _is_any(last)):
        raise IRValueError(
            f"`{pattern}` is not a pattern; one is `for i in _: _`, `C[_] = _` or `C[_] += _`"
        )
    return stmt


def _is_any(node: ast.AST) -> bool:
    """Say whether a part of a pattern is `_`."""
    if isinstance(node, ast.Expr):
        node = node.value
    return isinstance(node, ast.Name) and node.id == _WHOLE


def _matches(wanted: ast.stmt, place: Cursor) -> bool:
    stmt = place.stmt
    if isinstance(wanted, ast.For):
        return isinstance(stmt, For) and _matches_loop(wanted, stmt, place)
    return isinstance(stmt, Block) and any(_matches_store(wanted, s) for s in _stores(stmt.body))


def _matches_loop(wanted: ast.For, loop: For, place: Cursor) -> bool:
    assert isinstance(wanted.target, ast.Name)
    name, own = wanted.target.id, loop.loop_var.name
    if name not in (_WHOLE, own) and not own.startswith(f"{name}_"):
        return False
    extent: ast.expr = wanted.iter
    if isinstance(extent, ast.Call):
        kind = _KINDS.get(extent.func.attr if isinstance(extent.func, ast.Attribute) else "")
        if kind is None or loop.kind is not kind:
            return False
        extent = extent.args[0] if extent.args else ast.Name(_WHOLE)
    if not _matches_value(extent, loop.extent):
        return False
    (inner,) = wanted.body
    if _is_any(inner):
        return True
    if isinstance(inner, ast.For):
        return any(_matches(inner, child) for child in place.children)
    return any(_matches(inner, below) for below in place.walk())


def _stores(body: Stmt) -> Iterator[BufferStore]:
    """Yield the stores of a statement that are not below a loop or block."""
    if isinstance(body, BufferStore):
        yield body
    elif not isinstance(body, (For, BlockRealize)):
        for child in children(body):
            if isinstance(child, Stmt):
                yield from _stores(child)


def _matches_store(wanted: ast.stmt, store: BufferStore) -> bool:
    value, target = store.value, wanted.targets[0] if isinstance(wanted, ast.Assign) else None
    if isinstance(wanted, ast.AugAssign):
        old = e.BufferLoad(store.buffer, store.indices)
        parts = _operands(wanted.op, value)
        if not parts or not expr_deep_equal(parts[0], old):
            return False
        target, value = wanted.target, parts[1]
    assert isinstance(wanted, (ast.Assign, ast.AugAssign))
    assert target is not None
    return _matches_access(target, store.buffer.name, store.indices) and _matches_value(
        wanted.value, value
    )


def _matches_access(wanted: ast.expr, name: str, indices: tuple[e.PrimExpr, ...]) -> bool:
    if not isinstance(wanted, ast.Subscript) or not isinstance(wanted.value, ast.Name):
        return False
    if wanted.value.id not in (_WHOLE, name):
        return False
    if _is_any(wanted.slice):
        return True
    parts = wanted.slice.elts if isinstance(wanted.slice, ast.Tuple) else [wanted.slice]
    return len(parts) == len(indices) and all(map(_matches_value, parts, indices))


def _matches_value(wanted: ast.expr, value: e.PrimExpr) -> bool:
    if _is_any(wanted):
        return True
    if isinstance(value, e.Cast):
        return _matches_value(wanted, value.value)
    match wanted:
        case ast.Name():
            return isinstance(value, e.Var) and value.name == wanted.id
        case ast.Constant():
            return isinstance(value, (e.IntImm, e.FloatImm)) and value.value == wanted.value
        case ast.Subscript():
            return isinstance(value, e.BufferLoad) and _matches_access(
                wanted, value.buffer.name, value.indices
            )
        case ast.BinOp():
            sides = _operands(wanted.op, value)
            return bool(sides) and all(map(_matches_value, (wanted.left, wanted.right), sides))
        case ast.Call(func=ast.Name(id=name)):
            parts: tuple[e.PrimExpr, ...]
            if isinstance(value, (e.Max, e.Min)):
                found, parts = type(value).__name__.lower(), (value.a, value.b)
            elif isinstance(value, e.Call):
                found, parts = str(value.op).rpartition(".")[2], tuple(value.args)
            else:
                return False
            same = name in (_WHOLE, found) and len(wanted.args) == len(parts)
            return same and all(map(_matches_value, wanted.args, parts))
    return False


def _operands(operator: ast.operator, value: e.PrimExpr) -> tuple[e.PrimExpr, ...]:
    """Return both operands of a value that is made by an operator, else none."""
    if isinstance(value, e.BinaryOp) and type(operator) in _OPERATORS.get(type(value), ()):
        return (value.a, value.b)
    return ()
