"""Points of spaces compute what programs do; `benchmarks.fuzz_spaces` runs more of them."""

from __future__ import annotations

import pytest

from benchmarks.fuzz_spaces import failure_of, random_case


@pytest.mark.parametrize("family", ["guarded", "grouped", "empty"])
@pytest.mark.parametrize("number", [1, 2])
def test_points_compute_what_programs_do(family: str, number: int) -> None:
    counts, wrong = failure_of(random_case(3, number, [family]))
    assert not wrong
    assert counts["points"]


def test_programs_are_the_same_for_a_seed() -> None:
    for number in range(10):
        first, again = (random_case(5, number, ["guarded", "grouped", "empty"]) for _ in range(2))
        assert first.func.script() == again.func.script()
