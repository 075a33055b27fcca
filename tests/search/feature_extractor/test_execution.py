"""What features say postprocessing makes of loops, against what it makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from codegen import Target
from schedule import Schedule
from schedule.random_state import RandomState
from search import TuneContext
from search.context import design_spaces
from search.feature_extractor.execution import execution
from search.feature_extractor.nests import FIRST_EXTENT, nests
from search.feature_extractor.read_nests import read_nests
from search.postproc import RewriteParallelVectorizeUnroll
from tensorir import parse
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.stmt import ForKind
from tests.search.programs import MATMUL_TEXT as MATMUL

POINTS = 4

GROUPED = """
@T.prim_func
def main(A: T.Buffer((36, 16), "float32"), W: T.Buffer((3, 4, 32), "float32"), C: T.Buffer((34, 32), "float32")):
    for h, o, r, c in T.grid(34, 32, 3, 4):
        with T.block("conv"):
            vh, vo, vr, vc = T.axis.remap("SSRR", [h, o, r, c])
            with T.init():
                C[vh, vo] = T.float32(0)
            C[vh, vo] = C[vh, vo] + A[vh + vr, vo // 8 * 4 + vc] * W[vr, vc, vo]
"""

ARGMAX = """
@T.prim_func
def main(A: T.Buffer((8, 64), "float32"), P: T.Buffer((8,), "int32"), Q: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 64):
        with T.block("at"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                P[vi] = -1
                Q[vi] = T.min_value("float32")
            p: T.int32 = T.Select(Q[vi] >= A[vi, vk], P[vi], vk)
            q: T.float32 = T.max(Q[vi], A[vi, vk])
            P[vi] = p
            Q[vi] = q
"""


@pytest.mark.parametrize("target", ["haswell", "skylake-avx512"])
@pytest.mark.parametrize(
    "program", [MATMUL, GROUPED, ARGMAX], ids=["matmul", "grouped convolution", "argmax"]
)
def test_vectors_tiles_and_parallel_loops_are_those_of_the_postprocessors(program, target):
    func = parse(program)
    assert isinstance(func, PrimFunc)
    target = Target(f"llvm -mcpu={target} -num-cores=4")
    context = TuneContext(
        IRModule({"main": func}), target=target, space_generator="post-order-apply", rand_state=1
    )
    for postproc in context.space_generator.postprocs:
        if isinstance(postproc, RewriteParallelVectorizeUnroll):
            postproc.one_core = 0  # features do not say that less work is not shared
    for space in design_spaces(func, target):
        rng = RandomState(5)
        for _ in range(POINTS):
            sch = Schedule(context.mod, seed=1)
            knobs = zip(space.knobs, space.decisions, strict=True)
            point = tuple(s.domain.sample(rng) if s.is_sampling else own for s, own in knobs)
            space.trace_of(point).apply_to_schedule(sch, remove_postproc=True)
            expected = told(sch, target)
            sch.enter_postproc()
            assert all(postproc.apply(sch) for postproc in context.space_generator.postprocs)
            vector, unrolled, parallel = made(sch)
            assert (unrolled, parallel) == expected[1:], sch.trace
            # Vectors that the compiler makes by itself are not in the program.
            assert vector in (expected[0], 1), sch.trace


def told(sch: Schedule, target: Target) -> tuple[float, ...]:
    """Return lanes, iterations written out and parallel ones of the first update, by features."""
    program, numbers = read_nests(sch.mod)
    nest, *_ = [n for n in nests(program, numbers[:, None]) if n.store.updates]
    how = execution(nest, target.vector_bits, target.vector_registers, target.updates_in_flight)
    return (how.vector[0], how.tile[0], how.parallel[0])


def made(sch: Schedule) -> tuple[float, ...]:
    """Return the same of a postprocessed program."""
    program, numbers = read_nests(sch.mod)
    store, *_ = [store for store in program.stores if store.updates]
    kinds = (ForKind.VECTORIZED, ForKind.UNROLLED, ForKind.PARALLEL)
    return tuple(
        float(np.prod([numbers[FIRST_EXTENT + k] for k in store.loops if program.kinds[k] is kind]))
        for kind in kinds
    )
