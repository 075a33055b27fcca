"""What stands around the blocks of a scope besides loops: conditions, definitions, bare accesses.

Most programs have loops and blocks alone, which every question here passes through at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from schedule.errors import Problem, check, fail
from schedule.sref import StmtSRef, wrappers
from schedule.state import ScheduleState
from tensorir.buffer import Buffer, BufferRegion
from tensorir.expr import BufferLoad, Call, IntImm, Var
from tensorir.intrin import Effect, Op
from tensorir.node import Node
from tensorir.stmt import (
    AssertStmt,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from tensorir.visit import children, walk

GUARDED = Problem(
    "GuardedBlockError",
    "{0} runs only where `{guard}` lets it, which is no predicate of its own and would not follow "
    "it",
    "only loops around it can be changed; write the condition as T.where of the block",
)
BARE = Problem(
    "BareAccessError",
    "{buffer}, which {0} touches, is also {how} outside of the blocks in {1}, where no dependency "
    "shows",
    "put the statement that does it into a block",
)
ORDERED = Problem(
    "BareAccessError",
    "the order of the iterations of {0} matters: outside of the blocks below it, {what}",
    "put the statement that does it into a block",
)
ALIASED = Problem(
    "AliasedBufferError",
    "{buffer}, which {0} touches, shares its memory with {other}, which {1} touches",
    "use one buffer for the memory",
)


# ---------------------------------------------------------------------------------------- guards


def guards(low: StmtSRef, high: StmtSRef) -> list[tuple[Stmt, Stmt]]:
    """Return what decides whether, or how often, `low` runs, besides loops and predicates.

    Each guard is an if, while or assert together with the statement in it that leads to `low`.
    They are those between `low` and the loop or block `high` around it.
    """
    found: list[tuple[Stmt, Stmt]] = []
    current = low
    while current is not high:
        around = wrappers(current)
        if around:
            found += [pair for pair in around if isinstance(pair[0], _GUARDS)]
        assert current.parent is not None
        current = current.parent
    return found


_GUARDS = (IfThenElse, While, AssertStmt)


# --------------------------------------------------------------------------------- bare accesses


@dataclass
class Accesses:
    """What some statements touch. Through a pointer, anything may happen."""

    read: dict[Buffer, None] = field(default_factory=dict)
    written: dict[Buffer, None] = field(default_factory=dict)
    pointers: dict[Var, None] = field(default_factory=dict)
    has_effect: bool = False
    """Something else than memory may be changed, by a call."""

    @staticmethod
    def of(root: Node) -> Accesses:
        """Return what a program touches outside of the blocks in it."""
        found = Accesses()
        pending: list[Node] = [root]
        while pending:
            node = pending.pop()
            kind = type(node)
            if kind is For:
                if type(node.extent) is not IntImm or type(node.min) is not IntImm:  # type: ignore[attr-defined]
                    pending += (node.min, node.extent)  # type: ignore[attr-defined]
                pending.append(node.body)  # type: ignore[attr-defined]
            elif kind is BlockRealize:
                values = node.iter_values  # type: ignore[attr-defined]
                pending += [value for value in values if type(value) is not Var]
                if type(node.predicate) is not IntImm:  # type: ignore[attr-defined]
                    pending.append(node.predicate)  # type: ignore[attr-defined]
            else:
                found._record(node)
                pending.extend(children(node))
        return found

    def _record(self, node: Node) -> None:
        if isinstance(node, BufferLoad):
            self.read[node.buffer] = None
        elif isinstance(node, BufferStore):
            self.written[node.buffer] = None
        elif isinstance(node, Var):
            if node.dtype.is_handle:
                self.pointers[node] = None
        elif isinstance(node, Call):
            if getattr(node.op, "short_name", "") == "address_of":
                self.pointers.update(
                    (a.buffer.data, None) for a in node.args if isinstance(a, BufferLoad)
                )
            elif not isinstance(node.op, Op) or node.op.effect in (Effect.OPAQUE, Effect.JUMP):
                self.has_effect = True


NONE: Final = Accesses()
_LIMIT = 128
"""How many loop nests a schedule remembers; what it remembers keeps old ones in memory."""


def _bare_accesses(state: ScheduleState, body: Stmt) -> Accesses:
    """Return what a scope touches outside of the blocks in it, `NONE` if nothing.

    Loop nests that do so are rare, and the others are looked at once: statements are immutable.
    """
    parts = body.seq if type(body) is SeqStmt else (body,)
    if all(part in state.plain_nests for part in parts):
        return NONE
    found = Accesses.of(body)
    if found != NONE:
        return found
    if len(state.plain_nests) >= _LIMIT:
        state.plain_nests.clear()
    state.plain_nests.update(parts)
    return NONE


# ---------------------------------------------------------------------------------------- memory


class Memory:
    """Which buffers share memory, as far as the statements around a scope tell."""

    def __init__(self, scope: StmtSRef) -> None:
        self._origin: dict[Var, Var] = {}
        current: StmtSRef | None = scope
        while current is not None:
            if current.is_block:
                for view in current.block.match_buffers:
                    self._origin[view.buffer.data] = view.source.buffer.data
            for outer, _ in wrappers(current):
                if isinstance(outer, LetStmt) and outer.var.dtype.is_handle:
                    pointers = Accesses.of(outer.value).pointers
                    self._origin.update((outer.var, data) for data in pointers)
            current = current.parent

    def of(self, buffer: Buffer) -> Var:
        """Return the pointer that stands for the memory of a buffer, the same for all its names."""
        return self.behind(buffer.data) if self._origin else buffer.data

    def behind(self, pointer: Var) -> Var:
        """Return the pointer that stands for what a pointer points to."""
        while pointer in self._origin:
            pointer = self._origin[pointer]
        return pointer


# ---------------------------------------------------------------------------------------- checks


def check_unguarded(block: StmtSRef, scope: StmtSRef) -> None:
    """Raise unless loops and predicates alone say which instances of a block run in its scope."""
    for outer, _ in guards(block, scope):
        fail(GUARDED, block, guard=_heading(outer))


def check_dependencies_show(state: ScheduleState, block: StmtSRef, scope: StmtSRef) -> None:
    """Raise if a block of a scope depends on more than the dependency graph shows."""
    check_one_name(state, block, scope)
    bare = _bare_accesses(state, scope.block.body)
    if bare is NONE:
        return
    node, memory = block.block, Memory(scope)
    changed = {*map(memory.of, bare.written), *map(memory.behind, bare.pointers)}
    for region in (*node.reads, *node.writes):
        unchanged = memory.of(region.buffer) not in changed
        check(unchanged, BARE, block, scope, buffer=region.buffer.name, how="written")
    used = set(map(memory.of, bare.read))
    for region in node.writes:
        unused = memory.of(region.buffer) not in used
        check(unused, BARE, block, scope, buffer=region.buffer.name, how="read")


def check_one_name(state: ScheduleState, block: StmtSRef, scope: StmtSRef) -> None:
    """Raise if blocks of a scope touch what a block does through another buffer."""
    memory = Memory(scope)
    node = block.block
    names = {memory.of(r.buffer): r.buffer for r in (*node.reads, *node.writes)}
    for child in state.child_blocks(scope):
        for region in (*child.block.reads, *child.block.writes):
            buffer = region.buffer
            name = names.get(memory.of(buffer), buffer)
            if name is not buffer:
                fail(ALIASED, block, child, buffer=name.name, other=buffer.name)


def check_only_name(block: StmtSRef, site: StmtSRef, buffer: Buffer) -> None:
    """Raise if below `site` another buffer is declared or used for the memory of one.

    `block` touches the buffer. Views that blocks make of it are no such buffers.
    """
    for node in walk(site.block):
        if isinstance(node, (BufferLoad, BufferStore, BufferRegion, DeclBuffer)):
            same = node.buffer is buffer or node.buffer.data is not buffer.data
            check(same, ALIASED, block, site, buffer=buffer.name, other=node.buffer.name)


def check_order_is_free(state: ScheduleState, loop: StmtSRef) -> None:
    """Raise if the order of a loop's iterations matters to what is below it besides blocks."""
    bare = Accesses.of(loop.loop.body)
    if bare.has_effect:
        fail(ORDERED, loop, what="something is called for its effect")
    if not (bare.read or bare.written or bare.pointers):
        return
    places: list[Buffer | Var] = [*bare.written, *bare.pointers]
    for place in places:
        fail(ORDERED, loop, what=f"{place.name} is written")
    memory = Memory(state.scope_root(loop))
    written = {memory.of(r.buffer) for c in state.child_blocks(loop) for r in c.block.writes}
    for buffer in bare.read:
        what = f"{buffer.name}, which a block writes, is read"
        check(memory.of(buffer) not in written, ORDERED, loop, what=what)


def _heading(stmt: Stmt) -> str:
    """Return how an error calls an if, while or assert."""
    words = {IfThenElse: "if", While: "while", AssertStmt: "assert"}
    condition: object = getattr(stmt, "condition", "")
    return f"{words[type(stmt)]} {condition}"
