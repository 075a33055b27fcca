"""The explanation of a log: the best, failures, what matters, where time went, what to try."""

from __future__ import annotations

import html
import os
import textwrap
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from search.errors import TuningError
from search.reports.advice import Advice, advice
from search.reports.cost_curve import HEADINGS
from search.reports.log_format import ERROR_MEANINGS, MOST_PROGRAMS, Field, Log, LogFormat, utc
from search.reports.report import RunReport
from search.reports.table import LogTable
from search.reports.tasks import failures_of
from search.reports.trial import NO_ERROR, Trial
from tensorir.paths import as_path
from tensorir.text_table import aligned, html_table

if TYPE_CHECKING:
    from numpy.typing import NDArray


Rows = Iterator[tuple[str, ...]]
"""The rows of a table; the first one is the heading."""

_FORMATS: Final = (
    "search.compat.auto_scheduler.explain",
    "search.compat.autotvm.log_format",
    "search.reports.run_directory",
)
"""The modules that define the known formats; they are loaded when they are needed."""
_LONGEST: Final = 50
_WIDEST: Final = 76
_SHARES: Final = (8, 4, 2, 1)
_MOST_FAILURES: Final = 5


class LogExplanation:
    """The result of `explain`; it prints, and a notebook shows tables.

    The influence of a knob or a resource is the fraction of the variance of log(time) that its
    values explain, one column at a time (see `Explained`), with an interval of 95 %; few trials
    give no result. A search tries good values more often than others, and some values only
    together, so two columns may explain the same differences.
    """

    def __init__(self, path: str | os.PathLike[str], log: Log) -> None:
        self.path = path
        self.fields = tuple(log.fields)
        """The fields of the line of the best trial."""
        self.left_out = log.left_out
        """The number of invalid lines."""
        self.reports = tuple(log.reports)
        """The reports of tasks at the ends of runs."""
        self._table = LogTable(log.trials, log.reports)
        self.parts = {label: self._table.of_task(label) for label in self._table.tasks}

    def table(self) -> LogTable:
        """Return the trials: a row for each, with knobs, resources and costs."""
        return self._table

    def plot(self, task: str | int = 0) -> NDArray[Any]:
        """Draw progress, errors, time, and the cost against each knob; return the axes."""
        from search.reports.plot import overview  # noqa: PLC0415 - pictures are optional

        return overview(self._table.of_task(task))

    # --------------------------------------------------------------------------------------- parts

    @property
    def heading(self) -> str:
        """The numbers of measurements and tasks in the log, in a sentence."""
        times = self._table.column("time")
        count, tasks = len(self._table), len(self._table.tasks)
        return (
            f"{os.fspath(self.path)}: {count} measurement{'s' * (count != 1)} of {tasks} "
            f"task{'s' * (tasks != 1)}, {utc(times.min())} to {utc(times.max())}"
            + f"; {self.left_out} line(s) are not records" * bool(self.left_out)
            + f"; resources are those of {MOST_PROGRAMS}" * (count > MOST_PROGRAMS)
        )

    def sections(self) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
        """Yield the title and the table of each part; the first row of a table is its heading."""
        for title, rows in self._sections():
            if len(found := list(rows)) > 1:
                yield title, found

    def _sections(self) -> Iterator[tuple[str, Rows]]:
        if self.reports:
            yield "Before and after", iter(RunReport(self.reports).cells())
        yield "Best of each task", self._best()
        yield "How measurements ended", self._errors()
        yield "What failed, and why", self._failures()
        for label, table in self.parts.items():
            curves = table.what_matters
            yield (
                f"What matters in {label}",
                iter([("column", *HEADINGS), *(curve.cells() for curve in curves)]),
            )
        yield "Where time went", self._time()
        yield "Where trials were measured", self._machines()
        yield "Progress: the best (us) after a share of the measurements", self._progress()
        yield "One line taken apart", iter([Field("field", "value", "meaning"), *self.fields])
        yield "What to try next", self._advice()

    def as_json(self) -> dict[str, Any]:
        """Return the findings as plain data: the heading, and each part with its rows."""
        parts = [
            {"title": title, "columns": list(heading), "rows": [list(row) for row in rows]}
            for title, (heading, *rows) in self.sections()
        ]
        return {"path": os.fspath(self.path), "heading": self.heading, "parts": parts}

    def _best(self) -> Rows:
        yield ("task", "measured", "failed", "best (us)", "GFLOPS", "found at", "with")
        for label, table in self.parts.items():
            report, best = table.task.report, table.winner()
            found = ("", "", "", "")
            if best is not None:
                seconds = report.best or best["cost"]
                speed = best["gflops"] and best["gflops"] * best["cost"] / seconds
                found = (
                    f"{seconds * 1e6:.2f}",
                    "" if speed is None else f"{speed:.2f}",
                    str(table.rows.index(best) + 1),
                    table.setting(best),
                )
            elif report.best is not None:
                compared = (
                    "not a trial: the unscheduled program, or a schedule without its parallel loops"
                )
                found = (f"{report.best * 1e6:.2f}", "", "", compared)
            failed = sum(trial.seconds is None for trial in table.trials)
            yield (label, str(len(table)), str(failed), *found)

    def _errors(self) -> Rows:
        yield ("kind", "count", "share", "meaning")
        for kind, count in self._table.errors().items():
            ended = [trial for trial in self._table.trials if trial.ending == kind]
            bounds = [bound for trial in ended if (bound := trial.slower_than) is not None]
            after = f", after {min(bounds):.3g} to {max(bounds):.3g} s" if bounds else ""
            share = f"{count / len(self._table):.0%}"
            yield (kind, str(count), share, ERROR_MEANINGS.get(kind, "") + after)

    def _failures(self) -> Rows:
        yield ("kind", "count", "for example measurement", "why")
        groups = [group for group in failures_of(self._table.trials) if group.reason]
        places = {id(trial): place for place, trial in enumerate(self._table.trials)}
        for group in groups[:_MOST_FAILURES]:
            place = places[id(group.trials[0])]
            example = f"{place + 1}: {self._table.setting(self._table.rows[place])}"
            yield (group.ending, str(len(group.trials)), example, group.reason)
        rest = sum(len(group.trials) for group in groups[_MOST_FAILURES:])
        if rest:
            yield ("others", str(rest), "", f"{len(groups) - _MOST_FAILURES} other reasons")

    def _advice(self) -> Rows:
        yield ("task", "try", "because")
        found = [
            piece._replace(task=label)
            for label, table in self.parts.items()
            for piece in advice(table)
        ]
        yield from found or [
            Advice("", "nothing else", "no figure of this log speaks for a change")
        ]

    def _time(self) -> Rows:
        yield ("what", "seconds", "per measurement (s)")
        rows = {
            "building": "build_seconds",
            "running": "run_seconds",
            "building and running": "all_cost",
        }
        for label, name in rows.items():
            spent = [row[name] for row in self._table if row[name] is not None]
            if spent:
                yield (label, f"{sum(spent):.1f}", f"{sum(spent) / len(spent):.3f}")
        lost = sum(trial.spent for trial in self._table.trials if trial.ending != NO_ERROR)
        if lost:
            yield ("of it for what failed or was stopped", f"{lost:.1f}", "")
        span = max(row["elapsed"] for row in self._table)
        yield ("from the first end to the last", f"{span:.1f}", "")

    def _machines(self) -> Rows:
        yield ("machine", "trials", "failed", "measuring (s)")
        groups: dict[str | None, list[Trial]] = {}
        for trial in self._table.trials:
            groups.setdefault(trial.machine, []).append(trial)
        if set(groups) - {None}:
            for machine, trials in sorted(groups.items(), key=lambda item: -len(item[1])):
                counts = (str(len(trials)), str(sum(trial.failed for trial in trials)))
                spent = sum(trial.measure_secs for trial in trials)
                yield (machine or "this one", *counts, f"{spent:.1f}")

    def _progress(self) -> Rows:
        yield ("task", *(f"1/{share}" if share > 1 else "all" for share in _SHARES), "within 10%")
        for label, table in self.parts.items():
            best, least = table.task.course, table.task.best or 0.0
            after = [best[max(1, len(best) // share) - 1] for share in _SHARES]
            near = (k for k, b in enumerate(best, 1) if b is not None and b <= least * 1.1)
            first = next(near, None)
            yield (
                label,
                *("" if b is None else f"{b * 1e6:.2f}" for b in after),
                "" if first is None else f"after {first}",
            )

    # ------------------------------------------------------------------------------------ printing

    def __str__(self) -> str:
        parts = [self.heading]
        for title, rows in self.sections():
            parts.append(f"{title}\n{aligned([line for row in rows for line in _wrap_row(row)])}")
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return f"<LogExplanation of {self.heading}>"

    def _repr_html_(self) -> str:
        tables = (
            f"<h4>{html.escape(title)}</h4>{html_table(rows)}" for title, rows in self.sections()
        )
        return f"<p>{html.escape(self.heading)}</p>{''.join(tables)}"


def _wrap_row(row: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield a row as lines, with long texts wrapped within their columns."""
    *cells, last = row
    columns = [*(textwrap.wrap(text, _LONGEST) for text in cells), textwrap.wrap(last, _WIDEST)]
    for k in range(max(1, *map(len, columns))):
        yield tuple(lines[k] if k < len(lines) else "" for lines in columns)


def _known_formats() -> Sequence[type[LogFormat]]:
    """Return the formats of logs, after loading ours."""
    for module in _FORMATS:
        import_module(module)
    return LogFormat.known


def is_log(path: str | os.PathLike[str]) -> bool:
    """Return True if an existing path is a log of a known format."""
    return any(kind().recognises(Path(path)) for kind in _known_formats())


def explain(path: str | os.PathLike[str]) -> LogExplanation:
    """Return the explanation of a working directory, or of a log of any known `LogFormat`.

    It has the times before and after the search, the influence of each decision (`LogExplanation`
    describes the method), failures and their reasons, where time went, and what to try next, each
    with its figures. It prints; in a notebook it shows tables. `.table()` has the trials, `.plot()`
    draws them, `.as_json()` returns plain data. At most a thousand programs are replayed for their
    resources.

    Raises OSError if the path does not exist, DatabaseError for a directory without trials,
    TuningError for a log without records or of an unknown format.
    """
    place = as_path(path)
    place.stat()
    kinds = _known_formats()
    for kind in kinds:
        if (found := kind()).recognises(place):
            log = found.read(place)
            if not log.trials:
                raise TuningError(f"there are no trials in {os.fspath(path)}")
            return LogExplanation(path, log)
    known = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise TuningError(f"{os.fspath(path)} has no known format of logs; known are {known}")
