"""Lower random programs for some minutes, and report what changes what they compute.

    python -m benchmarks.fuzz_lowering --minutes 10 --processes 2

Each case is a random program, or one of `fuzz_programs`, mostly with random tiles or primitives. It
is interpreted before and after every pass, and run as machine code, in a process of its own: a
crash or a hang is found like any other failure. A failing program is made as small as possible and
printed as a test.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import wait

import codegen
from benchmarks.forked_runs import Outcome, Report, Run
from benchmarks.fuzz_programs import SIZES, program, program_names
from benchmarks.lowering_cases import Case, IllDefined
from benchmarks.lowering_steps import LoweringFault
from benchmarks.random_lines import NoOperand, Writer
from benchmarks.random_schedules import UNSAFE, Failure, Session, instances
from benchmarks.random_tensor_programs import FEATURES, SYMBOL_VALUES, random_program
from benchmarks.random_tiles import tiled
from benchmarks.shrink_program import shrunk
from tensorir import PrimFunc, parse
from tensorir.errors import DiagnosticError

TIME_LIMIT = 30.0
"""Seconds after which a case counts as hanging."""
MOST_INSTANCES = 1500
"""Programs that run blocks more often than this take too long to interpret after each pass."""
ILL_DEFINED = "ill-defined"
TARGETS = (
    "llvm -num-cores=2",
    "llvm -num-cores=1",
    "llvm -mcpu=skylake-avx512",
    "llvm -mcpu=haswell",
    "llvm -mcpu=x86-64",
)


@dataclass(frozen=True)
class Options:
    """What cases are made of."""

    without: frozenset[str] = frozenset()
    """Those of `FEATURES` that random programs must not have."""
    tolerated: frozenset[str] = frozenset()
    """Faults after a pass, such as `unroll: not well-formed`, that are passed over."""
    scheduled: float = 0.5
    """Share of the cases to which random primitives are applied."""
    tiled: float = 0.5
    """Share of `fuzz_programs` that have random tiles first."""


def random_case(seed: int, options: Options) -> Case:
    """Return the case of a seed.

    Raises DiagnosticError where what was written is refused as it is read, for example because a
    constant divisor is 0, and Failure for a primitive that fails.
    """
    rng = random.Random(seed)
    if rng.random() < 0.25:
        func = program(rng.choice(program_names()))
        if rng.random() < options.tiled:
            func = tiled(func, rng)
        case = Case(func.script(), {name: rng.choice(SYMBOL_VALUES) for name in SIZES}, seed)
    else:
        made = random_program(seed, options.without)
        case = Case(made.text, made.sizes, seed)
    if rng.random() < options.scheduled:
        case = replace(case, text=scheduled(case.text, rng))
    case.module()
    return replace(case, target=supported(rng.choice(TARGETS)))


def supported(target: str) -> str:
    """Return a target whose code runs here: the one given, or plain `llvm`."""
    if "avx512" in target and "avx512f" not in codegen.Target("llvm").features:
        return "llvm"
    return target


def scheduled(text: str, rng: random.Random) -> str:
    """Return a program with random primitives applied; a module of several functions as it is."""
    func = parse(text)
    if not isinstance(func, PrimFunc):
        return text
    session = Session(func, rng.randrange(1 << 30))
    writer = Writer(lambda: session.sch, rng)
    for _ in range(rng.randint(1, 10)):
        try:
            line = writer.line()
        except NoOperand:
            continue
        if not line.startswith("mutate(") and not any(word in line for word in (*UNSAFE, ".bind(")):
            session.apply(line)
    after = session.sch.mod["main"]
    assert isinstance(after, PrimFunc)
    return after.script()


def random_task(seed: int, options: Options) -> Callable[[Report], None]:
    """Return the task of making and checking the case of a seed."""

    def task(report: Report) -> None:
        try:
            case = random_case(seed, options)
        except (DiagnosticError, Failure) as error:
            report(counts={f"not made: {type(error).__name__}": 1})
            return
        report(line=case.text)
        check(case, options, report)

    return task


def given_task(case: Case, options: Options) -> Callable[[Report], None]:
    """Return the task of checking a case."""
    return lambda report: check(case, options, report)


def check(case: Case, options: Options, report: Report) -> None:
    """Check a case and report what became of it."""
    try:
        if instances(case.module()["main"].body) > MOST_INSTANCES:
            report(counts={"too long": 1})
            return
        steps = case.check(tolerated=options.tolerated)
    except IllDefined:
        report(what="", counts={ILL_DEFINED: 1})
    except LoweringFault as fault:
        report(what=fault.what, detail=f"{fault.detail}")
    except Exception as error:  # noqa: BLE001 - whatever is raised is reported
        report(what=type(error).__name__, detail=str(error)[:500])
    else:
        refused = {"refused": 1, f"refused: {steps.refusal[:90]}": 1} if steps.refusal else {}
        report(counts={"programs": 1, "passes": len(steps.interpreted), **refused})


def kind_of(outcome: Outcome) -> str:
    """Return what failures of one kind have in common."""
    words = "".join(" " if c.isdigit() else c for c in outcome.detail.split(" in ")[0])
    same = outcome.what.endswith(("another result", "the process dies"))
    return outcome.what if same else f"{outcome.what}: {' '.join(words.split()[:5])}"


def as_test(case: Case, outcome: Outcome) -> str:
    """Return a test that fails as the case does."""
    body = "".join(f"        {line}\n" if line else "\n" for line in case.text.splitlines())
    detail = "".join(f"    # {line}\n" for line in outcome.detail.splitlines()[:6])
    return f'''
def test_lowering_{case.data}():
    # {outcome.what}
{detail}    Case(
        """
{body}        """,
        sizes={dict(case.sizes)!r},
        data={case.data},
        target={case.target!r},
    ).check()
'''


class Fuzzer:
    """Runs random cases side by side, and counts."""

    def __init__(self, processes: int, seed: int, options: Options, each: int) -> None:
        self._processes = processes
        self._options = options
        self._each = each
        self._rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self._streak = 0
        self._longest = 0

    def run(self, seconds: float) -> None:
        """Run for some time; failures are printed as they are found."""
        end = time.monotonic() + seconds
        running: list[Run] = []
        while running or time.monotonic() < end:
            while len(running) < self._processes and time.monotonic() < end:
                seed = self._rng.randrange(1 << 30)
                running.append(Run(random_task(seed, self._options), seed, TIME_LIMIT))
            wait([run.connection for run in running], timeout=1)
            for run in [run for run in running if run.poll()]:
                running.remove(run)
                self._ended(run)

    def _ended(self, run: Run) -> None:
        outcome = run.outcome
        assert outcome is not None
        self.counts.update(outcome.counts)
        if not outcome.what:
            self._streak += outcome.counts.get("programs", 0)
            self._longest = max(self._longest, self._streak)
            return
        self._streak = 0
        kind = kind_of(outcome)
        self.failures[kind] += 1
        if self.failures[kind] > self._each:
            return
        case = random_case(run.key, self._options)
        small = self._smallest(case, kind)
        final = Run(given_task(small, self._options), time_limit=TIME_LIMIT).finish()
        print(as_test(small, final if final.what else outcome), flush=True)

    def _smallest(self, case: Case, kind: str) -> Case:
        def fails(tried: Case) -> bool:
            run = Run(given_task(tried, self._options), time_limit=TIME_LIMIT)
            return kind_of(run.finish()) == kind

        return shrunk(case, fails)

    def summary(self) -> str:
        """Return the counts, a line each."""
        usage = (
            resource.getrusage(resource.RUSAGE_SELF),
            resource.getrusage(resource.RUSAGE_CHILDREN),
        )
        minutes = sum(u.ru_utime + u.ru_stime for u in usage) / 60
        failed = sum(self.failures.values())
        lines = [
            f"{self.counts['programs']} programs, {self.counts['passes']} passes checked, "
            f"{failed} failures of {len(self.failures)} kinds, longest fault-free stretch "
            f"{self._longest} programs, {minutes:.1f} minutes of processor time"
        ]
        lines += [f"  {n} x {kind}" for kind, n in self.failures.most_common()]
        lines += [f"  {n} {what}" for what, n in self.counts.most_common()]
        return "\n".join(lines)


def main() -> int:
    """Fuzz from the command line; the exit code says whether there was a failure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to run")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--each", type=int, default=2, help="failures of a kind that are printed")
    parser.add_argument(
        "--scheduled", type=float, default=0.5, help="share with primitives applied"
    )
    parser.add_argument("--without", nargs="*", default=[], choices=FEATURES, metavar="FEATURE")
    parser.add_argument("--tolerate", nargs="*", default=[], metavar="FAULT")
    given = parser.parse_args()
    print(f"# seed {given.seed}", flush=True)
    options = Options(frozenset(given.without), frozenset(given.tolerate), given.scheduled)
    codegen.build(program("chain"), "llvm -num-cores=1")  # loads what all cases need
    fuzzer = Fuzzer(given.processes, given.seed, options, given.each)
    fuzzer.run(60 * given.minutes)
    print("\n".join(f"# {line}" for line in fuzzer.summary().splitlines()))
    return 1 if fuzzer.failures else 0


if __name__ == "__main__":
    sys.exit(main())
