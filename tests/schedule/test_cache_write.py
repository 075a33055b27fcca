"""cache_write: a block writes a buffer of its own, which is copied back."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import parse
from tests.schedule.transformation import apply, refused, scheduled

MATMUL = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), B: T.Buffer((5, 6)), C: T.Buffer((8, 6))):
    for i, j, k in T.grid(8, 6, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

CHAIN = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(3)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + T.float32(1)
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi] - T.float32(1)
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

TWO_OUTPUTS = """\
@T.prim_func
def main(A: T.Buffer((8,)), M: T.Buffer((8,)), N: T.Buffer((8,))):
    for i in range(8):
        with T.block("both"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(M[vi], N[vi])
            M[vi] = A[vi] + T.float32(1)
            N[vi] = A[vi] + T.float32(2)
"""


def write(block, index, scope, **options):
    return lambda sch: sch.cache_write(block, index, scope, **options)


# ----------------------------------------------------------------------------------- what is cached


@pytest.mark.parametrize("scope", ["global", "local", "shared"])
def test_an_output_is_copied_back_at_the_end(scope):
    after = f"""\
@T.prim_func
def main(A: T.Buffer((8, 5)), B: T.Buffer((5, 6)), C: T.Buffer((8, 6))):
    C_{scope} = T.alloc_buffer((8, 6), scope="{scope}")
    for i, j, k in T.grid(8, 6, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C_{scope}[vi, vj] = T.float32(0)
            C_{scope}[vi, vj] = C_{scope}[vi, vj] + A[vi, vk] * B[vk, vj]
    for ax0, ax1 in T.grid(8, 6):
        with T.block("C_{scope}"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            C[v0, v1] = C_{scope}[v0, v1]
"""
    apply(MATMUL, write("C", 0, scope), after)


def test_an_intermediate_buffer_is_copied_back_before_its_first_reader():
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    B_local = T.alloc_buffer((8,), scope="local")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B_local[vi] = A[vi] * T.float32(3)
    for ax0 in range(8):
        with T.block("B_local"):
            v0 = T.axis.spatial(8, ax0)
            B[v0] = B_local[v0]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + T.float32(1)
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi] - T.float32(1)
"""
    apply(CHAIN, write("B", 0, "local"), after)


def test_readers_that_use_the_cache_do_not_wait_for_the_copy():
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    B_local = T.alloc_buffer((8,), scope="local")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B_local[vi] = A[vi] * T.float32(3)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B_local[vi] + T.float32(1)
    for ax0 in range(8):
        with T.block("B_local"):
            v0 = T.axis.spatial(8, ax0)
            B[v0] = B_local[v0]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi] - T.float32(1)
"""
    sch = apply(CHAIN, write("B", 0, "local", consumer_blocks=["C"]), after)
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="B", func_name="main")',
        'b1 = sch.get_block(name="C", func_name="main")',
        'b2 = sch.cache_write(block=b0, write_buffer_index=0, storage_scope="local", '
        "consumer_blocks=[b1])",
    ]
    assert sch.trace.as_json()[0][-1] == ["CacheWrite", ["b0", ["b1"]], [0, "local"], ["b2"]]


def test_where_all_readers_use_the_cache_the_copy_comes_last():
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    B_local = T.alloc_buffer((8,), scope="local")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B_local[vi] = A[vi] * T.float32(3)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B_local[vi] + T.float32(1)
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B_local[vi] - T.float32(1)
    for ax0 in range(8):
        with T.block("B_local"):
            v0 = T.axis.spatial(8, ax0)
            B[v0] = B_local[v0]
"""

    def call(sch):
        sch.cache_write("B", 0, "local", sch.get_consumers("B"))

    apply(CHAIN, call, after)


def test_under_a_loop_the_cache_has_the_whole_shape():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8, 6))
    B_local = T.alloc_buffer((8, 6), scope="local")
    for i in range(8):
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B_local[vi, vj] = A[vi, vj] * T.float32(2)
        for ax0, ax1 in T.grid(1, 6):
            with T.block("B_local"):
                v0 = T.axis.spatial(8, i + ax0)
                v1 = T.axis.spatial(6, ax1)
                B[v0, v1] = B_local[v0, v1]
        for j in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)
"""
    apply(UNDER_A_LOOP, write("B", "B", "local"), after)


def test_a_part_of_the_buffer_gives_a_cache_of_that_part():
    before = """\
