"""Operands that are blocks and loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from schedule.errors import ArgumentError, TraceError
from schedule.handles import BlockRV, HandleTable, LoopRV
from schedule.operands.operand import Call, Operand, Parameter, ValueText
from schedule.operands.values import is_whole
from tensorir.nodes.buffer import Buffer, BufferRegion
from tensorir.nodes.stmt import Block


class HandleOperand(Operand):
    """A handle of one of some types; the function gets a reference."""

    types: ClassVar[tuple[type, ...]]
    takes_marks: bool = False

    def fits(self, value: Any) -> bool:
        """Return whether a value is such a handle."""
        return isinstance(value, self.types)

    def resolve(self, schedule: HandleTable, method: str, param: Parameter, value: Any) -> Any:
        """Return references; ArgumentError for a compute location mark where a loop is needed."""
        if isinstance(value, tuple):
            return [self.resolve(schedule, method, param, handle) for handle in value]
        if value is None:
            return None
        sref = schedule.get_sref(value)
        if sref.stmt is None and not self.takes_marks:
            reason = "marks a compute location; give a loop of the program"
            raise ArgumentError(method, param.name, reason)
        return sref

    def misfit(self, where: str, value: Any) -> TraceError:
        """Return the error for a value of another type."""
        return TraceError(f"ValueError: {where}: {shown_value(value)} is not a {self.what}")


class BlockOperand(HandleOperand):
    """A block, or its name."""

    types = (BlockRV,)
    what = "block"
    expected = "a BlockRV or the name of a block"
    stub = "BlockRV | str"

    def accept(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return blocks; a list may be empty, and a single block is accepted for a list."""
        if self.many and not isinstance(value, (list, tuple)):
            value = () if value is None else [value]
        return super().accept(call, param, path, value)

    def accept_one(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return a block; a name is looked up."""
        if isinstance(value, str):
            return call.schedule.get_block(value)
        return super().accept_one(call, param, path, value)


@dataclass(frozen=True)
class LoopOperand(HandleOperand):
    """A loop."""

    takes_marks: bool = False
    """It may be the mark "inline" or "root" of a compute location."""

    types = (LoopRV,)
    what = "loop"
    expected = "a LoopRV"
    expected_list = "a list of LoopRVs"
    stub = "LoopRV"


class BlockOrLoopOperand(HandleOperand):
    """A block or a loop."""

    types = (BlockRV, LoopRV)
    what = "block or loop"
    expected = "a BlockRV or LoopRV"
    stub = "BlockRV | LoopRV"


class BlocksOrLoopOperand(HandleOperand):
    """A loop, or a list of blocks."""

    types = (BlockRV, LoopRV)
    what = "loop or list of blocks"
    is_list = True
    stub = "LoopRV | Sequence[BlockRV]"

    def accept(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return the loop or the blocks."""
        if isinstance(value, LoopRV):
            return value
        if not isinstance(value, (list, tuple)):
            call.refuse(path, "a LoopRV or a list of BlockRVs", value)
        return BlockOperand(many=True).accept(call, param, path, value)


def shown_value(value: Any) -> str:
    """Return the text of a misplaced value in an error."""
    if isinstance(value, (BlockRV, LoopRV)):
        return "a block" if isinstance(value, BlockRV) else "a loop"
    return repr(value)


# ------------------------------------------------------------------------------------------ buffers


class BufferOperand(Operand):
    """One of the regions of the block: `("read", index)` or `("write", index)`.

    A user may also give one index that counts reads and then writes, the buffer, or its name. A
    trace stores the index, and 0 for a read or 1 for a written region.
    """

    varies = False
    width = 2
    stub = "tuple[str, int] | int | str | Buffer"

    def accept(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return side and index."""
        if isinstance(value, (list, tuple)) and len(value) == 2 and value[0] in ("read", "write"):
            side, index = value
            count = len(regions_of(call.block(), side))
            if type(index) is not int or not 0 <= index < count:
                call.reject(path, f"is {value!r}, but the block has {count} {side} region(s)")
            return (side, index)
        if type(value) is int:
            block = call.block()
            if not 0 <= value < len(block.reads) + len(block.writes):
                call.reject(
                    path,
                    f"is {value}, but the block has {len(block.reads)} read region(s) "
                    f"followed by {len(block.writes)} write region(s)",
                )
            written = value - len(block.reads)
            return ("read", value) if written < 0 else ("write", written)
        return _find_buffer(call, path, value)

    def stored(self, value: Any) -> list[Any]:
        """Return index and side."""
        return [value[1], 0 if value[0] == "read" else 1]

    def taken(self, param: Parameter, entries: list[Any]) -> Any:
        """Return side and index."""
        if type(entries[0]) is not int or entries[1] not in (0, 1):
            raise TypeError(
                f"`{param.name}` is {entries[:2]!r}; write a buffer as its index, and 0 if it is "
                "read or 1 if it is written"
            )
        return ("write" if entries.pop(1) else "read", entries.pop(0))

    def text(self, param: Parameter, value: Any, names: ValueText) -> str:
        """Return the pair as Python."""
        return f'("{value[0]}", {value[1]})'


class BufferSideOperand(Operand):
    """`"read"` or `"write"`, stored as 0 or 1."""

    varies = False
    stub = "str"

    def accept(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return a side."""
        if not isinstance(value, str):
            call.refuse(path, "'read' or 'write'", value)
        return value

    def stored(self, value: Any) -> list[Any]:
        """Return the side as a flag."""
        return [0 if value == "read" else 1]

    def taken(self, param: Parameter, entries: list[Any]) -> Any:
        """Return the side."""
        return "write" if int(entries.pop(0)) else "read"


@dataclass(frozen=True)
class BufferIndexOperand(Operand):
    """The index of a buffer in the read regions of the block, or in its written regions."""

    side: str = ""
    """`read` or `write`."""

    varies = False
    what = "whole number"
    stub = "int | str | Buffer"

    def accept(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return the index; a buffer or its name is looked up."""
        if type(value) is int:
            return value
        side, index = _find_buffer(call, path, value)
        if side != self.side:
            call.reject(
                path,
                f"names a buffer that the block {side}s, but the primitive needs a buffer that it "
                f"{self.side}s",
            )
        return index

    def fits(self, value: Any) -> bool:
        """Return whether a value is an index."""
        return is_whole(value)


def regions_of(block: Block, side: str) -> Sequence[BufferRegion]:
    """Return the regions that a block reads or writes."""
    return block.reads if side == "read" else block.writes


def _find_buffer(call: Call, path: str, value: Any) -> tuple[str, int]:
    """Return the side and index of a buffer given by name or object; writes win over reads."""
    if not isinstance(value, (str, Buffer)):
        call.refuse(path, "an index, a buffer or the name of one", value)
    block = call.block()
    for side in ("write", "read"):
        found = [
            k
            for k, region in enumerate(regions_of(block, side))
            if region.buffer is value or region.buffer.name == value
        ]
        if len(found) > 1:
            call.reject(
                path,
                f"is ambiguous, the block {side}s {len(found)} buffers called {value!r}; "
                "give its index",
            )
        if found:
            return side, found[0]
    names = sorted({region.buffer.name for region in (*block.reads, *block.writes)})
    wanted = value if isinstance(value, str) else value.name
    call.reject(path, f'names "{wanted}", but block "{block.name_hint}" touches only {names}')
