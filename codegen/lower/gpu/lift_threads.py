"""One launch for each kernel: a nest with one loop for each axis of blocks and threads."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from codegen.errors import LoweringError
from codegen.lower.check_supported import name_of
from codegen.lower.rewriters import controls
from codegen.lower.thread_axes import (
    AXES,
    BLOCK,
    LANES,
    THREAD,
    axis_of,
    is_barrier,
    is_shared_by,
    kind_of,
    tensor_core_of,
    thread_loops,
)
from codegen.signature import is_dim
from tensorir.comparison.equal import expr_deep_equal
from tensorir.function import PrimFunc
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import EQ, LT, BufferLoad, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import add, all_of, compare, const
from tensorir.rewriting.visit import Substitution, collect_vars, statements, uses_var, walk
from tensorir.semantics.purity import has_effects


def lift_threads(func: PrimFunc) -> PrimFunc:
    """Have each kernel begin with one loop for each of its axes, blocks before threads.

    Before: for bx (blockIdx.x, 8): for i in 4:
                for a (threadIdx.x, 64): S[a] = A[i, a]
                for b (threadIdx.x, 32): B[i, b] = S[b * 2]
    After:  for blockIdx_x in 8: for threadIdx_x in 64: for i in 4:
                S[threadIdx_x] = A[i, threadIdx_x]
                if threadIdx_x < 32: B[i, threadIdx_x] = S[threadIdx_x * 2]

    A kernel is what the outermost loop bound to blocks or threads contains, or, for a single block
    of threads, what shares memory; loops around it run on the host, and so do branches between
    grids if their conditions are of integers that the host has (`is_dim`). An axis has the largest
    extent of its loops. A statement outside of the loops of some axis runs once: where it writes
    memory that the threads of the axis share, under a condition; so does a store that is the same
    for all threads of an axis. The result has its meaning when the threads run in lock step
    (`place_barriers`). Raises LoweringError naming the loops for extents of blocks that differ,
    extents of threads that are not constant, statements that no thread runs, an element to which
    iterations store different values, and global memory that one block stores while others load it.
    """
    return func.with_body(_Host(func)(func.body))


class _Host:
    """Finds the kernels in what the host runs."""

    def __init__(self, func: PrimFunc) -> None:
        self._name = name_of(func)

    def __call__(self, node: s.Stmt) -> s.Stmt:
        if s.is_no_op(node):
            return node
        if not thread_loops(node):
            raise LoweringError(
                f"{_first_name(node)} of {self._name} is outside of all loops that are bound to "
                f"threads; bind its loops to blockIdx.x and threadIdx.x (sch.bind; "
                f"sch.add_unit_loop gives one to a block without loops)"
            )
        if isinstance(node, s.SeqStmt):
            return s.sequence([self(part) for part in node.seq])
        if isinstance(node, s.For) and not axis_of(node):
            return node.with_body(self(node.body))
        if isinstance(node, s.IfThenElse) and self._is_of_host(node):
            otherwise = None if node.else_case is None else self(node.else_case)
            return node.changed(then_case=self(node.then_case), else_case=otherwise)
        if isinstance(node, s.BlockRealize) and not self._is_one_kernel(node):
            return node.changed(block=node.block.with_body(self(node.block.body)))
        if isinstance(node, s.While) and any(kind_of(loop) == BLOCK for loop in thread_loops(node)):
            raise LoweringError(
                f"a while loop of {self._name} is around loops bound to {BLOCK}, but the host "
                f"cannot look at its condition between launches; put it inside of the blocks"
            )
        return _Kernel(node, self._name).launch()

    def _is_of_host(self, node: s.IfThenElse) -> bool:
        """Return True for a branch between grids by integers that the host has."""
        cases = [x for x in (node.then_case, node.else_case) if x is not None]
        return (
            any(kind_of(loop) == BLOCK for loop in thread_loops(node))
            and is_dim(node.condition)
            and all(map(_is_all_kernels, cases))
        )

    def _is_one_kernel(self, node: s.BlockRealize) -> bool:
        """Say whether a block is a kernel: it tests a condition, or has memory of a kernel."""
        own = [b for b in node.block.alloc_buffers if memory_of(b.data) != "global"]
        if own and any(kind_of(loop) == BLOCK for loop in thread_loops(node)):
            raise LoweringError(
                f"buffer {own[0].name} of {self._name} lives in scope {own[0].scope()!r}, which "
                f"ends with a kernel, but several kernels use it; set its scope to global, or "
                f"compute its producer at its consumer (sch.compute_at)"
            )
        return bool(own) or not _is_always(node.predicate)


def _is_all_kernels(node: s.Stmt) -> bool:
    """Return True if each statement is in a loop over blocks or threads, or has no effect."""
    if isinstance(node, s.SeqStmt):
        return all(map(_is_all_kernels, node.seq))
    if isinstance(node, s.For) and not axis_of(node):
        return _is_all_kernels(node.body)
    if isinstance(node, s.BlockRealize):
        return _is_all_kernels(node.block.body)
    return s.is_no_op(node) or bool(thread_loops(node))


def _is_always(condition: PrimExpr) -> bool:
    return type(condition) is IntImm and bool(condition.value)


def _first_name(node: s.Stmt) -> str:
    for part in statements(node):
        if isinstance(part, s.For):
            return f"loop {part.loop_var.name}"
        if isinstance(part, s.BlockRealize) and part.block.name_hint:
            return f"block {part.block.name_hint!r}"
        if isinstance(part, s.BufferStore):
            return f"a store to {part.buffer.name}"
    return "a statement"


class _Kernel(Substitution):
    """Lifts the axes of one kernel."""

    def __init__(self, node: s.Stmt, function: str) -> None:
        super().__init__()
        self._node = node
        self._function = function
        self._loops: dict[str, s.For] = {}
        """The widest loop of each axis."""
        for loop in thread_loops(node):
            self._note(loop)
        self._axes: Final = {
            tag: Var(tag.replace(".", "_"), self._loops[tag].loop_var.dtype)
            for tag in AXES
            if tag in self._loops
        }
        self._bound: dict[str, Var | None] = {}
        """The variables of the loops around, by axis; None where it is settled who runs what."""
        self._limits: dict[str, PrimExpr] = {}
        """The conditions of loops that fewer threads run than there are.

        They hold for what is not in another loop over the same axis.
        """
        self._around: list[PrimExpr] = []
        """The expressions that decide whether, how often, and on which views a statement runs."""
        self._inside: dict[Node, frozenset[str]] = {}
        self._of_one_block: list[tuple[s.Stmt, str]] = []
        """Statements outside of the loops over an axis of blocks, which one block runs."""

    def _note(self, loop: s.For) -> None:
        tag = axis_of(loop)
        known = self._loops.setdefault(tag, loop)
        name = loop.loop_var.name
        if kind_of(loop) == THREAD:
            if not isinstance(loop.extent, IntImm):
                raise LoweringError(
                    f"loop {name} of {self._function} is bound to {tag} and has {loop.extent} "
                    f"iterations; a number of threads must be constant: split the loop by a "
                    f"constant factor and bind the inner loop"
                )
            assert isinstance(known.extent, IntImm)
            if loop.extent.value > known.extent.value:
                self._loops[tag] = loop
        elif not expr_deep_equal(known.extent, loop.extent):
            raise LoweringError(
                f"loops {known.loop_var.name} and {name} of one kernel of {self._function} are "
                f"both bound to {tag}, but have {known.extent} and {loop.extent} iterations; "
                f"give them the same extent, or make them kernels of their own"
            )

    def launch(self) -> s.Stmt:
        """Return the loops of the axes around the body."""
        self._check_grid()
        body: s.Stmt = self(self._node)
        self._check_blocks_meet_nowhere()
        for tag, var in reversed(self._axes.items()):
            loop = self._loops[tag]
            binding = IterVar(None, Var(tag, var.dtype), IterVar.THREAD_INDEX, tag)
            notes: dict[str, Any] = {}
            for other in thread_loops(self._node):
                if axis_of(other) == tag:
                    notes = {**other.annotations, **notes}
            extent, zero = loop.extent.astype(var.dtype), const(0, var.dtype)
            kind = s.ForKind.THREAD_BINDING
            body = s.For(var, zero, extent, kind, body, binding, notes)
        return body

    def _check_grid(self) -> None:
        inside = {n.loop_var for n in statements(self._node) if isinstance(n, s.For)}
        for tag, loop in self._loops.items():
            used = [var for var in collect_vars(loop.extent) if var in inside]
            if used:
                raise LoweringError(
                    f"the extent of loop {loop.loop_var.name} of {self._function}, bound to {tag}, "
                    f"depends on {used[0].name}, which is known inside of the kernel only"
                )

    # ------------------------------------------------------------------------------- its statements

    def __call__(self, node: Any) -> Any:
        """Return a node for the lifted axes; a statement runs in those threads that it is for."""
        if not isinstance(node, s.Stmt) or isinstance(node, (s.Block, s.AttrStmt)):
            return super().__call__(node)
        if s.is_no_op(node):
            return node
        inside = self._axes_in(node)
        due = {tag: limit for tag, limit in self._limits.items() if tag not in inside}
        if due:
            outer = self._limits
            self._limits = {tag: limit for tag, limit in outer.items() if tag in inside}
            new = self._for_its_axes(node, inside)
            self._limits = outer
            return s.IfThenElse(all_of(due.values()), new)
        return self._for_its_axes(node, inside)

    def _for_its_axes(self, node: s.Stmt, inside: frozenset[str]) -> s.Stmt:
        """Return a statement, once for the axes of which it is outside of all loops."""
        missing = self._axes.keys() - self._bound.keys() - inside
        once = _axes_to_run_once(node, missing) if missing else None
        if once is None:
            return super().__call__(node)
        blocks = [tag for tag in once if tag.startswith(BLOCK) and not self._is_one(tag)]
        self._of_one_block += [(node, tag) for tag in blocks[:1]]
        outer, self._bound = self._bound, self._bound | dict.fromkeys(missing)
        new = super().__call__(node)
        self._bound = outer
        return self._once(once, new)

    @contextmanager
    def within(self, node: Node, field: str) -> Iterator[None]:
        parts = controls(node) if isinstance(node, s.Stmt) else []
        if isinstance(node, s.Block):  # where views begin is where statements inside access memory
            views = (match.source.region for match in node.match_buffers)
            parts += [dim.min for region in views for dim in region]
        self._around += parts
        yield
        del self._around[len(self._around) - len(parts) :]

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        """Return a store; of threads that would store the same, the first one does."""
        new: s.BufferStore = self.generic(node)
        if memory_of(node.buffer.data) == "local":
            return new
        self._check_one_value(node)
        return self._once(self._same_for([*node.indices, node.value]), new)

    def _check_one_value(self, node: s.BufferStore) -> None:
        """Raise LoweringError if iterations store different values to one element."""
        place = [*node.indices, *self._around]
        if any(isinstance(part, BufferLoad) for index in place for part in walk(index)):
            return
        for tag, var in self._bound.items():
            if var is None or not is_shared_by(self._loops[tag], memory_of(node.buffer.data)):
                continue
            is_same = not uses_var(node.value, var) or any(uses_var(part, var) for part in place)
            if not is_same and _is_wide(self._loops[tag].extent):
                raise LoweringError(
                    f"loop {var.name} of {self._function} is bound to {tag}, and each of its "
                    f"iterations stores another value to the same element of {node.buffer.name}: "
                    f"`{str(node).strip().splitlines()[-1]}`; nothing decides which one stays, so "
                    f"use {var.name} in the index, or leave the loop serial"
                )

    def _check_blocks_meet_nowhere(self) -> None:
        """Raise LoweringError if blocks load what one of them stores at an unknown time."""
        if not self._of_one_block:
            return
        own = dict(self._of_one_block)
        for node in statements(self._node):
            parts = node.seq if isinstance(node, s.SeqStmt) else ()
            for part, other in itertools.permutations(parts, 2):
                for writer in (x for x in statements(part) if x in own):
                    self._check_not_loaded(writer, other, own)

    def _check_not_loaded(self, writer: s.Stmt, other: s.Stmt, own: Mapping[s.Stmt, str]) -> None:
        loads = _loads_of(other)
        for node in statements(other):
            if own.get(node) == own[writer]:
                loads -= _loads_of(node)
        stores = (node for node in statements(writer) if isinstance(node, s.BufferStore))
        for buffer in (store.buffer for store in stores):
            if memory_of(buffer.data) == "global" and loads[buffer.data]:
                tag = own[writer]
                raise LoweringError(
                    f"{_first_name(writer)} of {self._function} stores to {buffer.name} outside of "
                    f"the loop bound to {tag}, and all blocks of the same kernel load that; blocks "
                    f"do not wait for one another, so make it a kernel of its own, or put it "
                    f"inside of loop {self._loops[tag].loop_var.name} (sch.compute_at)"
                )

    def rewrite_AttrStmt(self, node: s.AttrStmt) -> s.Stmt:  # noqa: N802
        """Return an attribute; all threads of a warp run an instruction of tensor cores."""
        if tensor_core_of(node) is None:
            return self.generic(node)
        stores = [n for n in statements(node) if isinstance(n, s.BufferStore)]
        is_common = any(memory_of(store.buffer.data) != "local" for store in stores)
        same = self._same_for([node]) if is_common else []
        outer, self._bound = self._bound, dict.fromkeys(self._axes)
        new = self.generic(node)
        self._bound = outer
        return self._once([tag for tag in same if tag != LANES], new)

    def _same_for(self, parts: Sequence[Node]) -> list[str]:
        """Return the axes whose threads run the same."""
        return [
            tag
            for tag, var in self._bound.items()
            if var is not None
            and kind_of(self._loops[tag]) == THREAD
            and not any(uses_var(part, var) for part in (*parts, *self._around))
        ]

    def _once(self, tags: Iterable[str], node: s.Stmt) -> s.Stmt:
        """Return a statement that the first block or thread of some axes runs."""
        conditions = [
            compare(EQ, self._axes[tag], const(0, self._axes[tag].dtype))
            for tag in sorted(tags)
            if not self._is_one(tag)
        ]
        return s.IfThenElse(all_of(conditions), node) if conditions else node

    def _is_one(self, tag: str) -> bool:
        extent = self._loops[tag].extent
        return isinstance(extent, IntImm) and extent.value == 1

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        tag = axis_of(node)
        if tag not in self._axes:
            return self.generic(node)
        outer, outer_limit = self._bound.get(tag), self._limits.pop(tag, None)
        if outer is not None:
            self._check_nested(outer, node)
        var, low = self._axes[tag], self(node.min)
        self._values[node.loop_var] = add(low, var.astype(node.loop_var.dtype))
        self._bound[tag] = node.loop_var
        if not expr_deep_equal(node.extent, self._loops[tag].extent):
            self._limits[tag] = compare(LT, var, node.extent.astype(var.dtype))
        body: s.Stmt = self(node.body)
        _restore(self._bound, tag, outer)
        _restore(self._limits, tag, outer_limit)
        return body

    def _check_nested(self, outer: Var, node: s.For) -> None:
        """Raise LoweringError if what an inner loop runs differs between iterations of an outer."""
        if any(uses_var(part, outer) for part in (node, *self._around)):
            tag = axis_of(node)
            raise LoweringError(
                f"loops {outer.name} and {node.loop_var.name} of {self._function} are nested and "
                f"both bound to {tag}, and the inner one depends on {outer.name}: one thread "
                f"cannot be both; bind them to different axes"
            )

    def _axes_in(self, node: s.Stmt) -> frozenset[str]:
        known = self._inside.get(node)
        if known is None:
            known = self._inside[node] = frozenset(map(axis_of, thread_loops(node)))
        return known


def _restore(table: dict[str, Any], key: str, value: object) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _is_wide(extent: PrimExpr) -> bool:
    return isinstance(extent, IntImm) and extent.value > 1


def _loads_of(node: s.Stmt) -> Counter[Var]:
    """Return the number of loads in a statement through each pointer."""
    return Counter(part.buffer.data for part in walk(node) if isinstance(part, BufferLoad))


def _axes_to_run_once(node: s.Stmt, axes: Collection[str]) -> list[str] | None:
    """Return the axes along which one block or thread is to run a statement outside their loops.

    None if it writes memory of different kinds, or has statements for a warp among others: then its
    parts are to be looked at.
    """
    instructions = [part for part in statements(node) if tensor_core_of(part) is not None]
    if instructions and node not in instructions:
        return None
    own: set[Var] = set()
    written: set[Var] = set()
    for part in walk(node):
        if isinstance(part, s.Block):
            own.update(b.data for b in part.alloc_buffers if memory_of(b.data) == "local")
        elif isinstance(part, s.BufferStore):
            written.add(part.buffer.data)
        elif isinstance(part, s.Evaluate) and has_effects(part.value) and not is_barrier(part):
            return list(axes)
    if tensor_core_of(node) is not None:
        axes = [tag for tag in axes if tag != LANES]
    scopes = {memory_of(pointer) for pointer in written - own}
    if len(scopes) > 1 and "local" in scopes:
        return None
    if "global" in scopes:
        return list(axes)
    return [tag for tag in axes if tag.startswith(THREAD)] if "shared" in scopes else []
