"""cache_read: readers use a copy of a buffer."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import assert_structural_equal, parse
from tests.schedule.transformation import apply, refused, scheduled

ADD = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), B: T.Buffer((8, 6))):
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
"""

TWO_READERS = """\
@T.prim_func
def main(A: T.Buffer((8,)), W: T.Buffer((3,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * W[2]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + A[vi]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi] - A[vi]
"""

NESTED = """\
@T.prim_func
def main(A: T.Buffer((16,)), B: T.Buffer((16,))):
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 4:vi * 4 + 4])
            T.writes(B[vi * 4:vi * 4 + 4])
            for j in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j)
                    T.reads(A[vi * 4 + vj])
                    T.writes(B[vi * 4 + vj])
                    B[vi * 4 + vj] = A[vi * 4 + vj] + T.float32(1)
"""

UNDER_A_LOOP = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8, 6))
    for i in range(8):
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for j in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)
"""


def read(block, index, scope, **options):
    return lambda sch: sch.cache_read(block, index, scope, **options)


# ----------------------------------------------------------------------------------- what is cached


@pytest.mark.parametrize(
    ("scope", "name"),
    [("local", "A_local"), ("shared.dyn", "A_shared.dyn"), ("global", "A_global")],
)
def test_a_parameter_is_copied_at_the_start(scope, name):
    safe = name.replace(".", "_")
    after = f"""\
@T.prim_func
def main(A: T.Buffer((8, 6)), B: T.Buffer((8, 6))):
    {safe} = T.alloc_buffer((8, 6), scope="{scope}")
    for ax0, ax1 in T.grid(8, 6):
        with T.block("{name}"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            {safe}[v0, v1] = A[v0, v1]
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = {safe}[vi, vj] + T.float32(1)
"""
    sch = apply(ADD, read("B", 0, scope), after)
    (buffer,) = sch.get(sch.get_block("root")).alloc_buffers
    assert buffer.name == name
    assert buffer.scope() == scope


def test_buffers_by_index_by_name_and_as_objects():
    texts = []
    for choose in (lambda b: 0, lambda b: "A", lambda b: b.reads[0].buffer):
        sch = Schedule(parse(ADD))
        block = sch.get_block("B")
        sch.cache_read(block, choose(sch.get(block)), "local")
        texts.append(str(sch.trace))
    assert texts[0] == texts[1] == texts[2]
    assert 'sch.cache_read(block=b0, read_buffer_index=0, storage_scope="local")' in texts[0]


def test_all_readers_use_the_copy():
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), W: T.Buffer((3,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    A_local = T.alloc_buffer((8,), scope="local")
    for ax0 in range(8):
        with T.block("A_local"):
            v0 = T.axis.spatial(8, ax0)
            A_local[v0] = A[v0]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A_local[vi] * W[2]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + A_local[vi]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi] - A_local[vi]
"""
    apply(TWO_READERS, read("D", "A", "local"), after)


def test_only_some_readers_use_the_copy():
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), W: T.Buffer((3,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    A_local = T.alloc_buffer((8,), scope="local")
    for ax0 in range(8):
        with T.block("A_local"):
            v0 = T.axis.spatial(8, ax0)
            A_local[v0] = A[v0]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * W[2]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + A_local[vi]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi] - A_local[vi]
"""
    sch = apply(TWO_READERS, read("C", 1, "local", consumer_blocks=["C", "D"]), after)
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="C", func_name="main")',
        'b1 = sch.get_block(name="C", func_name="main")',
        'b2 = sch.get_block(name="D", func_name="main")',
        'b3 = sch.cache_read(block=b0, read_buffer_index=1, storage_scope="local", '
        "consumer_blocks=[b1, b2])",
    ]
    assert sch.trace.as_json()[0][-1] == [
        "CacheRead",
        ["b0", ["b1", "b2"]],
        [1, "local"],
        ["b3"],
    ]


def test_a_written_buffer_is_copied_before_its_first_reader():
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), W: T.Buffer((3,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    B_shared = T.alloc_buffer((8,), scope="shared")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * W[2]
    for ax0 in range(8):
        with T.block("B_shared"):
            v0 = T.axis.spatial(8, ax0)
            B_shared[v0] = B[v0]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B_shared[vi] + A[vi]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B_shared[vi] - A[vi]
"""
    apply(TWO_READERS, read("D", 0, "shared"), after)


def test_the_first_reader_is_one_of_those_asked_for():
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), W: T.Buffer((3,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    B_shared = T.alloc_buffer((8,), scope="shared")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * W[2]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + A[vi]
    for ax0 in range(8):
        with T.block("B_shared"):
            v0 = T.axis.spatial(8, ax0)
            B_shared[v0] = B[v0]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B_shared[vi] - A[vi]
"""
    apply(TWO_READERS, read("D", 0, "shared", consumer_blocks="D"), after)


def test_under_a_loop_the_copy_has_the_whole_shape():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8, 6))
    B_local = T.alloc_buffer((8, 6), scope="local")
    for i in range(8):
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for ax0, ax1 in T.grid(1, 6):
            with T.block("B_local"):
                v0 = T.axis.spatial(8, i + ax0)
                v1 = T.axis.spatial(6, ax1)
                B_local[v0, v1] = B[v0, v1]
        for j in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B_local[vi, vj] + T.float32(1)
"""
    apply(UNDER_A_LOOP, read("C", "B", "local"), after)


def test_in_a_block_the_copy_has_the_region_that_the_block_declares():
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), B: T.Buffer((16,))):
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 4:vi * 4 + 4])
            T.writes(B[vi * 4:vi * 4 + 4])
            A_local = T.alloc_buffer((4,), scope="local")
            for ax0 in range(4):
                with T.block("A_local"):
                    v0 = T.axis.spatial(4, ax0)
                    T.reads(A[vi * 4 + v0])
                    T.writes(A_local[v0])
                    A_local[v0] = A[vi * 4 + v0]
            for j in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j)
                    T.reads(A_local[vj])
                    T.writes(B[vi * 4 + vj])
                    B[vi * 4 + vj] = A_local[vj] + T.float32(1)
