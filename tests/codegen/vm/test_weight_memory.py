"""A model is in memory once, in whatever layouts its weights are read."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codegen
import search  # noqa: F401 (offers the default schedules)
from tensorir import frontend

onnx = pytest.importorskip("onnx")
if sys.platform != "linux":
    pytest.skip("/proc tells how much memory a process has", allow_module_level=True)

CHANNELS = 256


def convolutions(count: int) -> Any:
    """Return a model of 3x3 convolutions, each with a batch norm and relu: 2.4 MB a layer."""
    helper, nodes, weights = onnx.helper, [], []
    rng = np.random.default_rng(0)
    x = "x"
    for k in range(count):
        stats = [f"{name}{k}" for name in ("gamma", "beta", "mean", "var")]
        shapes = {f"w{k}": (CHANNELS, CHANNELS, 3, 3), **dict.fromkeys(stats, (CHANNELS,))}
        for name, shape in shapes.items():
            array = (rng.random(shape, "float32") / 48).astype("float32")
            weights.append(onnx.numpy_helper.from_array(array, name))
        nodes.append(helper.make_node("Conv", [x, f"w{k}"], [f"c{k}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("BatchNormalization", [f"c{k}", *stats], [f"n{k}"]))
        nodes.append(helper.make_node("Relu", [f"n{k}"], [f"r{k}"]))
        x = f"r{k}"
    inputs = [helper.make_tensor_value_info("x", 1, (1, CHANNELS, 7, 7))]
    outputs = [helper.make_tensor_value_info(x, 1, None)]
    graph = helper.make_graph(nodes, "weights", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def memory(name: str) -> int:
    """Return the bytes of a line of the status of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def peaks(path: str, small: str, folder: str) -> dict[str, float]:
    """Return the peaks of the stages of a model, beyond the memory at the start, in its weights.

    A small model is built before, so that code and tables are loaded already. The schedules of the other
    one are searched meanwhile, which takes some megabytes; a second copy would be 1 more.
    """
    target, library = "llvm -num-cores=1", str(Path(folder) / "model.so")
    codegen.vm_build(frontend.from_onnx(small), target).export_library(library)
    start, found = memory("VmRSS"), {}

    def stage(name: str, run: Callable[[], Any]) -> Any:
        Path("/proc/self/clear_refs").write_text("5")  # the peak is now the present memory
        result = run()
        found[name] = memory("VmHWM") - start
        return result

    mod = stage("read", lambda: frontend.from_onnx(path))
    executable = stage("build", lambda: codegen.vm_build(mod, target))
    stage("export", lambda: executable.export_library(library))
    loaded = stage("load", lambda: codegen.load_module(library))
    assert codegen.VirtualMachine(loaded)
    weights = executable.constants.nbytes
    assert weights > 25 << 20
    return {name: peak / weights for name, peak in found.items()}


def test_weights_that_are_scaled_transposed_and_packed_are_in_memory_once(tmp_path: Path) -> None:
    small, path = tmp_path / "small.onnx", tmp_path / "model.onnx"
    onnx.save(convolutions(1), small)
    onnx.save(convolutions(12), path)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(peaks, (str(path), str(small), str(tmp_path)))
    assert list(found) == ["read", "build", "export", "load"]
    assert max(found.values()) < 1.8, found
