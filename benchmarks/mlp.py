"""A model of two linear layers with a ReLU between them, in tensor functions and in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from benchmarks.peers.serve import inputs
from tensorir import T
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import GlobalVar
from tensorir.relax import BlockBuilder, TensorStructInfo, Var
from tensorir.relax.calls import call_tir
from tensorir.transform import BindParams

SIZES: Final = (784, 128, 10)
"""How many features go into the model, are between its layers, and come out."""

PARAMETERS: Final = ("w0", "b0", "w1", "b1")


def shapes(batch: int) -> list[list[int]]:
    """Return the shapes of x, w0, b0, w1, b1; a weight has a row for each feature it gives."""
    n, m, k = SIZES
    return [[batch, n], [m, n], [m], [k, m], [k]]


def arguments(batch: int) -> list[np.ndarray]:
    """Return x, w0, b0, w1 and b1, the same in every process."""
    return inputs(shapes(batch))


def linear(batch: int, layer: int) -> IRModule:
    """Return x @ w^T + b of layer 0 or 1 as the function `main`, as a frontend writes it."""
    n_in, n_out = SIZES[layer : layer + 2]

    @T.prim_func
    def main(
        X: T.Buffer((batch, n_in), "float32"),
        W: T.Buffer((n_out, n_in), "float32"),
        B: T.Buffer((n_out,), "float32"),
        Z: T.Buffer((batch, n_out), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        Y = T.alloc_buffer((batch, n_out), "float32")
        for i, j, k in T.grid(batch, n_out, n_in):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(batch, n_out):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    return IRModule({"main": main})


def relu(batch: int) -> IRModule:
    """Return max(x, 0) of what is between the layers, as the function `main`."""
    n = SIZES[1]

    @T.prim_func
    def main(X: T.Buffer((batch, n), "float32"), Y: T.Buffer((batch, n), "float32")):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, j in T.grid(batch, n):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    return IRModule({"main": main})


def model(batch: int, layers: Sequence[IRModule]) -> IRModule:
    """Return the graph function `main(x)` of both layers, scheduled or not, its weights bound."""
    _, n_hidden, n_out = SIZES
    names = ("linear0", "relu", "linear1")
    functions = zip(names, (layers[0], relu(batch), layers[1]), strict=True)
    builder = BlockBuilder(
        IRModule({name: mod["main"].with_attr("global_symbol", name) for name, mod in functions})
    )
    x, w0, b0, w1, b1 = (
        Var(name, TensorStructInfo(shape, "float32"))
        for name, shape in zip(("x", *PARAMETERS), shapes(batch), strict=True)
    )
    hidden = TensorStructInfo((batch, n_hidden), "float32")
    out = TensorStructInfo((batch, n_out), "float32")
    with builder.function("main", [x, w0, b0, w1, b1]):
        with builder.dataflow():
            h = builder.emit(call_tir(GlobalVar("linear0"), [x, w0, b0], hidden))
            a = builder.emit(call_tir(GlobalVar("relu"), [h], hidden))
            y = builder.emit_output(call_tir(GlobalVar("linear1"), [a, w1, b1], out))
        builder.emit_func_output(y)
    weights = dict(zip(PARAMETERS, arguments(batch)[1:], strict=True))
    return BindParams("main", weights)(builder.get())


def in_numpy(arrays: Sequence[np.ndarray]) -> Callable[[], np.ndarray]:
    """Return a call of the model in NumPy, which reuses its results' memory."""
    x, w0, b0, w1, b1 = arrays
    hidden = np.empty((len(x), len(b0)), np.float32)
    out = np.empty((len(x), len(b1)), np.float32)

    def run() -> np.ndarray:
        np.matmul(x, w0.T, out=hidden)
        np.add(hidden, b0, out=hidden)
        np.maximum(hidden, 0, out=hidden)
        np.matmul(hidden, w1.T, out=out)
        return np.add(out, b1, out=out)

    return run


def stream(n: int) -> PrimFunc:
    """Return the sum of `n` floats, n divisible by 256, in sixteen vectors of partial sums.

    It reads memory as fast as a core can: what it takes is the least that any function takes which
    reads as much once.
    """
    steps = n // 256

    @T.prim_func
    def main(A: T.Buffer((steps, 16, 16), "float32"), S: T.Buffer((16, 16), "float32")):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for vector in T.unroll(16):
            for lane in T.vectorized(16):
                with T.block("init"):
                    vv, vl = T.axis.remap("SS", [vector, lane])
                    S[vv, vl] = T.float32(0)
        for step in range(steps):
            for vector in T.unroll(16):
                for lane in T.vectorized(16):
                    with T.block("S"):
                        vs, vv, vl = T.axis.remap("RSS", [step, vector, lane])
                        S[vv, vl] = S[vv, vl] + A[vs, vv, vl]

    return main
