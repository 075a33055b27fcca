"""Factors of channels become a part of the weights before them."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import relax
from tensorir.interp.graphs import interpret_graph
from tensorir.relax import op
from tensorir.transform import (
    DeadCodeElimination,
    FoldBatchNorm,
    FoldConstant,
    LegalizeOps,
)

RNG = np.random.default_rng(0)


def constant(*shape):
    return relax.const(RNG.random(shape).astype("float32") + 0.5)


def graph(shape, formula):
    """Return the module of `formula(bb, x)`, where `bb.emit` binds what is used several times."""
    x = relax.Var("x", relax.TensorStructInfo(shape, "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit_output(formula(bb, x))
        bb.emit_func_output(y)
    return bb.get()


def operators(mod):
    values = [binding.value for binding in mod["main"].body.bindings]
    return [v.op.short_name for v in values if isinstance(v, relax.Call)]


def folded(mod):
    """Return the module after folding, which gives what it gave before."""
    after = DeadCodeElimination()(FoldBatchNorm()(mod))
    x = RNG.random([int(n) for n in mod["main"].params[0].struct_info.static_shape])
    old, new = (
        interpret_graph(LegalizeOps()(m), "main", x.astype("float32")) for m in (mod, after)
    )
    np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-5)
    return after


IMAGE = (1, 3, 4, 4)


def conv(x, **attrs):
    return op.nn.conv2d(x, constant(4, 3, 3, 3), **attrs)


@pytest.mark.parametrize(
    ("shape", "formula", "expected"),
    [
        (IMAGE, lambda _, x: conv(x) * constant(4, 1, 1), ["nn.conv2d"]),
        (IMAGE, lambda _, x: constant(1, 4, 1, 1) * conv(x), ["nn.conv2d"]),
        (IMAGE, lambda _, x: conv(x) * constant(1), ["nn.conv2d"]),
        (
            IMAGE,
            lambda _, x: (conv(x) + constant(4, 1, 1)) * constant(4, 1, 1) + constant(4, 1, 1),
            ["nn.conv2d", "add"],
        ),
        ((2, 3), lambda _, x: op.matmul(x, constant(3, 5)) * constant(5), ["matmul"]),
        ((2, 3), lambda _, x: op.nn.dense(x, constant(5, 3), constant(5)) * constant(5), ["nn.dense"]),
        (
            (1, 4, 4, 3),
            lambda _, x: op.nn.conv2d(
                x, constant(3, 3, 3, 4), data_layout="NHWC", kernel_layout="HWIO"
            )
            * constant(4),
            ["nn.conv2d"],
        ),
    ],
)  # fmt: skip
def test_factors_of_channels_go_into_the_weights(shape, formula, expected):
    assert operators(folded(graph(shape, formula))) == expected


def normed(x, channels, **attrs):
    weights = [constant(channels) for _ in range(4)]
    return op.nn.batch_norm(x, *weights, **attrs)[0]


@pytest.mark.parametrize(
    ("shape", "formula", "expected"),
    [
        (IMAGE, lambda _, x: normed(conv(x), 4), ["nn.conv2d", "add"]),
        (IMAGE, lambda _, x: normed(conv(x) + constant(4, 1, 1), 4), ["nn.conv2d", "add"]),
        (IMAGE, lambda _, x: op.nn.relu(normed(x, 3)), ["multiply", "add", "nn.relu"]),
        (IMAGE, lambda _, x: normed(x, 4, axis=-1, epsilon=0.1), ["multiply", "add"]),
        (IMAGE, lambda _, x: normed(normed(conv(x), 4), 4), ["nn.conv2d", "add"]),
        ((2, 3), lambda _, x: normed(op.matmul(x, constant(3, 5)), 5, center=False), ["matmul", "add"]),
    ],
)  # fmt: skip
def test_batch_norms_with_constant_statistics(shape, formula, expected):
    assert operators(folded(graph(shape, formula))) == expected


def test_statistics_of_the_data_and_results_that_somebody_needs_stay():
    def training(bb, x):
        return normed(conv(x), 4, training=True)

    def whole(bb, x):
        return bb.emit(op.nn.batch_norm(x, *(constant(3) for _ in range(4))))

    for formula in (training, whole):
        assert "nn.batch_norm" in operators(FoldBatchNorm()(graph(IMAGE, formula)))


def used_twice(bb, x):
    y = bb.emit(conv(x))
    return y * constant(4, 1, 1) + y


@pytest.mark.parametrize(
    ("shape", "formula"),
    [
        (IMAGE, lambda _, x: conv(x) * constant(2)),  # differs along the width
        (IMAGE, used_twice),
        (IMAGE, lambda _, x: op.nn.relu(conv(x)) * constant(4, 1, 1)),
        ((2, 3), lambda _, x: (op.matmul(x, constant(3, 1)) + constant(5)) * constant(5)),
    ],
    ids=["another axis", "used twice", "not linear", "stretched"],
)
def test_other_factors_stay(shape, formula):
    mod = graph(shape, formula)
    assert "multiply" in operators(folded(mod))


def test_constant_operators_are_folded_by_what_they_are_legalized_to():
    mod = graph((2,), lambda bb, x: x + op.exp(op.nn.softmax(constant(2) * constant(1))))
    after = FoldConstant()(mod)
    assert operators(after) == ["add"]
    x = np.ones(2, "float32")
    old, new = (interpret_graph(LegalizeOps()(m), "main", x) for m in (mod, after))
    np.testing.assert_array_equal(old, new)


def test_a_constant_that_would_be_large_is_not_folded():
    mod = graph((1024,), lambda bb, x: x + op.add(constant(1024, 1), constant(1024)))
    assert operators(FoldConstant(small=1024)(mod)) == ["add", "add"]
