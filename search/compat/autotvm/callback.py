"""Callbacks of tuners, which get each measurement: logs, progress."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import TqdmWarning

from search.compat.autotvm.measure import MeasureInput, MeasureResult
from search.compat.autotvm.record import append_to_file, check_protocol, encode
from search.compat.autotvm.tuning import Callback, Tuner, checked_si_prefix, in_si_unit
from tensorir.paths import PathLike

if TYPE_CHECKING:
    from typing import TextIO

with warnings.catch_warnings():
    # In a notebook without widgets the bar is text; that needs no warning.
    warnings.simplefilter("ignore", TqdmWarning)
    from tqdm.auto import tqdm

logger = logging.getLogger("autotvm")


def log_to_file(file_out: PathLike | TextIO, protocol: str = "json") -> Callback:
    """Append each measurement to a log, one line each; missing directories are created.

    Raises TemplateError for a protocol other than `json`.
    """
    check_protocol(protocol)

    def log(_: Tuner, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        records = zip(inputs, results, strict=True)
        if isinstance(file_out, (str, os.PathLike)):
            append_to_file(file_out, records)
        else:
            file_out.writelines(f"{encode(inp, result)}\n" for inp, result in records)
            file_out.flush()

    if isinstance(file_out, (str, os.PathLike)):
        Path(file_out).parent.mkdir(parents=True, exist_ok=True)
    return log


class ProgressBar:
    """A callback that shows the number of trials out of `total`, and the current and best speed.

    Nothing is shown while the logger `autotvm` logs each trial.
    """

    def __init__(self, total: int, prefix: str = "", si_prefix: str = "G") -> None:
        self._si_prefix = checked_si_prefix(si_prefix)
        silent = logger.isEnabledFor(logging.DEBUG)
        self._bar = tqdm(total=total, desc=prefix.strip() or None, unit="trial", disable=silent)

    def __call__(
        self, tuner: Tuner, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        """Show trials."""
        if results:
            prefix = self._si_prefix
            speed, best = (
                in_si_unit(f, prefix) for f in (tuner.flops(results[-1]), tuner.best_flops)
            )
            text = f"Current/Best: {speed:.2f}/{best:.2f} {prefix.strip()}FLOPS"
            self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(len(inputs))
        if tuner.ttl <= 0:
            self._bar.close()


progress_bar = ProgressBar


class Monitor:
    """A callback that collects the speed and the time of each trial."""

    def __init__(self) -> None:
        self.reset()

    def __call__(
        self, tuner: Tuner, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        """Add trials."""
        self.scores += map(tuner.flops, results)
        self.timestamps += [result.timestamp for result in results]

    def reset(self) -> None:
        """Remove all trials."""
        self.scores: list[float] = []
        self.timestamps: list[float] = []

    def trial_scores(self) -> list[float]:
        """Return the operations per second of each trial, 0 for a failure."""
        return list(self.scores)

    def trial_timestamps(self) -> list[float]:
        """Return the end of each trial, in seconds since 1970."""
        return list(self.timestamps)
