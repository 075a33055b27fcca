"""What cores of CPU models do, for targets that need not be the machine that tests run on."""

from __future__ import annotations

import pytest

from codegen import Target
from codegen.target.cpu_cores import CORES
from codegen.target.presets import CPU_FEATURES

LEVELS = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "nocona", "k8"}


def test_every_cpu_model_with_features_has_a_core() -> None:
    assert CPU_FEATURES.keys() - CORES.keys() == LEVELS
    assert not CORES.keys() - CPU_FEATURES.keys()


@pytest.mark.parametrize("model", CPU_FEATURES)
def test_facts_of_a_target_are_plausible(model: str) -> None:
    triple = " -mtriple=aarch64-linux-gnu" if "neon" in CPU_FEATURES[model] else ""
    target = Target(f"llvm -mcpu={model}{triple or ' -mtriple=x86_64-linux-gnu'}")
    assert 0.5 <= target.fma_units <= 4
    assert 2 <= target.fma_latency <= 6
    assert 16 << 10 <= target.caches.l1 <= target.caches.l2 <= target.caches.l3
    first, second, memory = target.core.fetch_cycles
    assert 0.5 <= first <= second <= memory <= 20


def test_units_are_counted_in_vectors_of_the_target() -> None:
    def facts(text: str) -> tuple[float, int]:
        return Target(text).fma_units, Target(text).fma_latency

    assert facts("llvm -mcpu=znver3") == (2, 4)
    assert facts("llvm -mcpu=znver4") == (1, 4)
    assert facts("llvm -mcpu=znver4 -vector-width=256") == (2, 4)
    assert facts("llvm -mcpu=haswell") == (2, 5)
    assert facts("llvm -mcpu=sandybridge") == (1, 3)
    assert facts("llvm -mcpu=neoverse-v2 -mtriple=aarch64-linux-gnu") == (4, 2)


def test_a_model_without_figures_is_like_most_with_such_vectors() -> None:
    level = Target("llvm -mcpu=x86-64-v3 -mtriple=x86_64-linux-gnu")
    assert (level.fma_units, level.fma_latency, level.core.load_bits) == (2, 4, 256)
    old = Target("llvm -mcpu=x86-64-v2 -mtriple=x86_64-linux-gnu")
    assert (old.fma_units, old.fma_latency, old.core.load_bits) == (1, 3, 128)
