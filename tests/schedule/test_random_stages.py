"""Sequences of primitives that stage, lay out and cut anew keep the results, too."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from schedule import Schedule, ScheduleError, Trace
from tensorir import IRModule, assert_structural_equal, parse, verify_well_formed
from tensorir.interp import interpret, random_arguments
from tests.schedule.test_random_walks import PROGRAMS
from tests.schedule.test_random_walks import STEPS as OTHER_STEPS

MAPS = [
    lambda *a: a[::-1],
    lambda *a: (a[0] // 2, *a[1:], a[0] % 2),
    lambda *a: (*a[:-1], a[-1] // 3, a[-1] % 3),
    lambda *a: (sum(x * 7**k for k, x in enumerate(a)),),
    lambda *a: (a[-1], a[0]),
    lambda *a: (a[0],),
]


def transform_intermediate(sch, rng, block):
    """Transform a buffer that no caller sees."""
    allocated = sch.get(sch.get_block("root")).alloc_buffers
    touched = [r.buffer for r in (*sch.get(block).reads, *sch.get(block).writes)]
    own = [k for k, buffer in enumerate(touched) if buffer in allocated]
    pad = rng.choice([None, 0.0, 3])
    if own:
        sch.transform_layout(block, rng.choice(own), rng.choice(MAPS), pad_value=pad)


STEPS = [
    lambda s, r, b, ls, o: s.merge(ls[0], o[0]),
    lambda s, r, b, ls, o: s.merge(r.choice(ls), r.choice(o)),
    lambda s, r, b, ls, o: s.loop_partition(r.choice(ls), [r.choice([1, 2, 3]), None]),
    lambda s, r, b, ls, o: transform_intermediate(s, r, b),
    lambda s, r, b, ls, o: s.transform_block_layout(b, r.choice(MAPS)),
    lambda s, r, b, ls, o: s.reindex(b, r.choice([("read", 0), ("write", 0)])),
    lambda s, r, b, ls, o: s.reindex_cache_read(b, r.randrange(2), "global", r.choice(MAPS)),
    lambda s, r, b, ls, o: s.reindex_cache_write(b, 0, "global", r.choice(MAPS)),
    lambda s, r, b, ls, o: s.cache_inplace(b, r.randrange(2), "local"),
    lambda s, r, b, ls, o: s.cache_index(b, "global", r.randrange(3)),
    lambda s, r, b, ls, o: s.read_at(r.choice(ls), b, r.randrange(2), "local"),
    lambda s, r, b, ls, o: s.write_at(r.choice(ls), b, 0, r.choice(["global", "local"])),
]


def random_step(sch, rng):
    """Apply one random primitive with random operands; nothing where there is no operand."""
    blocks = sch.get_child_blocks(sch.get_block("root"))
    block = rng.choice(blocks)
    loops, other = sch.get_loops(block), sch.get_loops(rng.choice(blocks))
    if not loops or not other or not sch.get(block).reads:
        return
    steps = STEPS if rng.random() < 0.65 else OTHER_STEPS
    rng.choice(steps)(sch, rng, block, loops, other)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", PROGRAMS)
def test_accepted_sequences_keep_the_result(name, seed):
    func = parse(PROGRAMS[name])
    expected = random_arguments(func, seed)
    actual = [a.copy() for a in expected]
    interpret(func, *expected)
    rng = random.Random(f"stages {name}{seed}")
    sch = Schedule(func, seed=seed + 1, error_render_level="fast", debug_mask="all")
    for _ in range(7):
        before = sch.mod["main"]
        try:
            random_step(sch, rng)
        except ScheduleError:
            assert sch.mod["main"] is before
    verify_well_formed(sch.mod)
    interpret(sch.mod, *actual)
    for got, wanted in zip(actual, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)
    replayed = Schedule(IRModule({"main": func}))
    Trace.from_json(json.loads(json.dumps(sch.trace.as_json()))).apply_to_schedule(replayed, False)
    assert_structural_equal(replayed.mod, sch.mod)
    assert_structural_equal(parse(sch.mod.script()), sch.mod)
