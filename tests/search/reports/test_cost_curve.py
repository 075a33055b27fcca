"""The fraction of the variance of times that the values of a column explain."""

import numpy as np
import pytest

from search.reports.cost_curve import cost_curve


def times(rng: np.random.Generator, values: list[int], effect: float) -> list[tuple[int, float]]:
    """Return (value, seconds): log-normal noise, and a factor of exp(effect) between two values."""
    return [(v, 1e-6 * float(np.exp(effect * v + 0.3 * rng.standard_normal()))) for v in values]


def test_few_trials_explain_nothing() -> None:
    rng = np.random.default_rng(0)
    curve = cost_curve("tile", times(rng, [0, 1] * 7, 5.0))
    assert curve.explained is None
    assert curve.cells() == ("tile", "2", "too few trials", "", "", "")


def test_a_column_of_many_values_needs_more_trials() -> None:
    rng = np.random.default_rng(0)
    assert cost_curve("tile", times(rng, list(range(8)) * 3, 0.0)).explained is None
    assert cost_curve("tile", times(rng, list(range(8)) * 4, 0.0)).explained is not None


def test_chance_rarely_matters() -> None:
    """At most two of 22 irrelevant decisions seem relevant in 16 trials."""
    rng = np.random.default_rng(1)
    curves = [
        cost_curve("tile", times(rng, rng.permutation([0, 1] * 8).tolist(), 0.0)) for _ in range(22)
    ]
    assert sum(curve.matters for curve in curves) <= 2


@pytest.mark.parametrize("effect", [1.0, 3.0])
def test_the_interval_has_the_share_of_the_population(effect: float) -> None:
    variance = effect**2 / 4
    share = variance / (variance + 0.09)
    rng = np.random.default_rng(2)
    curve = cost_curve("tile", times(rng, [0, 1] * 40, effect))
    assert curve.explained is not None
    assert curve.matters
    assert curve.explained.low <= share <= curve.explained.high
    assert curve.explained.low <= curve.explained.share <= curve.explained.high
