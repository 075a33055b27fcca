"""Alias analysis: the memories in which the values of a graph function may be.

Tuples, fields, aliases, views, `match_cast` and `if` make several variables share the same memory.
The analysis maps a value to a set of memories (several after an `if`), and a tuple to such a set
for each field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from tensorir.nodes.expr import GlobalVar
from tensorir.relax import expr as g
from tensorir.relax.calls import (
    ALLOC_STORAGE,
    ALLOC_TENSOR,
    CALL_PURE_PACKED,
    COPY_INTO,
    PLACE_TENSOR,
    VIEW,
    CalledGraph,
    called_graph,
    destination_passing,
    written_last,
)
from tensorir.relax.function import Function
from tensorir.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)


class Owner(Enum):
    """The owner of memory."""

    FUNCTION = "allocated by the function, or by a graph function that it calls"
    ARGUMENT = "given by the caller"
    CONSTANT = "a constant of the program"
    LIBRARY = "returned by a library function, which may still use it"


@dataclass(eq=False, slots=True)
class Memory:
    """The memory of one tensor; `call` allocates it, None if another function allocates it."""

    owner: Owner
    call: g.GraphExpr | None = None


Places: TypeAlias = "frozenset[Memory] | tuple[Places, ...]"

NOWHERE: frozenset[Memory] = frozenset()


def memories(places: Places) -> Iterator[Memory]:
    """Yield all memories that a value may be in."""
    for part in places:
        if isinstance(part, Memory):
            yield part
        else:
            yield from memories(part)


@dataclass(frozen=True, slots=True)
class Escapes:
    """The memories that a graph function passes to library functions, which may keep them."""

    arguments: bool
    """True if its arguments may be used after the call: they are in a result of unknown kind, or
    kept.
    """
    result: bool
    """True if the memory of its result is kept."""

    def __or__(self, other: Escapes) -> Escapes:
        return Escapes(self.arguments or other.arguments, self.result or other.result)


EscapesOf: TypeAlias = Callable[[GlobalVar], Escapes]


class Aliases:
    """The memory of the values of one function; its bindings are added in order."""

    def __init__(self, func: Function, escapes: EscapesOf) -> None:
        """Start with the parameters; `find_escapes` returns `escapes`."""
        self._escapes = escapes
        self.places: dict[g.GraphVar, Places] = {}
        self.holders: dict[Memory, list[g.GraphVar]] = {}
        """For each memory, the variables that may be in it."""
        self.escaped: set[Memory] = set()
        """Memory that was passed to a library function or an unknown function, which may keep it.
        """
        for param in func.params:
            self.bind(param, _all_places(param.struct_info, lambda _: {Memory(Owner.ARGUMENT)}))

    def bind(self, var: g.GraphVar, places: Places) -> None:
        """Record the memory of the value of a variable."""
        self.places[var] = places
        for memory in set(memories(places)):
            self.holders.setdefault(memory, []).append(var)

    def of(self, value: g.GraphExpr | GlobalVar) -> Places:
        """Return the memory of a value; the branches of an `if` must have been added before."""
        if isinstance(value, g.GraphVar):
            return self.places[value]
        if isinstance(value, g.Constant):
            return frozenset({Memory(Owner.CONSTANT)})
        if isinstance(value, g.Tuple):
            return tuple(map(self.of, value.elements))
        if isinstance(value, g.TupleGetItem):
            whole = self.of(value.tuple_value)
            return whole[value.index] if isinstance(whole, tuple) else whole
        if isinstance(value, g.If):
            return _union(self.of(value.true_branch.body), self.of(value.false_branch.body))
        if isinstance(value, g.GraphCall):
            return self._places_of_call(value)
        return NOWHERE

    def _places_of_call(self, call: g.GraphCall) -> Places:
        info = call.struct_info
        if destination_passing(call) is not None or call.op in (ALLOC_TENSOR, PLACE_TENSOR):
            return _all_places(info, lambda _: {Memory(Owner.FUNCTION, call)})
        if call.op in (ALLOC_STORAGE, COPY_INTO):
            return NOWHERE
        if call.op is VIEW:
            return self.of(call.args[0])
        graph = called_graph(call)
        if graph is not None:
            return self._places_of_graph_call(graph, info)
        seen = self._memories_of_values(call.args)
        if isinstance(call.op, g.ExternFunc):
            if written_last(call):
                return NOWHERE
            self.escaped |= seen
        elif isinstance(call.op, g.GraphVar) or call.op is CALL_PURE_PACKED:
            self.escaped |= seen
        return _all_places(info, lambda _: {Memory(Owner.LIBRARY), *seen})

    def _places_of_graph_call(self, graph: CalledGraph, info: StructInfo) -> Places:
        escapes = self._escapes(graph.callee)
        seen = self._memories_of_values(graph.args)
        if escapes.arguments:
            self.escaped |= seen
        if graph.outputs is not None:
            if escapes.result:
                self.escaped |= self._memories_of_values(graph.outputs)
            return NOWHERE

        def fresh(part: StructInfo) -> Iterable[Memory]:
            if not has_own_memory(part):
                return {Memory(Owner.LIBRARY), *seen}
            memory = Memory(Owner.FUNCTION)
            if escapes.result:
                self.escaped.add(memory)
            return {memory}

        return _all_places(info, fresh)

    def _memories_of_values(self, values: Iterable[g.GraphExpr | GlobalVar]) -> frozenset[Memory]:
        return frozenset(memory for value in values for memory in memories(self.of(value)))

    def add_sequence(self, node: g.SeqExpr) -> None:
        """Bind the variables of a sequence and of the branches in it."""
        for binding in node.bindings:
            if isinstance(binding.value, g.If):
                self.add_sequence(binding.value.true_branch)
                self.add_sequence(binding.value.false_branch)
            self.bind(binding.var, self.of(binding.value))


def has_own_memory(info: StructInfo) -> bool:
    """Return True if a part of a result is in separate memory: a tensor that can be copied."""
    return isinstance(info, TensorStructInfo) and info.dtype is not None and info.ndim >= 0


def leaf_places(places: Places) -> list[frozenset[Memory]]:
    """Return the memory of each leaf of a value, in order."""
    if isinstance(places, frozenset):
        return [places]
    return [leaf for part in places for leaf in leaf_places(part)]


def _all_places(info: StructInfo, fresh: Callable[[StructInfo], Iterable[Memory]]) -> Places:
    """Return the places of a value, with the memory that `fresh` returns for each part that may be
    a tensor.
    """
    if isinstance(info, TupleStructInfo):
        return tuple(_all_places(field, fresh) for field in info.elements)
    if isinstance(info, (PrimStructInfo, ShapeStructInfo)):
        return NOWHERE
    return frozenset(fresh(info))


def _union(a: Places, b: Places) -> Places:
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(_union(x, y) for x, y in zip(a, b, strict=True))
    return frozenset({*memories(a), *memories(b)})