@T.prim_func
def main(A: T.Buffer((5, 4)), B: T.Buffer((9, 4))):
    for i, k in T.grid(5, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi + 2, vk] = A[vi, vk]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((5, 4)), B: T.Buffer((9, 4))):
    B_local = T.alloc_buffer((5, 4), scope="local")
    for i, k in T.grid(5, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SS", [i, k])
            B_local[vi, vk] = A[vi, vk]
    for ax0, ax1 in T.grid(5, 4):
        with T.block("B_local"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            B[2 + v0, v1] = B_local[v0, v1]
"""
    apply(before, write("B", 0, "local"), after)


def test_in_a_block_the_cache_covers_what_the_block_writes_there():
    before = """\
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
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), B: T.Buffer((16,))):
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 4:vi * 4 + 4])
            T.writes(B[vi * 4:vi * 4 + 4])
            B_local = T.alloc_buffer((4,), scope="local")
            for j in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j)
                    T.reads(A[vi * 4 + vj])
                    T.writes(B_local[vj])
                    B_local[vj] = A[vi * 4 + vj] + T.float32(1)
            for ax0 in range(4):
                with T.block("B_local"):
                    v0 = T.axis.spatial(4, ax0)
                    T.reads(B_local[v0])
                    T.writes(B[vi * 4 + v0])
                    B[vi * 4 + v0] = B_local[v0]
"""
    apply(before, write("inner", 0, "local"), after)


def test_non_dividing_tiles():
    before = """\
@T.prim_func
def main(A: T.Buffer((14,)), B: T.Buffer((14,))):
    for i in range(14):
        with T.block("B"):
            vi = T.axis.spatial(14, i)
            B[vi] = A[vi] + T.float32(1)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((14,)), B: T.Buffer((14,))):
    B_global = T.alloc_buffer((14,))
    for i_0, i_1 in T.grid(4, 4):
        with T.block("B"):
            vi = T.axis.spatial(14, i_0 * 4 + i_1)
            T.where(i_0 * 4 + i_1 < 14)
            B_global[vi] = A[vi] + T.float32(1)
    for ax0 in range(14):
        with T.block("B_global"):
            v0 = T.axis.spatial(14, ax0)
            B[v0] = B_global[v0]
"""

    def call(sch):
        block = sch.get_block("B")
        sch.split(sch.get_loops(block)[0], [None, 4])
        sch.cache_write(block, 0, "global")

    apply(before, call, after)


@pytest.mark.parametrize(("index", "name"), [(0, "M"), (1, "N"), ("M", "M"), ("N", "N")])
def test_one_of_two_outputs(index, name):
    after = TWO_OUTPUTS.replace(f"{name}[vi]", f"{name}_local[vi]").replace(
        "    for i",
        f'    {name}_local = T.alloc_buffer((8,), scope="local")\n    for i',
    )
    after += f"""\
    for ax0 in range(8):
        with T.block("{name}_local"):
            v0 = T.axis.spatial(8, ax0)
            {name}[v0] = {name}_local[v0]
"""
    apply(TWO_OUTPUTS, write("both", index, "local"), after)


def test_a_buffer_object_names_the_output():
    sch = Schedule(parse(TWO_OUTPUTS))
    block = sch.get_block("both")
    sch.cache_write(block, sch.get(block).writes[1].buffer, "local")
    assert sch.trace.as_json()[0][-1] == ["CacheWrite", ["b0", []], [1, "local"], ["b1"]]


def test_views_in_the_writer_follow_the_cache():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:4])
            T.writes(C[vi, 0:4])
            V = T.match_buffer(C[vi, 0:4], (4,), offset_factor=1)
            for j in range(4):
                V[j] = A[vi, j]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    C_global = T.alloc_buffer((8, 4))
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:4])
            T.writes(C_global[vi, 0:4])
            V = T.match_buffer(C_global[vi, 0:4], (4,), offset_factor=1)
            for j in range(4):
                V[j] = A[vi, j]
    for ax0, ax1 in T.grid(8, 4):
        with T.block("C_global"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            C[v0, v1] = C_global[v0, v1]
"""
    scheduled(before, write("C", 0, "global"), after)


def test_a_writer_with_blocks_inside_moves_to_the_cache_as_a_whole():
    before = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(2):
        with T.block("outer"):
            vi = T.axis.spatial(2, i)
            T.reads(A[vi * 4:vi * 4 + 4])
            T.writes(B[vi * 4:vi * 4 + 4])
            for j in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j)
                    T.reads(A[vi * 4 + vj])
                    T.writes(B[vi * 4 + vj])
                    B[vi * 4 + vj] = A[vi * 4 + vj]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    B_global = T.alloc_buffer((8,))
    for i in range(2):
        with T.block("outer"):
            vi = T.axis.spatial(2, i)
            T.reads(A[vi * 4:vi * 4 + 4])
            T.writes(B_global[vi * 4:vi * 4 + 4])
            for j in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j)
                    T.reads(A[vi * 4 + vj])
                    T.writes(B_global[vi * 4 + vj])
                    B_global[vi * 4 + vj] = A[vi * 4 + vj]
    for ax0 in range(8):
        with T.block("B_global"):
            v0 = T.axis.spatial(8, ax0)
            B[v0] = B_global[v0]
