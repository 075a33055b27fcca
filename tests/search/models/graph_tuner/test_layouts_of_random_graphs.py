"""Whatever the times are: what a graph computes stays, and no better choice is missed."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from search.models.graph_tuner import Measure, tune_layouts
from tensorir import IRModule, PrimFunc
from tensorir.interp.graphs import interpret_graph
from tests.search.models.graph_tuner.graphs import TARGET, form, module


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
