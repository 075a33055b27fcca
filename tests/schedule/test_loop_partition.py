"""Cutting the range of a loop into pieces."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import Block, parse, verify_well_formed
from tensorir.rewriting.visit import walk
from tests.schedule.transformation import apply, refused, scheduled

BEFORE = """\
@T.prim_func
def main(A: T.Buffer((13, 3)), B: T.Buffer((13, 3))):
    for i, j in T.grid(13, 3):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""

AFTER = """\
@T.prim_func
def main(A: T.Buffer((13, 3)), B: T.Buffer((13, 3))):
    with T.block("root"):
        T.reads()
        T.writes()
        with T.block("B_i_common"):
            T.reads()
            T.writes()
            with T.block("B_i0_partition"):
                T.reads()
                T.writes()
                for i0, j in T.grid(4, 3):
                    with T.block("B_i0"):
                        vi, vj = T.axis.remap("SS", [i0, j])
                        T.reads(A[0:4, 0:3])
                        T.writes(B[0:4, 0:3])
                        B[vi, vj] = A[vi, vj] * T.float32(2)
            with T.block("B_i1_partition"):
                T.reads()
                T.writes()
                for i1 in range(4, 13):
                    for j in range(3):
                        with T.block("B_i1"):
                            vi = T.axis.spatial((4, 13), i1)
                            vj = T.axis.spatial(3, j)
                            T.reads(A[4:13, 0:3])
                            T.writes(B[4:13, 0:3])
                            B[vi, vj] = A[vi, vj] * T.float32(2)
"""

REDUCTION = """\
@T.prim_func
def main(A: T.Buffer((7, 11)), B: T.Buffer((7,))):
    for i, k in T.grid(7, 11):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] += A[vi, vk]
"""

STAGES = """\
@T.prim_func
def main(A: T.Buffer((11,)), C: T.Buffer((11,))):
    B = T.alloc_buffer((11,))
    for i in range(11):
        with T.block("B"):
            vi = T.axis.spatial(11, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(11):
        with T.block("C"):
            vi = T.axis.spatial(11, i)
            C[vi] = B[10 - vi]
"""


def partition(block, position, factors):
    return lambda sch: sch.loop_partition(sch.get_loops(sch.get_block(block))[position], factors)


@pytest.mark.parametrize("factors", [[4], [4, None], [None, 9]])
def test_two_pieces(factors):
    sch = apply(BEFORE, partition("B", 0, factors), AFTER)
    if factors == [4]:
        line = "l3, l4 = sch.loop_partition(loop=l1, factors=[4], preserve_unit_iters=True)"
        assert sch.trace.as_python()[-1] == line


def test_pieces_are_ordinary_loops():
    def call(sch):
        first, second, third = partition("B", 0, [2, None, 3])(sch)
        sch.parallel(first)
        sch.split(sch.get_loops(sch.get_block("B_i0"))[1], [None, 2])
        assert [sch.get(loop).extent.value for loop in (second, third)] == [8, 3]

    apply(BEFORE, call)


def test_inner_loop_and_sampled_lengths():
    def call(sch):
        length = sch.sample_categorical([1, 2], [0.5, 0.5], decision=1)
        sch.loop_partition(sch.get_loops(sch.get_block("B"))[1], [length, None])

    apply(BEFORE, call)


def test_spatial_loop_of_a_reduction():
    apply(REDUCTION, partition("B", 0, [3]))


def test_reduction_loop_after_its_init_was_split_off():
    def call(sch):
        block = sch.get_block("B")
        sch.decompose_reduction(block, sch.get_loops(block)[0])
        sch.loop_partition(sch.get_loops(block)[1], [5])

    apply(REDUCTION, call)


def test_predicates_and_nested_blocks_are_copied():
    def call(sch):
        i, _ = sch.get_loops(sch.get_block("B"))
        outer, _ = sch.split(i, [None, 4])
        sch.loop_partition(outer, [1, 2, None])

    apply(BEFORE, call)


