"""The rules that inline cheap blocks, and that sample the compute locations of others."""

from __future__ import annotations

from collections.abc import Sequence

from schedule import BlockRV, Schedule
from schedule.analysis.block_kind import (
    complete_violation,
    is_dominant,
    is_spatial,
    output_buffer,
)
from schedule.analysis.dependency import DepKind, dependencies
from schedule.primitives.inline import stays_short
from schedule.sref import StmtSRef, loops_above
from search.schedule_rule.schedule_rule import ScheduleRule, succeeds
from search.space_generator.annotations import AUTO_TENSORIZE, INLINE_RULE, RANDOM_COMPUTE_PRODUCER
from search.space_generator.tiling_needs import access_pattern, has_been_tiled
from tensorir.nodes.expr import Call, Select
from tensorir.nodes.intrin import Op
from tensorir.nodes.node import Node
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import BlockRealize, IfThenElse
from tensorir.rewriting.visit import walk


class AutoInline(ScheduleRule):
    """Inlines a block into its consumers, or into its producer.

    A block is inlined if that is legal, it writes one buffer, it does not have the annotation
    `meta_schedule.inline_rule = "disable"`, and it is cheap to recompute: it has no operator of
    `disallow_op`, no condition (`disallow_if_then_else`), and reads each element at most once
    (`require_injective`), in the order of the written dimensions (`require_ordered`). In a function
    with spatial blocks only, all blocks are inlined, except blocks with a long expression that is
    read in several places: in a chain of blocks that read the previous block twice, the expression
    would double with each block. `inline_const_tensor` allows blocks that read nothing.
    """

    def __init__(
        self,
        into_producer: bool,
        into_consumer: bool,
        inline_const_tensor: bool,
        disallow_if_then_else: bool,
        require_injective: bool,
        require_ordered: bool,
        disallow_op: Sequence[str] | None = None,
    ) -> None:
        self.into_producer = into_producer
        self.into_consumer = into_consumer
        self.inline_const_tensor = inline_const_tensor
        self.disallow_if_then_else = disallow_if_then_else
        self.require_injective = require_injective
        self.require_ordered = require_ordered
        self.disallow_op = frozenset(name.removeprefix("tir.") for name in disallow_op or ())

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Inline the block if that is possible and pays."""
        sref = sch.get_sref(block)
        if sref.parent is None or len(sref.block.writes) != 1:
            return [sch]
        is_constant = self.inline_const_tensor and not sref.block.reads
        if is_constant and _consumers(sch, sref) and succeeds(sch.compute_inline, block):
            return [sch]
        if not self._is_cheap(sch, sref):
            return [sch]
        if sref.block.annotations.get(INLINE_RULE) == "disable":
            return [sch]
        consumers = _consumers(sch, sref) if self.into_consumer else []
        if consumers and stays_short(sref, consumers) and succeeds(sch.compute_inline, block):
            return [sch]
        producer = _plain_producer(sch, sref) if self.into_producer else None
        if producer is not None and stays_short(producer, [sref]):
            succeeds(sch.reverse_compute_inline, block)
        return [sch]

    def _is_cheap(self, sch: Schedule, block: StmtSRef) -> bool:
        blocks = sch.state.blocks(sch.state.func_name_of(block))
        if all(is_spatial(other) for other in blocks):
            return True
        nodes = list(walk(block.block_realize))
        if self.disallow_op and any(_calls_one(node, self.disallow_op) for node in nodes):
            return False
        if self.disallow_if_then_else and any(map(_is_condition, nodes)):
            return False
        if not (self.require_injective or self.require_ordered):
            return True
        for read in block.block.reads:
            pattern = access_pattern(read, block.block.writes[0])
            if pattern is None:
                return False
            if self.require_injective and not pattern.injective:
                return False
            if self.require_ordered and not pattern.ordered:
                return False
        return True


class InlineConstantScalars(ScheduleRule):
    """Inlines a block that reads nothing and writes a scalar."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Inline the block if it is a constant scalar."""
        node = sch.get(block)
        if node.reads or len(node.writes) != 1 or node.writes[0].buffer.shape:
            return [sch]
        if output_buffer(sch.state, sch.get_sref(block)) is None:
            succeeds(sch.compute_inline, block)
        return [sch]


def _consumers(sch: Schedule, block: StmtSRef) -> list[StmtSRef]:
    edges = dependencies(sch.state, sch.state.scope_root(block)).out_of(block)
    return [d.dst for d in edges if d.kind in (DepKind.RAW, DepKind.WAW)]


def _plain_producer(sch: Schedule, block: StmtSRef) -> StmtSRef | None:
    """Return the only producer if it is a complete block without an intrinsic, else None."""
    scope = dependencies(sch.state, sch.state.scope_root(block))
    sources = {d.src for d in scope.edges_to(block) if d.kind in (DepKind.RAW, DepKind.WAW)}
    if len(sources) != 1:
        return None
    (source,) = sources
    is_complete = complete_violation(source, is_dominant(source, scope)) == 0
    return source if is_complete and AUTO_TENSORIZE not in source.block.annotations else None


def _is_condition(node: Node) -> bool:
    if isinstance(node, BlockRealize):
        return not is_const_int(node.predicate, 1)
    return isinstance(node, (IfThenElse, Select)) or _calls_one(node, frozenset({"if_then_else"}))


def _calls_one(node: Node, names: frozenset[str]) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.short_name in names


class RandomComputeLocation(ScheduleRule):
    """Samples the compute location of a block: inlined, at a loop of its consumer, or unchanged."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Move the block, and its producer if the block has `RANDOM_COMPUTE_PRODUCER`."""
        if not _is_free(sch, sch.get_sref(block)):
            return [sch]
        producer: BlockRV | None = None
        if RANDOM_COMPUTE_PRODUCER in sch.get(block).annotations:
            (producer,) = sch.get_producers(block)
            sch.unannotate(block, RANDOM_COMPUTE_PRODUCER)
        _move(sch, block)
        if producer is not None:
            _move(sch, producer)
        return [sch]


def _move(sch: Schedule, block: BlockRV) -> None:
    location = sch.sample_compute_location(block)
    sch.compute_at(block, location, preserve_unit_loops=True)


def _is_free(sch: Schedule, block: StmtSRef) -> bool:
    """Return True if a block below the root has a consumer and shares its loops with no block."""
    if block.parent is None or has_been_tiled(block):
        return False
    root = sch.state.scope_root(block)
    loops = loops_above(block)
    if root.parent is not None or not loops or len(sch.state.child_blocks(loops[0])) != 1:
        return False
    edges = dependencies(sch.state, root).out_of(block)
    return any(d.kind in (DepKind.RAW, DepKind.WAW) for d in edges)
