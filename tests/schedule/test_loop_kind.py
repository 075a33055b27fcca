"""How the iterations of a loop run: parallel, vectorize, unroll, bind."""

from __future__ import annotations

from textwrap import indent

import pytest

from schedule import Schedule, ScheduleError
from tensorir import assert_structural_equal, parse
from tests.schedule.transformation import apply, refused, scheduled

MATMUL = """\
@T.prim_func
def main(A: T.Buffer((3, 5)), B: T.Buffer((5, 4)), C: T.Buffer((3, 4))):
    for i in range(3):
        for j in range(4):
            for k in range(5):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

STAGES = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi, 0] + T.float32(1)
        for k in range(5):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk] * B[vi]
"""

IN_PLACE = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = T.float32(3)
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = B[vi] + A[vi]
"""

LAST_ONE_STAYS = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((1,))):
    for i in range(8):
        with T.block("B"):
            T.reads(A[i])
            T.writes(B[0])
            B[0] = A[i]
"""

SUM_OF_PIECES = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((1,))):
    for i in range(4):
        with T.block("piece"):
            vo = T.axis.spatial(4, i)
            T.reads(A[vo * 4:vo * 4 + 4])
            T.writes(C[0])
            for k in range(4):
                with T.block("C"):
                    vk = T.axis.reduce(16, vo * 4 + k)
                    with T.init():
                        C[0] = T.float32(0)
                    C[0] = C[0] + A[vk]
"""

WRITTEN_TWICE = """\
@T.prim_func
def main(A: T.Buffer((4, 4)), C: T.Buffer((4, 4))):
    for i in range(4):
        with T.block("row"):
            vo = T.axis.spatial(4, i)
            T.reads(A[vo, 0:4])
            T.writes(C[vo, 0:4])
            for j in range(4):
                with T.block("C"):
                    vi, vj = T.axis.spatial(4, vo), T.axis.spatial(4, j)
                    C[vi, vj] = A[vi, vj]
            for j in range(4):
                with T.block("C_again"):
                    vi, vj = T.axis.spatial(4, vo), T.axis.spatial(4, j)
                    C[vi, vj] = A[vi, vj] + T.float32(1)
"""


def turned(method, block, depth, *args):
    """Return a call of `method` on one of the loops around a block."""
    return lambda sch: getattr(sch, method)(sch.get_loops(sch.get_block(block))[depth], *args)


def threads(axis):
    return f'T.thread_binding({{}}, thread="{axis}")'


KINDS = [
    ("parallel", (), "T.parallel({})"),
    ("vectorize", (), "T.vectorized({})"),
    ("unroll", (), "T.unroll({})"),
    ("bind", ("threadIdx.x",), threads("threadIdx.x")),
    ("bind", ("blockIdx.x",), threads("blockIdx.x")),
]


@pytest.mark.parametrize(("method", "args", "loop"), KINDS)
@pytest.mark.parametrize(("depth", "header"), [(0, "i in range(3)"), (1, "j in range(4)")])
def test_a_loop_over_a_data_parallel_axis(method, args, loop, depth, header):
    extent = header[-2]
    after = MATMUL.replace(header, f"{header[0]} in {loop.format(extent)}")
    apply(MATMUL, turned(method, "C", depth, *args), after)


@pytest.mark.parametrize(("method", "args", "loop"), KINDS)
def test_several_blocks_below(method, args, loop):
    after = STAGES.replace("i in range(8)", f"i in {loop.format(8)}")
    apply(STAGES, turned(method, "B", 0, *args), after)


@pytest.mark.parametrize(("method", "args", "loop"), KINDS)
def test_a_complete_block_needs_no_affine_binding(method, args, loop):
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), B: T.Buffer((4, 6))):
    for i in range(4):
        for j in range(6):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                vj = T.axis.spatial(6, (i + j) % 6)
                B[vi, vj] = A[vi, vj] + T.float32(1)
"""
    after = before.replace("i in range(4)", f"i in {loop.format(4)}")
    apply(before, turned(method, "B", 0, *args), after)


def test_any_loop_can_be_unrolled():
    after = MATMUL.replace("k in range(5)", "k in T.unroll(5)")
    apply(MATMUL, turned("unroll", "C", 2), after)
    after = IN_PLACE.replace("i in range(8)", "i in T.unroll(8)")
    apply(IN_PLACE, turned("unroll", "B", 0), after)


def test_threads_of_a_block_may_share_a_reduction():
    after = MATMUL.replace("k in range(5)", f"k in {threads('threadIdx.y').format(5)}")
    apply(MATMUL, turned("bind", "C", 2, "threadIdx.y"), after)


