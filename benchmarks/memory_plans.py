"""How close memory plans come to the bytes that are held at once at least.

    python -m benchmarks.memory_plans

Prints for each family of graphs: how many plans, how many of them are as small as the lower bound,
the mean and the worst ratio to it, and the ratio of memory without sharing to the plan.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.random_graphs import random_graph
from tensorir.relax.function import graph_functions
from tensorir.transform import CallTIRRewrite
from tensorir.transform.pack_intervals import Packing, pack
from tensorir.transform.static_plan_block_memory import plan_memory

SIZES = (64, 128, 192, 448, 1024, 3136, 6400, 51200)


def intervals(count: int, seed: int, holds: tuple[int, ...]) -> tuple[Packing[Any], int]:
    """Return the plan of tensors made one after another and used for a while, and their bytes."""
    rng = random.Random(seed)
    sizes = {k: rng.choice(SIZES) for k in range(count)}
    last = [k + rng.choice(holds) for k in range(count)]
    points = range(max(last) + 1)
    held = [[k for k in range(min(p + 1, count)) if last[k] >= p] for p in points]
    return pack(sizes, held), sum(sizes.values())


def graphs(steps: int) -> Iterator[tuple[Packing[Any], int]]:
    """Yield plans of random graphs whose tensors are held for various times."""
    for seed in range(150):
        options = {"library": False, "symbolic": False, "nested": False}
        lowered = CallTIRRewrite()(random_graph(seed, steps, **options).mod)
        for func in graph_functions(lowered).values():
            plan = plan_memory(func, lowered)
            if plan is not None and plan.lower_bound:
                yield plan, 0


def report(name: str, plans: list[tuple[Packing[Any], int]], seconds: float) -> None:
    ratios = [plan.size / plan.lower_bound for plan, _ in plans]
    saved = [total / plan.size for plan, total in plans if total]
    print(
        f"{name:34} {len(plans):4} plans  {sum(r == 1 for r in ratios):4} optimal  "
        f"mean {np.mean(ratios):.3f}  worst {max(ratios):.3f}  "
        + (f"unshared {np.mean(saved):6.1f}x  " if saved else " " * 18)
        + f"{seconds / len(plans) * 1e3:7.2f} ms each"
    )


def main() -> None:
    for steps in (12, 60):
        start = time.perf_counter()
        report(f"random graphs of {steps} calls", list(graphs(steps)), time.perf_counter() - start)
    families = {"chain": (1,), "residual blocks": (1, 1, 1, 2, 3), "long skips": (1, 2, 3, 10, 40)}
    for name, holds in families.items():
        start = time.perf_counter()
        plans = [intervals(300, seed, holds) for seed in range(50)]
        report(f"{name}, 300 tensors", plans, time.perf_counter() - start)


if __name__ == "__main__":
    main()
