"""`compare`: two schedules by their times, decisions, traces and programs, or two logs."""

from __future__ import annotations

import html
import os
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Final, TypeAlias, overload

import numpy as np

from codegen import Target
from codegen.target import as_target
from schedule import Schedule, Trace
from schedule.operands.operand import variables_of
from schedule.trace.python_text import instruction_text, python_lines
from search.builder import LocalBuilder
from search.context import TuneContext
from search.database import database_in
from search.database.programs import programs_in
from search.database.records import TuningRecord, Workload
from search.errors import ArgumentError, TuningError
from search.reports.explain import explain
from search.reports.log_comparison import LogComparison
from search.reports.report import factor_text
from search.reports.run_directory import records_of_trials
from search.reports.table import Trials
from search.reports.trial import Trial
from search.runner import LocalRunner
from search.runner.time_call import time_text
from search.runs.confirm_best import confirm_best
from search.space_generator.knobs import decisions_of
from tensorir.comparison.equal import structural_equal
from tensorir.text_table import aligned, html_table

OneSchedule: TypeAlias = Schedule | TuningRecord | Trial
OneLog: TypeAlias = "Trials | str | os.PathLike[str]"

_CONTEXT: Final = 2
"""The number of equal lines that are shown before and after a difference."""
_FEWEST_TIMES: Final = 3
"""The minimum number of times of each schedule for a statement on the faster one."""
_CERTAIN: Final = 0.95
_COLOURS: Final = {"-": "#c5221f33", "+": "#2e9e4f33", "@": "#8883"}
"""The backgrounds of the lines of a difference, which suit light and dark pages."""
_RESAMPLES: Final = 2000


