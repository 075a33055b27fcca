"""The resources of CUDA kernels, next to those of apache-tvm for the same programs.

Nothing runs on a device: both sides write PTX, and NVIDIA's assembler reports registers, spills and
shared memory. The programs are default schedules of this project, and schedules that the
reference's auto-scheduler recorded (`tests/vectors/gpu_spaces.jsonl.gz`).
"""

from __future__ import annotations

import argparse
import math
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import codegen
import search
from benchmarks.suite_programs import program
from codegen.devices.compile import compile_for_gpu
from codegen.devices.ptxas import Resources, assemble
from codegen.explanation.gpu import KernelFacts, explain_for_gpu
from codegen.target.gpu import Multiprocessor
from tensorir import parse, te, workloads
from tensorir.function import PrimFunc
from tests.recorded import recorded

_PEER: Final = Path(__file__).parent / "peers" / "tvm_cuda.py"


def matmul(dtype: str, n: int = 1024) -> PrimFunc:
    """Return a square matrix product."""
    a, b = (te.placeholder((n, n), dtype, name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c])


def element_wise(n: int = 1 << 22) -> PrimFunc:
    """Return an addition and an exponential of vectors."""
    a, b = (te.placeholder((n,), name=name) for name in "AB")
    return te.create_prim_func([a, b, te.compute((n,), lambda i: te.exp(a[i]) + b[i], name="C")])


def programs(target: codegen.Target) -> Iterator[tuple[str, PrimFunc]]:
    """Yield names and scheduled programs."""
    plain = {
        "matmul float32": matmul("float32"),
        "matmul float16": matmul("float16"),
        "conv2d": workloads.create("C2D"),
        "softmax": workloads.create("SFM"),
        "layer norm": program("LNM(m=1024,n=1024)").func,
        "element-wise": element_wise(),
    }
    for name, func in plain.items():
        yield name, search.default_schedule(func, target).mod.prim_func("main")
    for entry in recorded("gpu_spaces"):
        func = parse(entry["after"])
        assert isinstance(func, PrimFunc)
        yield entry["workload"], func


def milliseconds(func: PrimFunc, target: codegen.Target) -> float:
    """Return the least time of lowering, LLVM and the assembler, of three."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        for code in compile_for_gpu({"main": func}, target).functions[0].kernels.values():
            assemble(code, target.arch)
        times.append(1e3 * (time.perf_counter() - start))
    return min(times)


def row(name: str, func: PrimFunc, target: codegen.Target, peer: Path) -> str:
    """Return a row of the table, each cell with the figure of this project, then of the peer."""
    facts = explain_for_gpu({"main": func}, target).kernels
    ours = [x.resources for x in facts if x.resources is not None]
    theirs = list(assemble(peer.read_bytes(), target.arch).values()) if peer.exists() else []
    unit = Multiprocessor.of(target.arch)
    cells = [f"{math.prod(facts[0].block)}"]
    for value in (
        lambda used: max(x.registers for x in used),
        lambda used: sum(x.spill_bytes for x in used),
        lambda used: max(x.shared_bytes for x in used),
        lambda used: f"{_occupancy(unit, facts, used):.0%}",
    ):
        cells.append(" / ".join(str(value(used)) for used in (ours, theirs) if used))
    return f"| {name} | {' | '.join(cells)} | {milliseconds(func, target):.0f} |"


def _occupancy(unit: Multiprocessor, facts: list[KernelFacts], used: list[Resources]) -> float:
    return min(
        unit.occupancy(n, unit.resident_blocks(n, part.registers, part.shared_bytes)[0])
        for n, part in zip((math.prod(x.block) for x in facts), used, strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--peer", type=Path, help="a Python with the packages of tvm_cuda.py")
    options = parser.parse_args()
    target = codegen.Target(f"cuda -arch={options.arch}")
    found = dict(programs(target))
    with tempfile.TemporaryDirectory() as folder:
        for name, func in found.items():
            (Path(folder) / f"{name}.py").write_text(func.script())
        if options.peer:
            subprocess.run([options.peer, _PEER, folder, options.arch], check=True)
        print("| program | threads | registers | spills | shared | occupancy | build, ms |")
        print("|" + " --- |" * 7)
        for name, func in found.items():
            print(row(name, func, target, Path(folder) / f"{name}.ptx"), flush=True)


if __name__ == "__main__":
    main()
