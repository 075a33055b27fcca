"""Every transform keeps what random graphs give, and the graph it is given.

`benchmarks.fuzz graphs` tries many more.
"""

from __future__ import annotations

import numpy as np
from graph_modules import is_same
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fuzz.graphs import LIBRARY, random_graph
from tensorir import transform as t
from tensorir import verify_well_formed
from tensorir.interp.graphs import interpret_graph
from tensorir.nodes.expr import IntImm, Var
from tensorir.relax.struct_info import TensorStructInfo

TRANSFORMS = {
    **{
        step.__name__: step()
        for step in (
            t.CanonicalizeBindings,
            t.DeadCodeElimination,
            t.FoldConstant,
            t.EliminateCommonSubexpr,
            t.SeparateOutputs,
            t.CombineTransposes,
            t.AnnotateTIROpPattern,
        )
    },
    "SinkViews": t.Sequential([t.RewriteDataflowReshape(), t.SinkViews()]),
    "default_pipeline": t.default_pipeline(),
    "FuseTIR": t.Sequential([t.RewriteDataflowReshape(), t.FuseOps(), t.FuseTIR()]),
    "ConcatInPlace": t.Sequential([t.FuseOps(), t.FuseTIR(), t.ConcatInPlace(smallest=0)]),
    "in place": t.Sequential(
        [
            t.DataflowUseInplaceCalls(smallest=0),
            t.CallTIRRewrite(),
            t.StaticPlanBlockMemory(),
        ]
    ),
}


def leaves(value):
    return [x for part in value for x in leaves(part)] if isinstance(value, tuple) else [value]


def results(mod, args):
    return leaves(interpret_graph(mod, "main", *args, library=LIBRARY))


def assert_same(expected, found, name):
    for before, now in zip(expected, found, strict=True):
        assert type(before) is type(now), name
        np.testing.assert_array_equal(before, now, strict=isinstance(now, np.ndarray), err_msg=name)


def can_be_bound(info):
    """Return True for a tensor whose shape alone determines its sizes."""
    return isinstance(info, TensorStructInfo) and all(
        isinstance(n, IntImm | Var) for n in info.shape
    )


@settings(max_examples=12)
@given(st.integers(0, 100_000), st.integers(1, 16), st.integers(0, 4))
def test_random_graphs(seed, steps, num_input):
    """All transforms get one graph, whose results are computed once."""
    graph = random_graph(seed, steps, chained=seed % 2 == 0)
    kept = graph.mod.clone()
    args = graph.inputs(seed)
    expected = results(graph.mod, args)
    assert verify_well_formed(graph.mod)
    for name, step in TRANSFORMS.items():
        assert_same(expected, results(step(graph.mod), args), name)

    # The results of the lowered graph are in memory of their own, and its arguments stay.
    copies = [np.copy(x) for x in leaves(tuple(args))]
    lowered = t.lower_graph(graph.mod)
    assert verify_well_formed(lowered)
    found = results(lowered, args)
    assert_same(expected, found, "lower_graph")
    arrays = [x for x in found if isinstance(x, np.ndarray)]
    given_arrays = [x for x in leaves(tuple(args)) if isinstance(x, np.ndarray)]
    for k, result in enumerate(arrays):
        assert not any(np.shares_memory(result, other) for other in [*given_arrays, *arrays[:k]])
    for copy, arg in zip(copies, leaves(tuple(args)), strict=True):
        np.testing.assert_array_equal(copy, arg)

    # Bound parameters give the results of arguments, lifted weights those of weights.
    main = graph.mod["main"]
    by_param = dict(zip(main.params, args, strict=True))
    bound = {p: by_param[p] for p in [p for p in by_param if can_be_bound(p.struct_info)][::2]}
    mod = t.lower_graph(t.BindParams("main", bound)(graph.mod))
    rest = [arg for param, arg in by_param.items() if param not in bound]
    assert_same(expected, results(mod, rest), "BindParams")
    count = min(num_input, len(main.params))
    mod = graph.mod.clone()
    mod["main"] = main.with_attr("num_input", count)
    lifted = t.LiftTransformParams()(mod)
    assert verify_well_formed(lifted)
    weights = args[count:]
    if "main_transform_params" in lifted:
        weights = interpret_graph(lifted, "main_transform_params", tuple(weights), library=LIBRARY)
    assert_same(expected, results(lifted, [*args[:count], *weights]), "LiftTransformParams")
    assert is_same(graph.mod, kept)
