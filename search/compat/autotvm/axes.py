"""Axes of knobs: loops, lengths, and the parts that other knobs give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from schedule import LoopRV
from search.compat.autotvm.errors import KnobError
from tensorir.nodes.expr import IntImm, IterVar


class VirtualAxis(NamedTuple):
    """A loop as a knob sees it: its number of iterations, -1 if that is unknown, and its name."""

    length: int
    name: str = ""


@dataclass(frozen=True)
class Axis:
    """The part `index` of what the knob `space` splits or reorders; other knobs accept it."""

    space: object
    index: int


AxisLike: TypeAlias = "int | IntImm | VirtualAxis | Axis | LoopRV | IterVar"
"""A number of iterations, a loop of a schedule, an axis of a `te` operation, a part of a knob."""


def virtual_axis(axis: AxisLike) -> VirtualAxis:
    """Return the length and the name of an axis; KnobError for anything else."""
    if isinstance(axis, VirtualAxis):
        return axis
    if isinstance(axis, (int, np.integer)) and not isinstance(axis, bool):
        return VirtualAxis(int(axis))
    if isinstance(axis, IntImm):
        return VirtualAxis(axis.value)
    if isinstance(axis, LoopRV):
        if axis.schedule is None:
            raise KnobError(f"the loop {axis!r} belongs to no schedule; give its length")
        loop = axis.schedule.get(axis)
        return VirtualAxis(_constant(loop.extent), loop.loop_var.name)
    if isinstance(axis, IterVar):
        return VirtualAxis(_constant(None if axis.dom is None else axis.dom.extent), axis.var.name)
    if isinstance(axis, Axis):
        raise KnobError("the length of what another knob splits varies; split it in that knob")
    raise KnobError(
        f"an axis is a loop, an axis of a te operation or a length, got {type(axis).__name__}: "
        f"{axis!r}"
    )


def _constant(extent: object) -> int:
    return extent.value if isinstance(extent, IntImm) else -1
