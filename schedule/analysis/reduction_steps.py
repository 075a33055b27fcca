"""The check that loops run each step of a reduction once, the initialising step first.

An instance of a reduction block is an assignment of values to its axes. The init runs with the
instances in which all reduction axes have their first values. So loops compute the reduction if,
for any values of the data-parallel axes, the instances run in passes: each pass begins with the
initialising instance and runs no instance twice. A pass may be repeated, since its init resets the
result.

The check needs the bindings only. The loops from the outermost loop that moves a reduction axis
inwards must run no instance twice. Where several loops together count through axes of both kinds,
they must count in the order of their nesting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schedule.analysis.bindings import affine_map, loop_range
from schedule.analysis.block_kind import blocks_in
from schedule.sref import StmtSRef, loops_above, loops_seen_through, scope_root
from tensorir.arith import Analyzer, IterMapLevel, IterMark, IterSumExpr, detect_iter_map
from tensorir.nodes.expr import GE, GT, LE, LT, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.ops import TRUE, conjuncts, is_const_int, logical_and
from tensorir.nodes.stmt import BlockRealize, BufferStore, For, LetStmt, Stmt
from tensorir.rewriting.visit import children, collect_vars, substitute, uses_var


@dataclass(frozen=True, slots=True)
class Instances:
    """The instances of a block in terms of the loops around it."""

    axes: tuple[IterVar, ...] = ()
    values: tuple[PrimExpr, ...] = ()
    """The value that each axis is bound to."""
    predicate: PrimExpr = TRUE

    def inside(self, realize: BlockRealize) -> Instances:
        """Return the instances of a block that is nested in the block of these instances.

        Axes of the outer block are included if the inner block uses them.
        """
        block = realize.block
        if not self.axes:
            return Instances(block.iter_vars, realize.iter_values, realize.predicate)
        bound = {a.var: v for a, v in zip(self.axes, self.values, strict=True)}
        used = [axis for axis in self.axes if uses_var(block, axis.var)]
        return Instances(
            (*used, *block.iter_vars),
            (*(bound[a.var] for a in used), *(substitute(v, bound) for v in realize.iter_values)),
            logical_and(self.predicate, substitute(realize.predicate, bound)),
        )

    def moved_by(self) -> tuple[set[Var], set[Var]]:
        """Return the variables that move data-parallel axes, and the variables that move other
        axes.
        """
        spatial: set[Var] = set()
        reduce: set[Var] = set()
        for axis, value in zip(self.axes, self.values, strict=True):
            moved = spatial if axis.iter_type == IterVar.DATA_PAR else reduce
            moved.update(collect_vars(value))
        return spatial, reduce


def instances_of(block: StmtSRef) -> Instances:
    """Return the instances of a block in terms of `loops_around` it."""
    return Instances().inside(block.block_realize)


def loops_around(block: StmtSRef) -> list[For]:
    """Return the loops whose variables the bindings of a block may use, outermost first."""
    scope = scope_root(block)
    assert scope is not None
    return [sref.loop for sref in (*loops_seen_through(scope), *loops_above(block))]


def instances_in_scope(block: StmtSRef) -> tuple[Instances, list[For]]:
    """Return the instances of a block while its scope runs once, and the loops that run them.

    A buffer that the scope allocates lives that long. Loops around the scope have one fixed value
    meanwhile, which is constant if the loop runs once.
    """
    scope = scope_root(block)
    assert scope is not None
    outer = [sref.loop for sref in loops_seen_through(scope)]
    fixed: dict[Var, PrimExpr] = {lp.loop_var: lp.min for lp in outer if is_const_int(lp.extent, 1)}
    found = instances_of(block)
    if fixed:
        values = tuple(substitute(value, fixed) for value in found.values)
        found = Instances(found.axes, values, substitute(found.predicate, fixed))
    return found, [sref.loop for sref in loops_above(block)]


def reductions_in(stmt: Stmt) -> Iterator[tuple[Instances, list[For]]]:
    """Yield the reductions with an init in a statement, and the loops there around each."""
    pending: list[tuple[Stmt, Instances, list[For]]] = [(stmt, Instances(), [])]
    while pending:
        node, outer, loops = pending.pop()
        if type(node) is For:
            pending.append((node.body, outer, [*loops, node]))
        elif type(node) is BlockRealize:
            instances = outer.inside(node)
            if node.block.init is not None:
                yield instances, loops
            pending.append((node.block.body, instances, loops))
        elif type(node) is LetStmt and blocks_in(node.body):
            # The value that a let binds may depend on the loops.
            pending.append((substitute(node.body, {node.var: node.value}), outer, loops))
        elif type(node) is not BufferStore:
            pending.extend((c, outer, loops) for c in children(node) if isinstance(c, Stmt))


class Steps:
    """The movement of the axes of a reduction by loops, independent of the order of the loops."""

    def __init__(self, instances: Instances, loops: Sequence[For]) -> None:
        """Accept all loops that the bindings use."""
        self._instances = instances
        indices = affine_map(instances.values, loops)
        self._counted = _are_whole_iterators(indices)
        self.spatial, self.reduce = instances.moved_by()
        self.late = self._late_start(loops, indices if self._counted else ())
        """The reason why the first step may not be the initialising step, None if it is."""

    def _late_start(self, loops: Sequence[For], counted: Sequence[IterSumExpr]) -> str | None:
        """Return the reason; axes in `counted` start with their base value."""
        at_start = {lp.loop_var: lp.min for lp in loops if lp.loop_var in self.reduce}
        pairs = zip(self._instances.axes, self._instances.values, strict=True)
        for k, (axis, value) in enumerate(pairs):
            if axis.iter_type != IterVar.DATA_PAR and axis.dom is not None:
                first = axis.dom.min
                base = counted[k].base if counted else None
                if base is not None and not base.terms and is_const_int(first, base.const):
                    continue
                start = substitute(value, at_start)
                if type(start) is IntImm and is_const_int(first, start.value):
                    continue
                if not Analyzer().can_prove_equal(start, first):
                    return f"reduction axis {axis.var.name} may not start at {first}"
        return None

    def problem(self, loops: Sequence[For], once: For | None = None) -> str | None:
        """Return the reason why loops do not run the steps in passes, None if they do.

        The loops are given in the order of their nesting, outermost first. The loops from `once` on
        must run no instance twice, so that they contain one pass at most.
        """
        spatial, reduce = self.spatial, self.reduce
        inside = False
        inner: list[For] = []
        for lp in loops:
            var = lp.loop_var
            inside = inside or lp is once
            if not is_const_int(lp.extent, 1):
                inside = inside or var in reduce
                if inside:
                    if var not in reduce and var not in spatial:
                        return f"loop `{var.name}` runs the same steps several times"
                    inner.append(lp)
        if self.late is not None or self._counted:
            return self.late
        used = [lp for lp in loops if lp.loop_var in spatial or lp.loop_var in reduce]
        pieces = _pieces(self._instances, used, inner)
        if pieces is None:
            return "its bindings may give the same steps several times"
        shared = [lp for lp in inner if lp.loop_var in spatial and lp.loop_var in reduce]
        if shared and not _count_in_order(self._instances, pieces, loops):
            names = ", ".join(f"`{lp.loop_var.name}`" for lp in shared)
            return (
                f"{names} drive data-parallel and reduction axes, but are nested in another order"
            )
        return None


def left_out_first(
    predicate: PrimExpr, loops: Sequence[For], analyzer: Analyzer
) -> PrimExpr | None:
    """Return a conjunct of a predicate that may skip the first step of some loops, else None.

    Such a conjunct may hold at a step of these loops and be false at the first step, which
    initialises.
    """
    start = {lp.loop_var: lp.min for lp in loops}
    for conjunct in conjuncts(predicate):
        at_start = substitute(conjunct, start)
        if at_start is conjunct or analyzer.can_prove(at_start):
            continue
        if not isinstance(conjunct, (LT, LE, GT, GE)):
            return conjunct
        small, large = conjunct.a, conjunct.b
        if isinstance(conjunct, (GT, GE)):
            small, large = large, small
        excess = small - large
        if not analyzer.can_prove(substitute(excess, start) <= excess):
            return conjunct
    return None


def _are_whole_iterators(indices: Sequence[IterSumExpr]) -> bool:
    """Return True if each index is one loop variable, so that each loop moves at most one axis."""
    for index in indices:
        for piece in index.args:
            made_of = piece.source.source
            if not piece.is_whole or not (
                isinstance(made_of, Var) or _are_whole_iterators([made_of])
            ):
                return False
    return bool(indices)


def _pieces(
    instances: Instances, loops: Sequence[For], inner: Sequence[For]
) -> tuple[IterSumExpr, ...] | None:
    """Return the axes as pieces of loops, None unless the inner loops run no instance twice.

    If the outer loops may repeat instances, only the contribution of the inner loops is examined.
    """
    domain = {lp.loop_var: loop_range(lp) for lp in loops}
    for predicate in dict.fromkeys((instances.predicate, TRUE)):
        found = detect_iter_map(instances.values, domain, predicate, IterMapLevel.BIJECTIVE)
        if found.indices or not instances.values:
            return found.indices
    analyzer = Analyzer()
    at_start = {lp.loop_var: lp.min for lp in inner}
    added = [analyzer.simplify(v - substitute(v, at_start)) for v in instances.values]
    domain = {lp.loop_var: loop_range(lp) for lp in inner}
    return detect_iter_map(added, domain, TRUE, IterMapLevel.BIJECTIVE).indices or None


def _count_in_order(
    instances: Instances, pieces: Sequence[IterSumExpr], loops: Sequence[For]
) -> bool:
    """Return True if loops that move axes of both kinds count up in the order of their nesting."""
    kinds: dict[IterMark, set[bool]] = {}
    for axis, index in zip(instances.axes, pieces, strict=True):
        for mark in _marks(index):
            kinds.setdefault(mark, set()).add(axis.iter_type == IterVar.DATA_PAR)
    nesting = {lp.loop_var: k for k, lp in enumerate(loops)}
    return all(
        _counts_up(mark.source, nesting)
        for mark, found in kinds.items()
        if len(found) == 2 and isinstance(mark.source, IterSumExpr)
    )


def _marks(index: IterSumExpr) -> Iterator[IterMark]:
    """Yield the iterators of an index, and recursively their component iterators."""
    for piece in index.args:
        yield piece.source
        if isinstance(piece.source.source, IterSumExpr):
            yield from _marks(piece.source.source)


def _counts_up(value: IterSumExpr, nesting: dict[Var, int]) -> bool:
    """Return True if, in a sum of loop variables, outer loops have the larger scales."""
    places: list[tuple[int, int]] = []
    for piece in value.args:
        var, scale = piece.source.source, piece.scale
        if not isinstance(var, Var) or not piece.is_whole or not isinstance(scale, int):
            return False
        places.append((nesting[var], -scale))
    return [scale for _, scale in sorted(places)] == sorted(scale for _, scale in places)
