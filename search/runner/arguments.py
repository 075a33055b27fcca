"""The arguments for checking and measuring: random arrays, and arrays of the user.

`ProgramFacts` are the facts about a program from which a runner chooses arguments and tolerances.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import IO, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from codegen import empty
from search.arg_info import ArgInfo
from search.errors import TuningError
from search.kinds import suggestion
from search.runner.argument_values import USUAL, Values, argument_values
from tensorir.function import IRModule, PrimFunc
from tensorir.memory.layout_rewrite import layout_free_positions
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import (
    BufferLoad,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    Mod,
    PrimExpr,
)
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, For, LetStmt, While
from tensorir.rewriting.visit import walk

_UNIT_ROUNDOFF: Final = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
_LEAST_ROUNDINGS: Final = 16
"""The minimum number of roundings: even a program without sums rounds several times, and functions
such as `exp` err by a few units.
"""


@dataclass(frozen=True)
class ProgramFacts:
    """Facts of a program; the defaults suit an unknown program."""

    integers_are_data: bool = False
    """True if no loaded integer is an index, an extent or a divisor, so any value is valid."""
    rounding: float = 1e-3
    """The change of a result that rounding may make, relative to the size of its operands.

    The error of a sum of n terms of random signs in any order is about sqrt(n) / 2 unit roundoffs
    of its size, and at most 4 times that for all elements of a large array; this is 8 * sqrt(n)
    roundoffs.
    """
    values: Mapping[int, Values] = field(default_factory=dict)
    """The values of the arguments that select accessed elements, by their positions."""
    cold: tuple[int, ...] = ()
    """The positions of the arguments that are not in the caches when the program is called."""

    @staticmethod
    def of(mod: IRModule, cold_weights: bool = False) -> ProgramFacts:
        """Return the facts of an unscheduled program, a module with one function over buffers.

        With `cold_weights`, the parameters that may have any layout are not in the caches.
        """
        functions = list(mod.prim_funcs().values())
        bodies = [node for func in functions for node in walk(func.body)]
        return ProgramFacts(
            not any(_has_load(e) for node in bodies for e in _positions(node)),
            8 * _unit_roundoff(bodies) * math.sqrt(_roundings(bodies)),
            argument_values(functions[0]) if len(functions) == 1 else {},
            layout_free_positions(functions[0]) if cold_weights else (),
        )


def _positions(node: Node) -> Iterator[PrimExpr]:
    """Yield the expressions of a node that are indices, extents, conditions or divisors."""
    match node:
        case BufferLoad() | BufferStore():
            yield from node.indices
        case For():
            yield from (node.min, node.extent)
        case BlockRealize():
            yield from node.iter_values
        case While():
            yield node.condition
        case Div() | Mod() | FloorDiv() | FloorMod():
            if node.b.dtype.is_integral:
                yield node.b
        case LetStmt() | Let():
            if node.value.dtype.is_integral:
                yield node.value
        case Call():
            if node.dtype.is_integral or node.dtype.is_handle:
                yield from node.args


def _has_load(value: PrimExpr) -> bool:
    return any(isinstance(node, BufferLoad) for node in walk(value))


def _unit_roundoff(bodies: list[Node]) -> float:
    """Return the unit roundoff of the coarsest float that is stored."""
    stored = {str(node.buffer.dtype) for node in bodies if isinstance(node, BufferStore)}
    return max((_UNIT_ROUNDOFF[d] for d in stored if d in _UNIT_ROUNDOFF), default=0.0)


def _roundings(bodies: list[Node]) -> int:
    """Return the lengths of the sums that an element goes through, one after another."""
    total = _LEAST_ROUNDINGS
    for node in bodies:
        if isinstance(node, Block) and node.init is not None:
            extents = [
                axis.dom.extent
                for axis in node.iter_vars
                if axis.dom is not None and axis.iter_type == IterVar.COMM_REDUCE
            ]
            total += math.prod(e.value if isinstance(e, IntImm) else 1 for e in extents)
    return total


FLOATS: Final = frozenset(map(DataType, ("float16", "float32", "float64", "bfloat16")))
"""The floats that can be generated and compared as numbers; others are compared as bits."""
_OCTAVES: Final = 3
"""Signed floats have magnitudes from 2 ** -3 to 2 ** 3."""

InputData: TypeAlias = "Mapping[str, Any] | Callable[[], Mapping[str, Any]]"
"""Arrays by the names of parameters or of their buffers, or a function that returns that."""


def random_arrays(
    infos: Sequence[ArgInfo],
    seed: int,
    facts: ProgramFacts | None = None,
    signed: bool = False,
    given: str | None = None,
) -> list[NDArray[Any]]:
    """Return one random array for each argument; the same seed gives the same arrays.

    An argument whose position is in `facts.values` holds these values. The file `given` (written by
    `write_given`) has arrays of the user, each used if it has the shape of the argument (a
    candidate may take it in another layout). Data begin at a multiple of 64 bytes.

    Other floats are in [0.5, 1.5), for programs that need positive numbers. With `signed` they
    have both signs and magnitudes in [1/8, 8), and one in 16 is zero: a lost `max`, `min` or `abs`
    shows, products neither overflow nor become subnormal, and sums of them stay in the range of
    float16.

    Other integers are in [0, 8), unless `facts.integers_are_data`: then they have the full range of
    8 and 16 bits, and one in 8 is the lowest or the highest number, so that saturation shows; wider
    integers are in [-1000, 1000], where products do not overflow.
    """
    rng = np.random.default_rng(seed)
    facts = facts or ProgramFacts()
    of_user = {} if given is None else _last_given(given)
    check_memory((f"argument {k}", info.shape, info.dtype) for k, info in enumerate(infos))
    arrays: list[NDArray[Any]] = []
    for position, info in enumerate(infos):
        array, dtype = empty(info.shape, info.dtype), info.dtype.element
        own, values = of_user.get(position), facts.values.get(position)
        if own is not None and own.shape == array.shape:
            array[...] = own
        elif values is not None:
            problem = values.why_none(array.shape)
            if problem is not None:
                raise TuningError(f"argument {position} cannot be generated: {problem}")
            array[...] = _numbers_in(values, array.shape, dtype, rng)
        elif dtype.is_bool:
            array[...] = rng.integers(0, 2, array.shape, np.uint8).astype(np.bool_)
        elif dtype in FLOATS:
            array[...] = as_stored(_floats(array.shape, signed, rng), dtype)
        else:
            full = facts.integers_are_data and dtype.is_integral
            array[...] = _integers(dtype, array.shape, full, rng)
        arrays.append(array)
    return arrays


def check_memory(arrays: Iterable[tuple[str, Sequence[int], DataType]]) -> None:
    """Raise TuningError if arrays, by name, shape and dtype, exceed the memory of this machine."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    needed = 0
    for name, shape, dtype in arrays:
        needed += math.prod(shape) * dtype.bits * dtype.lanes // 8
        if needed > there:
            raise TuningError(
                f"{name} is {dtype}{list(shape)}: with it the arguments take {needed / 2**30:.4g} "
                f"GiB, but this machine has {there / 2**30:.4g} GiB of memory"
            )


