"""The SPIR-V of kernels in a simulator that finds races, wrong barriers and accesses out of bounds.

oclgrind simulates LLVM's instructions, which an old translator makes of SPIR-V; both come with
Debian. It shows that barriers and bounds of the program are those of the kernel that ships.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from devices.ladder import OPENCL, device_program

from codegen.devices.compile import compile_lowered
from codegen.devices.launches import Launch

TOOLS = ("spirv-dis", "spirv-as", "llvm-spirv-14", "oclgrind-kernel")
pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, TOOLS)), reason=f"needs {', '.join(TOOLS)} of the system"
)

SUMS = """
def main(A: T.Buffer((128,), "float32"), C: T.Buffer((2,), "float32")):
    T.func_attr({"tir.noalias": True})
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        red_data = T.allocate([64], "float32", "shared")
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            red = T.Buffer((64,), data=red_data, scope="shared")
            red[tx] = A[bx * 64 + tx]
            T.tvm_storage_sync("shared")
            for s in T.unroll(6):
                if tx < T.shift_right(32, s):
                    red[tx] = red[tx] + red[tx + T.shift_right(32, s)]
                T.tvm_storage_sync("shared")
            if tx == 0:
                C[bx] = red[0]
"""
LAST_BARRIER = """                    red[tx] = red[tx] + red[tx + T.shift_right(32, s)]
                T.tvm_storage_sync("shared")
"""


def run(*command: str | Path) -> str:
    ran = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=True, timeout=60
    )
    return ran.stdout + ran.stderr


def simulated(text: str, folder: Path) -> str:
    """Return what oclgrind prints of a program of one kernel whose inputs are all 1."""
    function = compile_lowered({"main": device_program(text)}, OPENCL).functions[0]
    (launch,) = function.steps
    assert isinstance(launch, Launch)
    binary, assembly, program = (folder / f"kernel.{end}" for end in ("spv", "asm", "bc"))
    binary.write_bytes(function.kernels[launch.kernel])
    # The translator does not know that numbers may be null.
    numbers = re.sub(
        r"OpConstantNull (%(?:u\w+|float|double))\n", r"OpConstant \1 0\n", run("spirv-dis", binary)
    )
    assembly.write_text(numbers)
    run("spirv-as", assembly, "--target-env", "spv1.3", "-o", binary)
    run("llvm-spirv-14", "-r", "--spirv-target-env=CL1.2", binary, "-o", program)
    threads = [n * m for n, m in zip(launch.grid, launch.block, strict=True)]
    lines = [program, launch.kernel, " ".join(map(str, threads)), " ".join(map(str, launch.block))]
    for number in launch.arguments:
        parameter = function.signature.parameters[number]
        is_output = number == launch.arguments[-1]
        filled = "fill=0 dump" if is_output else "fill=1"
        lines.append(f"<size={4 * parameter.shape[0]} float {filled}>")
    simulation = folder / "kernel.sim"
    simulation.write_text("\n".join(map(str, lines)) + "\n")
    return run("oclgrind-kernel", "--data-races", "--uniform-writes", simulation)


def test_a_kernel_without_faults(tmp_path):
    found = simulated(SUMS, tmp_path)
    assert re.findall(r"= (\S+)", found) == ["64", "64"]
    assert "error" not in found.lower()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (LAST_BARRIER, LAST_BARRIER.splitlines()[0] + "\n", "data race"),
        ("A[bx * 64 + tx]", "A[bx * 65 + tx]", "Invalid read"),
        ("red[tx] = A", "red[tx + 1] = A", "Invalid write"),
        ("C[bx] =", "C[0] =", "data race"),
        (
            LAST_BARRIER,
            LAST_BARRIER.replace("                T.tvm", "                    T.tvm"),
            "divergence",
        ),
    ],
)
def test_injected_faults_are_found(before, after, message, tmp_path):
    assert before in SUMS
    assert message in simulated(SUMS.replace(before, after), tmp_path)
