"""How close memory plans come to the bytes that are held at once at least, and what calls hold.

    python -m benchmarks.memory_plans

Prints for each family of graphs: how many plans, how many of them are as small as the lower bound,
the mean and the worst ratio to it, and the ratio of memory without sharing to the plan. Then the
memory of a call of models whose tensors all have the same size, in tensors, and the seconds that
graphs of 1,000 and 3,000 bindings take to be lowered.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import codegen
from benchmarks.graph_calls import chain
from benchmarks.random_graphs import random_graph
from tensorir import IRModule, parse, verify_well_formed
from tensorir.relax.function import graph_functions
from tensorir.transform import CallTIRRewrite, lower_graph
from tensorir.transform.pack_intervals import Packing, pack
from tensorir.transform.static_plan_block_memory import plan_memory
from tensorir.transform.value_memory import find_escapes

SIZES = (64, 128, 192, 448, 1024, 3136, 6400, 51200)
ROWS = 4096


def intervals(count: int, seed: int, holds: tuple[int, ...]) -> tuple[Packing[Any], int]:
    """Return the plan of tensors made one after another and used for a while, and their bytes."""
    rng = random.Random(seed)
    sizes = {k: rng.choice(SIZES) for k in range(count)}
    held = {k: [(k, k + rng.choice(holds))] for k in range(count)}
    return pack(sizes, held), sum(sizes.values())


def graphs(steps: int, *, symbolic: bool) -> Iterator[tuple[Packing[Any], int]]:
    """Yield plans of random graphs whose tensors are held for various times."""
    for seed in range(150):
        options = {"library": False, "symbolic": symbolic, "nested": False}
        lowered = CallTIRRewrite()(random_graph(seed, steps, **options).mod)
        escapes = find_escapes(lowered)
        for func in graph_functions(lowered).values():
            for arena in plan_memory(func, escapes):
                if arena.packing.lower_bound and bool(arena.factors) == symbolic:
                    yield arena.packing, 0


def report(name: str, plans: list[tuple[Packing[Any], int]], seconds: float) -> None:
    ratios = [plan.size / plan.lower_bound for plan, _ in plans]
    saved = [total / plan.size for plan, total in plans if total]
    print(
        f"{name:34} {len(plans):4} plans  {sum(r == 1 for r in ratios):4} optimal  "
        f"mean {np.mean(ratios):.3f}  worst {max(ratios):.3f}  "
        + (f"unshared {np.mean(saved):6.1f}x  " if saved else " " * 18)
        + f"{seconds / len(plans) * 1e3:7.2f} ms each"
    )


def model(body: str) -> IRModule:
    """Return a model of calls of `step`, which adds 1 to `INFO`, a tensor of (n, 256)."""
    mod = parse(f"""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def step(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 256), "float32")
        B = T.match_buffer(b, (n, 256), "float32")
        for i, j in T.grid(n, 256):
            with T.block("step"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + A[vi, 255 - vj]
{body}
""")
    assert isinstance(mod, IRModule)
    return mod


FIXED = f'R.Tensor(({ROWS}, 256), "float32")'


def dynamic_bindings(count: int) -> IRModule:
    """Return a model of so many calls over tensors of symbolic shape."""
    info = 'R.Tensor((n, 256), "float32")'
    lines = [f"        v{k + 1} = R.call_tir(cls.step, (v{k},), {info})" for k in range(count)]
    return model(
        "    @R.function\n"
        '    def main(flag: R.Tensor((), "bool"), v0: R.Tensor(("n", 256), "float32")):\n'
        "        n = T.int64()\n        cls = Module\n"
        + "\n".join(lines)
        + f"\n        return v{count}"
    )


def layers(count: int) -> IRModule:
    """Return a model of so many calls of a graph function."""
    return model(
        f"    @R.function(private=True)\n    def layer(x: {FIXED}) -> {FIXED}:\n"
        "        cls = Module\n"
        f"        y = R.call_tir(cls.step, (x,), {FIXED})\n"
        f"        z = R.call_tir(cls.step, (y,), {FIXED})\n        return z\n"
        "    @R.function\n"
        f'    def main(flag: R.Tensor((), "bool"), v0: {FIXED}):\n        cls = Module\n'
        + "\n".join(f"        v{k + 1} = cls.layer(v{k})" for k in range(count))
        + f"\n        return v{count}"
    )


def branches(count: int) -> IRModule:
    """Return a model of so many `if`s, each of which is a call or two."""
    suites = [
        f"""
        if flag:
            a{k} = R.call_tir(cls.step, (v{k},), {FIXED})
            v{k + 1} = R.call_tir(cls.step, (a{k},), {FIXED})
        else:
            v{k + 1} = R.call_tir(cls.step, (v{k},), {FIXED})"""
        for k in range(count)
    ]
    return model(
        "    @R.function\n"
        f'    def main(flag: R.Tensor((), "bool"), v0: {FIXED}):\n        cls = Module'
        + "".join(suites)
        + f"\n        return v{count}"
    )


def held_by_a_call(mod: IRModule) -> float:
    """Return the memory of a call beside arguments and result, in tensors."""
    x = np.zeros((ROWS, 256), np.float32)
    function = codegen.VirtualMachine(codegen.vm_build(mod, "llvm", default_schedules=False))
    main = function.function("main")
    main(np.bool_(True), x)
    return main.held_bytes() / x.nbytes


def seconds_to_lower(count: int) -> tuple[float, float]:
    """Return the seconds to parse and verify a chain of so many calls, and those to lower it."""
    start = time.perf_counter()
    mod = chain(count)
    verify_well_formed(mod)
    parsed = time.perf_counter()
    lower_graph(mod)
    return parsed - start, time.perf_counter() - parsed


def main() -> None:
    for steps in (12, 60):
        for symbolic in (False, True):
            start = time.perf_counter()
            plans = list(graphs(steps, symbolic=symbolic))
            kind = ", symbolic" if symbolic else ""
            report(f"random graphs of {steps} calls{kind}", plans, time.perf_counter() - start)
    families = {"chain": (1,), "residual blocks": (1, 1, 1, 2, 3), "long skips": (1, 2, 3, 10, 40)}
    for name, holds in families.items():
        start = time.perf_counter()
        plans = [intervals(300, seed, holds) for seed in range(50)]
        report(f"{name}, 300 tensors", plans, time.perf_counter() - start)
    for name, held in {"chain": (1,), "all at once": (3000,)}.items():
        start = time.perf_counter()
        report(f"{name}, 3000 tensors", [intervals(3000, 0, held)], time.perf_counter() - start)
    print()
    for name, mod in {
        "100 calls over symbolic shapes": dynamic_bindings(100),
        "50 calls of a layer of 2 calls": layers(50),
        "20 branches": branches(20),
    }.items():
        print(f"{name:34} {held_by_a_call(mod):5.2f} tensors")
    for count in (1000, 3000):
        parsed, lowered = seconds_to_lower(count)
        print(f"{count} bindings: parsed and verified {parsed:.2f} s, lowered {lowered:.2f} s")


if __name__ == "__main__":
    main()
