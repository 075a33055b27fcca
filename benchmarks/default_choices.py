"""The default schedules of kernels: how long it takes to choose them, and which kernels have none.

    python -m benchmarks.default_choices            # of the node tests of ONNX and operator cases
    python -m benchmarks.default_choices --small    # small kernels, too
    python -m benchmarks.default_choices --rows 30  # the slowest 30

Each choice is made in a process of its own, for at most a minute; its CPU seconds count. Takes the
packages onnx and pytest. The exit status is 1 where a choice takes more than `--limit` seconds or
there is none.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from benchmarks.forked_runs import Report, Run
from benchmarks.onnx_node_tests import load_cases
from codegen.history import can_be_scheduled, is_small
from codegen.target import as_target
from codegen.vm.build import as_looked_up
from search.database.module_equality import ModuleIndex, StructuralEquality, unnamed
from search.history.default_schedules import scheduled_by_default
from search.task import normalize_mod, with_num_cores
from tensorir import frontend, workloads
from tensorir.errors import TensorIRError
from tensorir.function import IRModule, PrimFunc
from tensorir.transform import LegalizeOps
from tests import operator_cases

TARGET: Final = with_num_cores(as_target("llvm"))
_MOST_SECONDS: Final = 60.0


class Kernel(NamedTuple):
    """A kernel, and the test that it comes from."""

    origin: str
    name: str
    func: PrimFunc


def node_test_kernels() -> Iterator[Kernel]:
    """Yield the kernels of the node tests of ONNX that can be read."""
    for case in load_cases():
        try:
            mod = LegalizeOps()(frontend.from_onnx(case.case.model))
        except TensorIRError:
            continue
        yield from _kernels(case.name, mod)


def operator_case_kernels() -> Iterator[Kernel]:
    """Yield the kernels of the cases that operators are tested with."""
    found: list[IRModule] = []

    def collect(cases: Any) -> None:
        found.append(operator_cases.kernels_of(cases))

    operator_cases.check = collect
    pytest.main(["-q", "-p", "no:cacheprovider", "tests/tensorir/topi"])
    for mod in found:
        yield from _kernels("operator cases", mod)


def _kernels(origin: str, mod: IRModule) -> Iterator[Kernel]:
    for name, func in as_looked_up(mod).prim_funcs().items():
        if can_be_scheduled(func):
            yield Kernel(origin, name, func)


def different(kernels: Iterator[Kernel], *, small: bool) -> Iterator[Kernel]:
    """Yield kernels that are the same but for names once, without small ones unless `small`."""
    known: ModuleIndex[str] = ModuleIndex(StructuralEquality())
    for kernel in kernels:
        if (small or not is_small(kernel.func)) and known.add_first(
            unnamed(normalize_mod(kernel.func)), kernel.name
        ):
            yield kernel


def choose(kernel: Kernel) -> tuple[float, str]:
    """Return the CPU seconds that a choice takes, and why there is none (empty if there is one)."""

    def task(report: Report) -> None:
        start = time.process_time()
        made = scheduled_by_default(normalize_mod(kernel.func), TARGET)
        seconds = time.process_time() - start
        reason = made.partition("\n")[0] if isinstance(made, str) else ""
        report(what=reason, counts={"microseconds": int(seconds * 1e6)})

    outcome = Run(task, time_limit=_MOST_SECONDS).finish()
    return outcome.counts.get("microseconds", _MOST_SECONDS * 1e6) / 1e6, outcome.what


def main() -> None:
    """Print the slowest choices, and kernels without one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="small kernels, too")
    parser.add_argument("--rows", type=int, default=10, help="the number of kernels to print")
    parser.add_argument("--limit", type=float, default=1.0, help="seconds for one choice")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    # Import and fill the caches first: a choice does not include them.
    scheduled_by_default(normalize_mod(workloads.create("GMM", n=16, m=16, k=16)), TARGET)
    rows = []
    for kernels in (node_test_kernels(), operator_case_kernels()):
        for kernel in different(kernels, small=options.small):
            seconds, reason = choose(kernel)
            rows.append((seconds, f"{kernel.origin}: {kernel.name}", reason))
    rows.sort(reverse=True)
    print("| kernel | CPU seconds |\n| --- | --: |")
    for seconds, name, _ in rows[: options.rows]:
        print(f"| {name} | {seconds:.2f} |")
    failed = [row for row in rows if row[2]]
    for _, name, reason in failed:
        print(f"{name}: {reason}")
    slow = sum(seconds > options.limit for seconds, *_ in rows)
    total = sum(seconds for seconds, *_ in rows)
    print(
        f"{len(rows)} kernels, {total:.0f} s in all, {slow} take more than {options.limit:g} s, "
        f"{len(failed)} have no schedule"
    )
    if slow or failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
