"""A search whose candidates run on this machine goes by what was measured of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import search as ms
from codegen import MachineSpeed, Target
from codegen.target.cpu_cores import CORES
from search.feature_extractor.machine import Machine
from search.runner import LocalRunner
from tests.search.programs import Matmul, split_j
from tests.search.test_tune_calls import FEW, PRETENDED, OneMillisecond

GHZ = 1e9
SPEED = MachineSpeed(
    vector_bits=256,
    clock=GHZ,
    fma_rate=1.76 * GHZ,
    fma_seconds=4.9 / GHZ,
    forward_seconds=11 / GHZ,
    read=(64 * GHZ, 32 * GHZ, 8 * GHZ, 4 * GHZ),
    page_seconds=(1 / GHZ, 8 / GHZ),
    fork_seconds=2000 / GHZ,
)


def test_threads_are_worth_what_they_save(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parallel loop takes 2,000 cycles, which two cores save of 4,000 and four of 2,667."""
    monkeypatch.setattr("search.feature_extractor.machine.known_speed", lambda target: SPEED)
    for cores, least in ((1, float("inf")), (2, 4000), (4, 2667)):
        machine = Machine.of(Target(f"llvm -mcpu=haswell -num-cores={cores}"))
        assert machine.is_worth_a_fork(least + 1) is (cores > 1)
        assert not machine.is_worth_a_fork(least - 1)


class OneMillisecondHere(OneMillisecond):
    """Pretends to measure on this machine."""

    def measures_here(self, target: Target) -> bool:
        """Say that it does."""
        return True


@pytest.mark.parametrize(
    ("runner", "learnt"),
    [(OneMillisecondHere(), ["llvm -keys=cpu -num-cores=1"]), (OneMillisecond(), [])],
    ids=["here", "elsewhere"],
)
def test_a_search_measures_the_machine_that_candidates_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: OneMillisecond, learnt: list[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("search.run.learn_speed", lambda target: asked.append(str(target)))
    made = {**PRETENDED, "runner": runner}
    ms.tune_tir(Matmul, "llvm -num-cores=1", FEW, tmp_path, space=split_j, **made)
    assert asked == learnt


def test_the_local_runner_measures_here_unless_a_function_does_it() -> None:
    assert LocalRunner().measures_here(Target("llvm"))
    assert not LocalRunner(f_run_evaluator=lambda *_: [1.0]).measures_here(Target("llvm"))


def test_what_was_measured_comes_before_the_figures_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target("llvm -mcpu=haswell")
    monkeypatch.setattr("search.feature_extractor.machine.known_speed", lambda target: SPEED)
    measured = Machine.of(target)
    # Units and cycles are whole, or halves: the rest is noise.
    assert (measured.fma_units, measured.fma_latency, measured.loads) == (2, 5, 2)
    # Lines take 1, 2, 8 and 16 cycles.
    assert measured.fetch_cycles == pytest.approx((1, 6, 8))
    monkeypatch.setattr("search.feature_extractor.machine.known_speed", lambda target: None)
    assert Machine.of(target).fetch_cycles == CORES["haswell"].fetch_cycles
