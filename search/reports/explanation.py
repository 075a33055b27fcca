"""The explanation of a log: the best, failures, what matters, where time went, what to try."""

from __future__ import annotations

import html
import os
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from search.reports.advice import advice
from search.reports.cost_curve import HEADINGS, most_telling
from search.reports.log_format import ERROR_MEANINGS, MOST_PROGRAMS, Field, Log, utc
from search.reports.report import RunReport
from search.reports.table import LogTable
from search.reports.tasks import failures_of
from search.reports.trial import NO_ERROR
from tensorir.text_table import aligned, html_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

Rows = list[tuple[str, ...]]

_LONGEST: Final = 50
_WIDEST: Final = 76
_SHARES: Final = (8, 4, 2, 1)
_MOST_FAILURES: Final = 5
"""The groups of failures that are shown; the table has all."""


class LogExplanation:
    """The findings of `explain`; it prints, and in a notebook it shows tables.

    A knob or a resource matters by how much of the variance of log(time) its values explain, one
    column at a time (`Explained` has the method), with an interval of 95 %; from few trials nothing
    is concluded. A search tries good values more often than others, and some only together: one of
    two columns with a large share may stand for the other.
    """

    def __init__(self, path: str | os.PathLike[str], log: Log) -> None:
        self.path = path
        self.fields = tuple(log.fields)
        """The line of the best trial, taken apart."""
        self.left_out = log.left_out
        """The number of lines that are no records."""
        self._table = LogTable(log.trials, log.reports)
        self._parts = {label: self._table.of_task(label) for label in self._table.tasks}
        self.reports = tuple(log.reports)
        """What runs reported of their tasks, in logs that have that."""

    def table(self) -> LogTable:
        """Return the measurements: a row for each, with knobs, resources and costs."""
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
            + (f"; {self.left_out} line(s) are no records" if self.left_out else "")
            + (f"; resources are those of {MOST_PROGRAMS}" if count > MOST_PROGRAMS else "")
        )

    def sections(self) -> Iterator[tuple[str, Rows]]:
        """Yield the title and the table of each part; the first row of a table is its heading."""
        if self.reports:
            yield "Before and after", list(RunReport(self.reports).cells())
        yield "Best of each task", list(self._best())
        yield "How measurements ended", list(self._errors())
        why = list(self._failures())
        if len(why) > 1:
            yield "What failed, and why", why
        for label, table in self._parts.items():
            telling = most_telling(map(table.group_by, (*table.knobs, *table.resources)))
            if telling:
                rows = [("column", *HEADINGS), *(curve.cells() for curve in telling)]
                yield f"What matters in {label}", rows
        yield "Where time went", list(self._time())
        yield "Progress: the best (us) after a share of the measurements", list(self._progress())
        if self.fields:
            yield "One line taken apart", [Field("field", "value", "meaning"), *self.fields]
        yield "What to try next", list(self._advice())

    def as_json(self) -> dict[str, Any]:
        """Return the findings as plain data: the heading, and each part with its rows."""
        parts = [
            {"title": title, "columns": list(heading), "rows": [list(row) for row in rows]}
            for title, (heading, *rows) in self.sections()
        ]
        return {"path": os.fspath(self.path), "heading": self.heading, "parts": parts}

    def _best(self) -> Iterator[tuple[str, ...]]:
        yield ("task", "measured", "failed", "best (us)", "GFLOPS", "found at", "with")
        for label, table in self._parts.items():
            report, best = table.task.report, table.winner()
            found = ("", "", "", "")
            if best is not None:
                seconds = report.best or best["cost"]
                flop = None if best["gflops"] is None else best["gflops"] * best["cost"]
                speed = "" if flop is None else f"{flop / seconds:.2f}"
                place = str(table.rows.index(best) + 1)
                found = (f"{seconds * 1e6:.2f}", speed, place, table.setting(best))
            elif report.best is not None:
                compared = "not a trial: what it was compared with"
                found = (f"{report.best * 1e6:.2f}", "", "", compared)
            failed = sum(row["cost"] is None for row in table)
            yield (label, str(len(table)), str(failed), *found)

    def _errors(self) -> Iterator[tuple[str, ...]]:
        yield ("kind", "count", "share", "meaning")
        for kind, count in self._table.errors().items():
            share = f"{count / len(self._table):.0%}"
            yield (kind, str(count), share, ERROR_MEANINGS.get(kind, "") + self._bounds(kind))

    def _bounds(self, kind: str) -> str:
        """Return how long those take at least that were ended early."""
        bounds = [row["slower_than"] for row in self._table if row["error"] == kind]
        known = [bound for bound in bounds if bound is not None]
        return f", after {min(known):.3g} to {max(known):.3g} s" if known else ""

    def _failures(self) -> Iterator[tuple[str, ...]]:
        """Yield the errors that have a text, grouped by what they say but for numbers in it."""
        yield ("kind", "count", "for example measurement", "why")
        groups = [group for group in failures_of(self._table.trials) if group.reason]
        for group in groups[:_MOST_FAILURES]:
            first = group.trials[0]
            place = next(k for k, trial in enumerate(self._table.trials) if trial is first)
            example = f"{place + 1}: {self._table.setting(self._table.rows[place])}"
            yield (group.ending, str(len(group.trials)), example, group.reason)
        rest = sum(len(group.trials) for group in groups[_MOST_FAILURES:])
        if rest:
            yield ("others", str(rest), "", f"{len(groups) - _MOST_FAILURES} other reasons")

    def _advice(self) -> Iterator[tuple[str, ...]]:
        yield ("task", "try", "because")
        found = [piece for table in self._parts.values() for piece in advice(table)]
        yield from found
        if not found:
            yield ("", "nothing else", "no figure of this log speaks for a change")

    def _time(self) -> Iterator[tuple[str, ...]]:
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
        lost = sum(row["all_cost"] for row in self._table if row["error"] != NO_ERROR)
        if lost:
            yield ("of it for what failed or was stopped", f"{lost:.1f}", "")
        span = max(row["elapsed"] for row in self._table)
        yield ("from the first end to the last", f"{span:.1f}", "")

    def _progress(self) -> Iterator[tuple[str, ...]]:
        yield ("task", *(f"1/{share}" if share > 1 else "all" for share in _SHARES), "within 10%")
        for label, table in self._parts.items():
            best, least = table.task.course, table.task.best or 0.0
            after = [best[max(1, len(best) // share) - 1] for share in _SHARES]
            near = next(
                (k + 1 for k, b in enumerate(best) if b is not None and b <= least * 1.1), None
            )
            yield (
                label,
                *("" if b is None else f"{b * 1e6:.2f}" for b in after),
                "" if near is None else f"after {near}",
            )

    # ------------------------------------------------------------------------------------ printing

    def __str__(self) -> str:
        parts = [self.heading]
        for title, rows in self.sections():
            parts.append(f"{title}\n{aligned([line for row in rows for line in _wrapped(row)])}")
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return f"<LogExplanation of {self.heading}>"

    def _repr_html_(self) -> str:
        tables = (
            f"<h4>{html.escape(title)}</h4>{html_table(rows)}" for title, rows in self.sections()
        )
        return f"<p>{html.escape(self.heading)}</p>{''.join(tables)}"


def _wrapped(row: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield a row as lines, in which no column is wider than a text that one reads."""
    *cells, last = row
    columns = [*(textwrap.wrap(text, _LONGEST) for text in cells), textwrap.wrap(last, _WIDEST)]
    for k in range(max(1, *map(len, columns))):
        yield tuple(lines[k] if k < len(lines) else "" for lines in columns)
