"""Features of nests: how a program runs, told from its loops and its target."""

from __future__ import annotations

import numpy as np
import pytest

from codegen import Target
from schedule import Schedule
from search import TuneContext
from search.feature_extractor import FeatureExtractor, NestFeature
from search.feature_extractor.machine import Machine
from search.feature_extractor.nest_columns import columns_of
from search.feature_extractor.nests import nests
from search.feature_extractor.read_nests import read_nests
from search.runner.measure_candidate import MeasureCandidate
from tensorir import parse
from tensorir.function import IRModule, PrimFunc
from tests.matmul import matmul

MATMUL = matmul(64, 64, 64)
AVX2 = "llvm -mcpu=znver3 -num-cores=4"


def module(text: str) -> IRModule:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return IRModule({"main": func})


def tiled(order: str, parallel: int | None = None, completed: bool = True) -> Schedule:
    """Return the matmul with its loops in an order, and wishes for postprocessing.

    `completed`: that follows.
    """
    sch = Schedule(module(MATMUL))
    loops = dict(zip("ijk", sch.get_loops(sch.get_block("C")), strict=True))
    sch.reorder(*(loops[name] for name in order))
    root = sch.get_block("root")
    if parallel is not None:
        sch.annotate(root, "meta_schedule.parallel", parallel)
    sch.annotate(root, "meta_schedule.vectorize", 64)
    if completed:
        sch.enter_postproc()
    return sch


def features(*schedules: Schedule, target: str = AVX2) -> list[dict[str, float]]:
    context = TuneContext(module(MATMUL), target=target)
    candidates = [MeasureCandidate(sch, []) for sch in schedules]
    extracted = FeatureExtractor.create("nest-feature").extract_from(context, candidates)
    return [dict(zip(NestFeature.names, rows[0], strict=True)) for rows in extracted]


@pytest.mark.filterwarnings("error")
def test_loops_without_iterations_have_finite_features():
    program = """\
@T.prim_func
def main(A: T.Buffer((2, 0, 5), "float32"), B: T.Buffer((2, 5, 4), "float32")):
    for i, j, l, k in T.grid(2, 5, 4, 0):
        with T.block("B"):
            vi, vj, vl, vk = T.axis.remap("SSSR", [i, j, l, k])
            with T.init():
                B[vi, vj, vl] = T.float32(0)
            B[vi, vj, vl] = B[vi, vj, vl] + A[vi, vk, vj]
"""
    (row,) = features(Schedule(module(program)))
    assert np.isfinite(list(row.values())).all()


def test_the_tile_is_what_the_postprocessors_make():
    # 6 rows of 2 vectors fit 16 registers best, though they do not divide the loops.
    (row,) = features(tiled("ijk"))
    assert 2 ** row["main.vector"] == 8
    assert 2 ** row["main.accumulators"] == 12
    assert row["main.loads"] == pytest.approx(8 / 12)


def test_weights_from_memory_are_waited_for_once_for_each_part_that_is_used_again():
    """Of 64 x 64 numbers: all of it, or one of four parts, before it is used for other rows."""
    program = parse(matmul(64, 64, 64)).with_attr("layout_free_buffers", [1])

    def cycles(cold: bool, parts: int) -> float:
        sch = Schedule(IRModule({"main": program}))
        i, j, k = sch.get_loops(sch.get_block("C"))
        outer, inner = sch.split(k, [parts, None])
        sch.reorder(outer, i, j, inner)
        context = TuneContext(sch.mod, target=AVX2)
        context.weights_are_cold = cold
        (rows,) = NestFeature().extract_from(context, [MeasureCandidate(sch, [])])
        return float(2 ** rows[0, NestFeature.names.index("all_cycles")])

    warm, cold = ([cycles(is_cold, parts) for parts in (1, 4)] for is_cold in (False, True))
    assert cold[0] > warm[0] + 1000
    assert cold[1] - warm[1] > cold[0] - warm[0] + 3 * 1000


def test_unit_loops_that_are_left_out_change_no_column():
    sch = Schedule(module(MATMUL))
    i, j, k = sch.get_loops(sch.get_block("C"))
    (i0, i1, i2), (j0, j1, j2) = sch.split(i, [16, 1, 4]), sch.split(j, [4, 1, 16])
    k0, k1 = sch.split(k, [16, 4])
    sch.reorder(i0, j0, i1, j1, k0, i2, j2, k1)
    root = sch.get_block("root")
    sch.annotate(root, "meta_schedule.parallel", 64)
    sch.annotate(root, "meta_schedule.vectorize", 64)
    program, numbers = read_nests(sch.mod)
    machine = Machine.of(Target(AVX2))
    whole = nests(program, numbers[:, None])
    short = nests(program, numbers[:, None], leave_out_unit_loops=True)
    assert [len(nest.loops) for nest in whole] == [6, 8]
    assert [len(nest.loops) for nest in short] == [4, 6]
    for one, other in zip(*columns_of([whole, short], machine), strict=True):
        assert np.array_equal(one.columns, other.columns)
        assert np.array_equal(one.cycles, other.cycles)