class ScheduleComparison:
    """Two schedules, `a` and `b`, by their times, decisions, traces and programs.

    `seconds` are the medians of the times of both, None if unknown, and `certainty` is the
    probability that the faster one is faster: the fraction of 2,000 bootstrap samples (Efron,
    Bootstrap Methods: Another Look at the Jackknife, 1979) of the times in which it has the lower
    median. It is None if one of them has fewer than three times.
    """

    def __init__(self, a: Schedule | TuningRecord, b: Schedule | TuningRecord) -> None:
        self._records = [
            TuningRecord(one.trace, Workload(one.initial_mod)) if isinstance(one, Schedule) else one
            for one in (a, b)
        ]
        self._schedules = [one if isinstance(one, Schedule) else one.schedule() for one in (a, b)]
        self._traces = [one.trace.simplified(remove_postproc=False) for one in self._schedules]
        times = [record.run_secs or () if record.is_valid else () for record in self._records]
        self.seconds = [float(np.median(each)) if each else None for each in times]
        self.certainty = _certainty(*map(np.array, times))
        self.how = "recorded times; conditions may have differed"
        """The conditions of the times."""

    def measure(self, target: str | Target | None = None, max_seconds: float = 10.0) -> None:
        """Measure both, interleaved in one process, and replace the recorded times.

        `target` is by default that of a record, the current target, or one core of this machine.
        Raises ArgumentError if the schedules are of different programs, TuningError if one cannot
        be built or run.
        """
        mod = self._records[0].workload.mod
        if not structural_equal(mod, self._records[1].workload.mod):
            raise ArgumentError("schedules of different programs cannot be measured as rivals")
        known = [record.target for record in self._records if record.target is not None]
        chosen = target or next(iter(known), None) or Target.current() or "llvm -num-cores=1"
        builder, runner = LocalBuilder(), LocalRunner()
        try:
            context = TuneContext(mod, target=as_target(chosen))
            found = confirm_best(self._records, builder, runner, context, max_seconds)
        finally:
            builder.close()
            runner.close()
        ranked = {one.record.trace_key: one for one in found}
        both = [ranked.get(record.trace_key) for record in self._records]
        if None in both:
            name = "ab"[both.index(None)]
            raise TuningError(f"schedule {name} does not build or run; codegen.build says why")
        self.seconds = [one.median for one in both if one]
        self.certainty = min(found, key=lambda one: one.median).certainty
        self.how = f"measured in {found[0].rounds} interleaved rounds on {chosen}"

    # ------------------------------------------------------------------------------------- figures

    @property
    def verdict(self) -> str:
        """The faster schedule in a sentence."""
        a, b = self.seconds
        if a is None or b is None:
            return "a time is unknown; measure=True measures both"
        faster, slower = ("a", "b") if a <= b else ("b", "a")
        text = f"{faster} is {factor_text(max(a, b) / min(a, b))} times as fast as {slower}"
        if self.certainty is None:
            return f"{text}; too few times to judge: measure=True measures both"
        if self.certainty < _CERTAIN:
            return f"no significant difference: {faster} is faster with {self.certainty:.0%}"
        return f"{text}, with a probability of {self.certainty:.0%}"

    @property
    def decisions(self) -> dict[str, tuple[Any, Any]]:
        """The decisions that differ, by name; None for a decision that one does not have."""
        a, b = map(decisions_of, self._schedules)
        names = dict.fromkeys([*a, *b])
        pairs = {name: (a.get(name), b.get(name)) for name in names}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    @property
    def trace_difference(self) -> list[str]:
        """The instructions that only one trace has, `-` for a and `+` for b, and their neighbours.

        Instructions are equal if their arguments are and their handles come from equal
        instructions, whatever the names of the handles. Decisions are not compared.
        """
        numbers: dict[Hashable, int] = {}
        keys = [_keys(trace, numbers) for trace in self._traces]
        lines = [python_lines(trace.insts, {}, "tensorir", brief=True) for trace in self._traces]
        return _difference(lines, keys)

    @property
    def program_difference(self) -> list[str]:
        """The lines that only one program has, `-` for a and `+` for b, and their neighbours."""
        lines = [sch.mod.script().splitlines() for sch in self._schedules]
        return _difference(lines, lines)

    # ------------------------------------------------------------------------------------- showing

    def _tables(self) -> Iterator[tuple[str, Sequence[Sequence[str]]]]:
        times = ["unknown" if each is None else time_text(each) for each in self.seconds]
        how = "" if None in self.seconds else f" ({self.how})"
        yield self.verdict + how, [("a", "b"), times]
        if self.decisions:
            rows = [(name, *map(str, pair)) for name, pair in self.decisions.items()]
            yield "Decisions that differ", [("decision", "a", "b"), *rows]

    def _differences(self) -> dict[str, list[str]]:
        same = ["  the same"]
        programs = self.program_difference or same
        return {"Traces": self.trace_difference or same, "Programs": programs}

    def __str__(self) -> str:
        shown = [f"{title}\n{aligned(rows)}" for title, rows in self._tables()]
        parts = self._differences().items()
        return "\n\n".join([*shown, *("\n".join([title, *lines]) for title, lines in parts)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        shown = {title: html_table(rows) for title, rows in self._tables()}
        shown |= {title: _as_html(lines) for title, lines in self._differences().items()}
        return "".join(f"<h4>{html.escape(title)}</h4>{part}" for title, part in shown.items())


def _as_html(lines: Sequence[str]) -> str:
    rows = [
        f'<span style="display:block;background:{_COLOURS.get(line[:1], "none")}">'
        f"{html.escape(line)}</span>"
        for line in lines
    ]
    return f'<pre style="max-height:40em;overflow:auto" tabindex="0">{"".join(rows)}</pre>'


def _certainty(*times: np.ndarray[Any, Any]) -> float | None:
    """Return the probability that the faster of two is faster; None for too few times."""
    if min(map(len, times)) < _FEWEST_TIMES:
        return None
    chance = np.random.default_rng(0)
    a, b = (
        np.median(each[chance.integers(0, len(each), (_RESAMPLES, len(each)))], axis=1)
        for each in times
    )
    is_first = float(((a < b) + 0.5 * (a == b)).mean())
    return max(is_first, 1 - is_first)


def _keys(trace: Trace, numbers: dict[Hashable, int]) -> list[int]:
    """Return numbers that equal instructions of two traces share; `numbers` has those so far."""
    made: dict[Any, Hashable] = {}
    keys = []
    for inst in trace.insts:
        handles = tuple(made.get(one, "") for value in inst.values for one in variables_of(value))
        number = numbers.setdefault((instruction_text(inst), handles), len(numbers))
        made |= {rv: (number, place) for place, rv in enumerate(inst.outputs) if rv is not None}
        keys.append(number)
    return keys


def _difference(lines: Sequence[Sequence[str]], keys: Sequence[Sequence[Hashable]]) -> list[str]:
    """Return the lines whose keys only one side has, with some lines around them."""
    matcher = SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    shown: list[str] = []
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        shown += ["@"] * bool(shown)
        for what, a, a_end, b, b_end in group:
            if what == "equal":
                shown += [f"  {line}" for line in lines[0][a:a_end]]
            else:
                shown += [f"- {line}" for line in lines[0][a:a_end]]
                shown += [f"+ {line}" for line in lines[1][b:b_end]]
    return shown


@overload
def compare(
    a: OneSchedule,
    b: OneSchedule,
    *,
    work_dir: str | os.PathLike[str] | None = None,
    measure: bool = False,
) -> ScheduleComparison: ...
@overload
def compare(a: OneLog, b: OneLog) -> LogComparison: ...
def compare(
    a: OneSchedule | OneLog,
    b: OneSchedule | OneLog,
    *,
    work_dir: str | os.PathLike[str] | None = None,
    measure: bool = False,
) -> ScheduleComparison | LogComparison:
    """Compare two schedules, or two logs of measurements.

        print(ms.compare(best, mine, measure=True))

    A schedule is a `Schedule`, a record of a database, or a trial of the run in `work_dir`. The
    differences of decisions, traces and programs are shown, and the times with the probability
    that the faster schedule is faster. Times are the recorded ones; with `measure`, both schedules
    are measured here (see `ScheduleComparison.measure`).

    A log is a path that `explain` reads, or a table of trials. Two logs are compared by their costs
    of the configurations that both have.

    Raises ArgumentError for other arguments, a trial without a record in `work_dir`, and schedules
    of different programs to measure; TuningError for schedules that cannot be measured.
    """
    if isinstance(a, _LOG) and isinstance(b, _LOG):
        tables = (one if isinstance(one, Trials) else explain(one).table() for one in (a, b))
        return LogComparison(*tables)
    found = ScheduleComparison(_schedule(a, work_dir), _schedule(b, work_dir))
    if measure:
        found.measure()
    return found


_LOG: Final = (Trials, str, os.PathLike)


def _schedule(
    one: OneSchedule | OneLog, work_dir: str | os.PathLike[str] | None
) -> Schedule | TuningRecord:
    if isinstance(one, (Schedule, TuningRecord)):
        return one
    if not isinstance(one, Trial):
        raise ArgumentError(
            "compare takes two schedules (a Schedule, a TuningRecord or a Trial) or two logs, "
            f"got {type(one).__name__}"
        )
    if work_dir is None:
        raise ArgumentError("a Trial has no trace; give the directory of its run as work_dir")
    database = database_in(work_dir)
    programs = [] if database is None else programs_in(database)
    (record,) = records_of_trials([one], programs)
    if record is None:
        raise ArgumentError(
            f"trial {one.number} of {one.task} has no record in {work_dir}; failed trials have none"
        )
    return record
