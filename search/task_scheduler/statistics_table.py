"""The table of all tasks that a search prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from search.task_scheduler.task_record import TaskRecord

_HEADER: Final = (
    "ID",
    "Name",
    "FLOP",
    "Weight",
    "Speed (GFLOPS)",
    "Latency (us)",
    "Weighted Latency (us)",
    "Trials",
    "Done",
)


def statistics_table(tasks: Sequence[TaskRecord]) -> str:
    """Return one row for each task, then the number of trials and the sum of latencies."""
    rows = [_HEADER, *(_row(k, task) for k, task in enumerate(tasks))]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_HEADER))]
    lines = [
        "|".join(f" {cell:>{width}} " for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    rule = "-" * len(lines[0])
    measured = [task for task in tasks if task.best_ms is not None]
    trials = sum(task.trials for task in measured)
    latency = sum((task.best_ms or 0.0) * 1e3 * task.task_weight for task in measured)
    return "\n".join(
        [
            lines[0],
            rule,
            *lines[1:],
            rule,
            f"Total trials: {trials}",
            f"Total latency (us): {latency:.6g}",
        ]
    )


def _row(index: int, task: TaskRecord) -> tuple[str, ...]:
    best, speed = task.best_ms, task.best_gflops
    if best is None or speed is None:
        figures: tuple[str, ...] = ("N/A", "N/A", "N/A")
    else:
        latency = best * 1e3
        figures = (f"{speed:.4f}", f"{latency:.4f}", f"{latency * task.task_weight:.4f}")
    return (
        str(index),
        task.ctx.task_name,
        str(int(task.flop)),
        str(int(task.task_weight)),
        *figures,
        str(task.trials),
        "Y" if task.is_terminated else "",
    )
