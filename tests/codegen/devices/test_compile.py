"""Compiling for GPUs without one: PTX and AMDGPU, files, and what is refused."""

from __future__ import annotations

import os
import pickle
import re
import signal

import numpy as np
import pytest
from devices.ladder import OPENCL, device_program

import codegen
from codegen.devices import llvm_worker
from codegen.devices.compile import compile_lowered
from codegen.devices.llvm_worker import form_of
from codegen.devices.module import GpuModule
from codegen.errors import CodegenError, LinkError
from codegen.kernel import Unit
from codegen.target.nvidia_files import nvidia_file

ADD = """
def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    T.func_attr({"tir.noalias": True})
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            C[bx * 32 + tx] = A[bx * 32 + tx] + T.float32(1)
"""


KERNEL = """
def main(A: T.Buffer((64,), "float32"), n: T.int32):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        {}
"""


def built(text: str, target: str) -> GpuModule:
    return GpuModule(compile_lowered({"main": device_program(text)}, codegen.Target(target)))


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        (
            "cuda -arch=sm_90a",
            [".target sm_90a", ".visible .entry main_kernel", ".reqntid 32", "%tid.x"],
        ),
        ("rocm -mcpu=gfx1100", ["gfx1100", "main_kernel:"]),
        ("opencl", ["OpEntryPoint Kernel", "LocalSize 32 1 1"]),
    ],
)
def test_kernels_as_text(target, parts):
    module = built(ADD, target)
    text = module.inspect_device()
    for part in parts:
        assert part in text
    assert "main_kernel" in module.inspect_llvm()


@pytest.mark.parametrize(("vectors", "width"), [(1 << 27, "i32"), (1 << 28, "i64")])
def test_an_index_of_vectors_is_wide_enough_for_their_lanes(vectors, width):
    text = f"""
def main(A: T.Buffer(({vectors},), "int8x16"), C: T.Buffer(({vectors},), "int8x16")):
    for bx in T.thread_binding({vectors // 256}, thread="blockIdx.x"):
        for tx in T.thread_binding(256, thread="threadIdx.x"):
            C[bx * 256 + tx] = A[bx * 256 + tx]
"""
    llvm = built(text, "cuda").inspect_llvm(optimized_form=False)
    assert re.findall(r"mul nsw (i\d+) %v\d+, 16", llvm) == [width]


def test_a_module_in_a_file_needs_no_compiler():
    module = built(ADD, "cuda")
    again = pickle.loads(pickle.dumps(module))
    assert again.inspect_device() == module.inspect_device()
    assert str(again["main"].signature) == "main(A: float32[64], C: float32[64])"
    with pytest.raises(CodegenError, match="loaded from kernels, its LLVM IR is gone"):
        again.inspect_llvm()
    assert isinstance(again, GpuModule)
    with pytest.raises(LinkError, match="a shared library runs on CPUs, and the code is for cuda"):
        again.export_library("lib.so")


def test_much_shared_memory_is_allocated_by_the_launch():
    text = """
def main(A: T.Buffer((64,), "float32")):
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        S = T.allocate([12290], "float32", "shared")
        R = T.allocate([16], "float32", "shared")
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            s = T.Buffer((12290,), data=S, scope="shared")
            r = T.Buffer((16,), data=R, scope="shared")
            s[tx * 300] = A[tx]
            T.tvm_storage_sync("shared")
            A[tx] = s[tx * 2] + r[0]
"""
    module = built(text, "cuda -arch=sm_90 -max_shared_memory_per_block=101376")
    ptx = module.inspect_device()
    assert re.search(r"\.extern \.shared .*main_kernel\$?_?\.?shared", ptx)
    assert "49184" in ptx  # where the second buffer begins


def test_rare_functions_are_those_of_libdevice():
    text = KERNEL.format("A[tx] = T.acosh(A[tx]) + T.fmod(A[tx], T.float32(3))")
    with pytest.raises(CodegenError, match=r"T\.acosh has no compiled form for rocm"):
        built(text, "rocm")
    if nvidia_file("libdevice.10.bc") is None:
        with pytest.raises(CodegenError, match="libdevice, which is not installed; pip install"):
            built(text, "cuda")
        return
    ptx = built(text, "cuda").inspect_device()
    assert ".func" not in ptx
    assert "__nv" not in ptx


def test_what_ends_llvm_is_an_error():
    vectors = """define spir_kernel void @f(ptr addrspace(1) %p) {
  %v = load <32 x float>, ptr addrspace(1) %p
  %w = fadd <32 x float> %v, %v
  store <32 x float> %w, ptr addrspace(1) %p
  ret void
}"""
    for _ in range(2):
        with pytest.raises(
            CodegenError, match="compile the kernel for opencl and ended its process: LLVM ERROR"
        ):
            form_of(Unit(vectors, OPENCL), "made")
    built(ADD, "opencl")


def test_what_llvm_rejects_is_an_error():
    with pytest.raises(CodegenError, match="LLVM rejects the generated code"):
        form_of(Unit("this is no LLVM IR", OPENCL), "made")


def test_a_worker_that_was_killed_is_replaced():
    form_of(Unit("define void @f() { ret void }", OPENCL), "assembly")
    (pid,) = llvm_worker._pool(os.getpid()).pids
    os.kill(pid, signal.SIGKILL)
    assert "OpFunctionEnd" in form_of(Unit("define void @g() { ret void }", OPENCL), "assembly")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ('A[tx] = T.call_extern("float32", "sinf", A[tx])', "a GPU has no T.call_extern"),
        (
            "A[T.Ramp(0, 1, 32)] = T.Broadcast(T.float32(0), 32)",
            "vectors of 2, 3, 4, 8, 16 lanes and none of 32",
        ),
        (
            'A[tx] = T.Cast("float32", T.Cast("int24", tx))',
            "integers of 8, 16, 32 and 64 bits and none of 24",
        ),
        ('T.tvm_storage_sync("global")', 'takes the scope "shared" or "warp"'),
        ('assert tx < n, "too many"', "a kernel cannot report a failed assertion"),
    ],
)
def test_what_a_kernel_cannot_have(statement, message):
    with pytest.raises(CodegenError, match=re.escape(message)):
        built(KERNEL.format(statement), "cuda")


def test_a_thread_program_for_a_cpu_and_devices_that_are_not_there():
    with pytest.raises(CodegenError, match=r"loop bx of function main is bound to blockIdx.x"):
        codegen.build(device_program(ADD), "llvm")
    with pytest.raises(LinkError, match="kernels for rocm are compiled and inspected, and not run"):
        codegen.device("rocm")
    assert codegen.device("llvm") == codegen.cpu()
    with pytest.raises(codegen.CodegenError, match="guard_pages is for CPUs"):
        codegen.build(device_program(ADD), "opencl", guard_pages=True)


def test_without_a_runtime_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr("codegen.devices.process.find_spec", lambda name: None)
    with pytest.raises(
        LinkError, match=r"no runtime for opencl is installed; pip install 'tensorir\[opencl\]'"
    ):
        codegen.device("opencl", timeout=1.5, index=7)
    module = built(ADD, "opencl")
    x = np.zeros(64, "float32")
    with pytest.raises(
        TypeError, match=r"argument 1 \('A'\): expected an array of the device, got ndarray; pass"
    ):
        module["main"](x, x)
