"""Batch normalisation."""

from __future__ import annotations

from tensorir.errors import IRValueError
from tensorir.relax import op
from tensorir.relax.composites.operand_shapes import dtype_of, rank_of
from tensorir.relax.declaration import composite
from tensorir.relax.expr import GraphExpr, Tuple, const_of


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

    Statistics and weights have a number for each place along an axis. In `training` they are those
    of the data, and the moving ones, of which a share `momentum` is replaced, are returned.
    Otherwise what is constant comes together as one factor and one summand for each channel.
    """
    rank = rank_of(data)
    if not -rank <= axis < rank:
        raise IRValueError(f"axis {axis} is not among those of {rank} dimension(s)")
    along = axis % rank
    mean, variance = moving_mean, moving_var
    if training:
        others = [k for k in range(rank) if k != along]
        mean, variance = op.mean(data, others), op.variance(data, others)
        moving_mean = _moved(moving_mean, mean, momentum)
        moving_var = _moved(moving_var, variance, momentum)
    dtype = dtype_of(mean)
    factor = op.rsqrt(op.add(variance, const_of(epsilon, dtype)))
    if scale and gamma is not None:
        factor = op.multiply(gamma, factor)
    summand = op.negative(op.multiply(mean, factor))
    if center and beta is not None:
        summand = op.add(beta, summand)
    behind = list(range(1, rank - along))
    if behind:
        factor, summand = op.expand_dims(factor, axis=behind), op.expand_dims(summand, axis=behind)
    kind = dtype_of(data)
    if kind is not dtype:
        wide = op.astype(data, dtype=dtype)
        result = op.astype(op.add(op.multiply(wide, factor), summand), dtype=kind)
    else:
        result = op.add(op.multiply(data, factor), summand)
    return Tuple([result, moving_mean, moving_var])


def _moved(old: GraphExpr, new: GraphExpr, momentum: float) -> GraphExpr:
    dtype = dtype_of(old)
    return op.add(
        op.multiply(old, const_of(1 - momentum, dtype)),
        op.multiply(op.astype(new, dtype=dtype), const_of(momentum, dtype)),
    )
