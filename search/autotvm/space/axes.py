"""The axes that knobs are defined on: lengths of loops, and the parts that knobs make of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from schedule import LoopRV
from search.autotvm.errors import KnobError
from tensorir.nodes.expr import IntImm, IterVar

if TYPE_CHECKING:
    from search.autotvm.space.knob import KnobSpace


class VirtualAxis(NamedTuple):
    """A loop as a knob sees it: its number of iterations, -1 where that is not known, and name."""

    length: int
    name: str = ""


@dataclass(frozen=True)
class Axis:
    """The part `index` of what the knob `space` splits or reorders: it may go into other knobs."""

    space: KnobSpace[Any]
    index: int


AxisLike: TypeAlias = "int | IntImm | VirtualAxis | Axis | LoopRV | IterVar"
"""A number of iterations, a loop of a schedule, an axis of a `te` operation, a part of a knob."""


def virtual_axis(axis: AxisLike) -> VirtualAxis:
    """Return an axis with the facts that a knob needs; KnobError for anything else."""
    if isinstance(axis, VirtualAxis):
        return axis
    if isinstance(axis, (int, np.integer)) and not isinstance(axis, bool):
        return VirtualAxis(int(axis))
    if isinstance(axis, IntImm):
        return VirtualAxis(axis.value)
    if isinstance(axis, LoopRV):
        schedule = axis.schedule
        if schedule is None:
            raise KnobError(f"the loop {axis!r} belongs to no schedule; give its length")
        loop = schedule.get(axis)
        extent = loop.extent
        return VirtualAxis(extent.value if isinstance(extent, IntImm) else -1, loop.loop_var.name)
    if isinstance(axis, IterVar):
        whole = None if axis.dom is None else axis.dom.extent
        return VirtualAxis(whole.value if isinstance(whole, IntImm) else -1, axis.var.name)
    if isinstance(axis, Axis):
        raise KnobError("the length of what another knob splits varies; split it in that knob")
    raise KnobError(
        f"an axis is a loop, an axis of a te operation or a length, got {type(axis).__name__}: "
        f"{axis!r}"
    )
