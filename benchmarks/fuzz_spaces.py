"""Run random points of design spaces, and report which compute something else.

    python -m benchmarks.fuzz_spaces --minutes 10

The programs are products of matrices and convolutions with extents from 1 to 40, transposed and
grouped ones, softmax, norms and sums of rows. Each point is made by the rules and postprocessors of
a target, for AVX-512 and for AVX2 code, and compared with the unscheduled program.
"""

from __future__ import annotations

import argparse
import random
import time

import numpy as np

import codegen
import search as ms
from benchmarks.suite_programs import Program, program
from schedule.random_state import RandomState
from search.search_strategy.trace_application import TraceApplication
from tensorir.interp import random_arguments

TARGETS = ("llvm -num-cores=1", "llvm -num-cores=2", "llvm -mcpu=znver3 -num-cores=1")
POINTS = 3
"""The points of each space that run."""


def random_program(rng: random.Random) -> Program:
    """Return a program with odd extents."""

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
    return program(rng.choice(names))


def failures(prog: Program, target: str, seed: int) -> tuple[int, list[str]]:
    """Return how many points of the spaces of a program ran, and what went wrong."""
    context = ms.TuneContext(
        prog.mod,
        target=target,
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=seed,
    )
    application = TraceApplication(context)
    expected = random_arguments(prog.func, seed)
    codegen.build(prog.mod, target)["main"](*expected)
    ran, wrong = 0, []
    rng = RandomState(seed)
    for number, space in enumerate(ms.design_spaces(prog.mod, target)):
        for _ in range(POINTS):
            trace = space.trace_of(space.sample(rng))
            sch = application.apply(trace)
            if sch is None:
                continue
            actual = random_arguments(prog.func, seed)
            codegen.build(sch.mod, target)["main"](*actual)
            ran += 1
            if not np.allclose(actual[-1], expected[-1], rtol=2e-3, atol=2e-3):
                wrong.append(f"{prog.name} for {target!r}, space {number}:\n{sch.trace}")
    return ran, wrong


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    end = time.monotonic() + 60 * options.minutes
    programs = points = 0
    found: list[str] = []
    while time.monotonic() < end:
        prog, target = random_program(rng), rng.choice(TARGETS)
        try:
            ran, wrong = failures(prog, target, rng.randint(1, 1 << 30))
        except Exception as error:  # noqa: BLE001 - any error is a finding
            ran, wrong = 0, [f"{prog.name} for {target!r}: {type(error).__name__}: {error}"]
        programs, points = programs + 1, points + ran
        for text in wrong:
            print(text[:3000], flush=True)
        found += wrong
    print(f"{programs} programs, {points} points, {len(found)} failures")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
