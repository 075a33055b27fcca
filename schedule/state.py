"""The program under transformation, which changes only by `ScheduleState.replace`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from itertools import count
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from schedule.errors import ROOT_BLOCK, fail
from schedule.sref import StmtSRef, path_up, scope_root
from schedule.stmt_cursor import with_child_replaced
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import Var
from tensorir.nodes.stmt import (
    Allocate,
    AllocateConst,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
    SeqStmt,
    Stmt,
    is_no_op,
)
from tensorir.rewriting.visit import children, walk

DEBUG_VERIFY_TREE: Final = 1
DEBUG_VERIFY_FLAGS: Final = 2

_Fact = TypeVar("_Fact")
_Given = ParamSpec("_Given")

_DEFINING: Final = (LetStmt, Allocate, AllocateConst, DeclBuffer)


_Entry: TypeAlias = tuple[StmtSRef, For | Block | None, StmtSRef | None, BlockRealize | None]
"""A reference, its statement, the parent reference, and for a block its realize."""


@dataclass(frozen=True, slots=True)
class Savepoint:
    """What a state was at one moment; see `ScheduleState.open_savepoint`."""

    undo: tuple[int, int]
    mod: IRModule | None
    has_definitions: bool
    rolling: set[Buffer]
    before_postproc: IRModule | None


class ScheduleState:
    """A module with a reference for every loop and block in it (those in a block's `init` aside).

    Its graph functions stay as they are.

    `replace` is the only way to change it. `rollback` restores the program of the last `commit`, so
    a failed primitive changes nothing. `restore` undoes several primitives, back to a savepoint.
    """

    def __init__(
        self, mod: IRModule | PrimFunc, *, debug_mask: int = 0, enable_check: bool = True
    ) -> None:
        if isinstance(mod, PrimFunc):
            mod = IRModule({"main": mod})
        if not isinstance(mod, IRModule):
            raise IRTypeError(f"a schedule takes an IRModule or PrimFunc, got {type(mod).__name__}")
        self.debug_mask = debug_mask
        self.enable_check = enable_check
        self.stmt2ref: dict[Stmt, StmtSRef] = {}
        self.running = ""
        """The primitive that runs now; recorded in the references it consumes."""
        self.has_definitions = False
        """True if statements other than loops and blocks define names that blocks use."""
        self._facts: dict[Hashable, Any] = {}
        """The results of `memoize_on_state` functions for the current program."""
        self.rolling: set[Buffer] = set()
        """The rolling buffers: they keep results of earlier iterations, so their reads are
        covered.
        """
        self.before_postproc: IRModule | None = None
        """The program at the start of postprocessing, None before that."""
        self._funcs = mod.prim_funcs()
        self._graph_funcs = mod.graph_funcs()
        self._attrs = mod.attrs
        self._mod: IRModule | None = mod.clone()
        self._mod_before: IRModule | None = None
        self._roots: dict[str, StmtSRef] = {}
        self._defining: dict[Var, StmtSRef] = {}
        """Maps the variable of a loop, or the first axis of a block, to the loop or block."""
        self._undo: list[_Entry] = []
        self._undo_funcs: list[tuple[str, PrimFunc]] = []
        self._committed = (0, 0)
        """The lengths of both lists at the last commit."""
        self._open_points = 0
        """The number of open savepoints, to which `restore` may return."""
        for name, func in self._funcs.items():
            if type(func.body) is BlockRealize:
                self._index(name, func.body)
        self.commit()

    # ------------------------------------------------------------------------------------ looking

    @property
    def mod(self) -> IRModule:
        """The current module; a module handed out earlier never changes."""
        if self._mod is None:
            self._mod = IRModule({**self._funcs, **self._graph_funcs}, self._attrs)
        return self._mod

    def func(self, name: str) -> PrimFunc:
        """Return the current function called `name`."""
        return self._funcs[name]

    def root(self, func_name: str) -> StmtSRef:
        """Return the root block of a function.

        Raises IRValueError for an unknown function, and for a function without blocks.
        """
        root = self._roots.get(func_name)
        if root is None:
            if func_name in self._funcs:
                raise IRValueError(f'function "{func_name}" has no block, so nothing to schedule')
            if func_name in self._graph_funcs:
                raise IRValueError(
                    f'function "{func_name}" is a graph function, which has no blocks; schedule '
                    f"the tensor functions that it calls: {sorted(self._funcs)}"
                )
            raise IRValueError(
                f'unknown function "{func_name}"; the module has {sorted(self._funcs)}'
            )
        return root

    def func_name_of(self, sref: StmtSRef) -> str:
        """Return the name of the function that `sref` is in."""
        *_, top = path_up(sref)
        return next(name for name, root in self._roots.items() if root is top)

    def func_of(self, sref: StmtSRef) -> PrimFunc:
        """Return the function that `sref` is in."""
        return self._funcs[self.func_name_of(sref)]

    def get_sref(self, stmt: For | Block) -> StmtSRef:
        """Return the reference of a loop or block; IndexError if it is not in the program."""
        sref = self.stmt2ref.get(stmt)
        if sref is None:
            raise IndexError("the statement is not part of the schedule's current program")
        return sref

    def blocks(self, func_name: str) -> Iterator[StmtSRef]:
        """Yield the blocks of a function, an enclosing block before its inner blocks."""
        pending = [self.root(func_name)]
        while pending:
            sref = pending.pop()
            yield sref
            pending.extend(reversed(self.child_blocks(sref)))

    def child_blocks(self, sref: StmtSRef) -> list[StmtSRef]:
        """Return the blocks right below a loop or block, in program order."""
        found: list[StmtSRef] = []
        assert sref.stmt is not None
        pending: list[Stmt] = [sref.stmt.body]
        while pending:
            stmt = pending.pop()
            kind = type(stmt)
            if kind is BlockRealize:
                found.append(self.stmt2ref[stmt.block])  # type: ignore[attr-defined]
            elif kind is For:
                pending.append(stmt.body)  # type: ignore[attr-defined]
            elif kind is SeqStmt:
                pending.extend(reversed(stmt.seq))  # type: ignore[attr-defined]
            elif kind is not BufferStore:
                pending.extend(c for c in reversed(children(stmt)) if isinstance(c, Stmt))
        return found

    def scope_root(self, sref: StmtSRef) -> StmtSRef:
        """Return the block whose scope `sref` is in; RootBlockError for a function's root block."""
        root = scope_root(sref)
        if root is None:
            fail(ROOT_BLOCK, sref)
        return root

    def free_name(self, sref: StmtSRef, name: str) -> str:
        """Return `name`, with a number appended if a block of the function has that name."""
        taken = {block.block.name_hint for block in self.blocks(self.func_name_of(sref))}
        numbered = (f"{name}_{k}" for k in count(1))
        return name if name not in taken else next(n for n in numbered if n not in taken)

    # ----------------------------------------------------------------------------------- changing

    def replace(
        self,
        old: StmtSRef,
        new: Stmt | None,
        reuse: Mapping[Block, Block] | None = None,
        revive: Mapping[Block, StmtSRef] | None = None,
    ) -> None:
        """Replace the loop or block `old` by `new`.

        For a block, `new` is a `Block` (keeping the bindings) or any statement (taking the place of
        its realize). None removes it, together with loops that it leaves empty.

        References follow what they refer to: a node that occurs in both trees keeps its reference
        and everything below; a loop is recognised by its loop variable, a block by its first axis
        or by `reuse`, which maps old blocks to new ones. Loops and blocks that are not recognised
        expire. `revive` restores the references of blocks that were removed before and now return.
        """
        assert old.stmt is not None
        self._begin()
        above = old.parent
        if type(old.stmt) is Block and type(new) is not Block:
            old_stmt: Stmt = old.block_realize
        else:
            old_stmt = old.stmt
        renamed = {b: self.stmt2ref[a] for a, b in reuse.items()} if reuse else {}
        renamed.update(revive or {})
        if type(new) is Block:
            renamed.setdefault(new, old)
            realize = old.block_realize
            replacement: Stmt | None = BlockRealize(realize.iter_values, realize.predicate, new)
            old_stmt = realize
        else:
            replacement = new
        placed: list[_Entry] = []
        kept: set[Stmt] = set()
        alive: set[StmtSRef] = set()
        if replacement is not None:
            self._place(replacement, above, renamed, placed, kept, alive)
        self._expire(old_stmt, kept, alive)
        for sref, stmt, parent, realized in placed:
            self._assign(sref, stmt, parent, realized)
        self._climb(old_stmt, replacement, above, old)

    def _place(
        self,
        stmt: Stmt,
        parent: StmtSRef | None,
        renamed: Mapping[Block, StmtSRef],
        placed: list[_Entry],
        kept: set[Stmt],
        alive: set[StmtSRef],
    ) -> None:
        """Decide which reference each loop and block of a new tree gets."""
        pending: list[tuple[Stmt, StmtSRef | None]] = [(stmt, parent)]
        while pending:
            node, above = pending.pop()
            if type(node) is For or type(node) is BlockRealize:
                realize = node if type(node) is BlockRealize else None
                new: For | Block = node if realize is None else realize.block  # type: ignore[assignment]
                sref = self.stmt2ref.get(new)
                if sref is not None:
                    kept.add(new)
                else:
                    sref = renamed.get(new) if type(new) is Block else None
                    var = _first_variable(new)
                    if sref is None and var is not None:
                        sref = self._defining.get(var)
                    if sref is None:
                        sref = StmtSRef(None, None)
                    pending.append((new.body, sref))
                alive.add(sref)
                placed.append((sref, new, above, realize))
            elif type(node) is SeqStmt:
                pending.extend([(child, above) for child in node.seq])
            elif type(node) is not BufferStore:
                if isinstance(node, _DEFINING) and not self.has_definitions:
                    inside = walk(node.body)
                    self.has_definitions = any(type(part) is BlockRealize for part in inside)
                pending.extend((c, above) for c in children(node) if isinstance(c, Stmt))

    def _expire(self, stmt: Stmt, kept: set[Stmt], alive: set[StmtSRef]) -> None:
        """Remove the expired references of an old tree from the tables."""
        pending = [stmt]
        while pending:
            node = pending.pop()
            if type(node) is BlockRealize:
                node = node.block
            if type(node) is For or type(node) is Block:
                if node in kept:
                    continue
                sref = self.stmt2ref[node]
                if sref not in alive:
                    self._assign(sref, None, None, None)
                    sref.consumed_by = self.running
                pending.append(node.body)
            elif type(node) is SeqStmt:
                pending.extend(node.seq)
            elif type(node) is not BufferStore:
                pending.extend(c for c in children(node) if isinstance(c, Stmt))

    def _assign(
        self,
        sref: StmtSRef,
        stmt: For | Block | None,
        parent: StmtSRef | None,
        realize: BlockRealize | None,
    ) -> None:
        old = sref.stmt
        self._undo.append((sref, old, sref.parent, sref.realize))
        sref.parent = parent
        sref.realize = realize
        if stmt is old:
            return
        sref.stmt = stmt
        self._forget(old, sref)
        self._enter(stmt, sref)

    def _forget(self, stmt: For | Block | None, sref: StmtSRef) -> None:
        if stmt is None:
            return
        if self.stmt2ref.get(stmt) is sref:
            del self.stmt2ref[stmt]
        var = _first_variable(stmt)
        if var is not None and self._defining.get(var) is sref:
            del self._defining[var]

    def _enter(self, stmt: For | Block | None, sref: StmtSRef) -> None:
        if stmt is None:
            return
        self.stmt2ref[stmt] = sref
        var = _first_variable(stmt)
        if var is not None:
            self._defining[var] = sref

    def _climb(self, old: Stmt, new: Stmt | None, parent: StmtSRef | None, start: StmtSRef) -> None:
        """Rebuild the ancestors of a replaced statement."""
        top = start
        while parent is not None:
            top = parent
            above = parent.parent
            stmt = parent.stmt
            assert stmt is not None
            body = with_child_replaced(stmt.body, old, new)
            if type(stmt) is For:
                if is_no_op(body):
                    old, new, parent = stmt, None, above
                    self._assign(top, None, None, None)
                    top.consumed_by = self.running
                    continue
                loop = stmt.with_body(body)
                self._replace_body(parent, stmt, loop, None)
                old, new = stmt, loop
            else:
                block = parent.block.with_body(body)
                realize = parent.block_realize
                rebuilt = BlockRealize(realize.iter_values, realize.predicate, block)
                self._replace_body(parent, stmt, block, rebuilt)
                old, new = realize, rebuilt
            parent = above
        self._set_body(top, new)

    def _replace_body(
        self, sref: StmtSRef, old: For | Block, new: For | Block, realize: BlockRealize | None
    ) -> None:
        """Replace the body of a loop or block, whose variable or axis still identifies it."""
        self._undo.append((sref, old, sref.parent, sref.realize))
        sref.stmt = new
        sref.realize = realize
        del self.stmt2ref[old]
        self.stmt2ref[new] = sref

    def _set_body(self, root: StmtSRef, body: Stmt | None) -> None:
        assert body is not None
        for name, known in self._roots.items():
            if known is root:
                self._undo_funcs.append((name, self._funcs[name]))
                self._funcs[name] = self._funcs[name].with_body(body)
                return

    def replace_func(self, name: str, func: PrimFunc) -> None:
        """Replace a function whose parameters or attributes change.

        The body must be unchanged, or a body in which `replace` recognises the kept parts.
        """
        root = self._roots[name]
        if func.body is not self._funcs[name].body:
            assert isinstance(func.body, BlockRealize)
            self.replace(root, func.body, {root.block: func.body.block})
        self._begin()
        self._undo_funcs.append((name, self._funcs[name]))
        self._funcs[name] = func

    # ------------------------------------------------------------------------------- transactions

    def _begin(self) -> None:
        """Save the module before its first change."""
        if self._committed == (len(self._undo), len(self._undo_funcs)):
            self._mod_before = self._mod
        self._mod = None
        self._facts.clear()

    def commit(self) -> None:
        """Make all replacements since the last commit final, unless a savepoint is open."""
        if not self._open_points:
            self._undo.clear()
            self._undo_funcs.clear()
        self._committed = (len(self._undo), len(self._undo_funcs))
        self._mod_before = None

    def rollback(self) -> None:
        """Undo all replacements since the last commit."""
        if self._committed != (len(self._undo), len(self._undo_funcs)):
            self._take_back(self._committed, self._mod_before)
        self.commit()

    def open_savepoint(self) -> Savepoint:
        """Return a point to which `restore` can go back until `close_savepoint` is called."""
        assert self._committed == (len(self._undo), len(self._undo_funcs)), "a primitive is running"
        self._open_points += 1
        return Savepoint(
            self._committed,
            self._mod,
            self.has_definitions,
            set(self.rolling),
            self.before_postproc,
        )

    def close_savepoint(self) -> None:
        """Close the savepoint that was opened last."""
        self._open_points -= 1
        self.commit()

    def restore(self, point: Savepoint) -> None:
        """Restore the program and its references at an open savepoint."""
        self._take_back(point.undo, point.mod)
        self.has_definitions = point.has_definitions
        self.rolling = set(point.rolling)
        self.before_postproc = point.before_postproc
        self.commit()

    def _take_back(self, until: tuple[int, int], mod: IRModule | None) -> None:
        """Undo the entries of the undo lists from a position on; the module becomes `mod`."""
        entries, funcs = self._undo[until[0] :], self._undo_funcs[until[1] :]
        for sref, _, _, _ in reversed(entries):
            self._forget(sref.stmt, sref)
        for sref, stmt, parent, realize in reversed(entries):
            sref.stmt = stmt
            sref.parent = parent
            sref.realize = realize
        for sref, _, _, _ in entries:
            self._enter(sref.stmt, sref)
        for name, func in reversed(funcs):
            self._funcs[name] = func
        del self._undo[until[0] :], self._undo_funcs[until[1] :]
        self._mod = mod
        self._facts.clear()

    def copy(self) -> tuple[ScheduleState, dict[StmtSRef, StmtSRef]]:
        """Return an independent state of the same program, and a map from old to new references."""
        twin = ScheduleState.__new__(ScheduleState)
        twins = {sref: StmtSRef(sref.stmt, None, sref.realize) for sref in self.stmt2ref.values()}
        for sref, other in twins.items():
            other.parent = None if sref.parent is None else twins[sref.parent]
        twin.__dict__.update(self.__dict__)
        twin.running = ""
        twin._facts = {}
        twin.rolling = set(self.rolling)
        twin.stmt2ref = {stmt: twins[sref] for stmt, sref in self.stmt2ref.items()}
        twin._funcs = dict(self._funcs)
        twin._roots = {name: twins[sref] for name, sref in self._roots.items()}
        twin._defining = {var: twins[sref] for var, sref in self._defining.items()}
        twin._undo = []
        twin._undo_funcs = []
        twin._committed = (0, 0)
        twin._open_points = 0
        twin._mod_before = None
        return twin, twins

    # ------------------------------------------------------------------------------------ indexing

    def _index(self, name: str, body: BlockRealize) -> None:
        placed: list[_Entry] = []
        self._place(body, None, {}, placed, set(), set())
        for sref, stmt, parent, realize in placed:
            self._assign(sref, stmt, parent, realize)
        self._roots[name] = placed[0][0]

    def verify(self) -> None:
        """Check that the references mirror the program; AssertionError where they do not."""
        fresh = ScheduleState(self.mod)
        assert fresh.stmt2ref.keys() == self.stmt2ref.keys(), "references do not match the program"
        for stmt, sref in self.stmt2ref.items():
            other = fresh.stmt2ref[stmt]
            mine = None if sref.parent is None else sref.parent.stmt
            expected = None if other.parent is None else other.parent.stmt
            assert sref.stmt is stmt, "a reference differs from its entry in the table"
            assert mine is expected, "a reference has a wrong parent"
            assert sref.realize is other.realize, "a reference has a stale realize"


def _first_variable(stmt: For | Block) -> Var | None:
    """Return the variable that identifies a loop or block, None for a block without axes."""
    if type(stmt) is For:
        return stmt.loop_var
    axes = stmt.iter_vars  # type: ignore[union-attr]
    return axes[0].var if axes else None


def memoize_on_state(
    find: Callable[Concatenate[ScheduleState, _Given], _Fact],
) -> Callable[Concatenate[ScheduleState, _Given], _Fact]:
    """Cache the results of a function of a state for the current program, by its other arguments.

    An error is not cached.
    """

    @wraps(find)
    def cached(state: ScheduleState, /, *args: _Given.args, **options: _Given.kwargs) -> _Fact:
        facts, key = state._facts, (find, args, *options.items())
        if key not in facts:
            facts[key] = find(state, *args, **options)
        found: _Fact = facts[key]
        return found

    return cached
