"""A model is in memory once, in whatever layouts its weights are read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx")
if sys.platform != "linux":
    pytest.skip("/proc tells how much memory a process has", allow_module_level=True)

from benchmarks.weight_memory import convolutions, in_a_process  # noqa: E402


def test_weights_that_are_scaled_transposed_and_packed_are_in_memory_once(tmp_path: Path) -> None:
    small, path = tmp_path / "small.onnx", tmp_path / "model.onnx"
    onnx.save(convolutions(1, 256), small)
    onnx.save(convolutions(12, 256), path)
    found = in_a_process(path, small, "llvm -num-cores=1", tmp_path)
    weights = found["constants"]
    assert weights > 25 << 20
    assert [row[0] for row in found["rows"]] == ["read", "build", "export", "load"]
    for stage, peak, *_ in found["rows"]:
        assert peak < 1.3 * weights, stage
