"""Tune the suite's programs, and compare kernels and tuning times with other versions and peers.

    python -m benchmarks.suite                                 15 programs, 64 trials each
    python -m benchmarks.suite MM128 'C3D[3]' --trials 64 16   two programs, with 64 and 16 trials
    python -m benchmarks.suite --before ../checkout            and with another version of the code
    python -m benchmarks.suite --before suite_out --out new    and kernels of an earlier run
    python -m benchmarks.suite --peer ../peers/bin/python      and with apache-tvm, torch, NumPy
    python -m benchmarks.suite --target "llvm -mcpu=znver3 -num-cores=1"     code for AVX2

Everybody gets the same program, seed and number of trials and one core to run on. For each program
all sides tune one after the other, another one first each time; their kernels run interleaved,
because the speed of a shared machine drifts more between two runs than two versions differ. A ratio
is the time here over the time there: below 1 this version is faster. `here` is this checkout with
the first number of trials.

A side that fails at a program is left out there, with the cause. The folder given by --out receives
results.json, kernels, traces and records of each side, and logs.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import codegen
from benchmarks.peer_process import PeerError, start_peers
from benchmarks.suite_programs import NAMES, Program, program, random_names
from benchmarks.suite_results import PEAK, Result, Results
from benchmarks.suite_sides import (
    KINDS,
    ROOT,
    TARGET,
    Peer,
    Side,
    Tuned,
    earlier,
    folder_of,
    library_environment,
)

ROUNDS = 15
"""The measurements of each kernel, interleaved with those of the other sides."""


def compare(
    sides: Sequence[Side], programs: Sequence[Program], seeds: Sequence[int], out: Path
) -> Results:
    """Return what each side makes of each program; everything is kept in `out` on the way.

    Ctrl-C ends it with what there is.
    """
    results = Results([side.name for side in sides], machine(sides[0].target))
    with contextlib.suppress(KeyboardInterrupt):
        for seed in seeds:
            for prog in programs:
                turn = len(results.results) // len(sides) % len(sides)
                order = [*sides[turn:], *sides[:turn]]
                for result in _compare_one(sides, order, prog, seed, out):
                    results.results.append(result)
                    print(f"{prog.name:8} {result.side:24} {_summary(result)}", flush=True)
                results.save(out / "results.json")
    return results


def _compare_one(
    sides: Sequence[Side], order: Sequence[Side], prog: Program, seed: int, out: Path
) -> list[Result]:
    """Return what each side makes of a program when they tune in this order."""
    tuned, errors = _tune(order, prog, seed, out)
    expected = tuned.get(sides[0].name)
    if expected is not None:
        errors |= disagreements(expected, tuned)
    times = _run([side for side in sides if side.name not in errors], errors)
    results = []
    for side in sides:
        result = Result(side.name, prog.name, seed, side.trials, error=errors.get(side.name))
        if result.error is None:
            done = tuned[side.name]
            result = replace(
                result,
                tuning=done.seconds,
                kernel=statistics.median(times[side.name]),
                trial_seconds=done.trial_seconds,
            )
        results.append(result)
    return results


def _tune(
    sides: Sequence[Side], prog: Program, seed: int, out: Path
) -> tuple[dict[str, Tuned], dict[str, str]]:
    """Return what each side made of a program, and why others made nothing."""
    tuned: dict[str, Tuned] = {}
    errors: dict[str, str] = {}
    for side in sides:
        folder = folder_of(out, side.name, prog.name, seed)
        # A search would go on where an earlier one in its directory was.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            tuned[side.name] = side.tune(prog, seed, folder)
        except PeerError as error:
            errors[side.name] = str(error)
    return tuned, errors


def _run(sides: Sequence[Side], errors: dict[str, str]) -> dict[str, list[float]]:
    """Time the sides' kernels, interleaved; a side that fails gets an error."""
    times: dict[str, list[float]] = {side.name: [] for side in sides}
    for _ in range(ROUNDS):
        for side in sides:
            if side.name not in errors:
                try:
                    times[side.name].append(side.run())
                except PeerError as error:
                    errors[side.name] = str(error)
    return times


