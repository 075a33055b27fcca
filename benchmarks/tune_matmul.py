"""Auto-tune the 128x128x128 matmul of the README and say what came of it: `make tune`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import search as ms
from benchmarks.matmul import TARGET, MyModule, speed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--work-dir", type=Path, default=Path("tune_tmp"))
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()

    start = time.monotonic()
    best = ms.tune_tir(
        mod=MyModule,
        target=TARGET,
        config=ms.TuneConfig(max_trials_global=options.trials, num_trials_per_iter=64),
        work_dir=options.work_dir,
        task_name="main",
        seed=options.seed,
    )
    if best is None:
        raise SystemExit(f"no trial succeeded; the logs are in {options.work_dir / 'logs'}")
    took = time.monotonic() - start
    trace = options.work_dir / "best_trace.json"
    best.trace.save(trace)
    before, after = speed(MyModule), speed(best.mod)
    print(f"before:   {before}")
    print(f"after:    {after}")
    print(f"speed-up: {before.seconds / after.seconds:.1f}x, after {took:.1f} s of tuning")
    print(f"trace:    {trace}")


if __name__ == "__main__":
    main()
