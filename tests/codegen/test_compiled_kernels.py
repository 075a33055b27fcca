"""Constants are folded by compiled functions once `codegen` is imported."""

from __future__ import annotations

import numpy as np
from graph_modules import module_of

import codegen  # noqa: F401 - lets functions be compiled
from codegen import kernel
from tensorir.interp.graphs import interpret_graph
from tensorir.transform import BindParams, FoldConstant

LAYOUT = """
    @R.function
    def main(w: R.Tensor((512, 512), "float32")):
        cls = Module
        y = R.call_tir(cls.transpose, (w,), out_sinfo=R.Tensor((512, 512), "float32"))
        return y

    @T.prim_func(private=True)
    def transpose(A: T.Buffer((512, 512), "float32"), B: T.Buffer((512, 512), "float32")):
        for i, j, k in T.grid(512, 512, 8):
            with T.block("transpose"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    B[vi, vj] = T.float32(0)
                B[vi, vj] = B[vi, vj] + A[vj, vi]
"""


def test_what_is_too_long_for_the_interpreter_is_compiled_once(monkeypatch):
    made = []
    object_code = kernel.object_code

    def counting(text, *options):
        made.append(text)
        return object_code(text, *options)

    monkeypatch.setattr(kernel, "object_code", counting)
    w = np.arange(512 * 512, dtype="float32").reshape(512, 512)
    for _ in range(2):
        # Functions of another parse are not the same nodes, but the same programs.
        mod = FoldConstant()(BindParams("main", {"w": w})(module_of(LAYOUT)))
        assert "call_tir" not in mod["main"].script()
        np.testing.assert_array_equal(interpret_graph(mod, "main"), w.T * 8)
    assert len(made) == 2, "the kernel and its entry"


def test_constants_of_every_layout_are_passed():
    w = np.arange(4, dtype="float32")[::-1]
    mod = module_of("""
        @R.function
        def main(w: F4):
            cls = Module
            y = R.call_tir(cls.double, (w,), out_sinfo=F4)
            return y
    """)
    folded = FoldConstant()(BindParams("main", {"w": w})(mod))
    assert interpret_graph(folded, "main").tolist() == [6.0, 4.0, 2.0, 0.0]
