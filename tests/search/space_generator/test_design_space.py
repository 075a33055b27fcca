"""A design space is a set of points: listed, printed, drawn, stepped through, crossed."""

from __future__ import annotations

import functools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import search as ms
from schedule import Schedule, Trace, primitive
from schedule.decisions.domain import ChoiceDomain, UnionDomain
from schedule.instruction import LoopArg, Number, Sampled
from schedule.random_state import RandomState
from schedule.state import ScheduleState
from search.space_generator.knobs import LOCATION, TILE
from tensorir import parse, workloads
from tensorir.function import IRModule, PrimFunc
from tests.search.mutator.test_mutators import padded_sum
from tests.search.programs import Matmul

TARGET = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=4"
MATMUL = """\
design space #0: 6 decisions, 1.2e+6 points
  tile of loop 0 of C      v5, v6, v7, v8      56: 32 in 4 parts, the last at most 64
  tile of loop 1 of C      v13, v14, v15, v16  56: 32 in 4 parts, the last at most 64
  tile of loop 2 of C      v21, v22             6: 32 in 2 parts, the last at most 512
  unroll_explicit of root  v25                  4: 0, 16, 64, 512
  register_tile of root    v26                  2: 16, 12
  parallel of root                              8: 0, 1, 2, 4, 8, 16, 32, 64"""
CONV2D = """\
design space #0: 11 decisions, 1.4e+10 points
  tile of loop 0 of conv2d_nhwc  v10, v11, v12, v13    1: 1 in 4 parts, the last at most 64
  tile of loop 1 of conv2d_nhwc  v18, v19, v20, v21  139: 112 in 4 parts, the last at most 64
  tile of loop 2 of conv2d_nhwc  v26, v27, v28, v29  139: 112 in 4 parts, the last at most 64
  tile of loop 3 of conv2d_nhwc  v34, v35, v36, v37   84: 64 in 4 parts, the last at most 64
  tile of loop 4 of conv2d_nhwc  v42, v43              2: 7 in 2 parts, the last at most 512
  tile of loop 5 of conv2d_nhwc  v46, v47              2: 7 in 2 parts, the last at most 512
  tile of loop 6 of conv2d_nhwc  v50, v51              2: 3 in 2 parts, the last at most 512
  unroll_explicit of root        v54                   4: 0, 16, 64, 512
  register_tile of root          v55                   2: 16, 12
  location of PadInput           l56                  17: inline, root, loops 1 to 3, 5 to 10, 12 to 17
  parallel of root                                     8: 0, 1, 2, 4, 8, 16, 32, 64"""


@functools.cache
def spaces_of(program: str) -> list[ms.DesignSpace]:
    mod = {"matmul": Matmul, "padded sum": padded_sum(), "conv2d": workloads.create("C2D")}
    return ms.design_spaces(mod[program], TARGET)


def test_a_space_prints():
    assert str(spaces_of("matmul")[0]) == MATMUL
    assert str(spaces_of("conv2d")[0]) == CONV2D


def test_a_space_prints_in_a_notebook():
    html = spaces_of("matmul")[0]._repr_html_()
    assert html.startswith("<p>design space #0: 6 decisions, 1.2e+6 points</p><table>")
    assert "<tr><td>tile of loop 0 of C</td><td>v5, v6, v7, v8</td><td>56</td>" in html
    assert html.count("<tr>") == 7


def test_the_sites_say_what_they_are_for():
    space = spaces_of("padded sum")[0]
    assert [knob.purpose for knob in space.knobs] == [
        TILE,
        TILE,
        TILE,
        "meta_schedule.unroll_explicit",
        "meta_schedule.register_tile",
        LOCATION,
        "meta_schedule.parallel",
    ]
    assert [knob.is_sampling for knob in space.knobs] == [True] * 6 + [False]


spaces = st.tuples(st.sampled_from(["matmul", "padded sum"]), st.integers(0, 2)).map(
    lambda key: spaces_of(key[0])[key[1]]
)
seeds = st.integers(1, 10_000)


