"""Searches for a GPU target, on OpenCL's runtime for CPUs: they end, resume, and find right programs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codegen
import search as ms
from codegen.errors import LinkError
from search.database import JSONDatabase
from search.errors import TuningError
from search.measure_callback import MeasureCallback
from tensorir import parse, workloads
from tensorir.function import PrimFunc
from tests.search.schedule_rule.programs import Reference

needs_opencl = pytest.mark.skipif(
    find_spec("pyopencl") is None, reason="needs pyopencl and intel-opencl-rt: extra opencl"
)
PROGRAMS = {
    "matmul": lambda: workloads.create("GMM", n=16, m=16, k=16),
    "softmax": lambda: workloads.create("SFM", m=16, n=64),
    "convolution": lambda: workloads.create(
        "C2D", h=6, w=6, ci=2, co=4, kernel=3, stride=1, padding=1
    ),
}


def check_on_device(func: PrimFunc, mod: Any) -> None:
    """Compare a scheduled module on the device with the interpreted program."""
    device = codegen.device("opencl")
    lib = codegen.build(mod, "opencl")

    def run(*arrays: Any) -> None:
        placed = [codegen.array(array, device) for array in arrays]
        lib["main"](*placed)
        for array, result in zip(arrays, placed, strict=True):
            np.copyto(array, result.numpy())

    Reference(func).check_call(run)


@needs_opencl
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_best_schedule_computes_the_same(name: str, tmp_path: Path) -> None:
    func = PROGRAMS[name]()
    best = ms.tune_tir(func, "opencl", ms.TuneConfig(4, num_confirmed=0), str(tmp_path), seed=1)
    assert best is not None
    database = JSONDatabase(work_dir=str(tmp_path))
    assert len(database) == 4
    assert all(record.is_valid for record in database.get_all_tuning_records())
    check_on_device(func, best.mod)


class Interrupt(MeasureCallback):
    """Ends a search after its third trial."""

    def __init__(self) -> None:
        self.trials = 0

    def apply_to_trial(self, *_: Any) -> None:
        self.trials += 1
        if self.trials == 3:
            raise KeyboardInterrupt


@needs_opencl
def test_an_interrupted_search_resumes(tmp_path: Path) -> None:
    func, config = PROGRAMS["softmax"](), ms.TuneConfig(6, num_confirmed=0)
    callbacks = [*MeasureCallback.create("default"), Interrupt()]
    with pytest.raises(KeyboardInterrupt):
        ms.tune_tir(func, "opencl", config, str(tmp_path), measure_callbacks=callbacks, seed=1)
    first = [r.trace_key for r in JSONDatabase(work_dir=str(tmp_path)).get_all_tuning_records()]
    assert len(first) == 3
    assert ms.tune_tir(func, "opencl", config, str(tmp_path), seed=1) is not None
    keys = [r.trace_key for r in JSONDatabase(work_dir=str(tmp_path)).get_all_tuning_records()]
    assert keys[:3] == first
    assert len(set(keys)) == len(keys) == 6


@needs_opencl
def test_a_tuned_model_computes_the_same(tmp_path: Path) -> None:
    mod = parse("""
@R.function
def main(x: R.Tensor((16, 16), "float32"), w: R.Tensor((16, 16), "float32")):
    with R.dataflow():
        y = R.nn.relu(R.matmul(x, w))
        R.output(y)
    return y
""")
    database = ms.tune_model(
        mod, "opencl", str(tmp_path), max_trials_global=2, num_confirmed=0, check=False, seed=1
    )
    assert len(database) == 2
    vm = codegen.VirtualMachine(codegen.vm_build(mod, "opencl", database=database))
    x, w = np.random.default_rng(0).uniform(-1, 1, (2, 16, 16)).astype("float32")
    np.testing.assert_allclose(vm["main"](x, w), np.maximum(x @ w, 0), atol=1e-5)


def test_without_a_device_a_search_says_so(tmp_path: Path) -> None:
    try:
        codegen.device("cuda")
    except LinkError:
        with pytest.raises(TuningError, match=r"cuda.* cannot be measured on this machine: .*cuda"):
            ms.tune_tir(PROGRAMS["matmul"](), "cuda", ms.TuneConfig(2), str(tmp_path))
