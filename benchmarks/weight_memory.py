"""The memory that a model of many weights takes while it is read, built, exported and loaded.

    python -m benchmarks.weight_memory                 # convolutions, 100 MB of weights
    python -m benchmarks.weight_memory --linear        # matrix products in place of convolutions
    python -m benchmarks.weight_memory model.onnx      # any other model

A process of its own does it, after it has built a small model, so that code and tables of the
package are there already. Each row has the peak of a stage and what stays behind it, beyond the
beginning, in MB and in times the weights: all memory of the process, and the part of it that is no
file which is mapped (the kernel can take pages of files back, and does so before it swaps). The
linker is another process, which has the weights once more while it runs. Needs Linux and onnx.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import codegen
import search  # noqa: F401 (offers the default schedules)
from tensorir import frontend

R = TypeVar("R")

MB: Final = 1 << 20
_STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")
_SAMPLE_SECONDS: Final = 0.002


def convolutions(count: int, channels: int = 512) -> Any:
    """Return a model of 3x3 convolutions, each with a batch norm and relu: 9.4 MB a layer."""
    nodes, weights = [], []
    rng = np.random.default_rng(0)

    def weight(name: str, shape: Sequence[int]) -> str:
        scale = 1 / math.sqrt(math.prod(shape[1:]))
        array = rng.random(shape, "float32") * np.float32(scale)
        weights.append(numpy_helper.from_array(array, name))
        return name

    x = "x"
    for k in range(count):
        kernel = weight(f"w{k}", (channels, channels, 3, 3))
        nodes.append(helper.make_node("Conv", [x, kernel], [f"c{k}"], pads=[1, 1, 1, 1]))
        stats = [weight(f"{name}{k}", (channels,)) for name in ("gamma", "beta", "mean", "var")]
        nodes.append(helper.make_node("BatchNormalization", [f"c{k}", *stats], [f"n{k}"]))
        nodes.append(helper.make_node("Relu", [f"n{k}"], [f"r{k}"]))
        x = f"r{k}"
    return _model(nodes, weights, (1, channels, 7, 7), x)


def products(count: int, features: int = 1536) -> Any:
    """Return a model of matrix products with weights that are stored transposed: 9.4 MB a layer."""
    nodes, weights = [], []
    rng = np.random.default_rng(0)
    x = "x"
    for k in range(count):
        array = rng.random((features, features), "float32") / np.float32(features)
        weights.append(numpy_helper.from_array(array, f"w{k}"))
        nodes.append(helper.make_node("Gemm", [x, f"w{k}"], [f"g{k}"], transB=1))
        nodes.append(helper.make_node("Relu", [f"g{k}"], [f"r{k}"]))
        x = f"r{k}"
    return _model(nodes, weights, (16, features), x)


def _model(nodes: Sequence[Any], weights: Sequence[Any], shape: Sequence[int], output: str) -> Any:
    kind = TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "weights",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(output, kind, None)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


class Meter:
    """Reads how much memory this process has, beyond what it had at first."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, float, float, float]] = []
        self._start = self._now()

    def stage(self, name: str, run: Callable[[], R]) -> R:
        """Run a stage; note its peak and what stays, of all memory and of what is no file."""
        _CLEAR.write_text("5")  # the peak is what there is now
        most = 0
        done = threading.Event()

        def watch() -> None:
            nonlocal most
            while not done.wait(_SAMPLE_SECONDS):
                most = max(most, _bytes("RssAnon"))

        thread = threading.Thread(target=watch)
        thread.start()
        result = run()
        done.set()
        thread.join()
        total, anonymous = self._now()
        first_total, first_anonymous = self._start
        peaks = _bytes("VmHWM") - first_total, max(most, anonymous) - first_anonymous
        self.rows.append((name, *peaks, total - first_total, anonymous - first_anonymous))
        return result

    @staticmethod
    def _now() -> tuple[int, int]:
        return _bytes("VmRSS"), _bytes("RssAnon")


def _bytes(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


def measure(path: str, small: str, target: str, folder: str) -> dict[str, Any]:
    """Read, build, export and load a model; return the rows, and the bytes of its weights."""

    def export(executable: codegen.Executable) -> None:
        executable.export_library(Path(folder) / "model.so")

    export(codegen.vm_build(frontend.from_onnx(small), target))
    meter = Meter()
    mod = meter.stage("read", lambda: frontend.from_onnx(path))
    executable = meter.stage("build", lambda: codegen.vm_build(mod, target))
    meter.stage("export", lambda: export(executable))
    loaded = meter.stage("load", lambda: codegen.load_module(Path(folder) / "model.so"))
    assert codegen.VirtualMachine(loaded)
    return {"rows": meter.rows, "constants": executable.constants.nbytes}


def in_a_process(path: Path, small: Path, target: str, folder: Path) -> dict[str, Any]:
    """Return what `measure` does in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (str(path), str(small), target, str(folder)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--linear", action="store_true", help="matrix products")
    parser.add_argument("--target", default="llvm -num-cores=1")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    make = products if options.linear else convolutions
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = folder / "small.onnx"
        onnx.save(make(1), small)
        path = options.model
        if path is None:
            path = folder / "model.onnx"
            onnx.save(make(11), path)
        found = in_a_process(path, small, options.target, folder)
    if options.json:
        print(json.dumps(found))
        return
    weights = found["constants"]
    print(f"{weights / MB:.0f} MB of constants; times these, of all memory (of what is no file)")
    for stage, peak, peak_own, stays, stays_own in found["rows"]:
        print(
            f"{stage:8} peak {peak / weights:5.2f} ({peak_own / weights:5.2f})   "
            f"stays {stays / weights:5.2f} ({stays_own / weights:5.2f})"
        )


if __name__ == "__main__":
    main()
