"""A campaign counts random cases, finds those that fail or die, and is the same for a seed."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from benchmarks.fuzz.campaign import Campaign, Failure, Fuzzer, Note, shortest


class Faulty(Fuzzer):
    """Fails for one case of three, and dies for another one."""

    batch = 3

    def check(self, case: int, note: Note) -> Mapping[str, int]:
        note(f"case {case}")
        if case % 3 == 1:
            raise Failure("one too many", f"{case} of 3")
        if case % 3 == 2:
            os._exit(7)
        return {"even": case % 2 == 0}


def test_failures_and_deaths_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    campaign = Campaign(Faulty())
    campaign.run_cases([0, 3, 6, 4, 5])
    assert campaign.counts == {"cases": 5, "even": 2}
    assert campaign.failures == {"one too many": 1, "the process dies": 1}
    out = capsys.readouterr().out
    assert "# --case 4: one too many\n#   4 of 3\ncase 4\n" in out
    assert "# --case 5: the process dies\n#   exit code 7\ncase 5\n" in out
    assert campaign.summary().startswith("5 cases, 2 even; 2 failures of 2 kinds")


def test_a_seed_gives_the_same_cases(capsys: pytest.CaptureFixture[str]) -> None:
    class Numbers(Fuzzer):
        def check(self, case: int, note: Note) -> Mapping[str, int]:
            raise Failure(f"number {case}", "")

    def first(seed: int) -> str:
        campaign = Campaign(Numbers())
        campaign.run(seed, 0.05)
        return next(iter(campaign.failures))

    assert first(1) == first(1) != first(2)


def test_as_few_items_as_fail_are_kept() -> None:
    assert shortest(range(20), lambda tried: {3, 11} <= set(tried)) == [3, 11]
    assert shortest([1], lambda tried: True) == [1]
