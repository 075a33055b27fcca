"""A model whose tuning is killed at random moments, and then finished: no trial twice, none lost.

python -m benchmarks.killed_models            ten times, of 100 trials
python -m benchmarks.killed_models --kills 3 --trials 20 --seed 5
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from tests.search.models.test_killed_models import (
    assert_nothing_twice_and_nothing_lost,
    kill_after,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    moments = random.Random(options.seed)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.kills):
            more, delay = moments.randint(0, 5), moments.uniform(0, 0.5)
            count = kill_after(Path(folder), more, delay, options.trials)
            print(f"killed for time {number + 1}: {count} of {options.trials} records", flush=True)
        assert_nothing_twice_and_nothing_lost(Path(folder), options.trials)
    print(f"finished: no trial twice, none lost; {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
