"""Run random points of design spaces, and report which compute something else.

    python -m benchmarks.fuzz_spaces --minutes 10
    python -m benchmarks.fuzz_spaces --case 3 17     # one program once more

The programs are products of matrices and convolutions with extents from 1 to 40, transposed and
grouped ones, softmax, norms and sums of rows, loads that are right only under a guard, and
reductions without steps (`benchmarks.random_reductions`). Each point is made by the rules and
postprocessors of a target, for AVX-512 and for AVX2 code, runs between guard pages, and is compared
with the unscheduled program. Points of programs with guards run in the interpreter, too, which
checks every index. Each program runs in a process of its own, so that a crash is found like any
other failure.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import codegen
import search as ms
from benchmarks.forked_runs import Report, Run
from benchmarks.random_reductions import empty_reduction, grouped_convolution, guarded_reduction
from benchmarks.suite_programs import program
from schedule.random_state import RandomState
from search.search_strategy.trace_application import TraceApplication
from tensorir.function import IRModule, PrimFunc
from tensorir.interp import interpret, random_arguments

TARGETS: Final = ("llvm -num-cores=1", "llvm -num-cores=2", "llvm -mcpu=znver3 -num-cores=1")
POINTS: Final = 3
"""The points of each space that run."""
SECONDS: Final = 180.0
"""The seconds that a program may take with all of its points."""


@dataclass(frozen=True)
class Case:
    """A program, and how its points are run."""

    family: str
    func: PrimFunc
    target: str
    seed: int

    @property
    def interpreted(self) -> bool:
        """Return whether the program is small enough for the interpreter."""
        return self.family in ("guarded", "empty")

    @property
    def mod(self) -> IRModule:
        """Return the function in a module of its own."""
        return IRModule({"main": self.func})


def random_workload(rng: random.Random) -> PrimFunc:
    """Return a program of the suite with odd extents."""

    def n(most: int = 40) -> int:
        return rng.choice((1, 2, rng.randint(1, most), rng.randint(1, most)))

    kernel, stride = rng.choice((1, 2, 3, 5)), rng.choice((1, 2, 3))
    h, w = (rng.randint(kernel, kernel + 12) for _ in range(2))
    window = f"kernel={kernel},stride={stride},padding={rng.randint(0, kernel // 2)}"
    groups = rng.choice((1, 2, 3))
    names = (
        f"MM{n()}x{n()}x{n()}",
        f"MM{n()}x{n()}x{n(300)}",
        f"C2D(h={h},w={w},ci={n(20)},co={n()},{window})",
        f"GRP(h={h},w={w},ci={groups * n(6)},co={groups * n(8)},{window},groups={groups})",
        f"T2D(h={rng.randint(1, 7)},w={rng.randint(1, 7)},ci={n(20)},co={n()},"
        f"kernel={kernel},stride={stride},padding={rng.randint(0, (kernel - 1) // 2)})",
        f"C1D(l={h},ci={n(20)},co={n()},{window})",
        f"DEP(h={h},w={w},c={n()},{window})",
        f"SFM(m={n(20)},n={n(300)})",
        f"NRM(b={n(4)},m={n()},n={n()})",
        f"TBG(batch=1,length={n()},heads={n(4)},dim={n()})",
    )
    return program(rng.choice(names)).func


FAMILIES: Final = {
    "workload": random_workload,
    "guarded": guarded_reduction,
    "grouped": grouped_convolution,
    "empty": empty_reduction,
}


def random_case(seed: int, number: int, families: list[str]) -> Case:
    """Return the program of a number."""
    rng = random.Random(f"{seed} {number}")
    family = rng.choice(families)
    return Case(family, FAMILIES[family](rng), rng.choice(TARGETS), rng.randint(1, 1 << 30))


def points_of(case: Case, report: Report) -> None:
    """Run points of the spaces of a program; report how many ran, and the first that is wrong.

    Each line of the report is the trace of a point.
    """
    context = ms.TuneContext(
        case.mod,
        target=case.target,
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=case.seed,
    )
    application = TraceApplication(context)
    expected = _result(case, case.mod)
    if case.interpreted:
        _check(case, _interpreted(case, case.mod), expected)
    counts = Counter({"points": 0, "refused": 0})
    rng = RandomState(case.seed)
    for number, space in enumerate(ms.design_spaces(case.mod, case.target)):
        for _ in range(POINTS):
            trace = space.trace_of(space.sample(rng))
            report(line=f"# space {number}\n{trace}")
            sch = application.apply(trace)
            if sch is None:
                counts["refused"] += 1
                continue
            _check(case, _result(case, sch.mod), expected)
            if case.interpreted:
                _check(case, _interpreted(case, sch.mod), expected)
            counts["points"] += 1
    report(counts=counts)


def _result(case: Case, mod: IRModule) -> Any:
    """Return the output of a module that is compiled."""
    arguments = random_arguments(case.func, case.seed)
    codegen.build(mod, case.target, guard_pages=True)["main"](*arguments)
    return arguments[-1]


def _interpreted(case: Case, mod: IRModule) -> Any:
    """Return the output of a module in the interpreter."""
    arguments = random_arguments(case.func, case.seed)
    interpret(mod, *arguments)
    return arguments[-1]


def _check(case: Case, actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=2e-3, atol=2e-3, err_msg=case.family)


def failure_of(case: Case) -> tuple[Counter[str], str]:
    """Run points of a program in another process; return how many ran, and what went wrong."""

    def task(report: Report) -> None:
        try:
            points_of(case, report)
        except Exception as error:  # noqa: BLE001 - any error is a finding
            report(what=type(error).__name__, detail=str(error)[:1500])

    run = Run(task, time_limit=SECONDS)
    outcome = run.finish()
    if not outcome.what:
        return Counter(outcome.counts), ""
    where = run.lines[-1] if run.lines else "# no point yet"
    text = f"{outcome.what}: {outcome.detail}\n{case.func.script()}\n{where[:3000]}"
    return Counter(points=max(len(run.lines) - 1, 0)), f"for {case.target!r}: {text}"


def main() -> None:
    """Run programs until the time is up; the exit code says whether one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=[*FAMILIES], help="families of programs")
    parser.add_argument("--case", nargs=2, type=int, metavar=("SEED", "NUMBER"), help="one program")
    options = parser.parse_args()
    families = options.only or [*FAMILIES]
    if options.case:
        print(failure_of(random_case(*options.case, families))[1] or "no failure")
        return
    end = time.monotonic() + 60 * options.minutes
    counts: Counter[str] = Counter()
    number = 0
    while time.monotonic() < end:
        case = random_case(options.seed, number, families)
        ran, wrong = failure_of(case)
        counts += ran + Counter({case.family: 1, "programs": 1})
        if wrong:
            counts["failures"] += 1
            print(f"--case {options.seed} {number} ({case.family}) {wrong}\n", flush=True)
        number += 1
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    raise SystemExit(bool(counts["failures"]))


if __name__ == "__main__":
    main()
