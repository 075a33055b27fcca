"""Reductions get a register tile, by primitives of the trace."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import codegen
import search as ms
from codegen import Target
from schedule import Schedule
from schedule.random_state import RandomState
from search.mutator import MutateRegisterTile, Mutator
from search.postproc import Postproc, RewriteReductionBlock, RewriteRegisterTile
from search.postproc.register_tile import Nests, Operand, choose_tiles
from search.schedule_rule import SampleRegisterTile, ScheduleRule
from search.search_strategy.trace_application import TraceApplication
from tensorir import parse, workloads
from tensorir.function import IRModule
from tensorir.interp import interpret, random_arguments
from tensorir.nodes.stmt import ForKind
from tests.matmul import matmul
from tests.search.programs import Matmul

AVX512 = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")  # 32 registers of 16 floats
AVX2 = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")  # 16 registers of 8 floats


# ------------------------------------------------------------------------------- programs and traces


ROWS = [(8, 1), (4, 2), (2, 4), (1, 8)]
COLUMNS = [(16, 1), (8, 2), (4, 4), (2, 8), (1, 16)]


@settings(max_examples=15, deadline=None)
@given(
    st.permutations(range(6)),
    st.sampled_from(ROWS),
    st.sampled_from(COLUMNS),
    st.sampled_from(ROWS),
    st.booleans(),
    st.sampled_from([AVX512, AVX2]),
)
def test_any_order_of_any_tiles(
    order: list[int],
    rows: tuple[int, int],
    columns: tuple[int, int],
    depth: tuple[int, int],
    vectorize: bool,
    target: Target,
) -> None:
    """Whatever the loops, the result has the same bits and the accumulators fit the registers."""
    func = parse(matmul(8, 16, 8))
    sch = Schedule(func)
    block = sch.get_block("C")
    loops = sch.get_loops(block)
    parts = [
        part
        for loop, factors in zip(loops, (rows, columns, depth), strict=True)
        for part in sch.split(loop, factors)
    ]
    sch.reorder(*(parts[k] for k in order))
    if vectorize and order[-1] < 4:
        sch.vectorize(parts[order[-1]])
    before = sch.mod["main"]
    with target:
        assert RewriteRegisterTile().apply(sch)
    unrolled = math.prod(
        int(sch.get(loop).extent)
        for loop in sch.get_loops(block)
        if sch.get(loop).kind is ForKind.UNROLLED
    )
    assert unrolled < target.vector_registers
    assert RewriteReductionBlock().apply(sch)
    expected = random_arguments(func, 0)
    actual = [a.copy() for a in expected]
    interpret(before, *expected)
    interpret(sch.mod, *actual)
    np.testing.assert_array_equal(actual[2], expected[2])


# ----------------------------------------------------------------------------------------- the choice


IN_FLIGHT = 8
"""Of two units with a latency of four cycles."""
Tile = tuple[tuple[int, ...], tuple[int, ...]]
"""The sides of a tile, and the places of the reduction loops that run around it; none if it stays."""


def nest(
    *extents: int, reduction: int, operands: list[tuple[set[int], int]], pieces: int = 1
) -> Nests:
    """Return a nest of spatial loops, and a reduction inside, or outside if it comes first."""
    spatial = np.array([*extents, 1.0])[:, None]
    steps = np.array([*(1 for _ in extents), float(reduction)])[:, None]
    return Nests(
        spatial,
        steps,
        np.array([*(False for _ in extents), True])[:, None],
        np.array([float(pieces)]),
        tuple(
            Operand(
                np.array([[k in moves] for k in range(len(extents) + 1)]),
                np.array([float(n)]),
                np.array([False]),
            )
            for moves, n in operands
        ),
    )


def choose(nests: Nests, registers: int) -> Tile | None:
    tiles = choose_tiles(nests, np.array([float(registers)]), IN_FLIGHT)
    if not tiles.found[0]:
        return None
    places = () if tiles.stays[0] else tuple(int(k) for k in np.flatnonzero(tiles.run[:, 0]))
    return tuple(int(side) for side in tiles.sides[:, 0]), places


def matmul_nest(rows: int, vectors: int, depth: int) -> Nests:
    """Return the nest of a matmul: rows share B, of which a vector is a register."""
    return nest(rows, vectors, reduction=depth, operands=[({0}, 1), ({1}, 1)])


@pytest.mark.parametrize(
    ("registers", "sides"),
    [(32, (5, 5, 1)), (16, (2, 6, 1))],
)
def test_a_matmul_without_limits(registers: int, sides: tuple[int, ...]) -> None:
    """As square as registers allow, with one to spare: 5 * 5 + 5 + 1 and 2 * 6 + 2 + 1."""
    assert choose(matmul_nest(60, 60, 64), registers) == (sides, (2,))


def test_a_tail_of_one_row_is_a_row_more_of_cost() -> None:
    """13 rows are 6, 6 and 1 in 16 registers; the last costs as many updates as are in flight."""
    tiles = choose_tiles(matmul_nest(13, 2, 64), np.array([16.0]), IN_FLIGHT)
    height = tiles.sides[0, 0]
    parts = 13 / height
    assert tiles.waste[0, 0] >= np.ceil(parts) / parts * 0.8


def test_no_tile_without_loops_to_tile() -> None:
    assert choose(matmul_nest(1, 1, 64), 32) is None


def test_no_tile_fits_vectors_that_fill_all_registers() -> None:
    assert choose(nest(4, reduction=64, operands=[(set(), 32)], pieces=32), 32) is None


EXTENTS = st.integers(1, 12)


@given(EXTENTS, EXTENTS, EXTENTS, st.integers(1, 20), st.integers(1, 3), st.sampled_from([16, 32]))
def test_no_tile_that_divides_the_loops_has_fewer_loads_and_enough_accumulators(
    n: int, h: int, w: int, depth: int, pieces: int, registers: int
) -> None:
    """A convolution: all positions share the weights, the input moves with them."""
    conv = nest(n, h, w, reduction=depth, operands=[({0, 1, 2}, 1), (set(), pieces)], pieces=pieces)
    found = choose_tiles(conv, np.array([float(registers)]), IN_FLIGHT)
    if not found.found[0] or found.stays[0] or found.waste.prod() > 1:
        return
    positions = found.sides.prod()
    ample = [
        sides
        for sides in product(*([d for d in range(1, e + 1) if e % d == 0] for e in (n, h, w)))
        if np.prod(sides) * pieces + pieces + 1 < registers
        and np.prod(sides) * pieces >= 1.25 * IN_FLIGHT
    ]
    # Loads for each update fall with the positions that share the weights.
    assert all(np.prod(sides) <= positions for sides in ample)


# --------------------------------------------------------------------------------------- the search


def task(postprocs: list[Postproc], rules: list[ScheduleRule]) -> ms.TuneContext:
    return ms.TuneContext(
        Matmul,
        target="llvm -num-cores=1",
        space_generator=ms.space_generator.PostOrderApply(
            sch_rules=rules, postprocs=postprocs, mutator_probs={}
        ),
        search_strategy="replay-trace",
        rand_state=1,
    )


def after_enter_postproc(sch: Schedule) -> list[str]:
    names = [inst.kind.name for inst in sch.trace.insts]
    return names[names.index("EnterPostproc") :]


def test_the_size_of_the_tile_can_be_sampled_and_mutated() -> None:
    usual = (r for r in ScheduleRule.create("llvm") if not isinstance(r, SampleRegisterTile))
    rules = [*usual, SampleRegisterTile()]
    context = task(Postproc.create("llvm"), rules)
    trace = context.generate_design_space()[0].trace
    application = TraceApplication(context)
    (sample,) = [
        i for i in trace.insts if i.kind.name == "SampleCategorical" and len(i.values[0]) == 5
    ]
    tiles = {}
    for choice in range(5):
        sch = application.apply(trace.with_decision(sample, choice, remove_postproc=True))
        assert sch is not None
        assert "meta_schedule.register_tile" not in sch.mod.script()
        tiles[choice] = after_enter_postproc(sch).count("Unroll")
    assert tiles[0] == 0
    assert tiles[4] > 0

    mutator: Mutator = MutateRegisterTile()
    mutated = mutator.apply(trace, RandomState(3))
    assert mutated is not None
    assert mutated.decisions[sample] != trace.decisions[sample]
    others = [i for i in trace.decisions if i is not sample]
    assert all(mutated.decisions[i] == trace.decisions[i] for i in others)
    assert mutator.apply(Schedule(Matmul).trace, RandomState(3)) is None


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("T2D", {"ci": 16, "co": 16}),
        ("GMM", {"n": 32, "m": 48, "k": 20}),
    ],
)
def test_operators_compute_the_same_on_the_machine(name: str, changes: dict[str, int]) -> None:
    """Candidates of each workload, with its tails, against the unscheduled program."""
    func = workloads.create(name, **changes)
    context = ms.TuneContext(
        func,
        target="llvm -num-cores=1",
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=4,
    )
    application = TraceApplication(context)
    expected = random_arguments(func, 0)
    codegen.build(IRModule({"main": func}), "llvm -num-cores=1")["main"](*expected)
    for space in context.generate_design_space()[:1]:
        drawn = (application.apply(space.trace, resample=True) for _ in range(16))
        sch = next(sch for sch in drawn if sch is not None)
        actual = random_arguments(func, 0)
        codegen.build(sch.mod, "llvm -num-cores=1")["main"](*actual)
        np.testing.assert_allclose(actual[-1], expected[-1], rtol=1e-4)
