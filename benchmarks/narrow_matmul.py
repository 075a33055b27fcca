"""Auto-tune products of narrow matrices: bytes and bfloat16, beside float32 and torch's.

    python -m benchmarks.narrow_matmul [--trials 16] [--n 512] [--target ...] [--peer PYTHON]

Each is tuned with weights that are packed in every call, and with weights that may lie in memory as
the schedule likes (`layout_free_buffers`), whose packing is not timed. Kernels are timed in turns
on one core, the least of many short runs each. `--peer` is an interpreter that has torch, which
multiplies signed bytes and rounds products of bfloat16 to that.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

import codegen
import search as ms
from benchmarks.peer_process import PeerProcess
from schedule import Schedule
from search.runner.measure_candidate import without_layout_rewrite
from tensorir import parse
from tensorir.function import PrimFunc

TARGETS: Final = ("llvm -num-cores=1", "llvm -mcpu=znver3 -num-cores=1")
KINDS: Final = (
    ("uint8", "int8", "int32"),
    ("int8", "int8", "int32"),
    ("bfloat16", "bfloat16", "float32"),
    ("float32", "float32", "float32"),
)
ROUNDS: Final = 9
PROGRAM: Final = """
@T.prim_func
def main(
    A: T.Buffer(({n}, {n}), "{a}"), B: T.Buffer(({n}, {n}), "{b}"), C: T.Buffer(({n}, {n}), "{c}")
):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True{free}}})
    for i, j, k in T.grid({n}, {n}, {n}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.{c}(0)
            C[vi, vj] = C[vi, vj] + T.Cast("{c}", A[vi, vk]) * T.Cast("{c}", B[vk, vj])
"""


def program(n: int, types: tuple[str, str, str], *, packed: bool) -> PrimFunc:
    """Return the product of two n x n matrices; the right one may be packed ahead if `packed`."""
    free = ', "layout_free_buffers": [1]' if packed else ""
    func = parse(PROGRAM.format(n=n, free=free, **dict(zip("abc", types, strict=True))))
    assert isinstance(func, PrimFunc)
    return func


def tuned(func: PrimFunc, target: str, trials: int, seed: int) -> Schedule:
    """Return the best schedule that a search finds."""
    with tempfile.TemporaryDirectory() as directory:
        best = ms.tune_tir(
            mod=func,
            target=target,
            config=ms.TuneConfig(max_trials_global=trials, num_trials_per_iter=16),
            work_dir=directory,
            seed=seed,
        )
    if best is None:
        raise SystemExit("no trial succeeded")
    return best


def timer(sch: Schedule, target: str) -> Callable[[], float]:
    """Return a function that times the kernel of a schedule, in seconds."""
    library = codegen.build(without_layout_rewrite(sch.mod), target)
    rng = np.random.default_rng(0)
    arrays = []
    for parameter in library["main"].signature.parameters:
        dims = [dim for dim in parameter.shape if isinstance(dim, int)]
        array = codegen.empty(dims, parameter.dtype)
        shape, dtype = array.numpy().shape, array.numpy().dtype
        values = rng.integers(0, 100, shape) if dtype.kind in "iu" else rng.random(shape)
        array.numpy()[...] = values.astype(dtype)
        arrays.append(array)
    evaluate = library.time_evaluator("main", number=1, repeat=3, min_repeat_ms=3)
    return lambda: evaluate(*arrays).min


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--n", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", action="append")
    parser.add_argument("--peer", type=Path)
    options = parser.parse_args()
    n = options.n
    with contextlib.ExitStack() as stack:
        sides: dict[tuple[str, str], Callable[[], float]] = {}
        for target in options.target or TARGETS:
            for types in KINDS:
                for packed in (True, False):
                    sch = tuned(program(n, types, packed=packed), target, options.trials, 1)
                    weights = "packed ahead" if packed else "packed in the call"
                    name = f"{types[0]} x {types[1]}, {weights}"
                    sides[name, target] = timer(sch, target)
        if options.peer is not None:
            log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "torch.log"
            script = Path(__file__).parent / "peers" / "torch_narrow.py"
            peer = PeerProcess(options.peer, script, log, 120, {"OMP_NUM_THREADS": "1"})
            stack.callback(peer.close)
            label = peer.start()

            def ask(dtype: str) -> Callable[[], float]:
                return lambda: float(_answer(peer, dtype, n)["seconds"])

            for dtype in ("int8", "bfloat16", "float32"):
                sides[f"{dtype} x {dtype}", label] = ask(dtype)
        least = dict.fromkeys(sides, float("inf"))
        for _ in range(ROUNDS):
            for row, seconds in sides.items():
                least[row] = min(least[row], seconds())
    print(f"\n{n} x {n} x {n}, {options.trials} trials, one core\n")
    print("| product | by | us | G operations a second |\n| --- | --- | --- | --- |")
    for (name, side), taken in least.items():
        print(f"| {name} | {side} | {taken * 1e6:.0f} | {2 * n**3 / taken / 1e9:.0f} |")


def _answer(peer: PeerProcess, dtype: str, n: int) -> dict[str, Any]:
    return peer.request("time", dtype=dtype, n=n)


if __name__ == "__main__":
    main()
