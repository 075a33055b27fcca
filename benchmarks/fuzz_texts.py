"""Read texts that are almost right, and report what ends otherwise than it should.

    python -m benchmarks.fuzz_texts scripts --count 1000000 --processes 2

The forms are `scripts` of programs, `graphs` of modules with graph functions, `traces` as Python
text, and `json` of saved traces; `text_forms` says what must become of each. The texts are read in
batches, each in a process of its own, so that a crash or a hang is found like any other fault; one
of each kind is made as small as possible and printed.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait

from benchmarks.forked_runs import Report, Run
from benchmarks.text_forms import FORMS, TextFault, TextForm

BATCH = 100
"""Texts that are read in one process."""
TIME_LIMIT = 120.0
"""Seconds after which a batch counts as hanging; it takes about one."""
MEMORY_LIMIT = 4 << 30
"""Bytes of address space of a process: what is read must not cost more than its text suggests."""
CHECKED_FORMS = 10
"""One in so many of those that are read is written, and read again."""
FAULT = "\t"
"""Stands between the number of a text, the kind of its fault, and the fault's words."""


def batch_task(form: TextForm, seed: int) -> Callable[[Report], None]:
    """Return the task of reading the texts of a seed."""

    def task(report: Report) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        counts: Counter[str] = Counter()
        for number, text in enumerate(batch(form, seed)):
            report(line=str(number))
            start = time.process_time()
            try:
                accepted = form.check(text, number % CHECKED_FORMS == 0)
                counts["read" if accepted else "refused"] += 1
            except TextFault as fault:
                report(line=FAULT.join((str(number), fault.where, fault.detail)))
            if time.process_time() - start > 0.5:
                counts["slower than 0.5 s"] += 1
        report(counts=counts)

    return task


def shrink_task(form: TextForm, text: str, where: str) -> Callable[[Report], None]:
    """Return the task of making a text with a fault smaller; the last line it reports is best."""

    def same_fault(tried: str) -> bool:
        try:
            form.check(tried, True)
        except TextFault as fault:
            return fault.where == where
        return False

    def task(report: Report) -> None:
        for better in smaller(text, same_fault):
            report(line=better)
        report(counts={})

    return task


def batch(form: TextForm, seed: int) -> Iterator[str]:
    """Yield the texts of a seed."""
    rng = random.Random(seed)
    for _ in range(BATCH):
        yield form.changed(rng)


def smaller(text: str, fails: Callable[[str], bool], seconds: float = 10.0) -> Iterator[str]:
    """Yield ever smaller texts that still fail, with lines and then characters left out."""
    end = time.monotonic() + seconds
    for separator in ("\n", ""):
        parts = text.split(separator) if separator else list(text)
        size = max(1, len(parts) // 2)
        while size and time.monotonic() < end:
            place = 0
            while place < len(parts) and time.monotonic() < end:
                tried = parts[:place] + parts[place + size :]
                if fails(separator.join(tried)):
                    parts = tried
                    yield separator.join(parts)
                else:
                    place += size
            size //= 2
        text = separator.join(parts)


class Fuzzer:
    """Reads batches side by side, and counts."""

    def __init__(self, form: TextForm, processes: int, seed: int) -> None:
        self._form = form
        self._processes = processes
        self._rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()

    def run(self, count: int) -> None:
        """Read so many texts; a fault is printed the first time."""
        running: list[Run] = []
        while running or self.counts["texts"] < count:
            while len(running) < self._processes and self.counts["texts"] < count:
                seed = self._rng.randrange(1 << 30)
                running.append(Run(batch_task(self._form, seed), seed, TIME_LIMIT))
            wait([run.connection for run in running], timeout=1)
            for run in [run for run in running if run.poll()]:
                running.remove(run)
                self._ended(run)

    def _ended(self, run: Run) -> None:
        outcome = run.outcome
        assert outcome is not None
        self.counts.update(outcome.counts)
        faults = [line.split(FAULT, 2) for line in run.lines if FAULT in line]
        self.counts["texts"] += len(run.lines) - len(faults)
        if outcome.what:
            last = int(run.lines[-1].split(FAULT)[0])
            self._failed(run.key, last, outcome.what, outcome.detail)
        for number, where, detail in faults:
            self._failed(run.key, int(number), where, detail)

    def _failed(self, seed: int, number: int, where: str, detail: str) -> None:
        self.failures[where] += 1
        if self.failures[where] > 1:
            return
        text = list(batch(self._form, seed))[number]
        shrinking = Run(shrink_task(self._form, text, where), time_limit=30)
        shrinking.finish()
        small = shrinking.lines[-1] if shrinking.lines else text
        print(f"# {where}: {detail}\n{small!r}\n", flush=True)

    def summary(self) -> str:
        """Return the counts in one line, and the kinds of failures below it."""
        counts = ", ".join(f"{n} {what}" for what, n in sorted(self.counts.items()))
        failures = [f"  {n} x {what}" for what, n in self.failures.most_common()]
        head = f"{counts}; {sum(self.failures.values())} failures of {len(failures)} kinds"
        return "\n".join([head, *failures])


def main() -> int:
    """Fuzz from the command line; the exit code says whether there was a failure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("form", choices=FORMS)
    parser.add_argument("--count", type=int, default=20_000, help="how many to read")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    given = parser.parse_args()
    print(f"# seed {given.seed}", flush=True)
    fuzzer = Fuzzer(FORMS[given.form](), given.processes, given.seed)
    fuzzer.run(given.count)
    print("\n".join(f"# {line}" for line in fuzzer.summary().splitlines()))
    return 1 if fuzzer.failures else 0


if __name__ == "__main__":
    sys.exit(main())