@given(spaces, seeds)
@settings(max_examples=40)
def test_points_and_traces_are_the_same_thing(space, seed):
    rng = RandomState(seed)
    point = space.sample(rng)
    assert space.decisions_of(space.trace_of(point)) == point
    stored = Trace.from_json(json.loads(json.dumps(space.trace_of(point).as_json())))
    assert space.decisions_of(stored) == point
    child = space.neighbour(point, rng)
    assert child is not None
    assert sum(a != b for a, b in zip(point, child, strict=True)) == 1
    assert space.decisions_of(space.trace_of(child)) == child
    for knob, decision in zip(space.knobs, child, strict=True):
        assert knob.domain is not None
        assert decision in knob.domain


@given(spaces, seeds)
@settings(max_examples=40)
def test_children_have_each_decision_from_a_parent(space, seed):
    rng = RandomState(seed)
    a, b = space.sample(rng), space.sample(rng)
    child = space.crossover(a, b, rng)
    assert all(c in (x, y) for c, x, y in zip(child, a, b, strict=True))
    assert space.crossover(a, a, rng) == a


@pytest.mark.parametrize("index", [0, 1, 2])
def test_replayed_points_are_points(index):
    """Replay repairs what does not fit, and what it records is a point of the same space."""
    space = spaces_of("padded sum")[index]
    rng = RandomState(index + 1)
    for _ in range(5):
        point = space.sample(rng)
        sch = Schedule(padded_sum(), seed=1)
        space.trace_of(point).apply_to_schedule(sch, remove_postproc=True)
        sch.enter_postproc()
        sch.get_block("C")
        replayed = space.decisions_of(sch.trace)
        assert replayed is not None
        differing = [s.purpose for s, a, b in zip(space.knobs, point, replayed) if a != b]  # noqa: B905
        assert set(differing) <= {LOCATION}
        again = Schedule(padded_sum(), seed=2)
        space.trace_of(replayed).apply_to_schedule(again, remove_postproc=True)
        assert space.decisions_of(again.trace) == replayed


def test_a_trace_of_another_space_is_no_point():
    first, second = spaces_of("matmul")[:2]
    assert first.decisions_of(second.trace) is None
    assert first.decisions_of(Trace()) is None


def test_a_trace_with_another_constant_is_no_point():
    space = spaces_of("matmul")[0]
    stored = json.dumps(space.trace.as_json())
    assert '"meta_schedule.vectorize"' in stored.replace("\\", "")
    other = Trace.from_json(json.loads(stored.replace("SSRSRS", "SSRSR")))
    assert space.decisions_of(other) is None


def test_the_parallel_extent_is_a_decision():
    space = spaces_of("matmul")[0]
    point = (*space.decisions[:-1], 8)
    trace = space.trace_of(point)
    (line,) = [x for x in trace.as_python() if "meta_schedule.parallel" in x]
    assert line.endswith("ann_val=8)")
    assert space.decisions_of(trace) == point
    assert space.decisions[-1] == 64