"""
    apply(before, write("outer", 0, "global"), after)


# -------------------------------------------------------------------------------------- old values

UPDATE = """\
@T.prim_func
def main(A: T.Buffer((8,)), X: T.Buffer((8,))):
    for i in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, i)
            X[vi] = X[vi] + A[vi]
"""

EVERY_OTHER = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((16,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi * 2] = A[vi]
"""


def test_what_a_block_reads_and_writes_is_filled_first():
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), X: T.Buffer((8,))):
    X_local = T.alloc_buffer((8,), scope="local")
    for ax0 in range(8):
        with T.block("X_local"):
            v0 = T.axis.spatial(8, ax0)
            X_local[v0] = X[v0]
    for i in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, i)
            X_local[vi] = X_local[vi] + A[vi]
    for ax0 in range(8):
        with T.block("X_local"):
            v0 = T.axis.spatial(8, ax0)
            X[v0] = X_local[v0]
"""
    apply(UPDATE, write("X", 0, "local"), after)


def test_the_part_that_is_read_may_be_another_than_the_one_that_is_written():
    before = """\
@T.prim_func
def main(X: T.Buffer((20,))):
    for i in range(8):
        with T.block("X"):
            vi = T.axis.opaque(8, i)
            X[vi + 4] = X[vi + 2] + T.float32(1)
"""
    after = """\
@T.prim_func
def main(X: T.Buffer((20,))):
    X_local = T.alloc_buffer((10,), scope="local")
    for ax0 in range(10):
        with T.block("X_local"):
            v0 = T.axis.spatial(10, ax0)
            X_local[v0] = X[2 + v0]
    for i in range(8):
        with T.block("X"):
            vi = T.axis.opaque(8, i)
            X_local[vi + 2] = X_local[vi] + T.float32(1)
    for ax0 in range(8):
        with T.block("X_local"):
            v0 = T.axis.spatial(8, ax0)
            X[4 + v0] = X_local[2 + v0]
"""
    apply(before, write("X", 0, "local"), after)


def test_what_a_block_may_leave_out_is_filled_first():
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((16,))):
    B_local = T.alloc_buffer((15,), scope="local")
    for ax0 in range(15):
        with T.block("B_local"):
            v0 = T.axis.spatial(15, ax0)
            B_local[v0] = B[v0]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B_local[vi * 2] = A[vi]
    for ax0 in range(15):
        with T.block("B_local"):
            v0 = T.axis.spatial(15, ax0)
            B[v0] = B_local[v0]
"""
    apply(EVERY_OTHER, write("B", 0, "local"), after)


@pytest.mark.parametrize("where", ["if A[vi] > T.float32(0):\n                ", ""])
def test_stores_and_blocks_under_a_condition(where):
    before = EVERY_OTHER.replace("B[vi * 2] = ", where + "B[vi] = ")
    if not where:
        before = before.replace("with T.block", "if i % 2 == 1:\n          with T.block")
        before = before.replace("            vi", "              vi")
        before = before.replace("            B[vi]", "              B[vi]")
    sch = apply(before, write("B", 0, "local"))
    blocks = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    assert blocks == ["B_local", "B", "B_local"]


INIT = """\
@T.prim_func
def main(A: T.Buffer((5, 4)), C: T.Buffer((5,))):
    for i, k in T.grid(5, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where({where})
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + {read}
"""


@pytest.mark.parametrize("where", ["1 <= k", "i <= k"])
def test_an_init_that_may_not_run(where):
    sch = apply(INIT.format(where=where, read="A[vi, vk]"), write("C", 0, "local"))
    blocks = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    assert blocks == ["C_local", "C", "C_local"]


@pytest.mark.parametrize("where", ["True", "i <= k"])
def test_an_init_that_stores_less_than_is_read(where):
    before = INIT.format(where=where, read="C[vk]")
    sch = apply(before, write("C", 0, "local"))
    blocks = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    assert blocks == ["C_local", "C", "C_local"]
    before = before.replace(
        "            with T.init", "            T.reads()\n            with T.init"
    )
    words = "it reads the earlier contents of the buffer without declaring that"
    refused(before, write("C", 0, "local"), "UnsafeStageError", words, ["block C"])


