"""Auto-tune products of 8-bit matrices, with and without a dot product intrinsic.

    python -m benchmarks.tune_int8_matmul [--trials 64] [--sizes 128 512]

The right operand is packed as the intrinsic reads it: `B[n // 16, k // 4, n % 16, k % 4]`. Rules
without an intrinsic get the same program, and one with the plain `B[k, n]`, which suits them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass

import numpy as np

import codegen
import search as ms
from schedule import Schedule
from search.space_generator.space_generator import preset_kind
from tensorir import parse
from tensorir.function import PrimFunc

TARGET = "llvm -num-cores=1"
PROGRAM = """
@T.prim_func
def main(
    A: T.Buffer(({n}, {n}), "uint8"),
    B: T.Buffer({shape}, "int8"),
    C: T.Buffer(({n}, {n}), "int32"),
):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True}})
    for i, j, k in T.grid({n}, {n}, {n}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[{place}])
"""


@dataclass(frozen=True)
class Case:
    """A program, and the rules that it is tuned with."""

    name: str
    kind: str
    packed: bool


def program(n: int, packed: bool) -> PrimFunc:
    """Return the product of two n x n matrices; n is a multiple of 16."""
    shape = f"({n // 16}, {n // 4}, 16, 4)" if packed else f"({n}, {n})"
    place = "vj // 16, vk // 4, vj % 16, vk % 4" if packed else "vk, vj"
    func = parse(PROGRAM.format(n=n, shape=shape, place=place))
    assert isinstance(func, PrimFunc)
    return func


def seconds(sch: Schedule, n: int, packed: bool) -> float:
    """Check the result of a schedule against NumPy and return its best time."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (n, n), np.uint8)
    b = rng.integers(-128, 128, (n, n), np.int8)
    stored = b.reshape(n // 4, 4, n // 16, 16).transpose(2, 0, 3, 1) if packed else b
    arrays = codegen.array(a), codegen.array(stored), codegen.empty((n, n), "int32")
    library = codegen.build(sch.mod, TARGET)
    library["main"](*arrays)
    np.testing.assert_array_equal(arrays[2], a.astype(np.int32) @ b.astype(np.int32))
    return library.time_evaluator("main", number=3, repeat=7, min_repeat_ms=20)(*arrays).min


def tuned(case: Case, n: int, trials: int, seed: int) -> Schedule:
    """Return the best schedule that a search with the rules of a preset finds."""
    with tempfile.TemporaryDirectory() as directory:
        best = ms.tune_tir(
            mod=program(n, case.packed),
            target=TARGET,
            config=ms.TuneConfig(max_trials_global=trials, num_trials_per_iter=64),
            work_dir=directory,
            space=case.kind,
            seed=seed,
        )
    if best is None:
        raise SystemExit(f"no trial succeeded: {case.name}")
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    kind = preset_kind(codegen.Target(TARGET))
    if kind not in ("vnni", "avx512"):
        raise SystemExit("this CPU has no AVX-512, which the intrinsics for dot products need")
    cases = [
        Case(f"packed, rules {kind}", kind, True),
        Case("packed, rules llvm", "llvm", True),
        Case("plain, rules llvm", "llvm", False),
    ]
    rows = []
    for n in options.sizes:
        for case in cases:
            start = time.monotonic()
            best = tuned(case, n, options.trials, options.seed)
            took = time.monotonic() - start
            used = any(inst.kind.name == "Tensorize" for inst in best.trace.insts)
            rows.append((n, case, best, took, used))
    # Timed next to each other, since other work on the machine changes the speed over minutes.
    print(f"\n{options.trials} trials each, one core; the best of 7 repeats")
    for n, case, best, took, used in rows:
        time_taken = seconds(best, n, case.packed)
        print(
            f"{n:4} {case.name:22} {time_taken * 1e6:9.1f} us {2 * n**3 / time_taken / 1e9:7.1f} "
            f"GOPS  {'Tensorize' if used else 'loops':9}  tuned in {took:.0f} s"
        )


if __name__ == "__main__":
    main()
