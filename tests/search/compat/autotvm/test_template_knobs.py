"""The values of knobs, and the effect of applying them on loops and on the trace."""

from __future__ import annotations

import numpy as np
import pytest

from search import autotvm
from search.compat.autotvm import (
    AnnotateSpace,
    ConfigSpace,
    KnobError,
    OtherOptionEntity,
    ReorderSpace,
    SplitEntity,
    SplitSpace,
)
from tensorir import te
from tests.search.compat.autotvm.templates import product


def nest():
    sch = product(32, 48, 64, "float32")
    return sch, sch.get_loops(sch.get_block("C"))


def extents(sch):
    return [int(sch.get(loop).extent.value) for loop in sch.get_loops(sch.get_block("C"))]


def calls(sch):
    """Return the lines of a trace after the loops were found."""
    return [line for line in sch.trace.as_python() if "get_" not in line]


# --------------------------------------------------------------------------------------- orders


def orders(axes, policy, **options):
    return [e.perm for e in ReorderSpace(axes, policy, **options)]


def test_orders():
    assert orders("abc", "all") == [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ]
    assert orders("abc", "candidate", candidate=["cab", "abc"]) == [[2, 0, 1], [0, 1, 2]]


def test_the_same_order_for_a_million_million():
    space = ReorderSpace(range(15), "all")
    assert len(space) == 1307674368000
    assert space.index_of(space[10**12]) == 10**12
    assert space[-1].perm == list(range(14, -1, -1))


@pytest.mark.parametrize(
    ("policy", "options", "message"),
    [
        ("some", {}, "policy='some' .*expected 'all', or 'candidate' with candidate"),
        ("candidate", {"candidate": ["abd"]}, "is not an order of the axes"),
        ("candidate", {"candidate": ["aab"]}, "is not an order of the axes"),
        ("candidate", {}, "expected 'all', or 'candidate' with candidate"),
    ],
)
def test_orders_that_cannot_be(policy, options, message):
    with pytest.raises(KnobError, match=message):
        ReorderSpace("abc", policy, **options)


# ---------------------------------------------------------------------------------- annotations


def test_number_of_annotations():
    assert len(AnnotateSpace([1, 2], "try_unroll_vec")) == 8
    assert len(AnnotateSpace([1, 2, 3], "try_unroll_vec")) == 20
    assert [e.anns for e in AnnotateSpace([1, 2], "unroll")] == [["unroll", "unroll"]]
    assert [e.anns for e in AnnotateSpace([1, 2], "try_vec")] == [
        ["none", "none"],
        ["none", "vec"],
        ["vec", "none"],
    ]


# -------------------------------------------------------------------------------------- features


def test_features_of_values():
    assert SplitEntity([-1, 4]).features == [-1, 4]
    assert ReorderSpace("abc", "all")[2].features == [1, 0, 2]
    assert autotvm.AnnotateEntity(["vec", "unroll"]).features == [0, 1, 0, 0, 0, 1]
    assert OtherOptionEntity(True).features == [1]
    with pytest.raises(KnobError, match=r"'fast' is not a number"):
        _ = OtherOptionEntity("fast").features


# -------------------------------------------------------------------------------------- applying


def test_a_split_of_its_own_is_applied_as_constants():
    sch, (y, x, k) = nest()
    assert len(SplitEntity([-1, 2, 4]).apply(sch, y)) == 3
    assert len(SplitEntity([-1, 7]).apply(sch, sch.get_block("C"), x)) == 2
    assert extents(sch) == [4, 2, 4, 10, 7, 48]
    assert SplitEntity([-1]).apply(sch, k) == [k]
    assert not any("sample" in line for line in sch.trace.as_python())


def test_a_knob_is_one_instruction_that_may_be_applied_twice():
    sch, (y, x, _k) = nest()
    cfg = ConfigSpace()
    cfg.define_split("tile", y, num_outputs=2)
    cfg["tile"] = SplitEntity([-1, 8])
    cfg["tile"].apply(sch, y)
    cfg["tile"].apply(sch, x)
    assert calls(sch) == [
        '_, v5 = sch.sample_knob_split(knob="tile", extent=32, parts=2, policy="factors", '
        "max_factor=2147483648, no_tail=True, candidates=None, decision=[-1, 8])",
        "l6, l7 = sch.split(loop=l1, factors=[None, v5], preserve_unit_iters=True, "
        "disable_predication=False)",
        "l8, l9 = sch.split(loop=l2, factors=[None, v5], preserve_unit_iters=True, "
        "disable_predication=False)",
    ]