@pytest.mark.parametrize(
    "axis",
    [f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx", "vthread") for axis in "xyz"]
    + ["vthread"],
)
def test_thread_axes(axis):
    after = MATMUL.replace("i in range(3)", f"i in {threads(axis).format(3)}")
    sch = apply(MATMUL, turned("bind", "C", 0, axis), after)
    binding = sch.get(sch.get_loops(sch.get_block("C"))[0]).thread_binding
    assert binding.thread_tag == axis
    assert binding.var.name == axis
    assert binding.dom is None


# ----------------------------------------------------------------------------------------- refused

CHECKED = [
    ("parallel", ()),
    ("vectorize", ()),
    ("bind", ("blockIdx.x",)),
    ("bind", ("vthread.x",)),
]


@pytest.mark.parametrize(("method", "args"), CHECKED)
@pytest.mark.parametrize(
    ("before", "block", "depth", "code", "words", "marked"),
    [
        (
            MATMUL,
            "C",
            2,
            "WrongBlockIterTypeError",
            "is not data-parallel: axis vk",
            ["loop k", "block C"],
        ),
        (
            SUM_OF_PIECES,
            "piece",
            0,
            "WrongBlockIterTypeError",
            'axis vk of block "C"',
            ["loop i", "block C"],
        ),
        (
            IN_PLACE.replace("B[vi] +", "B[7 - vi] +"),
            "A",
            0,
            "NotCompactDataFlowError",
            "neither a local complete block (it violates condition #3) nor a local reduction block "
            "there (it violates condition #1)",
            ["loop i", "block B"],
        ),
        (
            WRITTEN_TWICE,
            "row",
            0,
            "NotCompactDataFlowError",
            'block "row" is neither',
            ["loop i", "block row"],
        ),
        (
            LAST_ONE_STAYS,
            "B",
            0,
            "NotCompactDataFlowError",
            'block "B" uses the loop variable directly',
            ["loop i", "block B"],
        ),
    ],
)
def test_refused(method, args, before, block, depth, code, words, marked):
    error = refused(before, turned(method, block, depth, *args), code, words, marked)
    assert error.primitive == method
    if code == "WrongBlockIterTypeError":
        assert f'the "{method}" cannot be fulfilled' in error.message


def test_threads_do_not_share_an_opaque_axis():
    before = MATMUL.replace(
        'vi, vj, vk = T.axis.remap("SSR", [i, j, k])',
        'vi, vj = T.axis.remap("SS", [i, j])\n                    vk = T.axis.opaque(5, k)',
    )
    sch = Schedule(parse(before), enable_check=False)
    *_, k = sch.get_loops(sch.get_block("C"))
    with pytest.raises(ScheduleError, match="is not data-parallel or reduction: axis vk"):
        sch.bind(k, "threadIdx.x")


@pytest.mark.parametrize(("method", "args"), CHECKED)
def test_without_checks_only_the_axes_count(method, args):
    sch = Schedule(parse(IN_PLACE), enable_check=False)
    turned(method, "A", 0, *args)(sch)
    loop = {"parallel": "T.parallel(8)", "vectorize": "T.vectorized(8)"}.get(method)
    after = IN_PLACE.replace("range(8)", loop or threads(*args).format(8))
    assert_structural_equal(sch.mod["main"], parse(after))
    sch = Schedule(parse(MATMUL), enable_check=False)
    with pytest.raises(ScheduleError, match="is not data-parallel: axis vk"):
        turned(method, "C", 2, *args)(sch)


REPEATED = """\
@T.prim_func
def main(A: T.Buffer((3, 5)), D: T.Buffer((4, 3))):
    C = T.alloc_buffer((3,))
    for r in range(4):
        for i, k in T.grid(3, 5):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
{user}
"""
USER = """\
for i in range(3):
    with T.block("D"):
        vr, vi = T.axis.remap("SS", [r, i])
        D[vr, vi] = C[vi]
"""


@pytest.mark.parametrize(("method", "args"), CHECKED)
def test_iterations_that_repeat_a_reduction(method, args):
    after = "    for r in range(4):\n" + indent(USER, " " * 8)
    shared = REPEATED.format(user=after)
    words = f'"{method}" cannot be fulfilled with regard to {{loop}} because no axis of'
    error = refused(shared, turned(method, "C", 0, *args), "RepeatedUpdateError")
    assert words.format(loop="loop `r`") in error.message
    assert "update the same elements of C" in error.message
    own = REPEATED.format(user=indent(USER, " " * 8))
    scheduled(own, turned(method, "C", 0, *args))
    one = shared.replace("range(4)", "range(1)")
    scheduled(one, turned(method, "C", 0, *args))


@pytest.mark.parametrize("axis", ["threadIdx.w", "threadIdx", "vthread.w", "cthread", ""])
def test_an_unknown_thread_axis(axis):
    sch = Schedule(parse(MATMUL))
    i, _, _ = sch.get_loops(sch.get_block("C"))
    program = sch.mod["main"]
    with pytest.raises(ValueError, match=f"no thread axis '{axis}'"):
        sch.bind(i, axis)
    assert sch.mod["main"] is program
    assert len(sch.trace.insts) == 2
