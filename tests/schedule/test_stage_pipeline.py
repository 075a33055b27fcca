"""What other blocks of a scope do to one another does not keep a block from being scheduled."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tests.schedule.transformation import apply, refused

STAGES = """\
    B = T.alloc_buffer((8, 4))
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                D[vi] = T.float32(0)
            D[vi] = D[vi] + C[vi, vj]
"""
OVERWRITTEN = """\
    for i in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, i)
            X[vi] = Y[vi] + T.float32(1)
    for i in range(8):
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            Y[vi] = T.float32(0)
"""
PARTLY_WRITTEN = """\
    for i in range(4):
        with T.block("Y"):
            vi = T.axis.spatial(4, i)
            Y[vi] = T.float32(0)
    for i in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, i)
            X[vi] = Y[vi] + T.float32(1)
"""


def program(*stages: str) -> str:
    """Return a program of several stages, the later ones of which depend on others of its own."""
    header = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4)), D: T.Buffer((8,)),
         X: T.Buffer((8,)), Y: T.Buffer((8,))):
"""
    return header + "".join(stages)


CALLS = {
    "compute_at": lambda s: s.compute_at("B", s.get_loops("C")[0]),
    "reverse_compute_at": lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
    "compute_inline": lambda s: s.compute_inline("B"),
    "reverse_compute_inline": lambda s: s.reverse_compute_inline("C"),
    "reindex": lambda s: s.reindex("C", ("read", 0)),
    "reindex_cache_read": lambda s: s.reindex_cache_read("C", 0, "global", lambda i, j: (j, i)),
    "reindex_cache_write": lambda s: s.reindex_cache_write("C", 0, "global", lambda i, j: (j, i)),
    "rfactor": lambda s: s.rfactor(s.get_loops("D")[1], 0),
    "pad_einsum": lambda s: s.pad_einsum("D", [1, 8]),
    "read_at": lambda s: s.read_at(s.get_loops("C")[0], "C", 0, "global"),
    "write_at": lambda s: s.write_at(s.get_loops("C")[0], "C", 0, "global"),
}


@pytest.mark.parametrize("others", [OVERWRITTEN, PARTLY_WRITTEN], ids=["overwritten", "partly"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_stages_beside_others_that_are_none(call, others):
    apply(program(STAGES, others), call)
    apply(program(others, STAGES), call)


def test_a_window_beside_stages_that_are_none():
    def call(sch: Schedule) -> None:
        sch.compute_at("B", sch.get_loops("C")[0])
        sch.rolling_buffer("B", 0)

    window = STAGES.replace("C[vi, vj] = B[vi, vj]", "C[vi, vj] = B[vi, vj] + B[vi + 1, vj]")
    window = window.replace("i, j in T.grid(8, 4)", "i, j in T.grid(9, 4)", 1)
    window = window.replace("B = T.alloc_buffer((8, 4))", "B = T.alloc_buffer((9, 4))")
    window = window.replace("A[vi, vj] *", "A[vi // 2, vj] *")
    apply(program(window, OVERWRITTEN), call)


def test_a_stage_whose_input_is_overwritten_before_it_would_read_is_refused():
    later = """\
    for i, j in T.grid(8, 4):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = T.float32(0)
"""
    before = program(STAGES, later)
    words = 'not a stage pipeline around block "B"'
    marked = ["block root", "block A"]
    refused(before, CALLS["compute_inline"], "NotStagePipelineError", words, marked)
    apply(before, CALLS["reverse_compute_inline"])
    apply(before, CALLS["reverse_compute_at"])
