"""`codegen.explain` says of a program what became of its loops, accumulators and accesses."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from text_cases import each_case

import codegen
from codegen.compile import llvm_source
from codegen.explanation.facts import InnerLoop, Loop
from codegen.lower import LoweringError
from codegen.lower.remarks import collect_remarks, done
from schedule import Schedule
from tensorir import parse, workloads
from tests.matmul import matmul

AVX512 = "llvm -mcpu=skylake-avx512 -num-cores=4"

MATMUL = matmul(128, 128, 128, noalias=True)


def tiled(rows: int, columns: int) -> Schedule:
    """Return the matmul with a register tile."""
    sch = Schedule(parse(MATMUL))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, rows])
    j0, j1 = sch.split(j, [None, columns])
    sch.reorder(i0, j0, k, i1, j1)
    sch.parallel(i0)
    sch.unroll(i1)
    sch.vectorize(j1)
    sch.decompose_reduction(block, k)
    return sch


def convolution() -> Schedule:
    """Return a convolution whose padding is inlined."""
    sch = Schedule(workloads.create("C2D", h=14, w=14, ci=32, co=32))
    block = sch.get_block("conv2d_nhwc")
    n, h, w, co, rh, rw, rc = sch.get_loops(block)
    sch.reorder(n, h, rh, rw, rc, w, co)
    sch.unroll(w)
    sch.vectorize(co)
    sch.decompose_reduction(block, rh)
    sch.compute_inline("PadInput")
    return sch


NAMES = {
    "parse": parse,
    "tiled": tiled,
    "convolution": convolution,
    "workloads": workloads,
    "MATMUL": MATMUL,
}


@each_case(Path(__file__).parent / "explanations.txt")
def test_reports(case, pytestconfig):
    program = eval(case.call, {**NAMES, "text": case.before + "\n"})
    program = program.mod if isinstance(program, Schedule) else program
    case.check(str(codegen.explain(program, AVX512)), pytestconfig)


def test_a_tile_of_more_vectors_than_the_target_has_registers():
    (accumulator,) = codegen.explain(tiled(16, 64).mod, AVX512).accumulators
    assert (accumulator.count, accumulator.lanes, accumulator.home) == (64, 16, "registers")
    assert accumulator.note == "the target has 32 vector registers: some go to memory"


def test_a_reduction_that_is_split_by_another_loop_loads_its_tile_again():
    sch = Schedule(parse(MATMUL))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    k0, k1 = sch.split(k, [None, 16])
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i, k0, j0, k1, j1)
    sch.vectorize(j1)
    sch.decompose_reduction(block, k0)
    (accumulator,) = codegen.explain(sch.mod, AVX512).accumulators
    assert (accumulator.home, accumulator.loop) == ("registers", "k_1")
    assert accumulator.note == "loaded and stored in each iteration of k_0"


def test_a_reduction_around_the_loop_that_it_sums_into_goes_through_memory():
    sch = Schedule(parse(MATMUL))
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.reorder(i, k, j)
    (accumulator,) = codegen.explain(sch.mod, AVX512).accumulators
    assert (accumulator.home, accumulator.loop) == ("memory", "k")


def test_parameters_that_may_overlap_stay_in_memory():
    func = parse(MATMUL).with_attr("tir.noalias", False)
    (accumulator,) = codegen.explain(func, AVX512).accumulators
    assert accumulator.home == "memory"
    assert (
        accumulator.note
        == "another buffer may share its memory; set tir.noalias or use cache_write"
    )


@pytest.mark.parametrize(("rows", "columns"), [(4, 16), (8, 32), (4, 64)])
def test_accumulators_in_registers_are_phi_nodes_in_llvm(rows, columns):
    mod = tiled(rows, columns).mod
    (accumulator,) = codegen.explain(mod, AVX512).accumulators
    source = llvm_source(mod, AVX512)
    text = source.optimized()
    assert accumulator.home == "registers"
    assert text.count("phi <16 x float>") == accumulator.count == rows * columns // 16


def test_facts_are_data():
    explanation = codegen.explain(tiled(8, 32).mod, AVX512)
    lanes = [loop for loop in explanation.loops if loop.becomes == "vectors"]
    assert lanes[1] == Loop(
        function="main",
        name="j_1",
        depth=4,
        extent=32,
        mark="vectorized",
        blocks=("C_update",),
        becomes="vectors",
        lanes=(16, 16),
    )
    assert explanation.inner_loops == [
        InnerLoop("main", "k", ("C",), updates=16, loads=10, stores=0)
    ]
    broadcast = [a.buffer for a in explanation.accesses if a.pattern == "broadcast"]
    assert broadcast == ["A"]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("B[i, 0] = B[i, 0] + A[i, j]", "its lanes store to one element of B"),
        (
            "T.evaluate(T.call_extern('int32', 'rand'))",
            "a call with a side effect has no vector form",
        ),
        ("for k in range(j): B[i, k] = A[i, k]", "the range of k differs between lanes"),
    ],
)
def test_why_a_loop_runs_lane_by_lane(statement, reason):
    func = parse(f"""\
