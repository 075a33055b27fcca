"""Every transform keeps what random graphs give, and the graph it is given."""

from __future__ import annotations

import numpy as np
from graph_modules import is_same
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fuzz.graphs import LIBRARY, random_graph
from tensorir import verify_well_formed
from tensorir.interp.graphs import interpret_graph
from tensorir.nodes.expr import IntImm, Var
from tensorir.relax.function import Function
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.transform import (
    AnnotateTIROpPattern,
    BindParams,
    CallTIRRewrite,
    CanonicalizeBindings,
    CombineTransposes,
    DataflowUseInplaceCalls,
    DeadCodeElimination,
    EliminateCommonSubexpr,
    FoldConstant,
    FuseOps,
    FuseTIR,
    LiftTransformParams,
    RewriteDataflowReshape,
    SeparateOutputs,
    Sequential,
    SinkViews,
    StaticPlanBlockMemory,
    default_pipeline,
    lower_graph,
)

TRANSFORMS = {
    "CanonicalizeBindings": CanonicalizeBindings(),
    "DeadCodeElimination": DeadCodeElimination(),
    "FoldConstant": FoldConstant(),
    "EliminateCommonSubexpr": EliminateCommonSubexpr(),
    "RewriteDataflowReshape": RewriteDataflowReshape(),
    "SeparateOutputs": SeparateOutputs(),
    "CombineTransposes": CombineTransposes(),
    "SinkViews": Sequential([RewriteDataflowReshape(), SinkViews()], name="sink"),
    "default_pipeline": default_pipeline(),
    "AnnotateTIROpPattern": AnnotateTIROpPattern(),
    "FuseOps": FuseOps(),
    "FuseTIR": Sequential([RewriteDataflowReshape(), FuseOps(), FuseTIR()], name="fuse"),
    "DataflowUseInplaceCalls": DataflowUseInplaceCalls(smallest=0),
    "CallTIRRewrite": CallTIRRewrite(),
    "in place": Sequential(
        [DataflowUseInplaceCalls(smallest=0), CallTIRRewrite(), StaticPlanBlockMemory()]
    ),
    "lower_graph": lower_graph,
}


def leaves(value):
    if isinstance(value, (tuple, list)):
        return [x for part in value for x in leaves(part)]
    return [value]


def tensors(value):
    return [x for x in leaves(value) if isinstance(x, np.ndarray)]


def can_be_bound(info):
    """Say whether a parameter is a tensor whose shape says by itself what its sizes are."""
    return isinstance(info, TensorStructInfo) and all(
        isinstance(n, IntImm | Var) for n in info.shape
    )


def results(mod, args):
    return leaves(interpret_graph(mod, "main", *args, library=LIBRARY))


@given(st.integers(0, 100_000), st.integers(1, 16))
def test_transforms_keep_results(seed, steps):
    """All of them on one graph, whose results are computed once."""
    graph = random_graph(seed, steps, chained=seed % 2 == 0)
    kept = graph.mod.clone()
    args = graph.inputs(seed)
    expected = results(graph.mod, args)
    assert verify_well_formed(graph.mod)
    assert verify_well_formed(lower_graph(graph.mod))
    for name, transform in TRANSFORMS.items():
        after = transform(graph.mod)
        for before, now in zip(expected, results(after, args), strict=True):
            assert type(before) is type(now), name
            np.testing.assert_array_equal(
                before, now, strict=isinstance(now, np.ndarray), err_msg=name
            )
    assert is_same(graph.mod, kept)


@settings(max_examples=20)
@given(st.integers(0, 100_000))
def test_transforms_are_idempotent(seed):
    mod = random_graph(seed).mod
    for name in TRANSFORMS.keys() - {"lower_graph", "default_pipeline"}:
        step = TRANSFORMS[name]
        once = step(mod)
        assert is_same(step(once), once)


@given(st.integers(0, 100_000), st.integers(1, 16))
def test_results_of_lowered_graphs_lie_in_memory_of_their_own(seed, steps):
    graph = random_graph(seed, steps)
    lowered = lower_graph(graph.mod)
    args = graph.inputs(seed)
    given = tensors(args)
    kept = [arg.copy() for arg in given]
    found = tensors(results(lowered, args))
    for k, result in enumerate(found):
        assert not any(np.shares_memory(result, other) for other in [*given, *found[:k]])
    for arg, before in zip(given, kept, strict=True):
        np.testing.assert_array_equal(arg, before)


@settings(max_examples=20)
@given(st.integers(0, 100_000))
def test_bound_parameters_give_what_arguments_give(seed):
    graph = random_graph(seed)
    func = graph.mod["main"]
    assert isinstance(func, Function)
    args = dict(zip(func.params, graph.inputs(seed), strict=True))
    arrays = [param for param in args if can_be_bound(param.struct_info)]
    bound = {param: args[param] for param in arrays[::2]}
    mod = lower_graph(BindParams("main", bound)(graph.mod))
    rest = [arg for param, arg in args.items() if param not in bound]
    for before, now in zip(results(graph.mod, args.values()), results(mod, rest), strict=True):
        np.testing.assert_array_equal(before, now)


@given(st.integers(0, 100_000), st.integers(1, 16), st.data())
def test_lifted_weights_give_what_weights_give(seed, steps, data):
    graph = random_graph(seed, steps)
    main = graph.mod["main"]
    count = data.draw(st.integers(0, len(main.params)))
    mod = graph.mod.clone()
    mod["main"] = main.with_attr("num_input", count)
    lifted = LiftTransformParams()(mod)
    assert verify_well_formed(lifted)
    inputs, weights = graph.inputs(seed)[:count], graph.inputs(seed)[count:]
    if "main_transform_params" in lifted:
        weights = interpret_graph(lifted, "main_transform_params", tuple(weights), library=LIBRARY)
    expected = results(mod, graph.inputs(seed))
    for before, now in zip(expected, results(lifted, [*inputs, *weights]), strict=True):
        np.testing.assert_array_equal(before, now)
