"""The integers that are known while a model is read.

The contents of a value are an array: of numbers if all are known, otherwise of objects, which are
integers and integer expressions over symbolic sizes. The operators that models use to compute
shapes are functions of such arrays here, the same for both kinds. A function that cannot compute
its result returns None, and the node is converted to run with the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tensorir.arith import Analyzer
from tensorir.errors import IRValueError
from tensorir.frontend.onnx.limits import ImportLimits
from tensorir.nodes import ops
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import EQ, LE, LT, IntImm, PrimExpr

Array: TypeAlias = NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])


class UndecidedError(Exception):
    """The result depends on sizes that are known only when the model runs."""


class Fold:
    """The node whose contents are computed: its attributes, and the known facts about sizes."""

    def __init__(
        self,
        opset: int,
        attributes: Mapping[str, Any],
        analyzer: Analyzer,
        limits: ImportLimits,
    ) -> None:
        self.opset = opset
        self.attributes = attributes
        self.analyzer = analyzer
        self.limits = limits

    def attribute(self, name: str, default: Any) -> Any:
        """Return an attribute."""
        return self.attributes.get(name, default)

    def axes(self, given: Array | None, rank: int) -> list[int]:
        """Return axes from an input or an attribute, counted from the front; default: all."""
        axes = self.attribute("axes", None) if given is None else known_integers(given)
        return [axis(a, rank) for a in (range(rank) if axes is None else axes)]

    def truth(self, condition: PrimExpr | bool) -> bool:
        """Return True if a condition holds for all sizes; UndecidedError if it depends on them."""
        if not isinstance(condition, PrimExpr):
            return bool(condition)
        if self.analyzer.can_prove(condition):
            return True
        if self.analyzer.can_prove(ops.logical_not(condition)):
            return False
        raise UndecidedError

    def simplified(self, array: Array) -> Array:
        """Return contents with simple expressions; numbers if all are known.

        Raises UndecidedError for expressions that are too long and for numbers beyond 64 bits.
        """
        if array.dtype != object:
            return array
        self._check_terms(array)
        result = np.empty(array.shape, object)
        for place, value in np.ndenumerate(array):
            result[place] = self._simplified(value)
        self._check_terms(result)
        if all(isinstance(value, int) for value in result.flat):
            return result.astype(np.int64)
        return result

    def _check_terms(self, array: Array) -> None:
        if not self.limits.has_few_terms(array.ravel()):
            raise UndecidedError
        if any(isinstance(n, int) and not _LEAST <= n < -_LEAST for n in array.flat):
            raise UndecidedError

    def small(self, *shape: int) -> None:
        """Raise UndecidedError if an array of this shape has too many elements to compute.

        An extent below 1 counts as 1, because NumPy broadcasts one axis after the other.
        """
        if math.prod(max(n, 1) for n in shape) > self.limits.max_known_elements:
            raise UndecidedError

    def _simplified(self, value: Any) -> Any:
        if not isinstance(value, PrimExpr):
            return value
        simple = self.analyzer.simplify(value)
        return simple.value if isinstance(simple, IntImm) else simple


def known_integers(array: Array) -> list[int]:
    """Return integers that are known; UndecidedError if they depend on sizes."""
    if array.dtype == object:
        raise UndecidedError
    return [int(n) for n in array.reshape(-1)]


def axis(value: int, rank: int) -> int:
    """Return an axis counted from the front; IRValueError if it is out of range."""
    if not -rank <= value < rank:
        raise IRValueError(f"the axis {value} is not one of {rank} dimension(s)")
    return value % rank


def as_array(values: Sequence[Any]) -> Array:
    """Return a list of integers and expressions as contents."""
    plain = [v.value if isinstance(v, IntImm) else v for v in values]
    if all(isinstance(v, (int, np.integer)) for v in plain):
        return np.array(plain, np.int64)
    result = np.empty(len(plain), object)
    result[:] = plain
    return result


_LEAST: Final = -(1 << 63)

_FOLDS: Final[dict[str, Callable[..., Any]]] = {}


def fold(name: str, state: Fold, inputs: Sequence[Array | None]) -> list[Array] | None:
    """Return the contents of the outputs of a standard operator; None if they are not known."""
    function = _FOLDS.get(name)
    if function is None or _lacks_input(function, inputs):
        return None
    try:
        state.small(sum(a.size for a in inputs if a is not None))
        with np.errstate(all="ignore"):
            result = function(state, *inputs)
        results = result if isinstance(result, list) else [result]
        return [state.simplified(np.asarray(array)) for array in results]
    except (UndecidedError, OverflowError):
        return None
    except (IndexError, TypeError, ValueError) as error:
        raise IRValueError(f"the operands do not match: {error}") from error


def _lacks_input(function: Callable[..., Any], inputs: Sequence[Array | None]) -> bool:
    """Return True if a required input is missing, which the operator's converter rejects."""
    _, *params = signature(function).parameters.values()
    required = [param.default is Parameter.empty for param in params]
    return any(
        value is None and required[min(k, len(required) - 1)] for k, value in enumerate(inputs)
    )


