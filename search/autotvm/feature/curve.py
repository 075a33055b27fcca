"""Features that do not depend on how many loops a program has: how accesses grow along the nest."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from search.autotvm.feature.touches import TouchingLoop, touching_loops
from tensorir.function import IRModule

Curve: TypeAlias = "Sequence[float]"


def get_buffer_curve_sample_flatten(mod: IRModule, sample_n: int = 20) -> npt.NDArray[np.float32]:
    """Return relations of accesses along the loops around them in one row, float32.

    For the last access to each buffer among those in the deepest loops, by name: how often an
    element is touched as a function of how many are, the other way round, and the iterations as a
    function of the latter and the other way round. All numbers are log2. Each relation is sampled
    at 0, 1, ... `sample_n` - 1, as the value at the last loop not beyond and the distance to it:
    8 * `sample_n` numbers for each access.
    """
    loops = touching_loops(mod)
    row: list[float] = []
    for name in sorted(_innermost(loops)):
        around = [(loop, loop.touches[name]) for loop in loops if name in loop.touches]
        count = sorted([0.0, *(log2(touch.count) for _, touch in around)])
        reuse = sorted([0.0, *(log2(touch.reuse) for _, touch in around)])
        topdown = sorted([0.0, *(log2(loop.topdown) for loop, _ in around)])
        for x, y in ((count, reuse), (reuse, count), (count, topdown), (topdown, count)):
            row += _sampled(x, y, sample_n)
    return np.array(row, np.float32)


def _innermost(loops: Sequence[TouchingLoop]) -> list[str]:
    """Return the accesses in the deepest loops, of several to a buffer the last one."""
    deepest = max((loop.nest_level for loop in loops), default=0)
    chosen: dict[str, str] = {}
    for loop in reversed(loops):
        if loop.nest_level == deepest:
            for name in reversed(loop.touches):
                buffer = name.rpartition("_")[0].partition(".")[0]
                chosen.setdefault(buffer, name)
    return list(chosen.values())


def _sampled(x: Curve, y: Curve, sample_n: int) -> list[float]:
    samples: list[float] = []
    for at in range(sample_n):
        last = max(k for k, knot in enumerate(x) if knot < at + 1e-6)
        samples += [y[last], at - x[last]]
    return samples
