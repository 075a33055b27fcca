"""Points of spaces compute what programs do; `benchmarks.fuzz spaces` runs more of them."""

from __future__ import annotations

import pytest

from benchmarks.fuzz.campaign import attempt
from benchmarks.fuzz.spaces import random_case


@pytest.mark.parametrize("family", ["guarded", "grouped", "empty"])
def test_points_compute_what_programs_do(family: str) -> None:
    case = random_case(3, [family])
    outcome, points = attempt(case.check, time_limit=600)
    assert not outcome.what, outcome.detail
    assert points


def test_programs_are_the_same_for_a_seed() -> None:
    for number in range(3):
        first, again = (random_case(number, ["guarded", "grouped", "empty"]) for _ in range(2))
        assert first.func.script() == again.func.script()