def _folds(*names: str) -> Callable[[F], F]:
    def register(function: F) -> F:
        for name in names:
            _FOLDS[name] = function
        return function

    return register


def _objects(array: Array) -> Array:
    return array.astype(object)


def _shape(state: Fold, values: Array) -> list[int]:
    sizes = known_integers(values)
    state.small(*sizes)
    return sizes


# -------------------------------------------------------------------------------------- arithmetic


def _elementwise(
    numbers: Callable[..., Any], symbols: Callable[..., Any] | None
) -> Callable[..., Any]:
    """Return a function that handles arrays of numbers, and arrays of objects one by one."""

    def function(state: Fold, *inputs: Array) -> Any:
        shape = np.broadcast_shapes(*(array.shape for array in inputs))
        state.small(*shape)
        if all(array.dtype != object for array in inputs):
            return numbers(*inputs)
        if symbols is None or math.prod(shape) > state.limits.max_terms:
            raise UndecidedError
        stretched = np.broadcast_arrays(*map(_objects, inputs))
        result = np.empty(shape, object)
        for place in np.ndindex(shape):
            result[place] = symbols(state, *(_element(array[place]) for array in stretched))
        is_truth = all(isinstance(value, bool) for value in result.flat)
        return result.astype(bool) if is_truth and result.size else result

    return function


def _element(value: Any) -> Any:
    if isinstance(value, float):
        raise UndecidedError  # sizes are integers
    return value


def _divided(a: Array, b: Array) -> Array:
    if not np.issubdtype(a.dtype, np.integer):
        return a / b
    if np.any(b == 0):
        raise UndecidedError  # the operator itself defines the result
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient).astype(a.dtype)


def _symbol_divided(state: Fold, a: Any, b: Any) -> Any:
    if isinstance(b, int) and b == 0:
        raise UndecidedError
    state_a, state_b = ops.as_expr(a), ops.as_expr(b)
    positive = state.analyzer.can_prove(state_a >= 0) and state.analyzer.can_prove(state_b > 0)
    return ops.floordiv(a, b) if positive else ops.truncdiv(*map(_wide, (a, b)))


def _wide(value: Any) -> PrimExpr:
    return ops.const(value, INT64) if isinstance(value, int) else value


def _modulo(state: Fold, a: Array, b: Array) -> Any:
    return np.fmod(a, b) if state.attribute("fmod", 0) else np.mod(a, b)


_FOLDS.update(
    Add=_elementwise(np.add, lambda s, a, b: a + b),
    Sub=_elementwise(np.subtract, lambda s, a, b: a - b),
    Mul=_elementwise(np.multiply, lambda s, a, b: a * b),
    Div=_elementwise(_divided, _symbol_divided),
    Neg=_elementwise(np.negative, lambda s, a: -a),
    Abs=_elementwise(np.abs, lambda s, a: ops.max_(a, -a)),
    Sign=_elementwise(np.sign, None),
    Floor=_elementwise(np.floor, None),
    Ceil=_elementwise(np.ceil, None),
    Round=_elementwise(np.rint, None),
    Sqrt=_elementwise(np.sqrt, None),
    Reciprocal=_elementwise(np.reciprocal, None),
    Pow=_elementwise(lambda a, b: np.power(a, b).astype(a.dtype), None),
    Equal=_elementwise(np.equal, lambda s, a, b: s.truth(ops.compare(EQ, _wide(a), _wide(b)))),
    Less=_elementwise(np.less, lambda s, a, b: s.truth(ops.compare(LT, _wide(a), _wide(b)))),
    Greater=_elementwise(np.greater, lambda s, a, b: s.truth(ops.compare(LT, _wide(b), _wide(a)))),
    LessOrEqual=_elementwise(
        np.less_equal, lambda s, a, b: s.truth(ops.compare(LE, _wide(a), _wide(b)))
    ),
    GreaterOrEqual=_elementwise(
        np.greater_equal, lambda s, a, b: s.truth(ops.compare(LE, _wide(b), _wide(a)))
    ),
    And=_elementwise(np.logical_and, None),
    Or=_elementwise(np.logical_or, None),
    Xor=_elementwise(np.logical_xor, None),
    Not=_elementwise(np.logical_not, None),
)


