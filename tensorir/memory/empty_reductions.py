"""Explicit inits for reductions that may be empty.

The init of a reduction runs in the step in which every reduction axis has the first value of its
domain. If no step runs, because a loop has no iterations or conditions exclude each step, the init
still runs once for every spatial instance, so that an empty sum is 0. The pass here writes these
inits as statements; the other inits of the resulting program are part of a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tensorir.arith import Analyzer
from tensorir.arith.logic import negation
from tensorir.arith.terms import has_loads
from tensorir.function import PrimFunc
from tensorir.memory.value_variables import value_variables
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import BufferRegion, decl_buffer
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import FALSE, TRUE, all_of, compare, conjuncts, const
from tensorir.rewriting.fresh_copy import FreshCopy
from tensorir.rewriting.visit import Rewriter, collect_vars, substitute, uses_var, walk

Step: TypeAlias = s.Stmt | PrimExpr
"""A level between a loop and a block in it: a statement, or the condition of a branch."""

_NOTHING: Final = s.Evaluate(const(0))


def around_init(
    analyzer: Analyzer, var: Var, low: PrimExpr, extent: PrimExpr
) -> AbstractContextManager[object]:
    """Assume, in a `with` statement, the facts on a loop variable or an axis that hold for an init.

    The init also runs without a step, so for a range that may be empty only its start is a fact.
    """
    if analyzer.can_prove(extent >= 1):
        return analyzer.loop_scope(var, low, extent)
    return analyzer.constraint_scope(var >= low)


def initialise_empty_reductions(func: PrimFunc) -> PrimFunc:
    """Return `func` with the inits of empty reductions written before their loops.

    Before: for i, k in T.grid(4, n): with block: vi, vk = S(i), R(k); init: C[vi] = 0; ...
    After:  for i in range(4):
                with block: where(n <= 0); vi = S(i); C[vi] = 0
                for k in range(n): with block: vi, vk = S(i), R(k); init: C[vi] = 0; ...

    The loops of a reduction are those that bind its reduction axes and no other axis of the block.
    Before the outermost of these loops, the pass inserts a copy of the block whose body is the
    init, under copies of the other loops. Its condition is that no step runs: some loop of the
    reduction has no iterations, or a condition over their variables (the predicate of a block, or a
    branch) excludes each iteration. Conditions without these variables decide if the instance

    exists. Conditions and extents are evaluated before the outermost of the loops. Nothing is
    inserted if some step provably runs. The pass cannot determine the instances if the extent of
    another loop depends on a loop of the reduction, or if a `while` is between the loops.
    """
    body = _InitialiseEmpty(func)(func.body)
    return func if body is func.body else func.with_body(body)


class _InitialiseEmpty(Rewriter):
    def __init__(self, func: PrimFunc) -> None:
        self._func = func
        self._around: list[Step] = []
        self._before: dict[s.For, list[s.Stmt]] = {}
        """The statements to insert before each loop."""

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        return node

    @contextmanager
    def within(self, node: Node, part: str) -> Iterator[None]:
        step: Any = node
        if isinstance(node, s.IfThenElse):
            step = node.condition if part == "then_case" else negation(node.condition)
        self._around.append(step)
        yield
        self._around.pop()

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        return node

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        new: s.Stmt = self.generic(node)
        before = self._before.pop(node, None)
        return new if before is None else s.sequence([*before, new])

    def rewrite_BlockRealize(self, node: s.BlockRealize) -> s.Stmt:  # noqa: N802
        new: s.BlockRealize = self.generic(node)
        if new.block.init is not None:
            loops = _reduction_loops(self._around, new)
            if loops:
                first = next(k for k, step in enumerate(self._around) if step is loops[0])
                outside, way = self._around[:first], self._around[first:]
                nest = _initialisation(self._func, outside, way, loops, new)
                if nest is not None:
                    self._before.setdefault(loops[0], []).append(nest)
        return new


def _reduction_loops(around: Sequence[Step], realize: s.BlockRealize) -> list[s.For]:
    """Return the loops that bind reduction axes of a block and no other axis, outermost first."""
    if all(axis.iter_type != IterVar.COMM_REDUCE for axis in realize.block.iter_vars):
        return []
    behind: dict[Var, set[s.For]] = {}

    def loops_behind(value: PrimExpr) -> set[s.For]:
        return {loop for var in collect_vars(value) for loop in behind.get(var, ())}

    for step in around:
        if isinstance(step, s.For):
            behind[step.loop_var] = {step}
        elif isinstance(step, s.LetStmt):
            behind[step.var] = loops_behind(step.value)
        elif isinstance(step, s.BlockRealize):
            for axis, value in zip(step.block.iter_vars, step.iter_values, strict=True):
                behind[axis.var] = loops_behind(value)
    reducing: set[s.For] = set()
    other: set[s.For] = set()
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        found = reducing if axis.iter_type == IterVar.COMM_REDUCE else other
        found |= loops_behind(value)
    return [step for step in around if isinstance(step, s.For) and step in reducing - other]


def _initialisation(
    func: PrimFunc,
    outside: Sequence[Step],
    way: Sequence[Step],
    loops: Sequence[s.For],
    realize: s.BlockRealize,
) -> s.Stmt | None:
    """Return the statement that initialises instances without a step; None if all have steps.

    `way` is the path from the outermost loop of the reduction to the block.
    """
    if _is_unconditional([*way, realize], loops):
        return None
    domain = _Domain(loops)
    if not domain.divide(way):
        return None
    domain.condition(realize.predicate)
    known = Analyzer(values=value_variables(func))
    with ExitStack() as scopes:
        for step in (*outside, *domain.kept):
            _assume_level(scopes, known, step)
        first, conditions = _first_values(domain.steps)
        unsure = [pair for pair in conditions if not known.can_prove(pair[1])]
        if not unsure:
            return None
        for step in domain.steps:
            _assume_level(scopes, known, step)
        # If the first step runs whenever any step runs, the condition of the first step suffices.
        first_decides = all(now is then or known.can_prove(then) for now, then in unsure)
    first |= {var: substitute(value, first) for var, value in domain.values.items()}
    if first_decides:
        empty = negation(all_of(then for _, then in unsure))
        nest: s.Stmt = substitute(_init_instance(realize, empty), first)
    else:
        nest = _init_after_search(domain.steps, substitute(_init_instance(realize, TRUE), first))
    for kept in reversed(domain.kept):
        nest = _insert_body(substitute(kept, first), nest)
    return FreshCopy()(nest)


def _is_unconditional(way: Sequence[Step], loops: Sequence[s.For]) -> bool:
    """Return True if all steps run: the loops have constant positive extents, and there are no
    conditions.
    """
    return all(type(loop.extent) is IntImm and loop.extent.value > 0 for loop in loops) and all(
        step.predicate is TRUE if isinstance(step, s.BlockRealize) else isinstance(step, s.Stmt)
        for step in way
    )


@dataclass(slots=True)
class _Domain:
    """The path from the outermost loop of a reduction to its block, split into two parts."""

    loops: Sequence[s.For]
    kept: list[s.Stmt] = field(default_factory=list)
    """The statements that use no loop of the reduction, outermost first, with empty bodies."""
    steps: list[s.For | PrimExpr] = field(default_factory=list)
    """The loops of the reduction, and the conditions in which their variables occur."""
    values: dict[Var, PrimExpr] = field(default_factory=dict)
    """The bound variables that depend on the loops, as expressions of the loop variables."""

    def divide(self, way: Iterable[Step]) -> bool:
        """Split statements and conditions; return True if the instances are known."""
        for step in way:
            if isinstance(step, PrimExpr):
                self.condition(step)
            elif isinstance(step, s.For):
                if step in self.loops:
                    low, extent = (substitute(x, self.values) for x in (step.min, step.extent))
                    self.steps.append(step.with_(min=low, extent=extent))
                elif self._uses(step.min) or self._uses(step.extent):
                    return False
                else:
                    kind = s.ForKind.SERIAL
                    self.kept.append(s.For(step.loop_var, step.min, step.extent, kind, _NOTHING))
            elif isinstance(step, s.LetStmt):
                if not self._binds(step.var, step.value):
                    self.kept.append(s.LetStmt(step.var, step.value, _NOTHING))
            elif isinstance(step, s.BlockRealize):
                self.condition(step.predicate)
                bound = zip(step.block.iter_vars, step.iter_values, strict=True)
                kept = [(axis, value) for axis, value in bound if not self._binds(axis.var, value)]
                self.kept.append(_realize(step.block, kept, TRUE))
            elif isinstance(step, s.While):
                return False
            elif not isinstance(step, (s.Block, s.AssertStmt)):
                self.kept.append(step)
        return True

    def _uses(self, expr: PrimExpr) -> bool:
        loops = {loop.loop_var for loop in self.loops}
        return uses_var(expr, lambda var: var in loops or var in self.values)

    def _binds(self, var: Var, value: PrimExpr) -> bool:
        depends = self._uses(value)
        if depends:
            self.values[var] = substitute(value, self.values)
        return depends

    def condition(self, condition: PrimExpr) -> None:
        """Split a condition into its conjuncts."""
        for part in conjuncts(condition):
            if self._uses(part):
                self.steps.append(substitute(part, self.values))
            elif part is not TRUE:
                self.kept.append(s.IfThenElse(part, _NOTHING))


def _first_values(
    steps: Sequence[s.For | PrimExpr],
) -> tuple[dict[Var, PrimExpr], list[tuple[PrimExpr, PrimExpr]]]:
    """Return the first values of the loops, and the condition of their first step.

    `steps` has each condition twice, for any step and for the first step. If both are the same
    object, the condition does not depend on the step.
    """
    first: dict[Var, PrimExpr] = {}
    conditions = []
    for step in steps:
        if isinstance(step, s.For):
            now = compare(e.GT, step.extent, const(0, step.extent.dtype))
            conditions.append((now, substitute(now, first)))
            first[step.loop_var] = substitute(step.min, first)
        else:
            conditions.append((step, substitute(step, first)))
    return first, conditions


def _assume_level(scopes: ExitStack, known: Analyzer, step: Step) -> None:
    """Assume the facts that hold below a statement or under a condition."""
    if isinstance(step, s.For):
        if not (has_loads(step.min) or has_loads(step.extent)):
            scopes.enter_context(known.loop_scope(step.loop_var, step.min, step.extent))
    elif isinstance(step, s.LetStmt):
        _bind(scopes, known, step.var, step.value)
    elif isinstance(step, s.BlockRealize):
        for axis, value in zip(step.block.iter_vars, step.iter_values, strict=True):
            _bind(scopes, known, axis.var, value)
        _assume_level(scopes, known, step.predicate)
    elif isinstance(step, s.IfThenElse):
        _assume_level(scopes, known, step.condition)
    elif isinstance(step, PrimExpr) and type(step) is not IntImm:
        scopes.enter_context(known.constraint_scope(step))


def _bind(scopes: ExitStack, known: Analyzer, var: Var, value: PrimExpr) -> None:
    if value.dtype.is_int and value.dtype.lanes == 1 and not has_loads(value):
        scopes.enter_context(known.loop_scope(var, value, const(1, value.dtype)))


# ---------------------------------------------------------------------------------- new statements


def _init_instance(realize: s.BlockRealize, predicate: PrimExpr) -> s.BlockRealize:
    """Return the block that runs the init of a reduction, with the axes of an instance."""
    block = realize.block
    assert block.init is not None
    at_first = {
        axis.var: axis.dom.min
        for axis in block.iter_vars
        if axis.iter_type == IterVar.COMM_REDUCE and axis.dom is not None
    }
    bound = zip(block.iter_vars, realize.iter_values, strict=True)
    kept = [(axis, value) for axis, value in bound if axis.iter_type != IterVar.COMM_REDUCE]
    name = f"{block.name_hint}_init"
    starting = _with_body(block, block.init).with_(name_hint=name, reads=(), annotations=None)
    return substitute(_realize(starting, kept, predicate), at_first)


def _realize(
    block: s.Block, bound: Sequence[tuple[IterVar, PrimExpr]], predicate: PrimExpr
) -> s.BlockRealize:
    """Return an instance of a block with only these axes."""
    axes, values = [axis for axis, _ in bound], [value for _, value in bound]
    return s.BlockRealize(values, predicate, block.with_(iter_vars=axes))


def _with_body(block: s.Block, body: s.Stmt) -> s.Block:
    """Return a block that runs only `body`, without unused views."""
    used = {n.buffer for n in walk(body) if isinstance(n, (BufferLoad, s.BufferStore))}
    pointers = {n for n in walk(body) if isinstance(n, Var)}
    views = [
        view for view in block.match_buffers if view.buffer in used or view.buffer.data in pointers
    ]
    return block.with_(body=body, init=None, match_buffers=views)


def _insert_body(outer: s.Stmt, body: s.Stmt) -> s.Stmt:
    """Return a statement with the body inserted."""
    if isinstance(outer, s.BlockRealize):
        return s.BlockRealize(outer.iter_values, outer.predicate, _with_body(outer.block, body))
    return outer.with_(**{"then_case" if isinstance(outer, s.IfThenElse) else "body": body})


def _init_after_search(steps: Sequence[s.For | PrimExpr], init: s.BlockRealize) -> s.Stmt:
    """Return an init that runs if a search of the whole reduction finds no step."""
    found = decl_buffer((1,), "bool", "found")
    at = (const(0),)
    search: s.Stmt = s.BufferStore(found, TRUE, at)
    for step in reversed(steps):
        if isinstance(step, s.For):
            search = s.For(step.loop_var, step.min, step.extent, s.ForKind.SERIAL, search)
        else:
            search = s.IfThenElse(step, search)
    unfound = s.BlockRealize(init.iter_values, e.Not(BufferLoad(found, at)), init.block)
    body = s.sequence([s.BufferStore(found, FALSE, at), search, unfound])
    writes = [BufferRegion.full_region(region.buffer) for region in init.block.writes]
    block = s.Block((), (), writes, f"{init.block.name_hint}_search", body, alloc_buffers=(found,))
    return s.BlockRealize((), TRUE, block)
