"""The check that instances of a block which differ in data-parallel axes are independent.

Two instances are independent if neither writes an element that the other one reads or writes. That
depends on the block alone, so the result is cached with the block. The check ignores conditions and
the bindings of axes. It assumes that called functions access only the regions that the block
declares.

The check compares the declared regions of a block first. Where they overlap, it compares loads and
stores. Two accesses meet where all their indices are equal. If an index moves along some axes by
larger steps than the range of its other terms, two values of the index are equal only where these
axes are equal. Several indices together may decide what one alone does not. Pairs that remain
undecided are compared instance by instance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np

from schedule.analysis.accesses import is_opaque
from schedule.analysis.bindings import axis_domain
from schedule.analysis.regions import is_point
from schedule.errors import Problem, fail
from schedule.sref import StmtSRef
from tensorir.arith import Analyzer, IterMapLevel, detect_iter_map
from tensorir.arith.coefficients import coefficients
from tensorir.arith.const_interval import Interval, exact_interval
from tensorir.comparison.equal import expr_deep_equal
from tensorir.errors import IRTypeError
from tensorir.indices.index_values import index_values
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import (
    And,
    BufferLoad,
    Call,
    FloorDiv,
    IntImm,
    IterVar,
    Or,
    PrimExpr,
    Select,
    Var,
    integer_limits,
)
from tensorir.nodes.index_arithmetic import holds_indices
from tensorir.nodes.node import Node
from tensorir.nodes.ops import TRUE, is_const_int
from tensorir.nodes.stmt import Block, BufferStore, For, IfThenElse, While
from tensorir.rewriting.visit import children, collect_vars, walk

PROMISE = "schedule.any_order"
"""The annotation which asserts that the order of a block's instances does not change the result."""

DEPENDENT = Problem(
    "DependentAxisError",
    "the order of its instances matters to {0}: those that differ in its data-parallel axis {axis} "
    "{conflict}",
    f"if the order does not matter, assert it by T.block_attr({{{{{PROMISE!r}: True}}}}) in the "
    "block; "
    "if it does, declare the axis by T.axis.scan or T.axis.opaque",
)


def check_any_order(block: StmtSRef | Block, moved: Collection[Var] | None = None) -> None:
    """Raise unless instances of a block that differ in data-parallel axes are independent.

    If `moved` is given, only the axes in it are checked.
    """
    node = block if isinstance(block, Block) else block.block
    conflict = conflict_in(node)
    if conflict is None:
        return
    for axis in node.iter_vars:
        if axis.var in conflict.axes and (moved is None or axis.var in moved):
            fail(DEPENDENT, block, axis=axis.var.name, conflict=conflict.text)


def dependent_axes(block: Block) -> frozenset[Var]:
    """Return the data-parallel axes of a block whose independence is not proved."""
    conflict = conflict_in(block)
    return frozenset() if conflict is None else conflict.axes


@dataclass(frozen=True, slots=True)
class Conflict:
    """The data-parallel axes along which instances of a block may conflict, and the reason."""

    axes: frozenset[Var]
    text: str


@lru_cache(maxsize=512)
def conflict_in(block: Block) -> Conflict | None:
    """Return a conflict between instances of a block, None if there is none."""
    axes = {
        axis.var: axis.dom
        for axis in block.iter_vars
        if axis.iter_type == IterVar.DATA_PAR
        and axis.dom is not None
        and not is_const_int(axis.dom.extent, 1)
    }
    if not axes or block.annotations.get(PROMISE):
        return None
    found = _SharedElements(block, axes, declared_accesses(block))
    met = found.pairs()
    if not met:
        return None
    exact = accesses_in(block)
    if exact is not None:
        found = _SharedElements(block, axes, exact)
        met = found.pairs()
        if not met:
            return None
    union = frozenset(axes) - frozenset.intersection(*[equal for _, _, equal in met])
    example = found.example() if exact is not None else None
    if example == "":
        return None
    if example:
        return Conflict(union, example)
    first, second, _ = met[0]
    text = f"may touch the same element, as it {first}"
    return Conflict(union, text if second is first else f"{text} and {second}")


