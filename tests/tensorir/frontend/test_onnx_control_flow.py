"""Branches and loops of ONNX models."""

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


def info(name: str, kind: int = FLOAT, shape: Sequence[int | str] | None = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def graph(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[str],
    weights: dict[str, Any] | None = None,
) -> Any:
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (weights or {}).items()]
    return helper.make_graph(
        list(nodes), "graph", list(inputs), [info(name) for name in outputs], tensors
    )


def imported(proto: Any, opset: int = 17) -> Any:
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", opset)])
    return frontend.from_onnx(model)


def run(mod: Any, *inputs: Any) -> Any:
    built = codegen.vm_build(LegalizeOps()(mod), "llvm")
    return codegen.VirtualMachine(built, codegen.cpu())["main"](*inputs)


X = np.array([1, 2, 3], "float32")


def branches(name: str) -> Any:
    return helper.make_node(
        "If",
        [name],
        ["y"],
        then_branch=graph([helper.make_node("Add", ["x", "x"], ["a"])], [], ["a"]),
        else_branch=graph([helper.make_node("Relu", ["x"], ["b"])], [], ["b"]),
    )


def test_a_branch_by_a_value() -> None:
    proto = graph([branches("c")], [info("x", shape=["n"]), info("c", BOOL, [])], ["y"])
    main = imported(proto)
    for cond, expected in ((True, 2 * X), (False, X)):
        np.testing.assert_array_equal(run(main, X, np.array(cond)), expected)


def test_a_branch_that_is_known_is_the_only_one_that_is_read() -> None:
    proto = graph([branches("c")], [info("x", shape=[3])], ["y"], {"c": True})
    script = imported(proto).script()
    assert "R.add" in script
    assert "relu" not in script
    assert "if" not in script.split()


def counting(body_nodes: Sequence[Any], outputs: Sequence[str], **weights: Any) -> Any:
    """Return the body of a loop that carries `v`."""
    return graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), *body_nodes],
        [info("i", INT64, []), info("go", BOOL, []), info("v")],
        ["go_on", *outputs],
        weights,
    )


DOUBLING = counting([helper.make_node("Add", ["v", "x"], ["w"])], ["w", "w"])


def test_a_loop_of_unknown_rounds_calls_a_function() -> None:
    nodes = [helper.make_node("Loop", ["rounds", "", "x"], ["last", "all"], body=DOUBLING)]
    proto = graph(nodes, [info("x", shape=["n"]), info("rounds", INT64, [])], ["last", "all"])
    mod = imported(proto)
    assert len(mod.functions) == 2
    for rounds in (0, 1, 40):
        last, parts = run(mod, X, np.array(rounds))
        np.testing.assert_array_equal(last, X * (rounds + 1))
        assert parts.shape == (rounds, 3)
        np.testing.assert_array_equal(parts, np.outer(np.arange(2, rounds + 2), X))


def test_rounds_that_are_a_size_give_the_shape_of_what_is_stacked() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Loop", ["s", "", "x"], ["last", "all"], body=DOUBLING),
    ]
    proto = graph(nodes, [info("x", shape=["n"])], ["last", "all"])
    mod = imported(proto)
    assert 'R.Tensor(("n", "n"), dtype="float32")' in mod.script()
    np.testing.assert_array_equal(run(mod, X)[0], 4 * X)


def test_shapes_that_change_from_round_to_round() -> None:
    body = counting([helper.make_node("Concat", ["v", "x"], ["w"], axis=0)], ["w"])
    nodes = [helper.make_node("Loop", ["rounds", "", "x"], ["y"], body=body)]
    proto = graph(nodes, [info("x", shape=["n"]), info("rounds", INT64, [])], ["y"])
    np.testing.assert_array_equal(run(imported(proto), X, np.array(2)), np.tile(X, 3))


def test_a_condition_ends_a_loop() -> None:
    body = graph(
        [
            helper.make_node("Add", ["v", "x"], ["w"]),
            helper.make_node("ReduceSum", ["w"], ["total"], keepdims=0),
            helper.make_node("Less", ["total", "limit"], ["go_on"]),
        ],
        [info("i", INT64, []), info("go", BOOL, []), info("v")],
        ["go_on", "w"],
        {"limit": np.float32(20)},
    )
    nodes = [helper.make_node("Loop", ["", "c", "x"], ["y"], body=body)]
    proto = graph(nodes, [info("x", shape=[3]), info("c", BOOL, [])], ["y"])
    mod = imported(proto)
    np.testing.assert_array_equal(run(mod, X, np.array(True)), 4 * X)
    np.testing.assert_array_equal(run(mod, X, np.array(False)), X)


def test_short_loops_are_read_round_by_round() -> None:
    nodes = [helper.make_node("Loop", ["rounds", "", "x"], ["last", "all"], body=DOUBLING)]
    proto = graph(nodes, [info("x", shape=[3])], ["last", "all"], {"rounds": np.array(2)})
    mod = imported(proto)
    assert list(mod.functions) == ["main"]
    last, parts = run(mod, X)
    np.testing.assert_array_equal(last, 3 * X)
    np.testing.assert_array_equal(parts, [2 * X, 3 * X])


def test_a_loop_in_a_loop_sees_the_values_around_both() -> None:
    inner = graph(
        [
            helper.make_node("Identity", ["go2"], ["go_on2"]),
            helper.make_node("Add", ["u", "x"], ["u2"]),
        ],
        [info("i2", INT64, []), info("go2", BOOL, []), info("u")],
        ["go_on2", "u2"],
    )
    body = counting([helper.make_node("Loop", ["rounds", "", "v"], ["w"], body=inner)], ["w"])
    nodes = [helper.make_node("Loop", ["rounds", "", "x"], ["y"], body=body)]
    proto = graph(nodes, [info("x", shape=["n"]), info("rounds", INT64, [])], ["y"])
    np.testing.assert_array_equal(run(imported(proto), X, np.array(3)), 10 * X)


@pytest.mark.parametrize("length", [2, "t"])
@pytest.mark.parametrize("reverse", [0, 1])
def test_scan(length: int | str, reverse: int) -> None:
    body = graph(
        [
            helper.make_node("Add", ["state", "part"], ["next"]),
            helper.make_node("Identity", ["next"], ["out"]),
        ],
        [info("state"), info("part")],
        ["next", "out"],
    )
    nodes = [
        helper.make_node(
            "Scan",
            ["x", "xs"],
            ["last", "all"],
            body=body,
            num_scan_inputs=1,
            scan_input_directions=[reverse],
            scan_input_axes=[1],
            scan_output_axes=[-1],
            scan_output_directions=[reverse],
        )
    ]
    inputs = [info("x", shape=[3]), info("xs", shape=[3, length])]
    xs = np.array([[1, 10], [2, 20], [3, 30]], "float32")
    last, every = run(imported(graph(nodes, inputs, ["last", "all"])), X, xs)
    order = xs[:, ::-1] if reverse else xs
    expected = X[:, None] + np.cumsum(order, axis=1)
    np.testing.assert_array_equal(last, expected[:, -1])
    np.testing.assert_array_equal(every, expected[:, ::-1] if reverse else expected)


def test_a_body_that_carries_another_number_of_values_is_refused() -> None:
    body = counting([helper.make_node("Add", ["v", "x"], ["w"])], [])
    nodes = [helper.make_node("Loop", ["rounds", "", "x"], ["y"], body=body)]
    proto = graph(nodes, [info("x", shape=[3]), info("rounds", INT64, [])], ["y"])
    with pytest.raises(Exception, match=r"\(Loop\): a step with 1 carried value\(s\) returns 0"):
        imported(proto)
