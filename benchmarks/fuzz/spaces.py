"""Random points of design spaces, compared with the unscheduled program.

The programs are products of matrices and convolutions with extents from 1 to 40, transposed and
grouped ones, softmax, norms and sums of rows, and those of `fuzz.guarded_programs`. Each point is
made by the rules and postprocessors of a target, for AVX-512 and for AVX2 code, and runs between
guard pages. Points of programs with guards run in the interpreter, too, which checks every index.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import codegen
import search as ms
from benchmarks.forked_runs import Outcome
from benchmarks.fuzz.campaign import Fuzzer, Note
from benchmarks.fuzz.guarded_programs import (
    empty_reduction,
    grouped_convolution,
    guarded_reduction,
)
from benchmarks.suite_programs import program
from schedule.random_state import RandomState
from search.search_strategy.trace_application import TraceApplication
from tensorir.function import IRModule, PrimFunc
from tensorir.interp import interpret, random_arguments

TARGETS: Final = ("llvm -num-cores=1", "llvm -num-cores=2", "llvm -mcpu=znver3 -num-cores=1")
POINTS: Final = 3
"""The points of each space that run."""


@dataclass(frozen=True)
class Case:
    """A program, and how its points are run."""

    family: str
    func: PrimFunc
    target: str
    seed: int

    def result(self, mod: IRModule, is_interpreted: bool = False) -> Any:
        """Return the output of a form of the program."""
        arguments = random_arguments(self.func, self.seed)
        if is_interpreted:
            interpret(mod, *arguments)
        else:
            codegen.build(mod, self.target, guard_pages=True)["main"](*arguments)
        return arguments[-1]

    def check(self, note: Note) -> Counter[str]:
        """Compare points of the spaces with the program; note the trace of each before."""
        mod = IRModule({"main": self.func})
        context = ms.TuneContext(
            mod,
            target=self.target,
            space_generator="post-order-apply",
            search_strategy="replay-trace",
            rand_state=self.seed,
        )
        application = TraceApplication(context)
        expected = self.result(mod)
        ways = (False, True) if self.family in ("guarded", "empty") else (False,)

        def compare(form: IRModule) -> None:
            for way in ways:
                found = self.result(form, way)
                np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)

        compare(mod)
        counts, rng = Counter({self.family: 1, "points": 0}), RandomState(self.seed)
        for number, space in enumerate(ms.design_spaces(mod, self.target)):
            for _ in range(POINTS):
                trace = space.trace_of(space.sample(rng))
                note(f"# space {number}\n{trace}")
                sch = application.apply(trace)
                if sch is None:
                    counts["refused"] += 1
                else:
                    compare(sch.mod)
                    counts["points"] += 1
        return counts


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


def random_case(case: int, families: Sequence[str] = tuple(FAMILIES)) -> Case:
    """Return the program of a number, of one of some families."""
    rng = random.Random(case)
    family = rng.choice(families)
    return Case(family, FAMILIES[family](rng), rng.choice(TARGETS), rng.randint(1, 1 << 30))


class Spaces(Fuzzer):
    """Points of design spaces; a failure is printed as the program and the trace."""

    time_limit = 180.0

    def check(self, case: int, note: Note) -> Mapping[str, int]:
        return random_case(case).check(note)

    def described(self, case: int, outcome: Outcome, lines: Sequence[str]) -> str:
        made = random_case(case)
        where = lines[-1] if lines else "# no point yet"
        return f"# for {made.target!r}\n{made.func.script()}\n{where[:3000]}"