def write_given(file: str | IO[bytes], arrays: Mapping[int, NDArray[Any]]) -> None:
    """Write arrays of the user, by their positions."""
    np.savez(file, **{str(position): array for position, array in arrays.items()})  # type: ignore[arg-type]


def read_given(file: str | IO[bytes]) -> dict[int, NDArray[Any]]:
    """Return the arrays that `write_given` wrote."""
    with np.load(file, allow_pickle=False) as arrays:
        return {int(position): arrays[position] for position in arrays}


_last_given: Final = lru_cache(maxsize=2)(read_given)


def _numbers_in(
    values: Values, shape: Sequence[int], dtype: DataType, rng: np.random.Generator
) -> NDArray[Any]:
    """Return random numbers in a range, distinct along the axes `values.distinct`."""
    if dtype in FLOATS:
        return as_stored(rng.uniform(values.low, values.high, shape), dtype)
    if not values.distinct:
        return rng.integers(values.low, values.high + 1, shape, np.int64)
    others = [axis for axis in range(len(shape)) if axis not in values.distinct]
    order = [*others, *values.distinct]
    count = math.prod(shape[axis] for axis in values.distinct)
    rows = [
        values.low + rng.choice(values.high + 1 - values.low, count, replace=False)
        for _ in range(math.prod(shape[axis] for axis in others))
    ]
    drawn = np.array(rows, np.int64).reshape([shape[axis] for axis in order])
    return drawn.transpose(np.argsort(order))


