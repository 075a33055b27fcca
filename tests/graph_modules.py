"""Modules for tests of graph functions: tensor functions over four floats, and a graph over them."""

from __future__ import annotations

import textwrap
from typing import Any

import tensorir
from tensorir import IRModule

KERNELS = """
@T.prim_func(private=True)
def add(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("add"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi] + B[vi]

@T.prim_func(private=True)
def double(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("double"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi] + A[vi]

@T.prim_func(private=True)
def increment(A: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("increment"):
            vi = T.axis.spatial(4, i)
            A[vi] = A[vi] + T.float32(1)

@T.prim_func(private=True)
def both(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32"), D: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("both"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi] + T.float32(1)
            D[vi] = A[vi] - T.float32(1)

@T.prim_func(private=True)
def add_scalar(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32"), k: T.int64):
    for i in range(4):
        with T.block("add_scalar"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi] + T.cast(k, "float32")

@T.prim_func(private=True)
def double_any(a: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    for i in range(n):
        with T.block("double"):
            vi = T.axis.spatial(n, i)
            C[vi] = A[vi] + A[vi]
"""


def module_of(graph: str) -> IRModule:
    """Return the module of these tensor functions and of graph functions in script text.

    `F4` stands for `R.Tensor((4,), "float32")`.
    """
    text = textwrap.dedent(graph).replace("F4", 'R.Tensor((4,), "float32")')
    body = textwrap.indent(KERNELS + text, "    ")
    module = tensorir.parse(f"@I.ir_module\nclass Module:\n{body}")
    assert isinstance(module, IRModule)
    return module


def is_same(a: Any, b: Any) -> bool:
    """Say whether two modules hold the very same functions."""
    return a.functions.keys() == b.functions.keys() and all(a[n] is b[n] for n in a)
