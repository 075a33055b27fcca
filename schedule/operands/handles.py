"""Operands that are blocks and loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from schedule.errors import ArgumentError, TraceError
from schedule.handles import BlockRV, LoopRV
from schedule.operands.operand import Call, Operand, Parameter, plain

if TYPE_CHECKING:
    from schedule.schedule import Schedule


class HandleOperand(Operand):
    """A handle of one of some types; the function gets a reference."""

    types: ClassVar[tuple[type, ...]]
    what: ClassVar[str]
    """What it is, in an error of a trace."""
    takes_list: ClassVar[bool] = False
    """There may be a list of handles in the place of one."""
    takes_marks: bool = False

    def accept_one(self, call: Call, param: Parameter, path: str, value: Any) -> Any:
        """Return a handle; refuse one of another type."""
        if not isinstance(value, self.types):
            call.refuse(path, self.expected, value)
        return value

    def resolve(self, schedule: Schedule, method: str, param: Parameter, value: Any) -> Any:
        """Return references; ArgumentError for a mark of a place where there must be a loop."""
        found = super().resolve(schedule, method, param, value)
        if not self.takes_marks:
            for sref in found if isinstance(found, list) else (found,):
                if sref is not None and sref.stmt is None:
                    reason = "is a mark of a compute location; give a loop of the program"
                    raise ArgumentError(method, param.name, reason)
        return found

    def checked(self, param: Parameter, value: Any, known: Mapping[str, Any], where: str) -> Any:
        """Return handles; TraceError for anything else."""
        value = plain(value)
        listed = self.many or param.variadic or self.takes_list
        items = value if listed and isinstance(value, tuple) else [value]
        if not (self.many and value is None) and not all(isinstance(v, self.types) for v in items):
            raise TraceError(f"ValueError: {where}: {shown_value(value)} is no {self.what}")
        return value


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
        """Return a block; one that is named is looked up."""
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
    takes_list = True
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
