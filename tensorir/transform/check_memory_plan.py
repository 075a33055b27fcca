"""Proof that tensors which share memory do not overwrite what is needed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NoReturn

from tensorir.errors import WellFormedError, noting
from tensorir.function import IRModule
from tensorir.memory.alignment import ALIGNMENT
from tensorir.nodes.expr import IntImm
from tensorir.relax import expr as g
from tensorir.relax.calls import ALLOC_STORAGE, PLACE_TENSOR
from tensorir.relax.function import Function, graph_functions
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.transform.aliases import Aliases, Memory, arguments_handed_on, memories
from tensorir.transform.bindings import used_vars


def check_memory_plan(mod: IRModule) -> None:
    """Raise WellFormedError where a tensor in an arena is used after another one overwrote it.

    The first use of a tensor writes it, and overwrites every tensor that it overlaps. The error
    names function and tensors. An arena ends with its function, so that tensors which are returned,
    or which a library function may keep, must not lie there.
    """
    hands_on = arguments_handed_on(mod)
    for name, func in graph_functions(mod).items():
        with noting(f"in the function {name}"):
            _Check(name, Aliases(func, hands_on)).function(func)


@dataclass
class _State:
    """The facts at a point, true on every path to it (allocated, written) or on some (the rest)."""

    allocated: set[Memory] = field(default_factory=set)
    written: set[Memory] = field(default_factory=set)
    perhaps_written: set[Memory] = field(default_factory=set)
    stale: dict[g.GraphVar, str] = field(default_factory=dict)
    """Variables whose tensor was overwritten, and by which tensor."""

    def copy(self) -> _State:
        return _State(
            set(self.allocated), set(self.written), set(self.perhaps_written), {**self.stale}
        )

    def become_either(self, a: _State, b: _State) -> None:
        """Become what is known after one of two branches."""
        self.allocated = a.allocated & b.allocated
        self.written = a.written & b.written
        self.perhaps_written = a.perhaps_written | b.perhaps_written
        self.stale = {**a.stale, **b.stale}


class _Check:
    def __init__(self, name: str, aliases: Aliases) -> None:
        self._name = name
        self._aliases = aliases
        self._spans: dict[Memory, tuple[int, int]] = {}
        self._names: dict[Memory, str] = {}
        self._arenas: dict[g.GraphVar, int] = {}

    def function(self, func: Function) -> None:
        self._sequence(func.body, _State())
        aliases = self._aliases
        for memory in {*memories(aliases.of(func.body.body)), *aliases.kept}:
            if memory in self._spans:
                self._fail(
                    f"{self._names[memory]} lies in the arena, which ends with the function, but "
                    "it is returned, or a library function may keep it"
                )

    def _fail(self, message: str) -> NoReturn:
        raise WellFormedError(f"{message}; in function {self._name}")

    def _sequence(self, node: g.SeqExpr, state: _State) -> None:
        for binding in node.bindings:
            value = binding.value
            if isinstance(value, g.If):
                self._read(value.cond, state)
                a, b = state.copy(), state.copy()
                self._sequence(value.true_branch, a)
                self._sequence(value.false_branch, b)
                state.become_either(a, b)
            elif isinstance(value, g.GraphCall) and value.op is ALLOC_STORAGE:
                self._arena(binding.var, value)
            else:
                if isinstance(value, g.GraphCall):
                    self._write(value, state)
                self._read(value, state)
            self._aliases.bind(binding.var, self._aliases.of(value))
            if isinstance(value, g.GraphCall) and value.op is PLACE_TENSOR:
                self._place(binding.var, value, state)
        self._read(node.body, state)

    def _arena(self, var: g.GraphVar, call: g.GraphCall) -> None:
        if self._arenas:
            self._fail(f"there are two arenas, {next(iter(self._arenas)).name} and {var.name}")
        shape = call.args[0]
        assert isinstance(shape, g.ShapeExpr)
        (size,) = shape.values
        if not isinstance(size, IntImm):
            self._fail(f"the size of the arena {var.name} is not known")
        self._arenas[var] = size.value

    def _place(self, var: g.GraphVar, call: g.GraphCall, state: _State) -> None:
        storage, at = call.args[:2]
        info = call.struct_info
        assert isinstance(at, g.PrimValue)
        assert isinstance(info, TensorStructInfo)
        if storage not in self._arenas or info.static_shape is None or info.dtype is None:
            self._fail(f"{var.name} lies in the arena, but is not a tensor of known size")
        if not isinstance(at.value, IntImm) or at.value.value % ALIGNMENT:
            self._fail(f"{var.name} is not at a multiple of {ALIGNMENT} bytes")
        start = at.value.value
        end = start + math.prod(info.static_shape) * info.dtype.to_numpy().itemsize
        if start < 0 or end > self._arenas[storage]:  # type: ignore[index]
            self._fail(f"{var.name} ends at byte {end} of an arena of {self._arenas[storage]}")  # type: ignore[index]
        for memory in memories(self._aliases.places[var]):
            self._spans[memory] = (start, end)
            self._names[memory] = var.name
            state.allocated.add(memory)

    def _write(self, call: g.GraphCall, state: _State) -> None:
        """Note which tensors a call uses first, and what they overwrite."""
        places = self._aliases.places
        used = {m for var in used_vars(call) for m in memories(places[var])} & self._spans.keys()
        # A tensor that only one branch allocates was written there.
        first = (used & state.allocated) - state.written
        for memory in first:
            for other in (state.perhaps_written | first) - {memory}:
                if self._overlap(memory, other):
                    for var in self._aliases.holders[other]:
                        state.stale[var] = self._names[memory]
        state.written |= first
        state.perhaps_written |= used

    def _read(self, value: g.GraphExpr, state: _State) -> None:
        for var in used_vars(value):
            if var in state.stale:
                self._fail(f"{var.name} is used after {state.stale[var]} has overwritten it")

    def _overlap(self, a: Memory, b: Memory) -> bool:
        (low, high), (start, end) = self._spans[a], self._spans[b]
        return low < end and start < high and low < high and start < end
