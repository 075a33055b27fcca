"""The overhead of calls of models: a call, a kernel, a library function, new sizes.

    python -m benchmarks.graph_calls

Models of tiny kernels are timed: the difference between two lengths is the cost of the kernels.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import codegen
from tensorir import IRModule, parse

LENGTH = 100
MODEL = """
@I.ir_module
class Module:
    @T.prim_func
    def next(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 8), "float32")
        B = T.match_buffer(b, (n, 8), "float32")
        for i, j in T.grid(n, 8):
            with T.block("next"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, 7 - vj]
    @R.function
    def main(v0: R.Tensor(({n!r}, 8), "float32")):
        n = T.int64()
        cls = Module
        {calls}
        return v{count}
"""


def chain(kernels: int, library_calls: int = 0, n: int | str = 1) -> IRModule:
    """Return a model of so many kernels over n x 8 floats, then so many library calls."""
    info = f"R.Tensor(({n}, 8), 'float32')"
    calls = [f"R.call_tir(cls.next, (v{k},), {info})" for k in range(kernels)]
    calls += [
        f"R.call_dps_packed('graph_calls.no', (v{k},), {info})"
        for k in range(kernels, kernels + library_calls)
    ]
    lines = "\n        ".join(f"v{k + 1} = {call}" for k, call in enumerate(calls))
    mod = parse(MODEL.format(n=n, calls=lines, count=len(calls)))
    assert isinstance(mod, IRModule)
    return mod


def nothing(x: codegen.NDArray, out: codegen.NDArray) -> None:
    """Do nothing, as a library function."""


@dataclass(frozen=True)
class Overheads:
    """Microseconds."""

    call: float
    kernel: float
    """In a call from Python; machine code alone is `kernel_in_loop`."""
    kernel_in_loop: float
    library_call: float
    """Beyond what Python takes for the function itself."""
    new_sizes: float
    """Of a call over symbolic sizes that are not those of the call before, beyond other calls."""


def measure() -> Overheads:
    """Return the figures of this machine."""
    codegen.register_func("graph_calls.no", nothing, override=True)
    x = codegen.array(np.zeros((1, 8), np.float32))
    one, many, library = (
        codegen.VirtualMachine(codegen.vm_build(mod, "llvm -num-cores=1"), codegen.cpu())
        for mod in (chain(1), chain(LENGTH), chain(1, LENGTH))
    )
    looped = [
        vm.module.time_evaluator("main", codegen.cpu(), number=1000, repeat=20)(x).min * 1e6
        for vm in (one, many)
    ]
    call_one, call_many, call_library = (vm["main"] for vm in (one, many, library))
    first = _microseconds(lambda: call_one(x))
    python = _microseconds(lambda: nothing(x, x))
    return Overheads(
        call=first - looped[0],
        kernel=(_microseconds(lambda: call_many(x)) - first) / (LENGTH - 1),
        kernel_in_loop=(looped[1] - looped[0]) / (LENGTH - 1),
        library_call=(_microseconds(lambda: call_library(x)) - first) / LENGTH - python,
        new_sizes=_new_sizes(),
    )


def _new_sizes() -> float:
    executable = codegen.vm_build(
        chain(LENGTH, n="n"), "llvm -num-cores=1", default_schedules=False
    )
    call = codegen.VirtualMachine(executable)["main"]
    one, two = (codegen.array(np.zeros((n, 8), np.float32)) for n in (1, 2))
    same = _microseconds(lambda: (call(one), call(one))) + _microseconds(
        lambda: (call(two), call(two))
    )
    return _microseconds(lambda: (call(one), call(two))) / 2 - same / 4


def _microseconds(function: Callable[[], object]) -> float:
    return min(timeit.repeat(function, number=100, repeat=200)) / 100 * 1e6


if __name__ == "__main__":
    print(measure())