def test_only_a_repetition_inside_of_all_that_is_written_out_is_hoisted():
    program = """\
@T.prim_func
def main(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32")):
    for {loops}:
        with T.block("B"):
            vi, vr = T.axis.remap("SS", [i, r])
            B[vi] = A[vi] * T.float32(2)
"""
    inside, outside = (
        features(Schedule(module(program.format(loops=loops))))[0]
        for loops in ("i, r in T.grid(4096, 4)", "r, i in T.grid(4, 4096)")
    )
    assert (2 ** inside["main.repeats"], 2 ** outside["main.repeats"]) == (4, 1)


def test_without_postprocessing_the_innermost_reduction_keeps_its_sum():
    inside, outside = features(*(tiled(order, completed=False) for order in ("ijk", "kij")))
    assert 2 ** inside["main.accumulators"] == 1
    assert inside["main.tile_traffic"] == 2 / 64, "the sum is loaded and stored for 64 updates"
    assert outside["main.tile_traffic"] == 2, "each update loads and stores its element"


def test_what_was_done_after_the_mark_does_not_count():
    before, after = tiled("ijk"), tiled("ijk")
    after.parallel(after.get_loops(after.get_block("C"))[0])
    first, second = features(before, after)
    assert first == second


def test_many_at_once_are_as_each_alone():
    schedules = [tiled(order, parallel) for order in ("ijk", "ikj", "kij") for parallel in (1, 64)]
    together = features(*schedules)
    for sch, row in zip(schedules, together, strict=True):
        assert features(sch) == [row]


VIEWED = """
@T.prim_func
def main(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
    for i_0, j_0 in T.grid(8, 8):
        with T.block("tile"):
            vi, vj = T.axis.remap("SS", [i_0, j_0])
            T.reads(A[vi * 8:vi * 8 + 8, vj * 8:vj * 8 + 8])
            T.writes(B[vi * 8:vi * 8 + 8, vj * 8:vj * 8 + 8])
            V = T.match_buffer(A[vi * 8:vi * 8 + 8, vj * 8:vj * 8 + 8], (8, 8), "float32", strides=[64, 1], offset_factor=1)
            for i_1, j_1 in T.grid(8, 8):
                with T.block("B"):
                    vi_1, vj_1 = T.axis.remap("SS", [i_1, j_1])
                    B[vi * 8 + vi_1, vj * 8 + vj_1] = V[vi_1, vj_1] * T.float32(2)
"""


def test_a_view_is_the_part_of_the_buffer_that_it_shows():
    viewed = Schedule(module(VIEWED))
    direct = Schedule(module(VIEWED.replace("V[vi_1, vj_1]", "A[vi * 8 + vi_1, vj * 8 + vj_1]")))
    first, second = features(viewed, direct)
    assert first == second


def test_what_is_live_of_an_allocation_counts():
    # Below the loop over rows one row of T is live, whatever its shape says.
    text = """
@T.prim_func
def main(A: T.Buffer((4096, 256), "float32"), B: T.Buffer((4096, 256), "float32")):
    T_ = T.alloc_buffer((4096, 256), "float32")
    for i in range(4096):
        for j in range(256):
            with T.block("T"):
                vi, vj = T.axis.remap("SS", [i, j])
                T_[vi, vj] = A[vi, vj] * T.float32(2)
        for j in range(256):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T_[vi, vj] + T.float32(1)
"""
    second = '        for j in range(256):\n            with T.block("B")'
    alone = '    for i, j in T.grid(4096, 256):\n            with T.block("B")'
    assert second in text
    apart = text.replace(second, alone)
    together, separate = features(Schedule(module(text)), Schedule(module(apart)))
    assert together["mean.l2_lines"] < separate["mean.l2_lines"]


@pytest.mark.parametrize(
    "body",
    [
        "B[0, 0] = A[()] + T.float32(1)",
        "B[0, 0] = B[0, 0] + A[()]",
        "for i in range(0): B[i, i] = A[()]",
        "while B[0, 0] < A[()]: B[0, 0] = B[0, 0] + T.float32(1)",
    ],
    ids=["once", "update", "never", "while"],
)
def test_stores_outside_of_loops_have_features(body):
    text = f"""
@T.prim_func
def main(A: T.Buffer((), "float32"), B: T.Buffer((8, 8), "float32")):
    {body}
"""
    (row,) = features(Schedule(module(text)))
    assert all(np.isfinite(value) for value in row.values())


