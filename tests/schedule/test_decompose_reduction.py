"""decompose_reduction: the init of a reduction becomes a block of its own."""

from __future__ import annotations

import pytest

from schedule import Schedule, ScheduleError
from tensorir import parse
from tests.schedule.transformation import apply, refused

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


def decompose(block, depth):
    """Decompose a block at one of its loops, counted from outside."""
    return lambda sch: sch.decompose_reduction(block, sch.get_loops(block)[depth])


# ---------------------------------------------------------------------------------- where the init goes

BEFORE_K = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), B: T.Buffer((5, 6)), C: T.Buffer((8, 6))):
    for i, j in T.grid(8, 6):
        with T.block("C_init"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads()
            T.writes(C[vi, vj])
            C[vi, vj] = T.float32(0)
        for k in range(5):
            with T.block("C_update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(C[vi, vj], A[vi, vk], B[vk, vj])
                T.writes(C[vi, vj])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

BEFORE_J = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), B: T.Buffer((5, 6)), C: T.Buffer((8, 6))):
    for i in range(8):
        for j_init in range(6):
            with T.block("C_init"):
                vi, vj = T.axis.remap("SS", [i, j_init])
                C[vi, vj] = T.float32(0)
        for j, k in T.grid(6, 5):
            with T.block("C_update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

BEFORE_I = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), B: T.Buffer((5, 6)), C: T.Buffer((8, 6))):
    for i_init, j_init in T.grid(8, 6):
        with T.block("C_init"):
            vi, vj = T.axis.remap("SS", [i_init, j_init])
            C[vi, vj] = T.float32(0)
    for i, j, k in T.grid(8, 6, 5):
        with T.block("C_update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


@pytest.mark.parametrize(("depth", "after"), [(2, BEFORE_K), (1, BEFORE_J), (0, BEFORE_I)])
def test_the_init_stands_before_the_loop(depth, after):
    apply(MATMUL, decompose("C", depth), after)


def test_loops_that_the_data_parallel_axes_do_not_use_are_left_out():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), B: T.Buffer((5, 6)), C: T.Buffer((8, 6))):
    for j in range(6):
        for i_init in range(8):
            with T.block("C_init"):
                vi, vj = T.axis.remap("SS", [i_init, j])
                C[vi, vj] = T.float32(0)
        for k, i in T.grid(5, 8):
            with T.block("C_update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

    def call(sch):
        block = sch.get_block("C")
        i, j, k = sch.get_loops(block)
        sch.reorder(j, k, i)
        sch.decompose_reduction(block, k)

    apply(MATMUL, call, after)


def test_tiles():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), B: T.Buffer((5, 6)), C: T.Buffer((8, 6))):
    for i_0, j_0 in T.grid(2, 3):
        for i_1_init, j_1_init in T.grid(4, 2):
            with T.block("C_init"):
                vi = T.axis.spatial(8, i_0 * 4 + i_1_init)
                vj = T.axis.spatial(6, j_0 * 2 + j_1_init)
                C[vi, vj] = T.float32(0)
        for k, i_1, j_1 in T.grid(5, 4, 2):
            with T.block("C_update"):
                vi = T.axis.spatial(8, i_0 * 4 + i_1)
                vj = T.axis.spatial(6, j_0 * 2 + j_1)
                vk = T.axis.reduce(5, k)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

    def call(sch):
        block = sch.get_block("C")
        i, j, k = sch.get_loops(block)
        i_0, i_1 = sch.split(i, [2, 4])
        j_0, j_1 = sch.split(j, [3, 2])
        sch.reorder(i_0, j_0, k, i_1, j_1)
        sch.decompose_reduction(block, k)

    apply(MATMUL, call, after)


def test_predicates_on_data_parallel_axes_are_kept_in_reverse():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), B: T.Buffer((5, 6)), C: T.Buffer((8, 6))):
    for i_0_init, i_1_init, j_0_init, j_1_init in T.grid(3, 3, 2, 4):
        with T.block("C_init"):
            vi = T.axis.spatial(8, i_0_init * 3 + i_1_init)
            vj = T.axis.spatial(6, j_0_init * 4 + j_1_init)
            T.where(j_0_init * 4 + j_1_init < 6 and i_0_init * 3 + i_1_init < 8)
            C[vi, vj] = T.float32(0)
    for i_0, i_1, j_0, j_1, k_0, k_1 in T.grid(3, 3, 2, 4, 3, 2):
        with T.block("C_update"):
            vi = T.axis.spatial(8, i_0 * 3 + i_1)
            vj = T.axis.spatial(6, j_0 * 4 + j_1)
            vk = T.axis.reduce(5, k_0 * 2 + k_1)
            T.where(i_0 * 3 + i_1 < 8 and j_0 * 4 + j_1 < 6 and k_0 * 2 + k_1 < 5)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

    def call(sch):
        block = sch.get_block("C")
        i, j, k = sch.get_loops(block)
        outer, _ = sch.split(i, [None, 3])
        sch.split(j, [None, 4])
        sch.split(k, [None, 2])
        sch.decompose_reduction(block, outer)

    apply(MATMUL, call, after)


