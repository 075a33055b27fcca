"""Whatever the times are: what a graph computes stays, and no better choice is missed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen import Target
from search.models.graph_tuner import Measure, tune_layouts
from search.models.graph_tuner.candidates import Candidates
from search.models.graph_tuner.kernel_graph import KernelGraph, Layout, Tensor, describe_layout
from search.models.graph_tuner.layout_choice import (
    Choice,
    Timed,
    best_choice,
    fastest_of_each,
    row_major,
)
from tensorir import IRModule, PrimFunc
from tensorir.interp.graphs import interpret_graph
from tensorir.relax.expr import GraphVar
from tensorir.relax.function import Function
from tests.search.models.graph_tuner.graphs import TARGET, form, module

NOISE = 0.03
"""The least gain of a kernel in other layouts, relative to its time in row-major ones."""


def graph_of(draw: st.DrawFn) -> IRModule:
    """Draw a graph of products and ReLUs of earlier values; some are returned."""
    values, lines = ["x"], []
    for name in "abcd"[: draw(st.integers(1, 4))]:
        first, second = draw(st.sampled_from(values)), draw(st.sampled_from(["w", *values]))
        kernel, args = draw(st.sampled_from([("relu", first), ("dense", f"{first}, {second}")]))
        lines.append(
            f'    {name} = R.call_tir(Module.{kernel}, ({args},), R.Tensor((16, 16), "float32"))'
        )
        values.append(name)
    results = sorted({values[-1], draw(st.sampled_from(values))})
    body = "\n".join(lines)
    return module(f"""
@R.function
def main(x: R.Tensor((16, 16), "float32"), w: R.Tensor((16, 16), "float32")):
    R.func_attr({{"num_input": 1}})
{body}
    return ({", ".join(results)},)
""")


graphs = st.composite(graph_of)()


def random_times(seed: int) -> Measure:
    """Return times that depend on the seed and on the layouts of a kernel only."""

    def measure(kernels: Sequence[PrimFunc]) -> list[float]:
        return [random.Random(f"{seed} {form(k)}").randint(1, 9) for k in kernels]

    return measure


@settings(max_examples=5, deadline=None)
@given(graphs, st.integers(0, 99))
def test_results_stay(mod: IRModule, seed: int) -> None:
    tuned = tune_layouts(mod, None, TARGET, measure=random_times(seed)).mod
    args = np.random.default_rng(seed).standard_normal((2, 16, 16), "float32")
    expected = interpret_graph(mod, "main", *args)
    for got, wanted in zip(interpret_graph(tuned, "main", *args), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def seconds_of(
    graph: KernelGraph,
    kernels: Mapping[GraphVar, Timed],
    transform: Callable[[Tensor, Layout, Layout], float],
) -> float:
    """Return what kernels cost together with each transform that one of them needs."""
    chosen = Choice(dict(kernels), {}, exact=False)
    total = chosen.kernel_seconds
    for tensor in graph.tensors.values():
        needed = {
            kernels[reader.var].candidate.layouts[reader.slots.index(position)]
            for reader, position in tensor.readers
        }
        needed |= {None} if tensor.used_otherwise else set()
        made = chosen.made_in(tensor)
        total += sum(transform(tensor, made, layout) for layout in needed - {made})
    return total


@settings(max_examples=25, deadline=None)
@given(graphs, st.integers(0, 99))
def test_an_exact_choice_is_the_best_of_all(mod: IRModule, seed: int) -> None:
    main = mod["main"]
    assert isinstance(main, Function)
    graph = KernelGraph(main, mod)
    measure = random_times(seed)

    def transform(tensor: Tensor, source: Layout, destination: Layout) -> float:
        return random.Random(
            f"{seed} {describe_layout(source)} {describe_layout(destination)}"
        ).randint(0, 4)

    kernels = {
        var: fastest_of_each(found, measure([candidate.func for candidate in found]))[:3]
        for var, found in Candidates(None, Target(TARGET), 20).of(graph).items()
    }
    choice = best_choice(graph, kernels, transform)
    cost = seconds_of(graph, choice.kernels, transform)
    tolerance = NOISE * row_major(kernels, graph).kernel_seconds + 1e-9
    if choice.exact:
        for others in itertools.product(*kernels.values()):
            other = seconds_of(graph, dict(zip(kernels, others, strict=True)), transform)
            assert cost <= other + tolerance
    assert cost <= seconds_of(graph, row_major(kernels, graph).kernels, transform) + tolerance
