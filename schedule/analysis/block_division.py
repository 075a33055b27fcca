"""Dividing a block into an outer block around some of its loops and an inner one inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

from schedule.analysis.bindings import (
    analyzer_keeping_units,
    analyzer_with_ranges,
    axis_domain,
    loop_domain,
    loop_range,
    without_variables,
)
from schedule.analysis.empty_reductions import own_loops
from schedule.analysis.loops import copied_nest
from schedule.analysis.rebuild import ReplaceAxes
from schedule.analysis.reduction_steps import (
    Instances,
    Steps,
    instances_of,
    left_out_first,
    loops_around,
)
from schedule.analysis.regions import init_reads, relax_by_intervals, repeated_init
from schedule.errors import Problem, check, fail
from schedule.sref import StmtSRef, lone_loops, loops_seen_through, scope_root
from tensorir.arith import Analyzer, IterMapLevel, normalize_iter_map_to_expr, subspace_divide
from tensorir.arith.size import Size, size_expr
from tensorir.arith.subspace import divide_predicate
from tensorir.nodes.buffer import BufferRegion, Range
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import BufferLoad, IterVar, PrimExpr, Var
from tensorir.nodes.ops import TRUE, add, const, is_const_int, mul
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, For, Stmt
from tensorir.rewriting.visit import collect_vars, substitute, uses_var, walk

NOT_DIVISIBLE = Problem(
    "SubspaceNotDivisibleError",
    "{0} cannot be blockized with the loops {inner} inside: {reason}",
    "bind each axis to `outer * extent + inner`, where `outer` uses only outer loops and `inner` "
    "only inner loops, and let each predicate use only one of the two groups",
)
NO_CHAIN = Problem(
    "NonSingleChildBlockError",
    "{0} should be the only statement below {1}",
    "move the other statements out of the loop first",
)


@dataclass(slots=True)
class BlockDivision:
    """The axes and predicates of the two blocks that one block is divided into."""

    block: Block
    loops: list[For]
    """The loops between the two blocks, outermost first."""
    preserve_unit: bool
    """True if axes of extent 1 stay visible in indices."""
    outer_axes: list[IterVar] = field(default_factory=list)
    outer_values: list[PrimExpr] = field(default_factory=list)
    inner_axes: list[IterVar] = field(default_factory=list)
    inner_values: list[PrimExpr] = field(default_factory=list)
    outer_predicate: PrimExpr = TRUE
    inner_predicate: PrimExpr = TRUE
    values: dict[Var, PrimExpr] = field(default_factory=dict)
    """The value of each axis of the block in terms of the new axes."""

    @property
    def reduces_outside(self) -> bool:
        """True if an axis of the outer block is a reduction."""
        return any(axis.iter_type == IterVar.COMM_REDUCE for axis in self.outer_axes)

    def substitute_axes(self) -> tuple[Block, dict[Block, Block]]:
        """Return the block in terms of the new axes, and the map from old to new inner blocks."""
        rewriter = ReplaceAxes(self.values, self._analyzer((*self.outer_axes, *self.inner_axes)))
        block: Block = rewriter(self.block)
        return block, rewriter.reuse

    def _analyzer(self, axes: Sequence[IterVar]) -> Analyzer:
        """Return an analyzer with the axes bound, except axes that stay visible."""
        if self.preserve_unit:
            return analyzer_keeping_units(axes)
        return analyzer_with_ranges(axis_domain(axes))

    def nest(self, inner: Block) -> Stmt:
        """Return the loops around the inner block."""
        body: Stmt = BlockRealize(self.inner_values, self.inner_predicate, inner)
        for loop in reversed(self.loops):
            body = loop.with_body(body)
        return body

    def relaxed(self, regions: Sequence[BufferRegion]) -> list[BufferRegion]:
        """Return the boxes that regions in terms of the new axes cover while the inner axes run.

        A block without axes declares its regions in terms of the loops around it.
        """
        loops = {lp.loop_var: loop_range(lp) for lp in self.loops}
        domain = {**loops, **axis_domain(self.inner_axes)}
        analyzer = self._analyzer(self.outer_axes)

        def covered(dim: Range, size: PrimExpr) -> Range:
            (box,) = relax_by_intervals([dim], domain, analyzer)
            return box.cover_range(Range(size), analyzer)

        return [
            BufferRegion(
                r.buffer, [covered(*d) for d in zip(r.region, r.buffer.shape, strict=True)]
            )
            for r in regions
        ]


def divide_block(
    block: StmtSRef, outer: Sequence[StmtSRef], inner: Sequence[StmtSRef], preserve_unit: bool
) -> BlockDivision:
    """Divide a block at the boundary between the loops `outer` and the loops `inner`.

    Raises ScheduleError if a binding, the predicate or a loop does not separate into `outer *
    extent + inner`.
    """
    realize = block.block_realize
    alone = lone_loops(block)
    for sref in reversed(inner):
        check(sref in alone, NO_CHAIN, block, sref)
    scope = scope_root(block)
    assert scope is not None
    outer = [*loops_seen_through(scope), *outer]
    above = [sref.loop.loop_var for sref in outer]
    below = [sref.loop.loop_var for sref in inner]

    def refuse(reason: str) -> NoReturn:
        fail(NOT_DIVISIBLE, block, inner=[var.name for var in below], reason=reason)

    for sref in inner:
        for bound in (sref.loop.min, sref.loop.extent):
            if uses_var(bound, lambda var: var in above):
                refuse(f"the range of {sref.loop.loop_var.name} depends on an outer loop")
    division = BlockDivision(realize.block, [sref.loop for sref in inner], preserve_unit)
    analyzer = Analyzer()
    found = subspace_divide(
        realize.iter_values,
        loop_domain([*outer, *inner]),
        below,
        realize.predicate,
        IterMapLevel.SURJECTIVE,
        analyzer,
        simplify_trivial_iterators=not preserve_unit,
    )
    if found is None:
        _divide_trivially(division, realize, above, below, refuse)
        return division
    for axis, part in zip(realize.block.iter_vars, found.parts, strict=True):
        dtype = axis.var.dtype
        base = analyzer.linearizer.write(part.base, dtype)
        _add_parts(
            division,
            axis,
            (part.outer_extent, normalize_iter_map_to_expr(part.outer, dtype, analyzer)),
            (part.inner_extent, normalize_iter_map_to_expr(part.inner, dtype, analyzer)),
            base,
            preserve_unit,
        )
    division.outer_predicate = found.outer_predicate
    division.inner_predicate = found.inner_predicate
    return division


def _add_parts(
    division: BlockDivision,
    axis: IterVar,
    outer: tuple[Size, PrimExpr],
    inner: tuple[Size, PrimExpr],
    base: PrimExpr,
    preserve_unit: bool,
) -> None:
    """Add the axes that the parts of one axis become."""
    dtype = axis.var.dtype
    outer_var = _add_axis(division, axis, _domain(outer[0], dtype), outer[1], inside=False)
    value: PrimExpr = outer_var
    if outer[0] == 1 and (inner[0] != 1 or not preserve_unit):
        value = const(0, dtype)
    if inner[0] != 1:
        value = mul(value, size_expr(inner[0], dtype))
        inner_dom = _domain(inner[0], dtype)
        value = add(value, _add_axis(division, axis, inner_dom, inner[1], inside=True))
    division.values[axis.var] = add(value, base)


def _add_axis(
    division: BlockDivision, axis: IterVar, dom: Range | None, value: PrimExpr, *, inside: bool
) -> Var:
    var = axis.var.with_name(f"{axis.var.name}_{'i' if inside else 'o'}")
    made = IterVar(dom, var, axis.iter_type, axis.thread_tag)
    (division.inner_axes if inside else division.outer_axes).append(made)
    (division.inner_values if inside else division.outer_values).append(value)
    return var


def _domain(extent: Size, dtype: DataType) -> Range:
    return Range.from_min_extent(const(0, dtype), size_expr(extent, dtype))


def _divide_trivially(
    division: BlockDivision,
    realize: BlockRealize,
    above: Sequence[Var],
    below: Sequence[Var],
    refuse: Callable[[str], NoReturn],
) -> None:
    """Divide a block whose axes are each bound to outer loops only, or to inner loops only."""
    sides = divide_predicate(realize.predicate, above, below)
    if sides is None:
        refuse(f"its predicate `{realize.predicate}` relates outer and inner loops")
    division.outer_predicate, division.inner_predicate = sides
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        used = collect_vars(value)
        inside = any(var in below for var in used)
        if inside and any(var in above for var in used):
            refuse(f"axis {axis.var.name} is bound to `{value}`")
        division.values[axis.var] = _add_axis(division, axis, axis.dom, value, inside=inside)
        if inside:
            dtype = axis.var.dtype
            _add_axis(division, axis, _domain(1, dtype), const(0, dtype), inside=False)


# --------------------------------------------------------------------------------- initialisation


def check_init_moves_out(block: StmtSRef, inner: Sequence[StmtSRef]) -> None:
    """Raise if moving the init before the inner loops would change the result."""
    node = block.block
    names = [sref.loop.loop_var.name for sref in inner]

    def require(holds: bool, reason: str | None) -> None:
        check(holds, NOT_DIVISIBLE, block, inner=names, reason=reason)

    instances, loops = instances_of(block), loops_around(block)
    steps = Steps(instances, loops)
    reason = steps.problem(loops, once=inner[0].loop)
    require(reason is None, reason)
    analyzer = Analyzer()
    if not is_const_int(instances.predicate, 1):
        analyzer = analyzer_with_ranges({lp.loop_var: loop_range(lp) for lp in loops})
        reducing = [lp for lp in loops if lp.loop_var in steps.reduce]
        late = left_out_first(instances.predicate, reducing, analyzer)
        require(late is None, f"its predicate `{late}` may skip the first step")
    repeated = repeated_init(block.block_realize, {sref.loop.loop_var for sref in inner})
    if repeated is not None:
        axis, var = repeated
        text = f"its init changes what it reads, and loop `{var.name}` also drives {axis.var.name}"
        require(False, text)
    assert node.init is not None
    own = {*node.alloc_buffers, *(view.buffer for view in node.match_buffers)}
    local = any(isinstance(n, BufferStore) and n.buffer in own for n in walk(node.init))
    require(not local, "its init stores to a buffer of the block itself")
    stored = {n.buffer: n.indices for n in walk(node.init) if isinstance(n, BufferStore)}
    for load in walk(node.body):
        if isinstance(load, BufferLoad) and load.buffer in stored:
            pairs = zip(load.indices, stored[load.buffer], strict=True)
            own_element = all(analyzer.can_prove_equal(a, b) for a, b in pairs)
            require(own_element, f"it reads {load} besides the element that it accumulates into")


def init_nest(division: BlockDivision, inner: Block, name: str) -> Stmt:
    """Return the statement that initialises every element which the inner block accumulates into.

    The block `<name>_init` runs under copies of those inner loops that its axes use.
    """
    assert inner.init is not None
    values: dict[Var, PrimExpr] = {}
    axes, bindings = [], []
    for axis, value in zip(division.inner_axes, division.inner_values, strict=True):
        if axis.iter_type == IterVar.DATA_PAR and uses_var(inner.init, axis.var):
            var = axis.var.with_name(f"{axis.var.name}_init")
            axes.append(IterVar(axis.dom, var, axis.iter_type))
            bindings.append(value)
            values[axis.var] = var
    used = {var for value in bindings for var in collect_vars(value)}
    first = {lp.loop_var: lp.min for lp in division.loops if lp.loop_var not in used}
    # The init runs even if the conditions exclude every step.
    reduced = Instances(tuple(division.inner_axes), tuple(division.inner_values))
    own = {lp.loop_var for lp in own_loops(reduced, division.loops)}
    predicate = substitute(without_variables(division.inner_predicate, own), first)
    if predicate is not division.inner_predicate:
        predicate = Analyzer().simplify(predicate)
    block = Block(
        axes,
        [substitute(region, values) for region in init_reads(inner)],
        [substitute(region, values) for region in inner.writes],
        f"{name}_init",
        substitute(inner.init, values),
    )
    kept = [lp for lp in division.loops if lp.loop_var in used]
    return copied_nest(kept, BlockRealize(bindings, predicate, block))[0]


def same_outer_axes(divisions: Sequence[BlockDivision]) -> bool:
    """Return True if several divisions give outer blocks with equal axes and equal bindings."""
    return all(
        len(a.outer_axes) == len(b.outer_axes)
        and all(_same_axis(x, y) for x, y in zip(a.outer_axes, b.outer_axes, strict=True))
        and all(
            Analyzer().can_prove_equal(x, y)
            for x, y in zip(a.outer_values, b.outer_values, strict=True)
        )
        for a, b in pairwise(divisions)
    )


def _same_axis(a: IterVar, b: IterVar) -> bool:
    assert a.dom is not None
    assert b.dom is not None
    analyzer = Analyzer()
    return (
        a.iter_type == b.iter_type
        and analyzer.can_prove_equal(a.dom.min, b.dom.min)
        and analyzer.can_prove_equal(a.dom.extent, b.dom.extent)
    )