def perturb(
    arrays: Sequence[NDArray[Any]], dtypes: Sequence[DataType], by: float, seed: int
) -> list[NDArray[Any]]:
    """Return copies whose floats differ from the given ones by up to the relative amount `by`."""
    rng = np.random.default_rng(seed)
    results: list[NDArray[Any]] = []
    for array, dtype in zip(arrays, dtypes, strict=True):
        result = empty(array.shape, dtype.element)
        if dtype.element in FLOATS:
            factor = 1 + by * rng.uniform(-1, 1, array.shape)
            result[...] = as_stored(as_numbers(array, dtype) * factor, dtype)
        else:
            result[...] = array
        results.append(result)
    return results


def as_numbers(array: NDArray[Any], dtype: DataType) -> NDArray[Any]:
    """Return an array that numpy can compute with: floats of 16 bits become float32."""
    if dtype.element == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32) if dtype.element == "float16" else array


def as_stored(values: NDArray[Any], dtype: DataType) -> NDArray[Any]:
    """Return floats in numpy's representation of `dtype`; bfloat16 is truncated."""
    if dtype.element == "bfloat16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(dtype.to_numpy())


def _floats(shape: Sequence[int], signed: bool, rng: np.random.Generator) -> NDArray[np.float32]:
    uniform = np.asarray(rng.random(shape, np.float32))  # without axes it is a scalar
    if not signed:
        return uniform + np.float32(0.5)
    values = np.exp2((uniform * 2 - 1) * np.float32(_OCTAVES))
    kind = rng.integers(0, 32, uniform.shape, np.uint8)
    values = np.where(kind < 16, -values, values)
    return np.where((kind == 0) | (kind == 16), np.float32(0), values)


def _integers(
    dtype: DataType, shape: Sequence[int], full_range: bool, rng: np.random.Generator
) -> NDArray[Any]:
    if not full_range:
        return rng.integers(0, USUAL, shape, np.uint8)
    if dtype.bits > 16:
        return rng.integers(0 if dtype.is_uint else -1000, 1001, shape)
    low = 0 if dtype.is_uint else -(2 ** (dtype.bits - 1))
    high = low + 2**dtype.bits - 1
    values = rng.integers(low, high + 1, shape, np.int32)
    kind = rng.integers(0, 16, shape, np.uint8)
    return np.where(kind == 0, low, np.where(kind == 1, high, values))


def checked_input_data(func: PrimFunc, input_data: InputData | None) -> dict[int, NDArray[Any]]:
    """Return the arrays of a user by the positions of their parameters.

    Raises TuningError for an unknown parameter, and for an array of another shape or dtype.
    """
    if input_data is None:
        return {}
    given = input_data() if callable(input_data) else input_data
    if not isinstance(given, Mapping):
        raise TuningError(
            "input_data is a mapping from names of parameters to arrays, or a function that "
            f"returns one, got {type(given).__name__}"
        )
    positions: dict[str, int] = {}
    for position, param in enumerate(func.params):
        positions[param.name] = position
        if param in func.buffer_map:
            positions[func.buffer_map[param].name] = position
    infos = ArgInfo.from_prim_func(func)
    found: dict[int, NDArray[Any]] = {}
    for name, value in given.items():
        if name not in positions:
            names = (func.buffer_map[p].name for p in func.params if p in func.buffer_map)
            raise TuningError(
                f"input_data names {name!r}; the parameters are {', '.join(names)}"
                + suggestion(str(name), positions)
            )
        info = infos[positions[name]]
        array = np.asarray(value)
        dtype = info.dtype.to_numpy()
        if array.shape != info.shape or array.dtype != dtype:
            held = "" if str(dtype) == str(info.dtype) else f" (the bits of {info.dtype})"
            raise TuningError(
                f"input_data[{name!r}] has the shape {array.shape} and dtype {array.dtype}; the "
                f"program takes {info.shape} of {dtype}{held}"
            )
        found[positions[name]] = array
    return found


def check_values_exist(
    func: PrimFunc, values: Mapping[int, Values], given: Mapping[int, Any]
) -> None:
    """Raise TuningError for an argument without valid values that the user does not give."""
    infos = ArgInfo.from_prim_func(func)  # raises TuningError for symbolic sizes
    for position, choice in values.items():
        info = infos[position]
        problem = choice.why_none(info.shape)
        if problem is not None and position not in given:
            name = func.buffer_map[func.params[position]].name
            raise TuningError(
                f"the numbers in {name} cannot be generated: {problem}; give an array with "
                f'input_data={{"{name}": ...}}'
            )
