"""The length of programs after inlining."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schedule.sref import StmtSRef
from tensorir.nodes.expr import BufferLoad
from tensorir.rewriting.visit import walk

LONG: Final = 1000
"""Nodes by which a block may grow that reads another one in several places. Machine code computes
what is equal once, but every step before it looks at each copy."""


def stays_short(producer: StmtSRef, consumers: Sequence[StmtSRef]) -> bool:
    """Say whether no consumer is much longer with the value of a producer in place of its loads.

    A chain of blocks that each read the block before twice would double with each inlined block.
    """
    written = {region.buffer for region in producer.block.writes}
    length = sum(1 for _ in walk(producer.block.body))
    for consumer in dict.fromkeys(consumers):
        nodes = walk(consumer.block.body)
        loads = sum(isinstance(node, BufferLoad) and node.buffer in written for node in nodes)
        if loads > 1 and loads * length > LONG:
            return False
    return True
