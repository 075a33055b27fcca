"""How much of what this machine can do tuned kernels reach, for AVX-512 and for AVX2 code.

    python -m benchmarks.shares                         all programs, 64 trials each
    python -m benchmarks.shares MM512 T2D --trials 16   two of them

Products and convolutions are compared with the multiply-adds that a core makes at most, products of
a matrix and a vector with what it reads of memory of that size; both are measured in turns with the
kernel. Transposed convolutions and convolutions of padded images count the operations that are
needed: zeros that are left out are none.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import codegen
import search as ms
from benchmarks.peers.serve import inputs
from benchmarks.suite_programs import Program, program
from benchmarks.suite_results import markdown
from benchmarks.suite_sides import TARGET
from codegen.machine import machine_speed, read_bandwidth

AVX2 = "llvm -mcpu=znver3 -num-cores=1"
NAMES = (
    "MM127",
    "MM384",
    "MM512",
    "MM1000",
    "MM1024",
    "MM1x1024x1024",
    "C2D[2]",
    "T2D[1]",
)
TURNS = 8


@dataclass(frozen=True)
class Share:
    """The speed of a kernel, and the most that the machine did meanwhile."""

    name: str
    target: str
    speed: float
    most: float
    unit: str

    @property
    def share(self) -> float:
        return self.speed / self.most


def targets() -> list[str]:
    """Return this machine, and code for AVX2 where it has wider vectors."""
    return [TARGET] if codegen.Target(TARGET).vector_bits <= 256 else [TARGET, AVX2]


def measure(prog: Program, target: str, trials: int) -> Share:
    """Tune a program; return what its kernel reaches."""
    with tempfile.TemporaryDirectory() as folder:
        best = ms.tune_tir(
            mod=prog.mod,
            target=target,
            config=ms.TuneConfig(max_trials_global=trials, num_trials_per_iter=64),
            work_dir=folder,
            seed=1,
        )
    if best is None:
        raise SystemExit(f"no trial of {prog.name} succeeded")
    module = codegen.build(best.mod, target)
    arguments = [codegen.array(array) for array in inputs(prog.shapes)]
    evaluator = module.time_evaluator("main", number=1, repeat=1, min_repeat_ms=10)
    is_vector = prog.operator == "MM" and 1 in (prog.parameters["n"], prog.parameters["m"])
    size = 4 * max(math.prod(shape) for shape in prog.shapes)
    seconds, most = np.inf, 0.0
    for _ in range(TURNS):
        seconds = min(seconds, float(evaluator(*arguments).results[0]))
        here = (
            read_bandwidth(size, target)
            if is_vector
            else machine_speed(target, again=True).peak_flops
        )
        most = max(most, here)
    if is_vector:
        return Share(prog.name, target, size / seconds / 1e9, most / 1e9, "GB/s")
    return Share(prog.name, target, operations(prog) / seconds / 1e9, most / 1e9, "GFLOPS")


def operations(prog: Program) -> float:
    """Return the additions and multiplications that a product or a convolution needs."""
    p = prog.parameters
    if prog.operator in ("MM", "GMM"):
        return 2.0 * p.get("b", 1) * p["n"] * p["m"] * p["k"]
    output = math.prod(prog.shapes[-1])
    taps = p["kernel"] ** 2 * p["ci"] // p.get("groups", 1)
    if prog.operator == "T2D":
        taps //= p["stride"] ** 2
    return 2.0 * output * taps


def table(shares: Sequence[Share]) -> str:
    """Return rows as a Markdown table."""
    rows = [["program", "target", "kernel", "at most", "share"]]
    for s in shares:
        vectors = f"{codegen.Target(s.target).vector_bits} bits"
        rows.append([s.name, vectors, f"{s.speed:.1f} {s.unit}", f"{s.most:.1f}", f"{s.share:.2f}"])
    return markdown(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--trials", type=int, default=64)
    options = parser.parse_args()
    shares = []
    for target in targets():
        for name in options.names:
            shares.append(measure(program(name), target, options.trials))
            print(table(shares[-1:]).splitlines()[-1], flush=True)
    print(f"\n{table(shares)}")


if __name__ == "__main__":
    main()
