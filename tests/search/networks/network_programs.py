"""Small models for tests of tuning: a layer that is called twice, a branch, equal functions."""

from __future__ import annotations

import tensorir
from tensorir import IRModule

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
    """Return a model in which a layer is called twice or three times, and two functions equal."""
    return module_of(
        DENSE.format(name="dense", n=16),
        DENSE.format(name="again", n=16),
        RELU.format(name="relu", n=16),
        RELU.format(name="never", n=16),
        LAYERS,
    )
