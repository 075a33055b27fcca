"""A model of two linear layers, before and after tuning them, beside NumPy and other runtimes.

The layers are tuned twice: for weights in the layout that the model has them in, and for weights
that are packed when the model is built, in the layout that the schedule reads them in.

    python -m benchmarks.linear_layers                 batches of 1 and 64, 64 trials
    python -m benchmarks.linear_layers --peer PYTHON   and torch and ONNX Runtime

All sides compute on one thread. They are timed in turns in one run, and the least of all turns
counts. One table is of calls of the whole model, from Python: with an array that may be another
one in each call, and, where a runtime can do that, bound to an array beforehand. The other table is
of the linear layers alone, without the calls, beside a sum of as many bytes as their weights have.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

import codegen
import search as ms
from benchmarks.mlp import SIZES, arguments, in_numpy, linear, model, shapes, stream
from benchmarks.peer_process import PeerError, PeerProcess, started_peers
from benchmarks.peers.serve import digest, seconds_of
from schedule import Schedule
from search.runner.measure_candidate import without_layout_rewrite
from tensorir.function import IRModule

TARGET: Final = "llvm --num-cores=1"
RUNTIMES: Final = {
    "torch_linear_layers": ("torch", "numpy"),
    "onnx_linear_layers": ("onnxruntime", "onnx"),
}
"""The peers' scripts, and the packages that each needs."""
SHORTEST_MS: Final = 1
"""How long a measurement lasts at least: short, so that some are not interrupted."""
PAUSE: Final = 0.003
"""Seconds before a measurement."""
LAYERS: Final = (0, 1)
FORMS: Final = {"packed": {"layout_free_buffers": [1]}, "tuned": {}}
"""How layers are tuned, and what the search is told of their parameters."""
KERNEL_TITLES: Final = (
    "layer",
    "form",
    "batch",
    "us before",
    "us after",
    "speed-up",
    "GFLOP/s",
    "GB/s of weights",
    "GB/s of a sum",
    "of the sum's speed",
)


@dataclass
class Side:
    """A runtime that has the model prepared for a batch, and the least seconds of its calls."""

    name: str
    run: Callable[[], float]
    seconds: float = float("inf")

    def turn(self) -> None:
        """Time it once more, after a pause: who has waited is not interrupted soon."""
        time.sleep(PAUSE)
        self.seconds = min(self.seconds, self.run())


def in_turns(sides: Sequence[Side], turns: int) -> None:
    """Time all sides one after the other, and so on, another one first each time."""
    for turn in range(turns):
        first = turn % len(sides)
        for side in [*sides[first:], *sides[:first]]:
            side.turn()


# --------------------------------------------------------------------------------------- the model


def tuned_layers(form: str, batch: int, options: argparse.Namespace) -> list[IRModule]:
    """Return both linear layers tuned in one of the forms; says what that took."""
    layers = []
    trials, seed, folder = options.trials, options.seed, options.work_dir
    for layer in LAYERS:
        start = time.monotonic()
        best = ms.tune_tir(
            mod=linear(batch, layer)["main"].with_attr(FORMS[form]),
            target=TARGET,
            config=ms.TuneConfig(max_trials_global=trials, num_trials_per_iter=trials),
            work_dir=folder / f"linear{layer}-{batch}-{form}",
            task_name=f"linear{layer}",
            seed=seed,
        )
        if best is None:
            raise SystemExit(f"no trial of linear{layer} succeeded; the logs are in {folder}")
        took = time.monotonic() - start
        print(f"batch {batch}: linear{layer} {form} in {took:.1f} s, {trials} trials", flush=True)
        layers.append(best.mod)
    return layers


def own_sides(name: str, batch: int, layers: Sequence[IRModule]) -> list[Side]:
    """Return the model in a virtual machine, called and with its argument bound; checks it."""
    executable = codegen.vm_build(model(batch, layers), target=TARGET)
    main = codegen.VirtualMachine(executable, codegen.cpu())["main"]
    x = codegen.array(arguments(batch)[0])
    np.testing.assert_allclose(main(x), in_numpy(arguments(batch))(), rtol=1e-3, atol=1e-3)
    bound = main.prepare(x)
    return [
        Side(name, lambda: seconds_of(lambda: main(x), SHORTEST_MS / 1e3)),
        Side(f"{name}, bound", lambda: seconds_of(bound, SHORTEST_MS / 1e3)),
    ]


def numpy_side(batch: int) -> Side:
    """Return the model in NumPy."""
    call = in_numpy(arguments(batch))
    return Side(f"NumPy {np.__version__}", lambda: seconds_of(call, SHORTEST_MS / 1e3))


