"""Operands that are blocks and loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from schedule.errors import ArgumentError, TraceError
from schedule.handles import BlockRV, LoopRV
from schedule.operands.operand import Call, Operand, Parameter

if TYPE_CHECKING:
    from schedule.schedule import Schedule


class HandleOperand(Operand):
    """A handle of one of some types; the function gets a reference."""

    types: ClassVar[tuple[type, ...]]
    takes_marks: bool = False

    def fits(self, value: Any) -> bool:
        """Say whether a value is such a handle."""
        return isinstance(value, self.types)

    def resolve(self, schedule: Schedule, method: str, param: Parameter, value: Any) -> Any:
        """Return references; ArgumentError for a mark of a place where there must be a loop."""
        if isinstance(value, tuple):
            return [self.resolve(schedule, method, param, handle) for handle in value]
        if value is None:
            return None
        sref = schedule.get_sref(value)
        if sref.stmt is None and not self.takes_marks:
            reason = "is a mark of a compute location; give a loop of the program"
            raise ArgumentError(method, param.name, reason)
        return sref

    def misfit(self, where: str, value: Any) -> TraceError:
        """Return the error for something else."""
        return TraceError(f"ValueError: {where}: {shown_value(value)} is no {self.what}")


class BlockOperand(HandleOperand):
    """A block, or its name."""

    types = (BlockRV,)
    what = "block"
    expected = "a BlockRV or the name of a block"
    stub = "BlockRV | str"

    def accept(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return blocks; where several may be given, one or none may be, too."""
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
