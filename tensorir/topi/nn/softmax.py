"""Softmax and its relatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorir import te
from tensorir.nodes.expr import EQ, IterVar, PrimExpr
from tensorir.nodes.ops import cast, compare, const
from tensorir.relax.declaration import operator
from tensorir.relax.dimension_order import axes as order_of
from tensorir.te.extrema import place_of_best
from tensorir.te.tensor import Tensor
from tensorir.topi.accumulation import rounded, sum_dtype
from tensorir.topi.extents import axis_of, check_floats


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
    return rounded(norm, x.dtype)


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
    return rounded(norm, x.dtype)


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