@T.prim_func
def main(A: T.Buffer((8, 16)), B: T.Buffer((8, 16))):
    for i in range(8):
        for j in T.vectorized(16):
            {statement}
""")
    loop = codegen.explain(func, AVX512).loops[1]
    assert loop.becomes == "serial"
    assert f"lane by lane: {reason}" in loop.note


def test_loops_without_a_mark_that_lowering_changes():
    func = parse("""\
@T.prim_func
def main(A: T.Buffer((8, 16)), B: T.Buffer((8, 16)), n: T.int32):
    T.func_attr({"tir.noalias": True})
    for one in range(1):
        for i in T.serial(8, annotations={"pragma_auto_unroll_max_step": 64, "pragma_unroll_explicit": 1}):
            for u in range(2):
                for j in range(8):
                    B[i, u * 8 + j] = A[i, u * 8 + j]
        for never in range(4):
            if n < n:
                B[0, 0] = 0.0
""")
    loops = codegen.explain(func, AVX512).loops
    assert [(loop.name, loop.becomes, loop.by) for loop in loops] == [
        ("one", "once", ""),
        ("i", "unrolled", "mark_unrolled"),
        ("u", "unrolled", "mark_unrolled"),
        ("j", "vectors", "vectorize_innermost"),
        ("never", "removed", "simplify_control"),
    ]


def test_parallel_loops_that_run_on_one_thread():
    func = parse("""\
@T.prim_func
def main(A: T.Buffer((8, 100)), B: T.Buffer((8, 100))):
    for i in T.parallel(8):
        for j in T.parallel(100):
            B[i, j] = A[i, j] * 2.0
""")
    outer, inner = codegen.explain(func, AVX512).loops
    assert outer.becomes == "parallel"
    assert (inner.becomes, inner.note.split("; ")[0]) == ("serial", "inside another parallel loop")
    outer, inner = codegen.explain(func, "llvm -mcpu=skylake-avx512 -num-cores=1").loops
    assert (outer.becomes, outer.note) == ("serial", "the target has one core")


def test_what_cannot_be_compiled_cannot_be_explained():
    func = parse("""\
@T.prim_func
def main(A: T.Buffer((8,))):
    for i in T.thread_binding(8, thread="threadIdx.x"):
        A[i] = 0.0
""")
    with pytest.raises(LoweringError) as lowering:
        codegen.build(func, AVX512)
    with pytest.raises(LoweringError) as explaining:
        codegen.explain(func, AVX512)
    assert str(explaining.value) == str(lowering.value)


def test_notebooks_show_tables_in_a_fixed_width_font():
    page = codegen.explain(tiled(8, 32).mod, AVX512)._repr_html_()

    class Cells(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open: list[str] = []
            self.cells: list[str] = []

        def handle_starttag(self, tag, attrs):
            self.open.append(tag)
            if tag == "table":
                assert "monospace" in dict(attrs)["style"]

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

        def handle_data(self, data):
            if self.open[-1] == "td":
                self.cells.append(data)

    parser = Cells()
    parser.feed(page)
    assert parser.open == []
    assert "  j_0" in parser.cells
    assert "2 vectors of 16" in parser.cells


def test_remarks_are_kept_only_while_somebody_collects():
    done("some pass", "before")
    with collect_remarks() as remarks:
        done("some pass", "inside")
        done("some pass", "inside")
    done("some pass", "after")
    assert [(r.source, r.text) for r in remarks.made] == [("some pass", "inside")]


def test_memory_of_an_iteration_sums_over_the_loops_inside_only():
    func = parse("""\
@T.prim_func
def main(A: T.Buffer((64, 4)), B: T.Buffer((64,))):
    for i in range(64):
        with T.block("row"):
            total = T.alloc_buffer((1,))
            total[0] = 0.0
            for k in range(4):
                total[0] = total[0] + A[i, k]
            B[i] = total[0]
""")
    (accumulator,) = codegen.explain(func, AVX512).accumulators
    assert (accumulator.buffer, accumulator.home, accumulator.loop) == ("total", "registers", "k")
