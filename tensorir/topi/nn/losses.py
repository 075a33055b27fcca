"""Losses for classification."""

from __future__ import annotations

from typing import Literal, TypeAlias

from tensorir import te
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.expr import NE, PrimExpr
from tensorir.nodes.ops import as_expr, cast, compare, const, div
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.accumulation import rounded, sum_dtype
from tensorir.topi.extents import check_equal, check_floats, check_rank
from tensorir.topi.nn.softmax import log_softmax

Reduction: TypeAlias = Literal["none", "mean", "sum"]


@operator("nn.nll_loss")
def nll_loss(
    predictions: Tensor,
    targets: Tensor,
    weights: Tensor | None = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
) -> Tensor:
    """Return `-predictions[n, targets[n, ...], ...]`, negative log likelihoods, times `weights`.

    `predictions[n, c, ...]` are log-probabilities of classes, `targets[n, ...]` integers,
    `weights[c]` numbers for the classes. Targets equal to `ignore_index` contribute 0. The mean
    divides by the sum of the weights that were used.
    """
    check_floats("predictions", predictions)
    if not targets.dtype.is_integral:
        raise IRTypeError(f"targets must be integers, got {targets.dtype}")
    if predictions.ndim < 1 or targets.ndim != predictions.ndim - 1:
        raise IRValueError(
            f"targets must have the dimensions of predictions without the classes, got ranks "
            f"{targets.ndim} and {predictions.ndim}"
        )
    axis = min(1, predictions.ndim - 1)
    rest = [n for k, n in enumerate(predictions.shape) if k != axis]
    for k, (a, b) in enumerate(zip(targets.shape, rest, strict=True)):
        check_equal(a, f"dimension {k} of targets", b, "that of predictions")
    if weights is not None:
        check_rank("weights", weights, 1)
        check_equal(
            weights.shape[0], "the length of weights", predictions.shape[axis], "the classes"
        )
    dtype = sum_dtype(predictions.dtype)
    zero = const(0, dtype)

    def weight(*i: PrimExpr) -> PrimExpr:
        target = targets[i]
        own = const(1, dtype) if weights is None else cast(dtype, weights[cast("int64", target)])
        counted: PrimExpr = te.if_then_else(compare(NE, target, ignore_index), own, zero)
        return counted

    def loss(*i: PrimExpr) -> PrimExpr:
        place = (*i[:axis], cast("int64", targets[i]), *i[axis:])
        value = -cast(dtype, predictions[place]) * weight(*i)
        counted: PrimExpr = te.if_then_else(compare(NE, targets[i], ignore_index), value, zero)
        return counted

    losses = te.compute(targets.shape, loss, name="nll_loss")
    if reduction == "none":
        return rounded(losses, predictions.dtype)
    total = _total(losses, "nll_loss_red")
    if reduction == "mean":
        divisor = _total(te.compute(targets.shape, weight, name="nll_weight"), "nll_weight_red")
        return rounded(_quotient(total, divisor), predictions.dtype)
    return rounded(total, predictions.dtype)


@operator("nn.cross_entropy_with_logits")
def cross_entropy_with_logits(predictions: Tensor, labels: Tensor) -> Tensor:
    """Return the sum of `-predictions * labels`, divided by the first extent of a matrix."""
    check_floats("predictions", predictions)
    check_rank("labels", labels, predictions.ndim)
    dtype = sum_dtype(predictions.dtype)
    for k, (a, b) in enumerate(zip(labels.shape, predictions.shape, strict=True)):
        check_equal(a, f"dimension {k} of labels", b, "that of predictions")
    terms = te.compute(
        predictions.shape,
        lambda *i: -cast(dtype, predictions[i]) * cast(dtype, labels[i]),
        name="cross_entropy",
    )
    total = _total(terms, "cross_entropy_red")
    count = predictions.shape[0] if predictions.ndim > 1 else as_expr(1)
    mean = te.compute((), lambda: div(total(), cast(dtype, count)), name="cross_entropy_mean")
    return rounded(mean, predictions.dtype)


@operator("nn.cross_entropy")
def cross_entropy(
    scores: Tensor,
    targets: Tensor,
    weights: Tensor | None = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
) -> Tensor:
    """Return `nll_loss` of the logarithm of the softmax of `scores[n, c, ...]` over classes."""
    axis = min(1, scores.ndim - 1)
    return nll_loss(log_softmax(scores, axis), targets, weights, reduction, ignore_index)


def _quotient(a: Tensor, b: Tensor) -> Tensor:
    return te.compute((), lambda: div(a(), b()), name="nll_mean")


def _total(x: Tensor, name: str) -> Tensor:
    """Return the sum of all elements."""
    axes = [te.reduce_axis((0, n), f"k{k}") for k, n in enumerate(x.shape)]
    if not axes:
        return x
    return te.compute((), lambda: te.sum(x[tuple(axes)], axis=axes), name=name)