class _SharedElements:
    """Finds accesses by which two instances of a block touch the same element."""

    def __init__(self, block: Block, axes: Mapping[Var, Range], accesses: Sequence[Access]) -> None:
        self._axes = axes
        self._written = {a.buffer.data for a in accesses if a.writes}
        self._accesses = [a for a in accesses if a.buffer.data in self._written]
        self._domains = axis_domain(block.iter_vars)
        self._ranges: dict[Var, Interval] = {}
        self._inner: set[Var] = set()
        for var, values in self._domains.items():
            self._bind(var, values)

    def _bind(self, var: Var, values: Range) -> None:
        low, extent = (exact_interval(e, self._ranges) for e in (values.min, values.extent))
        if low is not None and extent is not None:
            self._ranges[var] = low[0], max(low[0], low[1] + extent[1] - 1)

    def pairs(self) -> list[tuple[Access, Access, frozenset[Var]]]:
        """Return pairs of accesses that may meet, with the axes that must be equal there."""
        found = []
        for first, second in combinations_with_replacement(self._accesses, 2):
            if first.buffer.data is second.buffer.data and (first.writes or second.writes):
                equal = self._equal(first, second)
                if len(equal) < len(self._axes):
                    found.append((first, second, frozenset(equal)))
        return found

    def _equal(self, a: Access, b: Access) -> set[Var]:
        """Return the axes that must be equal if access `a` of one instance meets `b` of another."""
        equal: set[Var] = set()
        if a.buffer is not b.buffer:
            return equal
        rest: list[tuple[Range, Range]] = []
        for one, other in zip(a.region, b.region, strict=True):
            low = one.min
            plain = low is other.min and type(low) is Var and is_point(one) and is_point(other)
            if plain and low in self._axes:
                equal.add(low)  # type: ignore[arg-type]
            elif not (plain and low not in self._domains):
                rest.append((one, other))
        if len(equal) == len(self._axes):
            return equal
        for known in (*a.loops, *b.loops):
            self._inner.add(known[0])
            self._bind(*known)
        count = -1
        while count < len(equal) < len(self._axes):
            count = len(equal)
            for one, other in rest:
                equal |= self._equal_in_one(one, other, equal)
        return equal if len(equal) == len(self._axes) else equal | self._equal_together(rest)

    def _equal_in_one(self, a: Range, b: Range, equal: set[Var]) -> set[Var]:
        """Return the axes that must be equal where two ranges of one dimension overlap."""
        if not (holds_indices(a.min.dtype) and holds_indices(b.min.dtype)):
            return set()
        one, other = coefficients(a.min), coefficients(b.min)
        if any(one.step(v) is None or other.step(v) is None for v in self._axes.keys() - equal):
            return set()
        moving: dict[Var, int] = {}
        rest = (
            []
            if self._same_parts(one.parts, other.parts, equal)
            else [
                *other.parts,
                *((part, -factor) for part, factor in one.parts),
            ]
        )
        for var in {**one.of, **other.of}:
            first, second = one.of.get(var, 0), other.of.get(var, 0)
            if self._is_same(var, equal):
                rest.append((var, second - first))
            elif first == second:
                moving[var] = abs(first)
            else:
                rest += [(var, second), (var, -first)]
        gap = self._sum(rest, other.constant - one.constant)
        sizes = [exact_interval(dim.extent, self._ranges) for dim in (a, b)]
        if gap is None or sizes[0] is None or sizes[1] is None:
            return set()
        found: set[Var] = set()
        ordered = sorted((var for var in moving if moving[var]), key=moving.__getitem__)
        reaches = [max(abs(gap[1] + sizes[1][1] - 1), abs(gap[0] - sizes[0][1] + 1))]
        for var in ordered[:-1]:
            low, high = self._ranges.get(var) or integer_limits(var.dtype)
            reaches.append(reaches[-1] + moving[var] * (high - low))
        for var, reach in zip(reversed(ordered), reversed(reaches), strict=False):
            if moving[var] <= reach:
                break
            found.add(var)
        return found & self._axes.keys()

    def _sum(self, terms: Sequence[tuple[PrimExpr, int]], constant: int) -> Interval | None:
        """Return the bounds of a sum of multiples, None if they are unknown."""
        low = high = constant
        for part, factor in terms:
            if factor:
                known = exact_interval(part, self._ranges)
                if known is None:
                    return None
                ends = [factor * end for end in known]
                low, high = low + min(ends), high + max(ends)
        return low, high

    def _is_same(self, var: Var, equal: set[Var]) -> bool:
        """Return True if a variable has the same value in both instances."""
        low, high = self._ranges.get(var, (0, 1))
        if var in equal or low == high:
            return True
        values = self._domains.get(var)
        outer = values is None and var not in self._inner
        return outer or (values is not None and is_const_int(values.extent, 1))

    def _same_parts(
        self,
        one: Sequence[tuple[PrimExpr, int]],
        other: Sequence[tuple[PrimExpr, int]],
        equal: set[Var],
    ) -> bool:
        """Return True if the nonlinear parts of two indices are equal in both instances."""
        return len(one) == len(other) and all(
            f == g
            and expr_deep_equal(p, q)
            and all(self._is_same(v, equal) for v in collect_vars(p))
            and not any(
                isinstance(n, BufferLoad) and n.buffer.data in self._written for n in walk(p)
            )
            for (p, f), (q, g) in zip(one, other, strict=True)
        )

    def _equal_together(self, dims: Sequence[tuple[Range, Range]]) -> set[Var]:
        """Return the axes that several dimensions determine together, if they determine all."""
        indices = [
            a.min
            for a, b in dims
            if is_point(a)
            and is_point(b)
            and expr_deep_equal(a.min, b.min)
            and not any(isinstance(node, BufferLoad) for node in walk(a.min))
            and all(v in self._axes or self._is_same(v, set()) for v in collect_vars(a.min))
        ]
        used = [var for index in indices for var in collect_vars(index) if var in self._axes]
        if not used:
            return set()
        domain = {var: self._axes[var] for var in used}
        found = detect_iter_map(indices, domain, TRUE, IterMapLevel.BIJECTIVE)
        if found.indices:
            return set(used)
        whole = [Range.point(index) for index in _join_splits(indices)]
        return set().union(*(self._equal_in_one(point, point, set()) for point in whole))

    def example(self) -> str | None:
        """Describe two instances that meet; "" if none do, None if they cannot be enumerated.

        Of many instances, only those with small values are compared.
        """
        domains = {var: self._ranges.get(var) for var in self._domains}
        bound = {var: known for var, known in domains.items() if known is not None}
        if len(bound) < len(domains):
            return None
        most = max(2, int(_INSTANCES ** (1 / len(bound))))
        runs = {v: np.arange(low, min(high + 1, low + most)) for v, (low, high) in bound.items()}
        grid = np.meshgrid(*runs.values(), indexing="ij")
        places = dict(zip(runs, [axis.ravel() for axis in grid], strict=True))
        instances = np.stack([places[var] for var in self._axes], axis=1).tolist()
        owners: dict[object, tuple[list[int], Access]] = {}
        for access in sorted(self._accesses, key=lambda a: not a.writes):
            try:
                rows = [index_values(dim.min, places) for dim in access.region]
            except IRTypeError:
                return None
            if any(not is_point(dim) or dim.min.dtype.bits < 32 for dim in access.region):
                return None
            columns = [np.broadcast_to(row, len(instances)).tolist() for row in rows]
            elements = list(zip(*columns, strict=True)) or [()] * len(instances)
            for instance, element in zip(instances, elements, strict=True):
                place = access.buffer.data, element
                owner = owners.get(place)
                if owner is None:
                    if access.writes:
                        owners[place] = instance, access
                elif owner[0] != instance:
                    if not access.is_sure or not owner[1].is_sure:
                        return None
                    index = ", ".join(map(str, element)) or "()"
                    told = " and ".join(
                        self._instance_text(values) for values in (owner[0], instance)
                    )
                    return f"touch the same element: {access.buffer.name}[{index}] for {told}"
        complete = all(len(runs[v]) == high - low + 1 for v, (low, high) in bound.items())
        return "" if complete else None

    def _instance_text(self, instance: Sequence[int]) -> str:
        return ", ".join(f"{v.name} = {n}" for v, n in zip(self._axes, instance, strict=True))


