"""Bindings: the axes of a block in terms of the loops around it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from tensorir.arith import (
    Analyzer,
    IterMapLevel,
    IterSumExpr,
    detect_iter_map,
    iter_map_simplify,
)
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import BufferLoad, Call, Cast, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.ops import TRUE, all_of, conjuncts, is_const_int, logical_and
from tensorir.nodes.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BlockRealize,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from tensorir.rewriting.visit import (
    Rewriter,
    Substitution,
    children,
    collect_vars,
    substitute,
    uses_var,
    walk,
)


def loop_range(loop: For) -> Range:
    """Return the values that a loop variable takes."""
    return Range.from_min_extent(loop.min, loop.extent)


def loop_domain(loops: Sequence[StmtSRef]) -> dict[Var, Range]:
    """Return the domain that loops span, outermost first."""
    return {sref.loop.loop_var: loop_range(sref.loop) for sref in loops}


def axis_domain(axes: Sequence[IterVar]) -> dict[Var, Range]:
    """Return the domain that axes of a block span."""
    return {axis.var: axis.dom for axis in axes if axis.dom is not None}


def analyzer_with_ranges(domain: Mapping[Var, Range]) -> Analyzer:
    """Return an analyzer with the ranges of loops or axes bound."""
    analyzer = Analyzer()
    for var, values in domain.items():
        analyzer.bind(var, values)
    return analyzer


def analyzer_keeping_units(axes: Sequence[IterVar]) -> Analyzer:
    """Return an analyzer with the ranges of axes bound, except axes of one value, which keep their
    names.
    """
    domain = axis_domain(axes).items()
    return analyzer_with_ranges({a: run for a, run in domain if not is_const_int(run.extent, 1)})


def axis_values(realize: BlockRealize) -> dict[Var, PrimExpr]:
    """Return the values that the axes of a block are bound to, each in the type of its axis."""
    bound = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return {axis.var: value.astype(axis.var.dtype) for axis, value in bound}


def affine_map(
    values: tuple[PrimExpr, ...], loops: Sequence[For], predicate: PrimExpr = TRUE
) -> tuple[IterSumExpr, ...]:
    """Return bindings as sums of independent loop pieces.

    An empty result if no such form is found.
    """
    domain = {lp.loop_var: lp for lp in loops}
    return detect_iter_map(values, domain, predicate, simplify_trivial_iterators=False).indices


def is_affine_binding(state: ScheduleState, block: StmtSRef) -> bool:
    """Return True if the axes of a block are an affine map of the loops around it in its scope.

    Affine means: independent sums of pieces of the loop variables, each starting with scale 1,
    found under the block's predicate. A predicate that relates loops of several axes only skips
    instances of a map that is affine without it.
    """
    realize = block.block_realize
    if block.parent is None:
        return not realize.iter_values
    loops = [sref.loop for sref in loops_above(block)]
    if not loops:
        return True
    found = affine_map(realize.iter_values, loops, realize.predicate)
    if not found:
        found = affine_map(realize.iter_values, loops)
    if len(found) != len(realize.iter_values):
        return False
    return all(not index.args or index.args[0].scale == 1 for index in found)


def is_one_to_one(value: PrimExpr, loops: Sequence[For]) -> bool:
    """Say whether a binding has another value for each iteration of the loops that it uses."""
    used = collect_vars(value)
    domain = {lp.loop_var: loop_range(lp) for lp in loops if lp.loop_var in used}
    return bool(detect_iter_map([value], domain, TRUE, IterMapLevel.BIJECTIVE).indices)


def is_trivial_binding(block: StmtSRef) -> bool:
    """Return True if the axes are bound one to one to the loops, in the same order."""
    loops = loops_above(block)
    values = block.block_realize.iter_values
    return len(loops) == len(values) and all(
        value is loop.loop.loop_var for loop, value in zip(loops, values, strict=True)
    )


def loop_iter_type(state: ScheduleState, loop: StmtSRef) -> int:
    """Return the kind of axis that a loop drives in the blocks below it.

    The result is data-parallel (also for an unused loop), reduce, or opaque for a mixture.
    """
    return loop_iter_types(state, [loop])[0]


def loop_iter_types(state: ScheduleState, loops: Sequence[StmtSRef]) -> list[int]:
    """Return the kind of axis that each of several loops drives; see `loop_iter_type`."""
    result = []
    children: list[StmtSRef] = []
    inner: For | None = None
    for loop in reversed(loops):
        if inner is None or loop.loop.body is not inner:
            children = state.child_blocks(loop)
        inner = loop.loop
        var = inner.loop_var
        kinds: set[int] = set()
        for child in children:
            kinds.update(_kinds_by_var(child.block_realize).get(var, ()))
        if kinds <= {IterVar.DATA_PAR}:
            result.append(IterVar.DATA_PAR)
        else:
            result.append(IterVar.COMM_REDUCE if kinds == {IterVar.COMM_REDUCE} else IterVar.OPAQUE)
    result.reverse()
    return result


@lru_cache(maxsize=512)
def _kinds_by_var(realize: BlockRealize) -> Mapping[Var, Collection[int]]:
    """Map each variable to the kinds of the axes whose bindings use it."""
    kinds: dict[Var, set[int]] = {}
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        for var in collect_vars(value):
            kinds.setdefault(var, set()).add(axis.iter_type)
    return kinds


class BindingSimplifier(Rewriter):
    """Brings the bindings of the blocks in a rebuilt loop nest to their simplest affine form.

    It enters blocks without axes only. A binding that is not affine stays.
    """

    def __init__(self, outer: Sequence[StmtSRef], preserve_unit_iters: bool) -> None:
        self._loops = {sref.loop.loop_var: sref.loop for sref in outer}
        self._preserve_unit_iters = preserve_unit_iters

    def rewrite_For(self, node: For) -> Stmt:  # noqa: N802
        """Rewrite the body with the loop in scope."""
        self._loops[node.loop_var] = node
        body = self(node.body)
        del self._loops[node.loop_var]
        if body is node.body:
            return node
        return node.with_body(body)

    def rewrite_BlockRealize(self, node: BlockRealize) -> Stmt:  # noqa: N802
        """Simplify the bindings of a block."""
        if not node.block.iter_vars:
            block = self(node.block)
            return node if block is node.block else BlockRealize((), node.predicate, block)
        given = _cast_to_axis_types(node)
        values = iter_map_simplify(
            given,
            self._loops,
            node.predicate,
            IterMapLevel.SURJECTIVE,
            simplify_trivial_iterators=not self._preserve_unit_iters,
        )
        if all(a is b for a, b in zip(values, given, strict=True)) or all(
            a is b for a, b in zip(values, node.iter_values, strict=True)
        ):
            return node
        return BlockRealize(values, node.predicate, node.block)

    def rewrite_Block(self, node: Block) -> Block:  # noqa: N802
        """Rewrite the body of a block without axes."""
        body = self(node.body)
        return node if body is node.body else node.with_body(body)

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        """Leave expressions alone."""
        return node


def _cast_to_axis_types(node: BlockRealize) -> tuple[PrimExpr, ...]:
    """Return the bindings of a block, each converted to the type of its axis.

    A value that is computed in a wider type and fits the narrow type then needs no cast.
    """
    values = node.iter_values
    if not any(type(value) is Cast for value in values):
        return values
    pairs = zip(values, node.block.iter_vars, strict=True)
    return tuple(v.astype(a.var.dtype) if type(v) is Cast else v for v, a in pairs)


class _NestSubstitute(Substitution):
    """Replaces loop variables in loops, bindings, predicates and the domains of axes.

    The body of a block with axes does not use the loops around it, so it is not entered.
    """

    def __init__(self, values: Mapping[Var, PrimExpr], extra_predicate: PrimExpr | None) -> None:
        super().__init__(values)
        self._extra = extra_predicate

    def rewrite_For(self, node: For) -> Stmt:  # noqa: N802
        if type(node.min) is not IntImm or type(node.extent) is not IntImm or node.annotations:
            return self.rewrite_Stmt(node)
        body = self(node.body)
        if body is node.body:
            return node
        return node.with_body(body)

    def rewrite_BlockRealize(self, node: BlockRealize) -> Stmt:  # noqa: N802
        values, predicate = self.each(node.iter_values), self(node.predicate)
        extra = self._extra
        if extra is not None:
            predicate = logical_and(predicate, extra)
        block = node.block
        if block.iter_vars:
            axes = self.each(block.iter_vars)
            block = block if axes is block.iter_vars else block.with_(iter_vars=axes)
        else:
            self._extra = None
            block = self.generic(block)
            self._extra = extra
        return BlockRealize(values, predicate, block)

    def rewrite_IterVar(self, node: IterVar) -> IterVar:  # noqa: N802
        dom = node.dom
        if dom is None or (type(dom.min) is IntImm and type(dom.extent) is IntImm):
            return node
        return self.generic(node)

    def rewrite_SeqStmt(self, node: SeqStmt) -> Stmt:  # noqa: N802
        return self.generic(node)

    def rewrite_Stmt(self, node: Stmt) -> Stmt:  # noqa: N802
        if self._extra is None or not self._needs_condition(node):
            return self.generic(node)
        inner = _NestSubstitute(self._values, None)
        return IfThenElse(self._extra, inner.generic(node))

    def _needs_condition(self, node: Stmt) -> bool:
        """Return True if a statement must not run where the predicate is false.

        Blocks get the predicate as their own, and arithmetic on loop variables is pure.
        """
        if isinstance(node, (For, IfThenElse, LetStmt, AttrStmt, Allocate, AllocateConst)):
            parts = [part for part in children(node) if not isinstance(part, Stmt)]
            return any(isinstance(inner, (BufferLoad, Call)) for p in parts for inner in walk(p))
        return not isinstance(node, DeclBuffer)


def substitute_loops(
    body: Stmt, values: Mapping[Var, PrimExpr], extra_predicate: PrimExpr | None = None
) -> Stmt:
    """Return a loop body with loop variables replaced.

    `extra_predicate` is added to the predicates of the blocks right below. Other statements that
    access memory or have a side effect get an if with this condition.
    """
    return _NestSubstitute(values, extra_predicate)(body)


# --------------------------------------------------------------------------------------- conditions


def without_known(predicate: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    """Return the conjuncts of a predicate that an analyzer does not prove."""
    return all_of([part for part in conjuncts(predicate) if not analyzer.can_prove(part)])


def without_variables(predicate: PrimExpr, variables: Collection[Var]) -> PrimExpr:
    """Return the conjuncts of a predicate that use none of the given variables."""
    return divided_by_use(predicate, variables)[0]


def divided_by_use(predicate: PrimExpr, variables: Collection[Var]) -> tuple[PrimExpr, PrimExpr]:
    """Split a predicate into the conjuncts that use none of the given variables, and the others."""
    if is_const_int(predicate, 1):
        return predicate, predicate
    without: PrimExpr = TRUE
    using: PrimExpr = TRUE
    for conjunct in conjuncts(predicate):
        if uses_var(conjunct, variables.__contains__):
            using = logical_and(using, conjunct)
        else:
            without = logical_and(without, conjunct)
    return without, using


def reduction_loops(block: StmtSRef) -> list[For]:
    """Return the loops around a block that only its reduction axes are bound to."""
    kinds = _kinds_by_var(block.block_realize)
    around = [sref.loop for sref in loops_above(block)]
    return [loop for loop in around if set(kinds.get(loop.loop_var, ())) == {IterVar.COMM_REDUCE}]


def at_first_step(predicate: PrimExpr, reduction_loops: Sequence[For]) -> PrimExpr:
    """Return the predicate of the init.

    That of the block, with reduction loops at their first value.
    """
    first = {lp.loop_var: lp.min for lp in reduction_loops}
    analyzer = Analyzer()
    parts = [(conjunct, substitute(conjunct, first)) for conjunct in reversed(conjuncts(predicate))]
    return all_of(moved if moved is part else analyzer.simplify(moved) for part, moved in parts)
