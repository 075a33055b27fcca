"""Operators along axes, and with sizes, that are known when the model runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import codegen
from tensorir import IRTypeError, relax
from tensorir.relax import op
from tensorir.transform import LegalizeOps

X = np.arange(24, dtype="float32").reshape(2, 3, 4)[:, :, ::-1].copy()


def tensor(name: str, *shape: int, dtype: str = "int64") -> relax.Var:
    return relax.Var(name, relax.TensorStructInfo(shape, dtype))


def run(build: Callable[..., list[Any]], *arrays: Any) -> list[Any]:
    """Return what calls of operators give for arrays, which are parameters."""
    params = [tensor(f"p{k}", *a.shape, dtype=str(a.dtype)) for k, a in enumerate(arrays)]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(build(*params))
    vm = codegen.VirtualMachine(
        codegen.vm_build(LegalizeOps()(bb.finalize()), "llvm"), codegen.cpu()
    )
    return [value.numpy() for value in vm["main"](*arrays)]


def test_axes() -> None:
    axes, one = np.array([0, -1]), np.array([1])

    def build(x: Any, axes: Any, one: Any) -> list[Any]:
        return [
            op.reduce_at(x, axes, kind="sum"),
            op.reduce_at(x, axes, kind="max", keepdims=True),
            op.reduce_at(x, one, kind="log_sum_exp"),
            op.cumulated_at(x, one, kind="cumsum"),
            op.cumulated_at(x, one, kind="cumprod", exclusive=True, reverse=True),
            op.expand_dims_at(x, axes),
            op.slice_at(x, one, one + 1, one, one),
        ]

    sum_, max_, log, cumsum, cumprod, wide, part = run(build, X, axes, one)
    np.testing.assert_array_equal(sum_, X.sum((0, 2)))
    np.testing.assert_array_equal(max_, X.max((0, 2), keepdims=True))
    np.testing.assert_allclose(log, np.log(np.exp(X.astype("float64")).sum(1)), rtol=1e-6)
    np.testing.assert_array_equal(cumsum, X.cumsum(1))
    np.testing.assert_array_equal(
        cumprod, np.stack([X[:, 1] * X[:, 2], X[:, 2], np.ones((2, 4))], 1)
    )
    assert wide.shape == (1, 2, 3, 4, 1)
    np.testing.assert_array_equal(part, X[:, 1:2])


def test_ranks_follow_from_the_number_of_axes() -> None:
    x, axes = tensor("x", 2, 3, 4, dtype="float32"), tensor("axes", 2)
    assert str(op.reduce_at(x, axes, kind="sum").struct_info) == 'R.Tensor(dtype="float32", ndim=1)'
    assert str(op.expand_dims_at(x, axes).struct_info) == 'R.Tensor(dtype="float32", ndim=5)'
    with pytest.raises(
        IRTypeError, match="reduce_at: axes that are known when the model runs need"
    ):
        op.reduce_at(tensor("x", 2, dtype="bfloat16"), axes, kind="sum")


def test_sizes() -> None:
    target, limits, sides = np.array([0, -1, 2]), np.array(7, "int32"), np.array([4, 5])

    def build(x: Any, target: Any, limits: Any, sides: Any) -> list[Any]:
        return [
            op.reshape_target(target, [2, 3, 4]),
            op.arange_between(limits - 7, limits, limits - 4),
            op.pad_width_at(sides, relax.const(np.array([-1]), "int64"), count=3),
            op.nn.dynamic_pad(x, [0, 0, 1, -1, 0, 2], pad_value=5.0),
        ]

    shape, numbers, widths, padded = run(build, X, target, limits, sides)
    np.testing.assert_array_equal(shape, [2, 6, 2])
    np.testing.assert_array_equal(numbers, [0, 3, 6])
    np.testing.assert_array_equal(widths, [0, 0, 4, 0, 0, 5])
    expected = np.pad(X, [(0, 0), (1, 0), (0, 2)], constant_values=5)[:, :-1]
    np.testing.assert_array_equal(padded, expected)
