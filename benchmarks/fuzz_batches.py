"""Checks of random programs in batches, each in a process of its own; how failures are told.

The process of a batch may die of an access out of bounds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[1]


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the options that `run` looks at."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--batch", type=int, help="run one batch in this process")
    return parser


def run(
    options: argparse.Namespace,
    check: Callable[[int], object],
    size: int,
    module: str,
    test: str,
    further: Sequence[str] = (),
) -> int:
    """Check seeds in batches of a size until the time is up; return the number of failures.

    Each failure is printed as a test of the name `test` and its seed. `module` is what `python -m`
    takes to run one batch, with `further` options.
    """
    if options.batch is not None:
        for seed in range(options.batch, options.batch + size):
            print(seed, flush=True)
            check(seed)
        return 0
    end = time.monotonic() + options.seconds
    seed, failures = options.start, 0
    while time.monotonic() < end:
        command = [sys.executable, "-m", module, "--batch", str(seed), *further]
        finished = subprocess.run(command, capture_output=True, text=True, check=False, cwd=_ROOT)
        if finished.returncode == 0:
            seed += size
            continue
        failures += 1
        seen = finished.stdout.split()
        bad = int(seen[-1]) if seen else seed
        lines = [line for line in finished.stderr.splitlines() if "Error" in line]
        reason = lines[0].strip() if lines else f"exit {finished.returncode}"
        print(f"\ndef test_{test}_{bad}():\n    # {reason}\n    check({bad})\n", flush=True)
        seed = bad + 1
    print(f"{seed - options.start} graphs, {failures} failure(s)")
    return failures
