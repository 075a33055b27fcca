"""ONNX models become graph functions: names, shapes, weights, functions, what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import codegen
from tensorir import IRValueError, frontend
from tensorir.transform import LegalizeOps

onnx = pytest.importorskip("onnx", reason="reading ONNX models takes the package onnx")
helper, FLOAT, INT64 = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def model(
    nodes: Sequence[Any],
    inputs: dict[str, Sequence[int | str]],
    outputs: Sequence[str],
    weights: dict[str, Any] | None = None,
    opset: int = 17,
    **kwargs: Any,
) -> Any:
    """Return a model over float32 inputs; weights are arrays."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **kwargs)


def run(proto: Any, *inputs: Any) -> Any:
    """Import, build and run a model."""
    mod = LegalizeOps()(frontend.from_onnx(proto))
    return codegen.VirtualMachine(codegen.vm_build(mod, "llvm"), codegen.cpu())["main"](*inputs)


def test_a_model_is_a_graph_function() -> None:
    proto = model(
        [
            helper.make_node("Add", ["x", "w"], ["sum.1"]),
            helper.make_node("Relu", ["sum.1"], ["out"]),
        ],
        {"x": ["batch", 2]},
        ["out"],
        {"w": np.array([1, -1], "float32")},
    )
    mod = frontend.from_onnx(proto)
    assert (
        mod.script()
        == """\
from tensorir import I, R, T

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("batch", 2), dtype="float32")) -> R.Tensor(("batch", 2), dtype="float32"):
        batch = T.int64()
        with R.dataflow():
            sum_1: R.Tensor((batch, 2), dtype="float32") = R.add(x, R.const([1.0, -1.0], "float32"))
            out: R.Tensor((batch, 2), dtype="float32") = R.nn.relu(sum_1)
            R.output(out)
        return out"""
    )
    x = np.array([[1, 2], [-3, 4], [0, 0]], "float32")
    np.testing.assert_array_equal(
        run(proto, x).numpy(), np.maximum(x + np.array([1, -1], "float32"), 0)
    )


def test_sizes_that_have_to_be_equal_are_checked_when_the_model_runs() -> None:
    proto = model(
        [helper.make_node("Add", ["x", "y"], ["out"])], {"x": ["n", 2], "y": ["m", 2]}, ["out"]
    )
    x = np.ones((3, 2), "float32")
    np.testing.assert_array_equal(run(proto, x, x).numpy(), x + x)
    with pytest.raises(IRValueError, match=r"dimension 0 is 2, expected 3"):
        run(proto, x, x[:2])


def test_all_unsupported_operators_are_said_at_once() -> None:
    proto = model(
        [
            helper.make_node("Foo", ["x"], ["a"], name="first"),
            helper.make_node("Foo", ["a"], ["b"]),
            helper.make_node("Bar", ["b"], ["c"], domain="my.domain"),
        ],
        {"x": [2]},
        ["c"],
    )
    with pytest.raises(IRValueError) as caught:
        frontend.from_onnx(proto)
    assert str(caught.value) == (
        "the model has 2 operator(s) that are not supported:\n"
        "  Foo: 2 node(s), 'first', 'b'\n"
        "  my.domain.Bar: 1 node(s), 'c'"
    )
