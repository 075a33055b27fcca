"""Memory of graphs: arenas, the check of plans, and arguments that outputs overwrite."""

from __future__ import annotations

import random
import re
import textwrap
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from graph_modules import module_of
from hypothesis import given, settings
from hypothesis import strategies as st
from text_cases import each_case

from benchmarks.fuzz.graphs import LIBRARY, random_graph
from tensorir import WellFormedError, relax
from tensorir.interp.graphs import interpret_graph
from tensorir.memory.overwritten_arguments import overwritable_arguments
from tensorir.nodes.expr import Var
from tensorir.relax.calls import PLACE_TENSOR
from tensorir.relax.expr import GraphCall, PrimValue
from tensorir.relax.function import graph_functions
from tensorir.relax.visit import GraphRewriter
from tensorir.script.parser import parse
from tensorir.transform import (
    CallTIRRewrite,
    LegalizeOps,
    Sequential,
    StaticPlanBlockMemory,
    check_memory_plan,
    lower_graph,
    pack_intervals,
)
from tensorir.transform.pack_intervals import pack
from tensorir.transform.static_plan_block_memory import plan_memory
from tensorir.transform.value_memory import find_escapes

# ---------------------------------------------------------------------------- StaticPlanBlockMemory

FRESH = 'R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))'


def arena(nbytes):
    return (
        f"storage = R.memory.alloc_storage(R.shape([{nbytes}]), R.prim_value(0), "
        'R.str("global"), R.dtype("uint8"))'
    )


def placed(offset):
    return (
        f"R.memory.alloc_tensor(storage, R.prim_value({offset}), R.shape([4]), R.dtype('float32'))"
    )


def planned(graph):
    return Sequential([CallTIRRewrite(), StaticPlanBlockMemory()])(module_of(graph))


def by_hand(nbytes, second, result="c"):
    return module_of(f"""
        @R.function
        def main(x: F4):
            cls = Module
            {arena(nbytes)}
            a = {placed(0)}
            cls.double(x, a)
            b = {placed(second)}
            cls.double(x, b)
            c = {FRESH}
            cls.add(a, b, c)
            return {result}
    """)


def test_the_check_accepts_tensors_side_by_side():
    check_memory_plan(by_hand(128, 64))


@pytest.mark.parametrize(
    ("mod", "message"),
    [
        (by_hand(128, 0), "a is used after b has overwritten it; in function main"),
        (by_hand(128, 32), "b is not at a multiple of 64 bytes"),
        (by_hand(64, 64), "b ends at byte 80 of an arena of 64"),
        (by_hand(128, 64, "b"), "b is in the arena, which is freed with the function"),
    ],
)
def test_the_check_names_what_is_wrong(mod, message):
    with pytest.raises(WellFormedError, match=message):
        check_memory_plan(mod)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.integers(1, 30))
def test_plans_of_random_graphs_hold(seed, steps):
    lowered = CallTIRRewrite()(random_graph(seed, steps).mod)
    planned = StaticPlanBlockMemory()(lowered)
    check_memory_plan(planned)
    escapes = find_escapes(lowered)
    for func in graph_functions(lowered).values():
        for arena in plan_memory(func, escapes):
            plan = arena.packing
            assert plan.lower_bound <= plan.size <= 2 * plan.lower_bound


class Moved(GraphRewriter):
    """Puts tensors elsewhere in the arena, at random."""

    def __init__(self, rng):
        super().__init__()
        self._rng = rng

    def rewrite_GraphCall(self, node):
        if node.op is not PLACE_TENSOR or self._rng.random() < 0.5:
            return node
        storage, _, *rest = node.args
        at = PrimValue(64 * self._rng.randrange(4))
        return GraphCall(PLACE_TENSOR, [storage, at, *rest])


@settings(max_examples=15)
@given(st.integers(0, 10_000))
def test_plans_that_the_check_accepts_keep_results(seed):
    rng = random.Random(seed)
    graph = random_graph(seed, 10)
    planned = Sequential([CallTIRRewrite(), StaticPlanBlockMemory()])(graph.mod)
    moved = planned.clone()
    for name, func in graph_functions(planned).items():
        moved[name] = Moved(rng)(func)
    try:
        check_memory_plan(moved)
    except WellFormedError:
        return
    args = graph.inputs(seed)
    expected, found = (
        interpret_graph(mod, "main", *args, library=LIBRARY) for mod in (graph.mod, moved)
    )
    np.testing.assert_equal(found, expected)


