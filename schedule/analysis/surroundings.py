"""The context of blocks in a scope other than loops: conditions, definitions, bare accesses.

Most programs have only loops and blocks, for which these checks return at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from schedule.analysis.accesses import NO_ACCESSES, Accesses, Memory, accessing
from schedule.analysis.dependency import BlockScope
from schedule.errors import Problem, check, fail
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from schedule.stmt_cursor import StmtCursor, wrappers
from tensorir.nodes.buffer import Buffer, BufferRegion
from tensorir.nodes.expr import BufferLoad, IntImm, Var
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import (
    AssertStmt,
    Block,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    While,
)
from tensorir.rewriting.visit import collect_vars

GUARDED = Problem(
    "GuardedBlockError",
    "{0} runs only under `{guard}`, a statement around it that would not move with it",
    "write the condition as T.where of the block; until then only loops around it can be changed",
)
BARE = Problem(
    "BareAccessError",
    "{buffer}, which {0} touches, is also {how} outside of the blocks in {1}, where dependencies "
    "are not tracked",
    "put the statement that touches it into a block",
)
ORDERED = Problem(
    "BareAccessError",
    "the order of the iterations of {0} may matter: outside of the blocks below it, {what}",
    "move that statement into a block",
)
USED_DIRECTLY = Problem(
    "NotCompactDataFlowError",
    "the order of the iterations of {0} matters: {1} uses the loop variable directly and not "
    "through an axis, so its instances cannot be distinguished",
    "bind the loop variable to an axis of the block",
)
ALIASED = Problem(
    "AliasedBufferError",
    "{buffer}, which {0} touches, shares its memory with {other}, which {1} touches",
    "use one buffer for the memory",
)


# ---------------------------------------------------------------------------------------- guards

_GUARDS = (IfThenElse, While, AssertStmt)
_WORDS = {IfThenElse: "if", While: "while", AssertStmt: "assert"}

Guards = list[tuple[Stmt, str]]
"""Enclosing ifs, whiles and asserts, each with the branch that is taken."""


def guards(low: StmtSRef, high: StmtSRef) -> Guards:
    """Return the statements that decide if, or how often, `low` runs, except loops.

    They are between `low` and the enclosing loop or block `high`.
    """
    found: Guards = []
    current = low
    while current is not high:
        above = current.parent
        assert above is not None
        # Fast path: most loops and blocks are the whole body of the loop around them.
        if above.stmt.body is not (current.realize or current.stmt):  # type: ignore[union-attr]
            found += [pair for pair in wrappers(current) if isinstance(pair[0], _GUARDS)]
        current = above
    return found


def guards_of_place(place: StmtCursor) -> Guards:
    """Return the statements that decide if the statements at a place run, within its body."""
    return [pair for pair in place.wrappers() if isinstance(pair[0], _GUARDS)]


def check_unguarded(block: StmtSRef, scope: StmtSRef) -> None:
    """Raise unless only loops and predicates decide which instances of a block run."""
    for guard, _ in guards(block, scope):
        fail(GUARDED, block, guard=guard_text(guard))


def guard_text(guard: Stmt) -> str:
    """Return the text of an if, while or assert in an error."""
    return f"{_WORDS[type(guard)]} {guard.condition}"  # type: ignore[attr-defined]


# --------------------------------------------------------------------------------- bare accesses


@lru_cache(maxsize=1024)
def _accesses_of(part: Node) -> Accesses:
    found = Accesses.of(part)
    return NO_ACCESSES if found == NO_ACCESSES else found


def _bare_accesses(body: Stmt) -> Accesses:
    """Return the accesses of a body outside of the blocks in it, `NO_ACCESSES` if none.

    Bindings and loops that access memory are rare; each counts as one access.
    """
    found: list[Accesses] = []
    pending = [body]
    while pending:
        stmt = pending.pop()
        if type(stmt) is SeqStmt:
            pending.extend(stmt.seq)
            continue
        parts: list[Node] = [stmt]
        if type(stmt) is For:
            pending.append(stmt.body)
            parts = [end for end in (stmt.min, stmt.extent) if type(end) is not IntImm]
        found += [own for own in map(_accesses_of, parts) if own is not NO_ACCESSES]
    return Accesses.union(found[::-1]) if found else NO_ACCESSES


def check_touched_in_blocks(
    state: ScheduleState,
    scope: StmtSRef,
    block: StmtSRef,
    *,
    read: Iterable[Buffer] = (),
    written: Iterable[Buffer] = (),
    read_after: bool = False,
) -> None:
    """Raise if statements outside of the blocks in a scope conflict with `block`.

    They must not write buffers in `read`, and must not access buffers in `written`; with
    `read_after` they may read these after the block's loops.
    """
    bare = _bare_accesses(scope.block.body)
    if bare is NO_ACCESSES:
        return
    memory = Memory(scope)
    changed = {*map(memory.of, bare.written), *map(memory.behind, bare.pointers)}
    used = set(map(memory.of, bare.read))
    written = list(written)
    for buffer in (*read, *written):
        unchanged = memory.of(buffer) not in changed
        check(unchanged, BARE, block, scope, buffer=buffer.name, how="written")
    if read_after and used:
        early = _read_outside_blocks(scope, block)
        used = set(map(memory.of, early))
    for buffer in written:
        check(memory.of(buffer) not in used, BARE, block, scope, buffer=buffer.name, how="read")


def _read_outside_blocks(scope: StmtSRef, block: StmtSRef) -> list[Buffer]:
    """Return the buffers read outside of blocks until the outermost loop of a block has ended."""
    around = [*loops_above(block), block][0]
    nest: Stmt = block.block_realize if around is block else around.loop
    body = scope.block.body
    parts = body.seq if isinstance(body, SeqStmt) else (body,)
    if nest not in parts:
        return list(_bare_accesses(body).read)
    early = parts[: parts.index(nest) + 1]
    return [buffer for part in early for buffer in _bare_accesses(part).read]


def check_dependencies_show(
    state: ScheduleState, graph: BlockScope, block: StmtSRef, *, read_after: bool = False
) -> None:
    """Raise if a block has dependencies in its scope that the dependency graph does not show.

    With `read_after`, statements outside of blocks may read its results after its loops.
    """
    check_one_name(graph, block)
    read, written = ([r.buffer for r in side] for side in (block.block.reads, block.block.writes))
    scope = state.scope_root(block)
    check_touched_in_blocks(state, scope, block, read=read, written=written, read_after=read_after)
    # Buffers that its conditions read must not change on the way.
    for buffer in _accesses_of(block.block_realize).read:
        for other, writers in graph.buffer_writers.items():
            if graph.memory.of(other) is graph.memory.of(buffer):
                fail(BARE, writers[-1], scope, buffer=buffer.name, how="read")


def check_told_apart(state: ScheduleState, *nest: StmtSRef) -> None:
    """Raise if a block below nested loops uses the variable of one of them itself.

    Its axes then do not distinguish its instances, and a later instance may overwrite an earlier
    one.
    """
    for child in state.child_blocks(nest[-1]):
        used = variables_in(child.block)
        for loop in nest:
            check(loop.loop.loop_var not in used, USED_DIRECTLY, loop, child)


@lru_cache(maxsize=512)
def variables_in(block: Block) -> frozenset[Var]:
    """Return the variables that occur in a block."""
    return frozenset(collect_vars(block))


def check_order_is_free(state: ScheduleState, loop: StmtSRef) -> None:
    """Raise if the order of a loop's iterations may matter to statements outside of its blocks."""
    bare = _bare_accesses(loop.loop.body)
    if bare.has_effect:
        fail(ORDERED, loop, what="a function with a side effect is called")
    places: list[Buffer | Var] = [*bare.written, *bare.pointers]
    for place in places:
        fail(ORDERED, loop, what=f"{place.name} is written")
    if not bare.read:
        return
    memory = Memory(state.scope_root(loop))
    written = {memory.of(r.buffer) for c in state.child_blocks(loop) for r in c.block.writes}
    for buffer in bare.read:
        what = f"{buffer.name}, which a block writes, is read"
        check(memory.of(buffer) not in written, ORDERED, loop, what=what)


# ----------------------------------------------------------------------------------------- names


def check_one_name(graph: BlockScope, block: StmtSRef) -> None:
    """Raise if blocks of a scope access the memory of a block's buffers through other buffers."""
    if not graph.has_aliases:
        return
    node, memory = block.block, graph.memory
    names = {memory.of(r.buffer): r.buffer for r in (*node.reads, *node.writes)}
    for table in (graph.buffer_readers, graph.buffer_writers):
        for buffer, users in table.items():
            name = names.get(memory.of(buffer), buffer)
            if name is not buffer:
                fail(ALIASED, block, users[-1], buffer=name.name, other=buffer.name)


def check_only_name(block: StmtSRef, site: StmtSRef, buffer: Buffer) -> None:
    """Raise if another buffer with the memory of `buffer` is declared or used below `site`.

    `block` is the block that accesses the buffer, for the error. Views of the buffer are allowed.
    """
    for node in accessing(site.block):
        if isinstance(node, (BufferLoad, BufferStore, BufferRegion, DeclBuffer)):
            same = node.buffer is buffer or node.buffer.data is not buffer.data
            check(same, ALIASED, block, site, buffer=buffer.name, other=node.buffer.name)
