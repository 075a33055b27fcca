"""The text that describes a handle: `l4: for j_0 in range(8)`, `b0: block "C"`."""

from __future__ import annotations

from schedule.handles import Handle
from schedule.sref import INLINE_MARK, ROOT_MARK, StmtSRef
from schedule.trace import Trace
from schedule.trace.names import Names
from tensorir.nodes.stmt import Block, For, sequence


def handle_text(handle: Handle, value: StmtSRef | None, trace: Trace) -> str:
    """Return the name of a handle in a trace, and the loop or block that it refers to."""
    name = _name_in(trace, handle)
    return f"{name}: {_meaning(value)}" if name else _meaning(value)


def _name_in(trace: Trace, handle: Handle) -> str:
    names = Names("tensorir")
    for inst in trace.insts:
        for output in inst.outputs:
            name = names.define(output)
            if output is handle:
                return name
    return ""


def _meaning(value: StmtSRef | None) -> str:
    if value is None:
        return "removed"
    if value is INLINE_MARK:
        return "inline into the consumers"
    if value is ROOT_MARK:
        return "leave it at the root"
    if isinstance(value.stmt, Block):
        return f'block "{value.stmt.name_hint}"'
    if isinstance(value.stmt, For):
        return _head(value.stmt)
    by = value.consumed_by.replace("_", "-")
    return f"gone, {by} replaced it" if by else "gone"


def _head(loop: For) -> str:
    """Return the first line of a loop without its colon."""
    return loop.with_(body=sequence([])).script(syntax_sugar=False).splitlines()[-2].rstrip(":")