def test_a_bound_between_loops_above_and_below():
    before = """\
@T.prim_func
def main(A: T.Buffer((7, 4)), C: T.Buffer((7,))):
    for i_0, i_1, k in T.grid(2, 4, 4):
        with T.block("C"):
            vi = T.axis.spatial(7, i_0 * 4 + i_1)
            vk = T.axis.reduce(4, k)
            T.where(i_0 * 4 + i_1 < 7)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((7, 4)), C: T.Buffer((7,))):
    for i_0 in range(2):
        for i_1_init in range(4):
            with T.block("C_init"):
                vi = T.axis.spatial(7, i_0 * 4 + i_1_init)
                T.where(i_0 * 4 + i_1_init < 7)
                C[vi] = T.float32(0)
        for i_1, k in T.grid(4, 4):
            with T.block("C_update"):
                vi = T.axis.spatial(7, i_0 * 4 + i_1)
                vk = T.axis.reduce(4, k)
                T.where(i_0 * 4 + i_1 < 7)
                C[vi] = C[vi] + A[vi, vk]
"""
    apply(before, decompose("C", 1), after)


# ----------------------------------------------------------------------------------- what is copied


def test_kinds_of_loops_and_annotations_of_blocks_are_copied():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 5, 4)), C: T.Buffer((8, 4))):
    for i in T.parallel(8):
        for k in range(5):
            for j in T.vectorized(4, annotations={"a": 1}):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    T.block_attr({"tag": "S"})
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk, vj]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 5, 4)), C: T.Buffer((8, 4))):
    for i in T.parallel(8):
        for j_init in T.vectorized(4):
            with T.block("C_init"):
                vi, vj = T.axis.remap("SS", [i, j_init])
                T.block_attr({"tag": "S"})
                C[vi, vj] = T.float32(0)
        for k in range(5):
            for j in T.vectorized(4, annotations={"a": 1}):
                with T.block("C_update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    T.block_attr({"tag": "S"})
                    C[vi, vj] = C[vi, vj] + A[vi, vk, vj]
"""
    apply(before, decompose("C", 1), after)


def test_thread_bindings_are_made_anew():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), C: T.Buffer((8,))):
    for i in T.thread_binding(8, thread="threadIdx.x"):
        for k in range(5):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), C: T.Buffer((8,))):
    for i_init in T.thread_binding(8, thread="threadIdx.x"):
        with T.block("C_init"):
            vi = T.axis.spatial(8, i_init)
            C[vi] = T.float32(0)
    for i in T.thread_binding(8, thread="threadIdx.x"):
        for k in range(5):
            with T.block("C_update"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + A[vi, vk]
"""
    sch = apply(before, decompose("C", 0), after)
    first, second = (sch.get(sch.get_loops(b)[0]) for b in ("C_init", "C_update"))
    assert first.thread_binding.var is not second.thread_binding.var


def test_loops_that_do_not_begin_at_zero():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), C: T.Buffer((8,))):
    for i in range(2, 8):
        for k in range(1, 5):
            with T.block("C"):
                vi = T.axis.spatial((2, 8), i)
                vk = T.axis.reduce((1, 5), k)
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), C: T.Buffer((8,))):
    for i_init in range(2, 8):
        with T.block("C_init"):
            vi = T.axis.spatial((2, 8), i_init)
            C[vi] = T.float32(0)
    for i in range(2, 8):
        for k in range(1, 5):
            with T.block("C_update"):
                vi = T.axis.spatial((2, 8), i)
                vk = T.axis.reduce((1, 5), k)
                C[vi] = C[vi] + A[vi, vk]
"""
    apply(before, decompose("C", 0), after)


def test_a_reduction_of_pairs():
    before = """\