def peer_sides(peer: PeerProcess, batch: int) -> list[Side]:
    """Return the forms of the model in a runtime; PeerError if it computes something else."""
    prepared = peer.request("prepare", shapes=shapes(batch))
    expected = digest(in_numpy(arguments(batch))())
    if not np.isclose(prepared["digest"], expected, rtol=1e-3):
        raise PeerError(f"{peer.name} computes {prepared['digest']}, NumPy {expected}")

    def side(form: str) -> Side:
        request = {"form": form, "least": SHORTEST_MS / 1e3}
        return Side(
            ", ".join(filter(None, [peer.name, form])),
            lambda: float(peer.request("run", **request)["seconds"]),
        )

    return [side(form) for form in prepared["forms"]]


# ------------------------------------------------------------------------------------ its kernels


def kernel_side(name: str, mod: IRModule) -> Side:
    """Return a compiled function alone, called again and again without Python."""
    rng = np.random.default_rng(0)
    arrays = [
        codegen.array(rng.random([int(n) for n in buffer.shape], np.float32))
        for buffer in mod.prim_func("main").buffer_map.values()
    ]
    evaluator = codegen.build(mod, TARGET).time_evaluator(
        "main", number=1, repeat=1, min_repeat_ms=SHORTEST_MS
    )
    return Side(name, lambda: float(evaluator(*arrays).min))


def stream_side(floats: int) -> Side:
    """Return the sum of as many floats, which says how fast they can be read."""
    return kernel_side("sum", Schedule(stream(floats)).mod)


def kernel_row(form: str, batch: int, layer: int, tuned: IRModule, turns: int) -> str:
    """Return the row of a layer: its times, how much it reads and computes in a second."""
    n_in, n_out = SIZES[layer : layer + 2]
    before = kernel_side("before", linear(batch, layer))
    after = kernel_side("after", without_layout_rewrite(tuned))
    ceiling = stream_side(n_in * n_out)
    in_turns([before, after, ceiling], turns)
    size = n_in * n_out * 4
    figures = (
        f"{before.seconds * 1e6:.2f}",
        f"{after.seconds * 1e6:.2f}",
        f"{before.seconds / after.seconds:.1f}",
        f"{2 * batch * n_in * n_out / after.seconds / 1e9:.0f}",
        f"{size / after.seconds / 1e9:.0f}",
        f"{size / ceiling.seconds / 1e9:.0f}",
        f"{ceiling.seconds / after.seconds:.2f}" if batch == 1 else "",
    )
    return " | ".join([f"| linear{layer}", form, str(batch), *figures]) + " |"


# --------------------------------------------------------------------------------------- the tables


def model_rows(batch: int, sides: Sequence[Side]) -> list[str]:
    """Return the rows of a batch, each with its time relative to those of the first two sides."""
    ours = [side.seconds for side in sides[:2]]
    return [
        f"| {side.name} | {batch} | {side.seconds * 1e6:.2f} "
        f"| {side.seconds / ours[0]:.2f} | {side.seconds / ours[1]:.2f} |"
        for side in sides
    ]


def measure(
    batches: Sequence[int], peers: Sequence[PeerProcess], options: argparse.Namespace
) -> None:
    """Tune and time everything and print both tables."""
    models: list[str] = []
    kernels: list[str] = []
    for batch in batches:
        tuned = {form: tuned_layers(form, batch, options) for form in FORMS}
        sides = [
            *(side for form in FORMS for side in own_sides(f"here, {form}", batch, tuned[form])),
            own_sides("here, not scheduled", batch, [linear(batch, n) for n in LAYERS])[0],
            numpy_side(batch),
            *(side for peer in peers for side in peer_sides(peer, batch)),
        ]
        in_turns(sides, options.turns)
        models += model_rows(batch, sides)
        kernels += [
            kernel_row(form, batch, n, tuned[form][n], options.turns)
            for n in LAYERS
            for form in FORMS
        ]
    print_table(["model", "batch", "us a call", "times ours", "times ours, bound"], models)
    print_table(KERNEL_TITLES, kernels)


def print_table(titles: Sequence[str], rows: Sequence[str]) -> None:
    print("\n| " + " | ".join(titles) + " |")
    print("| --- " * len(titles) + "|")
    print("\n".join(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--peer", type=Path, action="append", default=[], help="a Python with torch or onnxruntime"
    )
    parser.add_argument("--work-dir", type=Path, help="where the records go; kept only if given")
    options = parser.parse_args()
    with ExitStack() as stack:
        if options.work_dir is None:
            options.work_dir = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        options.work_dir.mkdir(parents=True, exist_ok=True)
        try:
            peers = started_peers(
                RUNTIMES, options.peer, options.work_dir, stack, 120, {"OMP_NUM_THREADS": "1"}
            )
            measure(options.batch, peers, options)
        except PeerError as error:
            raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