def _join_splits(indices: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Replace each pair of `x // c` and `x % c` among indices by `x`, which the pair determines.

    Packed panels have such indices where the panel size does not divide the extent.
    """
    left = list(indices)
    joined: list[PrimExpr] = []
    analyzer = Analyzer()
    for _ in indices:
        for index in left:
            if not isinstance(index, FloorDiv) or not isinstance(index.b, IntImm):
                continue
            rest = analyzer.simplify(index.a % index.b)
            match = next((other for other in left if expr_deep_equal(other, rest)), None)
            if match is not None:
                left = [other for other in left if other is not index and other is not match]
                left.append(index.a)
                joined = [*(other for other in joined if other is not match), index.a]
                break
    return joined


_INSTANCES = 1024
"""The maximum number of instances that are compared one by one."""


# -------------------------------------------------------------------------- the accesses of a block


@dataclass(frozen=True, slots=True)
class Access:
    """An access of a block to a buffer, in terms of its axes and of variables bound in it."""

    buffer: Buffer
    region: tuple[Range, ...]
    writes: bool
    loops: tuple[tuple[Var, Range], ...] = ()
    """The loops in the block around the access."""
    is_sure: bool = True
    """True if the access is unconditional."""

    def __str__(self) -> str:
        dims = [f"{d.min}" if is_point(d) else f"{d.min}:{d.min + d.extent}" for d in self.region]
        verb = "writes" if self.writes else "reads"
        return f"{verb} {self.buffer.name}[{', '.join(dims) or '()'}]"


def declared_accesses(block: Block) -> list[Access]:
    """Return the accesses that a block declares."""
    writes = [Access(r.buffer, r.region, True) for r in block.writes]
    return writes + [Access(r.buffer, r.region, False) for r in block.reads]


def accesses_in(block: Block) -> list[Access] | None:
    """Return the loads and stores of a block.

    None if it also accesses declared buffers in other ways.
    """
    declared = {r.buffer for r in (*block.reads, *block.writes)}
    for node in walk(block.body):
        if isinstance(node, Block) or any(is_opaque(node, buffer) for buffer in declared):
            return None
    found: list[Access] = []
    for part in (block.init, block.body):
        if part is not None:
            _collect(part, (), True, found)
    return found


def _collect(
    node: Node, loops: tuple[tuple[Var, Range], ...], is_sure: bool, found: list[Access]
) -> None:
    if isinstance(node, (BufferLoad, BufferStore)):
        sure = is_sure and node.predicate is None
        region = tuple(Range.point(index) for index in node.indices)
        writes = isinstance(node, BufferStore)
        found.append(Access(node.buffer, region, writes, loops, sure))
    inner = loops
    if isinstance(node, For):
        inner = (*loops, (node.loop_var, Range.from_min_extent(node.min, node.extent)))
        is_sure = is_sure and type(node.extent) is IntImm and node.extent.value > 0
    conditional = isinstance(node, (IfThenElse, While, Select, And, Or)) or (
        isinstance(node, Call) and getattr(node.op, "short_name", "") == "if_then_else"
    )
    for part in children(node):
        _collect(part, inner, is_sure and not conditional, found)
