"""Reductions whose steps are divided among the threads of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from codegen.errors import LoweringError
from codegen.lower.gpu.combination import Combination, DividedReduction
from codegen.lower.gpu.launch_place import LaunchPlace
from codegen.lower.gpu.shared_tree import SharedTree
from codegen.lower.gpu.warp_tree import WarpTree
from codegen.lower.rewriters import StatementRewriter
from codegen.lower.thread_axes import BLOCK, THREAD, axis_of, kind_of
from codegen.target import Target, as_target
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import IterVar, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.rewriting.visit import walk


def cross_thread_reductions(func: PrimFunc, target: str | Target | None = None) -> PrimFunc:
    """Have each thread reduce its own steps, then combine the results of the threads as a tree.

    Before: for k0 in 8: for k1 (threadIdx.x, 32): B[i] += A[i, k0 * 32 + k1]
    After:  for t: own[t] = 0
            for k0: for k1: own[k1] += A[i, k0 * 32 + k1]
            for t: x = warp_shuffle_down(own[t], 16); own[t] += x       (8, 4, 2, 1: the lane above)
            for t: if t == 0: B[i] = own[t]

    Every loop over `t` is bound to the same threads, and `own` is local memory. Where the threads
    of a result are in several warps, a lane of each stores its sum to shared memory, and each warp
    combines those (`WarpTree`). Without shuffles, for lanes of a warp that do not all come here,
    and for threads of a result that are not consecutive lanes, shared memory replaces them
    (`SharedTree`):

            for t: all[t] = own[t]
            for t: if t < 16: all[t] += all[t + 16]          (8, 4, 2, 1: a thread for two values)
            for t: if t == 0: B[i] = all[0]

    Any extent does, and any registered reducer, of tuples as well. Threads without a step
    contribute the identity. Local results are stored by every thread of the block, others by the
    first one.
    Raises LoweringError for a reduction over blocks, one without an init, an unknown reducer, and
    for a loop over threads with other results outside of a block around.
    """
    finder = _Finder()
    finder(func.body)
    if not finder.found:
        return func
    gpu = as_target(target).gpu
    warp = 1 if gpu is None else gpu.shuffled_lanes
    return func.with_body(_Replace(finder.found, warp, func.body)(func.body))


class _Finder(StatementRewriter):
    """Finds the reductions over threads, by the outermost loop over their steps."""

    def __init__(self) -> None:
        self.found: dict[Node, DividedReduction] = {}
        self._loops: list[s.For] = []
        """The loops around, from the block with axes around on."""
        self._threads: list[s.For] = []
        """All loops over threads around."""
        self._sources: dict[Var, set[Var]] = {}
        """The variables on which the value of a variable depends."""

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        self._define(node.loop_var, node.min, node.extent)
        threads = [node] if kind_of(node) == THREAD else []
        self._loops.append(node)
        self._threads += threads
        self(node.body)
        del self._threads[len(self._threads) - len(threads) :]
        self._loops.pop()
        return node

    def rewrite_LetStmt(self, node: s.LetStmt) -> s.Stmt:  # noqa: N802
        self._define(node.var, node.value)
        return self.generic(node)

    def _define(self, var: Var, *parts: PrimExpr) -> None:
        self._sources[var] = set[Var]().union(*map(self._variables, parts))

    def _variables(self, node: Node) -> set[Var]:
        """Return the variables on which a node depends."""
        used = {part for part in walk(node) if isinstance(part, Var)}
        return used.union(*(self._sources.get(var, set()) for var in used))

    def rewrite_BlockRealize(self, node: s.BlockRealize) -> s.Stmt:  # noqa: N802
        block = node.block
        for axis, value in zip(block.iter_vars, node.iter_values, strict=True):
            self._define(axis.var, value)
        steps = {
            part
            for axis, value in zip(block.iter_vars, node.iter_values, strict=True)
            if axis.iter_type == IterVar.COMM_REDUCE
            for part in walk(value)
            if isinstance(part, Var)
        }
        over = [loop for loop in self._loops if loop.loop_var in steps]
        for loop in over:
            if kind_of(loop) == BLOCK:
                raise LoweringError(
                    f"loop {loop.loop_var.name} is a reduction loop of block {block.name_hint!r} "
                    f"and bound to {axis_of(loop)}, but blocks cannot combine results; bind it to "
                    f"threadIdx.x, or factor the reduction (sch.rfactor)"
                )
        if any(kind_of(loop) == THREAD for loop in over):
            loops, used = self._loops[self._loops.index(over[0]) :], self._variables(node)
            rows = [x for x in self._threads if x not in loops and x.loop_var in used]
            self._check_visible(rows, block)
            divided = DividedReduction(node, rows, loops, steps)
            if over[0] in self.found:
                raise LoweringError(
                    f"the loop {over[0].loop_var.name} is around the reductions of blocks "
                    f"{self.found[over[0]].name!r} and {block.name_hint!r} over threads; give "
                    f"each loops of its own"
                )
            self.found[over[0]] = divided
        outer, self._loops = self._loops, [] if block.iter_vars else self._loops
        self(block)
        self._loops = outer
        return node

    def _check_visible(self, rows: list[s.For], block: s.Block) -> None:
        """Raise LoweringError for a loop that a block around hides by its axes."""
        for loop in rows:
            if loop not in self._loops:
                raise LoweringError(
                    f"the reduction of block {block.name_hint!r} is divided among threads, and "
                    f"loop {loop.loop_var.name}, bound to {axis_of(loop)}, has other results in "
                    f"other threads, but is outside of a block around {block.name_hint!r}; bind a "
                    f"loop inside of that block, or leave the reduction loops serial"
                )


class _Replace(StatementRewriter):
    """Replaces the nests of reductions."""

    def __init__(self, found: dict[Node, DividedReduction], warp: int, body: s.Stmt) -> None:
        self._found = found
        self._warp = warp
        self._place = LaunchPlace(body)

    @contextmanager
    def within(self, node: Node, field: str) -> Iterator[None]:
        if not isinstance(node, s.Stmt):
            yield
            return
        with self._place.inside(node):
            yield

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        divided = self._found.get(node)
        return self.generic(node) if divided is None else self._combination(divided).stmt(node)

    def _combination(self, divided: DividedReduction) -> Combination:
        if self._warp > 1:
            tree = WarpTree(divided, self._warp)
            if tree.is_possible(self._place):
                return tree
        return SharedTree(divided)
