"""The call graph of a module, and the values that its graph functions write.

Values of a graph are immutable until their memory is explicit, with one exception: a direct call of
a tensor function that writes to a parameter, which programs for TVM use for persistent memory. A
variable aliases the array of another value if it is bound to it, takes it out of a tuple, or
selects it by an `If`; the results of calls have new memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.memory.written_parameters import written_parameters
from tensorir.nodes.expr import Call, GlobalVar
from tensorir.nodes.node import Node
from tensorir.relax import expr as g
from tensorir.relax.calls import COPY_INTO, VIEW, called_graph
from tensorir.relax.function import Function, graph_functions
from tensorir.rewriting.visit import walk


def call_sites(func: BaseFunc | None) -> Counter[str]:
    """Return the number of references from a function to each other function, in order of
    appearance.

    Each reference counts once, executed or not. Functions of unknown classes count as functions
    without references.
    """
    found: Counter[str] = Counter()
    if isinstance(func, (Function, PrimFunc)):
        for node in walk(func.body):
            if isinstance(node, Call):
                node = node.op  # type: ignore[assignment]
            if isinstance(node, GlobalVar):
                found[node.name] += 1
    return found


def graph_calls(mod: IRModule) -> Iterator[g.GraphCall]:
    """Yield the calls in the graph functions of a module."""
    for func in graph_functions(mod).values():
        yield from (node for node in walk(func.body) if isinstance(node, g.GraphCall))


def callees(func: BaseFunc | None) -> list[str]:
    """Return the functions that a function refers to, each once, in order of appearance."""
    return list(call_sites(func))


def run_counts(functions: Mapping[str, BaseFunc]) -> Counter[str]:
    """Return the number of runs of each function if every function without a caller runs once.

    Calls are multiplied along graph functions, and both branches of an `If` count. Calls that close
    a cycle do not count, because the number of iterations is unknown.
    """
    sites = {name: call_sites(func) for name, func in functions.items()}
    order = callees_first(functions)
    places = {name: place for place, name in enumerate(order)}
    runs: Counter[str] = Counter()
    for name in reversed(order):
        runs[name] = runs[name] or 1
        for callee, count in sites[name].items():
            if places.get(callee, places[name]) < places[name]:
                runs[callee] += runs[name] * count
    return runs


def names_of_callees(functions: Mapping[str, BaseFunc]) -> set[str]:
    """Return the functions that any of these functions refers to."""
    return {name for func in functions.values() for name in callees(func)}


def remove_unreferenced(mod: IRModule, names: Iterable[str]) -> None:
    """Remove the private functions among `names` that no function of a module refers to."""
    needed = names_of_callees(mod.functions)
    for name in names:
        if name not in needed and "global_symbol" not in mod[name].attrs:
            del mod[name]


def all_callees(functions: Mapping[str, BaseFunc], names: Iterable[str]) -> list[str]:
    """Return functions and their direct and indirect callees, including unknown functions.

    A function is followed by its new callees, in the order of the calls.
    """
    found: dict[str, None] = {}
    waiting = [*names][::-1]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            waiting += callees(functions.get(name))[::-1]
    return list(found)


def callees_first(functions: Mapping[str, BaseFunc]) -> list[str]:
    """Return the names of functions, each after its callees (cycles aside)."""
    order: dict[str, None] = {}
    entered: set[str] = set()
    for start in functions:
        stack: list[tuple[str, Iterator[str]]] = [("", iter([start]))]
        while stack:
            name, inner = stack[-1]
            callee = next((n for n in inner if n in functions and n not in entered), None)
            if callee is not None:
                entered.add(callee)
                stack.append((callee, iter(callees(functions[callee]))))
            else:
                order[name] = None
                stack.pop()
    return [name for name in order if name]


def written_values(func: Function, mod: IRModule) -> set[Node]:
    """Return the values that a graph function may write, including parameters and constants."""
    return _WrittenValues(mod, {}).of(func)


class _WrittenValues:
    def __init__(self, mod: IRModule, known: dict[Function, set[Node]]) -> None:
        self._mod = mod
        self._known = known
        self._bound: dict[g.GraphVar, Node] = {}

    def of(self, func: Function) -> set[Node]:
        """Return the values that a function may write."""
        found = self._known.get(func)
        if found is not None:
            return found
        found = self._known[func] = set()  # a recursive call writes no further values
        bindings = [node for node in walk(func.body) if isinstance(node, g.Binding)]
        self._bound = {binding.var: binding.value for binding in bindings}
        waiting = [arg for binding in bindings for arg in self._written_by(binding.value)]
        while waiting:
            value = waiting.pop()
            if value not in found:
                found.add(value)
                waiting += self._sources(value)
        return found

    def _written_by(self, value: Node) -> list[Node]:
        """Return the arguments that a call writes."""
        if isinstance(value, g.GraphCall) and value.op is COPY_INTO:
            return [value.args[1]]
        call = called_graph(value) if isinstance(value, g.GraphCall) else None
        if call is None:
            return []
        callee = self._mod.functions.get(call.callee.name)
        if isinstance(callee, PrimFunc):
            written: set[Node] = set(written_parameters(callee, self._mod))
        elif isinstance(callee, Function):
            written = _WrittenValues(self._mod, self._known).of(callee)
        else:
            return []
        pairs = zip(callee.params, call.args, strict=False)
        found: list[Node] = [arg for param, arg in pairs if param in written]
        return [*found, *(call.outputs or ())]

    def _sources(self, value: Node) -> list[Node]:
        """Return the values whose arrays a value may alias or contain."""
        if isinstance(value, g.GraphVar):
            return [self._bound[value]] if value in self._bound else []
        if isinstance(value, g.Tuple):
            return list(value.elements)
        if isinstance(value, g.TupleGetItem):
            whole = self._bound.get(value.tuple_value, value.tuple_value)  # type: ignore[call-overload]
            return [whole.elements[value.index]] if isinstance(whole, g.Tuple) else [whole]
        if isinstance(value, g.If):
            return [value.true_branch.body, value.false_branch.body]
        if isinstance(value, g.GraphCall) and value.op is VIEW:
            return [value.args[0]]
        return []
