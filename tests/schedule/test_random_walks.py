"""Whatever sequence of primitives a program accepts, its results stay the same."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import codegen
from schedule import Schedule, ScheduleError, Trace
from tensorir import IRModule, assert_structural_equal, parse, verify_well_formed
from tensorir.interp import interpret, random_arguments

HEADER = "@T.prim_func\ndef main({}):\n"

PROGRAMS = {
    "matmul": HEADER.format(
        'A: T.Buffer((6, 8), "float32"), B: T.Buffer((8, 7), "float32"), C: T.Buffer((6, 7), "float32")'
    )
    + """
    for i, j, k in T.grid(6, 7, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] += A[vi, vk] * B[vk, vj]
""",
    "chain": HEADER.format('A: T.Buffer((8, 6), "float32"), D: T.Buffer((8, 6), "float32")')
    + """
    B = T.alloc_buffer((8, 6))
    C = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * B[vi, vj]
""",
    "stencil": HEADER.format('A: T.Buffer((13,), "float32"), C: T.Buffer((11,), "float32")')
    + """
    B = T.alloc_buffer((13,))
    for i in T.grid(13):
        with T.block("B"):
            vi = T.axis.spatial(13, i)
            B[vi] = A[vi] + T.float32(3)
    for i in T.grid(11):
        with T.block("C"):
            vi = T.axis.spatial(11, i)
            C[vi] = B[vi] + B[vi + 1] * B[vi + 2]
""",
    "matmul_relu": HEADER.format(
        'A: T.Buffer((5, 4), "float32"), B: T.Buffer((4, 6), "float32"), D: T.Buffer((5, 6), "float32")'
    )
    + """
    C = T.alloc_buffer((5, 6))
    for i, j, k in T.grid(5, 6, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] += A[vi, vk] * B[vk, vj]
    for i, j in T.grid(5, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj] - T.float32(8), T.float32(0))
""",
    "padded": HEADER.format('A: T.Buffer((7,), "float32"), C: T.Buffer((9,), "float32")')
    + """
    P = T.alloc_buffer((11,))
    for i in T.grid(11):
        with T.block("P"):
            vi = T.axis.spatial(11, i)
            P[vi] = T.if_then_else(2 <= vi and vi < 9, A[vi - 2], T.float32(0))
    for i, k in T.grid(9, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0.0
            C[vi] += P[vi + vk]
""",
    "transpose": HEADER.format('A: T.Buffer((4, 6), "int32"), C: T.Buffer((6, 4), "int32")')
    + """
    B = T.alloc_buffer((6, 4), "int32")
    for i, j in T.grid(6, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] * 3
    for i, j in T.grid(6, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + vi
""",
    "row_max": HEADER.format('A: T.Buffer((6, 9), "float32"), E: T.Buffer((6, 9), "float32")')
    + """
    M = T.alloc_buffer((6,))
    for i, k in T.grid(6, 9):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.min_value("float32")
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, j in T.grid(6, 9):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = A[vi, vj] - M[vi]
""",
    "flattened": HEADER.format('A: T.Buffer((24,), "float32"), C: T.Buffer((4, 6), "float32")')
    + """
    B = T.alloc_buffer((24,))
    for i in T.grid(24):
        with T.block("B"):
            vi = T.axis.spatial(24, i)
            B[vi] = A[vi] + T.float32(1)
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi * 6 + vj]
""",
}


def random_step(sch, rng):
    """Apply one random primitive with random operands."""
    root = sch.get_block("root")
    blocks = sch.get_child_blocks(root)
    block = rng.choice(blocks)
    loops = sch.get_loops(block)
    other = sch.get_loops(rng.choice(blocks))
    step = rng.choice(STEPS)
    step(sch, rng, block, loops, other)


STEPS = [
    lambda s, r, b, ls, o: s.split(r.choice(ls), [None, r.choice([2, 3, 4])]),
    lambda s, r, b, ls, o: s.split(r.choice(ls), s.sample_perfect_tile(r.choice(ls), 2)),
    lambda s, r, b, ls, o: s.fuse(*ls[r.randrange(len(ls)) :][:2]),
    lambda s, r, b, ls, o: s.reorder(*r.sample(ls, len(ls))),
    lambda s, r, b, ls, o: s.parallel(r.choice(ls)),
    lambda s, r, b, ls, o: s.vectorize(r.choice(ls)),
    lambda s, r, b, ls, o: s.unroll(r.choice(ls)),
    lambda s, r, b, ls, o: s.annotate(r.choice(ls), "note", r.randrange(5)),
    lambda s, r, b, ls, o: s.add_unit_loop(r.choice(ls)),
    lambda s, r, b, ls, o: s.cache_read(b, r.randrange(2), r.choice(["global", "local"])),
    lambda s, r, b, ls, o: s.cache_write(b, 0, "global"),
    lambda s, r, b, ls, o: s.compute_at(b, r.choice(o), r.random() < 0.5),
    lambda s, r, b, ls, o: s.reverse_compute_at(b, r.choice(o), r.random() < 0.5),
    lambda s, r, b, ls, o: s.compute_inline(b),
    lambda s, r, b, ls, o: s.reverse_compute_inline(b),
    lambda s, r, b, ls, o: s.decompose_reduction(b, r.choice(ls)),
    lambda s, r, b, ls, o: s.compute_at(b, s.sample_compute_location(b)),
]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", PROGRAMS)
def test_accepted_sequences_keep_the_result(name, seed):
    func = parse(PROGRAMS[name])
    expected = random_arguments(func, seed)
    actual = [a.copy() for a in expected]
    compiled = [a.copy() for a in expected]
    interpret(func, *expected)
    rng = random.Random(f"{name}{seed}")
    sch = Schedule(func, seed=seed + 1, error_render_level="fast", debug_mask=1)
    for _ in range(8):
        before = sch.mod["main"]
        length = len(sch.trace.insts)
        try:
            random_step(sch, rng)
        except (ScheduleError, IndexError) as error:
            if isinstance(error, IndexError) and not isinstance(error, ScheduleError):
                continue
            assert sch.mod["main"] is before
            sch.trace.truncate(max(length, 0))
    verify_well_formed(sch.mod)
    interpret(sch.mod, *actual)
    codegen.build(sch.mod, "llvm -num-cores=2")["main"](*compiled)
    for got, machine, wanted in zip(actual, compiled, expected, strict=True):
        # Sums may be taken in another order, and multiplications and additions fused.
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(machine, wanted, rtol=1e-5, atol=1e-5)
    replayed = Schedule(IRModule({"main": func}))
    Trace.from_json(json.loads(json.dumps(sch.trace.as_json()))).apply_to_schedule(replayed, False)
    assert_structural_equal(replayed.mod, sch.mod)
    assert_structural_equal(parse(sch.mod.script()), sch.mod)
