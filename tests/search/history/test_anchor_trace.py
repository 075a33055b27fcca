"""Schedules of one program made of the trace of another around the same anchor block."""

import pytest

from schedule import Schedule, Trace
from search import schedule_using_anchor_trace
from search.context import TuneContext
from search.history.adapted_replay import ReplayError, schedule_by_anchor
from search.task import normalize_mod
from tensorir import T, assert_structural_equal, parse
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.stmt import For, ForKind
from tests.search.anchored_programs import (
    TARGET,
    adds_one,
    assert_same_results,
    dense,
    matmul,
    tiled,
)

MATMUL = IRModule({"main": matmul})


def applied(trace: Trace, func: PrimFunc, recorded: IRModule = MATMUL) -> Schedule:
    """Apply a trace to another program, and see that it computes the same."""
    mod = normalize_mod(func)
    sch = schedule_by_anchor(mod, trace, recorded, TARGET)
    assert_same_results(sch.mod, mod)
    again = Schedule(mod)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)
    return sch


def dense_with(tail: str) -> PrimFunc:
    """Return `dense` with another formula in its last block."""
    text = dense.script().replace("T.max(z[vi, vj], T.float32(0.0))", tail)
    assert text != dense.script()
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def nest_of(sch: Schedule, block: str) -> list[str]:
    """Return the names of the loops around a block."""
    return [sch.get(loop).loop_var.name for loop in sch.get_loops(sch.get_block(block))]


# ------------------------------------------------------------------------------ tails that are not known


def test_without_a_copy_a_tail_is_computed_where_a_tile_is_complete() -> None:
    sch = applied(tiled(cached=False).trace, dense)
    assert nest_of(sch, "relu")[:2] == nest_of(sch, "y_update")[:2] == ["i_0", "j_0"]
    assert len(nest_of(sch, "relu")) > 2
    assert 'T.block("bias")' not in sch.mod.script()


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(
    "tail",
    [
        "T.exp(T.exp(z[vi, vj]))",
        "T.if_then_else(vi < 3, z[vi, vj], T.float32(0))",
        "z[vj, vi] * T.float32(2)",
        "z[vi, vj] + x[vi, vj] * w[vj, vi]",
        "z[0, vj]",
    ],
)
def test_tails_that_cannot_be_inlined_are_right(tail: str, cached: bool) -> None:
    applied(tiled(cached).trace, dense_with(tail))


