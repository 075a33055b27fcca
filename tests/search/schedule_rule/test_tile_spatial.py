"""The rule for element-wise programs, stencils and transposes: tiles, lanes and unrolling."""

from __future__ import annotations

from pathlib import Path

import pytest

import search as ms
from schedule import Schedule
from schedule.random_state import RandomState
from search.context import TuneContext, design_spaces
from search.history.sample_on_miss import default_schedule
from search.schedule_rule import TileSpatial
from search.search_strategy.evolution import is_described
from search.search_strategy.trace_application import TraceApplication
from tensorir import assert_structural_equal, parse
from tests.search.anchored_programs import assert_same_results
from tests.search.made_up_runs import ScriptFiles, TimesOfScripts

TARGET = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=1"

TRANSPOSE = """
@T.prim_func
def main(X: T.Buffer((48, 24)), Y: T.Buffer((24, 48))):
    for i, j in T.grid(24, 48):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vj, vi]
"""
IN_SQUARES = """
@T.prim_func
def main(X: T.Buffer((48, 24)), Y: T.Buffer((24, 48))):
    for i_0, j_0 in T.grid(3, 3):
        for i_1 in T.unroll(8):
            for j_1 in T.vectorized(16):
                with T.block("Y"):
                    vi = T.axis.spatial(24, i_0 * 8 + i_1)
                    vj = T.axis.spatial(48, j_0 * 16 + j_1)
                    Y[vi, vj] = X[vj, vi]
"""
STENCIL = """
@T.prim_func
def main(X: T.Buffer((26, 48)), Y: T.Buffer((24, 48))):
    for i, j in T.grid(24, 48):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] + X[vi + 1, vj] + X[vi + 2, vj]
"""
DOUBLE = """
@T.prim_func
def main(X: T.Buffer((24, 48)), Y: T.Buffer((24, 48))):
    for i, j in T.grid(24, 48):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] * T.float32(2)
"""
SCALAR = """
@T.prim_func
def main(X: T.Buffer((1,)), Y: T.Buffer((1,))):
    for i in range(1):
        with T.block("Y"):
            vi = T.axis.spatial(1, i)
            Y[vi] = X[vi] * T.float32(2)
"""


def designs(text: str) -> list[Schedule]:
    func = parse(text)
    rule = TileSpatial()
    rule._initialize_with_tune_context(TuneContext(func, target=TARGET))
    sch = Schedule(func, seed=1)
    return rule.apply(sch, sch.get_block("Y"))


def test_transposes_have_tiles_of_a_vector_in_both_directions() -> None:
    plain, squares, rows_inside, rows_outside = designs(TRANSPOSE)
    assert not plain.trace.simplified(True).insts[2:], "as it is"
    assert_structural_equal(squares.mod["main"], parse(IN_SQUARES))
    assert not any(inst.kind.has_decision for inst in squares.trace.insts)
    for sampled in (rows_inside, rows_outside):
        assert sum(inst.kind.has_decision for inst in sampled.trace.insts) == 3


@pytest.mark.parametrize(("text", "loops"), [(STENCIL, 4), (DOUBLE, 3)], ids=["stencil", "double"])
def test_other_programs_have_one_design_with_tiles(text: str, loops: int) -> None:
    """In `double` all elements lie in one row, from which tiles are cut."""
    _plain, tiled = designs(text)
    assert len(tiled.get_loops(tiled.get_block("Y"))) == loops


@pytest.mark.parametrize(
    "text", [TRANSPOSE, STENCIL, DOUBLE], ids=["transpose", "stencil", "double"]
)
def test_points_compute_what_the_program_does(text: str) -> None:
    context = TuneContext(
        parse(text), target=TARGET, space_generator="post-order-apply", rand_state=1
    )
    application, rng = TraceApplication(context), RandomState(1)
    assert context.mod is not None
    for space in context.points_of(context.generate_design_space()):
        for _ in range(4):
            sch = application.apply(space.trace_of(space.sample(rng)))
            assert sch is not None
            assert_same_results(sch.mod, context.mod)


def test_several_cores_are_a_choice_of_every_design() -> None:
    for space in design_spaces(parse(STENCIL), TARGET.replace("cores=1", "cores=4")):
        (jobs,) = [knob for knob in space.knobs if knob.name == "parallel of root"]
        assert jobs.domain is not None
        assert list(jobs.domain) == [0, 1, 2, 4, 8, 16, 32, 64]
        rng = RandomState(1)
        assert {jobs.domain.sample(rng) for _ in range(40)} == {0, 64}


def test_programs_with_other_blocks_are_left_alone() -> None:
    two = STENCIL.replace(
        "Y: T.Buffer((24, 48))):", "Z: T.Buffer((24, 48))):\n    Y = T.alloc_buffer((24, 48))"
    )
    two += (
        DOUBLE.partition("24, 48))):\n")[2]
        .replace("Y[", "Z[")
        .replace("X[", "Y[")
        .replace('"Y"', '"Z"')
    )
    assert len(designs(two)) == 1
    assert len(designs(SCALAR)) == 1, "nothing to tile"


def test_a_default_schedule_is_none_of_those_that_features_do_not_describe() -> None:
    described = [is_described(space.trace) for space in design_spaces(parse(TRANSPOSE), TARGET)]
    assert described == [True, True, False, False]
    assert "T.unroll(8)" in default_schedule(parse(TRANSPOSE), TARGET).mod.script()
    plain = default_schedule(parse(DOUBLE), TARGET)
    assert is_described(plain.trace)


@pytest.mark.parametrize(
    ("text", "trials", "end"),
    [(STENCIL, 8, ""), (SCALAR, 1, "ends after 1 trial: its design space has 1 schedule")],
    ids=["stencil", "scalar"],
)
def test_a_search_has_something_to_try_or_says_that_it_has_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, trials: int, end: str
) -> None:
    best = ms.tune_tir(
        parse(text),
        "llvm -num-cores=1",
        ms.TuneConfig(8),
        tmp_path,
        builder=ScriptFiles(tmp_path / "artifacts"),
        runner=TimesOfScripts(),
    )
    assert best is not None
    assert best.report.trials == trials
    assert end in capsys.readouterr().err
