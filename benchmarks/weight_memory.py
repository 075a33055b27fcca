"""The memory that a model of many weights takes while it is read, built, exported and loaded.

    python -m benchmarks.weight_memory                 # convolutions, 100 MB of weights
    python -m benchmarks.weight_memory model.onnx      # any other model

A separate process does it, after it has built a small model, so that code and tables of the
package are loaded already. Each row has the peak of a stage and the memory after it, beyond the
memory at the start, in times the weights. The linker is another process, which has the weights once
more while it runs. Needs Linux and onnx.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import codegen
import search  # noqa: F401 (offers the default schedules)
from benchmarks.side_by_side import markdown
from tensorir import frontend

R = TypeVar("R")

_STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")


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
    kind = TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "weights",
        [helper.make_tensor_value_info("x", kind, (1, channels, 7, 7))],
        [helper.make_tensor_value_info(x, kind, None)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


class Meter:
    """Reads how much memory this process has, beyond what it had at first."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, int]] = []
        self._start = _bytes("VmRSS")

    def stage(self, name: str, run: Callable[[], R]) -> R:
        """Run a stage; record its peak and the memory after it."""
        _CLEAR.write_text("5")  # the peak is now the present memory
        result = run()
        self.rows.append((name, _bytes("VmHWM") - self._start, _bytes("VmRSS") - self._start))
        return result


def _bytes(name: str) -> int:
    lines = _STATUS.read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


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
    """Run `measure` in a separate process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (str(path), str(small), target, str(folder)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--target", default="llvm -num-cores=1")
    parser.add_argument("--layers", type=int, default=11, help="convolutions of 9.4 MB each")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small, path = folder / "small.onnx", options.model or folder / "model.onnx"
        onnx.save(convolutions(1), small)
        if options.model is None:
            onnx.save(convolutions(options.layers), path)
        found = in_a_process(path, small, options.target, folder)
    weights = found["constants"]
    rows = [
        (s, f"{peak / weights:.2f}", f"{after / weights:.2f}") for s, peak, after in found["rows"]
    ]
    print(f"{weights / (1 << 20):.0f} MB of constants; memory in times these\n")
    print(markdown([("stage", "peak", "after"), *rows]))


if __name__ == "__main__":
    main()