"""
    apply(NESTED, read("inner", 0, "local"), after)


def test_the_region_of_a_writer_with_a_predicate():
    before = """\
@T.prim_func
def main(A: T.Buffer((14,)), C: T.Buffer((14,))):
    B = T.alloc_buffer((14,))
    for i_0, i_1 in T.grid(4, 4):
        with T.block("B"):
            vi = T.axis.spatial(14, i_0 * 4 + i_1)
            T.where(i_0 * 4 + i_1 < 14)
            B[vi] = A[vi] + T.float32(1)
    for i in range(14):
        with T.block("C"):
            vi = T.axis.spatial(14, i)
            C[vi] = B[vi]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((14,)), C: T.Buffer((14,))):
    B = T.alloc_buffer((14,))
    B_local = T.alloc_buffer((14,), scope="local")
    for i_0, i_1 in T.grid(4, 4):
        with T.block("B"):
            vi = T.axis.spatial(14, i_0 * 4 + i_1)
            T.where(i_0 * 4 + i_1 < 14)
            B[vi] = A[vi] + T.float32(1)
    for ax0 in range(14):
        with T.block("B_local"):
            v0 = T.axis.spatial(14, ax0)
            B_local[v0] = B[v0]
    for i in range(14):
        with T.block("C"):
            vi = T.axis.spatial(14, i)
            C[vi] = B_local[vi]
"""
    apply(before, read("C", 0, "local"), after)


def test_a_part_that_does_not_begin_at_zero():
    before = """\
@T.prim_func
def main(A: T.Buffer((6,)), C: T.Buffer((6,))):
    B = T.alloc_buffer((10,))
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi + 3] = A[vi]
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi + 3] * T.float32(2)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((6,)), C: T.Buffer((6,))):
    B = T.alloc_buffer((10,))
    B_local = T.alloc_buffer((6,), scope="local")
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi + 3] = A[vi]
    for ax0 in range(6):
        with T.block("B_local"):
            v0 = T.axis.spatial(6, ax0)
            B_local[v0] = B[3 + v0]
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B_local[vi] * T.float32(2)
"""
    apply(before, read("C", 0, "local"), after)


def test_non_dividing_tiles_under_a_loop_are_copied_inside_the_buffer():
    before = """\
