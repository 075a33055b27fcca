"""A module of tensor functions and a graph function `main` that calls them.

Graph functions are built from their nodes here, so that tests of what stands beside them do not
depend on their script.
"""

from __future__ import annotations

from tensorir import IRModule, parse, relax
from tensorir.nodes.expr import GlobalVar
from tensorir.relax.expr import DataflowBlock, SeqExpr, VarBinding

KERNELS = """
@I.ir_module
class Module:
    @T.prim_func
    def scale(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
        T.func_attr({"tir.noalias": True})
        for i, j in T.grid(8, 4):
            with T.block("scaled"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)

    @T.prim_func
    def shift(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
        T.func_attr({"tir.noalias": True})
        for i, j in T.grid(8, 4):
            with T.block("shifted"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
"""
TENSOR = relax.TensorStructInfo((8, 4), "float32")


def kernels() -> IRModule:
    """Return the tensor functions alone."""
    mod = parse(KERNELS)
    assert isinstance(mod, IRModule)
    return mod


def scaled_and_shifted() -> relax.Function:
    """Return `main(x) = shift(scale(x))`."""
    x, lv, gv = relax.Var("x", TENSOR), relax.DataflowVar("lv", TENSOR), relax.Var("gv", TENSOR)
    bindings = [
        VarBinding(lv, relax.call_tir(GlobalVar("scale"), [x], TENSOR)),
        VarBinding(gv, relax.call_tir(GlobalVar("shift"), [lv], TENSOR)),
    ]
    body = SeqExpr([DataflowBlock(bindings)], gv)
    return relax.Function([x], body, attrs={"global_symbol": "main"})


def with_main(*names: str) -> IRModule:
    """Return `main` and the named tensor functions (without names: all)."""
    mod = IRModule({"main": scaled_and_shifted()})
    for name, func in kernels().prim_funcs().items():
        if not names or name in names:
            mod[name] = func
    return mod
