"""Layers that differ in training and inference: batch normalisation and dropout."""

from __future__ import annotations

from tensorir.errors import IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.relax import op
from tensorir.relax.declaration import composite, dtype_of, rank_of
from tensorir.relax.expr import GraphExpr, Tuple, const_of
from tensorir.topi.broadcast import sum_dtype


@composite("nn.batch_norm")
def batch_norm(
    data: GraphExpr,
    gamma: GraphExpr | None,
    beta: GraphExpr | None,
    moving_mean: GraphExpr,
    moving_var: GraphExpr,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    momentum: float = 0.1,
    training: bool = False,
) -> Tuple:
    """Return `(data - mean) / sqrt(variance + epsilon) * gamma + beta`, and mean and variance.

    Statistics and weights have one number for each position along an axis. With `training`, the
    statistics of the data are used, and the returned moving statistics are updated by the fraction
    `momentum`. Otherwise the constants are folded into one factor and one summand for each channel;
    these are computed in the dtype of the mean, or in float32 for float16 and bfloat16.
    """
    rank = rank_of(data)
    if not -rank <= axis < rank:
        raise IRValueError(f"axis {axis} is out of range for {rank} dimension(s)")
    along = axis % rank
    mean, variance = moving_mean, moving_var
    if training:
        others = [k for k in range(rank) if k != along]
        mean, variance = op.mean(data, others), op.variance(data, others)
        moving_mean = _move_axis(moving_mean, mean, momentum)
        moving_var = _move_axis(moving_var, variance, momentum)
    dtype = sum_dtype(dtype_of(mean))
    factor = op.rsqrt(op.add(_cast_to(variance, dtype), const_of(epsilon, dtype)))
    if scale and gamma is not None:
        factor = op.multiply(_cast_to(gamma, dtype), factor)
    summand = op.negative(op.multiply(_cast_to(mean, dtype), factor))
    if center and beta is not None:
        summand = op.add(_cast_to(beta, dtype), summand)
    behind = list(range(1, rank - along))
    if behind:
        factor, summand = op.expand_dims(factor, axis=behind), op.expand_dims(summand, axis=behind)
    result = op.add(op.multiply(_cast_to(data, dtype), factor), summand)
    return Tuple([_cast_to(result, dtype_of(data)), moving_mean, moving_var])


def _cast_to(value: GraphExpr, dtype: DataType) -> GraphExpr:
    """Return a value converted to a dtype; itself if it has this dtype."""
    return value if dtype_of(value) is dtype else op.astype(value, dtype=dtype)


def _move_axis(old: GraphExpr, new: GraphExpr, momentum: float) -> GraphExpr:
    dtype = dtype_of(old)
    return op.add(
        op.multiply(old, const_of(1 - momentum, dtype)),
        op.multiply(op.astype(new, dtype=dtype), const_of(momentum, dtype)),
    )


@composite("nn.dropout")
def dropout(x: GraphExpr, rate: float = 0.5) -> GraphExpr:
    """Return `x` unchanged, as in inference."""
    del rate
    return x
