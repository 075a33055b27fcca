"""Graphs of products of matrices, some with a left operand in blocks; made-up times."""

from __future__ import annotations

import numpy as np

import codegen
from search.models.graph_tuner import Measure
from tensorir import IRModule, PrimFunc, parse
from tensorir.transform import DeadCodeElimination

TARGET = "llvm -num-cores=1"
BLOCKED = "(i0, i1) -> (i0 // 8, i1 // 8, i0 % 8, i1 % 8)"

KERNELS = """
    @T.prim_func(private=True)
    def dense(X: T.Buffer((16, 16), "float32"), W: T.Buffer((16, 16), "float32"), Y: T.Buffer((16, 16), "float32")):
        T.func_attr({"tir.noalias": True})
        for i0, k0, j, i1, k1 in T.grid(2, 2, 16, 8, 8):
            with T.block("Y"):
                vi = T.axis.spatial(16, i0 * 8 + i1)
                vj = T.axis.spatial(16, j)
                vk = T.axis.reduce(16, k0 * 8 + k1)
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]

    @T.prim_func(private=True)
    def relu(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.max(A[vi, vj], T.float32(0))

    @T.prim_func(private=True)
    def halves(S: T.Buffer((16, 16), "float32"), P: T.Buffer((16, 16), "float32"), Q: T.Buffer((16, 16), "float32")):
        for i, j in T.grid(16, 16):
            with T.block("P"):
                vi, vj = T.axis.remap("SS", [i, j])
                P[vi, vj] = S[vi, vj] * T.float32(0.5)
        for i, j in T.grid(16, 16):
            with T.block("Q"):
                vi, vj = T.axis.remap("SS", [i, j])
                Q[vi, vj] = S[vi, vj] - P[vi, vj]
"""


def module(main: str, kernels: str = KERNELS) -> IRModule:
    """Return a module of a graph function, whose lines are not indented, and of what it calls."""
    body = "\n".join(f"    {line}" for line in main.strip("\n").splitlines())
    mod = parse(f"@I.ir_module\nclass Module:{kernels}\n{body}\n")
    assert isinstance(mod, IRModule)
    return DeadCodeElimination(["main"])(mod)


def graph(mod: IRModule) -> str:
    """Return the lines of the function `main` of a module, without its attributes."""
    lines = mod.script().splitlines()
    start = next(k for k, line in enumerate(lines) if "def main" in line)
    body = [line[4:] for line in lines[start + 1 :]]
    return "\n".join(x for x in body if "func_attr" not in x and "cls = Module" not in x)


def form(kernel: PrimFunc) -> str:
    """Return the parameters of a kernel, with a star behind those in blocks: `X* W Y`."""
    buffers = [kernel.buffer_map[param] for param in kernel.params]
    return " ".join(f"{b.name}*" if len(b.shape) == 4 else b.name for b in buffers)


def made_up(**microseconds: float) -> Measure:
    """Return times by form, blanks as underscores and stars as `_b`; 1 us for any other."""
    times = {name.replace("_b", "*").replace("_", " "): us for name, us in microseconds.items()}
    return lambda kernels: [times.get(form(kernel), 1.0) * 1e-6 for kernel in kernels]


def assert_same_results(tuned: IRModule, mod: IRModule, count: int) -> None:
    """Compare what `main` of two modules gives for so many random matrices."""
    args = np.random.default_rng(0).random((count, 16, 16), "float32") - 0.5
    results = [
        codegen.VirtualMachine(codegen.vm_build(version, TARGET, default_schedules=False))["main"](
            *args
        )
        for version in (tuned, mod)
    ]
    for got, expected in zip(*map(np.atleast_1d, results), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-4, atol=1e-5)
