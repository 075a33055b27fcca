"""Functions with symbolic sizes, and the representative sizes for which they are scheduled.

For each of them the function becomes a static program, which has the records and default schedules
of any static program. `any_size` replays their traces on the function itself.

A function may choose between programs by its sizes. Each case is a function of its own then, with
its own representative sizes and schedules:

    if n <= 8: ...   # a program for a few rows
    else: ...        # one for many rows
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import prod
from typing import Final, TypeAlias

from search.errors import ArgumentError
from search.runner.flops import estimate_tir_flops
from search.task import normalize_mod
from tensorir.arith import Analyzer
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import const, logical_not
from tensorir.nodes.stmt import Block, BlockRealize, For, IfThenElse, SeqStmt, sequence
from tensorir.rewriting.visit import collect_vars, substitute, walk
from tensorir.semantics.purity import may_run_anywhere

Sizes: TypeAlias = Mapping[str, Sequence[int]]
"""The representative sizes by the names of symbolic sizes."""

MOST_VARIANTS: Final = 4
"""The maximum number of schedules of one function."""

_LARGE: Final = 128
"""The representative of all sizes above 1, unless the user gives others."""
_MOST_OPERATIONS: Final = 2.0**30
"""The maximum number of operations of a program of large default sizes."""
_COMPUTE_BOUND: Final = 16.0
"""Operations for each byte of the arguments, above which larger sizes add no reuse."""
_DOUBLINGS: Final = 17
_LARGEST: Final = 1 << (_DOUBLINGS - 1)
"""The maximum of the smallest value of a symbolic size."""


def open_sizes(func: PrimFunc) -> list[Var]:
    """Return the variables in shapes of parameters, and the parameters in extents, in order."""
    shapes = (extent for buffer in func.buffer_map.values() for extent in buffer.shape)
    given = set(func.params)
    found = [var for extent in shapes for var in collect_vars(extent)]
    found += [var for extent in _extents(func) for var in collect_vars(extent) if var in given]
    return list(dict.fromkeys(found))


def size_choice(func: PrimFunc) -> IfThenElse | None:
    """Return the first choice between two programs by symbolic sizes, outside of loops."""
    if not isinstance(func.body, BlockRealize):
        return None
    body, sizes = func.body.block.body, set(open_sizes(func))
    for part in body.seq if isinstance(body, SeqStmt) else (body,):
        if isinstance(part, IfThenElse) and part.else_case is not None:
            condition = part.condition
            if may_run_anywhere(condition) and sizes.issuperset(collect_vars(condition)):
                return part
    return None


def with_case(func: PrimFunc, choice: IfThenElse, is_first: bool) -> PrimFunc:
    """Return a function with one case of its choice."""
    assert isinstance(func.body, BlockRealize)
    root = func.body.block
    case = choice.then_case if is_first else choice.else_case
    parts = root.body.seq if isinstance(root.body, SeqStmt) else (root.body,)
    body = sequence([case if part is choice else part for part in parts])
    return func.with_body(func.body.with_(block=root.with_(body=body)))


def takes_first(choice: IfThenElse, sizes: Mapping[Var, int]) -> bool:
    """Return True if a choice takes its first case for some sizes."""
    return _value(choice.condition, sizes) != 0


def case_of(func: PrimFunc, sizes: Mapping[Var, int]) -> PrimFunc:
    """Return a function with those cases of its choices that some sizes take."""
    for choice, is_first in decisions(func, sizes):
        func = with_case(func, choice, is_first)
    return func


def decisions(func: PrimFunc, sizes: Mapping[Var, int]) -> list[tuple[IfThenElse, bool]]:
    """Return the choices of a function for some sizes, with True for the first case."""
    choice = size_choice(func)
    if choice is None:
        return []
    is_first = takes_first(choice, sizes)
    return [(choice, is_first), *decisions(with_case(func, choice, is_first), sizes)]


def with_sizes(func: PrimFunc, sizes: Mapping[Var, int]) -> IRModule:
    """Return the static program of a function for a number for each of its symbolic sizes."""
    return normalize_mod(case_of(func, sizes).specialize(dict(sizes)))


def representative_sizes(func: PrimFunc, given: Sizes | None = None) -> list[dict[Var, int]]:
    """Return the sizes for which a function with symbolic shapes is scheduled, smallest first.

    By default these are the smallest sizes without an empty loop, usually 1, and if larger sizes
    change the schedule, 128, or less if that would be too many operations. They do for matrix
    products, which use a weight once for each row, and where the elements that are contiguous in
    memory are counted by a symbolic size; not for pointwise operators and most convolutions.

    Each case of a choice by sizes has its own ones.

    With `given`, the k-th sizes have the k-th number of each list, the last one of a shorter list,
    and the smallest size of an unlisted name. A case that none of them takes keeps its default
    sizes. Raises ArgumentError for a size below the smallest one.
    """
    return _representatives(func, given, ())


def _representatives(
    func: PrimFunc, given: Sizes | None, conditions: Sequence[PrimExpr]
) -> list[dict[Var, int]]:
    """Return the representative sizes of a function that fulfil conditions."""

    def fulfils(sizes: Mapping[Var, int]) -> bool:
        return all(_value(condition, sizes) for condition in conditions)

    choice = size_choice(func)
    if choice is not None:
        condition, found = choice.condition, []
        for is_first in (True, False):
            own = (*conditions, condition if is_first else logical_not(condition))
            found += _representatives(with_case(func, choice, is_first), given, own)
        return sorted(found, key=lambda sizes: prod(sizes.values()))
    smallest = _smallest_sizes(func)
    listed = {var: given[var.name] for var in smallest if var.name in given} if given else {}
    for var, numbers in listed.items():
        for number in numbers:
            if number < smallest[var]:
                raise ArgumentError(
                    f"size {number} of {var.name!r} is below {smallest[var]}, the smallest one "
                    "without an empty loop; give larger sizes"
                )
    count = max(map(len, listed.values()), default=0)
    wanted = [
        {**smallest, **{var: numbers[min(k, len(numbers) - 1)] for var, numbers in listed.items()}}
        for k in range(count)
    ]
    if chosen := [*filter(fulfils, wanted)]:
        return chosen
    largest = _largest_sizes(func, smallest)
    if chosen := [*filter(fulfils, (smallest, largest))]:
        return chosen if _gains_from(func, smallest, largest) else chosen[:1]
    larger = ({var: size << k for var, size in smallest.items()} for k in range(_DOUBLINGS))
    return [*islice(filter(fulfils, larger), 1)]


def check_sizes(sizes: Sizes, functions: Mapping[str, PrimFunc]) -> None:
    """Raise ArgumentError unless lists of sizes name symbolic sizes and can be used."""
    known = dict.fromkeys(var.name for func in functions.values() for var in open_sizes(func))
    for name, numbers in sizes.items():
        if name not in known:
            raise ArgumentError(
                f"sizes names {name!r}, which is no symbolic size of a kernel; expected "
                f"{', '.join(known) or 'no name, as all shapes are constant'}"
            )
        are_numbers = all(isinstance(number, int) for number in numbers)
        if not are_numbers or list(numbers) != sorted(set(numbers)) or not numbers:
            raise ArgumentError(
                f"the sizes of {name!r} are {list(numbers)}; expected increasing integers"
            )
        if len(numbers) > MOST_VARIANTS:
            raise ArgumentError(
                f"{name!r} has {len(numbers)} sizes; expected at most {MOST_VARIANTS}, as each is "
                "one more version of a kernel"
            )
    for func in functions.values():
        if open_sizes(func):
            representative_sizes(func, sizes)


def _smallest_sizes(func: PrimFunc) -> dict[Var, int]:
    """Return the smallest power of two for each size for which loops and buffers are nonempty."""
    sizes = dict.fromkeys(open_sizes(func), 1)
    shapes = [extent for buffer in func.buffer_map.values() for extent in buffer.shape]
    extents = [*shapes, *_extents(func)]
    while empty := [extent for extent in extents if _value(extent, sizes) < 1]:
        larger = {
            var: 2 * sizes[var]
            for extent in empty
            for var in collect_vars(extent)
            if sizes.get(var, _LARGEST) < _LARGEST
            and _value(extent, sizes) <= _value(extent, {**sizes, var: 2 * sizes[var]})
        }
        if not larger:
            break
        sizes.update(larger)
    return sizes


def _largest_sizes(func: PrimFunc, smallest: Mapping[Var, int]) -> dict[Var, int]:
    """Return the large default sizes; the first ones are smaller if operations are too many."""
    sizes = {var: max(_LARGE, size) for var, size in smallest.items()}
    for var, size in smallest.items():
        while sizes[var] > size and _operations(func, sizes) > _MOST_OPERATIONS:
            sizes[var] = max(size, sizes[var] // 2)
    return sizes


def _gains_from(func: PrimFunc, small: Mapping[Var, int], large: Mapping[Var, int]) -> bool:
    """Return True if large sizes need another schedule than small ones."""
    if small == large:
        return False
    if any(collect_vars(b.shape[-1]) for b in func.buffer_map.values() if b.shape):
        return True
    before = _operations(func, small) / _bytes(func, small)
    after = _operations(func, large) / _bytes(func, large)
    return before < _COMPUTE_BOUND and after > 2 * before


def _operations(func: PrimFunc, sizes: Mapping[Var, int]) -> float:
    return estimate_tir_flops(func.specialize(dict(sizes)))


def _bytes(func: PrimFunc, sizes: Mapping[Var, int]) -> float:
    buffers = func.buffer_map.values()
    return sum(prod(_value(n, sizes) for n in b.shape) * b.dtype.nbytes for b in buffers)


def _extents(func: PrimFunc) -> Iterator[PrimExpr]:
    """Yield the extents of the loops of a function, and of the buffers that it allocates."""
    for node in walk(func.body):
        if isinstance(node, For):
            yield node.extent
        elif isinstance(node, Block):
            for buffer in node.alloc_buffers:
                yield from buffer.shape


def _value(extent: PrimExpr, sizes: Mapping[Var, int]) -> int:
    """Return an extent for some sizes; 1 if it depends on other values."""
    numbers = {var: const(size, var.dtype) for var, size in sizes.items()}
    value = Analyzer().simplify(substitute(extent, numbers))
    return value.value if isinstance(value, IntImm) else 1


def sizes_in(func: PrimFunc, static: PrimFunc) -> dict[Var, int] | None:
    """Return the sizes for which a function has the shapes of a static one, None if there are none.

    None, too, if a size is in no shape on its own.
    """
    theirs = [static.buffer_map[param] for param in static.params if param in static.buffer_map]
    ours = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
    if [len(buffer.shape) for buffer in ours] != [len(buffer.shape) for buffer in theirs]:
        return None
    pairs = [
        (extent, number.value)
        for our, their in zip(ours, theirs, strict=True)
        for extent, number in zip(our.shape, their.shape, strict=True)
        if isinstance(number, IntImm)
    ]
    sizes = {extent: number for extent, number in pairs if isinstance(extent, Var)}
    if set(open_sizes(func)) != set(sizes):
        return None
    return sizes if all(_value(extent, sizes) == number for extent, number in pairs) else None