def test_a_cpu_model_that_is_not_here_has_the_figures_of_its_row():
    haswell = Machine.of(Target("llvm -mcpu=haswell -num-cores=4"))
    assert (haswell.fma_units, haswell.fma_latency, haswell.loads) == (2, 5, 2)
    assert haswell.caches == (32 << 10, 256 << 10, 8 << 20)
    assert (haswell.vector_registers, haswell.cores) == (16, 4)


def test_wide_vectors_take_two_turns_in_narrow_units():
    wide, narrow = (Machine.of(Target(f"llvm -mcpu=znver4{o}")) for o in ("", " -vector-width=256"))
    assert (wide.vector_bits, wide.fma_units, wide.loads) == (512, 1, 1)
    assert (narrow.vector_bits, narrow.fma_units, narrow.loads) == (256, 2, 2)


ROWS = """
@T.prim_func
def main(A: T.Buffer(({rows}, {width}), "float32"), B: T.Buffer(({rows},), "float32")):
    for i, k in T.grid(4096, {rows}):
        with T.block("B"):
            vi, vk = T.axis.remap("RS", [i, k])
            with T.init():
                B[vk] = T.float32(0)
            B[vk] = B[vk] + A[vk, 0]
"""


def first_elements(rows: int, width: int) -> dict[str, float]:
    """Return the features of reading the first elements of rows again and again."""
    (row,) = features(Schedule(module(ROWS.format(rows=rows, width=width))))
    return row


def test_rows_that_are_a_page_apart_fall_into_the_same_sets():
    # 48 lines are a tenth of the first cache; 4096 bytes apart, 8 of them find a place.
    spread, crowded = first_elements(48, 1040), first_elements(48, 1024)
    assert spread["main.l1_lines"] == -20
    assert crowded["main.l1_lines"] > -1
    assert crowded["main.cycles"] > spread["main.cycles"]


def test_rows_in_more_pages_than_are_at_hand_take_longer():
    few, many = first_elements(24, 1040), first_elements(240, 1040)
    assert few["main.l1_lines"] == many["main.l1_lines"] == -20
    assert many["main.cycles"] > few["main.cycles"] + 0.05


def test_all_registers_of_a_wide_vector_are_loaded_at_once():
    sch = Schedule(module(MATMUL))
    i, j, k = sch.get_loops(sch.get_block("C"))
    (i0, i1), (j0, j1) = sch.split(i, [None, 2]), sch.split(j, [None, 32])
    sch.reorder(i0, j0, k, i1, j1)
    sch.annotate(sch.get_block("root"), "meta_schedule.vectorize", 32)
    sch.enter_postproc()
    (row,) = features(sch)
    assert (2 ** row["main.accumulators"], 2 ** row["main.pieces"]) == (8, 4)
    assert row["main.pressure"] == (8 + 4 + 1) / 16, "8 sums, 4 of the row, 1 of the column"


PRODUCT = """
@T.prim_func
def main(x: T.Buffer((4096,)), A: T.Buffer((4096, 4096)), y: T.Buffer((4096,))):
    for j, k in T.grid(4096, 4096):
        with T.block("y"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                y[vj] = T.float32(0)
            y[vj] = y[vj] + x[vk] * A[vk, vj]
"""


def test_rows_that_are_read_in_turns_cost_more_the_more_there_are():
    def share_of_memory(rows: int) -> float:
        sch = Schedule(module(PRODUCT))
        j, k = sch.get_loops("y")
        j, vector, lane = sch.split(j, [None, 8, 8])
        k, row = sch.split(k, [None, rows])
        sch.reorder(k, j, row, vector, lane)
        for loop in (row, vector):
            sch.unroll(loop)
        sch.vectorize(lane)
        sch.annotate(sch.get_block("root"), "meta_schedule.register_tile", 0)
        sch.enter_postproc()
        (rows_,) = NestFeature().extract_from(
            TuneContext(sch.mod, target=AVX2), [MeasureCandidate(sch, [])]
        )
        named = dict(zip(NestFeature.names, rows_[0], strict=True))
        assert 2 ** named["main.accumulators"] == 8
        assert 2 ** named["main.run"] == rows
        return float(2 ** named["main.cycles"] * named["main.memory"])

    few, more, many = (share_of_memory(rows) for rows in (8, 16, 64))
    assert 1.1 < more / few < 1.3
    assert 1.4 < many / few < 1.8
