"""`te.compute`: a tensor defined by an expression of its indices."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, overload

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import BufferLoad, ExprLike, IntImm, IterVar, PrimExpr, Reduce, Var
from tensorir.nodes.ops import as_expr
from tensorir.rewriting.visit import walk
from tensorir.te.tensor import ComputeOp, PlaceholderOp, ShapeLike, Tensor, as_shape


@overload
def compute(
    shape: ShapeLike,
    fcompute: Callable[..., ExprLike],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Tensor: ...
@overload
def compute(
    shape: ShapeLike,
    fcompute: Callable[..., Sequence[ExprLike]],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> tuple[Tensor, ...]: ...
def compute(
    shape: ShapeLike,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Return the tensor whose element at `i, j, ...` is `fcompute(i, j, ...)`.

    The axes are named after the parameters of `fcompute`; the axes of `*args` are `i0`, `i1`, ...
    or `varargs_names`. If `fcompute` returns a tuple of expressions, the result is a tuple of
    tensors. A reduction must be the whole expression. `attrs` become annotations of the block;
    `tag` is accepted for compatibility and ignored.

    Raises IRValueError if the number of axes is not the rank, or for a reduction inside of an
    expression. Raises IRTypeError for a function with default, keyword-only or `**` parameters.
    """
    del tag
    dims = as_shape(shape, name)
    names = _axis_names(fcompute, len(dims), name, varargs_names)
    axes = [
        IterVar(Range(dim), Var(axis, dim.dtype), IterVar.DATA_PAR)
        for axis, dim in zip(names, dims, strict=True)
    ]
    takes_axes = bool(inspect.signature(fcompute).parameters)
    value = fcompute(*(axis.var for axis in axes)) if takes_axes else fcompute()
    body = [as_expr(part) for part in (value if isinstance(value, (tuple, list)) else (value,))]
    op = ComputeOp(name, axes, _reduce_axes(body, name), body, attrs)
    op.set_outputs([dims] * len(body), [part.dtype for part in body])
    return op.outputs if isinstance(value, (tuple, list)) else op.outputs[0]


@contextmanager
def tag_scope(tag: str) -> Iterator[None]:
    """Accept a tag for operations and ignore it, for compatibility.

    It can be used in `with` and as a decorator. Schedules find blocks by name.
    """
    del tag
    yield


def _axis_names(
    fcompute: Callable[..., Any], rank: int, name: str, varargs_names: Sequence[str] | None
) -> list[str]:
    parameters = inspect.signature(fcompute).parameters.values()
    named = []
    variadic = not parameters
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            variadic = True
        elif parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            raise IRTypeError(
                f"the function of te.compute {name!r} takes {parameter}, "
                "but indices are passed by position"
            )
        elif parameter.default is not parameter.empty:
            raise IRTypeError(
                f"parameter {parameter.name} of the function of te.compute {name!r} has a default, "
                "but takes an index"
            )
        else:
            named.append(parameter.name)
    rest = rank - len(named)
    if rest < 0 or (rest > 0 and not variadic):
        raise IRValueError(
            f"te.compute {name!r} has {rank} dimension(s), "
            f"its function takes {len(named)} index(es)"
        )
    if varargs_names is None:
        return [*named, *(f"i{k}" for k in range(rest))]
    if len(varargs_names) != rest:
        raise IRValueError(
            f"te.compute {name!r} has {len(varargs_names)} varargs_names "
            f"for {rest} remaining dimension(s)"
        )
    return [*named, *varargs_names]


def _reduce_axes(body: Sequence[PrimExpr], name: str) -> tuple[IterVar, ...]:
    """Return the axes that the expressions reduce over; reductions must be outermost."""
    for part in body:
        for node in walk(part):
            if isinstance(node, Reduce) and node is not part:
                raise IRValueError(
                    f"te.compute {name!r} has a reduction inside of an expression; compute the "
                    "reduction as a separate tensor, and use that tensor"
                )
    reductions = [part for part in body if isinstance(part, Reduce)]
    if not reductions:
        return ()
    first = reductions[0]
    together = len(reductions) == len(body) == len(first.source) and not any(
        part.combiner is not first.combiner
        or part.source is not first.source
        or part.condition is not first.condition
        or part.value_index != k
        for k, part in enumerate(reductions)
    )
    if not together:
        raise IRValueError(
            f"the outputs of te.compute {name!r} must be all components of one reduction, in "
            f"order, or no reductions; it has {len(body)} output(s), {len(reductions)} of them "
            f"reductions, and the first of those has {len(first.source)} component(s)"
        )
    return first.axis


def maps_elements(outputs: Sequence[Tensor]) -> bool:
    """Return True if each element depends only on the inputs' elements at the same indices.

    An input may broadcast: it may lack leading dimensions, and index 0 reads a dimension of extent
    1.
    """
    return all(map(_maps_tensor, outputs))


def _maps_tensor(tensor: Tensor) -> bool:
    op = tensor.op
    if isinstance(op, PlaceholderOp):
        return True
    if not isinstance(op, ComputeOp) or op.reduces:
        return False
    axes = [axis.var for axis in op.axis]
    loads = [node for part in op.body for node in walk(part) if isinstance(node, BufferLoad)]
    if not all(isinstance(load.buffer, Tensor) and _is_same_place(load, axes) for load in loads):
        return False
    # If an axis is used other than as an index, an element depends on its position.
    indices = sum(index is axis for load in loads for index in load.indices for axis in axes)
    uses = sum(node is axis for part in op.body for node in walk(part) for axis in axes)
    return indices == uses and all(map(_maps_tensor, op.inputs))


def _is_same_place(load: BufferLoad, axes: Sequence[PrimExpr]) -> bool:
    own = axes[len(axes) - len(load.indices) :]
    if len(load.indices) > len(axes):
        return False
    return all(
        index is axis or (isinstance(index, IntImm) and index.value == 0)
        for index, axis in zip(load.indices, own, strict=True)
    )
