"""Kernels on every rung that checks them without a GPU.

A device program goes through the interpreter (threads in lock step, races are errors), `spirv-val`, Intel's runtime of OpenCL with its
optimiser (which runs threads of a block in vectors) and without (which runs them one after the
other and shows missing barriers), LLVM's back ends for NVIDIA and AMD, and NVIDIA's assembler.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import codegen
from codegen.devices.compile import DeviceCode, compile_for_gpu, compile_lowered
from codegen.devices.module import GpuModule
from codegen.devices.ptxas import Resources, assemble, ptxas_path
from tensorir.function import PrimFunc
from tensorir.interp import interpret
from tensorir.script import parse

Array = np.ndarray[Any, np.dtype[Any]]

needs_opencl = pytest.mark.skipif(
    find_spec("pyopencl") is None, reason="needs pyopencl and intel-opencl-rt: extra opencl"
)
OPENCL = codegen.Target("opencl")
CUDA = codegen.Target("cuda -arch=sm_80")


def device_program(text: str) -> PrimFunc:
    """Return the function in a text, without the line that every text would begin with."""
    func = parse("@T.prim_func\n" + text.strip() + "\n")
    assert isinstance(func, PrimFunc)
    return func


def opencl_devices() -> list[Any]:
    """Return Intel's device with and without the optimiser."""
    return [codegen.device(OPENCL, optimize=flag, timeout=120) for flag in (True, False)]


def check_kernels(
    func: PrimFunc,
    inputs: Sequence[Array | float],
    expected: Sequence[Array],
    *,
    rtol: float = 1e-6,
    atol: float = 0.0,
    is_lowered: bool = True,
) -> Resources | None:
    """Compare a program's outputs, its last parameters, with arrays on all rungs.

    `is_lowered` is False for one with blocks, whose loops are bound to threads. Returns the resources of the last kernel on NVIDIA's GPUs, None without the assembler.
    """

    def compare(found: Sequence[Array], place: str) -> None:
        for k, (one, other) in enumerate(zip(found, expected, strict=True)):
            np.testing.assert_allclose(
                one, other, rtol, atol, err_msg=f"output {k} on {place}", strict=True
            )

    def compiled(target: codegen.Target) -> DeviceCode:
        return (compile_lowered if is_lowered else compile_for_gpu)({"main": func}, target)

    outputs = [np.zeros_like(x) for x in expected]
    interpret(func if is_lowered else codegen.lower(func, OPENCL), *inputs, *outputs)
    compare(outputs, "the interpreter")
    code = compiled(OPENCL)
    validate_spirv(code)
    module = GpuModule(code)
    for device in opencl_devices():
        arrays = [codegen.array(x, device) if isinstance(x, np.ndarray) else x for x in inputs]
        results = [codegen.array(np.zeros_like(x), device) for x in expected]
        module["main"](*arrays, *results)
        compare([x.numpy() for x in results], f"{device}, optimize={device.optimize}")
    compiled(codegen.Target("rocm"))
    kernels = compiled(CUDA).functions[0].kernels
    if ptxas_path() is None:
        return None
    return [assemble(ptx, CUDA.arch)[name] for name, ptx in kernels.items()][-1]


def validate_spirv(code: DeviceCode) -> None:
    """Check kernels with `spirv-val`, if it is installed."""
    if shutil.which("spirv-val") is None:
        return
    for function in code.functions:
        for name, binary in function.kernels.items():
            ran = subprocess.run(["spirv-val", "-"], input=binary, capture_output=True, check=False)
            assert ran.returncode == 0, f"{name}: {ran.stderr.decode()}"
