"""Moving a buffer to another storage scope."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import assert_structural_equal, parse
from tests.schedule.programs import NARROW_STAGES as STAGES
from tests.schedule.programs import VIEW
from tests.schedule.transformation import apply, refused

SHARED = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    B_shared = T.alloc_buffer((8, 4), scope="shared")
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(B_shared[vi, vj])
            B_shared[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(B_shared[vi, vj])
            T.writes(C[vi, vj])
            C[vi, vj] = B_shared[vi, vj] + T.float32(1)
"""


def set_scope(block, buffer_index, storage_scope):
    return lambda sch: sch.set_scope(block, buffer_index, storage_scope)


@pytest.mark.parametrize("buffer_index", [0, "B"])
def test_the_buffer_is_made_anew_and_renamed(buffer_index):
    sch = apply(STAGES, set_scope("B", buffer_index, "shared"), SHARED)
    buffer = sch.get(sch.get_block("B")).writes[0].buffer
    assert buffer.name == "B_shared"
    assert buffer.data.name == "B_shared"
    assert buffer.scope() == "shared"


def test_a_buffer_object():
    sch = Schedule(parse(STAGES))
    block = sch.get_block("B")
    sch.set_scope(block, sch.get(block).writes[0].buffer, "shared")
    assert_structural_equal(sch.mod["main"], parse(SHARED))
    assert sch.trace.as_json()[0][-1] == ["SetScope", ["b0"], [0, "shared"], []]


@pytest.mark.parametrize(
    "scope", ["local", "warp", "shared.dyn", "global.vtcm", "wmma.matrix_a", "texture", "amx.tmm"]
)
def test_scopes(scope):
    after = SHARED.replace('scope="shared"', f'scope="{scope}"')
    apply(STAGES, set_scope("B", 0, scope), after)


@pytest.mark.parametrize("scope", ["global", ""])
def test_the_scope_that_it_has_changes_nothing(scope):
    apply(STAGES, set_scope("B", 0, scope), STAGES)


@pytest.mark.parametrize("scope", ["global", ""])
def test_back_to_global(scope):
    sch = apply(SHARED, set_scope("B", 0, scope), STAGES)
    assert sch.get(sch.get_block("B")).writes[0].buffer.name == "B_shared_global"


def test_a_reduction_with_init():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i, k in T.grid(8, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + T.float32(1)
"""
    after = before.replace("alloc_buffer((8,))", 'alloc_buffer((8,), scope="local")')
    apply(before, set_scope("B", 0, "local"), after)


def test_views_follow():
    after = VIEW.replace("alloc_buffer((8, 4))", 'alloc_buffer((8, 4), scope="shared")').replace(
        "offset_factor=1", 'offset_factor=1, scope="shared"'
    )
    sch = apply(VIEW, set_scope("row", 0, "shared"), after)
    assert sch.get(sch.get_block("inner")).writes[0].buffer.name == "row_shared"


def test_a_buffer_of_an_inner_block():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    for i in range(8):
        with T.block("row"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:4])
            T.writes(C[vi, 0:4])
            B = T.alloc_buffer((4,))
            for j in range(4):
                with T.block("B"):
                    vj = T.axis.spatial(4, j)
                    B[vj] = A[vi, vj] * T.float32(2)
            for j in range(4):
                with T.block("C"):
                    vj = T.axis.spatial(4, j)
                    C[vi, vj] = B[vj]
"""
    after = before.replace("alloc_buffer((4,))", 'alloc_buffer((4,), scope="local")')
    apply(before, set_scope("B", 0, "local"), after)


def test_handles_stay():
    sch = Schedule(parse(STAGES), debug_mask="all")
    blocks = [sch.get_block(name) for name in ("B", "C")]
    loops = [loop for block in blocks for loop in sch.get_loops(block)]
    sch.set_scope(blocks[0], 0, "shared")
    assert [sch.get(block).name_hint for block in blocks] == ["B", "C"]
    assert [sch.get(loop).loop_var.name for loop in loops] == ["i", "j", "i", "j"]


def test_trace():
    sch = apply(STAGES, set_scope("B", "B", "shared"))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="B", func_name="main")',
        'sch.set_scope(block=b0, buffer_index=0, storage_scope="shared")',
    ]
    assert sch.trace.as_json() == [
        [["GetBlock", [], ["B", "main"], ["b0"]], ["SetScope", ["b0"], [0, "shared"], []]],
        [],
    ]


# ----------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("before", "block", "args", "code", "words"),
    [
        (STAGES, "B", (1, "shared"), "BufferIndexOutOfRangeError", "is 1, but"),
        (STAGES, "B", (-1, "shared"), "BufferIndexOutOfRangeError", "has 1 write region(s)"),
        (STAGES, "B", (0, "cloud"), "InvalidStorageScopeError", "unknown storage scope 'cloud'"),
        (STAGES, "C", (0, "shared"), "NonAllocatedBufferError", "C is not allocated by a block"),
        (VIEW, "inner", (0, "shared"), "NonAllocatedBufferError", "row is not allocated"),
    ],
)
def test_refused(before, block, args, code, words):
    refused(before, set_scope(block, *args), code, words, [f"block {block}"])


def test_a_buffer_that_is_only_read():
    sch = Schedule(parse(STAGES))
    block = sch.get_block("C")
    with pytest.raises(ValueError, match="names a buffer that the block reads"):
        sch.set_scope(block, "B", "shared")
    assert len(sch.trace.insts) == 1
