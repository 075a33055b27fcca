"""Assignment of memory to the values of a graph function, before memory is explicit.

The results of a call of a tensor function, of a graph function, and of an `if` are written to
tensors. Each such tensor has separate memory, except in two cases. If a call overwrites a dead
argument, its result is in the memory of the argument; the argument may be a parameter that the
function updates. If a branch computes a value only for the result of its `if`, the value is
computed in the memory of the `if`. So a value is copied only if it has to be in two places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from tensorir.function import IRModule
from tensorir.nodes.expr import GlobalVar
from tensorir.relax import expr as g
from tensorir.relax.call_graph import callees_first
from tensorir.relax.calls import (
    FRESH,
    DestinationPassing,
    called_graph,
    destination_passing,
    same_elements,
)
from tensorir.relax.function import Function, graph_functions
from tensorir.relax.struct_info import (
    Path,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    assemble,
    fields_of,
    leaves,
)
from tensorir.relax.visit import used_vars
from tensorir.transform.aliases import (
    Aliases,
    Escapes,
    EscapesOf,
    Memory,
    Owner,
    Places,
    has_own_memory,
    leaf_places,
    memories,
)
from tensorir.transform.lifetimes import Lifetimes

Overwritable: TypeAlias = Callable[[DestinationPassing], Mapping[int, Sequence[int]]]
"""The function that returns, for each output of a call, the arguments that the output may
overwrite.
"""


class ValueMemory:
    """The decisions for one function.

    `outputs` has for each call the memories of its tensors, None for a tensor that overwrites an
    argument. `wanted` has for each `if` the memories of its value, by paths; parts without a memory
    remain values. `copied` has the parts of branches that are copied to these memories at the end.
    """

    def __init__(
        self, func: Function, escapes: EscapesOf, overwritable: Overwritable | None = None
    ) -> None:
        """Make the decisions.

        `overwritable` returns arguments that outputs may overwrite without a copy.
        """
        self._overwritable = overwritable
        self.overwritten: dict[g.GraphCall, dict[int, int]] = {}
        """For each call in destination passing style, the arguments that each output may overwrite.
        """
        self.outputs: dict[g.GraphCall, tuple[Memory | None, ...]] = {}
        self.wanted: dict[g.If, dict[Path, tuple[Memory, TensorStructInfo]]] = {}
        self.copied: set[tuple[g.SeqExpr, Path]] = set()
        self._place: dict[Memory, Memory] = {}
        """For each memory of a branch, the memory of the `if` that replaces it."""
        self._made: dict[Memory, tuple[g.SeqExpr, TensorStructInfo]] = {}
        """For each memory, the sequence that allocates it and the type of its tensor."""
        self._lifetimes = Lifetimes(func.body)
        self._escapes = escapes
        self.aliases = Aliases(func, self._escapes)
        self.updated: dict[Memory, g.GraphVar] = {}
        """The memories of parameters that the function updates, which calls may overwrite."""
        self._sources: dict[Memory, set[g.GraphVar]] = {}
        """The variables on which the new contents of such a parameter depend."""
        for k, param in enumerate(func.updates):
            (memory,) = memories(self.aliases.of(param))
            self.updated[memory] = param
            self._made[memory] = func.body, g.tensor_info(param)
            self._sources[memory] = _dependencies(func.body, k)
        self._sequence(func.body)

    def place(self, memory: Memory) -> Memory:
        """Return the memory that replaces a memory; by default the memory itself."""
        while memory in self._place:
            memory = self._place[memory]
        return memory

    def _sequence(self, node: g.SeqExpr) -> None:
        for binding in node.bindings:
            self.aliases.bind(binding.var, self._value(binding, node))

    def _value(self, binding: g.Binding, sequence: g.SeqExpr) -> Places:
        value = binding.value
        if isinstance(value, g.If):
            return self._branches(value, sequence)
        if isinstance(value, g.GraphCall):
            call = destination_passing(value)
            if call is not None:
                return self._call(value, call, binding, sequence)
            if self._is_into_memory(value):
                self.aliases.of(value)  # also records escaping memory
                outputs = {
                    path: self._new_memory(info, sequence)
                    for path, info in tensors_of(value.struct_info)
                }
                self.outputs[value] = tuple(outputs.values())
                places = {path: frozenset({memory}) for path, memory in outputs.items()}
                found: Places = assemble(value.struct_info, places)
                return found
        return self.aliases.of(value)

    def _new_memory(self, info: TensorStructInfo, sequence: g.SeqExpr) -> Memory:
        memory = Memory(Owner.FUNCTION)
        self._made[memory] = sequence, info
        return memory

    # ------------------------------------------------------------------------------------- branches

    def _branches(self, value: g.If, sequence: g.SeqExpr) -> Places:
        branches = value.true_branch, value.false_branch
        given = []
        for branch in branches:
            self._sequence(branch)
            given.append(self.aliases.of(branch.body))
        whole = self.aliases.of(value)
        wanted: dict[Path, tuple[Memory, TensorStructInfo]] = {}
        for path, info in tensors_of(value.struct_info):
            parts = [_part(places, path) for places in given]
            if parts[0] == parts[1] or info.shape is None or info.dtype is None:
                continue
            memory = self._new_memory(info, sequence)
            wanted[path] = memory, info
            for branch, places in zip(branches, parts, strict=True):
                if not self._compute_at(memory, info, places, branch):
                    self.copied.add((branch, path))
        self.wanted[value] = wanted
        found = {path: memory for path, (memory, _) in wanted.items()}
        return _replace_places(value.struct_info, whole, found)

    def _compute_at(
        self, memory: Memory, info: TensorStructInfo, places: Places, branch: g.SeqExpr
    ) -> bool:
        """Compute the result of a branch in a memory; return False if that is impossible."""
        found = [*memories(places)]
        if len(found) != 1:
            return False
        source = self.place(found[0])
        created, tensor = self._made.get(source, (None, None))
        if created is not branch or tensor is None or source in self.aliases.escaped:
            return False
        if not same_elements(info, tensor):
            return False
        self._place[source] = memory
        return True

    # ---------------------------------------------------------------------------------------- calls

    def _call(
        self, value: g.GraphCall, call: DestinationPassing, binding: g.Binding, sequence: g.SeqExpr
    ) -> Places:
        outputs: list[Memory | None] = []
        places: list[Places] = []
        for info, index in zip(call.outputs, call.inplace, strict=True):
            if index == FRESH:
                index = self._overwritten(value, call, len(outputs), binding, sequence)
            if index != FRESH and self._may_overwrite(call, index, binding):
                outputs.append(None)
                places.append(self.aliases.of(call.args[index]))
            else:
                outputs.append(self._new_memory(info, sequence))
                places.append(frozenset({outputs[-1]}))  # type: ignore[arg-type]
        self.outputs[value] = tuple(outputs)
        return tuple(places) if call.gives_tuple else places[0]

    def _overwritten(
        self,
        value: g.GraphCall,
        call: DestinationPassing,
        output: int,
        binding: g.Binding,
        sequence: g.SeqExpr,
    ) -> int:
        """Return the argument that an output overwrites instead of getting new memory, else
        `FRESH`.

        The argument must be a tensor of the same sequence, because a result in the memory of an
        outer sequence would be copied at the end of the branch. Only values from which the new
        contents of a parameter are computed may overwrite it; others would have to be copied later.
        """
        if self._overwritable is None:
            return FRESH
        taken = self.overwritten.setdefault(value, {})
        for index in self._overwritable(call).get(output, ()):
            found = [*memories(self.aliases.of(call.args[index]))]
            if (
                index not in taken.values()
                and len(found) == 1
                and self._made.get(found[0], (None,))[0] is sequence
                and binding.var in self._sources.get(found[0], {binding.var})
                and self._may_overwrite(call, index, binding)
            ):
                taken[output] = index
                return index
        return FRESH

    def _may_overwrite(self, call: DestinationPassing, index: int, binding: g.Binding) -> bool:
        """Return True if an argument has no later use, and no other use in the call."""
        aliases = self.aliases
        target = set(memories(aliases.of(call.args[index])))
        others = (arg for k, arg in enumerate(call.args) if k != index)
        return (
            bool(target)
            and all(m.owner is Owner.FUNCTION or m in self.updated for m in target)
            and target.isdisjoint(aliases.escaped)
            and target.isdisjoint(memory for arg in others for memory in memories(aliases.of(arg)))
            and not any(self._lifetimes.is_used_after(binding, aliases.holders[m]) for m in target)
        )

    def _is_into_memory(self, value: g.GraphCall) -> bool:
        """Return True if the result of a graph function can be written to memory that the caller
        allocates.
        """
        called = called_graph(value)
        if called is None or called.outputs is not None or self._escapes(called.callee).result:
            return False
        infos = leaves(value.struct_info)
        return bool(infos) and all(
            isinstance(info, TensorStructInfo) and info.shape is not None and info.dtype is not None
            for info in infos
        )


def find_escapes(mod: IRModule) -> EscapesOf:
    """Return a function that maps the name of a graph function to its `Escapes`.

    A tensor that a graph function returns is always in separate memory.
    """
    functions = graph_functions(mod)
    known = dict.fromkeys(functions, _NOTHING)

    def escapes(name: GlobalVar) -> Escapes:
        found = known.get(name.name)
        # A tensor function keeps no memory; an unknown function may keep all of its arguments.
        return (_NOTHING if name.name in mod.functions else _ALL) if found is None else found

    order = callees_first(functions)
    changed = True
    while changed:  # recursive functions need several rounds
        changed = False
        for name in order:
            before, found = known[name], _escapes_of(functions[name], escapes)
            known[name] = before | found
            changed |= known[name] != before
    return escapes


_NOTHING = Escapes(False, False)
_ALL = Escapes(True, True)


def _escapes_of(func: Function, escapes: EscapesOf) -> Escapes:
    aliases = ValueMemory(func, escapes).aliases
    results = aliases.of(func.body.body)
    arguments = set(aliases.escaped)
    infos, places = leaves(func.ret_struct_info), leaf_places(results)
    for k, info in enumerate(infos):
        if not has_own_memory(info) or len(infos) != len(places):
            arguments.update(memories(results) if len(infos) != len(places) else places[k])
    return Escapes(
        any(memory.owner is Owner.ARGUMENT for memory in arguments),
        any(m.owner is Owner.FUNCTION and m in aliases.escaped for m in memories(results)),
    )


def tensors_of(info: StructInfo) -> Iterator[tuple[Path, TensorStructInfo]]:
    """Yield the tensors of a value with their paths."""
    for path, leaf in fields_of(info):
        if isinstance(leaf, TensorStructInfo):
            yield path, leaf


def _dependencies(body: g.SeqExpr, k: int) -> set[g.GraphVar]:
    """Return the variables on which the new contents of updated parameter `k` depend."""
    value = body.body
    for field in (1, k):
        value = value.elements[field] if isinstance(value, g.Tuple) else value
    found = set(used_vars(value))
    for binding in reversed(body.bindings):
        if binding.var in found:
            found.update(used_vars(binding.value))
    return found


def _part(places: Places, path: Path) -> Places:
    """Return the places of a part of a value; of the whole value if its parts are unknown."""
    for k in path:
        if not isinstance(places, tuple):
            return places
        places = places[k]
    return places


def _replace_places(
    info: StructInfo, places: Places, parts: dict[Path, Memory], path: Path = ()
) -> Places:
    """Return the places of a value with `parts` at some paths."""
    if path in parts:
        return frozenset({parts[path]})
    if isinstance(info, TupleStructInfo):
        return tuple(
            _replace_places(field, _part(places, (k,)), parts, (*path, k))
            for k, field in enumerate(info.elements)
        )
    return places
