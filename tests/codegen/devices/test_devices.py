"""Arrays and calls on a device, and kernels that end its process."""

from __future__ import annotations

import gc
import multiprocessing
from multiprocessing.connection import Connection

import numpy as np
import pytest
from devices.ladder import OPENCL, device_program, needs_opencl

import codegen
from codegen.devices.compile import compile_lowered
from codegen.devices.module import GpuModule
from codegen.errors import ExecutionError, LinkError
from tensorir.errors import IRTypeError, IRValueError

pytestmark = needs_opencl

SCALE = """
def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32"), by: T.float32):
    T.func_attr({"tir.noalias": True})
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        C[tx] = A[tx] * by
"""
WRITE_AT = """
def main(C: T.Buffer((64,), "int32"), k: T.int64):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        C[T.Cast("int64", tx) + k] = 1
"""
ENDLESS = """
def main(C: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        while C[tx] >= 0:
            C[tx] = C[tx] // 2 + 1
"""


def built(text: str) -> GpuModule:
    return GpuModule(compile_lowered({"main": device_program(text)}, OPENCL))


def test_arrays():
    device = codegen.device(OPENCL)
    values = np.arange(12, dtype="int16").reshape(3, 4)
    x = codegen.array(values.T, device)
    assert (x.shape, str(x.dtype), x.device) == ((4, 3), "int16", device)
    np.testing.assert_array_equal(x.numpy(), values.T)
    y = codegen.empty((4, 3), "int32", device).copyfrom(x.numpy() * 2)
    np.testing.assert_array_equal(y.copyto(codegen.cpu()), values.T * 2)
    np.testing.assert_array_equal(x.copyto(device).numpy(), values.T)
    assert codegen.array(np.zeros((0, 3), "float32"), device).numpy().shape == (0, 3)
    with pytest.raises(IRValueError, match=r"takes an array of shape \(4, 3\), got shape \(3, 4\)"):
        x.copyfrom(values)


def test_calls_and_times():
    module, device = built(SCALE), codegen.device(OPENCL)
    values = np.random.default_rng(0).random(64, "float32")
    a, c = codegen.array(values, device), codegen.empty((64,), "float32", device)
    module["main"](a, c, 3)
    np.testing.assert_array_equal(c.numpy(), values * np.float32(3))
    result = module.time_evaluator("main", device, number=3, repeat=2)(a, c, 0.5)
    assert len(result.results) == 2
    np.testing.assert_array_equal(c.numpy(), values * np.float32(0.5))
    with pytest.raises(
        IRValueError,
        match=r"unknown device cpu\(0\); the only device is codegen.device\('opencl'\)",
    ):
        module.time_evaluator("main", codegen.cpu())
    with pytest.raises(codegen.CodegenError, match="caches of a GPU cannot be flushed"):
        module.time_evaluator("main", f_preproc="cache_flush_cpu_non_first_arg")(a, c, 1)


def test_wrong_arguments():
    module, device = built(SCALE)["main"], codegen.device(OPENCL)
    a, c = (codegen.empty((64,), "float32", device) for _ in range(2))
    with pytest.raises(
        IRTypeError, match=r"argument 2 \('C'\): expected an array of float32, got float64"
    ):
        module(a, codegen.empty((64,), "float64", device), 1)
    with pytest.raises(IRValueError, match="dimension 0 is 63, expected 64"):
        module(a, codegen.empty((63,), "float32", device), 1)
    with pytest.raises(IRValueError, match="share memory"):
        module(a, a, 1)
    with pytest.raises(
        IRValueError, match=r"an array is on .* and another on .*; copy one by copyto"
    ):
        module(a, codegen.empty((64,), "float32", codegen.device(OPENCL, optimize=False)), 1)
    with pytest.raises(IRTypeError, match=r"has 3 parameter\(s\), got 2"):
        module(a, c)
    with pytest.raises(IRTypeError, match="got DeviceArray; pass a NumPy array"):
        codegen.build(device_program_for_cpu(), "llvm")["main"](a)


def device_program_for_cpu():
    return device_program("""
def main(A: T.Buffer((64,), "float32")):
    for k in range(64):
        A[k] = T.float32(0)
""")


def test_a_device_that_is_not_there():
    with pytest.raises(
        LinkError, match=r"there is no device opencl\(9\): .*device 9 does not exist"
    ):
        codegen.device(OPENCL, 9)


def test_a_kernel_that_faults_costs_the_arrays_only():
    module, device = built(WRITE_AT)["main"], codegen.device(OPENCL, timeout=30)
    c = codegen.array(np.zeros(64, "int32"), device)
    with pytest.raises(
        ExecutionError, match=r"ended with signal 11, and its arrays are lost; a kernel may"
    ):
        module(c, 1 << 44)
    with pytest.raises(
        ExecutionError, match=r"ended after this array was made, .* make the array again"
    ):
        module(c, 0)
    again = codegen.array(np.zeros(64, "int32"), device)
    module(again, 0)
    assert again.numpy().sum() == 64


def test_a_kernel_that_hangs_is_ended():
    module, device = built(ENDLESS)["main"], codegen.device(OPENCL, timeout=0.5)
    with pytest.raises(ExecutionError, match=r"did not answer within 0.5 s and was ended"):
        module(codegen.array(np.zeros(64, "int32"), device))


def test_a_fork_has_a_process_of_its_own():
    module, device = built(SCALE)["main"], codegen.device(OPENCL)
    arrays = [codegen.array(np.ones(64, "float32"), device) for _ in range(2)]

    def use_device(result: Connection) -> None:
        own = [codegen.array(np.ones(64, "float32"), device) for _ in range(2)]
        module(*own, 2)
        result.send(float(own[1].numpy().sum()))
        device.process.close()

    ours, theirs = multiprocessing.Pipe()
    fork = multiprocessing.get_context("fork").Process(target=use_device, args=(theirs,))
    fork.start()
    assert ours.recv() == 128
    fork.join()
    module(*arrays, 3)
    assert arrays[1].numpy().sum() == 192
    device.sync()


def test_arrays_are_freed_at_the_next_request():
    device = codegen.device(OPENCL)
    x = codegen.array(np.zeros(64, "float32"), device)
    number = x.number
    del x
    gc.collect()
    codegen.array(np.zeros(1, "float32"), device)
    with pytest.raises(ExecutionError, match="KeyError"):
        device.process.request("free", number)


def test_kernels_are_unloaded_with_their_module():
    module, device = built(SCALE), codegen.device(OPENCL)
    prepared = module["main"].prepare(*(codegen.empty((64,), "float32", device) for _ in "AC"), 1)
    (number,) = module["main"].kernels_in(device.process).values()
    del module
    gc.collect()
    prepared()
    del prepared
    gc.collect()
    codegen.array(np.zeros(1, "float32"), device)
    with pytest.raises(ExecutionError, match="KeyError"):
        device.process.request("unload", number)
