"""Features of points without replaying them: the same as of the replayed programs."""

from __future__ import annotations

import numpy as np
import pytest

from schedule import Schedule
from schedule.random_state import RandomState
from search import TuneContext
from search.context import design_spaces
from search.feature_extractor import FeatureExtractor, NestFeature, PackedFeatures
from search.feature_extractor.compiled_space import CompiledSpace
from search.runner.measure_candidate import MeasureCandidate
from search.space_generator.design_space import Decisions, DesignSpace
from search.space_generator.space_generator import SpaceArg
from tensorir import parse, workloads
from tensorir.function import IRModule, PrimFunc
from tests.search.programs import MATMUL_TEXT as MATMUL

TARGET = "llvm -mcpu=haswell -num-cores=4"
POINTS = 20

# The windows of neighbouring tiles overlap: what is padded for a tile is 2 * (h - 1) + r long.
CONV = """
@T.prim_func
def main(A: T.Buffer((32, 8), "float32"), W: T.Buffer((3, 8, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    P = T.alloc_buffer((34, 8), "float32")
    for i, c in T.grid(34, 8):
        with T.block("pad"):
            vi, vc = T.axis.remap("SS", [i, c])
            P[vi, vc] = T.if_then_else(1 <= vi and vi < 33, A[vi - 1, vc], T.float32(0))
    for h, o, r, c in T.grid(16, 16, 3, 8):
        with T.block("conv"):
            vh, vo, vr, vc = T.axis.remap("SSRR", [h, o, r, c])
            with T.init():
                C[vh, vo] = T.float32(0)
            C[vh, vo] = C[vh, vo] + P[vh * 2 + vr, vc] * W[vr, vc, vo]
"""


def module(text: str) -> IRModule:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return IRModule({"main": func})


# The weights are packed: blocks of 16 columns by 4 rows, column by column.
BYTES = """
@T.prim_func
def main(A: T.Buffer((32, 64), "uint8"), B: T.Buffer((4, 16, 16, 4), "int8"), C: T.Buffer((32, 64), "int32")):
    for i, j, k in T.grid(32, 64, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vj // 16, vk // 4, vj % 16, vk % 4])
"""


class Programs(FeatureExtractor):
    """An extractor that looks at programs only."""

    def extract_from(self, context, candidates):
        return [np.zeros((1, 1)) for _ in candidates]


def drawn(space: DesignSpace, count: int = POINTS) -> list[Decisions]:
    rng = RandomState(3)
    return [space.sample(rng) for _ in range(count)]


def replayed(context: TuneContext, space: DesignSpace, point: Decisions) -> MeasureCandidate:
    assert context.mod is not None
    sch = Schedule(context.mod, seed=1)
    space.trace_of(point).apply_to_schedule(sch, remove_postproc=True)
    sch.enter_postproc()
    return MeasureCandidate(sch, [])


def compiled(extractor: NestFeature, context: TuneContext, space: DesignSpace) -> PackedFeatures:
    # Expressions are looked for where more than a few points are asked for.
    assert extractor.extract_points(context, space, drawn(space, 4000)) is not None
    packed = extractor.extract_points(context, space, drawn(space))
    assert packed is not None
    assert packed.rows.shape[1] == len(extractor.names)
    # Places of blocks that are rare are left out.
    assert len(packed.owner) >= (POINTS if len(space.knobs) < 8 else POINTS // 2)
    return packed


@pytest.mark.parametrize("program", [MATMUL, CONV], ids=["matmul", "padded convolution"])
def test_points_have_the_features_of_their_programs(program):
    agrees(module(program), TARGET)


def test_points_of_spaces_for_intrinsics():
    # Tiles of 16 outputs and 4 inputs are to become VNNI instructions.
    agrees(module(BYTES), "llvm -mcpu=cascadelake -num-cores=4")


def knobs(sch: Schedule) -> None:
    """Decide sizes, of which the first is open, and structure: an order and what is a vector."""
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, sch.sample_knob_split("i", 32, 2, candidates=[[-1, 2], [-1, 4], [-1, 8]]))
    j0, j1 = sch.split(j, sch.sample_knob_split("j", 32, 2, candidates=[[-1, 4], [-1, 8]]))
    sch.reorder(i0, j0, k, i1, j1)
    sch.reorder_by([k, i1], sch.sample_knob_reorder("order", 2))
    sch.mark_loops([j1], sch.sample_knob_annotate("vector", 1, "try_vec"))
    sch.annotate(i0, "pragma_auto_unroll_max_step", sch.sample_knob_option("unroll", [0, 16]))