def test_producer_and_consumer_in_one_loop():
    def call(sch):
        b, c = sch.get_block("B"), sch.get_block("C")
        sch.merge(sch.get_loops(b)[0], sch.get_loops(c)[0])
        sch.loop_partition(sch.get_loops(b)[0], [3])

    apply(STAGES.replace("10 - vi", "vi"), call)


def test_pieces_keep_their_place_among_dependent_blocks():
    def call(sch):
        partition("C", 0, [4])(sch)
        sch.cache_write(sch.get_block("B"), 0, "global")

    apply(STAGES, call)


@pytest.mark.parametrize(
    ("factors", "code", "words"),
    [
        ([13], "WrongFactorError", "sum of factors, 13"),
        ([None, 13], "WrongFactorError", "not smaller than the extent 13"),
        ([None, None], "NotSingleInferFactorError", "2 are"),
        ([3, 0], "NonPositiveFactorError", "factor 1 is 0"),
    ],
)
def test_wrong_factors(factors, code, words):
    refused(BEFORE, partition("B", 0, factors), code, words)


def test_only_the_piece_with_the_first_step_of_a_reduction_initialises():
    after = """\
@T.prim_func
def main(A: T.Buffer((7, 11)), B: T.Buffer((7,))):
    for i in range(7):
        with T.block("B_k_common"):
            T.reads()
            T.writes()
            with T.block("B_k0_partition"):
                T.reads()
                T.writes()
                for k0 in range(5):
                    with T.block("B_k0"):
                        vi = T.axis.spatial(7, i)
                        vk = T.axis.reduce(5, k0)
                        T.reads(A[0:7, 0:5])
                        T.writes(B[0:7])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] += A[vi, vk]
            with T.block("B_k1_partition"):
                T.reads()
                T.writes()
                for k1 in range(5, 11):
                    with T.block("B_k1"):
                        vi = T.axis.spatial(7, i)
                        vk = T.axis.reduce((5, 11), k1)
                        T.reads(B[0:7], A[0:7, 5:11])
                        T.writes(B[0:7])
                        B[vi] += A[vi, vk]
"""
    apply(REDUCTION, partition("B", 1, [5]), after)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("factors", [[1], [1, 4, None], [10]])
def test_pieces_of_a_reduction_below_and_above_its_results(order, factors):
    def call(sch):
        loops = sch.get_loops("B")
        sch.reorder(*(loops[k] for k in order))
        sch.loop_partition(loops[1], factors)

    apply(REDUCTION, call)


@pytest.mark.parametrize("which", [1, 2])
def test_pieces_of_a_part_of_a_reduction(which):
    def call(sch):
        sch.split(sch.get_loops("B")[1], [None, 4])
        sch.loop_partition(sch.get_loops("B")[which], [1, None])

    apply(REDUCTION, call)


def test_annotated_loop_is_refused():
    def call(sch):
        (i, _) = sch.get_loops(sch.get_block("B"))
        sch.annotate(i, "note", 1)
        sch.loop_partition(i, [4])

    refused(BEFORE, call, "HasAnnotationOrThreadBindingError")


def test_symbolic_extent_is_refused():
    before = """\
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi]
"""
    refused(before, partition("B", 0, [4]), "SymbolicShapeError", "dynamic shape")


def test_old_handles_name_the_primitive():
    sch = Schedule(parse(BEFORE))
    block = sch.get_block("B")
    sch.loop_partition(sch.get_loops(block)[0], [4])
    with pytest.raises(ValueError, match="loop-partition replaced it"):
        sch.get(block)


def test_views_of_the_pieces_bind_variables_of_their_own():
    before = """
@T.prim_func
def main(a: T.handle, C: T.Buffer((8,), "float32")):
    n = T.int32()
    A = T.match_buffer(a, (8, n))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:n])
            T.writes(C[vi])
            V = T.match_buffer(A[vi, 0:n], (1, n), strides=("s", 1), offset_factor=1)
            C[vi] = V[0, n - 1]
"""
    sch = scheduled(before, lambda s: s.loop_partition(s.get_loops(s.get_block("B"))[0], [2]))
    verify_well_formed(sch.mod)
    views = [v for b in walk(sch.mod["main"].body) if isinstance(b, Block) for v in b.match_buffers]
    assert len({v.buffer.strides[0] for v in views}) == 2
    assert len({v.buffer.shape[1] for v in views}) == 1


