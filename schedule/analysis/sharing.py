"""The accesses of a block to buffers, one by one."""

from __future__ import annotations

from dataclasses import dataclass

from schedule.analysis.accesses import is_opaque
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import And, BufferLoad, Call, IntImm, Or, Select, Var
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import Block, BufferStore, For, IfThenElse, While
from tensorir.rewriting.visit import children, walk


@dataclass(frozen=True, slots=True)
class Access:
    """An access of a block to a buffer, in terms of its axes and of variables bound inside."""

    buffer: Buffer
    region: tuple[Range, ...]
    writes: bool
    loops: tuple[tuple[Var, Range], ...] = ()
    """The loops inside of the block around the access."""
    is_sure: bool = True
    """True if the access happens under no condition."""

    def __str__(self) -> str:
        dims = [f"{d.min}" if is_point(d) else f"{d.min}:{d.min + d.extent}" for d in self.region]
        verb = "writes" if self.writes else "reads"
        return f"{verb} {self.buffer.name}[{', '.join(dims) or '()'}]"


def is_point(dim: Range) -> bool:
    """Say whether a range is one index."""
    return type(dim.extent) is IntImm and dim.extent.value == 1


def declared_accesses(block: Block) -> list[Access]:
    """Return the accesses that a block declares."""
    writes = [Access(r.buffer, r.region, True) for r in block.writes]
    return writes + [Access(r.buffer, r.region, False) for r in block.reads]


def accesses_in(block: Block) -> list[Access] | None:
    """Return the loads and stores of a block; None if it touches what it declares otherwise."""
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
