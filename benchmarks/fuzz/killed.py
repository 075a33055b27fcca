"""A model's tuning that is killed at random moments, and finished: no trial twice, none lost."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.fuzz.campaign import Fuzzer, Note
from tests.search.models.test_killed_models import (
    assert_nothing_twice_and_nothing_lost,
    kill_after,
)

TRIALS = 20


class KilledSearches(Fuzzer):
    """Searches in a database that are killed up to three times, and then finished."""

    time_limit = 600.0

    def check(self, case: int, note: Note) -> Mapping[str, int]:
        moments = random.Random(case)
        with tempfile.TemporaryDirectory() as folder:
            kills = moments.randint(1, 3)
            for _ in range(kills):
                more, delay = moments.randint(0, 5), moments.uniform(0, 0.5)
                note(f"{kill_after(Path(folder), more, delay, TRIALS)} of {TRIALS} records")
            assert_nothing_twice_and_nothing_lost(Path(folder), TRIALS)
        return {"kills": kills}
