"""Sampling instructions with a name, and the primitives that take what they sampled."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule import Schedule, ScheduleError, Trace
from schedule.decisions.domain import CandidatesDomain, OptionDomain
from schedule.decisions.knobs import LoopMarkDomain, PermutationDomain, SplitDomain
from schedule.random_state import RandomState
from tensorir import assert_structural_equal, parse, structural_equal

BEFORE = """
@T.prim_func
def main(A: T.Buffer((4, 8, 12), "float32"), B: T.Buffer((4, 8, 12), "float32")):
    for i, j, k in T.grid(4, 8, 12):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] + T.float32(1)
"""


def schedule():
    sch = Schedule(parse(BEFORE), seed=1)
    return sch, sch.get_loops(sch.get_block("B"))


def test_reorder_by():
    sch, loops = schedule()
    k, i, j = sch.reorder_by(loops, [2, 0, 1])
    after = BEFORE.replace("for i, j, k in T.grid(4, 8, 12)", "for k, i, j in T.grid(12, 4, 8)")
    assert_structural_equal(sch.mod["main"], parse(after))
    assert [sch.get(loop).loop_var.name for loop in (k, i, j)] == ["k", "i", "j"]


def test_mark_loops():
    sch, loops = schedule()
    sch.mark_loops(loops, [0, 2, 1], max_unroll=8, vec_sizes=[4, 12])
    after = BEFORE.replace(
        "for i, j, k in T.grid(4, 8, 12):",
        "for i in range(4):\n     for j in T.unroll(8):\n      for k in T.vectorized(12):",
    )
    assert_structural_equal(sch.mod["main"], parse(after))


def test_a_trace_of_knobs_replays_from_json_and_python():
    sch, (i, j, k) = schedule()
    sizes = sch.sample_knob_split("tile", 12, 3, "verbose", no_tail=False, decision=[-1, 3, 2])
    k0, k1, k2 = sch.split(k, sizes)
    order = sch.sample_knob_reorder(
        "order", 3, candidates=[[0, 1, 2], [2, 1, 0]], decision=[2, 1, 0]
    )
    sch.reorder_by([j, k0, k1], order)
    marks = sch.sample_knob_annotate("marks", 2, "try_unroll_vec", decision=["unroll", "vec"])
    sch.mark_loops([k1, k2], marks, max_unroll=16)
    step = sch.sample_knob_option("step", [0, 16, 64], decision=1)
    sch.annotate(i, "pragma_auto_unroll_max_step", step)
    assert sch.get(step) == 16
    layout = sch.sample_knob_option("layout", ["row", None, {"block": [8, 8]}], decision=2)
    assert sch.get(layout) == 2
    saved = json.loads(json.dumps(sch.trace.as_json()))
    assert [value for _, value in saved[1]] == [[-1, 3, 2], [2, 1, 0], ["unroll", "vec"], 1, 2]
    text = "\n".join(sch.trace.as_python())
    for trace in (Trace.from_json(saved), Trace.from_python(text)):
        again = Schedule(parse(BEFORE))
        trace.apply_to_schedule(again, remove_postproc=False)
        assert structural_equal(again.mod, sch.mod)
        assert "\n".join(again.trace.as_python()) == text


def test_a_knob_that_nothing_uses_stays_in_the_trace():
    sch, _ = schedule()
    sch.sample_knob_option("unused", [1, 2])
    assert [inst.kind.name for inst in sch.trace.simplified(False).insts] == ["SampleKnobOption"]


def test_a_stored_split_is_kept_where_it_is_not_offered():
    sch, _ = schedule()
    sizes = sch.sample_knob_split("tile", 12, 2, decision=[-1, 5])
    assert sch.get(sizes[1]) == 5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, ls: s.sample_knob_split("t", 0, 2), "`extent` is 0; it must be at least 1"),
        (lambda s, ls: s.sample_knob_split("t", 8, 65), "`parts` is 65"),
        (lambda s, ls: s.sample_knob_split("t", 8, 2, "halves"), "`policy` is 'halves'"),
        (
            lambda s, ls: s.sample_knob_split("t", 8, 2, decision=[8]),
            "a split must have 2 integer sizes",
        ),
        (lambda s, ls: s.sample_knob_split("t", 8, 2, candidates=[[8, 0]]), r"`candidates\[0\]`"),
        (lambda s, ls: s.sample_knob_split("t", 8, 2, candidates=[]), "has 0 entries"),
        (lambda s, ls: s.sample_knob_split("t", 8, 2, max_factor=0), "leave nothing to choose"),
        (lambda s, ls: s.sample_knob_split("t", 1 << 30, 9), "more than 1000000 alternatives"),
        (lambda s, ls: s.sample_knob_reorder("t", 3, 2, 2), "`begin` is"),
        (lambda s, ls: s.sample_knob_reorder("t", 3, decision=[0, 0, 1]), "each of 0 to 2 once"),
        (lambda s, ls: s.sample_knob_annotate("t", 2, "try_fast"), "must be made of the words try"),
        (
            lambda s, ls: s.sample_knob_annotate("t", 2, "vec", decision=["vec"]),
            "it must be 2 marks, each of",
        ),
        (lambda s, ls: s.sample_knob_annotate("t", 64, "try_vec"), "more than 1000000 ways"),
        (lambda s, ls: s.sample_knob_option("t", []), "is empty"),
        (lambda s, ls: s.sample_knob_option("t", [object()]), "that JSON cannot hold"),
        (
            lambda s, ls: s.sample_knob_option("t", [1, 2], decision=2),
            r"it must be an index in \[0, 2\)",
        ),
        (lambda s, ls: s.reorder_by(ls, [0, 1]), "each of 0 to 2 once"),
        (lambda s, ls: s.reorder_by(ls[0], [0]), "takes a list of LoopRVs"),
        (lambda s, ls: s.mark_loops(ls, [0, 3, 0]), "give 0, 1 or 2 for each of 3 loops"),
        (
            lambda s, ls: s.mark_loops(ls, [2, 0, 0], 3),
            "an unrolled loop must have at most 3 iterations",
        ),
        (
            lambda s, ls: s.mark_loops(ls, [0, 0, 1], None, [4]),
            r"a vectorized loop must have an extent of \[4\]",
        ),
    ],
)
def test_what_is_refused(call, message):
    sch, loops = schedule()
    before = sch.mod
    with pytest.raises(ScheduleError, match=message):
        call(sch, loops)
    assert sch.mod is before


def test_splits_that_are_not_counted_are_listed_up_to_a_limit(monkeypatch):
    monkeypatch.setattr("schedule.decisions.knobs.MOST_LISTED", 100)
    sch, _ = schedule()
    with pytest.raises(ScheduleError, match="by power2 gives more than 100 alternatives"):
        sch.sample_knob_split("t", 1 << 12, 5, "power2")


# --------------------------------------------------------------------------------------- domains

domains = st.one_of(
    st.builds(
        SplitDomain,
        st.integers(1, 40),
        st.integers(1, 4),
        st.sampled_from(["factors", "power2", "verbose"]),
        st.integers(1, 40),
        st.booleans(),
    ),
    st.just(CandidatesDomain(SplitDomain(8, 2), ((-1, 3), (4, 2)))),
    st.integers(1, 6).flatmap(
        lambda n: st.builds(PermutationDomain, st.just(n + 1), st.just(0), st.integers(1, n))
    ),
    st.just(CandidatesDomain(PermutationDomain(3, 0, 3), ((0, 1, 2), (2, 0, 1)))),
    st.builds(
        LoopMarkDomain, st.integers(1, 4), st.sampled_from(["try_unroll_vec", "vec", "try_vec"])
    ),
    st.builds(OptionDomain, st.just(("1", "2", "3"))),
)


@given(domains, st.integers(1, 1 << 20))
def test_alternatives_have_indices_and_neighbours(domain, seed):
    rng = RandomState(seed)
    listed = list(domain)
    assert len(listed) == len(set(listed)) == domain.size
    if not listed:
        return
    drawn = domain.sample(rng)
    assert drawn in domain
    assert domain.at(domain.index_of(drawn)) == drawn == listed[domain.index_of(drawn)]
    assert domain.repair(json.loads(json.dumps(drawn))) == drawn
    near = domain.neighbours(drawn)
    assert len(set(near)) == len(near)
    assert drawn not in near
    assert all(other in listed for other in near)
    step = domain.step(drawn, rng)
    assert (step is None) == (not near)
    assert step is None or step in near


@given(st.integers(1, 60), st.integers(1, 3), st.sampled_from(["factors", "power2", "verbose"]))
def test_steps_lead_from_any_split_to_any_other(extent, parts, policy):
    domain = SplitDomain(extent, parts, policy, no_tail=policy == "factors")
    reached = {domain.at(0)}
    border = list(reached)
    while border:
        border = [n for d in border for n in domain.neighbours(d) if n not in reached]
        reached.update(border)
    assert reached == set(domain)