def test_iterations_that_run_at_the_same_time_do_not_copy_back_what_they_left_out():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8)), C: T.Buffer((8,))):
    for i in T.parallel(8):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                if A[vi, vj] > T.float32(0):
                    B[vi, vj] = A[vi, vj]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi, 0]
"""
    words = "it may leave out elements, which iterations that run at the same time may write"
    refused(before, write("B", 0, "local"), "UnsafeStageError", words, ["block B"])
    apply(before.replace("T.parallel", "T.serial"), write("B", 0, "local"))


# ------------------------------------------------------------------------------------ other readers

CARRIED = """\
@T.prim_func
def main(A: T.Buffer((9,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.opaque(8, i)
            B[vi] = A[vi] * T.float32(2)
        with T.block("A"):
            vi = T.axis.opaque(8, i)
            A[vi + 1] = B[vi] + T.float32(3)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
"""


def test_a_reader_in_the_next_iteration_waits_for_the_copy():
    after = """\
@T.prim_func
def main(A: T.Buffer((9,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    A_local = T.alloc_buffer((9,), scope="local")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.opaque(8, i)
            B[vi] = A[vi] * T.float32(2)
        with T.block("A"):
            vi = T.axis.opaque(8, i)
            A_local[vi + 1] = B[vi] + T.float32(3)
        for ax0 in range(1):
            with T.block("A_local"):
                v0 = T.axis.spatial(9, i + 1 + ax0)
                A[v0] = A_local[v0]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
"""
    apply(CARRIED, write("A", 0, "local"), after)


def test_a_reader_before_the_writer_has_nothing_to_read_in_the_cache():
    words = 'block "B" reads other values of A than the cache of block "A" holds'
    call = write("A", 0, "local", consumer_blocks=["B"])
    refused(CARRIED, call, "NotConsumerError", words, ["block A", "block B", "block A"])


def test_a_reader_that_uses_the_cache_must_find_all_it_reads_there():
    call = write("A", 0, "local", consumer_blocks=["C"])
    refused(CARRIED, call, "NotRegionCoverError", "more of A", ["block root", "block C"])


def test_a_condition_that_reads_the_buffer():
    before = CARRIED.replace(
        "            C[vi] = A[vi]\n",
        "            T.where(A[i] > T.float32(0))\n            C[vi] = T.float32(1)\n",
    )
    words = "is also read outside of the blocks"
    refused(before, write("A", 0, "local"), "BareAccessError", words, ["block A", "block root"])


@pytest.mark.parametrize(
    "body",
    ["x: T.int32 = {first}\nN[0] = x + 1\nB[x] = A[vi]", "N[0] = {first} + 1\nB[N[0]] = A[vi]"],
    ids=["let", "store"],
)
def test_where_the_block_stores_depends_on_memory_that_it_changes(body):
    lines = body.format(first="T.max(T.min(N[0], 6), 0)").splitlines()
    before = """\
@T.prim_func
def main(A: T.Buffer((4,)), B: T.Buffer((8,)), N: T.Buffer((1,), "int32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.opaque(4, i)
""" + "".join(f"            {line}\n" for line in lines)
    for index in (0, 1):
        apply(before, write("B", index, "local"))


# ------------------------------------------------------------------------------------------ handles


def test_handles():
    sch = Schedule(parse(MATMUL), debug_mask="all")
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    copy = sch.cache_write(block, 0, "local")
    assert sch.get(copy).name_hint == "C_local"
    assert sch.get(block).writes[0].buffer is sch.get(copy).reads[0].buffer
    sch.reverse_compute_at(copy, i)
    sch.decompose_reduction(block, k)
    assert [sch.get(loop).loop_var.name for loop in (i, j, k)] == ["i", "j", "k"]


def test_trace():
    sch = apply(MATMUL, write("C", 0, "global"))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="C", func_name="main")',
        'b1 = sch.cache_write(block=b0, write_buffer_index=0, storage_scope="global")',
    ]
    assert sch.trace.as_json() == [
        [
            ["GetBlock", [], ["C", "main"], ["b0"]],
            ["CacheWrite", ["b0", []], [0, "global"], ["b1"]],
        ],
        [],
    ]


# ------------------------------------------------------------------------------------------ refused

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


def decomposed(sch):
    block = sch.get_block("C")
    sch.decompose_reduction(block, sch.get_loops(block)[0])
    sch.cache_write(block, 0, "local")


@pytest.mark.parametrize(
    ("before", "call", "code", "words", "marked"),
    [
        (MATMUL, write("C", 0, "L1"), "InvalidStorageScopeError", "'L1'", ["block C"]),
        (MATMUL, write("C", 5, "L1"), "InvalidStorageScopeError", "storage scope", ["block C"]),
        (
            MATMUL,
            write("C", 1, "local"),
            "BufferIndexOutOfRangeError",
            '`buffer_index` is 1, but block "C" has 1 write region(s)',
            ["block C"],
        ),
        (MATMUL, write("C", -1, "local"), "BufferIndexOutOfRangeError", "count", ["block C"]),
        (
            ROOT_THAT_DECLARES,
            write("root", 0, "local"),
            "RootBlockError",
            "root block",
            ["block root"],
        ),
        (MATMUL, decomposed, "NotSingleWriteBlock", "single block", ["block root"]),
    ],
)
def test_refused(before, call, code, words, marked):
    refused(before, call, code, words, marked)


def test_a_buffer_that_the_block_does_not_write():
    sch = Schedule(parse(MATMUL))
    block = sch.get_block("C")
    program = sch.mod["main"]
    with pytest.raises(ValueError, match="names a buffer that the block reads"):
        sch.cache_write(block, "A", "local")
    with pytest.raises(TypeError, match=r"Schedule\.cache_write: `storage_scope` takes str"):
        sch.cache_write(block, 0, None)
    assert sch.mod["main"] is program
    assert len(sch.trace.insts) == 1


def test_without_checks_a_block_may_leave_out_elements():
    sch = Schedule(parse(EVERY_OTHER), enable_check=False)
    sch.cache_write("B", 0, "local")
    assert "B_local[vi * 2] = A[vi]" in sch.mod.script()


WRITES_THEN_READS = """\
@T.prim_func
def main(B: T.Buffer((8,)), C: T.Buffer((8,))):
    A = T.alloc_buffer((8,))
    for i in range(2):
        with T.block("both"):
            vo = T.axis.spatial(2, i)
            for j in range(4):
                with T.block("A"):
                    vi = T.axis.spatial(8, vo * 4 + j)
                    A[vi] = T.float32(1)
            for j in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(8, vo * 4 + j)
                    B[vi] = A[vi] + T.float32(1)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] * T.float32(2)
"""


def test_what_a_block_reads_of_its_own_stores_is_not_filled_first():
    after = """\
@T.prim_func
def main(B: T.Buffer((8,)), C: T.Buffer((8,))):
    A = T.alloc_buffer((8,))
    A_local = T.alloc_buffer((8,), scope="local")
    for i in range(2):
        with T.block("both"):
            vo = T.axis.spatial(2, i)
            for j in range(4):
                with T.block("A"):
                    vi = T.axis.spatial(8, vo * 4 + j)
                    A_local[vi] = T.float32(1)
            for j in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(8, vo * 4 + j)
                    B[vi] = A_local[vi] + T.float32(1)
    for ax0 in range(8):
        with T.block("A_local"):
            v0 = T.axis.spatial(8, ax0)
            A[v0] = A_local[v0]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] * T.float32(2)
"""
    apply(WRITES_THEN_READS, lambda sch: sch.cache_write("both", 0, "local"), after)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("B[vi] = A[vi]", "B[vi] = A[7 - vi]"),
        ("T.float32(1)\n            for", "T.float32(1) + A[vi]\n            for"),
        ("for j in range(4):\n                with T.block(\"A", "for j in range(3):\n                with T.block(\"A"),
    ],
)  # fmt: skip
def test_what_a_block_reads_before_it_stores_is_filled_first(old, new):
    before = WRITES_THEN_READS.replace("main(", "main(A: T.Buffer((8,)), ").replace(
        "    A = T.alloc_buffer((8,))\n", ""
    )
    assert old in before
    sch = apply(before.replace(old, new), lambda s: s.cache_write("both", 0, "local"))
    names = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    assert names == ["A_local", "both", "A_local", "C"]


def test_the_copy_of_a_result_stays_with_the_constants_of_the_scope():
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
    C_global = T.alloc_buffer((4,))
    data = T.allocate_const([0.0, 1.0, 2.0, 3.0], "float32", [4])
    B = T.decl_buffer((4,), data=data)
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C_global[vi] = A[vi] + B[vi]
    for ax0 in range(4):
        with T.block("C_global"):
            v0 = T.axis.spatial(4, ax0)
            C[v0] = C_global[v0]
"""
    apply(before, lambda sch: sch.cache_write("C", 0, "global"), after)
