"""Outputs are written over arguments that nobody needs any more, where that is safe."""

from __future__ import annotations

import numpy as np
import pytest
from graph_modules import assert_graph, is_same, module_of

from tensorir import verify_well_formed
from tensorir.interp.graphs import interpret_graph
from tensorir.memory.overwritten_arguments import overwritable_arguments
from tensorir.script.parser import parse
from tensorir.transform import DataflowUseInplaceCalls

OVER = DataflowUseInplaceCalls(smallest=0)


def rewritten(graph):
    before = module_of(graph)
    kept = before.clone()
    after = OVER(before)
    assert is_same(before, kept)
    assert verify_well_formed(after)
    return after


def test_the_last_use_of_a_tensor_overwrites_it():
    mod = rewritten("""
        @R.function
        def main(x: F4):
            cls = Module
            with R.dataflow():
                a = R.call_tir(cls.double, (x,), out_sinfo=F4)
                b = R.call_tir(cls.add, (x, a), out_sinfo=F4)
                R.output(b)
            return b
    """)
    text = mod["main"].script()
    assert "R.call_tir_inplace(" in text
    assert "(x, a), inplace_indices=[1], out_sinfo=" in text
    assert "R.call_tir(" in text  # x is the caller's
    assert "add" not in mod
    assert len(mod["add_inplace"].params) == 2
    assert interpret_graph(mod, "main", np.ones(4, "float32")).tolist() == [3.0] * 4


@pytest.mark.parametrize(
    "graph",
    [
        # an argument, a tensor that is needed afterwards, one that is another argument of the call
        "a = R.call_tir(cls.double, (x,), out_sinfo=F4)\n    return a",
        """a = R.call_tir(cls.double, (x,), out_sinfo=F4)
    b = R.call_tir(cls.double, (a,), out_sinfo=F4)
    return (a, b)""",
        """a = R.call_tir(cls.double, (x,), out_sinfo=F4)
    b = R.call_tir(cls.add, (a, a), out_sinfo=F4)
    return b""",
    ],
)
def test_what_is_needed_stays(graph):
    mod = rewritten(f"@R.function\ndef main(x: F4):\n    cls = Module\n    {graph}")
    assert "call_tir_inplace" not in mod["main"].script()


def test_a_branch_does_not_overwrite_what_it_has_not_computed():
    graph = """
        @R.function
        def main(x: F4, flag: R.Tensor((), "bool")):
            cls = Module
            a = R.call_tir(cls.double, (x,), out_sinfo=F4)
            if flag:
                y = R.call_tir(cls.double, (a,), out_sinfo=F4)
            else:
                y = R.call_tir(cls.add, (x, a), out_sinfo=F4)
            return y
    """
    assert_graph(rewritten(graph), graph)


def kernel(body, shapes=("(8, 4)",) * 3):
    parameters = ", ".join(
        f'{name}: T.Buffer({shape}, "float32")' for name, shape in zip("ABC", shapes, strict=True)
    )
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return parse(f"@T.prim_func\ndef kernel({parameters}):\n{lines}")


SAFE = {
    "at the same place": """
for i, j in T.grid(8, 4):
    with T.block("c"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi, vj] * B[vj, vi % 4]
""",
    "fused, split and padded loops": """
for f in T.parallel(2):
    for g in T.vectorized(20):
        with T.block("c"):
            T.where(f * 20 + g < 32)
            vi = T.axis.spatial(8, (f * 20 + g) // 4)
            vj = T.axis.spatial(4, (f * 20 + g) % 4)
            C[vi, vj] = T.if_then_else(vi < 3, A[vi, vj], T.float32(0)) + B[0, 0]
""",
    "after a reduction": """
S = T.alloc_buffer((8, 4))
for i, j, k in T.grid(8, 4, 4):
    with T.block("s"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            S[vi, vj] = T.float32(0)
        S[vi, vj] += B[vi, vk]
for i, j in T.grid(8, 4):
    with T.block("c"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = S[vi, vj] + A[vi, vj]
""",
}
UNIT = """
for i, j in T.grid(1, 4):
    with T.block("c"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[0, vj] + B[0, 0]
"""
UNSAFE = {
    "another place": """
for i, j in T.grid(8, 4):
    with T.block("c"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[7 - vi, vj] + B[vi, vj % 2]
""",
    "read again": """
for i, j in T.grid(8, 4):
    with T.block("c"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi, vj] + A[0, vj] + B[vi, vj % 2]
""",
    "written twice": """
for i, j, k in T.grid(8, 4, 2):
    with T.block("c"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi, vj] + B[vi, vj % 2]
""",
    "overlapping tiles": """
for i, j in T.grid(2, 5):
    for k in range(4):
        with T.block("c"):
            vi = T.axis.spatial(8, i * 3 + j)
            vj = T.axis.spatial(4, k)
            C[vi, vj] = A[vi, vj] + B[vi, vj % 2]
""",
    "a sum": """
for i, j, k in T.grid(8, 4, 4):
    with T.block("c"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] += A[vi, vj] * B[vi, vk % 2]
""",
    "through a pointer": """
for i, j in T.grid(8, 4):
    with T.block("c"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(A[vi, vj], B[vi, vj % 2])
        T.writes(C[vi, vj])
        T.evaluate(T.call_extern("int32", "f", A.data))
        C[vi, vj] = A[vi, vj] + B[vi, vj % 2]
""",
}


@pytest.mark.parametrize("name", SAFE)
def test_elements_that_are_read_only_where_they_are_overwritten(name):
    assert overwritable_arguments(kernel(SAFE[name])) == {2: (0,)}


@pytest.mark.parametrize("name", UNSAFE)
def test_elements_that_may_be_read_after_they_are_overwritten(name):
    assert overwritable_arguments(kernel(UNSAFE[name])) == {}


def test_all_indices_of_one_element_are_the_same():
    assert overwritable_arguments(kernel(UNIT, ("(1, 4)", "(1, 1)", "(1, 4)"))) == {2: (0,)}


def test_tensors_of_other_shapes_are_not_overwritten():
    broadcast = kernel(
        SAFE["at the same place"].replace("A[vi, vj]", "A[vi]").replace("B[vj, vi % 4]", "B[vj]"),
        ("(8,)", "(4,)", "(8, 4)"),
    )
    assert overwritable_arguments(broadcast) == {}
