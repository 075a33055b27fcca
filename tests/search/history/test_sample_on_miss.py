"""A schedule for a program that nothing is known of."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codegen
import search as ms
from search.builder import Builder, BuilderInput, BuilderResult
from search.cost_model import XGBModel
from search.cost_model.cost_model import Scores
from search.database import MemoryDatabase
from search.errors import TuningError
from tensorir import assert_structural_equal, parse
from tests.search.anchored_programs import TARGET, assert_same_results
from tests.search.compatible_programs import product

MOD = product(32, 32, 32)


class BuildsHere(Builder):
    """Builds in this process, all but the first few programs."""

    def __init__(self, refused: int = 0) -> None:
        self.refused = refused
        self.asked = 0

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        results = []
        for entry in build_inputs:
            self.asked += 1
            if self.asked <= self.refused:
                results.append(BuilderResult(None, "refused"))
                continue
            codegen.compile_object(entry.mod, entry.target)
            results.append(BuilderResult("nowhere", None))
        return results

    def remove_artifact(self, path: str) -> None:
        assert path == "nowhere"


def found_with(sampler: ms.SampleOnMiss) -> ms.FoundSchedule:
    found = ms.find_schedule(MemoryDatabase(), MOD, TARGET, sample_on_miss=sampler)
    assert found is not None
    assert found.how == "sampled"
    assert_same_results(found.schedule.mod, MOD)
    return found


class Backwards(XGBModel):
    """Prefers what the estimate calls slowest."""

    def score_points(
        self, context: ms.TuneContext, space: ms.DesignSpace, decisions: Sequence[Any]
    ) -> Scores | None:
        found = super().score_points(context, space, decisions)
        return None if found is None else Scores(-found.mean, found.std)


def test_a_model_orders_the_sample(tmp_path: Path) -> None:
    """A file of a model that has seen nothing says what a new model says."""
    path = tmp_path / "model.xgb"
    XGBModel().save(path)
    plain = found_with(ms.SampleOnMiss(builder=BuildsHere()))
    for model in (path, str(path), XGBModel()):
        found = found_with(ms.SampleOnMiss(model, builder=BuildsHere()))
        assert_structural_equal(found.schedule.mod, plain.schedule.mod)
    other = found_with(ms.SampleOnMiss(Backwards(), builder=BuildsHere()))
    assert str(other.schedule.trace) != str(plain.schedule.trace)
    path.write_text("none")
    with pytest.raises(TuningError, match=r"model\.xgb is not a saved cost model"):
        found_with(ms.SampleOnMiss(path, builder=BuildsHere()))


def test_the_fastest_of_those_that_are_measured_is_taken(measured: dict[str, Any]) -> None:
    found = found_with(ms.SampleOnMiss(num_measure=2, **measured))
    assert found.record.run_secs
    assert found.expected_seconds == found.record.mean_seconds
    assert str(found).startswith("a sampled schedule, measured with ")


def test_a_program_that_cannot_be_built_is_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    sampler = ms.SampleOnMiss(num_measure=2, builder=BuildsHere(refused=1000))
    assert ms.find_schedule(MemoryDatabase(), MOD, TARGET, sample_on_miss=sampler) is None
    assert 'the program of task "main" cannot be built even unscheduled' in capsys.readouterr().err


WITH_A_SIZE = """
@T.prim_func
def scale(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 16))
    B = T.match_buffer(b, (n, 16))
    for i, j in T.grid(n, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""
WITH_A_NUMBER = """
@T.prim_func
def scale(A: T.Buffer((16,), "int32"), n: T.int32, B: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] * n
"""


@pytest.mark.parametrize("num_measure", [-1, 2])
def test_a_program_whose_arguments_cannot_be_made_up_is_built_as_it_is(
    num_measure: int, caplog: pytest.LogCaptureFixture
) -> None:
    mod = parse(WITH_A_NUMBER)
    caplog.set_level("INFO", "tensorir.search")
    sampler = ms.SampleOnMiss(num_measure=num_measure, builder=BuildsHere())
    plain = codegen.build(mod, TARGET).get_source()
    with ms.History(MemoryDatabase(), sample_on_miss=sampler):
        assert codegen.build(mod, TARGET).get_source() == plain
    reason = "parameter 'n' is a scalar"
    assert any(f'"scale" is not sampled: {reason}' in text for text in caplog.messages)


def test_a_program_with_a_symbolic_size_is_sampled_for_a_number() -> None:
    mod = parse(WITH_A_SIZE)
    with ms.History(MemoryDatabase(), sample_on_miss=ms.SampleOnMiss()):
        built = codegen.build(mod, TARGET)["scale"]
    for rows in (0, 1, 130):
        a = np.random.default_rng(0).random((rows, 16), np.float32)
        b = np.empty_like(a)
        built(a, b)
        np.testing.assert_array_equal(b, a * 2)