CHAIN = """\
@T.prim_func
def main(A: T.Buffer((12,)), C: T.Buffer((12,))):
    B = T.alloc_buffer((12,))
    D = T.alloc_buffer((12,))
    for i in range(12):
        with T.block("B"):
            vi = T.axis.spatial(12, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(12):
        with T.block("D"):
            vi = T.axis.spatial(12, i)
            D[vi] = B[vi] * T.float32(2)
    for i in range(12):
        with T.block("C"):
            vi = T.axis.spatial(12, i)
            C[vi] = D[vi] + T.float32(1)
"""


@pytest.mark.parametrize(
    ("pieces_of", "call"),
    [
        ("B", lambda sch: sch.compute_at("D", sch.get_loops("C")[0])),
        ("B", lambda sch: sch.compute_inline("D")),
        ("B", lambda sch: sch.cache_read("D", 0, "global")),
        ("D", lambda sch: sch.cache_read("C", 0, "global")),
    ],
    ids=["compute_at", "compute_inline", "cache_read of another", "cache_read"],
)
def test_what_the_pieces_write_is_known_together(pieces_of, call):
    def both(sch):
        sch.loop_partition(sch.get_loops(pieces_of)[0], [4, 3, None])
        call(sch)

    apply(CHAIN, both)


def test_a_consumer_of_more_than_the_pieces_write_is_not_moved():
    before = CHAIN.replace("for i in range(12)", "for i in range(11)", 1)

    def call(sch):
        sch.loop_partition(sch.get_loops("B")[0], [4, 3, None])
        sch.compute_at("D", sch.get_loops("C")[0])

    refused(before, call, "NotStagePipelineError", "reads more than its producers write")


def regions(sch, name):
    block = sch.get(sch.get_block(name))
    return [str(region) for region in (*block.reads, *block.writes)]


COPY = """\
@T.prim_func
def main(A: T.Buffer((16, 128)), B: T.Buffer((16, 128))):
    for i, j in T.grid(16, 128):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""


def test_a_piece_of_a_piece_declares_what_it_touches():
    def call(sch):
        sch.loop_partition(sch.get_loops("B")[0], [2, None])
        assert regions(sch, "B_i0") == ["A[0:2, 0:128]", "B[0:2, 0:128]"]
        sch.loop_partition(sch.get_loops("B_i0")[1], [4, None])

    sch = apply(COPY, call)
    assert regions(sch, "B_i0_j0") == ["A[0:2, 0:4]", "B[0:2, 0:4]"]
    assert regions(sch, "B_i0_j1") == ["A[0:2, 4:128]", "B[0:2, 4:128]"]


def test_a_piece_declares_less_than_its_block_where_elements_are_touched():
    before = COPY.replace(
        "            B[vi",
        "            T.reads(A[0:16, 0:128])\n            T.writes(B[vi, vj])\n            B[vi",
    )
    sch = apply(before, partition("B", 1, [8]))
    assert regions(sch, "B_j0") == ["A[0:16, 0:8]", "B[0:16, 0:8]"]


def test_a_block_in_one_without_axes_declares_all_of_its_piece():
    before = """\
@T.prim_func
def main(A: T.Buffer((16,)), B: T.Buffer((16,))):
    for i in range(16):
        with T.block("around"):
            T.reads(A[i])
            T.writes(B[i])
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = A[vi] * T.float32(2)
"""
    sch = apply(before, partition("around", 0, [None, 4]))
    assert regions(sch, "around_i0") == ["A[i0]", "B[i0]"]
    assert regions(sch, "B_i0") == ["A[0:12]", "B[0:12]"]


def test_what_a_pointer_touches_stays_as_declared():
    before = """\
@T.prim_func
def main(B: T.Buffer((16, 16))):
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads()
            T.writes(B[0:16, 0:16])
            T.evaluate(T.call_extern("int32", "fill", B.data, vi * 16 + vj))
"""
    sch = scheduled(before, partition("B", 1, [12]))
    assert regions(sch, "B_j0") == ["B[0:16, 0:16]"]
