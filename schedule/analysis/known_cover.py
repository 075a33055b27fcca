"""Whether a block's reads are covered, not worked out again where the program stayed the same."""

from __future__ import annotations

from schedule.analysis.dependency import BlockScope, DepKind
from schedule.analysis.region_cover import covers_reads
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.node import Node
from tensorir.stmt import Stmt

_LIMIT = 128
"""How many blocks a schedule remembers; what it remembers keeps old loop nests in memory."""


def reads_covered(state: ScheduleState, consumer: StmtSRef, graph: BlockScope) -> bool:
    """Return what `covers_reads` says.

    That depends on the loop nests of the consumer and its producers and on the loops around their
    scope. Statements are immutable, so if all are the same objects, the answer is the same.
    """
    evidence: list[Node] = [_nest(consumer)]
    for edge in graph.into(consumer):
        if edge.kind is DepKind.RAW:
            evidence += (_nest(edge.src), edge.src.block, edge.buffer)
    outer = _top(consumer).parent
    while outer is not None:
        if not outer.is_block:
            evidence.append(outer.loop)
        outer = outer.parent
    before, answer = state.covered.get(consumer.block, ([], False))
    if len(before) == len(evidence) and all(a is b for a, b in zip(before, evidence, strict=True)):
        return answer
    answer = covers_reads(state, consumer, graph)
    if len(state.covered) >= _LIMIT:
        state.covered.clear()
    state.covered[consumer.block] = evidence, answer
    return answer


def _top(block: StmtSRef) -> StmtSRef:
    """Return the outermost loop around a block in its scope, the block itself if there is none."""
    top = block
    while top.parent is not None and not top.parent.is_block:
        top = top.parent
    return top


def _nest(block: StmtSRef) -> Stmt:
    top = _top(block)
    return top.block_realize if top.is_block else top.loop
