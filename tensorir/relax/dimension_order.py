"""Rules that adapt operators to tensors with dimensions in another order.

An operator whose attributes name dimensions declares the rule:

    @operator("concat", dimension_order=axes("axis"))
    @operator("nn.max_pool2d", dimension_order=layout("layout"))

`transform.ConvertLayout` then makes the operator compute in the dimension order of its operands.
`order` has the dimensions in memory order: `(0, 2, 3, 1)` for channels last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from tensorir.relax.struct_info import TensorStructInfo, TupleStructInfo

if TYPE_CHECKING:
    from tensorir.relax.expr import GraphCall

DimensionOrder: TypeAlias = "Callable[[GraphCall, tuple[int, ...]], Mapping[str, Any] | None]"
"""Returns the attributes of a call for operands in an order; the result has the same order.

A result of another rank is in its natural order.

Returns None if the call needs operands in the natural order.
"""


def axes(name: str) -> DimensionOrder:
    """Return the rule for an attribute that names one or several dimensions.

    The dimensions keep their order in the attribute, because other arguments may correspond to
    them. The result must have the rank of the first operand, or lack the named dimensions and have
    the rest in natural order, as for a mean over an image with channels last.
    """

    def rule(call: GraphCall, order: tuple[int, ...]) -> Mapping[str, Any] | None:
        given = call.attrs[name]
        if given is None:
            return None
        if not _has_rank(call, len(order)):
            named = {given} if isinstance(given, int) else set(given)
            kept = [k for k in order if k not in {axis % len(order) for axis in named}]
            if kept != sorted(kept) or not _has_rank(call, len(kept)):
                return None
        if isinstance(given, int):
            return {name: order.index(given % len(order))}
        return {name: tuple(order.index(axis % len(order)) for axis in given)}

    return rule


def per_dimension(name: str) -> DimensionOrder:
    """Return the rule for an attribute with the same number of values for each dimension."""

    def rule(call: GraphCall, order: tuple[int, ...]) -> Mapping[str, Any] | None:
        given = call.attrs[name]
        count = len(given) // len(order)
        if count * len(order) != len(given) or not _has_rank(call, len(order)):
            return None
        return {name: tuple(v for k in order for v in given[k * count : (k + 1) * count])}

    return rule


def layout(name: str) -> DimensionOrder:
    """Return the rule for an attribute of letters such as `NCHW`."""

    def rule(call: GraphCall, order: tuple[int, ...]) -> Mapping[str, Any] | None:
        given = call.attrs[name]
        if len(given) != len(order):
            return None
        return {name: "".join(given[k] for k in order)}

    return rule


def _has_rank(call: GraphCall, rank: int) -> bool:
    info = call.struct_info
    fields = info.elements if isinstance(info, TupleStructInfo) else (info,)
    return all(isinstance(field, TensorStructInfo) and field.ndim == rank for field in fields)
