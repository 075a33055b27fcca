"""The measurements of the suite: ratios of sides, curves of searches, tables and a JSON file."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from itertools import accumulate, chain
from pathlib import Path
from typing import Self

from benchmarks.side_by_side import markdown

PEAK = "GFLOPS at most"
"""The key of the peak in the description of a machine."""
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Result:
    """A program tuned by one side with one seed. Times are in seconds."""

    side: str
    program: str
    seed: int
    trials: int
    tuning: float = 0.0
    """The seconds of tuning; 0 for a side that does not tune, and after an error."""
    kernel: float = 0.0
    """The median time of a call; 0 after an error."""
    trial_seconds: tuple[float, ...] = ()
    """The time of each trial, in the order of measurement."""
    error: str | None = None
    """The cause of missing times."""

    @property
    def best_so_far(self) -> list[float]:
        return list(accumulate(self.trial_seconds, min))

    def share_after(self, trials: int) -> float:
        """Return the speed that the first `trials` reached, as a share of the last one's."""
        best = self.best_so_far
        return best[-1] / best[min(trials, len(best)) - 1]


@dataclass
class Results:
    """All results of a run. Others are compared with the first of `sides`."""

    sides: list[str]
    machine: dict[str, str]
    results: list[Result] = field(default_factory=list)

    @property
    def programs(self) -> list[str]:
        return list(dict.fromkeys(r.program for r in self.results))

    def of(self, side: str, program: str) -> list[Result]:
        """Return the results that have times, in the order of their seeds."""
        found = [r for r in self.results if (r.side, r.program) == (side, program)]
        return sorted((r for r in found if r.error is None), key=lambda r: r.seed)

    def ratio(self, other: str, program: str, value: Callable[[Result], float]) -> float | None:
        """Return the first side's value over another's: their geometric mean over the seeds.

        None if no seed has both, or if one of them is 0.
        """
        theirs = {r.seed: value(r) for r in self.of(other, program)}
        ratios = [
            value(ours) / theirs[ours.seed]
            for ours in self.of(self.sides[0], program)
            if theirs.get(ours.seed) and value(ours)
        ]
        return statistics.geometric_mean(ratios) if ratios else None

    def mean_ratio(self, other: str, value: Callable[[Result], float]) -> float | None:
        """Return the geometric mean of a ratio over the programs that have one."""
        ratios = [self.ratio(other, program, value) for program in self.programs]
        known = [ratio for ratio in ratios if ratio is not None]
        return statistics.geometric_mean(known) if known else None

    def total_ratio(self, other: str) -> float | None:
        """Return the ratio of the summed tuning times of programs that both sides tuned."""
        ours = theirs = 0.0
        for program in self.programs:
            there = {r.seed: r.tuning for r in self.of(other, program)}
            both = [r for r in self.of(self.sides[0], program) if r.seed in there]
            ours += sum(r.tuning for r in both)
            theirs += sum(there[r.seed] for r in both)
        return ours / theirs if ours and theirs else None

    def save(self, path: Path) -> None:
        data = {
            "machine": self.machine,
            "sides": self.sides,
            "results": [asdict(result) for result in self.results],
        }
        path.write_text(json.dumps(data, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        data = json.loads(path.read_text())
        results = [
            Result(**{**r, "trial_seconds": tuple(r["trial_seconds"])}) for r in data["results"]
        ]
        return cls(data["sides"], data["machine"], results)

    def table(self) -> str:
        """Return the times of each program and, in brackets, ratios, as a Markdown table."""
        first, *others = self.sides
        heads = [[f"{side}: tuning s", "kernel us"] for side in self.sides]
        rows = [["program", *chain.from_iterable(heads)]]
        for program in self.programs:
            row = [program, *self._times(first, program)]
            for other in others:
                ratios = [self.ratio(other, program, value) for value in (_tuning, _kernel)]
                row += map(_with_ratio, self._times(other, program), ratios)
            rows.append(row)
        means, totals = ["geometric mean", "", ""], ["all together", self._total(first), ""]
        for other in others:
            means += [_with_ratio("", self.mean_ratio(other, v)) for v in (_tuning, _kernel)]
            totals += [_with_ratio(self._total(other), self.total_ratio(other)), ""]
        return markdown([*rows, means, totals])

    def best_peers(self) -> str:
        """Return how many times as fast the first side is as the fastest peer, as a table.

        Versions of this project are no peers. Empty if there are none.
        """
        first, *rest = self.sides
        others = [side for side in rest if not side.startswith(("here ", "before "))]
        rows = [["program", first, "fastest peer", "kernel us", "times as fast"]]
        ratios = []
        for program in self.programs:
            ours = [r.kernel for r in self.of(first, program)]
            found = [(r.kernel, r.side) for other in others for r in self.of(other, program)]
            if ours and found:
                kernel, side = min(found)
                ratios.append(kernel / statistics.geometric_mean(ours))
                us = [f"{1e6 * t:.1f}" for t in (statistics.geometric_mean(ours), kernel)]
                rows.append([program, us[0], side, us[1], f"{ratios[-1]:.2f}"])
        if not ratios:
            return ""
        mean, least = statistics.geometric_mean(ratios), min(ratios)
        rows.append(["geometric mean (least)", "", "", "", f"{mean:.2f} ({least:.2f})"])
        return markdown(rows)

    def curves(self) -> str:
        """Return how much of its final speed each search had after some trials, as a table."""
        searches = [r for r in self.results if r.error is None and r.trial_seconds]
        if not searches:
            return ""
        most = max(len(r.trial_seconds) for r in searches)
        steps = sorted({*(2**k for k in range(most.bit_length())), most})
        rows = [["program", "side", *(str(step) for step in steps), "best so far"]]
        for r in searches:
            shares = [r.share_after(step) for step in steps if step <= len(r.trial_seconds)]
            cells = [f"{share:.2f}" for share in shares] + [""] * (len(steps) - len(shares))
            rows.append([r.program, r.side, *cells, sparkline(shares)])
        return markdown(rows)

    def errors(self) -> list[str]:
        return [f"{r.program}, {r.side}: {r.error}" for r in self.results if r.error is not None]

    def _times(self, side: str, program: str) -> list[str]:
        found = self.of(side, program)
        if not found:
            return ["-", "-"]
        kernel = statistics.geometric_mean([r.kernel for r in found])
        return [f"{statistics.fmean(r.tuning for r in found):.1f}", f"{kernel * 1e6:.1f}"]

    def _total(self, side: str) -> str:
        tunings = [r.tuning for r in self.results if r.side == side and r.error is None]
        return f"{sum(tunings):.1f}" if tunings else "-"


def _tuning(result: Result) -> float:
    return result.tuning


def _kernel(result: Result) -> float:
    return result.kernel


def sparkline(shares: Iterable[float]) -> str:
    """Return numbers between 0 and 1 as bars."""
    return "".join(_BARS[min(int(share * len(_BARS)), len(_BARS) - 1)] for share in shares)


def _with_ratio(text: str, ratio: float | None) -> str:
    return text if ratio is None else f"{text} ({ratio:.3f})".strip()