@_folds("Mod")
def _mod(state: Fold, a: Array, b: Array) -> Any:
    if a.dtype != object and b.dtype != object:
        if np.any(b == 0):
            raise UndecidedError
        return _modulo(state, a, b)
    return _elementwise(np.mod, lambda s, x, y: ops.floormod(x, y))(state, a, b)


@_folds("Max")
def _max(state: Fold, *inputs: Array) -> Any:
    result = inputs[0]
    for other in inputs[1:]:
        result = _elementwise(np.maximum, lambda s, a, b: ops.max_(a, b))(state, result, other)
    return result


@_folds("Min")
def _min(state: Fold, *inputs: Array) -> Any:
    result = inputs[0]
    for other in inputs[1:]:
        result = _elementwise(np.minimum, lambda s, a, b: ops.min_(a, b))(state, result, other)
    return result


@_folds("Where")
def _where(state: Fold, condition: Array, a: Array, b: Array) -> Any:
    if condition.dtype == object:
        raise UndecidedError
    state.small(*np.broadcast_shapes(condition.shape, a.shape, b.shape))
    if a.dtype == b.dtype:
        return np.where(condition, a, b)
    return np.where(condition, _objects(a), _objects(b))


def _reduction(
    numbers: Callable[..., Any], symbols: Callable[[Any, Any], Any]
) -> Callable[..., Any]:
    def function(state: Fold, array: Array, axes: Array | None = None) -> Any:
        if axes is not None and axes.size == 0:
            if state.attribute("noop_with_empty_axes", 0):
                return array
            axes = None
        chosen = tuple(state.axes(axes, array.ndim))
        keep = bool(state.attribute("keepdims", 1))
        if array.dtype != object:
            return numbers(array, axis=chosen, keepdims=keep).astype(array.dtype)
        rest = [k for k in range(array.ndim) if k not in chosen]
        kept = [array.shape[k] for k in rest]
        rows = array.transpose([*rest, *chosen]).reshape([*kept, -1])
        if rows.shape[-1] == 0:
            raise UndecidedError
        result = np.empty(kept, object)
        for place in np.ndindex(*kept):
            total = rows[place][0]
            for value in rows[place][1:]:
                total = symbols(total, value)
            result[place] = total
        return np.expand_dims(result, chosen) if keep else result

    return function


_FOLDS.update(
    ReduceSum=_reduction(np.sum, lambda a, b: a + b),
    ReduceProd=_reduction(np.prod, lambda a, b: a * b),
    ReduceMax=_reduction(np.max, ops.max_),
    ReduceMin=_reduction(np.min, ops.min_),
)


@_folds("CumSum")
def _cumsum(state: Fold, array: Array, axis_: Array) -> Any:
    if state.attribute("exclusive", 0) or state.attribute("reverse", 0):
        raise UndecidedError
    (place,) = known_integers(axis_)
    return np.add.accumulate(array, axis(place, array.ndim)).astype(array.dtype)


# -------------------------------------------------------------------------------------------- parts


@_folds("Identity")
def _identity(state: Fold, array: Array) -> Array:
    return array


@_folds("Cast")
def _cast(state: Fold, array: Array) -> Array:
    dtype = state.attribute("to", None)
    if dtype is None:
        raise UndecidedError
    if array.dtype == object:
        if dtype not in ("int64", "int32"):
            raise UndecidedError
        return array
    if dtype in ("bfloat16", "e4m3_float8", "e5m2_float8") or array.dtype.kind not in "iufb":
        raise UndecidedError
    if array.dtype.kind == "f" and np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        if not np.all((array >= limits.min) & (array <= limits.max)):
            raise UndecidedError  # the operator itself defines the result
    return array.astype(dtype)


@_folds("Gather")
def _gather(state: Fold, array: Array, indices: Array) -> Any:
    place = axis(state.attribute("axis", 0), array.ndim)
    known_integers(indices)
    state.small(indices.size, *array.shape[:place], *array.shape[place + 1 :])
    return np.take(array, indices, place)


@_folds("Concat")
def _concat(state: Fold, *arrays: Array) -> Any:
    place = axis(state.attribute("axis", 0), arrays[0].ndim)
    if any(array.dtype == object for array in arrays):
        return np.concatenate([_objects(array) for array in arrays], place)
    return np.concatenate(arrays, place)


