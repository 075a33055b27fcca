"""The check that the regions which a block reads were written by blocks before it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from schedule.analysis.bindings import (
    analyzer_with_ranges,
    at_first_step,
    divided_by_use,
    loop_domain,
    reduction_loops,
    without_known,
    without_variables,
)
from schedule.analysis.dependency import BlockScope, Dependency, DepKind
from schedule.analysis.iteration_cover import runs_everywhere
from schedule.analysis.regions import Box, bound_region, path_domain, relax
from schedule.analysis.sure_writes import holds, surely_written, written_within
from schedule.analysis.surroundings import guards
from schedule.sref import StmtSRef, loops_above, lowest_common_ancestor
from schedule.state import ScheduleState
from tensorir.arith import Analyzer, IntervalSet
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import TRUE, const, is_const_int, logical_and, max_, min_
from tensorir.nodes.stmt import Block, BufferStore


def reads_covered(
    state: ScheduleState,
    consumer: StmtSRef,
    graph: BlockScope,
    buffers: Collection[Buffer] | None = None,
) -> bool:
    """Return the result of `covers_reads`, for all reads of a block or for some buffers only.

    If producers in other loop nests fill the whole buffers, no region is computed.
    """
    nest = _nest(consumer)
    return all(
        _nest(edge.src) is not nest and fills_buffer(edge.src, edge.buffer)
        for edge in flow_into(graph, consumer, buffers)
    ) or covers_reads(state, consumer, graph, buffers)


def _nest(block: StmtSRef) -> StmtSRef:
    """Return the outermost loop around a block in its scope, the block itself if there is none."""
    while block.parent is not None and not block.parent.is_block:
        block = block.parent
    return block


def covers_reads(
    state: ScheduleState,
    consumer: StmtSRef,
    graph: BlockScope,
    buffers: Collection[Buffer] | None = None,
    among: Collection[StmtSRef] | None = None,
) -> bool:
    """Return True if producers surely write every part of a buffer that `consumer` reads.

    With `buffers`, only reads of these buffers are checked. With `among`, only these blocks count
    as producers, and there must be one.

    For each group of producers that meet the consumer at one loop, the region that they surely
    write below that loop is compared with the region that the consumer may read there.
    """
    groups: dict[StmtSRef, dict[Buffer, list[StmtSRef]]] = defaultdict(dict)
    edges = flow_into(graph, consumer, buffers)
    if among is not None:
        edges = [edge for edge in edges if edge.src in among]
        if not edges:
            return False
    for edge in edges:
        meeting = lowest_common_ancestor([edge.src, consumer])
        groups[meeting].setdefault(edge.buffer, []).append(edge.src)
    for meeting, by_buffer in groups.items():
        outer = loops_above(meeting) if meeting.is_block else [*loops_above(meeting), meeting]
        analyzer = analyzer_with_ranges(loop_domain(outer))
        # Nothing has to be written where the consumer does not run.
        inner = path_domain(consumer, meeting)
        with analyzer.constraint_scope(without_variables(consumer.block_realize.predicate, inner)):
            for buffer, producers in by_buffer.items():
                # A producer counts if no condition may skip it where the consumer runs.
                given = guards(consumer, meeting)
                sure = [p for p in producers if all(g in given for g in guards(p, meeting))]
                written = written_below(meeting, buffer, sure, analyzer)
                for region in consumer.block.reads:
                    if region.buffer is buffer and not holds(
                        written, _possibly_read(region, consumer, meeting, analyzer), analyzer
                    ):
                        return False
    return True


def fills_buffer(block: StmtSRef, buffer: Buffer) -> bool:
    """Return True if the loops around a block in its scope surely write a whole buffer.

    The test is conservative: it accepts only a single store at the block's axes, whose domains are
    the buffer's dimensions.
    """
    return _stores_everything(block.block, buffer) and runs_everywhere(block)


def _stores_everything(block: Block, buffer: Buffer) -> bool:
    """Return True if the instances of a block together store every element of a buffer."""
    store = block.body
    if type(store) is not BufferStore or store.buffer is not buffer or store.predicate is not None:
        return False
    domains = {axis.var: axis.dom for axis in block.iter_vars}
    for index, size in zip(store.indices, buffer.shape, strict=True):
        if type(size) is not IntImm:
            return False
        if size.value == 1 and is_const_int(index, 0):
            continue
        # The axis is removed from the table, so that a second index at the same axis is rejected.
        domain = domains.pop(index, None) if type(index) is Var else None
        if not _ends_at_count(domain, size.value):
            return False
    return True


def _ends_at_count(domain: Range | None, count: int) -> bool:
    return domain is not None and is_const_int(domain.min, 0) and is_const_int(domain.extent, count)


def flow_into(
    graph: BlockScope, consumer: StmtSRef, buffers: Collection[Buffer] | None = None
) -> list[Dependency]:
    """Return the edges from the producers of the buffers that a block reads, or of some of them."""
    return [
        edge
        for edge in graph.edges_to(consumer)
        if edge.kind is DepKind.RAW and (buffers is None or edge.buffer in buffers)
    ]


def written_below(
    meeting: StmtSRef, buffer: Buffer, producers: list[StmtSRef], analyzer: Analyzer
) -> Box | None:
    """Return a box of `buffer` that the producers fill below `meeting`, None if none is known."""
    boxes: list[Box] = []
    for producer in producers:
        realize = producer.block_realize
        domain = path_domain(producer, meeting, buffer.scope())
        within = written_within(realize, buffer, domain, analyzer)
        boxes += [clip(box, buffer, analyzer) for box in within]
        for region in producer.block.writes:
            if region.buffer is buffer:
                surely = surely_written(producer.block, region)
                if surely is None:
                    continue
                bound = bound_region(BufferRegion(buffer, surely), realize)
                box = _written_box(bound, domain, realize.predicate, analyzer)
                if box is None:
                    limits = _conjuncts_beyond_bounds(bound, buffer, realize.predicate, analyzer)
                    box = _written_box(bound, domain, limits, analyzer)
                if box is None and producer.block.init is not None:
                    first = at_first_step(realize.predicate, reduction_loops(producer))
                    # Conditions on whole tiles, such as `k // 16 <= i // 8`, then always hold.
                    first = analyzer_with_ranges(domain).simplify(first)
                    box = _written_box(bound, domain, first, analyzer)
                if box is not None:
                    boxes.append(clip(box, buffer, analyzer))
    if not boxes:
        return None
    return _join(boxes, analyzer)


def _written_box(
    region: Sequence[Range], domain: Mapping[Var, Range], predicate: PrimExpr, analyzer: Analyzer
) -> Box | None:
    """Return the box that is written under a predicate, None if no box is known."""
    fixed, varying = divided_by_use(predicate, domain)
    if not analyzer.can_prove(fixed):
        return None
    return relax(region, domain, varying, analyzer, upper=False)


def _conjuncts_beyond_bounds(
    region: Sequence[Range], buffer: Buffer, predicate: PrimExpr, analyzer: Analyzer
) -> PrimExpr:
    """Return the conjuncts of a predicate that do more than keep accesses inside the buffer.

    Without the other conjuncts, the written box clipped to the buffer is the same.
    """
    inside: PrimExpr = TRUE
    for dim, extent in zip(region, buffer.shape, strict=True):
        inside = logical_and(inside, logical_and(dim.min >= 0, dim.min < extent))
    with analyzer.constraint_scope(inside):
        return without_known(predicate, analyzer)


def _possibly_read(
    region: BufferRegion, consumer: StmtSRef, meeting: StmtSRef, analyzer: Analyzer
) -> Box | None:
    """Return a box around all elements that the consumer reads in `region` below `meeting`."""
    realize = consumer.block_realize
    domain = path_domain(consumer, meeting, region.buffer.scope())
    bound = bound_region(region, realize)
    # Split and fuse leave terms such as `k % 8` in predicates where `k` is below 8.
    predicate = analyzer_with_ranges(domain).simplify(realize.predicate)
    box = relax(bound, domain, predicate, analyzer, upper=True)
    return None if box is None else clip(box, region.buffer, analyzer)


def clip(box: Box, buffer: Buffer, analyzer: Analyzer) -> Box:
    """Return the part of a box that lies inside the buffer.

    Ends that are provably inside keep their nodes, as `holds` compares nodes by identity first.
    """
    clipped = []
    for dim, extent in zip(box, buffer.shape, strict=True):
        low, high, first = dim.min_value, dim.max_value, const(0, extent.dtype)
        if low is None or high is None:
            low, high = first, extent - 1
        elif type(low) is IntImm and type(high) is IntImm and type(extent) is IntImm:
            low = low if low.value >= 0 else first
            high = high if high.value < extent.value else extent - 1
        else:
            if not analyzer.can_prove_greater_equal(low, 0):
                low = max_(low, first)
            if not analyzer.can_prove(high < extent):
                high = min_(high, extent - 1)
        clipped.append(IntervalSet(low, high))
    return tuple(clipped)


def _join(boxes: list[Box], analyzer: Analyzer) -> Box:
    """Return a box that several boxes fill together without a gap.

    Boxes join if they differ in at most one dimension and touch or overlap there; other boxes are
    left out.
    """
    joined = boxes[0]
    for box in boxes[1:]:
        differing = [
            k
            for k, (a, b) in enumerate(zip(joined, box, strict=True))
            if not (
                analyzer.can_prove_equal(a.min_value, b.min_value)
                and analyzer.can_prove_equal(a.max_value, b.max_value)
            )
        ]
        if len(differing) != 1:
            continue
        k = differing[0]
        a, b = joined[k], box[k]
        touch = analyzer.can_prove(b.min_value <= a.max_value + 1) and analyzer.can_prove(
            a.min_value <= b.max_value + 1
        )
        if touch:
            merged = IntervalSet(
                analyzer.simplify(min_(a.min_value, b.min_value)),
                analyzer.simplify(max_(a.max_value, b.max_value)),
            )
            joined = (*joined[:k], merged, *joined[k + 1 :])
    return joined