def test_points_of_a_template():
    agrees(module(MATMUL), TARGET, knobs)


def agrees(mod: IRModule, target: str, generator: SpaceArg = "post-order-apply") -> None:
    context = TuneContext(mod, target=target, space_generator=generator)
    extractor = NestFeature()
    # The other spaces differ in the place of the write cache only.
    for space in design_spaces(mod, target, generator)[:1]:
        packed = compiled(extractor, context, space)
        points = drawn(space)
        for owner, row in zip(packed.owner, packed.rows, strict=True):
            candidate = replayed(context, space, points[owner])
            (rows,) = extractor.extract_from(context, [candidate])
            np.testing.assert_allclose(row, rows[0], rtol=1e-5, atol=1e-5)


def test_no_points():
    mod = module(MATMUL)
    packed = NestFeature().extract_points(
        TuneContext(mod, target=TARGET), design_spaces(mod, TARGET)[0], []
    )
    assert packed is not None
    assert (packed.count, packed.rows.shape[0]) == (0, 0)


@pytest.mark.parametrize("size", [13, 32])
def test_few_points_are_replayed(size):
    """Of a loop with 13 iterations only one part has several: 16 pairs of parts of two loops."""
    mod = workloads.create("GMM", n=size, m=size, k=size)
    space = design_spaces(mod, TARGET)[0]
    compiled_space = CompiledSpace(space, IRModule({"main": mod}))
    ((_, numbers, members),) = compiled_space.numbers(drawn(space, 2000))
    assert numbers.shape[1] == len(members) == 2000
    assert compiled_space.replays <= 10


def test_places_are_repaired_as_in_a_replay():
    # Below a reduction loop that runs, a block cannot be computed at a spatial loop.
    mod = module(CONV)
    space = design_spaces(mod, TARGET)[0]
    context = TuneContext(mod, target=TARGET, space_generator="post-order-apply")
    moved = 0
    for point in drawn(space, 60):
        made = space.decisions_of(replayed(context, space, point).sch.trace)
        moved += made != point
    assert moved > 5
    extractor = NestFeature()
    compiled(extractor, context, space)
    for point in drawn(space):
        assert extractor.check(context, space, point, replayed(context, space, point))


def test_a_form_that_was_wrong_is_withdrawn():
    mod = module(MATMUL)
    context = TuneContext(mod, target=TARGET, space_generator="post-order-apply")
    space = design_spaces(mod, TARGET)[0]
    extractor = NestFeature()
    compiled(extractor, context, space)
    point, other = drawn(space, 2)
    assert extractor.check(context, space, point, replayed(context, space, point))
    assert not extractor.check(context, space, point, replayed(context, space, other))
    packed = extractor.extract_points(context, space, drawn(space, 1000))
    assert packed is not None
    assert not len(packed.owner), "such points have to be replayed"


def test_an_extractor_of_programs_has_no_points():
    mod = module(MATMUL)
    context = TuneContext(mod, target=TARGET, space_generator="post-order-apply")
    space = design_spaces(mod, TARGET)[0]
    extractor = Programs()
    assert extractor.extract_points(context, space, drawn(space)) is None
    assert extractor.check(context, space, space.decisions, MeasureCandidate(Schedule(mod), []))
