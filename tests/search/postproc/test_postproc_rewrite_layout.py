"""Weights are stored in the order in which a schedule reads them."""

import numpy as np
import pytest

import search as ms
from schedule import Schedule
from search.postproc import RewriteLayout
from search.runner.measure_candidate import without_layout_rewrite
from search.search_strategy.trace_application import TraceApplication
from tensorir import assert_structural_equal, parse
from tests.search.schedule_rule.programs import Reference, program

BEFORE = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    T.func_attr({"layout_free_buffers": [1]})
    for i0, j, k0, i1, k1 in T.grid(4, 16, 4, 4, 4):
        with T.block("C"):
            vi = T.axis.spatial(16, i0 * 4 + i1)
            vj = T.axis.spatial(16, j)
            vk = T.axis.reduce(16, k0 * 4 + k1)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

AFTER = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    T.func_attr({"layout_free_buffers": [1]})
    B_global = T.alloc_buffer((16, 4, 4))
    for ax0, ax1 in T.grid(16, 16):
        with T.block("B_global"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
            B_global[v1, v0 // 4, v0 % 4] = B[v0, v1]
    for i0, j, k0, i1, k1 in T.grid(4, 16, 4, 4, 4):
        with T.block("C"):
            vi = T.axis.spatial(16, i0 * 4 + i1)
            vj = T.axis.spatial(16, j)
            vk = T.axis.reduce(16, k0 * 4 + k1)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B_global[vj, vk // 4, vk % 4]
"""


def test_candidates_of_a_search_compute_the_same() -> None:
    before = program("matmul").with_attr("layout_free_buffers", [1])
    task = ms.TuneContext(
        before,
        target="llvm -num-cores=2",
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=7,
    )
    application = TraceApplication(task)
    reference = Reference(before)
    for space in task.generate_design_space():
        sch = application.apply(space.trace, resample=True)
        assert sch is not None
        reference.check(sch.mod)
        measured = without_layout_rewrite(sch.mod)["main"]
        weight = measured.buffer_map[measured.params[1]]
        assert np.prod([int(n) for n in weight.shape]) == 256
        assert weight.name == "B_global"


BARE = {
    "store": """
    for i in range(16):
        C[i, 0] = B[i, 0]
""",
    "condition": """
    for i in range(16):
        with T.block("D"):
            vi = T.axis.spatial(16, i)
            T.where(B[i, 0] > T.float32(0))
            C[vi, 0] = T.float32(1)
""",
    "pointer": """
    T.evaluate(T.call_extern("int32", "look", B.data))
""",
}


@pytest.mark.parametrize("at_build", [True, False])
@pytest.mark.parametrize("bare", BARE.values(), ids=BARE)
def test_a_weight_that_is_accessed_outside_of_blocks_keeps_its_layout(
    bare: str, at_build: bool
) -> None:
    func = parse(BEFORE + bare.strip("\n") + "\n")
    sch = Schedule(func)
    assert RewriteLayout(at_build=at_build).apply(sch)
    assert_structural_equal(sch.mod["main"], func)
