"""Random tiles that do not divide what they cover.

Random primitives one after another seldom make what a search makes of a loop nest: loops of several
levels, the reduction, then unrolled rows and lanes, the initialisation apart, the result through a
buffer of the tile. That is what is made here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from tensorir import PrimFunc
from tensorir.nodes.expr import IterVar

Result = TypeVar("Result")
FACTORS = (2, 3, 3, 4, 4, 5, 7, 8, 16)


def tiled(func: PrimFunc, rng: random.Random) -> PrimFunc:
    """Return a program in which one or several blocks have random tiles."""
    sch = Schedule(func, seed=rng.randrange(1 << 30))
    blocks = sch.get_child_blocks(sch.get_block("root"))
    for block in rng.sample(blocks, rng.randint(1, len(blocks))):
        _tile(sch, block, rng)
    after = sch.mod["main"]
    assert isinstance(after, PrimFunc)
    return after


def _tile(sch: Schedule, block: BlockRV, rng: random.Random) -> None:
    loops, axes = sch.get_loops(block), sch.get(block).iter_vars
    spatial = [k for k, axis in enumerate(axes) if axis.iter_type != IterVar.COMM_REDUCE]
    if len(axes) != len(loops) or not spatial:
        return
    written = None
    if rng.random() < 0.3:
        written = _attempt(lambda: sch.cache_write(block, 0, "local"))
    outer: list[LoopRV] = []
    steps: list[LoopRV] = []
    tile: list[LoopRV] = []
    for k, loop in enumerate(loops):
        if k not in spatial:
            steps += _parts(sch, loop, rng.choice([0, 0, 1]), rng)
        elif k == spatial[-1]:
            levels = rng.choice([1, 2, 2, 3])
            parts = _parts(sch, loop, levels, rng)
            inside = 1 if levels == 1 else 2
            outer += parts[:-inside]
            lanes = parts[-1]
            tile += parts[-inside:-1]
        else:
            parts = _parts(sch, loop, rng.choice([0, 1, 1, 2]), rng)
            outer += parts[:-1] or parts
            tile += parts[-1:] if len(parts) > 1 else []
    _attempt(lambda: sch.reorder(*outer, *steps, *tile, lanes))
    for loop in [*tile, *steps[1:]]:
        if loop in tile or rng.random() < 0.3:
            _attempt(lambda loop=loop: sch.unroll(loop))
    _attempt(lambda: sch.vectorize(lanes))
    if written is not None:
        _attempt(lambda: sch.reverse_compute_at(written, rng.choice(outer)))
    if steps and rng.random() < 0.7:
        _attempt(lambda: sch.decompose_reduction(block, steps[0]))
    if len(outer) > 1 and rng.random() < 0.3:
        fused = _attempt(lambda: sch.fuse(*outer[:2]))
        outer = [fused] if fused is not None else outer
    if rng.random() < 0.3:
        _attempt(lambda: sch.parallel(outer[0]))


def _parts(sch: Schedule, loop: LoopRV, levels: int, rng: random.Random) -> list[LoopRV]:
    """Split a loop by random factors, most of which divide nothing."""
    return list(sch.split(loop, [None, *rng.choices(FACTORS, k=levels)])) if levels else [loop]


def _attempt(call: Callable[[], Result]) -> Result | None:
    """Return what a primitive gives, None if it is refused."""
    try:
        return call()
    except ScheduleError:
        return None
