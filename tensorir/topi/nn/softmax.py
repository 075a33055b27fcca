"""Softmax, log-softmax and hardmax, and losses for classification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from tensorir import te
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.expr import EQ, NE, IterVar, PrimExpr
from tensorir.nodes.ops import as_expr, cast, compare, const, div
from tensorir.relax.declaration import operator
from tensorir.relax.dimension_order import axes as order_of
from tensorir.te.reduction import place_of_best
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import convert_dtype, sum_dtype
from tensorir.topi.extents import axis_of, check_equal, check_floats, check_rank
from tensorir.topi.reduction import sum as sum_of


class _Along:
    """A tensor along one of its axes."""

    def __init__(self, x: Tensor, axis: int) -> None:
        check_floats("x", x)
        self.x = x
        self.axis = axis_of(axis, x.ndim)
        self.dtype = sum_dtype(x.dtype)
        self.rest = [n for k, n in enumerate(x.shape) if k != self.axis]

    def without(self, indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        """Return indices without the axis."""
        return (*indices[: self.axis], *indices[self.axis + 1 :])

    def reduced(
        self,
        name: str,
        source: Tensor,
        reduce: Callable[[PrimExpr, IterVar, Sequence[PrimExpr]], PrimExpr],
    ) -> Tensor:
        """Return the tensor of `reduce(element, axis, indices)` along the axis."""
        k = te.reduce_axis((0, self.x.shape[self.axis]), "k")

        def element(*indices: PrimExpr) -> PrimExpr:
            place = (*indices[: self.axis], k.var, *indices[self.axis :])
            return reduce(source[place], k, indices)

        return te.compute(self.rest, element, name=name)

    def mapped(self, name: str, function: Callable[..., PrimExpr], **attrs: int) -> Tensor:
        """Return the tensor of `function(indices, indices without the axis)`."""
        return te.compute(
            self.x.shape, lambda *i: function(i, self.without(i)), name=name, attrs=attrs
        )


@operator("nn.softmax", dimension_order=order_of("axis"))
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return `exp(x)` divided by its sum along an axis; the largest element is subtracted first."""
    along = _Along(x, axis)
    largest = along.reduced("T_softmax_maxelem", x, lambda v, k, _: te.max(v, axis=k))
    dtype = along.dtype
    exp = along.mapped(
        "T_softmax_exp", lambda i, r: te.exp(cast(dtype, x[i]) - cast(dtype, largest[r]))
    )
    total = along.reduced("T_softmax_expsum", exp, lambda v, k, _: te.sum(v, axis=k))
    norm = along.mapped("T_softmax_norm", lambda i, r: exp[i] / total[r], axis=along.axis)
    return convert_dtype(norm, x.dtype)


@operator("nn.log_softmax", dimension_order=order_of("axis"))
def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return the logarithm of `softmax(x, axis)`, without underflow."""
    along = _Along(x, axis)
    largest = along.reduced("T_softmax_maxelem", x, lambda v, k, _: te.max(v, axis=k))
    dtype = along.dtype
    total = along.reduced(
        "T_softmax_expsum",
        x,
        lambda v, k, r: te.sum(te.exp(cast(dtype, v) - cast(dtype, largest[r])), axis=k),
    )
    norm = along.mapped(
        "T_log_softmax",
        lambda i, r: cast(dtype, x[i]) - cast(dtype, largest[r]) - te.log(total[r]),
        axis=along.axis,
    )
    return convert_dtype(norm, x.dtype)


@operator("nn.hardmax", dimension_order=order_of("axis"))
def hardmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return 1 at the first maximum along an axis, 0 elsewhere."""
    along = _Along(x, axis)
    k = te.reduce_axis((0, x.shape[along.axis]), "k")

    def element(*indices: PrimExpr) -> tuple[PrimExpr, ...]:
        place = (*indices[: along.axis], k.var, *indices[along.axis :])
        return place_of_best(True, False)((cast("int64", k.var), x[place]), axis=k)

    index, _ = te.compute(along.rest, element, name="T_argmax")
    one, zero = const(1, x.dtype), const(0, x.dtype)
    return along.mapped(
        "T_hardmax",
        lambda i, r: te.Select(
            compare(EQ, cast("int64", i[along.axis]), index[r]), one, zero
        ),
    )  # fmt: skip


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
        return convert_dtype(losses, predictions.dtype)
    total = _total(losses)
    if reduction == "mean":
        divisor = _total(te.compute(targets.shape, weight, name="nll_weight"))
        return convert_dtype(_quotient(total, divisor), predictions.dtype)
    return convert_dtype(total, predictions.dtype)


@operator("nn.cross_entropy_with_logits")
def cross_entropy_with_logits(predictions: Tensor, labels: Tensor) -> Tensor:
    """Return the sum of `-predictions * labels`; for matrices, divided by the first extent."""
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
    total = _total(terms)
    count = predictions.shape[0] if predictions.ndim > 1 else as_expr(1)
    mean = te.compute((), lambda: div(total(), cast(dtype, count)), name="cross_entropy_mean")
    return convert_dtype(mean, predictions.dtype)


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


def _total(x: Tensor) -> Tensor:
    """Return the sum of all elements."""
    return sum_of(x) if x.ndim else x
