"""Nodes of ONNX: the tests of the standard, and sequences."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codegen
from tensorir import frontend
from tensorir.transform import LegalizeOps
from tests.window_references import pooled

# -------------- Operators of ONNX: node tests that are known to pass, and the forms of older opsets

onnx = pytest.importorskip("onnx", reason="reading ONNX models takes the package onnx")
helper = onnx.helper
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64

PASSING = (Path(__file__).parent / "onnx_node_tests.txt").read_text().split()
NODE_TESTS = {
    "abs": "abs",
    "atanh": "atanh_example",
    "attention": "attention_4d_attn_mask_4d_causal_expanded",
    "cast": "cast_BFLOAT16_to_FLOAT",
    "castlike": "castlike_INT4_to_FLOAT16",
    "clip": "clip_default_int8_inbounds_expanded",
    "cumprod": "cumprod_1d_int32_exclusive",
    "equal": "equal",
    "gemm": "gemm_all_attributes",
    "globalaveragepool": "globalaveragepool_precomputed",
    "hammingwindow": "hammingwindow",
    "layernormalization": "layer_normalization_3d_axis_negative_2_epsilon_expanded",
    "linear_attention": "linear_attention_explicit_scale_expanded",
    "matmul": "matmul_2d",
    "mod": "mod_int64_fmod",
    "nonmaxsuppression": "nonmaxsuppression_single_box",
    "quantizelinear": "quantizelinear_uint2",
    "reduce_log_sum_exp": "reduce_log_sum_exp_keepdims_example_expanded",
    "reducesumsquare": "reduce_sum_square_empty_set",
    "rmsnormalization": "rms_normalization_4d_axis_negative_3",
    "scan": "scan_sum",
    "sin": "sin",
    "softmax_cross_entropy_loss": "sce_mean_no_weight_ii_4d_expanded",
    "split": "split_variable_parts_default_axis_opset18",
    "tensorscatter": "tensorscatter_circular",
    "unique": "unique_sorted_with_axis",
}
"""The modules of `onnx.backend.test.case.node`, with a test of each.

