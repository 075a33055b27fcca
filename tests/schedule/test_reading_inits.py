"""Inits that read what the block accumulates into: what was there before is a part of the result."""

from __future__ import annotations

import pytest

from tensorir import parse
from tests.schedule.cases import program
from tests.schedule.transformation import apply, refused, scheduled

SCALED = program("SCALED", "reading_inits")
INITS = [
    "C[vi] * T.float32(0.5)",
    "T.if_then_else(C[vi] > T.float32(0), C[vi], T.float32(0))",
]


def loop(sch, depth):
    return sch.get_loops("C")[depth]


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize(
    "call",
    [
        lambda sch: sch.cache_write("C", 0, "local"),
        lambda sch: sch.write_at(loop(sch, 0), "C", 0, "local"),
        lambda sch: sch.write_at(loop(sch, 1), "C", 0, "local"),
        lambda sch: sch.reindex("C", ("write", 0)),
        lambda sch: sch.reindex_cache_write("C", 0, "local", lambda i, k: (i,)),
        lambda sch: sch.cache_inplace("C", 0, "local"),
        lambda sch: sch.pad_einsum("C", [3, 1]),
        lambda sch: sch.decompose_reduction("C", loop(sch, 0)),
        lambda sch: sch.decompose_reduction("C", loop(sch, 1)),
        lambda sch: sch.blockize(loop(sch, 0)),
        lambda sch: sch.reorder(loop(sch, 1), loop(sch, 0)),
        lambda sch: sch.parallel(loop(sch, 0)),
    ],
)
def test_what_was_there_before_is_kept(call, init):
    apply(SCALED.format(init=init), call)


def test_what_an_init_reads_is_declared():
    before = parse(SCALED.format(init="C[vi] * T.float32(2)"))
    block = before.body.block.body.body.body.block
    assert [str(r) for r in block.reads] == ["C[vi]", "A[vi, vk]"]


def test_an_init_is_not_repeated_by_a_fused_loop():
    before = scheduled(SCALED.format(init=INITS[0]), lambda sch: sch.fuse(*sch.get_loops("C")))
    call = lambda sch: sch.decompose_reduction("C", loop(sch, 0))  # noqa: E731
    refused(before.mod["main"].script(), call, "LoopPositionError", "would run once for each step")
    plain = scheduled(SCALED.format(init="A[vi, 0]"), lambda sch: sch.fuse(*sch.get_loops("C")))
    apply(plain.mod["main"].script(), call)
