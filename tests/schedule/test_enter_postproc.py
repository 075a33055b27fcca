"""The mark that separates sampling from postprocessing."""

from __future__ import annotations

from schedule import Schedule, Trace
from tensorir import assert_structural_equal, parse
from tests.schedule.programs import VECTOR
from tests.schedule.transformation import apply

SPLIT = """\
@T.prim_func
def main(A: T.Buffer((128,)), B: T.Buffer((128,))):
    for i_0, i_1 in T.grid(8, 16):
        with T.block("B"):
            vi = T.axis.spatial(128, i_0 * 16 + i_1)
            B[vi] = A[vi] * T.float32(2)
"""

POSTPROCESSED = """\
@T.prim_func
def main(A: T.Buffer((128,)), B: T.Buffer((128,))):
    for i_0 in T.parallel(8):
        for i_1 in T.vectorized(16):
            with T.block("B"):
                vi = T.axis.spatial(128, i_0 * 16 + i_1)
                B[vi] = A[vi] * T.float32(2)
"""


def tiled(sch):
    (loop,) = sch.get_loops(sch.get_block("B"))
    outer, inner = sch.split(loop, sch.sample_perfect_tile(loop, 2, decision=[8, 16]))
    sch.enter_postproc()
    sch.parallel(outer)
    sch.vectorize(inner)


def test_a_replay_from_json():
    trace = apply(VECTOR, tiled).trace
    for remove_postproc, after in ((False, POSTPROCESSED), (True, SPLIT)):
        sch = Schedule(parse(VECTOR))
        Trace.from_json(trace.as_json(remove_postproc=remove_postproc)).apply_to_schedule(
            sch, remove_postproc=False
        )
        assert_structural_equal(sch.mod["main"], parse(after))


def test_a_changed_decision_redoes_the_sampling_only():
    trace = apply(VECTOR, tiled).trace
    changed = trace.with_decision(trace.insts[2], [4, 32], remove_postproc=True)
    assert changed.as_python()[2].endswith("decision=[4, 32])")
    assert len(changed.insts) == 4
    sch = Schedule(parse(VECTOR))
    changed.apply_to_schedule(sch, remove_postproc=True)
    after = SPLIT.replace("T.grid(8, 16)", "T.grid(4, 32)").replace("* 16", "* 32")
    assert_structural_equal(sch.mod["main"], parse(after))


def test_only_the_first_mark_counts():
    def call(sch):
        (loop,) = sch.get_loops(sch.get_block("B"))
        sch.enter_postproc()
        sch.unroll(loop)
        sch.enter_postproc()

    trace = apply(VECTOR, call).trace
    assert len(trace.as_python()) == 5
    assert len(trace.as_python(remove_postproc=True)) == 2


def test_the_program_at_the_first_mark_is_kept():
    sch = apply(VECTOR, tiled)
    sch.enter_postproc()
    for kept in (sch, sch.copy()):
        assert kept.state.before_postproc is not None
        assert_structural_equal(kept.state.before_postproc["main"], parse(SPLIT))
    assert Schedule(parse(VECTOR)).state.before_postproc is None