@T.prim_func
def main(A: T.Buffer((14,)), C: T.Buffer((14,))):
    B = T.alloc_buffer((14,))
    for i_0 in range(4):
        for i_1 in range(4):
            with T.block("B"):
                vi = T.axis.spatial(14, i_0 * 4 + i_1)
                T.where(i_0 * 4 + i_1 < 14)
                B[vi] = A[vi] + T.float32(1)
        for i_1 in range(4):
            with T.block("C"):
                vi = T.axis.spatial(14, i_0 * 4 + i_1)
                T.where(i_0 * 4 + i_1 < 14)
                C[vi] = B[vi]
"""
    sch = apply(before, read("C", 0, "local"))
    copy = sch.get_sref(sch.get_block("B_local"))
    assert copy.block.iter_vars[0].dom.extent.value == 14
    assert [
        node.loop_var.name for node in map(sch.get, sch.get_loops(sch.get_block("B_local")))
    ] == [
        "i_0",
        "ax0",
    ]


OVERWRITTEN = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] + T.float32(1)
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = T.float32(3)
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = A[vi]
"""


def test_what_is_overwritten_later_is_copied_at_the_start():
    after = OVERWRITTEN.replace("= A[vi] *", "= A_local[vi] *").replace(
        "= A[vi] +", "= A_local[vi] +"
    )
    after = after.replace(
        "    for i",
        """\
    A_local = T.alloc_buffer((8,), scope="local")
    for ax0 in range(8):
        with T.block("A_local"):
            v0 = T.axis.spatial(8, ax0)
            A_local[v0] = A[v0]
    for i""",
        1,
    )
    apply(OVERWRITTEN, read("B", 0, "local"), after)


def test_what_is_read_after_the_writer_is_copied_after_it():
    after = OVERWRITTEN.replace("= A[vi]\n", "= A_local[vi]\n").replace(
        "    for i", '    A_local = T.alloc_buffer((8,), scope="local")\n    for i', 1
    )
    last = after.rindex("    for i")
    after = (
        after[:last]
        + """\
    for ax0 in range(8):
        with T.block("A_local"):
            v0 = T.axis.spatial(8, ax0)
            A_local[v0] = A[v0]
"""
        + after[last:]
    )
    apply(OVERWRITTEN, read("D", 0, "local"), after)


@pytest.mark.parametrize(("block", "consumer"), [("B", "D"), ("D", "C")])
def test_readers_on_the_other_side_of_the_writer_read_other_values(block, consumer):
    call = read(block, 0, "local", consumer_blocks=[block, consumer])
    marked = [f"block {block}", f"block {consumer}", "block A"]
    refused(OVERWRITTEN, call, "NotConsumerError", 'block "A" overwrites them', marked)


CARRIED = """\
@T.prim_func
def main(A: T.Buffer((9,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.opaque(8, i)
            B[vi] = A[vi] * T.float32(2)
        with T.block("A"):
            vi = T.axis.opaque(8, i)
            A[vi + 1] = B[vi] + T.float32(3)
"""


def test_what_the_last_iteration_wrote_is_copied_in_each_iteration():
    after = """\
@T.prim_func
def main(A: T.Buffer((9,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    A_local = T.alloc_buffer((9,), scope="local")
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
    for i in range(8):
        for ax0 in range(1):
            with T.block("A_local"):
                v0 = T.axis.spatial(9, i + ax0)
                A_local[v0] = A[v0]
        with T.block("B"):
            vi = T.axis.opaque(8, i)
            B[vi] = A_local[vi] * T.float32(2)
        with T.block("A"):
            vi = T.axis.opaque(8, i)
            A[vi + 1] = B[vi] + T.float32(3)
"""
    apply(CARRIED, read("B", 0, "local"), after)


def test_before_the_loop_the_first_values_are_read():
    sch = apply(CARRIED, read("C", 0, "local"))
    assert "C[vi] = A_local[vi]" in sch.mod.script()
    assert "B[vi] = A[vi]" in sch.mod.script()


BRANCHES = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    for i in range(8):
        if i % 2 == 0:
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi]
        else:
            with T.block("D"):
                vi = T.axis.spatial(8, i)
                D[vi] = B[vi]
"""


def test_below_a_condition_the_copy_is_made_there():
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B_local = T.alloc_buffer((8,), scope="local")
    for i in range(8):
        if i % 2 == 0:
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]
            for ax0 in range(1):
                with T.block("B_local"):
                    v0 = T.axis.spatial(8, i + ax0)
                    B_local[v0] = B[v0]
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B_local[vi]
        else:
            with T.block("D"):
                vi = T.axis.spatial(8, i)
                D[vi] = B[vi]
"""
    apply(BRANCHES, read("C", 0, "local", consumer_blocks=["C"]), after)