Windows are left out: ONNX computes the expected results of theirs for seconds on import.
"""


def test_some_of_the_node_tests_that_pass() -> None:
    """`python -m benchmarks.onnx_node_tests --check` runs all."""
    from onnx.backend.test.case import node  # noqa: PLC0415

    from benchmarks.onnx_node_tests import run_case  # noqa: PLC0415

    for module in NODE_TESTS:
        import_module(f"{node.__name__}.{module}")
    known = {case.name: case for case in node._NodeTestCases}
    for name in NODE_TESTS.values():
        assert f"test_{name}" in PASSING
        run_case(known[f"test_{name}"])


def outputs(
    opset: int, nodes: Sequence[Any], x: Any, weights: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    """Return what all nodes of a model give, and the names of that."""
    names = [name for node in nodes for name in node.output if name]
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, x.shape)],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in names],
        [onnx.numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    mod = LegalizeOps()(frontend.from_onnx(proto))
    vm = codegen.VirtualMachine(codegen.vm_build(mod, "llvm"), codegen.cpu())
    return [y.numpy() for y in vm["main"](x)], names


def softmax(x: Any, axes: tuple[int, ...]) -> Any:
    e = np.exp(x - x.max(axes, keepdims=True))
    return e / e.sum(axes, keepdims=True)


@pytest.mark.parametrize(("extent", "lengths"), [(6, [2, 2, 2]), (7, [3, 3, 1])])
def test_parts_of_one_length(extent: int, lengths: list[int]) -> None:
    x = np.arange(extent, dtype="float32")
    step = helper.make_node("Split", ["x"], ["a", "b", "c"], num_outputs=3)
    results, _ = outputs(18, [step], x, {})
    assert [len(y) for y in results] == lengths
    np.testing.assert_array_equal(np.concatenate(results), x)


def test_forms_of_opset_9() -> None:
    """Limits, axes, scales, pads and bounds are attributes; softmax is along all axes behind one."""
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    image = x[None]
    nodes = [
        helper.make_node("Clip", ["x"], ["clip"], min=-0.5, max=0.5),
        helper.make_node("Softmax", ["x"], ["softmax"]),
        helper.make_node("LogSoftmax", ["x"], ["log_softmax"], axis=2),
        helper.make_node("ReduceSum", ["x"], ["sum"], axes=[0, 2], keepdims=0),
        helper.make_node("Unsqueeze", ["x"], ["wide"], axes=[0]),
        helper.make_node("Squeeze", ["wide"], ["narrow"], axes=[0]),
        helper.make_node("Slice", ["x"], ["slice"], starts=[1, -2], ends=[9, -1], axes=[1, 2]),
        helper.make_node("Pad", ["x"], ["pad"], pads=[0, 1, 0, 0, 0, 2], value=7.0),
        helper.make_node("Split", ["x"], ["first", "second"], axis=2, split=[1, 3]),
        helper.make_node("Upsample", ["wide", "scales"], ["up"]),
        helper.make_node("Dropout", ["x"], ["kept"], ratio=0.3),
    ]
    found, names = outputs(9, nodes, x, {"scales": np.array([1, 1, 2, 1.5], "float32")})
    expected = {
        "clip": x.clip(-0.5, 0.5),
        "softmax": softmax(x, (1, 2)),
        "log_softmax": np.log(softmax(x, (2,))),
        "sum": x.sum((0, 2)),
        "wide": image,
        "narrow": x,
        "slice": x[:, 1:9, -2:-1],
        "pad": np.pad(x, [(0, 0), (1, 0), (0, 2)], constant_values=7),
        "first": x[..., :1],
        "second": x[..., 1:],
        "up": image[:, :, [0, 0, 1, 1, 2, 2]][..., [0, 0, 1, 2, 2, 3]],
        "kept": x,
    }
    assert names == list(expected)
    for name, value in zip(names, found, strict=True):
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_negative_indices_count_from_the_end() -> None:
    x = np.arange(12, dtype="float32").reshape(3, 4)
    weights = {
        "last": np.array([-1, 0, -3]),
        "rows": np.array([[-1, 0, 1, -2]]),
        "places": np.array([[-1, -1], [0, -2]]),
        "values": np.array([100, 200], "float32"),
    }
    nodes = [
        helper.make_node("Gather", ["x", "last"], ["gather"], axis=0),
        helper.make_node("GatherElements", ["x", "rows"], ["elements"], axis=0),
        helper.make_node("GatherND", ["x", "places"], ["points"]),
        helper.make_node("ScatterND", ["x", "places", "values"], ["scatter"]),
    ]
    (gather, elements, points, scatter), _ = outputs(18, nodes, x, weights)
    np.testing.assert_array_equal(gather, x[[-1, 0, -3]])
    np.testing.assert_array_equal(elements, np.take_along_axis(x, np.array([[2, 0, 1, 1]]), 0))
    np.testing.assert_array_equal(points, [11, 2])
    expected = x.copy()
    expected[2, 3], expected[0, 2] = 100, 200
    np.testing.assert_array_equal(scatter, expected)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
def test_padding_of_convolutions(auto_pad: str) -> None:
    """Windows of ones count the elements that they see."""
    x = np.ones((1, 1, 4, 5), "float32")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], auto_pad=auto_pad, strides=[2, 1]),
        helper.make_node("Identity", ["x"], ["same"]),
    ]
    (y, _), _ = outputs(17, nodes, x, {"w": np.ones((1, 1, 3, 2), "float32")})
    lower = auto_pad == "SAME_LOWER"
    pads = [(1, 0) if lower else (0, 1), (1, 0) if lower else (0, 1)]
    padded = np.pad(x[0, 0], pads if auto_pad.startswith("SAME") else 0)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 2))[::2]
    np.testing.assert_array_equal(y[0, 0], windows.sum((-1, -2)))


def test_windows_of_average_pool_leave_padding_out() -> None:
    x = np.random.default_rng(0).normal(size=(1, 2, 8, 7)).astype("float32")
    settings = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4, "dilations": [2, 2]}
    nodes = [
        helper.make_node("AveragePool", ["x"], ["y"], ceil_mode=1, **settings),
        helper.make_node("Identity", ["x"], ["same"]),
    ]
    (y, _), _ = outputs(19, nodes, x, {})
    np.testing.assert_allclose(y, pooled(x, np.nanmean, 3, 2, 1, 2, True), rtol=1e-5, atol=1e-6)


# ----------------------------------------------------- Sequences and optional values of ONNX models

onnx_helper, numpy_helper = onnx.helper, onnx.numpy_helper
ONNX_FLOAT, ONNX_INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
X = np.arange(6, dtype="float32").reshape(3, 2)


def info(name: str, kind: int = ONNX_FLOAT, shape: Sequence[int | str] | None = None) -> Any:
    return onnx_helper.make_tensor_value_info(name, kind, shape)


def imported(
    nodes: Sequence[Any], inputs: Sequence[Any], output: str, weights: dict[str, Any] | None = None
) -> Any:
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (weights or {}).items()]
    graph = onnx_helper.make_graph(list(nodes), "graph", list(inputs), [info(output)], tensors)
    model = onnx_helper.make_model(graph, opset_imports=[onnx_helper.make_opsetid("", 18)])
    return frontend.from_onnx(model)


def run(mod: Any, *inputs: Any) -> Any:
    built = codegen.vm_build(LegalizeOps()(mod), "llvm")
    return codegen.VirtualMachine(built, codegen.cpu())["main"](*inputs)


def test_sequences_of_known_length_are_tuples_and_need_no_library() -> None:
    nodes = [
        onnx_helper.make_node("SplitToSequence", ["x"], ["rows"], axis=0, keepdims=0),
        onnx_helper.make_node("SequenceInsert", ["rows", "row", "first"], ["more"]),
        onnx_helper.make_node("SequenceErase", ["more"], ["fewer"]),
        onnx_helper.make_node("ConcatFromSequence", ["fewer"], ["y"], axis=0, new_axis=1),
    ]
    weights = {"row": np.array([7, 8], "float32"), "first": np.array(0)}
    mod = imported(nodes, [info("x", shape=[3, 2])], "y", weights)
    assert "packed" not in mod.script()
    np.testing.assert_array_equal(run(mod, X), [[7, 8], [0, 1], [2, 3]])


def test_sequences_of_unknown_length() -> None:
    nodes = [
        onnx_helper.make_node("SplitToSequence", ["x"], ["rows"], axis=0),
        onnx_helper.make_node("SequenceAt", ["rows", "place"], ["row"]),
        onnx_helper.make_node("SequenceInsert", ["rows", "row"], ["more"]),
        onnx_helper.make_node("SequenceLength", ["more"], ["count"]),
        onnx_helper.make_node("Cast", ["count"], ["number"], to=ONNX_FLOAT),
        onnx_helper.make_node("ConcatFromSequence", ["more"], ["joined"], axis=0),
        onnx_helper.make_node("Mul", ["joined", "number"], ["y"]),
    ]
    inputs = [info("x", shape=["n", 2]), info("place", ONNX_INT64, [])]
    mod = imported(nodes, inputs, "y")
    np.testing.assert_array_equal(run(mod, X, np.array(-3)), 4 * np.vstack([X, X[:1]]))
    with pytest.raises(Exception, match="position 3 is out of range for a sequence of 3"):
        run(mod, X, np.array(3))


def test_parts_that_nothing_uses_have_no_kernels() -> None:
    nodes = [
        onnx_helper.make_node("SplitToSequence", ["x"], ["rows"]),
        onnx_helper.make_node("SequenceAt", ["rows", "place"], ["y"]),
    ]
    mod = imported(nodes, [info("x", shape=[300, 2])], "y", {"place": np.array(3)})
    built = codegen.vm_build(mod, "llvm")
    assert len(built.mod.prim_funcs()) == 1
    x = np.arange(600, dtype="float32").reshape(300, 2)
    np.testing.assert_array_equal(codegen.VirtualMachine(built, codegen.cpu())["main"](x), x[3:4])


def test_a_loop_that_fills_a_sequence() -> None:
    body = onnx_helper.make_graph(
        [
            onnx_helper.make_node("Identity", ["go"], ["go_on"]),
            onnx_helper.make_node("Add", ["x", "x"], ["twice"]),
            onnx_helper.make_node("SequenceInsert", ["s", "twice"], ["t"]),
        ],
        "body",
        [info("i", ONNX_INT64, []), info("go", BOOL, []), info("s")],
        [info("go_on", BOOL, []), info("t")],
    )
    nodes = [
        onnx_helper.make_node("SequenceEmpty", [], ["empty"]),
        onnx_helper.make_node("Loop", ["rounds", "", "empty"], ["all"], body=body),
        onnx_helper.make_node("ConcatFromSequence", ["all"], ["y"], axis=0),
    ]
    mod = imported(nodes, [info("x", shape=["n", 2]), info("rounds", ONNX_INT64, [])], "y")
    np.testing.assert_array_equal(run(mod, X, np.array(3)), np.tile(2 * X, (3, 1)))


def test_an_optional_value_that_may_be_absent() -> None:
    kind = onnx_helper.make_optional_type_proto(
        onnx_helper.make_tensor_type_proto(ONNX_FLOAT, [3, 2])
    )
    then = onnx_helper.make_graph(
        [onnx_helper.make_node("OptionalGetElement", ["maybe"], ["value"])],
        "then",
        [],
        [info("value")],
    )
    otherwise = onnx_helper.make_graph(
        [onnx_helper.make_node("Identity", ["x"], ["same"])], "else", [], [info("same")]
    )
    nodes = [
        onnx_helper.make_node("OptionalHasElement", ["maybe"], ["has"]),
        onnx_helper.make_node("If", ["has"], ["y"], then_branch=then, else_branch=otherwise),
    ]
    inputs = [info("x", shape=[3, 2]), onnx_helper.make_value_info("maybe", kind)]
    mod = imported(nodes, inputs, "y")
    np.testing.assert_array_equal(run(mod, X, -X), -X)
    np.testing.assert_array_equal(run(mod, X, None), X)
