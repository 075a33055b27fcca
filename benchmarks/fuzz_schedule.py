"""Apply random primitives to all workloads for some minutes, and report what goes wrong.

    python -m benchmarks.fuzz_schedule --minutes 10 --jobs 2

Each sequence runs in a process of its own, so a crash or a hang is found like any other failure. A
failing sequence is made as short as possible and printed as a test.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait

from benchmarks.forked_runs import Outcome, Report, Run
from benchmarks.fuzz_programs import program_names
from benchmarks.random_schedules import Failure, prepare, run_lines, run_random


def random_sequence(name: str, seed: int, length: int) -> Callable[[Report], None]:
    """Return the task of running a random sequence."""

    def task(report: Report) -> None:
        try:
            case = run_random(name, seed, length, lambda line: report(line=line))
        except Failure as failure:
            report(what=failure.what, detail=failure.detail)
            return
        good = sum(case.accepted)
        report(counts={"accepted": good, "refused": len(case.lines) - good})

    return task


def given_sequence(name: str, seed: int, lines: Sequence[str]) -> Callable[[Report], None]:
    """Return the task of running given lines."""

    def task(report: Report) -> None:
        try:
            run_lines(name, seed, lines)
        except Failure as failure:
            report(what=failure.what, detail=failure.detail)
            return
        report(what="")

    return task


def minimised(name: str, seed: int, lines: Sequence[str], what: str) -> list[str]:
    """Return as few of the lines as fail in the same way, by leaving out ever smaller runs."""
    kept = list(lines)
    size = max(1, len(kept) // 2)
    while True:
        shorter = False
        start = len(kept) - size
        while start >= 0 and len(kept) > 1:
            tried = kept[:start] + kept[start + size :]
            if tried and Run(given_sequence(name, seed, tried)).finish().what == what:
                kept, shorter = tried, True
            start -= size
            start = min(start, len(kept) - size)
        if size == 1 and not shorter:
            return kept
        size = max(1, size // 2)


def as_test(name: str, seed: int, lines: Sequence[str], outcome: Outcome) -> str:
    """Return a test that fails as the lines do."""
    body = "\n".join(f"            {line!r}," for line in lines)
    comment = "\n".join(f"    # {text}" for text in outcome.detail.splitlines()[:30])
    return f"""
def test_{name.lower().replace("-", "_")}_{seed}():
    # {outcome.what}
{comment}
    run_lines(
        {name!r},
        {seed},
        [
{body}
        ],
    )
"""


class Fuzzer:
    """Runs random sequences side by side, and counts."""

    def __init__(self, jobs: int, seed: int, length: int, names: Sequence[str]) -> None:
        self._jobs = jobs
        self._length = length
        self._names = names
        self._rng = random.Random(seed)
        self.counts: Counter[str] = Counter()

    def run(self, seconds: float) -> None:
        """Run for some time; failures are printed as they are found."""
        end = time.monotonic() + seconds
        last = time.monotonic()
        running: list[Run] = []
        while running or time.monotonic() < end:
            while len(running) < self._jobs and time.monotonic() < end:
                name, seed = self._rng.choice(self._names), self._rng.randrange(1 << 30)
                length = self._rng.randint(1, self._length)
                running.append(Run(random_sequence(name, seed, length), (name, seed)))
            wait([run.connection for run in running], timeout=1)
            for run in [run for run in running if run.poll()]:
                running.remove(run)
                self._ended(run)
            if time.monotonic() > last + 60:
                last = time.monotonic()
                print(self.summary(), file=sys.stderr, flush=True)

    def _ended(self, run: Run) -> None:
        outcome = run.outcome
        assert outcome is not None
        self.counts["sequences"] += 1
        self.counts.update(outcome.counts)
        if outcome.what:
            self.counts["failures"] += 1
            name, seed = run.key
            lines = minimised(name, seed, run.lines, outcome.what) if run.lines else []
            final = Run(given_sequence(name, seed, lines)).finish()
            print(as_test(name, seed, lines, final if final.what else outcome), flush=True)

    def summary(self) -> str:
        """Return the counts as a sentence."""
        c = self.counts
        return (
            f"{c['sequences']} sequences, {c['accepted']} calls accepted, {c['refused']} refused, "
            f"{c['failures']} failures"
        )


def main() -> int:
    """Fuzz from the command line; the exit code says whether there was a failure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--length", type=int, default=14, help="most lines of a sequence")
    parser.add_argument("--only", nargs="*", help="names of programs, such as C2D-0 or chain")
    options = parser.parse_args()
    known = program_names()
    names = options.only or known
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"no program is called {', '.join(unknown)}; there are {', '.join(known)}")
    print(f"# seed {options.seed}", flush=True)
    prepare(names)
    fuzzer = Fuzzer(options.jobs, options.seed, options.length, names)
    fuzzer.run(60 * options.minutes)
    print(f"# {fuzzer.summary()}")
    return 1 if fuzzer.counts["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