@given(
    st.lists(
        st.tuples(st.integers(0, 500), st.integers(0, 12), st.integers(0, 6)),
        min_size=1,
        max_size=25,
    )
)
def test_tensors_held_together_do_not_overlap(tensors):
    sizes = dict(enumerate(size for size, _, _ in tensors))
    held = {k: [(start, start + length)] for k, (_, start, length) in enumerate(tensors)}
    check_packing(pack(sizes, held), sizes, held)


def check_packing(packing, sizes, held):
    """Check that tensors that are held at the same point lie apart."""
    for point in range(20):
        together = [
            k for k, spans in held.items() if any(first <= point <= last for first, last in spans)
        ]
        spans = sorted(
            (packing.offsets[k], packing.offsets[k] + sizes[k]) for k in together if sizes[k]
        )
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        assert all(end <= packing.size for _, end in spans)
    assert all(offset % 64 == 0 for offset in packing.offsets.values())
    assert packing.size >= packing.lower_bound


@given(
    st.lists(
        st.tuples(st.integers(0, 500), st.lists(st.integers(0, 19), min_size=2, max_size=6)),
        min_size=1,
        max_size=25,
    )
)
def test_tensors_that_are_held_at_several_times_do_not_overlap(tensors):
    sizes = dict(enumerate(size for size, _ in tensors))
    held = {
        k: [(a, b) for a, b in pairwise(sorted({*points, 19}))][::2]
        for k, (_, points) in enumerate(tensors)
    }
    check_packing(pack(sizes, held), sizes, held)


@given(
    st.lists(
        st.tuples(st.integers(0, 500), st.integers(0, 12), st.integers(0, 6)),
        min_size=1,
        max_size=25,
    )
)
def test_memory_given_in_the_order_of_time_does_not_overlap(tensors):
    sizes = dict(enumerate(size for size, _, _ in tensors))
    held = {k: [(start, start + length)] for k, (_, start, length) in enumerate(tensors)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack_intervals, "_FEW", 0)
        patch.setattr(pack_intervals, "_MAX_PAIRS", 0)
        check_packing(pack(sizes, held), sizes, held)


def test_many_tensors_that_are_all_held_at_once_are_packed_quickly():
    count = 3000
    packing = pack(dict.fromkeys(range(count), 64), {k: [(k, count)] for k in range(count)})
    assert packing.size == packing.lower_bound == 64 * count


def test_the_smallest_gap_that_is_large_enough_is_taken():
    # big and small are held throughout; the gap that `mid` leaves behind is filled again.
    packing = pack(
        {"big": 640, "mid": 256, "small": 64, "later": 192},
        {"big": [(0, 3)], "mid": [(0, 1)], "small": [(1, 3)], "later": [(3, 3)]},
    )
    assert packing.offsets == {"big": 0, "mid": 640, "later": 640, "small": 896}
    assert packing.size == packing.lower_bound == 960


def test_extents_that_are_differences_are_not_negative():
    n = Var("n", "int64")
    x = relax.Var("x", relax.TensorStructInfo([n // 2 - 1, n // 2 - 1], "float32"))
    shape = relax.Var("shape", relax.ShapeStructInfo([n]))
    builder = relax.BlockBuilder()
    with builder.function("main", [shape, x]):
        with builder.dataflow():
            one = builder.emit(relax.op.exp(x))
            both = builder.emit(relax.op.stack([one, one]))
            last = builder.emit_output(relax.op.stack([both, both]))
        builder.emit_func_output(last)
    mod = lower_graph(LegalizeOps()(builder.get()))
    check_memory_plan(mod)


# -------------------------------------------------------------------------- DataflowUseInplaceCalls


@each_case(Path(__file__).with_name("overwritten_arguments.txt"))
def test_arguments_that_an_output_may_overwrite(case, pytestconfig):
    shapes = zip("ABC", re.findall(r"\(.*?\)", case.call), strict=True)
    parameters = ", ".join(f'{name}: T.Buffer({shape}, "float32")' for name, shape in shapes)
    body = textwrap.indent(case.before, "    ")
    kernel = parse(f"@T.prim_func\ndef kernel({parameters}):\n{body}")
    case.check(str(overwritable_arguments(kernel)), pytestconfig)