@T.prim_func
def main(A: T.Buffer((5, 12)), I: T.Buffer((5,), "int32"), V: T.Buffer((5,))):
    for i, k in T.grid(5, 12):
        with T.block("argmax"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(I[vi], V[vi])
            with T.init():
                I[vi] = -1
                V[vi] = T.min_value("float32")
            v_i: T.int32 = T.Select(V[vi] >= A[vi, vk], I[vi], vk)
            v_v: T.float32 = T.Select(V[vi] >= A[vi, vk], V[vi], A[vi, vk])
            I[vi] = v_i
            V[vi] = v_v
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((5, 12)), I: T.Buffer((5,), "int32"), V: T.Buffer((5,))):
    for i in range(5):
        with T.block("argmax_init"):
            vi = T.axis.spatial(5, i)
            T.reads()
            T.writes(I[vi], V[vi])
            I[vi] = -1
            V[vi] = T.min_value("float32")
        for k in range(12):
            with T.block("argmax_update"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(I[vi], V[vi], A[vi, vk])
                T.writes(I[vi], V[vi])
                v_i: T.int32 = T.Select(V[vi] >= A[vi, vk], I[vi], vk)
                v_v: T.float32 = T.Select(V[vi] >= A[vi, vk], V[vi], A[vi, vk])
                I[vi] = v_i
                V[vi] = v_v
"""
    apply(before, decompose("argmax", 1), after)


def test_a_reduction_to_one_number():
    before = """\
@T.prim_func
def main(A: T.Buffer((12,)), C: T.Buffer(())):
    for k in range(12):
        with T.block("C"):
            vk = T.axis.reduce(12, k)
            with T.init():
                C[()] = T.float32(0)
            C[()] = C[()] + A[vk]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((12,)), C: T.Buffer(())):
    with T.block("C_init"):
        C[()] = T.float32(0)
    for k in range(12):
        with T.block("C_update"):
            vk = T.axis.reduce(12, k)
            C[()] = C[()] + A[vk]
"""
    apply(before, decompose("C", 0), after)


def test_64_bit_loops():
    before = (
        MATMUL.replace("8", "T.int64(8)")
        .replace("5", "T.int64(5)")
        .replace("6", "T.int64(6)")
        .replace("T.intT.int64(6)4", "T.int64")
    )
    after = (
        BEFORE_J.replace("8", "T.int64(8)")
        .replace("5", "T.int64(5)")
        .replace("6", "T.int64(6)")
        .replace("T.intT.int64(6)4", "T.int64")
    )
    apply(before, decompose("C", 1), after)


# ------------------------------------------------------------------------------------------ handles


def test_handles():
    sch = Schedule(parse(MATMUL), debug_mask="all")
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    init = sch.decompose_reduction(block, j)
    assert sch.get(init).name_hint == "C_init"
    assert sch.get(block).name_hint == "C_update"
    assert sch.get(block).init is None
    assert [sch.get(loop).loop_var.name for loop in (i, j, k)] == ["i", "j", "k"]
    assert [sch.get(loop).loop_var.name for loop in sch.get_loops(init)] == ["i", "j_init"]
    sch.vectorize(sch.get_loops(init)[1])
    sch.reorder(k, j)


def test_trace():
    sch = apply(MATMUL, decompose("C", 1))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="C", func_name="main")',
        "l1, l2, l3 = sch.get_loops(block=b0)",
        'b4 = sch.get_block(name="C", func_name="main")',
        "b5 = sch.decompose_reduction(block=b4, loop=l2)",
    ]
    assert sch.trace.as_json()[0][-1] == ["DecomposeReduction", ["b4", "l2"], [], ["b5"]]


# ------------------------------------------------------------------------------------------ refused

TWO_SUMS = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    for i, k in T.grid(8, 5):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
    for x, z in T.grid(8, 5):
        with T.block("D"):
            vi, vk = T.axis.remap("SR", [x, z])
            with T.init():
                D[vi] = T.float32(1)
            D[vi] = D[vi] * A[vi, vk]
"""

SUM = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), C: T.Buffer((8,))):
    for i, k in T.grid(8, 5):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""

RUNS_TWICE = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), C: T.Buffer((8,))):
    for i, r, k in T.grid(8, 2, 5):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""

COPY = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
"""

DIAGONAL = SUM.replace(
    'vi, vk = T.axis.remap("SR", [i, k])',
    "vi = T.axis.spatial(8, i)\n            vk = T.axis.reduce(5, i * k % 5)",
)

SCAN = SUM.replace(
    'vi, vk = T.axis.remap("SR", [i, k])',
    "vi = T.axis.spatial(8, i)\n            vk = T.axis.opaque(5, k)",
)

WRITTEN_TWICE = (
    SUM
    + """\
    for x in range(8):
        with T.block("again"):
            vx = T.axis.spatial(8, x)
            C[vx] = T.float32(0)
"""
)

STORES_BY_STEP = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), C: T.Buffer((8, 5))):
    for i, k in T.grid(8, 5):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi, 0] = T.float32(0)
            C[vi, vk] = C[vi, vk] + A[vi, vk]
"""