@pytest.mark.parametrize("cached", [True, False])
def test_two_tails_are_computed_at_the_tiles(cached: bool) -> None:
    @T.prim_func
    def gated(
        x: T.Buffer((16, 16), "float32"),
        w: T.Buffer((16, 16), "float32"),
        relu: T.Buffer((16, 16), "float32"),
        leaky: T.Buffer((16, 16), "float32"),
    ):
        y = T.alloc_buffer((16, 16))
        for i, j, k in T.grid(16, 16, 16):
            with T.block("y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    y[vi, vj] = T.float32(0)
                y[vi, vj] = y[vi, vj] + x[vi, vk] * w[vk, vj]
        for i, j in T.grid(16, 16):
            with T.block("relu"):
                vi, vj = T.axis.remap("SS", [i, j])
                relu[vi, vj] = T.max(y[vi, vj], T.float32(0))
        for i, j in T.grid(16, 16):
            with T.block("leaky"):
                vi, vj = T.axis.remap("SS", [i, j])
                leaky[vi, vj] = T.max(y[vi, vj], y[vi, vj] * T.float32(0.1))

    sch = applied(tiled(cached).trace, gated)
    for tail in ("relu", "leaky"):
        assert nest_of(sch, tail)[:2] == nest_of(sch, "y_update")[:2] == ["i_0", "j_0"]


@pytest.mark.parametrize("cached", [True, False])
def test_a_tail_that_reduces_is_left_behind(cached: bool) -> None:
    @T.prim_func
    def normalized(
        x: T.Buffer((16, 16), "float32"),
        w: T.Buffer((16, 16), "float32"),
        out: T.Buffer((16, 16), "float32"),
    ):
        y = T.alloc_buffer((16, 16))
        e = T.alloc_buffer((16, 16))
        total = T.alloc_buffer((16,))
        for i, j, k in T.grid(16, 16, 16):
            with T.block("y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    y[vi, vj] = T.float32(0)
                y[vi, vj] = y[vi, vj] + x[vi, vk] * w[vk, vj]
        for i, j in T.grid(16, 16):
            with T.block("e"):
                vi, vj = T.axis.remap("SS", [i, j])
                e[vi, vj] = T.exp(y[vi, vj])
        for i, k in T.grid(16, 16):
            with T.block("total"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    total[vi] = T.float32(0)
                total[vi] = total[vi] + e[vi, vk]
        for i, j in T.grid(16, 16):
            with T.block("out"):
                vi, vj = T.axis.remap("SS", [i, j])
                out[vi, vj] = e[vi, vj] / total[vi]

    sch = applied(tiled(cached).trace, normalized)
    assert "T.exp(" in sch.mod.script()
    exp = "y_global" if cached else "e"
    assert nest_of(sch, exp)[:2] == nest_of(sch, "y_update")[:2], "at the tiles"


# ------------------------------------------------------------------------------- blocks that are missing


def test_what_was_done_to_blocks_that_are_not_here_is_left_out() -> None:
    """The trace of `dense` inlines the bias and computes the relu at the tiles; `matmul` has none."""
    recorded = normalize_mod(dense)
    sch = Schedule(recorded)
    block, relu = sch.get_block("y"), sch.get_block("relu")
    sch.compute_inline("bias")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [2, 8])
    sch.reorder(i, j0, k, j1)
    (consumer,) = sch.get_consumers(block)
    sch.reverse_compute_at(consumer, j0)
    sch.vectorize(sch.get_loops(relu)[-1])
    result = applied(sch.trace, matmul, recorded)
    assert nest_of(result, "C") == ["i", "j_0", "k", "j_1"]


def test_blocks_of_the_same_name_are_treated_as_recorded() -> None:
    """With a leaky unit in place of the relu, all that was done to `dense` is done."""
    recorded = normalize_mod(dense)
    sch = Schedule(recorded)
    sch.compute_inline("bias")
    i, _ = sch.get_loops("relu")
    outer, _ = sch.split(i, [4, 4])
    sch.compute_at("y", outer)
    sch.parallel(outer)
    leaky = dense_with("T.max(z[vi, vj], z[vi, vj] * T.float32(0.1))")
    result = applied(sch.trace, leaky, recorded)
    assert nest_of(result, "relu") == ["i_0", "i_1", "j"]
    assert nest_of(result, "y")[0] == "i_0"


# ------------------------------------------------------------------------------- what does not fit


def test_a_program_that_is_scheduled_already_is_refused() -> None:
    """The anchor block of a tiled program is the one of the program before."""
    sch = tiled(cached=False)
    done = Schedule(MATMUL)
    done.split(done.get_loops("C")[0], [4, 4])
    with pytest.raises(ReplayError, match="GetLoops gives 4 outputs, not 3"):
        schedule_by_anchor(done.mod, sch.trace, MATMUL, TARGET)


def test_an_instruction_that_the_anchor_does_not_take_is_named() -> None:
    @T.prim_func
    def sums(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        for i, j, k in T.grid(16, 16, 16):
            with T.block("sums"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk]

    sch = Schedule(MATMUL)
    sch.cache_read(sch.get_block("C"), 1, "global")
    with pytest.raises(ReplayError, match=r"CacheRead does not apply: .*read region"):
        schedule_by_anchor(normalize_mod(sums), sch.trace, MATMUL, TARGET)
    with pytest.raises(ReplayError, match="GetBlock does not apply: "):
        schedule_by_anchor(normalize_mod(adds_one), sch.trace, MATMUL, TARGET)


def test_a_block_that_the_trace_made_and_asks_for_by_name_is_needed() -> None:
    """It is called after a buffer, which has another name here: its copy would stay unscheduled."""
    sch = Schedule(MATMUL)
    sch.cache_write(sch.get_block("C"), 0, "global")
    sch.vectorize(sch.get_loops(sch.get_block("C_global"))[-1])
    with pytest.raises(ReplayError, match="GetBlock does not apply: "):
        schedule_by_anchor(normalize_mod(dense), sch.trace, MATMUL, TARGET)


# --------------------------------------------------------------------------- traces of the search


@pytest.mark.parametrize("place", range(3))
def test_design_spaces_of_the_search_apply(place: int) -> None:
    context = TuneContext(MATMUL, target=TARGET, space_generator="post-order-apply", rand_state=1)
    assert context.space_generator is not None
    sch = context.generate_design_space()[place]
    sch.enter_postproc()
    assert all(postproc.apply(sch) for postproc in context.space_generator.postprocs)
    result = applied(sch.trace, dense)
    body = result.get(result.get_block("root")).body
    assert isinstance(body, For), "the tail is in the loops of the product"


# ------------------------------------------------------------------------------------- on a schedule


@T.prim_func
def attention(
    q: T.Buffer((16, 16), "float32"),
    k: T.Buffer((16, 16), "float32"),
    v: T.Buffer((16, 16), "float32"),
    out: T.Buffer((16, 16), "float32"),
):
    score = T.alloc_buffer((16, 16))
    largest = T.alloc_buffer((16,))
    weight = T.alloc_buffer((16, 16))
    total = T.alloc_buffer((16,))
    for i, j, r in T.grid(16, 16, 16):
        with T.block("score"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, r])
            with T.init():
                score[vi, vj] = T.float32(0)
            score[vi, vj] = score[vi, vj] + q[vi, vk] * k[vk, vj]
    for i, r in T.grid(16, 16):
        with T.block("largest"):
            vi, vk = T.axis.remap("SR", [i, r])
            with T.init():
                largest[vi] = T.min_value("float32")
            largest[vi] = T.max(largest[vi], score[vi, vk])
    for i, j in T.grid(16, 16):
        with T.block("weight"):
            vi, vj = T.axis.remap("SS", [i, j])
            weight[vi, vj] = T.exp(score[vi, vj] - largest[vi])
    for i, r in T.grid(16, 16):
        with T.block("total"):
            vi, vk = T.axis.remap("SR", [i, r])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + weight[vi, vk]
    for i, j, r in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, r])
            with T.init():
                out[vi, vj] = T.float32(0)
            out[vi, vj] = out[vi, vj] + weight[vi, vk] / total[vi] * v[vk, vj]


