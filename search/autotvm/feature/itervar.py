"""The features of AutoTVM's cost model: a few numbers for each loop, and for what it touches."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from search.autotvm.feature.touches import LOOP_KINDS, TouchingLoop, touching_loops
from tensorir.function import IRModule


def get_itervar_feature(mod: IRModule, take_log: bool = False) -> list[list[Any]]:
    """Return for each loop of a scheduled program its features, by name, outermost first.

    A loop is a list of rows that begin with a name: `_itervar_` and the loop variable; `_attr_`
    with length, depth, iterations of it and around it, of it and under it, and a one-hot of how it
    runs (`LOOP_KINDS`); `_arith_` with the additions, multiplications and divisions of floats
    directly under it; then for each access under it, by name: stride, modulus, elements touched,
    times each is, and the latter two of parallel loops. With `take_log`, numbers are
    sign(x) * log2(1 + |x|), but for the one-hot.
    """

    def scaled(values: list[float]) -> list[float]:
        return _log(values).tolist() if take_log else values

    return [
        [
            ["_itervar_", loop.name],
            ["_attr_", *scaled(_shape(loop)), *_kind(loop)],
            ["_arith_", *scaled(_arithmetic(loop))],
            *([name, *scaled(touch.as_row())] for name, touch in sorted(loop.touches.items())),
        ]
        for loop in touching_loops(mod)
    ]


def get_itervar_feature_flatten(mod: IRModule, take_log: bool = True) -> npt.NDArray[np.float32]:
    """Return the features of all loops in one row, float32; its length is that of the program."""
    row: list[float] = []
    for _, attributes, *rest in get_itervar_feature(mod, take_log):
        row += attributes[1:]
        for numbers in rest:
            row += numbers[1:]
    return np.array(row, np.float32)


def _shape(loop: TouchingLoop) -> list[float]:
    return [loop.length, loop.nest_level, loop.topdown, loop.bottomup]


def _kind(loop: TouchingLoop) -> list[float]:
    return [float(loop.kind == kind) for kind in LOOP_KINDS]


def _arithmetic(loop: TouchingLoop) -> list[float]:
    return [loop.additions, loop.multiplications, loop.divisions]


def _log(values: list[float]) -> npt.NDArray[np.float64]:
    numbers = np.asarray(values, np.float64)
    logs: npt.NDArray[np.float64] = np.sign(numbers) * np.log2(1 + np.abs(numbers))
    return logs
