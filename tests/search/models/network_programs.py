"""Small models for tests of tuning: a layer that is called twice, a branch, equal functions."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorir
from tensorir import IRModule, transform

TARGET = "llvm -num-cores=1"

DENSE = """
    @T.prim_func(private=True)
    def {name}(A: T.Buffer(({n}, 16)), W: T.Buffer((16, 16)), C: T.Buffer(({n}, 16))):
        for i, j, k in T.grid({n}, 16, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
"""
RELU = """
    @T.prim_func(private=True)
    def {name}(A: T.Buffer(({n}, 16)), C: T.Buffer(({n}, 16))):
        for i, j in T.grid({n}, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(A[vi, vj], T.float32(0))
"""
LAYERS = """
    @R.function(private=True)
    def layer(x: M16, w: M16) -> M16:
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.dense, (x, w), out_sinfo=M16)
            b = R.call_tir(cls.relu, (a,), out_sinfo=M16)
            R.output(b)
        return b

    @R.function
    def main(x: M16, w: M16, c: R.Tensor((), "bool")) -> M16:
        cls = Module
        a: M16 = cls.layer(x, w)
        b: M16 = cls.layer(a, w)
        d = R.call_tir(cls.again, (b, w), out_sinfo=M16)
        if c:
            e: M16 = cls.layer(d, w)
            r: M16 = e
        else:
            f = R.call_tir(cls.dense, (d, w), out_sinfo=M16)
            r: M16 = f
        return r
"""


def module_of(*parts: str) -> IRModule:
    """Return a module of functions in script text; `M16` is a matrix of 16 rows and columns."""
    text = "".join(parts).replace("M16", 'R.Tensor((16, 16), "float32")')
    mod = tensorir.parse(f"@I.ir_module\nclass Module:\n{text}")
    assert isinstance(mod, IRModule)
    return mod


def layers() -> IRModule:
    """Return a model that calls a layer twice or three times, with two equal functions."""
    return module_of(
        DENSE.format(name="dense", n=16),
        DENSE.format(name="again", n=16),
        RELU.format(name="relu", n=16),
        RELU.format(name="never", n=16),
        LAYERS,
    )


MATMUL = """
    @T.prim_func(private=True)
    def {name}(A: T.Buffer((16, {k})), W: T.Buffer(({k}, {m})), C: T.Buffer((16, {m}))):
        for i, j, k in T.grid(16, {m}, {k}):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
"""
CHAIN = """
    @R.function
    def main(
        x: R.Tensor((16, 32), "float32"),
        w: R.Tensor((32, 32), "float32"),
        v: R.Tensor((32, 24), "float32"),
    ):
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.wide, (x, w), out_sinfo=R.Tensor((16, 32), "float32"))
            b = R.call_tir(cls.wide, (a, w), out_sinfo=R.Tensor((16, 32), "float32"))
            c = R.call_tir(cls.narrow, (b, v), out_sinfo=R.Tensor((16, 24), "float32"))
            d = R.call_tir(cls.small, (c,), out_sinfo=R.Tensor((16, 24), "float32"))
            R.output(d)
        return d
"""
_RNG = np.random.default_rng(0)
X = _RNG.standard_normal((16, 32)).astype("float32")
WEIGHTS: dict[str, Any] = {
    "w": _RNG.random((32, 32), np.float32),
    "v": _RNG.random((32, 24), np.float32),
}


def unbound_dense_model() -> IRModule:
    """Return a model of one layer twice, another one, and a small kernel."""
    return module_of(
        MATMUL.format(name="wide", k=32, m=32),
        MATMUL.format(name="narrow", k=32, m=24),
        RELU.format(name="small", n=16).replace("16)", "24)"),
        CHAIN,
    )


def dense_model() -> IRModule:
    """Return the same with constants for weights."""
    bound = transform.BindParams("main", WEIGHTS)(unbound_dense_model())
    assert isinstance(bound, IRModule)
    return bound


def in_numpy(x: Any) -> Any:
    """Return what `dense_model` computes."""
    return np.maximum(x @ WEIGHTS["w"] @ WEIGHTS["w"] @ WEIGHTS["v"], 0)


def symbolic_model() -> IRModule:
    """Return a model of a product and a rectifier with any number of rows."""
    kernel = """
    @T.prim_func(private=True)
    def {name}(a: T.handle, {more}c: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 16))
        C = T.match_buffer(c, (n, 16))
        {body}"""
    dense = kernel.format(name="dense", more="W: T.Buffer((16, 16)), ", body=_nest(DENSE))
    relu = kernel.format(name="relu", more="", body=_nest(RELU))
    return module_of(
        dense,
        relu,
        """
    @R.function
    def main(x: R.Tensor(("n", 16), "float32"), w: M16) -> R.Tensor(("n", 16), "float32"):
        cls = Module
        n = T.int64()
        with R.dataflow():
            a = R.call_tir(cls.dense, (x, w), out_sinfo=R.Tensor((n, 16), "float32"))
            b = R.call_tir(cls.relu, (a,), out_sinfo=R.Tensor((n, 16), "float32"))
            R.output(b)
        return b
""",
    )


def _nest(kernel: str) -> str:
    """Return the body of a kernel with `n` for its number of rows."""
    return kernel.partition("):\n")[2].strip().format(name="", n="n") + "\n"
