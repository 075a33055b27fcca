"""The rule for element-wise programs, stencils and transposes: tiles, lanes and unrolling."""

from __future__ import annotations

from pathlib import Path

import pytest

import search as ms
from schedule.random_state import RandomState
from search.context import TuneContext, design_spaces
from search.history.default_designs import default_schedule
from search.search_strategy.evolution import is_described
from search.search_strategy.trace_application import TraceApplication
from tensorir import parse
from tests.search.anchored_programs import assert_same_results
from tests.search.made_up_runs import ScriptFiles, TimesOfScripts
from tests.search.schedule_rule.programs import Reference, program

TARGET = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=1"

TRANSPOSE = """
@T.prim_func
def main(X: T.Buffer((48, 24)), Y: T.Buffer((24, 48))):
    for i, j in T.grid(24, 48):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
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

WITH_BIAS = """
C: T.Buffer((16, 6))): => b: T.Buffer((6,)), D: T.Buffer((16, 6))):\\n    C = T.alloc_buffer((16, 6))
* W[vr, vci] => * W[vr, vci]\\n    for h, co in T.grid(16, 6):\\n        with T.block("D"):\\n            vh, vco = T.axis.remap("SS", [h, co])\\n            D[vh, vco] = T.max(C[vh, vco] + b[vco], T.float32(0))"""


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


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("consumer", [False, True])
def test_results_without_skipped_zeros_can_be_stored_at_each_level(
    consumer: bool, seed: int
) -> None:
    """Of a transposed convolution: zeros are skipped in half of the designs."""
    func = program("transposed convolution" + (WITH_BIAS if consumer else ""))
    context = TuneContext(
        func, target="llvm -num-cores=1", space_generator="post-order-apply", rand_state=seed
    )
    designs, reference = context.generate_design_space(), Reference(func)
    assert len(designs) == 6
    for sch in designs[:3]:
        assert "% 2 == 0" not in sch.mod.script()
        reference.check(sch.mod)