@_folds("Slice")
def _slice(
    state: Fold,
    array: Array,
    starts: Array | None = None,
    ends: Array | None = None,
    axes: Array | None = None,
    steps: Array | None = None,
) -> Any:
    begin = state.attribute("starts", ()) if starts is None else known_integers(starts)
    end = state.attribute("ends", ()) if ends is None else known_integers(ends)
    given = axes is not None or "axes" in state.attributes
    chosen = state.axes(axes, array.ndim) if given else range(len(begin))
    step = [1] * len(begin) if steps is None else known_integers(steps)
    places = [slice(None)] * array.ndim
    for k, b, e, s in zip(chosen, begin, end, step, strict=True):
        # A negative end counts from the back in Python; ONNX's lowest number means "to the front".
        places[k] = slice(b, None if s < 0 and e < -array.shape[k] else e, s)
    return array[tuple(places)]


@_folds("Squeeze")
def _squeeze(state: Fold, array: Array, axes: Array | None = None) -> Any:
    if axes is None and "axes" not in state.attributes:
        return np.squeeze(array)
    return np.squeeze(array, tuple(state.axes(axes, array.ndim)))


@_folds("Unsqueeze")
def _unsqueeze(state: Fold, array: Array, axes: Array | None = None) -> Any:
    places = state.attribute("axes", ()) if axes is None else known_integers(axes)
    return np.expand_dims(array, tuple(places))


@_folds("Reshape")
def _reshape(state: Fold, array: Array, shape: Array | None = None) -> Any:
    target = list(state.attribute("shape", ()) if shape is None else known_integers(shape))
    if not state.attribute("allowzero", 0):
        target = [array.shape[k] if n == 0 else n for k, n in enumerate(target)]
    return array.reshape(target)


@_folds("Transpose")
def _transpose(state: Fold, array: Array) -> Any:
    return array.transpose(state.attribute("perm", None))


@_folds("Split")
def _split(state: Fold, array: Array, sizes: Array | None = None) -> Any:
    place = axis(state.attribute("axis", 0), array.ndim)
    parts = state.attribute("split", None) if sizes is None else known_integers(sizes)
    if parts is None:
        raise UndecidedError
    return [np.asarray(part) for part in np.split(array, np.cumsum(parts)[:-1], place)]


# ----------------------------------------------------------------------------------------- creation


def range_length(start: float, limit: float, delta: float) -> int:
    """Return the number of elements of a range, whose `delta` is not 0; exact for integers."""
    return max(0, -int((start - limit) // delta))


@_folds("Range")
def _range(state: Fold, start: Array, limit: Array, delta: Array) -> Any:
    if any(array.dtype == object for array in (start, limit, delta)):
        raise UndecidedError
    if delta == 0:
        raise UndecidedError
    bounds = start.item(), limit.item(), delta.item()
    state.small(range_length(*bounds))
    exact = all(isinstance(n, int) for n in bounds)
    return np.array(range(*bounds) if exact else np.arange(*bounds)).astype(start.dtype)


@_folds("ConstantOfShape")
def _constant_of_shape(state: Fold, shape: Array) -> Any:
    value = state.attribute("value", np.zeros(1, np.float32))
    return np.full(_shape(state, shape), value.reshape(-1)[0], value.dtype)


@_folds("Expand")
def _expand(state: Fold, array: Array, shape: Array) -> Any:
    target = np.broadcast_shapes(array.shape, tuple(known_integers(shape)))
    state.small(*target)
    return np.broadcast_to(array, target)


@_folds("Tile")
def _tile(state: Fold, array: Array, repeats: Array) -> Any:
    times = known_integers(repeats)
    state.small(array.size, *times)
    return np.tile(array, times)


@_folds("ScatterND")
def _scatter_nd(state: Fold, array: Array, indices: Array, updates: Array) -> Any:
    if state.attribute("reduction", "none") != "none" or indices.dtype == object:
        raise UndecidedError
    mixed = array.dtype == object or updates.dtype == object
    result = _objects(array) if mixed else array.copy()
    for place in np.ndindex(indices.shape[:-1]):
        result[tuple(indices[place])] = updates[place]
    return result


@_folds("NonZero")
def _nonzero(state: Fold, array: Array) -> Any:
    if array.dtype == object:
        raise UndecidedError
    return np.stack(np.nonzero(np.atleast_1d(array))).astype(np.int64)
