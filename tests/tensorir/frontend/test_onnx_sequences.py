"""Sequences and optional values of ONNX models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import codegen
from tensorir import frontend
from tensorir.transform import LegalizeOps

onnx = pytest.importorskip("onnx", reason="reading ONNX models takes the package onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
X = np.arange(6, dtype="float32").reshape(3, 2)


def info(name: str, kind: int = FLOAT, shape: Sequence[int | str] | None = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def imported(
    nodes: Sequence[Any], inputs: Sequence[Any], output: str, weights: dict[str, Any] | None = None
) -> Any:
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "graph", list(inputs), [info(output)], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return frontend.from_onnx(model)


def run(mod: Any, *inputs: Any) -> Any:
    built = codegen.vm_build(LegalizeOps()(mod), "llvm")
    return codegen.VirtualMachine(built, codegen.cpu())["main"](*inputs)


def test_sequences_of_known_length_are_tuples_and_need_no_library() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["rows"], axis=0, keepdims=0),
        helper.make_node("SequenceInsert", ["rows", "row", "first"], ["more"]),
        helper.make_node("SequenceErase", ["more"], ["fewer"]),
        helper.make_node("ConcatFromSequence", ["fewer"], ["y"], axis=0, new_axis=1),
    ]
    weights = {"row": np.array([7, 8], "float32"), "first": np.array(0)}
    mod = imported(nodes, [info("x", shape=[3, 2])], "y", weights)
    assert "packed" not in mod.script()
    np.testing.assert_array_equal(run(mod, X), [[7, 8], [0, 1], [2, 3]])


def test_sequences_of_unknown_length() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["rows"], axis=0),
        helper.make_node("SequenceAt", ["rows", "place"], ["row"]),
        helper.make_node("SequenceInsert", ["rows", "row"], ["more"]),
        helper.make_node("SequenceLength", ["more"], ["count"]),
        helper.make_node("Cast", ["count"], ["number"], to=FLOAT),
        helper.make_node("ConcatFromSequence", ["more"], ["joined"], axis=0),
        helper.make_node("Mul", ["joined", "number"], ["y"]),
    ]
    inputs = [info("x", shape=["n", 2]), info("place", INT64, [])]
    mod = imported(nodes, inputs, "y")
    np.testing.assert_array_equal(run(mod, X, np.array(-3)), 4 * np.vstack([X, X[:1]]))
    with pytest.raises(Exception, match="position 3 is not one of a sequence of 3"):
        run(mod, X, np.array(3))


def test_parts_that_nothing_uses_have_no_kernels() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["rows"]),
        helper.make_node("SequenceAt", ["rows", "place"], ["y"]),
    ]
    mod = imported(nodes, [info("x", shape=[300, 2])], "y", {"place": np.array(3)})
    built = codegen.vm_build(mod, "llvm")
    assert len(built.mod.prim_funcs()) == 1
    x = np.arange(600, dtype="float32").reshape(300, 2)
    np.testing.assert_array_equal(codegen.VirtualMachine(built, codegen.cpu())["main"](x), x[3:4])


def test_a_loop_that_fills_a_sequence() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Add", ["x", "x"], ["twice"]),
            helper.make_node("SequenceInsert", ["s", "twice"], ["t"]),
        ],
        "body",
        [info("i", INT64, []), info("go", BOOL, []), info("s")],
        [info("go_on", BOOL, []), info("t")],
    )
    nodes = [
        helper.make_node("SequenceEmpty", [], ["empty"]),
        helper.make_node("Loop", ["rounds", "", "empty"], ["all"], body=body),
        helper.make_node("ConcatFromSequence", ["all"], ["y"], axis=0),
    ]
    mod = imported(nodes, [info("x", shape=["n", 2]), info("rounds", INT64, [])], "y")
    np.testing.assert_array_equal(run(mod, X, np.array(3)), np.tile(2 * X, (3, 1)))


def test_an_optional_value_that_may_be_absent() -> None:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, [3, 2]))
    then = helper.make_graph(
        [helper.make_node("OptionalGetElement", ["maybe"], ["value"])], "then", [], [info("value")]
    )
    otherwise = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["same"])], "else", [], [info("same")]
    )
    nodes = [
        helper.make_node("OptionalHasElement", ["maybe"], ["has"]),
        helper.make_node("If", ["has"], ["y"], then_branch=then, else_branch=otherwise),
    ]
    inputs = [info("x", shape=[3, 2]), helper.make_value_info("maybe", kind)]
    mod = imported(nodes, inputs, "y")
    np.testing.assert_array_equal(run(mod, X, -X), -X)
    np.testing.assert_array_equal(run(mod, X, None), X)