def at_another_block(sch):
    sch.decompose_reduction("C", sch.get_loops("D")[0])


def root_block(sch):
    sch.decompose_reduction("root", sch.get_loops("C")[0])


def twice(sch):
    block = sch.get_block("C")
    loops = sch.get_loops(block)
    sch.decompose_reduction(block, loops[1])
    sch.decompose_reduction(block, loops[1])


def below_the_reduction(sch):
    block = sch.get_block("C")
    i, k = sch.get_loops(block)
    sch.reorder(k, i)
    sch.decompose_reduction(block, i)


@pytest.mark.parametrize(
    ("before", "call", "code", "words", "marked"),
    [
        (
            TWO_SUMS,
            at_another_block,
            "LoopPositionError",
            "not an ancestor of block",
            ["loop x", "block C"],
        ),
        (SUM, root_block, "LoopPositionError", "not an ancestor", ["loop i", "block root"]),
        (
            COPY,
            decompose("C", 0),
            "NotReductionBlockError",
            "violates condition #1",
            ["block C"],
        ),
        (
            SUM,
            twice,
            "NotReductionBlockError",
            "violates condition #1",
            ["block C_update"],
        ),
        (DIAGONAL, decompose("C", 1), "NotReductionBlockError", "condition #2", ["block C"]),
        (SCAN, decompose("C", 1), "NotReductionBlockError", "condition #3", ["block C"]),
        (WRITTEN_TWICE, decompose("C", 1), "NotReductionBlockError", "condition #4", ["block C"]),
        (STORES_BY_STEP, decompose("C", 1), "NotReductionBlockError", "condition #5", ["block C"]),
        (
            SUM,
            below_the_reduction,
            "LoopHeightError",
            'axis vk of block "C" is bound to, is higher than',
            ["loop i", "loop k", "block C"],
        ),
        (
            RUNS_TWICE,
            decompose("C", 0),
            "LoopPositionError",
            "loop `r` runs the same steps several times",
            ["loop i", "block C"],
        ),
    ],
)
def test_refused(before, call, code, words, marked):
    refused(before, call, code, words, marked)


@pytest.mark.parametrize(
    ("loop", "value", "words"),
    [
        ("range(10)", "k + 2", "reduction axis vk may not start at 0"),
        ("range(24)", "k // 2", "its bindings may give the same steps several times"),
    ],
)
def test_a_reduction_that_does_not_start_anew_once_stays_whole(loop, value, words):
    before = f"""\
@T.prim_func
def main(A: T.Buffer((12,)), C: T.Buffer((1,))):
    for k in {loop}:
        with T.block("C"):
            vk = T.axis.reduce(12, {value})
            with T.init():
                C[0] = T.float32(0)
            C[0] = C[0] + A[vk]
"""
    refused(before, decompose("C", 0), "LoopPositionError", words, marked=["loop k", "block C"])
    message = refused(before, lambda s: s.rfactor(s.get_loops("C")[0], 0), "LoopPropertyError")
    assert words in str(message)


def test_a_predicate_about_what_another_block_writes_is_not_taken_elsewhere():
    before = """\
@T.prim_func
def main(A: T.Buffer((6, 4)), N: T.Buffer((1,), "int32"), C: T.Buffer((6,))):
    for i, k in T.grid(6, 4):
        with T.block("N"):
            vk = T.axis.opaque(4, k)
            N[0] = vk
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(N[0] < 2)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""
    words = 'N, which block "N" touches, is also read outside of the blocks'
    refused(
        before,
        lambda sch: sch.decompose_reduction("C", sch.get_loops("C")[1]),
        "BareAccessError",
        words,
        ["block N", "block root"],
    )


def test_inside_the_loop_that_repeats_it_a_reduction_can_be_decomposed():
    apply(RUNS_TWICE, decompose("C", 2))


def test_without_checks_only_a_loop_around_and_an_init_are_needed():
    sch = Schedule(parse(WRITTEN_TWICE), enable_check=False)
    sch.decompose_reduction("C", sch.get_loops("C")[1])
    assert sch.get(sch.get_block("C_init")).name_hint == "C_init"
    sch = Schedule(parse(COPY), enable_check=False)
    with pytest.raises(ScheduleError) as caught:
        sch.decompose_reduction("C", sch.get_loops("C")[0])
    assert caught.value.code == "NotReductionBlockError"


def test_arguments_of_another_type():
    sch = Schedule(parse(SUM))
    with pytest.raises(TypeError, match=r"Schedule\.decompose_reduction: `loop` takes a LoopRV"):
        sch.decompose_reduction("C", "k")
