"""The regions that blocks access, relaxed to a loop or block above them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from schedule.analysis.accesses import accessing
from schedule.analysis.bindings import axis_values, loop_range
from schedule.sref import StmtSRef, path_up
from schedule.state import ScheduleState
from tensorir.arith import (
    Analyzer,
    IntervalSet,
    estimate_region_lower_bound,
    estimate_region_upper_bound,
    eval_set,
)
from tensorir.memory.access import get_block_read_write_region
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.stmt import Block, BlockRealize, For
from tensorir.rewriting.visit import collect_vars, statements, substitute, walk

Box = tuple[IntervalSet, ...]
Region = tuple[Range, ...]

_PLAIN = frozenset({Var, IntImm})
_SCOPE_RANK = {"global": 0, "shared": 1, "warp": 2, "local": 2}
_THREAD_RANK = {"blockIdx": 0, "vthread": 1, "threadIdx": 1}


def bound_region(region: BufferRegion, realize: BlockRealize) -> tuple[Range, ...]:
    """Return a block's region with the axes replaced by their bindings."""
    values = axis_values(realize)
    return tuple(substitute(r, values) for r in region.region)


def path_domain(low: StmtSRef, high: StmtSRef | None, scope: str = "global") -> dict[Var, Range]:
    """Return the ranges of the loops from above `low` up to (not including) `high`.

    The climb ends at the first block. If threads share the storage scope of the buffer, outer loops
    bound to threads are included.
    """
    domain: dict[Var, Range] = {}
    current = low.parent
    while current is not None and current is not high and not current.is_block:
        domain[current.loop.loop_var] = loop_range(current.loop)
        current = current.parent
    if scope != "global":
        for outer in path_up(current):
            if not outer.is_block and _shares(scope, outer.loop):
                domain[outer.loop.loop_var] = loop_range(outer.loop)
    return domain


def _shares(scope: str, loop: For) -> bool:
    """Return True if the threads that a loop is bound to share a storage scope."""
    tag = loop.thread_tag
    kind = scope.split(".", 1)[0]
    if kind == "warp":
        return tag == "threadIdx.x"
    rank = _THREAD_RANK.get(tag.split(".", 1)[0])
    return rank is not None and _SCOPE_RANK.get(kind, 2) <= rank


def is_point(dim: Range) -> bool:
    """Return True if a range is a single index."""
    return type(dim.extent) is IntImm and dim.extent.value == 1


def reads_memory(dim: Range) -> bool:
    """Return True if a range depends on values in memory."""
    ends = [end for end in (dim.min, dim.extent) if type(end) not in _PLAIN]
    return bool(ends) and any(isinstance(node, BufferLoad) for node in accessing(*ends))


def relax(
    region: Sequence[Range],
    domain: Mapping[Var, Range],
    predicate: PrimExpr,
    analyzer: Analyzer,
    *,
    upper: bool,
) -> Box | None:
    """Return the region that is accessed while the loops of `domain` run.

    An upper bound contains all elements that may be accessed. A lower bound contains only elements
    that are surely accessed; it is None if unknown. Bounds do not depend on memory, which may
    change.
    """
    if not upper:
        if any(reads_memory(dim) for dim in region):
            return None
        return estimate_region_lower_bound(region, domain, predicate, analyzer)
    box = estimate_region_upper_bound(region, domain, predicate, analyzer)
    return tuple(
        IntervalSet.everything() if reads_memory(dim) else covered
        for dim, covered in zip(region, box, strict=True)
    )


def relax_by_intervals(
    region: Sequence[Range], domain: Mapping[Var, Range], analyzer: Analyzer
) -> Box:
    """Return a box around a region while the loops run, by interval arithmetic only."""
    sets = {var: IntervalSet.from_range(r) for var, r in domain.items()}
    return tuple(eval_set(r, sets, analyzer) for r in region)


def union(boxes: Iterable[Box], analyzer: Analyzer) -> Box | None:
    """Return the smallest box around several boxes, None for no box."""
    result: Box | None = None
    for box in boxes:
        if result is None:
            result = box
        else:
            result = tuple(a.union(b, analyzer) for a, b in zip(result, box, strict=True))
    return result


def box_of(region: Sequence[Range]) -> Box:
    """Convert a region to a box."""
    return tuple(IntervalSet.from_range(dim) for dim in region)


def region_of(box: Box, buffer: Buffer, analyzer: Analyzer) -> Region:
    """Convert a box to a region of a buffer."""
    return tuple(
        dim.cover_range(Range(extent), analyzer)
        for dim, extent in zip(box, buffer.shape, strict=True)
    )


def bounding_box(regions: Sequence[Sequence[Range] | None], buffer: Buffer) -> Region:
    """Return the smallest box around several parts of a buffer; None entries are skipped."""
    known = [region for region in regions if region is not None]
    if len(known) == 1:
        return tuple(known[0])
    analyzer = Analyzer()
    joined = union(map(box_of, known), analyzer)
    assert joined is not None
    return region_of(joined, buffer, analyzer)


# --------------------------------------------------------------------------------- declared regions


def with_derived_regions(block: Block, visible: Mapping[Var, Buffer]) -> Block:
    """Return a block with the regions of `visible` buffers that its body accesses declared."""
    own = {
        buffer.data
        for node in statements(block)
        if isinstance(node, Block)
        for buffer in (*node.alloc_buffers, *(view.buffer for view in node.match_buffers))
    }
    outside = {var: buffer for var, buffer in visible.items() if var not in own}
    reads, writes = get_block_read_write_region(block, outside)
    return block.with_(reads=reads, writes=writes)


def visible_buffers(state: ScheduleState, scope: StmtSRef) -> dict[Var, Buffer]:
    """Return the buffers that blocks of a scope may access, by pointer."""
    visible = {b.data: b for b in state.func_of(scope).buffer_map.values()}
    for current in path_up(scope):
        if current.is_block:
            visible.update({b.data: b for b in current.block.alloc_buffers})
    for child in statements(scope.block):
        if isinstance(child, Block):
            visible.update({r.buffer.data: r.buffer for r in (*child.reads, *child.writes)})
    return visible


def init_reads(block: Block) -> Sequence[BufferRegion]:
    """Return the regions that the init of a block reads, in terms of the block's axes."""
    if block.init is None or not any(isinstance(node, BufferLoad) for node in walk(block.init)):
        return ()
    known = {r.buffer.data: r.buffer for r in (*block.reads, *block.writes)}
    return get_block_read_write_region(block.with_(body=block.init, init=None), known)[0]


def repeated_init(realize: BlockRealize, loops: Collection[Var]) -> tuple[IterVar, Var] | None:
    """Return a reduction axis and its loop for which an init below spatial `loops` is wrong.

    A loop that drives spatial and reduction axes runs the init once for each step of the reduction.
    That changes the result if the init reads a buffer that it writes. None if there is no such
    axis.
    """
    block = realize.block
    written = {region.buffer for region in block.writes}
    if not any(region.buffer in written for region in init_reads(block)):
        return None
    bound = list(zip(block.iter_vars, realize.iter_values, strict=True))
    spatial = {
        var
        for axis, value in bound
        if axis.iter_type == IterVar.DATA_PAR
        for var in collect_vars(value)
    }
    for axis, value in bound:
        if axis.iter_type == IterVar.COMM_REDUCE:
            for var in collect_vars(value):
                if var in spatial and var in loops:
                    return axis, var
    return None
