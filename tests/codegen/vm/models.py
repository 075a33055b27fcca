"""Small models that the tests of the executor run."""

from __future__ import annotations

from tensorir import IRModule, parse


def module(body: str) -> IRModule:
    """Return a module with the kernels below and the graph functions of `body`."""
    lines = [f"    {line}".rstrip() for line in body.strip("\n").splitlines()]
    mod = parse("\n".join([KERNELS, *lines]))
    assert isinstance(mod, IRModule)
    return mod


KERNELS = """
@I.ir_module
class Module:
    @T.prim_func
    def add(A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32"),
            C: T.Buffer((2, 3), "float32")):
        for i, j in T.grid(2, 3):
            with T.block("add"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + B[vi, vj]

    @T.prim_func
    def twice(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 3), "float32")
        B = T.match_buffer(b, (n, 3), "float32")
        for i, j in T.grid(n, 3):
            with T.block("twice"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)

    @T.prim_func
    def decrement(A: T.Buffer((), "int32"), B: T.Buffer((), "int32")):
        with T.block("decrement"):
            B[()] = A[()] - 1

    @T.prim_func
    def checked(A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32")):
        assert A[0, 0] < T.float32(100), "values are small"
        for i, j in T.grid(2, 3):
            with T.block("checked"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
"""
