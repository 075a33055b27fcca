"""Programs with symbolic sizes: their smallest sizes, and schedules for any size.

A function with symbolic shapes is scheduled with the smallest values of its symbolic sizes, usually
1. The trace is replayed on the function itself: a loop over a symbolic size is split like a loop of
one iteration, so all its iterations are in the outermost part, and the other loops get the same
tiles. Most often the symbolic size is a batch, so this is a schedule for any number of elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from codegen import Target
from schedule import LoopRV, Schedule, Trace
from schedule.instruction import Instruction
from schedule.trace import translate
from search.history.adapted_replay import AdaptedReplay, ReplayError, schedule_of, space_for
from search.postproc import DisallowDynamicLoop
from search.task import normalize_mod
from tensorir.arith import Analyzer
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import Block, For
from tensorir.rewriting.visit import collect_vars, substitute, walk

_LARGEST: Final = 1 << 16
"""The maximum value of a symbolic size."""


def open_sizes(func: PrimFunc) -> list[Var]:
    """Return the variables in shapes of parameters, and the parameters in extents, in order."""
    shapes = (extent for buffer in func.buffer_map.values() for extent in buffer.shape)
    given = set(func.params)
    found = [var for extent in shapes for var in collect_vars(extent)]
    found += [var for extent in _extents(func) for var in collect_vars(extent) if var in given]
    return list(dict.fromkeys(found))


def with_smallest_sizes(mod: IRModule) -> IRModule:
    """Return a module of one function with a number for each of its symbolic sizes.

    The number is the smallest power of two for which all loops and buffers are nonempty.
    """
    func = mod.prim_func("main")
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
    return normalize_mod(func.specialize(sizes))


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


def schedule_by_single(mod: IRModule, trace: Trace, target: Target) -> Schedule:
    """Return a schedule of `mod` from a trace of `with_smallest_sizes(mod)`.

    Raises ReplayError if the trace does not apply to symbolic sizes.
    """
    sch = schedule_of(mod)
    _OverOpenSizes(sch, "main", lambda block: block).apply(trace)
    sch.enter_postproc()
    for postproc in space_for(mod, target).postprocs:
        if not isinstance(postproc, DisallowDynamicLoop) and not postproc.apply(sch):
            raise ReplayError(f"{postproc} rejects the schedule: {postproc.reason(sch)}")
    return sch


class _OverOpenSizes(AdaptedReplay):
    """Replays a trace of a program with the smallest sizes on the program with symbolic sizes.

    Tiles of loops over symbolic sizes are not sampled: the outermost part has all iterations.
    """

    def _apply_instruction(self, inst: Instruction, decision: Any) -> list[Any]:
        if inst.kind.name in ("SamplePerfectTile", "SamplePartitionedTile"):
            loop = translate(inst.values[0], self._made)
            if not self._is_known(loop):
                return [None, *[1] * (len(decision) - 1)]
        return super()._apply_instruction(inst, decision)

    def _cover_loop(self, loop: LoopRV, factors: tuple[Any, ...]) -> tuple[Any, ...]:
        if self._is_known(loop):
            return super()._cover_loop(loop, factors)
        return (None, *(1 if factor is None else factor for factor in factors[1:]))

    def _is_known(self, loop: LoopRV) -> bool:
        return isinstance(self._sch.get(loop).extent, IntImm)
