"""Precomputing index expressions into tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schedule.analysis.bindings import axis_domain
from schedule.analysis.block_kind import check_fixed_domains
from schedule.analysis.buffer_definition import check_storage_scope
from schedule.analysis.rebuild import RedirectBuffers
from schedule.errors import Problem, check
from schedule.instruction import BlockArg, NewBlocks, primitive
from schedule.staging.nests import Staged, Sweep
from schedule.staging.plan import add_stages
from schedule.state import ScheduleState
from schedule.stmt_cursor import StmtCursor
from tensorir.arith import Analyzer
from tensorir.comparison.equal import expr_deep_equal
from tensorir.nodes.buffer import decl_buffer
from tensorir.nodes.expr import (
    BufferLoad,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    PrimExpr,
    Select,
    Var,
)
from tensorir.nodes.intrin import Effect, Op
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import Block, BufferStore, Stmt
from tensorir.rewriting.visit import children, collect_vars, defined, substitute, walk

NEGATIVE = Problem(
    "NegativeThresholdError",
    "cse_thresh is {threshold}, but it is a number of occurrences",
    "pass 0 to select every expression",
)


@primitive("CacheIndex")
def cache_index(
    state: ScheduleState, block: BlockArg, storage_scope: str, cse_thresh: int = 0
) -> NewBlocks:
    """Precompute expressions of a block's axes into tables that the block reads.

    Before: for i, k: C[i] = A[i * 2 + k]
    After:  for i, k: index_var_0[i, k] = i * 2 + k;  for i, k: C[i] = A[index_var_0[i, k]]

    The tables hold the largest expressions in the block's stores that occur at least `cse_thresh`
    times (0: all) and depend only on the axes: indices, conditions, and weights of an
    interpolation. Integer expressions are compared after simplification. The results are the blocks
    that fill the tables, the largest expression first; they are inserted before the block's loops.

    As in TVM, the block does not declare that it reads the tables. Other primitives still see that
    it depends on the blocks that fill them.

    Raises ScheduleError: RootBlockError, InvalidStorageScopeError, NegativeThresholdError,
    OutOfScopeError, DependentLoopError.
    """
    # Preconditions.
    check_storage_scope(block, storage_scope)
    check(cse_thresh >= 0, NEGATIVE, block, threshold=cse_thresh)
    scope = state.scope_root(block)
    node = block.block
    expressions = _Expressions(node)
    found = expressions.chosen(cse_thresh)
    if not found:
        return []
    check_fixed_domains(block, {var for expr in found for var in collect_vars(expr)})

    # Rewrite.
    nests: list[Staged] = []
    tables: list[tuple[PrimExpr, BufferLoad]] = []
    domains = axis_domain(node.iter_vars)
    for k, expr in enumerate(found):
        axes = [axis for axis in collect_vars(expr) if axis in domains]
        shape = [domains[axis].min + domains[axis].extent for axis in axes]
        # TVM declares one stride for any rank; here that marks the buffer as a table.
        name = f"index_var_{k}"
        table = decl_buffer(shape, expr.dtype, name, strides=[1], scope=storage_scope)
        sweep = Sweep.over([domains[axis] for axis in axes])
        value = substitute(expr, dict(zip(axes, sweep.places, strict=True)))
        nests.append(sweep.storing_nest(table, sweep.places, value, f"index_{k}"))
        tables.append((expr, BufferLoad(table, axes)))
    cursor = StmtCursor.below(scope).around(block)
    buffers = [load.buffer for _, load in tables]
    add_stages(state, scope, cursor, nests, [], buffers, _LookUp(node, tables, expressions.equal))

    # Result.
    return [state.get_sref(nest.block) for nest in nests]


class _Expressions:
    """The expressions in the stores of a block that can be precomputed."""

    def __init__(self, block: Block) -> None:
        self._analyzer = Analyzer()
        self._axes = {axis.var for axis in block.iter_vars}
        self._stores = [
            node
            for part in (block.init, block.body)
            if part is not None
            for node in walk(part)
            if isinstance(node, BufferStore)
        ]
        # Variables that the body defines are undefined before the body.
        self._local = {var for node in walk(block) for var in defined(node)} - self._axes

    def equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Return True if two expressions have the same type and are equal for all axis values."""
        if a.dtype is not b.dtype:
            return False
        return expr_deep_equal(a, b) or (
            not a.dtype.is_floating and self._analyzer.can_prove_equal(a, b)
        )

    def chosen(self, threshold: int) -> list[PrimExpr]:
        """Return the expressions that occur often enough, store by store, the largest first."""
        result: list[PrimExpr] = []
        for store in self._stores:
            found: list[list[PrimExpr]] = []
            for part in (store.value, *store.indices):
                self._collect(part, found)
            for same in sorted(self._frequent(found, threshold), key=lambda e: -_symbols(e)):
                if not any(self.equal(same, known) for known in result):
                    result.append(same)
        return result

    def _frequent(self, found: list[list[PrimExpr]], threshold: int) -> list[PrimExpr]:
        """Return the expressions with enough occurrences; each other one is replaced by its parts.

        The largest are visited first, so that all occurrences of an expression are counted before
        its visit.
        """
        frequent: list[PrimExpr] = []
        while found:
            same = max(found, key=lambda same: len([*walk(same[0])]))
            found.remove(same)
            if len(same) >= threshold:
                frequent.append(same[0])
                continue
            for occurrence in same:
                for part in children(occurrence):
                    self._collect(part, found)
        return frequent

    def _collect(self, node: Node, found: list[list[PrimExpr]]) -> None:
        """Add the largest expressions in `node`, equal ones in one list."""
        if isinstance(node, PrimExpr) and self._is_eligible(node):
            for same in found:
                if self.equal(same[0], node):
                    same.append(node)
                    return
            found.append([node])
            return
        for child in children(node):
            self._collect(child, found)

    def _is_eligible(self, expr: PrimExpr) -> bool:
        """Return True if an expression is worth a table and has the same value before the block."""
        dtype = expr.dtype
        number = dtype.is_integral or dtype.is_bool or dtype.is_floating
        if not number or dtype.lanes != 1 or _symbols(expr) <= 1:
            return False
        uses_axis = False
        for node in walk(expr):
            if isinstance(node, Var):
                if node in self._local:
                    return False
                uses_axis = uses_axis or node in self._axes
            elif not _is_harmless(node):
                return False
        return uses_axis


