"""The part of a buffer that a copy holds, and the check that all of it is surely written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schedule.analysis.bindings import axis_domain, loop_domain
from schedule.analysis.region_cover import clip, written_below
from schedule.analysis.regions import (
    Region,
    bound_region,
    box_of,
    path_domain,
    region_of,
    relax,
    union,
)
from schedule.analysis.sure_writes import holds, surely_written, written_within
from schedule.sref import StmtSRef, loops_above, loops_seen_through
from tensorir.arith import Analyzer
from tensorir.nodes.buffer import Buffer, BufferRegion


def known_around(scope: StmtSRef, location: StmtSRef) -> Analyzer:
    """Return an analyzer with the facts that a region at a place in a scope may depend on."""
    analyzer = Analyzer()
    around = loops_above(location) if location.is_block else [*loops_above(location), location]
    for var, values in loop_domain([*loops_seen_through(scope), *around]).items():
        analyzer.bind(var, values, allow_override=True)
    for axis, values in axis_domain(scope.block.iter_vars).items():
        analyzer.bind(axis, values, allow_override=True)
    return analyzer


def region_read(
    blocks: Iterable[StmtSRef], buffer: Buffer, location: StmtSRef, storage_scope: str
) -> Region | None:
    """Return the smallest known box of a buffer that holds what blocks read below a location.

    None if they do not read it. Threads that share the storage scope count as one.
    """
    regions = [(b, r) for b in blocks for r in b.block.reads if r.buffer is buffer]
    return _around(regions, buffer, location, storage_scope)


def region_written(
    blocks: Iterable[StmtSRef], buffer: Buffer, location: StmtSRef, storage_scope: str
) -> Region | None:
    """Return the box of a buffer that blocks surely write below a location, where it is known."""
    regions = []
    for block in blocks:
        analyzer = Analyzer()
        within = union(written_within(block.block_realize, buffer, {}, analyzer), analyzer)
        if within is not None:
            regions.append((block, BufferRegion(buffer, region_of(within, buffer, analyzer))))
        for region in block.block.writes:
            if region.buffer is buffer:
                surely = surely_written(block.block, region) or region.region
                regions.append((block, BufferRegion(buffer, surely)))
    return _around(regions, buffer, location, storage_scope)


def _around(
    regions: Sequence[tuple[StmtSRef, BufferRegion]],
    buffer: Buffer,
    location: StmtSRef,
    storage_scope: str,
) -> Region | None:
    # Loops of one iteration stay visible in the region, so their ranges are left unsaid.
    analyzer = Analyzer()
    boxes = []
    for block, region in regions:
        realize = block.block_realize
        domain = path_domain(block, location, storage_scope)
        bound = bound_region(region, realize)
        box = relax(bound, domain, realize.predicate, analyzer, upper=True)
        assert box is not None
        boxes.append(box)
    joined = union(boxes, analyzer)
    if joined is None:
        return None
    return region_of(joined, buffer, analyzer)


def is_filled(
    region: Region, buffer: Buffer, location: StmtSRef, writer: StmtSRef, analyzer: Analyzer
) -> bool:
    """Say whether a block surely writes all of a region below a location, conditions aside."""
    written = written_below(location, buffer, [writer], analyzer)
    box = clip(box_of(region), buffer, analyzer)
    return holds(written, box, analyzer)
