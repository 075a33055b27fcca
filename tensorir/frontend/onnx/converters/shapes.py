"""Operators that change shapes: reshape, squeeze, expand, split, tile, slice."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add, mul

from tensorir.arith import Analyzer
from tensorir.errors import IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator, onnx_operators
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import floordiv
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr, ShapeExpr
from tensorir.topi.extents import extent_text, is_number


@onnx_operator("Reshape")
def reshape(
    node: OnnxNode, x: GraphExpr, target: GraphExpr | None = None, *,
    shape: Sequence[int] | None = None, allowzero: int = 0,
) -> GraphExpr:  # fmt: skip
    if target is None:
        if shape is None:
            raise IRValueError("the shape is missing")
        return op.reshape(x, ShapeExpr(_resolve_shape(node, x, shape, bool(allowzero))))
    if node.contents(target) is None:
        # The numbers may include -1 and 0, which the model resolves when it runs.
        target = node.emit(op.reshape_target(target, node.shape(x), allowzero=bool(allowzero)))
        return op.reshape(x, node.integers(target, "the shape"))
    wanted = _resolve_shape(node, x, node.integers(target, "the shape"), bool(allowzero))
    return op.reshape(x, ShapeExpr(wanted))


def _resolve_shape(
    node: OnnxNode, x: GraphExpr, target: Sequence[int | PrimExpr], allow_zero: bool
) -> list[int | PrimExpr]:
    """Return a shape with -1 (the remaining size) and 0 (the input's size) replaced by sizes."""
    own = node.shape(x)
    result = list(target)
    for k, extent in enumerate(result):
        if isinstance(extent, int) and extent == 0 and not allow_zero:
            if k >= len(own):
                raise IRValueError(f"the shape has 0 for dimension {k} of {len(own)}")
            result[k] = own[k]
    open_ = [k for k, extent in enumerate(result) if isinstance(extent, int) and extent == -1]
    if len(open_) > 1:
        raise IRValueError(f"the shape has -1 more than once: {list(target)}")
    if open_:
        rest = [extent for k, extent in enumerate(result) if k not in open_]
        result[open_[0]] = _quotient(own, rest)
    return result


def _quotient(whole: Sequence[PrimExpr], parts: Sequence[int | PrimExpr]) -> PrimExpr:
    """Return one product of sizes divided by another; common factors cancel."""
    rest, divisors = list(whole), list[int | PrimExpr]()
    analyzer = Analyzer()
    for part in parts:
        for k, extent in enumerate(rest):
            if analyzer.can_prove_equal(extent, part):
                del rest[k]
                break
        else:
            divisors.append(part)
    return analyzer.simplify(floordiv(_product(rest), _product(divisors)))


def _product(extents: Sequence[int | PrimExpr]) -> PrimExpr | int:
    return reduce(mul, extents, 1)


@onnx_operator("Flatten")
def flatten(node: OnnxNode, x: GraphExpr, *, axis: int = 1) -> GraphExpr:
    own = node.shape(x)
    split = axis + len(own) if axis < 0 else axis
    if not 0 <= split <= len(own):
        raise IRValueError(f"the axis {axis} is not one of {len(own)} dimension(s)")
    return op.reshape(x, ShapeExpr([_product(own[:split]), _product(own[split:])]))


@onnx_operator("Squeeze")
def squeeze(
    node: OnnxNode, x: GraphExpr, places: GraphExpr | None = None, *,
    axes: Sequence[int] | None = None,
) -> GraphExpr:  # fmt: skip
    if places is not None:
        if node.contents(places) is None:
            return node.emit(op.squeeze_at(x, places))
        axes = node.known_integers(places, "axes")
    return op.squeeze(x, axes)


@onnx_operator("Unsqueeze")
def unsqueeze(
    node: OnnxNode, x: GraphExpr, places: GraphExpr | None = None, *,
    axes: Sequence[int] | None = None,
) -> GraphExpr:  # fmt: skip
    if places is not None:
        if node.contents(places) is None:
            return node.emit(op.expand_dims_at(x, places))
        axes = node.known_integers(places, "axes")
    if axes is None:
        raise IRValueError("axes are missing")
    rank = node.rank(x) + len(axes)
    return op.expand_dims(x, sorted(node.axis(axis, rank) for axis in axes))


@onnx_operator("Expand")
def expand(node: OnnxNode, x: GraphExpr, shape: GraphExpr) -> GraphExpr:
    if node.contents(shape) is None:
        # The model checks when it runs that `x` broadcasts to the shape.
        shape = node.emit(op.broadcast_target(shape, node.shape(x)))
    wanted = node.integers(shape, "the shape")
    own: list[int | PrimExpr] = [1] * (len(wanted) - node.rank(x))
    own += node.shape(x)
    wanted = [*[1] * (len(own) - len(wanted)), *wanted]
    target = []
    for have, target_extent in zip(own, wanted, strict=True):
        # A size that may differ from 1 is assumed to be kept, or to equal the constant in the
        # target shape.
        is_requested = (
            isinstance(target_extent, int) and target_extent != 1 and not isinstance(have, IntImm)
        )
        target.append(target_extent if is_requested or is_number(have, 1) else have)
    return op.broadcast_to(node.broadcast_to(x, target[len(target) - node.rank(x) :]), target)


@onnx_operator("Split")
def split(
    node: OnnxNode, x: GraphExpr, sizes: GraphExpr | None = None, *,
    axis: int = 0, split: Sequence[int] | None = None, num_outputs: int | None = None,
) -> list[GraphExpr]:  # fmt: skip
    place = node.axis(axis, node.rank(x))
    parts: list[int | PrimExpr]
    if sizes is not None:
        parts = node.integers(sizes, "the lengths")
    elif split is not None:
        parts = list(split)
    else:
        count = len(node.outputs) if num_outputs is None else num_outputs
        if count != len(node.outputs):
            raise IRValueError(
                f"num_outputs must be the number of outputs, {len(node.outputs)}, got {count}"
            )
        whole = node.extent(x, place)
        length = Analyzer().simplify(floordiv(whole + (count - 1), count))
        parts = [length] * (count - 1)
        parts.append(Analyzer().simplify(whole - length * (count - 1)))
    return parts_of(node, x, place, parts)


def parts_of(
    node: OnnxNode, x: GraphExpr, axis: int, lengths: Sequence[int | PrimExpr]
) -> list[GraphExpr]:
    """Return the parts of these lengths along an axis, each as a separate value.

    An unused part gets no kernel. Raises IRValueError if the lengths do not sum to the extent; the
    model checks the sum of symbolic lengths when it runs.
    """
    _check_lengths(node.extent(x, axis), lengths)
    x = node.with_extent(x, axis, reduce(add, lengths or [0]))
    if len(lengths) == 1:
        return [x]
    result: list[GraphExpr] = []
    start: int | PrimExpr = 0
    for length in lengths:
        end = Analyzer().simplify(start + length)
        result.append(op.strided_slice(x, [axis], [start], [end], assume_inbound=True))
        start = end
    return result


def _check_lengths(whole: PrimExpr, parts: Sequence[int | PrimExpr]) -> None:
    """Raise IRValueError if the lengths of parts are known and their sum is not the whole."""
    known = [n.value if isinstance(n, IntImm) else n for n in parts]
    numbers = [n for n in known if isinstance(n, int)]
    wrong = isinstance(whole, IntImm) and len(numbers) == len(known) and sum(numbers) != whole.value
    if wrong or min(numbers, default=0) < 0:
        raise IRValueError(
            f"parts of lengths {known} do not make up an axis of {extent_text(whole)}"
        )


@onnx_operator("Tile")
def tile(node: OnnxNode, x: GraphExpr, repeats: GraphExpr) -> GraphExpr:
    times = node.integers(repeats, "repeats")
    own = node.shape(x)
    node.check_shape([*own[len(times) :], *_products(own, times)], x)
    return op.tile(x, times)


def _products(
    extents: Sequence[PrimExpr], factors: Sequence[int | PrimExpr]
) -> list[int | PrimExpr]:
    """Return products of extents and factors; exact integers where both are known."""
    return [
        n.value * k if isinstance(n, IntImm) and isinstance(k, int) else n
        for n, k in zip(extents, factors, strict=False)
    ]


@onnx_operator("Slice")
def slice_(
    node: OnnxNode, x: GraphExpr, begin: GraphExpr | None = None, end: GraphExpr | None = None,
    places: GraphExpr | None = None, steps: GraphExpr | None = None, *,
    starts: Sequence[int] | None = None, ends: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> GraphExpr:  # fmt: skip
    if any(v is not None and node.contents(v) is None for v in (places, steps)):
        return node.emit(op.slice_at(x, begin, end, places, steps))
    if places is not None:
        axes = node.known_integers(places, "axes")
    own = node.shape(x)
    chosen = list(range(len(own))) if axes is None else [node.axis(a, len(own)) for a in axes]
    stride = [1] * len(chosen) if steps is None else node.known_integers(steps, "steps")
    is_known = all(v is None or node.contents(v) is not None for v in (begin, end))
    if begin is not None and end is not None and not is_known:
        # The numbers may be negative or out of range, which the model resolves when it runs.
        bounds = node.emit(op.slice_bounds(begin, end, [own[a] for a in chosen], stride))
        numbers = node.integers(bounds, "starts and ends")
        first, last = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
        inbound = True
    else:
        first = list(starts or ()) if begin is None else node.integers(begin, "starts")
        last = list(ends or ()) if end is None else node.integers(end, "ends")
        inbound = False
    count = len(first)
    return op.strided_slice(x, chosen[:count], first, last, stride[:count], assume_inbound=inbound)


onnx_operators(
    {
        "Shape": lambda node, x, *, start=0, end=None: node.known.integer_tensor(
            node.shape(x)[start:end]
        ),
        "Size": lambda node, x: op.prod(node.known.integer_tensor(node.shape(x))),
        "Transpose": lambda node, x, *, perm=None: op.permute_dims(x, perm),
        "Concat": lambda node, first, *others, axis=1: op.concat(
            node.equal_except([first, *others], axis), axis
        ),
        "DepthToSpace": lambda node, x, *, blocksize, mode="DCR": op.nn.depth_to_space(
            x, blocksize, mode=mode
        ),
        "SpaceToDepth": lambda node, x, *, blocksize, mode="DCR": op.nn.space_to_depth(
            x, blocksize, mode=mode
        ),
        "ReverseSequence": lambda node, x, lengths, *, batch_axis=1, time_axis=0: (
            op.reverse_sequence(x, lengths, time_axis, batch_axis)
        ),
    }
)