def _symbols(expr: PrimExpr) -> int:
    """Return the size of an expression as TVM counts it: a conversion or call adds nothing."""
    return sum(not isinstance(node, (Cast, Call, Select)) for node in walk(expr))


def _is_harmless(node: Node) -> bool:
    """Return True if a node may be evaluated before the block without changing its value."""
    if isinstance(node, (BufferLoad, Let)):
        return False
    if isinstance(node, (Div, Mod, FloorDiv, FloorMod)):
        divisor = node.b
        return divisor.dtype.is_floating or (isinstance(divisor, IntImm) and divisor.value != 0)
    if isinstance(node, Call):
        return isinstance(node.op, Op) and node.op.effect is Effect.PURE
    return True


class _LookUp(RedirectBuffers):
    """Replaces expressions in the stores of a block by loads from tables."""

    def __init__(
        self,
        block: Block,
        tables: Sequence[tuple[PrimExpr, BufferLoad]],
        equal: Callable[[PrimExpr, PrimExpr], bool],
    ) -> None:
        super().__init__({}, {block})
        self._tables = tables
        self._equal = equal
        self._in_store = False

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:  # noqa: N802
        self._in_store = self._inside
        new = self.generic(node)
        self._in_store = False
        return new

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        if self._in_store and not isinstance(node, Var):
            for expr, load in self._tables:
                if self._equal(node, expr):
                    return load
        return self.generic(node)
