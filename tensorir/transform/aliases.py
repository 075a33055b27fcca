"""Aliases: the memory that the values of a graph function may lie in.

Tuples, fields, aliases, `match_cast` and `if` make several variables stand for the same memory. A
value lies in a set of memories (several after an `if`), a tuple has such a set for each field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from tensorir.function import IRModule
from tensorir.nodes.expr import GlobalVar
from tensorir.relax import expr as g
from tensorir.relax.calls import (
    ALLOC_STORAGE,
    ALLOC_TENSOR,
    CALL_PURE_PACKED,
    COPY_INTO,
    PLACE_TENSOR,
    destination_passing,
    written_last,
)
from tensorir.relax.function import Function
from tensorir.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TupleStructInfo,
)


class Owner(Enum):
    """The owner of memory."""

    FUNCTION = "allocated by the function, or by a graph function for it"
    ARGUMENT = "given by the caller"
    CONSTANT = "a part of the program"
    LIBRARY = "given by a library function, which may know it still"


@dataclass(eq=False, slots=True)
class Memory:
    """Memory of one tensor; `call` is what allocates it, where the function does so itself."""

    owner: Owner
    call: g.GraphExpr | None = None


Places: TypeAlias = "frozenset[Memory] | tuple[Places, ...]"

NOWHERE: frozenset[Memory] = frozenset()


def memories(places: Places) -> Iterator[Memory]:
    """Yield all memories that a value may lie in."""
    for part in places:
        if isinstance(part, Memory):
            yield part
        else:
            yield from memories(part)


class Aliases:
    """The memory of the values of one function, as its bindings are gone through in order."""

    def __init__(self, func: Function, hands_on: Callable[[GlobalVar], bool]) -> None:
        """Begin with the parameters; `hands_on` is what `arguments_handed_on` gives."""
        self._hands_on = hands_on
        self.places: dict[g.GraphVar, Places] = {}
        self.holders: dict[Memory, list[g.GraphVar]] = {}
        """Variables that may lie in a memory."""
        self.kept: set[Memory] = set()
        """Memory that a library function or an unknown function has seen and may keep."""
        for param in func.params:
            self.bind(param, _everywhere(param.struct_info, lambda: {Memory(Owner.ARGUMENT)}))

    def bind(self, var: g.GraphVar, places: Places) -> None:
        """Note where the value of a variable lies."""
        self.places[var] = places
        for memory in set(memories(places)):
            self.holders.setdefault(memory, []).append(var)

    def of(self, value: g.GraphExpr | GlobalVar) -> Places:
        """Return the memory of a value; branches of an `if` have been gone through before."""
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
            return _either(self.of(value.true_branch.body), self.of(value.false_branch.body))
        if isinstance(value, g.GraphCall):
            return self._result(value)
        return NOWHERE

    def _result(self, call: g.GraphCall) -> Places:
        info = call.struct_info
        if destination_passing(call) is not None or call.op in (ALLOC_TENSOR, PLACE_TENSOR):
            return _everywhere(info, lambda: {Memory(Owner.FUNCTION, call)})
        if call.op in (ALLOC_STORAGE, COPY_INTO):
            return NOWHERE
        seen = frozenset(memory for arg in call.args for memory in memories(self.of(arg)))
        if isinstance(call.op, GlobalVar):
            if not self._hands_on(call.op):
                return _everywhere(info, lambda: {Memory(Owner.FUNCTION)})
            self.kept |= seen
        elif isinstance(call.op, g.ExternFunc):
            if written_last(call):
                return NOWHERE
            self.kept |= seen
        elif isinstance(call.op, g.GraphVar) or call.op is CALL_PURE_PACKED:
            self.kept |= seen
        return _everywhere(info, lambda: {Memory(Owner.LIBRARY), *seen})

    def go_through(self, node: g.SeqExpr) -> None:
        """Bind the variables of a sequence, and of the branches in it."""
        for binding in node.bindings:
            if isinstance(binding.value, g.If):
                self.go_through(binding.value.true_branch)
                self.go_through(binding.value.false_branch)
            self.bind(binding.var, self.of(binding.value))


def arguments_handed_on(mod: IRModule) -> Callable[[GlobalVar], bool]:
    """Return a predicate: does a function of the module let its arguments live on?

    That is: its result may lie in their memory, or a library function that it calls gets them and
    may keep them. Of a function that calls itself this is assumed.
    """
    known: dict[str, bool] = {}

    def hands_on(name: GlobalVar) -> bool:
        func = mod.functions.get(name.name)
        if not isinstance(func, Function):
            return func is None
        if name.name not in known:
            known[name.name] = True
            aliases = Aliases(func, hands_on)
            aliases.go_through(func.body)
            reached = {*aliases.kept, *memories(aliases.of(func.body.body))}
            known[name.name] = any(memory.owner is Owner.ARGUMENT for memory in reached)
        return known[name.name]

    return hands_on


def _everywhere(info: StructInfo, fresh: Callable[[], Iterable[Memory]]) -> Places:
    """Return places for a value of this kind, `fresh` ones for each tensor."""
    if isinstance(info, TupleStructInfo):
        return tuple(_everywhere(field, fresh) for field in info.elements)
    if isinstance(info, (PrimStructInfo, ShapeStructInfo)):
        return NOWHERE
    return frozenset(fresh())


def _either(a: Places, b: Places) -> Places:
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(_either(x, y) for x, y in zip(a, b, strict=True))
    return frozenset({*memories(a), *memories(b)})