def test_a_knob_with_one_value_or_that_was_read_is_constant():
    sch, (y, x, _k) = nest()
    cfg = ConfigSpace()
    cfg.define_split("one", y, policy="candidate", candidate=[[-1, 8]])
    cfg.define_split("read", x, num_outputs=2)
    assert cfg["read"].size == [-1, 1]
    cfg["one"].apply(sch, y)
    cfg["read"].apply(sch, x)
    assert not any("sample" in line for line in sch.trace.as_python())
    cfg.record(sch)
    assert calls(sch)[2:] == [
        '_, v9 = sch.sample_knob_split(knob="one", extent=32, parts=2, policy="candidate", '
        "max_factor=2147483648, no_tail=True, candidates=[[-1, 8]], decision=[-1, 8])",
        'v10 = sch.sample_knob_option(knob="read", candidates=[[-1, 1]], decision=0)',
    ]


def test_orders_are_applied_to_the_loops_there_are():
    sch, loops = nest()
    y, x, k = loops
    cfg = ConfigSpace()
    cfg.define_reorder("order", [0, 1, 2], "candidate", candidate=[[2, 0, 1]])
    assert cfg["order"].apply(sch, loops) == [k, y, x]
    assert extents(sch) == [48, 32, 64]
    fewer = autotvm.ReorderEntity([1, 2, 0])
    assert fewer.apply(sch, sch.get_block("C"), [y, x]) == [x, y]
    assert extents(sch) == [48, 64, 32]


def test_a_limit_makes_the_configuration_invalid():
    sch, (y, x, _k) = nest()
    cfg = ConfigSpace()
    cfg.define_annotate("ann", [y, x], "unroll")
    cfg["ann"].apply(sch, None, [y, x], axis_lens=[32, 64], max_unroll=16, cfg=cfg)
    assert not cfg.valid()
    assert cfg.errors[0] == (
        "an axis of length 32 is to be unroll: an unrolled loop must have at most 16 iterations"
    )


def test_an_option_is_a_number_of_the_trace():
    sch, (y, _x, _k) = nest()
    cfg = ConfigSpace()
    cfg.define_knob("step", [0, 16])
    cfg.define_knob("layout", ["row", None])
    sch.annotate(y, "pragma_auto_unroll_max_step", cfg["step"].apply(sch))
    assert (
        calls(sch)[0] == 'v4 = sch.sample_knob_option(knob="step", candidates=[0, 16], decision=0)'
    )
    with pytest.raises(KnobError, match=r"'layout' has candidates that are not 32-bit integers"):
        cfg["layout"].apply(sch)
    assert cfg["layout"].val == "row"
    assert cfg.reads == {"layout"}


# --------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (
            lambda c: c.define_split("t", 8, "halves", num_outputs=2),
            "'t' .* policy is 'halves'; it must be one of",
        ),
        (lambda c: c.define_split("t", 8), "num_outputs is None"),
        (
            lambda c: c.define_split("t", 8, num_outputs=2.0),
            "num_outputs is 2.0; expected an integer",
        ),
        (lambda c: c.define_split("t", -1, num_outputs=2), "is not constant"),
        (lambda c: c.define_split("t", "y", num_outputs=2), "'y' is not an axis; expected a loop"),
        (lambda c: c.define_split("t", 8, policy="candidate"), "go together"),
        (lambda c: c.define_split("t", 8, num_outputs=2, candidate=[[4, 2]]), "go together"),
        (lambda c: c.define_split("t", 8, num_output=2), "'t' cannot .* argument 'num_output'"),
        (lambda c: c.define_knob("t", 5), "'t' cannot be defined: 'int' object is not iterable"),
        (lambda c: c.define_knob(5, [1]), "the name of a knob is a non-empty string, got 5"),
        (lambda c: c.define_reorder("t", [1] * 21, "all"), "21 axes have more orders than int64"),
        (
            lambda c: c.define_split("t", 8, policy="candidate", candidate=[[4, 2], [8]]),
            "a split must have 2 integer sizes",
        ),
        (lambda c: c.define_split("t", c.define_split("s", 8, num_outputs=2)[0]), "is not an axis"),
        (lambda c: c["t"], "unknown knob 't'; the configuration has none"),
        (
            lambda c: [c.define_knob("tu", [1]), c["t"]],
            "the configuration has tu; did you mean 'tu'",
        ),
        (lambda c: c.define_annotate("t", [1], "try_fast"), "made of the words try, none, unroll"),
        (lambda c: c.define_annotate("t", [1], "candidate"), "made of the words try, none, unroll"),
        (lambda c: c.define_knob("t", [object()]), "a value that JSON cannot hold"),
        (lambda c: c[0], "unknown knob 0; the configuration has none"),
    ],
)
def test_knobs_that_cannot_be(define, message):
    with pytest.raises(KnobError, match=message):
        define(ConfigSpace())


def test_lengths_come_from_loops_axes_and_numbers():
    _sch, (y, _x, k) = nest()
    space = SplitSpace(y, num_outputs=2)
    assert space.product == 32
    assert ConfigSpace.axis(k) == (48, "k")
    for seven in (7, np.int64(7), te.placeholder((7,)).shape[0]):
        assert ConfigSpace.axis(seven).length == 7
