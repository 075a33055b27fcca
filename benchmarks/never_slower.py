"""Times of small programs after a short search, compared with the programs as they were given.

Usage: python -m benchmarks.never_slower [--cores N] [--busy] [--part K/N] [PROGRAM ...]

40 programs (element-wise, stencils, reductions, transposes) of 100 to 1,000,000 elements are
searched with 8 trials each. Then the program as it was given is measured beside what the search
returned and what a build takes from its database, in turns, in this process. With `--busy` another
process computes all the while, on one core. Exits with 1 if one takes more than 1.05 times as long
as the program that it was made of.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

import codegen
import search as ms
from benchmarks.script_texts import buffers, function, nest
from search.builder import LocalBuilder
from search.database import JSONDatabase
from search.runner import LocalRunner
from tensorir import parse
from tensorir.function import IRModule, PrimFunc

BAR: Final = 1.05
_ROUNDS: Final = 31
_ATTEMPTS: Final = 3
"""The measurements in all of which a program is slower that counts as slower: other programs
disturb some."""
_SIZES: Final = ((8, 12), (32, 32), (100, 100), (256, 400), (1000, 1000))

_COLUMN: Final = "X[vi + 1, vj + 1] + X[vi, vj + 1] + X[vi + 2, vj + 1]"
_MAPPED: Final = {
    "double": "X[vi, vj] * T.float32(2)",
    "bias_relu": "T.max(X[vi, vj] + B[vj], T.float32(0))",
    "tanh": "T.tanh(X[vi, vj])",
    "column": _COLUMN,
    "cross": f"{_COLUMN} + X[vi + 1, vj] + X[vi + 1, vj + 2]",
    "transpose": "X[vj, vi]",
}


def program(kind: str, n: int, m: int) -> PrimFunc:
    """Return a program over a matrix of n rows and m columns."""
    if kind in _MAPPED:
        shape = {"column": (n + 2, m + 2), "cross": (n + 2, m + 2), "transpose": (m, n)}
        params = [buffers("X", *shape.get(kind, (n, m)))]
        params += [buffers("B", m)] if kind == "bias_relu" else []
        params += [buffers("Y", n, m)]
        block = nest("Y", f"S i {n}, S j {m}", f"Y[vi, vj] = {_MAPPED[kind]}")
    else:
        (length, steps), index = ((n, m), "vi, vk") if kind == "row_sums" else ((m, n), "vk, vi")
        params = [buffers("X", n, m), buffers("Y", length)]
        block = nest(
            "Y", f"S i {length}, R k {steps}", f"Y[vi] += X[{index}]", init="Y[vi] = T.float32(0)"
        )
    func = parse(function(", ".join(params), block))
    assert isinstance(func, PrimFunc)
    return func.with_attr("tir.noalias", True)


KINDS: Final = (*_MAPPED, "row_sums", "column_sums")
PROGRAMS: Final[Mapping[str, tuple[str, int, int]]] = {
    f"{kind}_{n}x{m}": (kind, n, m) for n, m in _SIZES for kind in KINDS
}


def ratios(func: PrimFunc, target: str, trials: int, **parts: Any) -> tuple[float, list[float]]:
    """Search; return the seconds of the program, and its factors for what was returned and kept."""
    with tempfile.TemporaryDirectory(prefix="never_slower_") as folder:
        best = ms.tune_tir(func, target, ms.TuneConfig(trials), folder, seed=1, **parts)
        assert best is not None
        plain = IRModule({"main": func})
        built = [codegen.build(plain, target), codegen.build(best.mod, target)]
        with JSONDatabase(work_dir=folder):
            built.append(codegen.build(plain, target))
    rng = np.random.default_rng(1)
    arrays = []
    for parameter in func.params:
        array = codegen.empty([int(n) for n in func.buffer_map[parameter].shape], "float32")
        array[...] = rng.standard_normal(array.shape)
        arrays.append(array)
    timers = [
        one.time_evaluator("main", codegen.cpu(), number=1, repeat=1, min_repeat_ms=3)
        for one in built
    ]
    least = np.full(len(timers), np.inf)
    for _ in range(_ATTEMPTS):
        table = np.array([[timer(*arrays).mean for timer in timers] for _ in range(_ROUNDS)])
        least = np.minimum(least, np.median(table / table[:, :1], axis=0))
        if least.max() <= BAR:
            break
    return float(np.median(table[:, 0])), [float(x) for x in least[1:]]


@contextlib.contextmanager
def busy_core() -> Iterator[None]:
    """Let another process compute."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Search the programs, print a line for each, and return 1 if one is slower than it was."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.never_slower")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="all by default")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--part", default="1/1", help="the programs K, K + N, ... of the list")
    parser.add_argument("--trials", type=int, default=8)
    options = parser.parse_args(arguments)
    first, parts = map(int, options.part.split("/"))
    names = (options.programs or list(PROGRAMS))[first - 1 :: parts]
    target = f"llvm -num-cores={options.cores}"
    machine = f"{options.cores} core(s){', another process on one' * options.busy}"
    slower = 0
    with (
        contextlib.closing(LocalBuilder()) as builder,
        contextlib.closing(LocalRunner()) as runner,
        busy_core() if options.busy else contextlib.nullcontext(),
    ):
        sys.stdout.write(f"{machine}\n{'program':24}{'plain us':>10}{'returned':>10}{'built':>8}\n")
        for name in names:
            seconds, (returned, kept) = ratios(
                program(*PROGRAMS[name]), target, options.trials, builder=builder, runner=runner
            )
            is_slower = max(returned, kept) > BAR
            slower += is_slower
            mark = " slower" * is_slower
            row = f"{name:24}{seconds * 1e6:10.3f}{returned:10.3f}{kept:8.3f}{mark}\n"
            sys.stdout.write(row)
            sys.stdout.flush()
    sys.stdout.write(f"{slower} of {len(names)} take more than {BAR} times as long\n")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