def in_parallel() -> Trace:
    """Tile `matmul` and run the tiles in parallel, without postprocessors."""
    sch = Schedule(MATMUL)
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [4, 4])
    j0, j1 = sch.split(j, [2, 8])
    sch.reorder(i0, j0, k, i1, j1)
    sch.parallel(sch.fuse(i0, j0))
    return sch.trace


def test_other_reductions_run_in_parallel_where_the_anchor_does() -> None:
    mod = normalize_mod(attention)
    sch = Schedule(mod)
    sch.get_block("C")
    assert schedule_using_anchor_trace(sch, in_parallel(), TARGET) is None
    assert nest_of(sch, "C")[0] == "i_0_j_0_fused"
    for block in ("score", "largest", "total", "C"):
        outer = sch.get(sch.get_loops(sch.get_block(block))[0])
        assert outer.kind is ForKind.PARALLEL
    assert_same_results(sch.mod, mod)
    again = Schedule(mod)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_a_trace_without_the_anchor_block_leaves_the_schedule_as_it_is() -> None:
    sch = Schedule(normalize_mod(dense))
    before = sch.mod
    with pytest.raises(ReplayError, match="has no block 'y', the anchor block"):
        schedule_using_anchor_trace(sch, in_parallel(), TARGET)
    assert_structural_equal(sch.mod, before)
    assert not sch.trace.insts
    two = Schedule(IRModule({"main": matmul, "other": adds_one}))
    with pytest.raises(ReplayError, match="module of one function, got 2"):
        schedule_using_anchor_trace(two, in_parallel(), TARGET)