def test_a_reader_in_another_case_of_the_condition_finds_no_copy():
    words = "also runs where a condition around the first does not hold"
    refused(BRANCHES, read("C", 0, "local"), "InsertionPointNotFoundError", words)
    words = "they are in different cases of one condition"
    refused(
        BRANCHES, read("D", 0, "local", consumer_blocks=["D"]), "InsertionPointNotFoundError", words
    )


def test_a_copy_stands_where_what_it_needs_is_defined():
    before = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    with T.block("root"):
        for i in range(8):
            x: T.int32 = 7 - i
            with T.block("B"):
                vi = T.axis.spatial(8, x)
                B[vi] = A[vi]
            with T.block("C"):
                vi = T.axis.spatial(8, x)
                C[vi] = B[vi]
"""
    sch = apply(before, read("C", 0, "local"))
    assert "v0 = T.axis.spatial(8, x + ax0)" in sch.mod.script()


def test_views_follow_the_copy():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:4])
            T.writes(C[vi, 0:4])
            V = T.match_buffer(A[vi, 0:4], (4,), offset_factor=1)
            for j in range(4):
                C[vi, j] = V[j]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    A_global = T.alloc_buffer((8, 4))
    for ax0, ax1 in T.grid(8, 4):
        with T.block("A_global"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A_global[v0, v1] = A[v0, v1]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(A_global[vi, 0:4])
            T.writes(C[vi, 0:4])
            V = T.match_buffer(A_global[vi, 0:4], (4,), offset_factor=1)
            for j in range(4):
                C[vi, j] = V[j]
"""
    apply(before, read("C", 0, "global"), after)


def test_raw_pointers_follow_the_copy():
    before = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[0:8])
            T.writes(B[vi])
            B[vi] = T.call_extern("float32", "f", A.data, vi)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    A_local = T.alloc_buffer((8,), scope="local")
    for ax0 in range(8):
        with T.block("A_local"):
            v0 = T.axis.spatial(8, ax0)
            A_local[v0] = A[v0]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A_local[0:8])
            T.writes(B[vi])
            B[vi] = T.call_extern("float32", "f", A_local.data, vi)
"""
    scheduled(before, read("B", 0, "local"), after)


def test_the_copy_keeps_dtype_and_index_type():
    before = """\
@T.prim_func
def main(A: T.Buffer((T.int64(8),), "int8"), B: T.Buffer((T.int64(8),), "int8")):
    for i in range(T.int64(8)):
        with T.block("B"):
            vi = T.axis.spatial(T.int64(8), i)
            B[vi] = A[vi]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((T.int64(8),), "int8"), B: T.Buffer((T.int64(8),), "int8")):
    A_local = T.alloc_buffer((T.int64(8),), "int8", scope="local")
    for ax0 in range(T.int64(8)):
        with T.block("A_local"):
            v0 = T.axis.spatial(T.int64(8), ax0)
            A_local[v0] = A[v0]
    for i in range(T.int64(8)):
        with T.block("B"):
            vi = T.axis.spatial(T.int64(8), i)
            B[vi] = A_local[vi]
"""
    apply(before, read("B", 0, "local"), after)


def test_the_copy_can_be_copied():
    def call(sch):
        block = sch.get_block("B")
        sch.cache_read(block, 0, "shared")
        sch.cache_read(block, 0, "local")

    sch = apply(ADD, call)
    names = [b.name for b in sch.get(sch.get_block("root")).alloc_buffers]
    assert names == ["A_shared", "A_shared_local"]
    last = sch.get(sch.get_block("A_shared_local"))
    assert last.reads[0].buffer.name == "A_shared"


# ------------------------------------------------------------------------------------------ handles


def test_handles():
    sch = Schedule(parse(ADD), debug_mask="all")
    block = sch.get_block("B")
    i, j = sch.get_loops(block)
    copy = sch.cache_read(block, 0, "local")
    assert sch.get(copy).name_hint == "A_local"
    assert sch.get(block).reads[0].buffer is sch.get(copy).writes[0].buffer
    sch.reorder(j, i)
    sch.compute_at(copy, j)


def test_trace():
    sch = apply(ADD, read("B", "A", "shared"))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="B", func_name="main")',
        'b1 = sch.cache_read(block=b0, read_buffer_index=0, storage_scope="shared")',
    ]
    assert sch.trace.as_json() == [
        [
            ["GetBlock", [], ["B", "main"], ["b0"]],
            ["CacheRead", ["b0", []], [0, "shared"], ["b1"]],
        ],
        [],
    ]


# ------------------------------------------------------------------------------------------ refused

PARTLY_WRITTEN = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + A[vi]
"""

