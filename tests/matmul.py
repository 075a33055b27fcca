"""The script of a product of matrices, for tests that need some program."""

from __future__ import annotations


def matmul(n: int, m: int, k: int, *, noalias: bool = False) -> str:
    """Return `C[n, m] = A[n, k] @ B[k, m]` in float32, in one block `C`."""
    attr = '    T.func_attr({"tir.noalias": True})\n' if noalias else ""
    return f"""\
@T.prim_func
def main(A: T.Buffer(({n}, {k})), B: T.Buffer(({k}, {m})), C: T.Buffer(({n}, {m}))):
{attr}    for i, j, k in T.grid({n}, {m}, {k}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
