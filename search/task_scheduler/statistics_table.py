"""The table of all tasks that a search prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from search.task_scheduler.task_record import TaskRecord
from tensorir.text_table import aligned

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
    heading, *lines = aligned(rows, _HEADER, " | ").split("\n")
    width = len(heading)
    rule = "-" * (width + 2)
    measured = [task for task in tasks if task.best_ms is not None]
    trials = sum(task.trials for task in measured)
    latency = sum((task.best_ms or 0.0) * 1e3 * task.task_weight for task in measured)
    return "\n".join(
        [
            f" {heading} ",
            rule,
            *(f" {line:<{width}} " for line in lines),
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