WRITTEN_TWICE = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("B_again"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
"""

ROOT_THAT_DECLARES = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    with T.block("root"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]
"""


@pytest.mark.parametrize(
    ("before", "call", "code", "words", "marked"),
    [
        (ADD, read("B", 0, "nowhere"), "InvalidStorageScopeError", "'nowhere'", ["block B"]),
        # The scope is looked at before the index.
        (ADD, read("B", 9, "globl"), "InvalidStorageScopeError", "storage scope", ["block B"]),
        (ADD, read("B", 1, "local"), "BufferIndexOutOfRangeError", "1 read region", ["block B"]),
        (ADD, read("B", -1, "local"), "BufferIndexOutOfRangeError", "buffer_index", ["block B"]),
        (
            ROOT_THAT_DECLARES,
            read("root", 0, "local"),
            "RootBlockError",
            "root block",
            ["block root"],
        ),
        (
            PARTLY_WRITTEN,
            read("C", 0, "local"),
            "NotRegionCoverError",
            "region cover",
            ["block root", "block C"],
        ),
        # The condition is about the block, whichever of its buffers is staged.
        (
            PARTLY_WRITTEN,
            read("C", "A", "local"),
            "NotRegionCoverError",
            "region cover",
            ["block root", "block C"],
        ),
        (
            TWO_READERS,
            read("C", "B", "local", consumer_blocks=["B"]),
            "NotConsumerError",
            "none of the consumer_blocks reads B",
            ["block C"],
        ),
        (WRITTEN_TWICE, read("C", 0, "local"), "NotSingleWriteBlock", "2 write", ["block root"]),
    ],
)
def test_refused(before, call, code, words, marked):
    refused(before, call, code, words, marked)


@pytest.mark.parametrize(
    ("index", "kind", "words"),
    [
        ("B", ValueError, "names a buffer that the block writes"),
        ("X", ValueError, r'names "X", but block "B" touches only \[\'A\', \'B\'\]'),
        (1.0, TypeError, r"Schedule\.cache_read: `read_buffer_index` takes an index"),
    ],
)
def test_a_buffer_that_the_block_does_not_read(index, kind, words):
    sch = Schedule(parse(ADD))
    block = sch.get_block("B")
    program = sch.mod["main"]
    with pytest.raises(kind, match=words):
        sch.cache_read(block, index, "local")
    assert sch.mod["main"] is program
    assert len(sch.trace.insts) == 1


def test_a_reader_that_is_no_block():
    sch = Schedule(parse(ADD))
    with pytest.raises(TypeError, match=r"Schedule\.cache_read: `consumer_blocks\[1\]` takes a"):
        sch.cache_read("B", 0, "local", consumer_blocks=["B", 3])
    assert_structural_equal(sch.mod["main"], parse(ADD))
    assert not sch.trace.insts


def test_constants_are_copied_where_they_are_defined():
    before = """\
@T.prim_func
def main(A: T.Buffer((4,)), C: T.Buffer((4,))):
    data = T.allocate_const([0.0, 1.0, 2.0, 3.0], "float32", [4])
    B = T.decl_buffer((4,), data=data)
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi] + B[vi]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((4,)), C: T.Buffer((4,))):
    B_global = T.alloc_buffer((4,))
    A_global = T.alloc_buffer((4,))
    data = T.allocate_const([0.0, 1.0, 2.0, 3.0], "float32", [4])
    B = T.decl_buffer((4,), data=data)
    for ax0 in range(4):
        with T.block("A_global"):
            v0 = T.axis.spatial(4, ax0)
            A_global[v0] = A[v0]
    for ax0 in range(4):
        with T.block("B_global"):
            v0 = T.axis.spatial(4, ax0)
            B_global[v0] = B[v0]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = A_global[vi] + B_global[vi]
"""

    def call(sch):
        sch.cache_read("C", 1, "global")
        sch.cache_read("C", 0, "global")

    apply(before, call, after)