NEST = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.block("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] + T.float32(1)
"""


def nest() -> PrimFunc:
    func = parse(NEST)
    assert isinstance(func, PrimFunc)
    return func


def split_twice(sch: Schedule) -> None:
    """The second tile is one of what the first decides."""
    (i,) = sch.get_loops(sch.get_block("B"))
    _, inner = sch.split(i, sch.sample_perfect_tile(i, 2, -1, decision=[8, 8]))
    sch.split(inner, sch.sample_perfect_tile(inner, 2, -1))


def test_alternatives_that_vary_with_earlier_decisions():
    (alone,) = [ms.DesignSpace.of(s) for s in generated(split_twice)]
    assert str(alone.knobs[1].domain) == "8 in 2 parts"
    (space,) = ms.design_spaces(nest(), TARGET, split_twice)
    domain = space.knobs[1].domain
    assert isinstance(domain, UnionDomain)
    assert len(domain.members) > 1
    assert domain.size == sum(member.size for member in domain.members)
    rng = RandomState(1)
    for _ in range(20):
        sch = Schedule(nest())
        space.trace_of(space.sample(rng)).apply_to_schedule(sch, remove_postproc=True)
        point = space.decisions_of(sch.trace)
        assert point is not None
        child = space.neighbour(point, rng, among=[1])
        (_, inner), second = point
        assert child is None or child[1] != second
        assert inner == second[0] * second[1]


def generated(fn: object) -> list[Schedule]:
    mod = IRModule({"main": nest()})
    context = ms.TuneContext(mod, target=TARGET, space_generator=fn, rand_state=1)  # type: ignore[arg-type]
    return context.generate_design_space()


def undecided(sch: Schedule) -> None:
    sch.parallel(sch.get_loops(sch.get_block("B"))[0])


def test_a_space_without_a_choice():
    (space,) = ms.design_spaces(nest(), TARGET, undecided)
    assert str(space) == "design space #0: 0 decisions, 1 point"
    rng = RandomState(1)
    assert space.sample(rng) == ()
    assert space.neighbour((), rng) is None
    assert space.decisions_of(space.trace_of(())) == ()


def limit_domain(state: ScheduleState, loop: object) -> ChoiceDomain:
    return ChoiceDomain((2, 4, 8))


@primitive("SampleLimit", pure=True, domain=limit_domain)
def sample_limit(
    state: ScheduleState,
    loop: LoopArg,
    *,
    domain: ChoiceDomain,
    rng: RandomState,
    decision: int | None = None,
) -> Number:
    """Choose a power of two."""
    chosen = domain.decide(rng, decision)
    assert isinstance(chosen, int)
    return Sampled(chosen, chosen)


@primitive("SampleAnything", pure=True)
def sample_anything(
    state: ScheduleState, loop: LoopArg, *, rng: RandomState, decision: int | None = None
) -> Number:
    """Choose a divisor of 64."""
    chosen = 1 << rng.uniform_int(0, 7) if decision is None else decision
    return Sampled(chosen, chosen)


def own_primitives(sch: Schedule) -> None:
    (i,) = sch.get_loops(sch.get_block("B"))
    outer, _ = sch.split(i, [None, sch.sample_limit(i)])
    outer, _ = sch.split(outer, [None, sch.sample_anything(outer)])
    sch.annotate(sch.get_block("root"), "mine.limit", sch.sample_limit(outer))


def test_primitives_of_ones_own_are_sites():
    (space,) = ms.design_spaces(nest(), TARGET, own_primitives)
    assert (
        str(space)
        == """\
design space #0: 3 decisions, 9 points or more
  SampleLimit of loop 0 of B  v2  3: 2, 4, 8
  SampleAnything of l3        v5  ?: sampled anew
  limit of root               v9  3: 2, 4, 8"""
    )
    assert [knob.purpose for knob in space.knobs] == ["SampleLimit", "SampleAnything", "mine.limit"]


def test_what_declares_no_domain_is_sampled_anew():
    (space,) = ms.design_spaces(nest(), TARGET, own_primitives)
    rng = RandomState(1)
    point = space.neighbour(space.decisions, rng, among=[1])
    assert point == (space.decisions[0], None, space.decisions[2])
    drawn = set()
    for _ in range(20):
        sch = Schedule(nest(), seed=rng.fork())
        space.trace_of(point).apply_to_schedule(sch, remove_postproc=True)
        replayed = space.decisions_of(sch.trace)
        assert replayed is not None
        drawn.add(replayed[1])
    assert len(drawn) > 3


@primitive("SampleWord", pure=True, domain=lambda state, loop: ChoiceDomain(("low", "high")))  # type: ignore[arg-type]
def sample_word(
    state: ScheduleState, loop: LoopArg, *, domain: ChoiceDomain, rng: RandomState,
    decision: str | None = None,
) -> Number:  # fmt: skip
    """Choose 2 or 8, by name."""
    word = domain.decide(rng, decision)
    return Sampled({"low": 2, "high": 8}[str(word)], word)


def by_name(sch: Schedule) -> None:
    (i,) = sch.get_loops(sch.get_block("B"))
    sch.split(i, [None, sch.sample_word(i)])


def test_decisions_may_be_words():
    (space,) = ms.design_spaces(nest(), TARGET, by_name)
    assert "SampleWord of loop 0 of B  v2  2: low, high" in str(space)
    rng = RandomState(1)
    other = space.neighbour(space.decisions, rng)
    assert {space.decisions, other} == {("low",), ("high",)}
    stored = Trace.from_json(json.loads(json.dumps(space.trace_of(other).as_json())))
    assert space.decisions_of(stored) == other


def test_a_domain_needs_a_decision():
    with pytest.raises(
        ValueError, match="SampleNothing declares a domain but has no parameter `decision`"
    ):

        @primitive("SampleNothing", domain=limit_domain)
        def sample_nothing(state: ScheduleState, loop: LoopArg) -> None:
            """Choose nothing."""
