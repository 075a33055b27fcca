"""The regions of buffers that a block accesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tensorir.arith import Analyzer, IntervalSet, eval_set
from tensorir.arith.linear import Linear
from tensorir.arith.terms import mentions, variables_of
from tensorir.errors import IRValueError
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import logical_not
from tensorir.rewriting.visit import children, substitute


def get_block_access_region(
    block: s.Block, buffer_var_map: Mapping[Var, Buffer]
) -> tuple[list[BufferRegion], list[BufferRegion], list[BufferRegion]]:
    """Return the regions that a block reads, writes, and accesses opaquely.

    `buffer_var_map` has the relevant buffers by data variable. Regions are in terms of the block's
    axes, in order of first access; the regions of one buffer are united. Reads of a buffer that the
    block initialises are returned only if they exceed the writes, or if the init reads the buffer.
    """
    detector = _Detector(block, buffer_var_map)
    return detector.result()


def get_block_read_write_region(
    block: s.Block, buffer_var_map: Mapping[Var, Buffer]
) -> tuple[list[BufferRegion], list[BufferRegion]]:
    """Return the regions that a block reads and writes; opaque accesses count as both."""
    reads, writes, opaque = get_block_access_region(block, buffer_var_map)
    known = {r.buffer for r in opaque}
    return (
        [r for r in reads if r.buffer not in known] + opaque,
        [r for r in writes if r.buffer not in known] + opaque,
    )


class _Access:
    """The union of the accesses to one buffer."""

    __slots__ = ("box", "buffer", "exact")

    def __init__(self, buffer: Buffer, box: list[IntervalSet], exact: list[Range]) -> None:
        self.buffer = buffer
        self.box = box
        self.exact = exact
        """The region as written in the program, if there was only one access."""


class _Detector:
    def __init__(self, block: s.Block, buffers: Mapping[Var, Buffer]) -> None:
        self._block = block
        self._buffers = buffers
        self._analyzer = Analyzer()
        self._sets: dict[Var, IntervalSet] = {}
        self._lets: dict[Var, PrimExpr] = {}
        self._reads: dict[Buffer, _Access] = {}
        self._writes: dict[Buffer, _Access] = {}
        self._opaque: dict[Buffer, None] = {}
        self._views: dict[Buffer, MatchBufferRegion] = {m.buffer: m for m in block.match_buffers}
        for axis in block.iter_vars:
            if axis.dom is not None:
                self._visit(axis.dom)
        for view in block.match_buffers:
            for dim in view.source.region:
                self._visit(dim)
        if block.init is not None:
            self._visit(block.init)
        self._read_first = set(self._reads)
        self._visit(block.body)

    def result(
        self,
    ) -> tuple[list[BufferRegion], list[BufferRegion], list[BufferRegion]]:
        """Return reads, writes and opaque accesses."""
        reads = [self._region(a) for a in self._reads.values() if not self._is_initialised(a)]
        writes = [self._region(a) for a in self._writes.values()]
        opaque = [BufferRegion.full_region(b) for b in self._opaque]
        return reads, writes, opaque

    def _is_initialised(self, read: _Access) -> bool:
        """Return True if the init of the block writes every element of a buffer that the block
        reads.
        """
        if self._block.init is None or read.buffer in self._read_first:
            return False
        written = self._writes.get(read.buffer)
        return written is not None and all(
            self._is_within(r, w) for r, w in zip(read.box, written.box, strict=True)
        )

    def _is_within(self, inner: IntervalSet, outer: IntervalSet) -> bool:
        return self._at_most(outer.min_value, inner.min_value) and self._at_most(
            inner.max_value, outer.max_value
        )

    def _at_most(self, a: PrimExpr | None, b: PrimExpr | None) -> bool:
        if a is None or b is None:
            return a is b
        return a is b or self._analyzer.can_prove_greater_equal(b - a, 0)

    def _region(self, access: _Access) -> BufferRegion:
        if access.exact:
            return BufferRegion(access.buffer, access.exact)
        ranges = []
        for interval, extent in zip(access.box, access.buffer.shape, strict=True):
            if interval.is_single_point(self._analyzer):
                ranges.append(Range.point(interval.min_value))
            else:
                ranges.append(interval.cover_range(Range(extent), self._analyzer))
        return BufferRegion(access.buffer, ranges)

    # ----------------------------------------------------------------------------------- recording

    def _record(
        self, table: dict[Buffer, _Access], buffer: Buffer, region: Sequence[Range]
    ) -> None:
        view = self._views.get(buffer)
        if view is not None:
            buffer, region = view.source.buffer, view.source.region
        if self._buffers.get(buffer.data) is None:
            return
        region = [substitute(r, self._lets) for r in region]
        relaxed = [self._relax(r) for r in region]
        known = table.get(buffer)
        if known is None:
            exact = [
                r
                if isinstance(r.extent, IntImm) and r.extent.value == 1 and i.min_value is r.min
                else i.cover_range(Range(n), self._analyzer)
                for r, i, n in zip(region, relaxed, buffer.shape, strict=True)
            ]
            table[buffer] = _Access(buffer, relaxed, exact)
            return
        known.box = [a.union(b, self._analyzer) for a, b in zip(known.box, relaxed, strict=True)]
        known.exact = []

    def _relax(self, values: Range) -> IntervalSet:
        if not self._sets:
            return IntervalSet.from_range(values)
        return eval_set(values, self._sets, self._analyzer)

    # ------------------------------------------------------------------------------------- walking

    def _visit(self, node: Node) -> None:
        rule = _WALK.get(type(node))
        if rule is not None:
            rule(self, node)
            return
        for child in children(node):
            if type(child) is not IntImm:
                self._visit(child)

    def access(self, node: s.BufferStore | e.BufferLoad) -> None:
        table = self._writes if isinstance(node, s.BufferStore) else self._reads
        self._record(table, node.buffer, BufferRegion.from_point(node.buffer, node.indices).region)
        if isinstance(node, s.BufferStore):
            self._visit(node.value)
        for index in node.indices:
            self._visit(index)

    def loop(self, node: s.For) -> None:
        self._visit(node.min)
        self._visit(node.extent)
        values = Range.from_min_extent(
            substitute(node.min, self._lets), substitute(node.extent, self._lets)
        )
        low = eval_set(values, self._sets, self._analyzer) if self._sets else None
        self._sets[node.loop_var] = low or IntervalSet.from_range(values)
        self._visit(node.body)
        del self._sets[node.loop_var]

    def let(self, node: s.LetStmt) -> None:
        self._visit(node.value)
        self._lets[node.var] = substitute(node.value, self._lets)
        self._visit(node.body)
        del self._lets[node.var]

    def branch(self, node: s.IfThenElse) -> None:
        self._visit(node.condition)
        self._visit_under(node.condition, node.then_case)
        if node.else_case is not None:
            self._visit_under(logical_not(node.condition), node.else_case)

    def call(self, node: e.Call) -> None:
        name = getattr(node.op, "short_name", "")
        if name == "if_then_else":
            self._visit(node.args[0])
            self._visit_under(node.args[0], node.args[1])
            self._visit_under(logical_not(node.args[0]), node.args[2])
        elif name == "tvm_access_ptr" and isinstance(node.args[-1], IntImm):
            self._access_pointer(node)
        else:
            for argument in node.args:
                self._visit(argument)

    def _access_pointer(self, node: e.Call) -> None:
        data, mask = node.args[1], node.args[-1]
        buffer = self._buffers.get(data) if isinstance(data, Var) else None
        assert isinstance(mask, IntImm)
        if buffer is None:
            return
        if mask.value == 3:
            self._opaque[buffer] = None
            return
        table = self._reads if mask.value == 1 else self._writes
        self._record(table, buffer, [Range(n) for n in buffer.shape])

    def pointer(self, node: Var) -> None:
        buffer = self._buffers.get(node)
        if buffer is not None:
            self._opaque[buffer] = None

    def _visit_under(self, condition: PrimExpr, node: Node) -> None:
        """Visit a node, with the ranges of loop variables narrowed by a condition."""
        saved = dict(self._sets)
        facts = self._analyzer.facts(condition) if saved else []
        equations = {fact.key for fact in facts if any(_opposite(fact, f) for f in facts)}
        for fact in facts:
            self._narrow(fact, fact.key in equations)
        self._visit(node)
        self._sets = saved

    def _narrow(self, fact: Linear, is_equal: bool) -> None:
        """Narrow the ranges of loop variables by the fact `fact >= 0`, or `fact == 0`."""
        reader = self._analyzer.linearizer
        for var, known in self._sets.items():
            weight = fact.terms.get(var, 0)
            rest = fact.plus(Linear({var: weight}, 0), -1)
            if not weight or mentions(rest, var):
                continue
            # `weight * var + rest >= 0` limits the variable by a quotient that is rounded down.
            quotient = reader.quotient(rest, abs(weight))
            limit = reader.write(quotient.times(-1) if weight > 0 else quotient, var.dtype)
            moves = any(v in self._sets for term in rest.terms for v in variables_of(term))
            if is_equal and abs(weight) == 1 and not moves:
                narrowed = IntervalSet.point(limit)
            elif weight > 0:
                narrowed = known.intersect(IntervalSet(limit, None), self._analyzer)
            else:
                narrowed = known.intersect(IntervalSet(None, limit), self._analyzer)
            self._sets[var] = known if narrowed.is_nothing else narrowed

    def realize(self, node: s.BlockRealize) -> None:
        values = {
            axis.var: value
            for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True)
        }
        for table, regions in (
            (self._reads, node.block.reads),
            (self._writes, node.block.writes),
        ):
            for region in regions:
                self._record(table, region.buffer, [substitute(r, values) for r in region.region])


_WALK: Final[dict[type, Callable[[_Detector, Any], None]]] = {
    s.BufferStore: _Detector.access,
    e.BufferLoad: _Detector.access,
    s.For: _Detector.loop,
    s.LetStmt: _Detector.let,
    s.IfThenElse: _Detector.branch,
    e.Call: _Detector.call,
    e.Var: _Detector.pointer,
    s.BlockRealize: _Detector.realize,
}


def _opposite(a: Linear, b: Linear) -> bool:
    return a.const == -b.const and a.times(-1).key == b.key


def require_no_opaque(block: s.Block, opaque: Sequence[BufferRegion]) -> None:
    """Raise IRValueError if a block accesses buffers opaquely."""
    if opaque:
        names = ", ".join(r.buffer.name for r in opaque)
        raise IRValueError(
            f'Can not auto detect buffer access region of block "{block.name_hint}": the pointer '
            f"of {names} is used directly; write T.reads(...) and T.writes(...) in the block"
        )
