"""The values that a graph function writes: arrays of its caller, and constants.

Values of a graph are immutable, with one exception: a direct call of a tensor function that writes
to a parameter, which programs for TVM use for persistent memory. A variable aliases the array of
another value if it is bound to it, takes it out of a tuple, or selects it by an `If`; the results
of calls have new memory.
"""

from __future__ import annotations

from tensorir.function import IRModule, PrimFunc
from tensorir.memory.written_parameters import written_parameters
from tensorir.nodes.node import Node
from tensorir.relax import expr as g
from tensorir.relax.calls import VIEW, called_graph
from tensorir.relax.function import Function
from tensorir.rewriting.visit import walk


def written_values(func: Function, mod: IRModule) -> set[Node]:
    """Return the values that a graph function may write, with parameters and constants."""
    return _Values(mod, {}).of(func)


class _Values:
    def __init__(self, mod: IRModule, known: dict[Function, set[Node]]) -> None:
        self._mod = mod
        self._known = known
        self._bound: dict[g.GraphVar, Node] = {}

    def of(self, func: Function) -> set[Node]:
        """Return the values that a function may write."""
        found = self._known.get(func)
        if found is not None:
            return found
        found = self._known[func] = set()  # recursive calls add nothing
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
        call = called_graph(value) if isinstance(value, g.GraphCall) else None
        if call is None:
            return []
        callee = self._mod.functions.get(call.callee.name)
        if isinstance(callee, PrimFunc):
            written: set[Node] = set(written_parameters(callee, self._mod))
        elif isinstance(callee, Function):
            written = _Values(self._mod, self._known).of(callee)
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
