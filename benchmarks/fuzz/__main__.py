"""Look for random cases that go wrong, for some minutes.

    python -m benchmarks.fuzz schedules --minutes 10      # with a seed that is printed
    python -m benchmarks.fuzz spaces --seed 5             # the cases of a seed
    python -m benchmarks.fuzz lowering --case 17 23       # these cases once more

schedules        sequences of primitives on small programs
spaces           points of design spaces: products, convolutions, guarded loads, empty reductions
lowering         programs of every kind of statement, after each pass and as machine code
graphs           graph functions that call tensor functions and library functions
operators        graphs of operators through the pipelines
special-values   operators on NaN, infinities and empty axes, against NumPy and torch
models           mutated ONNX files
growing-models   small ONNX files that describe large programs
scripts, graph-scripts, traces, json          texts that are almost right
killed           a model's tuning that is killed at random moments, and finished

Cases run in separate processes, so a crash or a hang is found like any other failure. A failing
case is made small, where the fuzzer can, and printed. The exit status is 1 after a failure.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import sys
from collections.abc import Sequence
from typing import Final

from benchmarks.fuzz.campaign import Campaign, Fuzzer

FUZZERS: Final = {
    "schedules": "schedules:Schedules",
    "spaces": "spaces:Spaces",
    "lowering": "lowering:Lowering",
    "graphs": "graphs:Graphs",
    "operators": "operators:Operators",
    "special-values": "special_values:SpecialValues",
    "models": "models:MutatedModels",
    "growing-models": "models:GrowingModels",
    "scripts": "texts:Scripts",
    "graph-scripts": "texts:GraphScripts",
    "traces": "texts:Traces",
    "json": "texts:SavedTraces",
    "killed": "killed:KilledSearches",
}
"""The module and the class of each; some need optional packages."""


def fuzzer(name: str) -> Fuzzer:
    """Return a fuzzer by its name."""
    module, _, kind = FUZZERS[name].partition(":")
    made = getattr(importlib.import_module(f"benchmarks.fuzz.{module}"), kind)()
    assert isinstance(made, Fuzzer)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz as the command line says; return 1 after a failure."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=FUZZERS, metavar="WHAT")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--case", type=int, nargs="+", default=[], help="only these cases")
    options = parser.parse_args(arguments)
    campaign = Campaign(fuzzer(options.what), options.processes)
    if options.case:
        campaign.run_cases(options.case)
    else:
        print(f"# {options.what}, seed {options.seed}", flush=True)
        campaign.run(options.seed, 60 * options.minutes)
    print("\n".join(f"# {line}" for line in campaign.summary().splitlines()))
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main())
