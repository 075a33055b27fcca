"""Timing of sides that compute the same, interleaved, and tables of the times."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import search as ms
from schedule import Schedule
from tensorir.function import IRModule, PrimFunc

PAUSE = 0.1
"""Seconds before a measurement: threads of the side before it may spin for a while."""


@dataclass
class Side:
    """Something that can be timed, and the least seconds of its calls so far."""

    name: str
    run: Callable[[], float]
    seconds: float = float("inf")

    def turn(self) -> None:
        """Time it once more."""
        time.sleep(PAUSE)
        self.seconds = min(self.seconds, self.run())


def in_turns(sides: Sequence[Side], turns: int) -> None:
    """Time all sides one after the other, and so on, another one first each time."""
    for turn in range(turns):
        first = turn % len(sides)
        for side in [*sides[first:], *sides[:first]]:
            side.turn()


def tuned(
    program: IRModule | PrimFunc,
    target: str,
    trials: int,
    *,
    work_dir: Path | None = None,
    seed: int = 1,
    **parts: Any,
) -> Schedule:
    """Return the best schedule of a search; its records are kept in a folder that is given."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = work_dir or scratch
        config = ms.TuneConfig(max_trials_global=trials, num_trials_per_iter=min(trials, 64))
        best = ms.tune_tir(program, target, config, folder, seed=seed, **parts)
    if best is None:
        raise SystemExit(f"none of {trials} trials succeeded; the logs were in {folder}")
    return best


def markdown(rows: Sequence[Sequence[object]]) -> str:
    """Return a table, whose first row has the titles."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(3, *(len(row[k]) for row in cells)) for k in range(len(cells[0]))]
    lines = [
        f"| {' | '.join(c.ljust(w) for c, w in zip(row, widths, strict=True))} |" for row in cells
    ]
    rule = f"| {' | '.join('-' * width for width in widths)} |"
    return "\n".join([lines[0], rule, *lines[1:]])
