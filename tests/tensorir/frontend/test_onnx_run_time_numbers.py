"""ONNX operators whose bounds, lengths and shapes are inputs; what they refuse when they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import codegen
from tensorir import IRValueError, frontend

onnx = pytest.importorskip("onnx", reason="reading ONNX models takes the package onnx")
helper = onnx.helper

X = np.arange(35, dtype="float32").reshape(5, 7)


def compiled(
    op_type: str,
    inputs: Sequence[Any],
    weights: Sequence[Any] = (),
    opset: int = 18,
    outputs: int = 1,
    **attributes: Any,
) -> Callable[..., Any]:
    """Return the compiled model of one node; its inputs are like the arrays, then the weights."""
    arrays = [np.asarray(v) for v in (*inputs, *weights)]
    names = [f"x{k}" for k in range(len(arrays))]
    results = [f"out{k}" for k in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, results, **attributes)],
        "graph",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in zip(names[: len(inputs)], arrays, strict=False)
        ],
        [onnx.ValueInfoProto(name=name) for name in results],
        [
            onnx.numpy_helper.from_array(a, n)
            for n, a in list(zip(names, arrays, strict=True))[len(inputs) :]
        ],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    mod = frontend.from_onnx(proto)
    return codegen.VirtualMachine(codegen.vm_build(mod, "llvm", default_schedules=False))["main"]


@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_bounds_of_slices_may_be_negative_or_out_of_range(step: int) -> None:
    numbers = [np.zeros(2, "int64")] * 2
    main = compiled("Slice", [X, *numbers], [np.array([1, 0]), np.array([step, 1])])
    for first, last in [(1, 6), (-3, -1), (6, -8), (-1, -100), (4, 2), (100, 0), (-100, 100)]:
        got = main(X, np.array([first, -4]), np.array([last, 100])).numpy()
        # ONNX clamps an end before the first element; Python counts it from the end.
        end = None if step < 0 and last < -7 else last
        np.testing.assert_array_equal(got, X[-4:, first:end:step])


def test_lengths_of_parts_must_make_up_the_axis() -> None:
    main = compiled("Split", [X, np.zeros(2, "int64")], outputs=2, axis=1)
    parts = main(X, np.array([3, 4]))
    np.testing.assert_array_equal(parts[0].numpy(), X[:, :3])
    np.testing.assert_array_equal(parts[1].numpy(), X[:, 3:])
    with pytest.raises(IRValueError, match=r"dimension 1 is 7, expected 12"):
        main(X, np.array([3, 9]))
    with pytest.raises(IRValueError, match="negative extent"):
        main(X, np.array([-1, 8]))


def test_a_shape_must_have_as_many_elements() -> None:
    main = compiled("Reshape", [X, np.zeros(2, "int64")])
    np.testing.assert_array_equal(main(X, np.array([-1, 5])).numpy(), X.reshape(7, 5))
    for wrong in ([6, 6], [-5, -7]):
        with pytest.raises(codegen.LibraryFunctionError, match=r"\[5, 7\] cannot be reshaped"):
            main(X, np.array(wrong))


def test_a_shape_must_be_one_that_a_tensor_broadcasts_to() -> None:
    main = compiled("Expand", [X[:, :1], np.zeros(3, "int64")])
    got = main(X[:, :1], np.array([2, 1, 6])).numpy()
    np.testing.assert_array_equal(got, np.broadcast_to(X[:, :1], [2, 5, 6]))
    with pytest.raises(codegen.LibraryFunctionError, match=r"\[5, 1\] does not broadcast"):
        main(X[:, :1], np.array([1, 4, 6]))


def test_ranges_of_small_integers_and_without_a_step() -> None:
    numbers = [np.array(n, "int16") for n in (-30_000, 30_000, 7)]
    main = compiled("Range", numbers)
    np.testing.assert_array_equal(main(*numbers).numpy(), np.arange(-30_000, 30_000, 7, "int16"))
    with pytest.raises(codegen.LibraryFunctionError, match="the step is 0"):
        main(*numbers[:2], np.array(0, "int16"))


def test_shapes_with_extents_of_zero() -> None:
    empty = np.zeros((0, 3, 4), "float32")
    assert compiled("Flatten", [empty], axis=0)(empty).shape == (1, 0)
    narrow = compiled("Reshape", [empty], [np.array([5, 0, 2])], allowzero=1)
    assert narrow(empty).shape == (5, 0, 2)


def test_the_first_none_of_elements() -> None:
    values, places = compiled("TopK", [X], [np.array([0])], outputs=2, axis=0)(X)
    assert values.shape == places.shape == (0, 7)


def test_the_number_of_first_elements_may_be_none() -> None:
    main = compiled("TopK", [X, np.array([2])], outputs=2)
    for k in (0, 1, 7):
        values, places = main(X, np.array([k]))
        np.testing.assert_array_equal(values.numpy(), np.flip(X, 1)[:, :k])
        np.testing.assert_array_equal(places.numpy(), np.broadcast_to(range(6, 6 - k, -1), (5, k)))
    with pytest.raises(codegen.LibraryFunctionError, match="k is 8, but axis -1 has 7 elements"):
        main(X, np.array([8]))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_roots_and_logarithms_of_integers_are_rounded_towards_zero(dtype: str) -> None:
    x = np.arange(12, dtype=dtype).reshape(3, 4)
    sums = {
        "ReduceL2": np.sqrt((x**2).sum(1)),
        "ReduceLogSum": np.log(x.sum(1)),
        "ReduceLogSumExp": np.log(np.exp(x).sum(1)),
    }
    for name, expected in sums.items():
        found = compiled(name, [x], [np.array([1])], keepdims=0)(x).numpy()
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected.astype(dtype))


@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
def test_softmax_of_old_opsets_runs_over_all_axes_from_one_on(axis: int) -> None:
    x = np.random.default_rng(0).random((2, 3, 4), "float32")
    rest = tuple(range(axis % 3, 3))
    exponentials = np.exp(x)
    np.testing.assert_allclose(
        compiled("Softmax", [x], opset=11, axis=axis)(x).numpy(),
        exponentials / exponentials.sum(rest, keepdims=True),
        rtol=1e-5,
    )
