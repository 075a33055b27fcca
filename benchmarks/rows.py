"""Tune reductions of rows, and time them beside NumPy and torch.

    python -m benchmarks.rows --peer ../venv/bin/python           all of them
    python -m benchmarks.rows softmax --shapes 64x1000 --peer ... one of them
    python -m benchmarks.rows --trials 64 16 --peer ...           are 16 trials enough?
    python -m benchmarks.rows --target 'llvm -mcpu=znver3 -num-cores=1' --peer ...

float32, one core. NumPy and torch, where the interpreter given has it, compute the same from the
same arrays, with vectors as long as the target's: a target with AVX2 is compared with what they do
on AVX2. All run in turns, and the least of the turns counts.

The output is Markdown: microseconds of a call, and in brackets the time of the faster of NumPy and
torch over ours, above 1 where we are faster.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import codegen
import search as ms
from benchmarks.peer_process import PeerProcess
from benchmarks.peers.serve import digest, inputs
from benchmarks.rows_programs import NAMES, SHAPES, program
from benchmarks.suite_results import markdown
from benchmarks.suite_sides import AVX2_ONLY, PEERS, TARGET
from tensorir.function import IRModule, PrimFunc

TURNS = 40
TURN_SECONDS = 2e-3
"""How long a call is repeated in a turn at least."""

Timer = Callable[[], float]


def tuned(func: PrimFunc, target: str, trials: int, seed: int, keep: Path | None) -> IRModule:
    """Return the best of some trials; a file that is given receives program and trace."""
    with tempfile.TemporaryDirectory(prefix="rows_") as work_dir:
        config = ms.TuneConfig(max_trials_global=trials, num_trials_per_iter=min(trials, 64))
        best = ms.tune_tir(IRModule({"main": func}), target, config, work_dir, seed=seed)
    if best is None:
        raise RuntimeError(f"none of {trials} trials succeeded")
    if keep is not None:
        keep.write_text(f"{best.mod.script()}\n\n{best.trace}\n")
    return best.mod


def kernel(mod: IRModule, target: str, arrays: Sequence[np.ndarray]) -> tuple[Timer, float]:
    """Return what times a tuned program on these inputs, and what its last result adds up to."""
    library = codegen.build(mod, target)
    func = mod["main"]
    assert isinstance(func, PrimFunc)
    buffers = [func.buffer_map[param] for param in func.params][len(arrays) :]
    results = [codegen.empty(_shape_of(b.shape), str(b.dtype)) for b in buffers]
    arguments = [*map(codegen.array, arrays), *results]
    library["main"](*arguments)
    evaluator = library.time_evaluator(
        "main", number=1, repeat=1, min_repeat_ms=int(TURN_SECONDS * 1e3)
    )
    return lambda: float(evaluator(*arguments).results[0]), digest(np.asarray(results[-1]))


def compare(
    name: str, shape: tuple[int, int], options: argparse.Namespace, peer: PeerProcess
) -> dict[str, float]:
    """Return the seconds of a call of each side, in the order of the table's columns."""
    func = program(name, *shape)
    buffers = [func.buffer_map[param] for param in func.params]
    outputs = 2 if name == "argmax" else 1
    shapes = [_shape_of(buffer.shape) for buffer in buffers[:-outputs]]
    digests: dict[str, float] = peer.request("prepare", operator=name, shapes=shapes)["digests"]
    timers = {library: _of_peer(peer, library) for library in digests}
    for trials in options.trials:
        side = f"{trials} trials"
        file = f"{name}-{shape[0]}x{shape[1]}-{trials}.txt"
        keep = options.keep / file if options.keep else None
        mod = tuned(func, options.target, trials, options.seed, keep)
        timers[side], digests[side] = kernel(mod, options.target, inputs(shapes))
    expected = next(iter(digests.values()))
    for side, found in digests.items():
        if not math.isclose(found, expected, rel_tol=1e-3):
            raise RuntimeError(f"{name}: {side} adds up to {found:g} instead of {expected:g}")
    seconds: dict[str, float] = dict.fromkeys(timers, math.inf)
    for _ in range(TURNS):
        for side, timer in timers.items():
            seconds[side] = min(seconds[side], timer())
    return seconds


def _of_peer(peer: PeerProcess, library: str) -> Timer:
    return lambda: float(peer.request("run", library=library, least=TURN_SECONDS)["seconds"])


def _shape_of(shape: Sequence[object]) -> list[int]:
    return [int(extent) for extent in shape]  # type: ignore[call-overload]


def table(rows: dict[str, dict[str, float]]) -> str:
    """Return the times of all programs as a Markdown table."""
    sides = list(next(iter(rows.values())))
    cells, ratios = [["program", *sides]], dict[str, list[float]]()
    for name, seconds in rows.items():
        best = min(time for side, time in seconds.items() if side in ("numpy", "torch"))
        row = [name]
        for side, time in seconds.items():
            ratio = ""
            if side.endswith("trials"):
                ratios.setdefault(side, []).append(best / time)
                ratio = f" ({best / time:.2f})"
            row.append(f"{time * 1e6:.2f}{ratio}")
        cells.append(row)
    means = {side: f"({statistics.geometric_mean(found):.2f})" for side, found in ratios.items()}
    return markdown([*cells, ["geometric mean", *(means.get(side, "") for side in sides)]])


@contextmanager
def _peer(python: Path, target: str) -> Iterator[PeerProcess]:
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    is_narrow = codegen.Target(target).vector_bits <= 256
    with tempfile.TemporaryDirectory(prefix="rows_") as folder:
        log = Path(folder) / "peer.log"
        env = {**one_thread, **(AVX2_ONLY if is_narrow else {})}
        peer = PeerProcess(python, PEERS / "rows_peer.py", log, 60, env)
        try:
            yield peer
        finally:
            peer.close()


def _shape(text: str) -> tuple[int, int]:
    m, n = map(int, text.split("x"))
    return m, n


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=NAMES, help=" ".join(NAMES))
    parser.add_argument("--shapes", nargs="+", type=_shape, default=SHAPES, metavar="MxN")
    parser.add_argument("--trials", nargs="+", type=int, default=[64])
    parser.add_argument("--target", default=TARGET)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--peer", type=Path, required=True, metavar="PYTHON", help="it has NumPy, and perhaps torch"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="receives programs and traces")
    options = parser.parse_args()
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    rows = {}
    with _peer(options.peer, options.target) as peer:
        for name in options.names:
            for shape in options.shapes:
                title = f"{name} {shape[0]}x{shape[1]}"
                rows[title] = compare(name, shape, options, peer)
                print(f"{title} is done", flush=True)
    print(f"\n{table(rows)}")


if __name__ == "__main__":
    main()
