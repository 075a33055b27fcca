"""The statements of a pipelined loop: what each of them accesses, and which order that asks for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from codegen.errors import LoweringError
from codegen.lower.element_sets import (
    Unknown,
    constant_ranges,
    distance,
    grid_over,
    keys,
    place_of,
    rows,
    values,
)
from codegen.lower.thread_axes import TENSOR_CORE
from tensorir.arith.linearize import Linearizer
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, Call, PrimExpr, Var
from tensorir.nodes.intrin import Effect, Op
from tensorir.rewriting.visit import statements, walk

_WORLD: Final = Var("effects", "handle")
"""Stands for what calls with effects access."""
_ORDINARY: Final = (Effect.PURE, Effect.ANNOTATION, Effect.READ, Effect.ARGUMENT)


@dataclass(frozen=True, eq=False, slots=True)
class Access:
    """A load or store, or a use of a pointer, which may be either; then there is no buffer."""

    pointer: Var
    is_store: bool
    buffer: Buffer | None = None
    indices: tuple[PrimExpr, ...] = ()


def versions_for(times: Iterable[tuple[int, int]]) -> int:
    """Return how many iterations use a buffer at once, from the times of steps that use it."""
    ordered = sorted(times)
    first, last = ordered[0], ordered[-1]
    return max(1, last[0] - first[0] + (first[1] <= last[1]))


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """A statement of a pipelined loop: it runs `stage` iterations late, at a position there."""

    name: str
    body: s.Stmt
    number: int
    """The position in the program."""
    stage: int
    order: int
    accesses: tuple[Access, ...]

    @property
    def time(self) -> tuple[int, int]:
        """The time of its first run: an iteration of the loop, and a position in it."""
        return self.stage, self.order


def name_of_step(node: s.Stmt, number: int) -> str:
    """Return how messages call a statement of a loop."""
    for part in statements(node):
        if isinstance(part, s.Block) and part.name_hint:
            return f"block {part.name_hint!r}"
    return f"statement {number}"


def accesses_of(node: s.Stmt, arguments: Collection[Var]) -> tuple[Access, ...]:
    """Return the accesses of a statement; `arguments` are pointers that may point to one place."""
    found: list[Access] = []
    common = next(iter(arguments), None)

    def add(pointer: Var, is_store: bool, access: BufferLoad | s.BufferStore | None = None) -> None:
        if common is not None and pointer in arguments:
            pointer = common
        details = () if access is None else (access.buffer, access.indices)
        found.append(Access(pointer, is_store, *details))

    for part in walk(node):
        if isinstance(part, (BufferLoad, s.BufferStore)):
            add(part.buffer.data, isinstance(part, s.BufferStore), part)
        elif isinstance(part, Var) and part.dtype.is_handle:
            add(part, True)
        elif isinstance(part, Call) and not (
            isinstance(part.op, Op) and (part.op.effect in _ORDINARY or part.op is TENSOR_CORE)
        ):
            add(_WORLD, True)
            for inner in walk(part):
                if isinstance(inner, BufferLoad):
                    add(inner.buffer.data, True)
    return tuple(found)


def check_order(
    steps: Sequence[Step],
    loop: s.For,
    around: Sequence[s.For],
    own: Collection[Var],
    linear: Linearizer,
    function: str,
) -> None:
    """Raise LoweringError if the pipeline of a loop runs two accesses the wrong way round.

    Of two accesses to an element with a store among them, the later one must stay later. Each
    iteration has the memory of the pointers in `own` to itself; for other memory, indices are
    compared for all iterations, and for all threads of the loops `around`. Where that is
    impossible, iterations are taken to access the same elements.
    """
    distances = _Distances(loop, around, steps, linear)
    for first in steps:
        for second in steps:
            if first is second:
                continue
            least = 0 if first.number < second.number else 1
            # Only what runs the wrong way round at the least distance needs a look at elements.
            if first.time < (second.stage + least, second.order):
                continue
            for a in first.accesses:
                for b in second.accesses:
                    if a.pointer is not b.pointer or not (a.is_store or b.is_store):
                        continue
                    if least and a.pointer in own:
                        continue
                    later = least if a.pointer in own else distances.nearest(a, b, least)
                    if later is None or first.time < (second.stage + later, second.order):
                        continue
                    raise LoweringError(
                        f"the pipeline of loop {loop.loop_var.name} of {function} runs "
                        f"{_conflict(a, b, first.name, second.name, later)}"
                    )


def _conflict(a: Access, b: Access, first: str, second: str, later: int) -> str:
    """Return the end of the message about two accesses that a pipeline exchanges."""
    iteration = ("the same iteration", "the next iteration")
    when = iteration[later] if later < 2 else f"{later} iterations later"
    what = " and ".join(dict.fromkeys(x.buffer.name for x in (a, b) if x.buffer is not None))
    remedy = (
        "give both the same software_pipeline_stage, with software_pipeline_order as in the program"
    )
    if a.buffer is not None and b.buffer is not None and a.buffer is not b.buffer:
        remedy += ', or declare that arguments are different memory (T.func_attr "tir.noalias")'
    return (
        f"{second} of {when} before {first}, but both access {what or 'unknown memory'}, and one "
        f"of them stores; {remedy}"
    )


class _Distances:
    """Finds how many iterations lie between two accesses to one element."""

    def __init__(
        self, loop: s.For, around: Sequence[s.For], steps: Sequence[Step], linear: Linearizer
    ) -> None:
        self._var = loop.loop_var
        inside = [n for step in steps for n in statements(step.body) if isinstance(n, s.For)]
        self._ranges = constant_ranges([loop, *around, *inside])
        self._variables = {n.loop_var for n in (loop, *around, *inside)}
        self._linear = linear

    def nearest(self, a: Access, b: Access, least: int) -> int | None:
        """Return the least distance, of at least `least`, from one access to another; None if none.

        `least` where the elements are unknown.
        """
        if a.buffer is None or a.buffer is not b.buffer:
            return least
        try:
            places = [place_of(x.indices, self._variables, self._linear) for x in (a, b)]
            tables = []
            offsets = [0] * len(a.indices), distance(*places)
            for place, steps in zip(places, offsets, strict=True):
                grid = grid_over(self._ranges, [*place.written_out, self._var])
                columns = [
                    values(part, grid) + step
                    for part, step in zip(place.written_out, steps, strict=True)
                ]
                tables.append(rows([*columns, grid[self._var]], True))
        except Unknown:
            return least
        if not all(map(len, tables)):
            return None
        first, second = keys(*(table[:, :-1] for table in tables))
        width = 2 + least + int(max(table[:, -1].max() for table in tables) - self._low())
        begin = first * width + tables[0][:, -1] - self._low()
        end = np.unique(second * width + tables[1][:, -1] - self._low())
        at = np.searchsorted(end, begin + least)
        in_range = at < len(end)
        found = end[at[in_range]]
        same = found // width == first[in_range]
        between = (found - begin[in_range])[same]
        return int(between.min()) if len(between) else None

    def _low(self) -> int:
        return self._ranges[self._var].start