def disagreements(expected: Tuned, tuned: Mapping[str, Tuned]) -> dict[str, str]:
    """Return an error for each side whose output is another one than expected."""
    return {
        name: f"its output adds up to {found.digest:g} instead of {expected.digest:g}"
        for name, found in tuned.items()
        if not math.isclose(found.digest, expected.digest, rel_tol=1e-3)
    }


def _summary(result: Result) -> str:
    if result.error is not None:
        return result.error
    return f"{result.tuning:7.1f} s of tuning, kernel {result.kernel * 1e6:10.1f} us"


def machine(target: str = TARGET) -> dict[str, str]:
    """Return the machine, the time, the version and the target of the figures.

    The speed of the machine is measured anew, since it varies with what else it does.
    """
    commit = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    speed = codegen.machine_speed(target, again=True)
    cores = codegen.Target(target).num_cores or 1
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "commit": commit.stdout.strip() or "unknown",
        "processor": codegen.Target(TARGET).mcpu,
        "target": target,
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        PEAK: f"{cores * speed.peak_flops / 1e9:.1f}",
        "GB/s from memory, one core": f"{speed.read[-1] / 1e9:.1f}",
    }


def report(results: Results) -> str:
    """Return the tables of a run, and the sentences about what failed."""
    where = ", ".join(f"{key} {value}" for key, value in results.machine.items())
    parts = [
        where,
        f"{results.table()}\n\nIn brackets: the time of {results.sides[0]} over this time.",
    ]
    if best := results.best_peers():
        parts.append(f"Beside the fastest peer:\n\n{best}")
    if curves := results.curves():
        parts.append(
            f"Share of its final speed that a search had after so many trials:\n\n{curves}"
        )
    if errors := results.errors():
        parts.append("\n".join(["Left out:", *(f"- {error}" for error in errors)]))
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", default=NAMES, help=f"programs, all by default: {' '.join(NAMES)}"
    )
    parser.add_argument(
        "--random",
        type=int,
        default=0,
        metavar="COUNT",
        help="in their place so many matrix products and convolutions with random extents",
    )
    parser.add_argument(
        "--trials",
        type=int,
        nargs="+",
        default=[64],
        help="trials per program; with several numbers this version is tuned with each",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument(
        "--before",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="a checkout of another version, or a folder that the suite left",
    )
    parser.add_argument(
        "--peer",
        type=Path,
        action="append",
        default=[],
        metavar="PYTHON",
        help="an interpreter that has apache-tvm, torch or NumPy; can be repeated",
    )
    parser.add_argument(
        "--kinds", nargs="+", default=list(KINDS), choices=KINDS, help="the peers to ask for there"
    )
    parser.add_argument(
        "--target",
        default=TARGET,
        help="what to tune for; libraries are told to use no wider vectors (default: %(default)s)",
    )
    parser.add_argument(
        "--limit", type=float, default=3600, help="seconds that tuning a program may take a side"
    )
    parser.add_argument("--out", type=Path, default=Path("suite_out"))
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        try:
            names = random_names(options.random, options.seeds[0]) or options.names
            programs = [program(name) for name in names]
            options.out.mkdir(parents=True, exist_ok=True)
            sides = _sides(options, stack)
        except (ValueError, OSError, PeerError) as error:
            parser.error(str(error))
        results = compare(sides, programs, options.seeds, options.out)
    print(f"\n{report(results)}")


def _sides(options: argparse.Namespace, stack: contextlib.ExitStack) -> list[Side]:
    """Return all sides, this version first; they are closed with the stack."""
    sides: list[Side] = []

    def add(side: Side) -> None:
        stack.callback(side.close)
        if side.name in (other.name for other in sides):
            raise PeerError(f"{side.name} is given twice")
        sides.append(side)

    first, limit, out, target = options.trials[0], options.limit, options.out, options.target
    for trials in options.trials:
        name = "here" if trials == first else f"here {trials} trials"
        add(Peer.of_version(name, ROOT, trials, out / "here.log", limit, target))
    for path in options.before:
        if path.resolve() == out.resolve():
            raise PeerError(f"--before {path} would be overwritten; give another folder by --out")
        add(earlier(path, first, out / "before.log", limit, target))
    environment = library_environment(target)
    for process in start_peers(options.kinds, options.peer, out, stack, limit, environment):
        add(Peer(process.name, process, first, target))
    return sides


if __name__ == "__main__":
    main()
