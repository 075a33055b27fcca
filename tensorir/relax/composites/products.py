"""Linear layers, outer products and Einstein's equations (`bij,bjk->bik`); batch normalisation."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Final

from tensorir.errors import IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.relax import op
from tensorir.relax.declaration import composite, dtype_of, rank_of
from tensorir.relax.expr import GraphExpr, Tuple, const_of
from tensorir.topi.broadcast import sum_dtype

_TERM: Final = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*\Z")


@composite("linear")
def linear(
    data: GraphExpr,
    weight: GraphExpr,
    bias: GraphExpr | None = None,
    out_dtype: str | None = None,
) -> GraphExpr:
    """Return `data @ weight.T + bias`; a constant weight is transposed when a model is built."""
    turned = weight if rank_of(weight) == 1 else op.permute_dims(weight)
    product = op.matmul(data, turned, out_dtype=out_dtype)
    return product if bias is None else op.add(product, bias)


@composite("outer")
def outer(x1: GraphExpr, x2: GraphExpr) -> GraphExpr:
    """Return the outer product of two vectors."""
    return op.expand_dims(x1, 1) * op.expand_dims(x2, 0)


@composite("einsum")
def einsum(operands: Sequence[GraphExpr], subscripts: str) -> GraphExpr:
    """Return the sums of products that an equation defines, as `numpy.einsum` does.

    Each dimension of an operand has a letter, and `...` are the leading dimensions without one.
    Without `->` the result has the letters that occur once, in alphabetical order. Operands are
    combined pairwise from left to right; a letter is summed as soon as no later operand or result
    has it.
    """
    inputs, output = _explicit_subscripts([rank_of(value) for value in operands], subscripts)
    values = list(operands)
    while len(values) > 2:
        later = set("".join(inputs[2:]) + output)
        kept = "".join(dict.fromkeys(c for c in inputs[0] + inputs[1] if c in later))
        values[:2] = [op.contract(values[:2], f"{inputs[0]},{inputs[1]}->{kept}")]
        inputs[:2] = [kept]
    return op.contract(values, f"{','.join(inputs)}->{output}")


def _explicit_subscripts(ranks: Sequence[int], subscripts: str) -> tuple[list[str], str]:
    """Return the letters of the operands and of the result, without `...`.

    Raises IRValueError for an equation that does not match the operands.
    """
    given, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = given.split(",")
    if not all(map(_TERM.match, [*terms, output])):
        raise IRValueError(f"{subscripts!r} is not an equation such as 'ij,jk->ik'")
    if len(terms) != len(ranks):
        raise IRValueError(f"{subscripts!r} needs {len(terms)} operand(s), got {len(ranks)}")
    unused = [c for c in string.ascii_letters if c not in subscripts]
    most = max((r - len(t) + 3 for t, r in zip(terms, ranks, strict=True) if "..." in t), default=0)
    dots = "".join(unused[:most])
    inputs = []
    for term, rank in zip(terms, ranks, strict=True):
        count = rank - len(term) + 3 if "..." in term else 0
        if count < 0 or ("..." not in term and len(term) != rank):
            raise IRValueError(f"{term!r} of {subscripts!r} does not fit {rank} dimension(s)")
        inputs.append(term.replace("...", dots[len(dots) - count :]))
    if not arrow:
        counts = Counter("".join(inputs))
        alone = sorted(c for c, n in counts.items() if n == 1 and c not in dots)
        return inputs, dots + "".join(alone)
    output = output.replace("...", dots)
    for letter in output:
        if letter not in "".join(inputs) or output.count(letter) > 1:
            raise IRValueError(f"the result of {subscripts!r} cannot have {letter!r}")
    return inputs, output


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
