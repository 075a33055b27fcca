"""Kernels on every rung that checks them without a GPU.

A device program goes through the interpreter, `spirv-val`, Intel's runtime of OpenCL with its
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
from codegen.devices.compile import DeviceCode, compile_lowered
from codegen.devices.module import GpuModule
from codegen.devices.ptxas import Resources, assemble, ptxas_path
from tensorir.function import PrimFunc
from tensorir.interp import interpret
from tensorir.nodes.expr import Call
from tensorir.rewriting.visit import walk
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
) -> Resources | None:
    """Compare a device program's outputs, its last parameters, with arrays on all rungs.

    Returns the resources of the last kernel on NVIDIA's GPUs, None without the assembler.
    """

    def compare(found: Sequence[Array], place: str) -> None:
        for k, (one, other) in enumerate(zip(found, expected, strict=True)):
            np.testing.assert_allclose(
                one, other, rtol, atol, err_msg=f"output {k} on {place}", strict=True
            )

    if not has_barriers(func):
        outputs = [np.zeros_like(x) for x in expected]
        interpret(func, *inputs, *outputs)
        compare(outputs, "the interpreter")
    code = compile_lowered({"main": func}, OPENCL)
    validate_spirv(code)
    module = GpuModule(code)
    for device in opencl_devices():
        arrays = [codegen.array(x, device) if isinstance(x, np.ndarray) else x for x in inputs]
        results = [codegen.array(np.zeros_like(x), device) for x in expected]
        module["main"](*arrays, *results)
        compare([x.numpy() for x in results], f"{device}, optimize={device.optimize}")
    compile_lowered({"main": func}, codegen.Target("rocm"))
    return nvidia_resources(func)


def has_barriers(func: PrimFunc) -> bool:
    """Say whether threads of a block wait for each other."""
    return any(isinstance(n, Call) and "storage_sync" in str(n.op) for n in walk(func.body))


def validate_spirv(code: DeviceCode) -> None:
    """Check kernels with `spirv-val`, if it is installed."""
    if shutil.which("spirv-val") is None:
        return
    for function in code.functions:
        for name, binary in function.kernels.items():
            ran = subprocess.run(["spirv-val", "-"], input=binary, capture_output=True, check=False)
            assert ran.returncode == 0, f"{name}: {ran.stderr.decode()}"


def nvidia_resources(func: PrimFunc) -> Resources | None:
    """Return the resources of the last kernel on an A100; None without NVIDIA's assembler."""
    kernels = compile_lowered({"main": func}, CUDA).functions[0].kernels
    if ptxas_path() is None:
        return None
    return [assemble(ptx, CUDA.arch) for ptx in kernels.values()][-1]
