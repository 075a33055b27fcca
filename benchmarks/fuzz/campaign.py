"""Checking random cases for some time: each has a number, and a failure is made small."""

from __future__ import annotations

import json
import os
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import TypeVar

from benchmarks.forked_runs import Outcome, Report, Run, Task, run_all

Item = TypeVar("Item")
Note = Callable[[str], None]
"""Records what a check does next, so that it is known where a process dies."""
MOST_PRINTED = 2
"""The number of failures of a kind that are printed."""


class Failure(Exception):
    """A property that must hold for a case does not hold; `what` is the kind of failure."""

    def __init__(self, what: str, detail: str) -> None:
        super().__init__(f"{what}: {detail}")
        self.what = what
        self.detail = detail


class Fuzzer:
    """A family of random cases; each is made from a number."""

    batch = 1
    """The number of cases that one process checks."""
    time_limit = 120.0
    """The seconds that a process may take for a batch."""

    def prepare(self) -> None:
        """Do once what all cases need, before their processes are forked."""

    def limit(self) -> None:
        """Limit what the process of a batch may do."""

    def check(self, case: int, note: Note) -> Mapping[str, int]:
        """Check a case and return counts; any exception is a failure."""
        raise NotImplementedError

    def described(self, case: int, outcome: Outcome, lines: Sequence[str]) -> str:
        """Return a failing case as small as possible, given the lines that its check noted."""
        return "\n".join(lines)


def explained(error: Exception) -> Outcome:
    """Return an exception as a kind of failure and its text."""
    if isinstance(error, Failure):
        return Outcome(error.what, error.detail)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{type(error).__name__} in {os.path.basename(frame.filename)}, {frame.name}"
    return Outcome(where, str(error)[:2000])


def attempt(
    check: Callable[[Note], object], time_limit: float = 120.0
) -> tuple[Outcome, list[str]]:
    """Run a check in a separate process; return the outcome and the lines that it noted."""

    def task(report: Report) -> None:
        try:
            check(lambda line: report(line=line))
        except Exception as error:  # noqa: BLE001 - any exception is a failure
            report(**vars(explained(error)))
        else:
            report(what="")

    run = Run(task, time_limit=time_limit)
    return run.finish(), run.lines


def shortest(
    items: Sequence[Item], fails: Callable[[Sequence[Item]], bool], seconds: float = 60.0
) -> Sequence[Item]:
    """Return as few items as still fail, by leaving out ever smaller runs of them."""
    end = time.monotonic() + seconds
    size = max(1, len(items) // 2)
    while size:
        start, is_shorter = 0, False
        while start < len(items) > 1 and time.monotonic() < end:
            tried = [*items[:start], *items[start + size :]]
            if tried and fails(tried):
                items, is_shorter = tried, True
            else:
                start += size
        size = size // 2 if size > 1 or not is_shorter else 1
    return items


class Campaign:
    """Checks cases of a fuzzer side by side, counts them, and prints failures."""

    def __init__(self, fuzzer: Fuzzer, processes: int = 1) -> None:
        self._fuzzer = fuzzer
        self._processes = processes
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()

    def run(self, seed: int, seconds: float) -> None:
        """Check cases for some seconds; the same seed gives the same cases."""
        rng = random.Random(seed)
        numbers = (rng.randrange(1 << 30) for _ in count())

        self._fuzzer.prepare()
        end = time.monotonic() + seconds

        def batches() -> Iterator[tuple[None, Task]]:
            while time.monotonic() < end:
                yield None, self._task(list(islice(numbers, self._fuzzer.batch)))

        for run in run_all(batches(), self._processes, self._fuzzer.time_limit):
            self._ended(run)

    def run_cases(self, cases: Sequence[int]) -> None:
        """Check cases, each in a separate process."""
        self._fuzzer.prepare()
        tasks = [(None, self._task([case])) for case in cases]
        for run in run_all(tasks, self._processes, self._fuzzer.time_limit):
            self._ended(run)

    def _task(self, cases: Sequence[int]) -> Task:
        def task(report: Report) -> None:
            self._fuzzer.limit()
            counts: Counter[str] = Counter()
            for case in cases:
                report(line=json.dumps(["case", case]))
                try:
                    counts.update(self._fuzzer.check(case, lambda n: report(line=f'["note"]{n}')))
                except Exception as error:  # noqa: BLE001 - any exception is a failure
                    outcome = explained(error)
                    report(line=json.dumps(["failure", outcome.what, outcome.detail]))
            report(counts=counts)

        return task

    def _ended(self, run: Run) -> None:
        outcome = run.outcome
        assert outcome is not None
        self.counts.update(outcome.counts)
        case, notes = -1, list[str]()
        for line in run.lines:
            if line.startswith('["note"]'):
                notes.append(line.removeprefix('["note"]'))
                continue
            kind, *values = json.loads(line)
            if kind == "case":
                (case,), notes = values, []
                self.counts["cases"] += 1
            else:
                self._failed(case, Outcome(*values), notes)
        if outcome.what:
            self._failed(case, outcome, notes)

    def _failed(self, case: int, outcome: Outcome, notes: Sequence[str]) -> None:
        self.failures[outcome.what] += 1
        if self.failures[outcome.what] <= MOST_PRINTED:
            detail = "\n".join(f"#   {line}" for line in outcome.detail.splitlines()[:30])
            text = self._fuzzer.described(case, outcome, notes)
            print(f"# --case {case}: {outcome.what}\n{detail}\n{text}\n", flush=True)

    def summary(self) -> str:
        """Return the counts in one line, and the kinds of failures below it."""
        counts = ", ".join(f"{n} {what}" for what, n in self.counts.most_common())
        head = f"{counts}; {self.failures.total()} failures of {len(self.failures)} kinds"
        return "\n".join([head, *(f"  {n} x {what}" for what, n in self.failures.most_common())])
