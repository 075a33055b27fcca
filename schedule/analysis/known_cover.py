"""The check that a block's reads are covered, without analysis where that is known or plain."""

from __future__ import annotations

from collections.abc import Collection

from schedule.analysis.dependency import BlockScope
from schedule.analysis.region_cover import covers_reads, flow_into
from schedule.analysis.whole_buffer import fills_buffer
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.node import Node

_LIMIT = 128
"""The number of blocks that a schedule remembers; they keep old loop nests in memory."""


def reads_covered(
    state: ScheduleState,
    consumer: StmtSRef,
    graph: BlockScope,
    buffers: Collection[Buffer] | None = None,
) -> bool:
    """Return the answer of `covers_reads` for all reads of a block, or for some buffers alone.

    Producers in other loop nests that fill their buffers settle it. Else it depends on the loop
    nests of the consumer and its producers, and on the loops around their scope. Statements are
    immutable, so if all these are the same objects as before, so is the answer.
    """
    nest = _nest(consumer)
    edges = flow_into(graph, consumer, buffers)
    nests = [_nest(edge.src) for edge in edges]
    if all(
        other is not nest and fills_buffer(edge.src, edge.buffer)
        for edge, other in zip(edges, nests, strict=True)
    ):
        return True
    evidence = [_evidence(nest)]
    for edge, other in zip(edges, nests, strict=True):
        evidence += (_evidence(other), edge.src.block, edge.buffer)
    outer = nest.parent
    while outer is not None:
        if not outer.is_block:
            evidence.append(outer.loop)
        outer = outer.parent
    before, answer = state.covered.get(consumer.block, ([], False))
    if len(before) == len(evidence) and all(a is b for a, b in zip(before, evidence, strict=True)):
        return answer
    answer = covers_reads(state, consumer, graph, buffers)
    if len(state.covered) >= _LIMIT:
        state.covered.clear()
    state.covered[consumer.block] = evidence, answer
    return answer


def _nest(block: StmtSRef) -> StmtSRef:
    """Return the outermost loop around a block in its scope, the block itself if there is none."""
    while block.parent is not None and not block.parent.is_block:
        block = block.parent
    return block


def _evidence(nest: StmtSRef) -> Node:
    return nest.block_realize if nest.is_block else nest.loop
